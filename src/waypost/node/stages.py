"""Stages: messages on disk that no reader sees until their batch is committed, which happens once.

A stage is a lasting transaction that has sent (waypost.core.lasting_transactions). The commit of several stages and the
record that the batch of the query is committed (waypost.node.committed_batches) are one batch of the store, so a
repetition changes nothing, after any crash. Stages are committed in the order in which they were made, and all of
their messages or none: if a queue was deleted meanwhile, the commit is refused. Other stages of the batch are dropped
with the commit, because they can no longer be committed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from waypost.api.bulk import Committed, Staged
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, ShareMode
from waypost.core.stored_message import messages_like
from waypost.core.transaction_records import Run
from waypost.core.writing import EnqueueStatus
from waypost.errors import (
    InvalidParameter,
    LimitReached,
    QueueDeleted,
    TransactionSequence,
    TransactionUsage,
    UnsupportedFormatName,
)
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import MAX_BULK_LEASE_SECONDS, MAX_BULK_MESSAGES, MAX_BULK_NAME, MAX_STAGES
from waypost.node import bulk_store
from waypost.node.committed_batches import CommittedBatches, Key, check_repeats, destination_of, digest_of
from waypost.node.failures import not_enqueued
from waypost.node.kernel import Kernel
from waypost.node.sending import Sending, close_unusable, new_message, queue_of
from waypost.store import keys
from waypost.store.bulk_records import CommitRecord, StageRecord
from waypost.store.port import Table
from waypost.wire.format_names import FormatName


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, as one of its runs writes it.

    `destination` is the queue for all messages, BY_COLUMN if each names its queue, or None for a batch that is
    committed once to any destination. `run` is a GUID, NULL if unknown.
    """

    query: str
    number: int
    destination: FormatName | str | None = None
    run: bytes = NULL_GUID


@dataclass(frozen=True, slots=True)
class Group:
    """Messages for one destination: those like `like` with these bodies, then others. They belong to the node."""

    name: FormatName
    like: Message | None = None
    bodies: Sequence[bytes] = ()
    messages: Sequence[Message] = ()


