"""Stages: messages that are on disk and seen by nobody until a batch is committed, which happens once.

A stage is a lasting transaction that has sent (waypost.core.lasting_transactions). The commit of several stages and the
note that the batch of the query is done are one batch of the store, so a repetition changes nothing, whenever the
process has died. Stages are committed in the order in which they were made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, ShareMode
from waypost.core.transaction_records import Run
from waypost.core.writing import EnqueueStatus
from waypost.errors import InvalidParameter, LimitReached, TransactionSequence, TransactionUsage, UnsupportedFormatName
from waypost.guid import guid_text
from waypost.limits import (
    MAX_BATCHES,
    MAX_BULK_LEASE_SECONDS,
    MAX_BULK_MESSAGES,
    MAX_BULK_NAME,
    MAX_QUERIES,
    MAX_STAGES,
)
from waypost.node import bulk_store
from waypost.node.bulk_leases import Leases
from waypost.node.failures import not_enqueued
from waypost.node.sending import close_unusable, messages_like, new_message, prepare_message, queue_of
from waypost.store import keys
from waypost.store.bulk_records import BatchesRecord, StageRecord
from waypost.store.port import Table
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.node.node import Node


# A query and the number of one of its batches.
Batch = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Group:
    """Messages for one destination: those like `like` with these bodies, then others. They belong to the node."""

    name: FormatName
    like: Message | None = None
    bodies: Sequence[bytes] = ()
    messages: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """How many messages are seen now. `is_repeated` if they were before."""

    count: int
    is_repeated: bool


class Stages:
    """Those of one node, and the batches that are done."""

    __slots__ = ("_batches", "_leases", "_new_guid", "_node", "_stages")

    def __init__(self, node: "Node", kept: bulk_store.Kept, new_guid: Callable[[], bytes], now: Now) -> None:
        """Leases begin anew."""
        self._node: Final = node
        self._new_guid: Final = new_guid
        self._stages: Final = kept.stages
        # The query that was quiet for the longest time comes first.
        self._batches: Final = dict(sorted(kept.batches.items(), key=lambda each: each[1].committed_time))
        self._leases: Final[Leases[bytes]] = Leases()
        for identifier, stage in kept.stages.items():
            self._leases.start(identifier, now.monotonic + stage.lease_s)

    # What a writer asks for, while an operation of the node is under way.

    def stage(self, batch: Batch, groups: Sequence[Group], lease_s: float, now: Now) -> bytes:
        """All messages of the groups, in their order, or none. Returns the GUID of the stage."""
        _check_name(batch[0])
        if len(self._stages) >= MAX_STAGES:
            raise LimitReached(f"{MAX_STAGES} stages wait for their commit already; commit or drop them")
        if sum(len(group.bodies) + len(group.messages) for group in groups) > MAX_BULK_MESSAGES:
            raise InvalidParameter(f"a stage has at most {MAX_BULK_MESSAGES} messages; make several of them")
        node, identifier = self._node, self._new_guid()
        transactions = node.manager.transactions
        transactions.create_transaction(identifier)
        try:
            for group in groups:
                self._send(group, identifier, now)
        except BaseException:
            transactions.transaction_abort(identifier)
            raise
        runs = bulk_store.run_records(node.manager.lasting.keep(identifier))
        stage = StageRecord(min(lease_s, MAX_BULK_LEASE_SECONDS), batch[1], batch[0], runs)
        self._stages[identifier] = stage
        self._leases.start(identifier, now.monotonic + stage.lease_s)
        node.messages.batch.put(Table.BULK, keys.stage_key(identifier), stage.encode())
        return identifier

    def drop(self, identifiers: Sequence[bytes]) -> None:
        """Those that are gone already stay gone."""
        for identifier in identifiers:
            self._drop(identifier)

    def commit(self, batch: Batch, identifiers: Sequence[bytes], now: Now) -> Committed:
        """Make what is staged seen, unless the batch was committed before: then drop it.

        Raises TransactionSequence if a stage is not there, or not one of this batch: then nothing is seen.
        """
        _check_name(batch[0])
        if batch[1] in self.batches(batch[0]):
            self.drop([each for each in identifiers if self.batch_of(each) == batch])
            return Committed(0, is_repeated=True)
        self._check(batch, identifiers)
        count = self._commit(identifiers, now)
        self._remember(batch, now)
        return Committed(count, is_repeated=False)

    def batches(self, query: str) -> list[int]:
        """The last ones of a query that were committed, ascending."""
        done = self._batches.get(query)
        return [] if done is None else list(done.batches)

    def batch_of(self, identifier: bytes) -> Batch | None:
        """The batch that this lasting transaction is a stage of."""
        stage = self._stages.get(identifier)
        return None if stage is None else (stage.query, stage.batch)

    # What a node tells.

    def tick(self, now: Now) -> None:
        while (identifier := self._leases.take_expired(now.monotonic)) is not None:
            self._drop(identifier)

    def next_deadline(self) -> float | None:
        return self._leases.next_deadline()

    # How it is done.

    def _send(self, group: Group, transaction: bytes, now: Now) -> None:
        manager = self._node.manager
        descriptor = manager.open_queue(group.name, AccessType.SEND, ShareMode.DENY_NONE, now)
        try:
            _check_transactional(descriptor)
            if group.bodies:
                self._send_alike(group, descriptor, transaction, now)
            for message in map(new_message, group.messages):
                prepare_message(self._node, descriptor, message, transaction, now)
                message.identifier = manager.message_identifier()
                status = manager.enqueue_message_to_open_queue(descriptor, message, transaction, now)
                if status is not EnqueueStatus.ACCEPTED:
                    raise not_enqueued(descriptor, status)
        except UnsupportedFormatName:
            close_unusable(manager, descriptor)
            raise
        finally:
            manager.close_queue(descriptor)

    def _send_alike(self, group: Group, descriptor: OpenQueueDescriptor, transaction: bytes, now: Now) -> None:
        if group.like is None or descriptor.multiple:
            raise InvalidParameter("bodies need the properties that they share, and one queue to go to")
        like = new_message(group.like)
        prepare_message(self._node, descriptor, like, transaction, now)
        messages = messages_like(like, group.bodies, self._node.manager)
        enqueue = self._node.manager.writing.enqueue_messages
        status = enqueue(queue_of(descriptor), messages, like, transaction, now)
        if status is not EnqueueStatus.ACCEPTED:
            raise not_enqueued(descriptor, status)

    def _check(self, batch: Batch, identifiers: Sequence[bytes]) -> None:
        query, number = batch
        for identifier in identifiers:
            staged = self.batch_of(identifier)
            if staged is None:
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} is gone: it was dropped, or not committed in time; write the "
                    "batch again, with a longer lease if it takes long"
                )
            if staged != batch:
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} is one of batch {staged[1]} of the query {staged[0]}, not of "
                    f"batch {number} of {query}"
                )
        done = self.batches(query)
        if len(done) >= MAX_BATCHES and number < done[0]:
            raise TransactionSequence(
                f"whether batch {number} of the query {query} was committed is not known any more, but of its batches "
                f"from {done[0]} on"
            )

    def _commit(self, identifiers: Sequence[bytes], now: Now) -> int:
        lasting = self._node.manager.lasting
        runs = {identifier: lasting.collection[identifier] for identifier in identifiers}
        # In the order of their making, in which their messages stand.
        ordered = sorted(runs, key=lambda identifier: _first_place(runs[identifier]))
        # A queue that was deleted meanwhile took its messages along.
        count = sum(len(run) for run in chain.from_iterable(runs.values()) if not run.queue.is_deleted)
        lasting.commit(ordered, now.wall)
        for identifier in ordered:
            self._forget(identifier)
        return count

    def _remember(self, batch: Batch, now: Now) -> None:
        query, number = batch
        done = self._batches.pop(query, None) or BatchesRecord(0)
        done.committed_time = int(now.wall)
        done.batches = sorted((*done.batches, number))[-MAX_BATCHES:]
        self._batches[query] = done
        self._node.messages.batch.put(Table.BULK, keys.batches_key(query), done.encode())
        if len(self._batches) > MAX_QUERIES:
            oldest = next(iter(self._batches))
            del self._batches[oldest]
            self._node.messages.batch.delete(Table.BULK, keys.batches_key(oldest))

    def _drop(self, identifier: bytes) -> None:
        if identifier in self._stages:
            self._node.manager.lasting.drop(identifier)
            self._forget(identifier)

    def _forget(self, identifier: bytes) -> None:
        del self._stages[identifier]
        self._leases.end(identifier)
        self._node.messages.batch.delete(Table.BULK, keys.stage_key(identifier))


def _check_name(query: str) -> None:
    if not 0 < len(query.encode("utf-8", "surrogatepass")) <= MAX_BULK_NAME:
        raise InvalidParameter(f"a query has a name of 1 to {MAX_BULK_NAME} bytes, a GUID for example")


def _first_place(runs: Sequence[Run]) -> int:
    return next((span.start for run in runs for span in run.spans), 0)


def _check_transactional(descriptor: OpenQueueDescriptor) -> None:
    for each in descriptor.multiple or (descriptor,):
        queue = queue_of(each)
        if not isinstance(queue, OutgoingQueue) and not queue.attributes.transactional:
            raise TransactionUsage(
                f"{queue} is not transactional, so nothing can be staged for it: create it with --transactional, or "
                "write with delivery=at-least-once"
            )
