"""A client of the bulk interface, for threads. waypost.api.bulk explains the operations and replies.

It uses the connections of the HTTP transport, one for each thread with a request. All operations of the bulk interface
can be repeated safely, so the client sends a request again, on another connection, if its answer was lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import UNSET

from waypost.api.bulk import (
    DEFAULT_LEASE_S,
    BatchOfQuery,
    Claim,
    Claimed,
    ClaimObject,
    CommitStages,
    Committed,
    DropStages,
    ListBatches,
    ListClaims,
    ReadClaim,
    ReadRange,
    Removed,
    RemoveRange,
    ReturnClaim,
    Stage,
    StagedMessages,
)
from waypost.api.frames import Frame
from waypost.api.operations import Operation
from waypost.client.bulk.paging import frames_ahead
from waypost.client.bulk.reading import BulkReading
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.blocking import Http

R = TypeVar("R")


class BulkClient(BulkReading):
    """Bulk access to the daemon at `url`: thousands of messages at once. Close it, or use it in a `with` statement.

        with BulkClient("http://127.0.0.1:8181") as client:
            end = client.queue("orders").stable
            for frame in client.read_all(ReadRange(name="orders", up_to=end)):
                print(frame.count, len(frame.packets))

    Names of queues are those of `waypost.connect`; the format name of an outgoing queue means that queue. `token` is
    the bearer token for the daemon, and `timeout` the number of seconds for a connection or an answer.

    Raises CannotConnect if no daemon answers, and the WaypostError that the daemon reports.
    """

    __slots__ = ("_transport", "url")

    def __init__(self, url: str, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.url: Final = url
        self._transport: Final = Http(Address.parse(url, token, timeout))

    def __repr__(self) -> str:
        return f"<BulkClient of {self.url}>"

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._transport.close()

    def call(self, operation: Operation[R], /) -> R:
        return self._transport.call(operation)

    def read_all(self, wanted: ReadRange) -> Iterator[Frame]:
        return frames_ahead(self.read, wanted)

    def remove(self, wanted: RemoveRange) -> Removed:
        """Remove the messages of a range from the queue, as a receive does."""
        return self.call(wanted)

    # Claims.

    def claim(self, wish: Claim) -> Claimed:
        """Report the processed parts, and claim the next part. The answer has its number.

        Raises TransactionSequence if the claim of a processed part has ended: other readers can claim its messages.
        """
        return self.call(wish)

    def settle(self, name: str, claim: str, after: int, *, epoch: str = "") -> None:
        """Remove the parts up to number `after` from the queue, and claim no other part.

        A later part that is claimed already stays claimed.
        """
        self.call(Claim(name=name, claim=claim, after=after, max_messages=0, epoch=epoch))

    def read_claim(self, wanted: ReadClaim) -> Frame:
        """The messages of a part, as many as the limits allow."""
        return self.call(wanted)

    def read_claim_all(self, wanted: ReadClaim) -> Iterator[Frame]:
        """All messages of the places, in frames of at least one message."""
        return frames_ahead(self.read_claim, wanted)

    def return_claim(self, name: str, claim: str) -> int:
        """Give back the messages of a claim. Returns their number."""
        return self.call(ReturnClaim(name=name, claim=claim)).count

    def claims(self, name: str) -> list[ClaimObject]:
        """The parts of the queue that readers have claimed."""
        return self.call(ListClaims(name=name)).claims

    # Stages.

    def stage(
        self,
        query: str,
        batch: int,
        groups: Iterable[StagedMessages],
        *,
        destination: str | None = None,
        run: str = "",
        lease_s: float = DEFAULT_LEASE_S,
    ) -> str:
        """Write messages that readers do not see yet. Returns the id of the stage, or "" if another run has committed
        the batch.

        A request with a lost answer leaves an unknown stage, which ends with the commit of the batch or with its lease.
        Raises TransactionSequence if this run has committed the batch, or has no name.
        """
        to = UNSET if destination is None else destination
        wish = Stage(query=query, batch=batch, destination=to, run=run, groups=list(groups), lease_s=lease_s)
        return self.call(wish).stage

    def drop(self, stages: Sequence[str], batch: BatchOfQuery | None = None) -> None:
        """Delete stages, if they exist, and other stages of the run for its batch."""
        self.call(DropStages(stages=list(stages), batch=UNSET if batch is None else batch))

    def commit(
        self, query: str, batch: int, stages: Sequence[str], *, destination: str | None = None, run: str = ""
    ) -> Committed:
        """Make staged messages visible in one step, unless the batch was committed before; drop its other stages.

        Raises QueueDeleted if messages went with their queue, and TransactionSequence for a second write of the batch.
        """
        to = UNSET if destination is None else destination
        named = list(filter(None, stages))
        return self.call(CommitStages(query=query, batch=batch, destination=to, run=run, stages=named))

    def batches(self, query: str) -> list[int]:
        """The last committed batches of the query, in ascending order."""
        return self.call(ListBatches(query=query)).batches
