"""A client of the bulk interface, for threads: see waypost.api.bulk for what the operations and replies mean.

It uses the connections of the HTTP transport, one for each thread that asks at the same time. Whatever the bulk
interface offers can be asked for twice, so a request whose answer was lost is asked again on another connection.
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
    """Thousands of messages at once, from the daemon at `url`. Close it, or use it in a `with` statement.

        with BulkClient("http://127.0.0.1:8181") as client:
            end = client.queue("orders").stable
            for frame in client.read_all(ReadRange(name="orders", up_to=end)):
                print(frame.count, len(frame.packets))

    A queue is named in any way that `waypost.connect` knows; the format name of an outgoing queue means that one.
    `token` is what the daemon expects, and `timeout` how many seconds a connection or an answer may take.

    Raises CannotConnect if no daemon answers, and the WaypostError that the daemon had.
    """

    __slots__ = ("_transport", "url")

    def __init__(self, url: str, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.url: Final = url
        self._transport: Final = Http(Address.parse(url, token, timeout))

    def __repr__(self) -> str:
        return f"<BulkClient of {self.url}>"

    def close(self) -> None:
        """Let the connections go. A second time it does nothing."""
        self._transport.close()

    def call(self, operation: Operation[R], /) -> R:
        return self._transport.call(operation)

    def read_all(self, wanted: ReadRange) -> Iterator[Frame]:
        return frames_ahead(self.read, wanted)

    def remove(self, wanted: RemoveRange) -> Removed:
        """Take messages of a range out of the queue, as a receive does."""
        return self.call(wanted)

    # Claims.

    def claim(self, wish: Claim) -> Claimed:
        """Say which parts are processed, and get the next one; its number is that of the answer, whichever it is.

        Raises TransactionSequence if the part that was processed is not claimed any more: its messages are for others.
        """
        return self.call(wish)

    def settle(self, name: str, claim: str, after: int, *, epoch: str = "") -> None:
        """Take the parts up to number `after` out of the queue for good, and claim nothing more.

        If there is a part behind them already, it stays claimed.
        """
        self.call(Claim(name=name, claim=claim, after=after, max_messages=0, epoch=epoch))

    def read_claim(self, wanted: ReadClaim) -> Frame:
        """Messages of a part, as many as the limits allow."""
        return self.call(wanted)

    def read_claim_all(self, wanted: ReadClaim) -> Iterator[Frame]:
        """All of the places, in frames that have one message at least."""
        return frames_ahead(self.read_claim, wanted)

    def return_claim(self, name: str, claim: str) -> int:
        """Give back what is claimed; how many messages that were."""
        return self.call(ReturnClaim(name=name, claim=claim)).count

    def claims(self, name: str) -> list[ClaimObject]:
        """The parts of the queue that readers have."""
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
        """Write messages that nobody sees yet; the id of the stage, or "" if another run has committed the batch.

        A request whose answer was lost leaves a stage behind that nobody knows, and that goes with the commit of the
        batch, or after its lease. Raises TransactionSequence if the batch is committed by this run, or this one has no
        name.
        """
        to = UNSET if destination is None else destination
        wish = Stage(query=query, batch=batch, destination=to, run=run, groups=list(groups), lease_s=lease_s)
        return self.call(wish).stage

    def drop(self, stages: Sequence[str], batch: BatchOfQuery | None = None) -> None:
        """Let nothing be left of stages, whether they are there or not, and of others that a run has for its batch."""
        self.call(DropStages(stages=list(stages), batch=UNSET if batch is None else batch))

    def commit(
        self, query: str, batch: int, stages: Sequence[str], *, destination: str | None = None, run: str = ""
    ) -> Committed:
        """Make stages seen in one moment, unless the batch was committed before; drop its other stages.

        Raises QueueDeleted if messages went with their queue, and TransactionSequence for a second write of the batch.
        """
        to = UNSET if destination is None else destination
        named = list(filter(None, stages))
        return self.call(CommitStages(query=query, batch=batch, destination=to, run=run, stages=named))

    def batches(self, query: str) -> list[int]:
        """The last batches of the query that were committed, ascending."""
        return self.call(ListBatches(query=query)).batches