class Stages:
    """The stages of one node, and the committed batches."""

    __slots__ = ("_by_batch", "_kernel", "_manager", "_new_guid", "_sending", "_stages", "commits")

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        sending: Sending,
        kept: bulk_store.Kept,
        new_guid: Callable[[], bytes],
    ) -> None:
        """Leases begin again."""
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sending: Final = sending
        self._new_guid: Final = new_guid
        self._stages: Final = kept.stages
        # The stages of each query and batch.
        self._by_batch: Final[dict[tuple[str, int], dict[bytes, None]]] = {}
        self.commits: Final = CommittedBatches(kernel, kept.commits)
        for identifier, stage in kept.stages.items():
            self._begin(identifier, stage, kernel.now)

    # Calls for a writer, while an operation of the node is under way.

    def stage(self, batch: Batch, groups: Sequence[Group], lease_s: float, now: Now) -> Staged:
        """Stage all messages of the groups, in order, or none.

        Nothing is kept for a batch that another run has committed. Raises TransactionSequence if this one has.
        """
        key = self._key(batch)
        done = self.commits.find(key)
        if done is not None:
            check_repeats(done, key, batch.run)
            return Staged("", 0, is_committed=True)
        self.commits.check_room(key, now.wall)
        if len(self._stages) >= MAX_STAGES:
            raise LimitReached(f"the limit of {MAX_STAGES} uncommitted stages is reached; commit or drop some")
        if sum(len(group.bodies) + len(group.messages) for group in groups) > MAX_BULK_MESSAGES:
            raise InvalidParameter(f"a stage must have at most {MAX_BULK_MESSAGES} messages; make several stages")
        identifier = self._new_guid()
        transactions = self._manager.transactions
        transactions.create_transaction(identifier)
        try:
            for group in groups:
                self._send(group, identifier, now)
        except BaseException:
            transactions.transaction_abort(identifier)
            raise
        runs = bulk_store.run_records(self._manager.lasting.keep(identifier))
        lease_s = min(lease_s, MAX_BULK_LEASE_SECONDS)
        stage = StageRecord(lease_s, key.batch, key.query, runs, key.destination, batch.run)
        self._stages[identifier] = stage
        self._begin(identifier, stage, now)
        self._kernel.messages.batch.put(Table.BULK, keys.stage_key(identifier), stage.encode())
        return Staged(guid_text(identifier), stage.count)

    def drop(self, identifiers: Sequence[bytes]) -> None:
        """Drop these stages. Those that are gone already do not matter."""
        for identifier in identifiers:
            self._drop(identifier)

    def drop_batch(self, batch: Batch) -> None:
        """Drop all stages of this run for a batch, including those of lost tasks."""
        key = self._key(batch)
        for identifier in list(self._by_batch.get((key.query, key.batch), ())):
            stage = self._stages[identifier]
            if stage.destination == key.destination and stage.run == batch.run:
                self._drop(identifier)

    def commit(self, batch: Batch, identifiers: Sequence[bytes], now: Now) -> Committed:
        """Make the staged messages visible, unless done before; drop other stages of the batch.

        Raises TransactionSequence if a stage is missing, or belongs to another batch or run, or if this is a second
        write of the batch; QueueDeleted if messages were deleted with their queue. Then nothing becomes visible.
        """
        key = self._key(batch)
        done = self.commits.find(key)
        if done is not None:
            check_repeats(done, key, batch.run, digest_of(identifiers))
            self._drop_all(key)
            return Committed(0, is_repeated=True)
        self._check(key, batch.run, identifiers)
        self.commits.check_room(key, now.wall)
        self._check_disk(identifiers)
        count = self._commit(identifiers, now)
        self._drop_all(key)
        self.commits.remember(key, CommitRecord(key.batch, batch.run, digest_of(identifiers), count), now.wall)
        return Committed(count, is_repeated=False)

    def batches(self, query: str) -> list[int]:
        """The last committed batches of a query, ascending."""
        return self.commits.batches(query)

    def key_of(self, identifier: bytes) -> Key | None:
        """The batch of the stage that this lasting transaction is."""
        stage = self._stages.get(identifier)
        return None if stage is None else Key(stage.query, stage.batch, stage.destination)

    # Internals.

    def _send(self, group: Group, transaction: bytes, now: Now) -> None:
        manager = self._manager
        descriptor = manager.open_queue(group.name, AccessType.SEND, ShareMode.DENY_NONE, now)
        try:
            _check_transactional(descriptor)
            if group.bodies:
                self._send_alike(group, descriptor, transaction, now)
            for message in map(new_message, group.messages):
                self._sending.prepare(descriptor, message, transaction, now)
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
            raise InvalidParameter("bodies need `like` and exactly one destination queue")
        like = new_message(group.like)
        self._sending.prepare(descriptor, like, transaction, now, group.bodies)
        ordinal = self._manager.first_ordinal(len(group.bodies))
        messages = messages_like(like, group.bodies, self._manager.identity.identifier, ordinal)
        enqueue = self._manager.writing.enqueue_messages
        status = enqueue(queue_of(descriptor), messages, like, transaction, now)
        if status is not EnqueueStatus.ACCEPTED:
            raise not_enqueued(descriptor, status)

    def _key(self, batch: Batch) -> Key:
        if not 0 < len(batch.query.encode("utf-8", "surrogatepass")) <= MAX_BULK_NAME:
            raise InvalidParameter(f"the name of a query must have 1 to {MAX_BULK_NAME} bytes: use a GUID, for example")
        to = batch.destination
        if isinstance(to, FormatName):
            to = destination_of(to, self._manager.collection)
        return Key(batch.query, batch.number, to)

    def _check(self, key: Key, run: bytes, identifiers: Sequence[bytes]) -> None:
        for identifier in identifiers:
            staged = self.key_of(identifier)
            if staged is None:
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} does not exist: it was dropped, or not committed in time; "
                    "write the batch again, with a longer lease if it takes long"
                )
            if not staged.matches(key):
                raise TransactionSequence(f"the stage {guid_text(identifier)} belongs to {staged}, not to {key}")
            if self._stages[identifier].run != run:
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} of {key} belongs to another run of the query; write the batch "
                    "again"
                )
            self._check_whole(identifier, staged)
        self.commits.check_is_known(key)

    def _check_whole(self, identifier: bytes, key: Key) -> None:
        """Raise QueueDeleted if messages of the stage were deleted with their queue."""
        stage, manager = self._stages[identifier], self._manager
        there = manager.collection.by_number
        gone = {run.queue_id for run in stage.runs} - there.keys()
        runs = manager.lasting.collection[identifier]
        if gone or sum(map(len, runs)) != stage.count:
            # After a restart the name of a deleted queue is unknown.
            names = sorted({str(run.queue) for run in runs if run.queue.number in gone}) or [
                key.destination or "a queue"
            ]
            raise QueueDeleted(
                f"{names[0]} was deleted, or deleted and created again, after messages were staged for it: nothing of "
                f"batch {key.batch} of the query {key.query} is committed; write the batch again"
            )

    def _check_disk(self, identifiers: Sequence[bytes]) -> None:
        """Check room: messages to another computer are written again, with their sequence numbers. Raises StoreFull."""
        size = 0
        for identifier in identifiers:
            for run in self._manager.lasting.collection[identifier]:
                if isinstance(run.queue, OutgoingQueue) and len(run.queue.positions):
                    size += run.queue.total_bytes * len(run) // len(run.queue.positions)
        if size:
            self._kernel.check_room(size)

    def _commit(self, identifiers: Sequence[bytes], now: Now) -> int:
        lasting = self._manager.lasting
        runs = {identifier: lasting.collection[identifier] for identifier in identifiers}
        # In the order in which they were made, like their messages.
        ordered = sorted(runs, key=lambda identifier: _first_place(runs[identifier]))
        count = sum(map(len, chain.from_iterable(runs.values())))
        lasting.commit(ordered, now.wall)
        for identifier in ordered:
            self._forget(identifier)
        return count

    def _begin(self, identifier: bytes, stage: StageRecord, now: Now) -> None:
        self._by_batch.setdefault((stage.query, stage.batch), {})[identifier] = None
        deadline = now.monotonic + stage.lease_s
        self._kernel.timers.start((Stages, identifier), deadline, lambda _: self._lease_ended(identifier))

    def _lease_ended(self, identifier: bytes) -> None:
        self._drop(identifier)

    def _drop_all(self, key: Key) -> None:
        """Drop the other stages of a committed batch: they can never be committed, and hide later messages."""
        for identifier in list(self._by_batch.get((key.query, key.batch), ())):
            stage = self._stages[identifier]
            if key.matches(Key(stage.query, stage.batch, stage.destination)):
                self._drop(identifier)

    def _drop(self, identifier: bytes) -> None:
        if identifier in self._stages:
            self._manager.lasting.drop(identifier)
            self._forget(identifier)

    def _forget(self, identifier: bytes) -> None:
        stage = self._stages.pop(identifier)
        others = self._by_batch[stage.query, stage.batch]
        del others[identifier]
        if not others:
            del self._by_batch[stage.query, stage.batch]
        self._kernel.timers.stop((Stages, identifier))
        self._kernel.messages.batch.delete(Table.BULK, keys.stage_key(identifier))


def _first_place(runs: Sequence[Run]) -> int:
    return next((span.start for run in runs for span in run.spans), 0)


def _check_transactional(descriptor: OpenQueueDescriptor) -> None:
    for each in descriptor.multiple or (descriptor,):
        queue = queue_of(each)
        if not isinstance(queue, OutgoingQueue) and not queue.attributes.transactional:
            raise TransactionUsage(
                f"{queue} is not transactional, so it accepts no staged messages: create it with --transactional, or "
                "write with delivery=at-least-once"
            )
