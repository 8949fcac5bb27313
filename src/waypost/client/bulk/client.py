"""A client of the bulk interface, for threads. waypost.api.bulk explains the operations and replies.

It uses the connections of the HTTP transport, one for each thread with a request. All operations of the bulk interface
can be repeated safely, so the client sends a request again, on another connection, if its answer was lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.bulk import (
    DEFAULT_LEASE_S,
    BatchOfQuery,
    CommitStages,
    Committed,
    DropStages,
    ListBatches,
    MessagesToRemove,
    ReadRange,
    Removed,
    RemoveRange,
    Stage,
    StagedMessages,
)
from waypost.api.claims import (
    Claim,
    Claimed,
    ClaimObject,
    KeepClaim,
    ListAllClaims,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    TakeClaim,
    Taken,
)
from waypost.api.frames import Frame
from waypost.api.operations import Operation
from waypost.client.bulk.paging import frames_ahead
from waypost.client.bulk.reading import BulkReading
from waypost.client.transports.http.address import DEFAULT_TIMEOUT, Address
from waypost.client.transports.http.blocking import Http
from waypost.errors import InsufficientResources

# Time for which a commit waits without any progress for room in a full queue.
DEFAULT_QUOTA_WAIT_S: Final = 600.0

R = TypeVar("R")


class BulkClient(BulkReading):
    """Bulk access to the daemon at `url`: thousands of messages at once. Use it in a `with` statement, or close it.

        with BulkClient("http://127.0.0.1:8181") as client:
            end = client.queue("orders").stable
            for frame in client.read_all(ReadRange(name="orders", up_to=end)):
                print(frame.count, len(frame.packets))

    Names of queues are the same as for `waypost.connect`. The format name of an outgoing queue refers to the outgoing
    queue, not to its destination. `token` is the bearer token for the daemon. `timeout` is the maximum time to connect
    and the maximum time for an answer, in seconds.

    Raises CannotConnect if no daemon answers, and the WaypostError that the daemon reports.
    """

    __slots__ = ("_timeout", "_transport", "url")

    def __init__(self, url: str, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.url: Final = url
        self._timeout: Final = timeout
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
        """Report the processed parts, and claim the next part. The answer contains the number of the next part.

        Raises TransactionSequence if the claim of a processed part has ended. Other readers can then claim its
        messages.
        """
        return self.call(wish)

    def settle(self, name: str, claim: str, after: int, *, epoch: str = "") -> None:
        """Remove the parts up to number `after` from the queue, and claim no other part.

        Later parts that are already claimed stay claimed.
        """
        self.call(Claim(name=name, claim=claim, after=after, max_messages=0, epoch=epoch))

    def take_claim(self, wish: TakeClaim) -> Taken:
        """Take a claim at the start of a reader. The answer contains the term, which all further requests must use.

        Raises ClaimTaken if the claim belongs to a query, and the reader has no checkpoint.
        """
        return self.call(wish)

    def keep_claim(self, wish: KeepClaim) -> None:
        """Renew the lease of a claim. Raises ClaimTaken if the term of the reader has ended."""
        self.call(wish)

    def read_claim(self, wanted: ReadClaim) -> Frame:
        """Return the messages of a part, as many as the limits allow."""
        return self.call(wanted)

    def read_claim_all(self, wanted: ReadClaim) -> Iterator[Frame]:
        """Return all messages of a part, in frames of at least one message."""
        return frames_ahead(self.read_claim, wanted)

    def return_claim(self, name: str, claim: str) -> int:
        """Return the messages of a claim to the queue, and return the number of these messages."""
        return self.call(ReturnClaim(name=name, claim=claim)).count

    def claims(self, name: str | None = None) -> list[ClaimObject]:
        """List the parts that readers have claimed, in one queue or in all queues."""
        return self.call(ListAllClaims() if name is None else ListClaims(name=name)).claims

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
        partition: int = 0,
        serial: int = 0,
    ) -> str:
        """Write messages that readers do not see until a commit.

        Returns the id of the stage, or "" if another run has committed the batch. A commit sorts its stages by
        `partition`, then by `serial`, then by the order in which they were staged. If the answer is lost, the client
        does not know the id of the stage. Such a stage is deleted when the batch is committed, or when its lease
        expires. Raises TransactionSequence if this run has already committed the batch, or if the run has no name.
        """
        to = UNSET if destination is None else destination
        wish = Stage(
            query=query,
            batch=batch,
            destination=to,
            run=run,
            groups=list(groups),
            lease_s=lease_s,
            partition=partition,
            serial=serial,
        )
        return self.call(wish).stage

    def drop(self, stages: Sequence[str], batch: BatchOfQuery | None = None) -> None:
        """Delete these stages, if they exist. With `batch`, also delete all other stages of that run for the batch."""
        self.call(DropStages(stages=list(stages), batch=UNSET if batch is None else batch))

    def commit(
        self,
        query: str,
        batch: int,
        stages: Sequence[str],
        *,
        destination: str | None = None,
        run: str = "",
        removes: Sequence[MessagesToRemove] = (),
        is_whole: bool = False,
        quota_wait_s: float = DEFAULT_QUOTA_WAIT_S,
    ) -> Committed:
        """Commit these stages, and delete the other stages of the batch.

        If the batch is already committed, nothing changes, and these stages are also deleted. The messages in `removes`
        leave their queues in the same step. `is_whole` means that the batch has no other commit, so that a claim of the
        query counts as processed. Returns when all messages are in their queues.

        Raises QueueDeleted if a queue was deleted together with staged messages, TransactionSequence for a second write
        of the batch, MessageNotFound if a message in `removes` no longer exists, and SharingViolation if another reader
        has locked such a message. After these errors, nothing is committed or removed. Raises InsufficientResources as
        `commit_all` does.
        """
        to = UNSET if destination is None else destination
        wish = CommitStages(
            query=query,
            batch=batch,
            destination=to,
            run=run,
            stages=list(filter(None, stages)),
            removes=list(removes),
            is_whole=is_whole,
        )
        return self.commit_all(wish, quota_wait_s)

    def commit_all(self, wish: CommitStages, quota_wait_s: float = DEFAULT_QUOTA_WAIT_S) -> Committed:
        """Commit, and wait until all messages are in their queues. Messages may wait until readers make room.

        Raises InsufficientResources if no message enters its queue for `quota_wait_s` seconds. The batch is committed
        even after this error: the remaining messages enter their queues when the queues have room, and repeating the
        call duplicates nothing.
        """
        wish = replace(wish, wait_s=min(wish.wait_s, quota_wait_s, self._timeout / 2))
        first = answer = self.call(wish)
        left, since = answer.left, monotonic()
        while answer.left:
            if answer.left < left:
                left, since = answer.left, monotonic()
            elif monotonic() - since >= quota_wait_s:
                raise InsufficientResources(
                    f"batch {wish.batch} of the query {wish.query} is committed, but {answer.left} of its messages "
                    f"wait for room in their queue, and no message has entered the queue for {quota_wait_s:g} seconds; "
                    "to let the waiting messages enter the queue, receive messages or raise the quota; writing the "
                    "batch again does not duplicate messages"
                )
            answer = self.call(wish)
        return replace(first, left=0)

    def batches(self, query: str) -> list[int]:
        """The last committed batches of the query, in ascending order."""
        return self.call(ListBatches(query=query)).batches
