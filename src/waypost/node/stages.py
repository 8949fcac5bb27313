"""Stages: messages on disk that no reader sees until their batch is committed, which happens once.

The messages of a stage are in frames, each of which is one record of the store, and not in their queues. The commit of
several stages and the record that the batch of the query is committed (waypost.node.committed_batches) are one batch of
the store, so a repetition changes nothing, after any crash. Then their messages enter the queues
(waypost.node.staged_delivery), in the order of their partitions, of the stages of a partition, and of the rows: it does
not matter in which order they were staged. All of them are committed or none: if a queue was deleted meanwhile, the
commit is refused. Other stages of the batch are dropped with the commit, because they can no longer be committed. A
commit may also remove messages from their queues: in the same batch of the store, and all of them or none
(waypost.node.removals).

Stages from before frames are lasting transactions (waypost.core.lasting_transactions), with messages in their queues.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Protocol

from waypost.api.bulk import Committed, Staged
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee
from waypost.core.plain_packets import plain_packets, varied_packets
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, Queue, ShareMode
from waypost.core.serialization import packet_of
from waypost.core.stored_message import mark_in_transaction, messages_like, stored_message
from waypost.core.transaction_records import Run
from waypost.errors import (
    InvalidParameter,
    LimitReached,
    QueueDeleted,
    TransactionSequence,
    TransactionUsage,
    UnsupportedFormatName,
)
from waypost.guid import NULL_GUID, guid_text
from waypost.limits import (
    MAX_BULK_LEASE_SECONDS,
    MAX_BULK_MESSAGES,
    MAX_BULK_NAME,
    MAX_STAGED_FRAME,
    MAX_STAGED_FRAME_BYTES,
    MAX_STAGES,
)
from waypost.node import bulk_store
from waypost.node.access import Access
from waypost.node.committed_batches import (
    CommittedBatches,
    Key,
    Writer,
    check_repeats,
    destination_of,
    digest_of,
    digest_of_write,
)
from waypost.node.failures import machine_is_full
from waypost.node.kernel import Kernel
from waypost.node.message_records import head_of
from waypost.node.sending import Sending, close_unusable, new_message, queue_of, verified_here
from waypost.node.staged_delivery import Commit, Rejected, StagedDelivery
from waypost.store import keys
from waypost.store.bulk_records import CommitRecord, FrameRecord, FrameRun, StageRecord
from waypost.store.port import Reader, Table
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName, Suffix
from waypost.wire.identifiers import MessageIdentifier


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, as one of its runs writes it.

    `destination` is the queue for all messages, BY_COLUMN if each names its queue, or None for a batch that is
    committed once to any destination. `run` is a GUID, NULL if unknown. `write` is the name of one of several writes
    of the run for the batch. See Writer for the rest.
    """

    query: str
    number: int
    destination: FormatName | str | None = None
    run: bytes = NULL_GUID
    write: str = ""
    is_version: bool = False
    is_anonymous: bool = False

    @property
    def writer(self) -> Writer:
        return Writer(self.run, digest_of_write(self.write), self.is_version, self.is_anonymous)


@dataclass(frozen=True, slots=True)
class Group:
    """Messages for one destination: those like `like` with these bodies, then others. They belong to the node.

    `varied` has the attributes of the messages with these bodies that differ from those of `like`, each with a value
    for each of them. `dead_letters` have a class and go to the dead-letter queue for transactional messages instead.
    """

    name: FormatName
    like: Message | None = None
    bodies: Sequence[bytes] = ()
    varied: Mapping[str, Sequence[object]] = field(default_factory=dict)
    messages: Sequence[Message] = ()
    dead_letters: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a stage in its batch: the partition of its rows, and its number among the stages of that one."""

    partition: int = 0
    serial: int = 0


FIRST_PLACE: Final = Place()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Messages for one queue, by their packets. Their records share the head."""

    queue: Queue
    is_quiet: bool
    head: bytes
    packets: list[bytes]


@dataclass(slots=True)
class _Pieces:
    """The messages of a stage, in their order."""

    pieces: list[_Piece] = field(default_factory=list)
    size: int = 0
    count: int = 0

    def add(self, queue: Queue, message: Message) -> None:
        packet = message.packet or packet_of(message)
        self.size += len(packet)
        self.count += 1
        head, is_quiet = head_of(message), _is_quiet(message)
        last = self.pieces[-1] if self.pieces else None
        if last is not None and (last.queue, last.is_quiet, last.head) == (queue, is_quiet, head):
            last.packets.append(packet)
        else:
            self.pieces.append(_Piece(queue, is_quiet, head, [packet]))

    def add_alike(self, queue: Queue, like: Message, packets: list[bytes]) -> None:
        """Add messages that differ from `like` only in their packets."""
        self.size += sum(map(len, packets))
        self.count += len(packets)
        self.pieces.append(_Piece(queue, _is_quiet(like), head_of(like), packets))

    def mark(self) -> None:
        """Mark the first and the last message for each queue: a stage is a transaction (readings MQDMPR 3.P)."""
        first = {piece.queue.number: piece for piece in reversed(self.pieces)}
        last = {piece.queue.number: piece for piece in self.pieces}
        for number, piece in first.items():
            is_only = piece is last[number] and len(piece.packets) == 1
            piece.packets[0] = _marked(piece.packets[0], is_first=True, is_last=is_only)
            if not is_only:
                end = last[number].packets
                end[-1] = _marked(end[-1], is_first=False, is_last=True)

    def frames(self) -> Iterator[bytes]:
        """The records of the stage."""
        frame = FrameRecord()
        count = size = 0
        for piece in self.pieces:
            at, number = 0, _number(piece.queue)
            ends = list(accumulate(map(len, piece.packets), initial=0))
            while at < len(piece.packets):
                # The packet that fills the frame belongs to it.
                full = bisect_left(ends, ends[at] + MAX_STAGED_FRAME_BYTES - size, at + 1)
                stop = min(full, at + MAX_STAGED_FRAME - count, len(piece.packets))
                frame.runs.append(FrameRun(number, piece.is_quiet, piece.head, piece.packets[at:stop]))
                size += ends[stop] - ends[at]
                count += stop - at
                at = stop
                if count >= MAX_STAGED_FRAME or size >= MAX_STAGED_FRAME_BYTES:
                    yield frame.encode()
                    frame = FrameRecord()
                    count = size = 0
        if frame.runs:
            yield frame.encode()


class Taken(Protocol):
    """The messages that a commit removes."""

    @property
    def digest(self) -> Sequence[bytes]:
        """Their digest, if there are any."""

    def find(self) -> Sequence[tuple[Queue, Sequence[Message]]]:
        """All of them, by their queues. Raises WaypostError if one of them is not there, or held."""


class Stages:
    """The stages of one node, and the committed batches."""

    __slots__ = (
        "_access",
        "_by_batch",
        "_kernel",
        "_manager",
        "_new_guid",
        "_number",
        "_sending",
        "_stages",
        "commits",
        "delivery",
        "staged_for",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        sending: Sending,
        kept: bulk_store.Kept,
        new_guid: Callable[[], bytes],
        *,
        reader: Reader,
        rejected: Rejected,
        access: Access,
    ) -> None:
        """Leases begin again."""
        self._access: Final = access
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sending: Final = sending
        self._new_guid: Final = new_guid
        self._stages: Final = {each: stage for each, stage in kept.stages.items() if not stage.commit}
        # The number of the last stage.
        self._number = max([stage.number for stage in kept.stages.values()], default=0)
        # Messages of uncommitted stages, by the numbers of their queues; a stage counts for each of its queues.
        self.staged_for: Final[Counter[int]] = Counter()
        # The stages of each query and batch.
        self._by_batch: Final[dict[tuple[str, int], dict[bytes, None]]] = {}
        self.commits: Final = CommittedBatches(kernel, reader, kept.commits)
        self.delivery: Final = StagedDelivery(kernel, manager, reader, rejected)
        self.delivery.damaged.restore(kept.stages)
        self.delivery.restore([(identifier, stage) for identifier, stage in kept.stages.items() if stage.commit])
        for identifier, stage in self._stages.items():
            self._begin(identifier, stage, kernel.now)

    # Calls for a writer, while an operation of the node is under way.

    def stage(self, batch: Batch, groups: Sequence[Group], place: Place, lease_s: float, now: Now) -> Staged:
        """Stage all messages of the groups, in order, or none.

        Nothing is kept for a batch that another run has committed. Raises TransactionSequence if this one has.
        """
        key, writer = self._key(batch), batch.writer
        done = self.commits.find(key, writer)
        if done is not None:
            if not writer.is_version:
                check_repeats(done, key, writer.run)
            return Staged("", 0, is_committed=True)
        self.commits.check_room(key, writer)
        if len(self._stages) >= MAX_STAGES:
            raise LimitReached(f"the limit of {MAX_STAGES} uncommitted stages is reached; commit or drop some stages")
        if sum(len(each.bodies) + len(each.messages) + len(each.dead_letters) for each in groups) > MAX_BULK_MESSAGES:
            raise InvalidParameter(f"a stage must have at most {MAX_BULK_MESSAGES} messages; use several stages")
        identifier = self._new_guid()
        pieces = _Pieces()
        transactions = self._manager.transactions
        transactions.create_transaction(identifier)
        try:
            for group in groups:
                self._prepare(group, identifier, pieces, now)
        finally:
            # It only gives its number to the messages.
            del transactions.collection[identifier]
        pieces.mark()
        frames = list(pieces.frames())
        self._number += 1
        stage = StageRecord(min(lease_s, MAX_BULK_LEASE_SECONDS), key.batch, key.query, [], key.destination, writer.run)
        stage.write, stage.partition, stage.serial, stage.number = (
            writer.write, place.partition, place.serial, self._number,
        )  # fmt: skip
        stage.frames, stage.left, stage.size = len(frames), pieces.count, pieces.size
        stage.queues = sorted({_number(piece.queue) for piece in pieces.pieces})
        self._stages[identifier] = stage
        self._begin(identifier, stage, now)
        self._manager.positions.staged_bytes += stage.size
        self.delivery.keep(identifier, frames)
        self._kernel.messages.batch.put(Table.BULK, keys.stage_key(identifier), stage.encode())
        return Staged(guid_text(identifier), stage.count)

    def drop(self, identifiers: Sequence[bytes]) -> None:
        """Drop these stages. Those that are gone already do not matter."""
        for identifier in identifiers:
            self._drop(identifier)

    def drop_batch(self, batch: Batch) -> None:
        """Drop all stages of this run for a batch, including those of lost tasks."""
        key, writer = self._key(batch), batch.writer
        for identifier in list(self._by_batch.get((key.query, key.batch), ())):
            stage = self._stages[identifier]
            if (stage.destination, stage.run, stage.write) == (key.destination, writer.run, writer.write):
                self._drop(identifier)

    def commit(
        self, batch: Batch, identifiers: Sequence[bytes], now: Now, taken: Taken
    ) -> tuple[Committed, Commit | None]:
        """Commit the stages, unless done before; drop other stages of the batch.

        Messages to take leave their queues with it. Returns the commit too if some of its messages are not in their
        queues yet. Raises TransactionSequence if a stage is missing, or belongs to another batch or run, or if this is
        a second write of the batch; QueueDeleted if a queue of messages was deleted; and the errors of `taken`. Then
        nothing is committed.
        """
        key, writer = self._key(batch), batch.writer
        done = self.commits.find(key, writer)
        digest = digest_of((*identifiers, *taken.digest))
        if done is not None:
            if not writer.is_version:
                check_repeats(done, key, writer.run, digest)
                self.commits.pass_by(key, writer)
            self._drop_all(key, writer)
            under_way = self.delivery.find(key)
            left = 0 if under_way is None else under_way.left
            return Committed(0, is_repeated=True, left=left), under_way
        self._check(key, writer, identifiers)
        self.commits.check_room(key, writer)
        self._check_disk(identifiers)
        for queue, messages in taken.find():
            self._manager.positions.received_all(queue, messages)
        count, commit = self._commit(key, list(dict.fromkeys(identifiers)), now)
        self._drop_all(key, writer)
        self.commits.remember(key, writer, CommitRecord(key.batch, writer.run, digest, count), now.wall)
        return Committed(count, is_repeated=False, left=commit.left), commit if commit.left else None

    def batches(self, query: str) -> list[int]:
        """The last committed batches of a query, ascending."""
        return self.commits.batches(query)

    def key_of(self, identifier: bytes) -> Key | None:
        """The batch of the stage that this lasting transaction is."""
        stage = self._stages.get(identifier)
        return None if stage is None else Key(stage.query, stage.batch, stage.destination)

    # Internals.

    def _prepare(self, group: Group, transaction: bytes, pieces: _Pieces, now: Now) -> None:
        """Add the messages of a group, as their queues get them."""
        manager = self._manager
        for message in group.dead_letters:
            self._prepare_dead_letter(group.name, message, transaction, pieces, now)
        if not group.bodies and not group.messages and group.dead_letters:
            return
        self._access.check_open(self._kernel.caller, group.name, AccessType.SEND)
        descriptor = manager.open_queue(group.name, AccessType.SEND, ShareMode.DENY_NONE, now)
        try:
            _check_transactional(descriptor)
            if group.bodies:
                self._prepare_alike(group, descriptor, transaction, pieces, now)
            for message in map(new_message, group.messages):
                self._sending.prepare(descriptor, message, transaction, now, level=message.authentication_level)
                message.identifier = manager.message_identifier()
                if not descriptor.multiple:
                    self._add(pieces, descriptor, message)
                    continue
                for child, copy in zip(descriptor.multiple, manager.copies(descriptor, message), strict=True):
                    self._add(pieces, child, copy)
        except UnsupportedFormatName:
            close_unusable(manager, descriptor)
            raise
        finally:
            manager.close_queue(descriptor)

    def _prepare_dead_letter(
        self, name: FormatName, message: Message, transaction: bytes, pieces: _Pieces, now: Now
    ) -> None:
        """Add a message that never was one of its queue, for the dead-letter queue."""
        manager = self._manager
        self._kernel.check_room(len(message.body) + len(message.extension), len(message.body))
        message.destination_queue_format_name = name
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        message.transaction_identifier = manager.transactions.number(transaction)
        message.sent_time = int(now.wall)
        message.identifier = manager.message_identifier()
        packet_of(message)
        pieces.add(manager.system_queues[Suffix.DEADXACT], message)
        if not manager.writing.has_room(pieces.size):
            raise machine_is_full()

    def _prepare_alike(
        self, group: Group, descriptor: OpenQueueDescriptor, transaction: bytes, pieces: _Pieces, now: Now
    ) -> None:
        if group.like is None or descriptor.multiple:
            raise InvalidParameter("`bodies` requires `like` and a single destination queue")
        like = new_message(group.like)
        self._sending.prepare(descriptor, like, transaction, now, group.bodies)
        ordinal, source = self._manager.first_ordinal(len(group.bodies)), self._manager.identity.identifier
        like.identifier = MessageIdentifier(source, ordinal)
        if group.varied:
            packets = varied_packets(like, group.bodies, group.varied, ordinal)
            if packets is None:
                packets = list(_varied_packets(like, group, source, ordinal))
        elif (packets := plain_packets(like, group.bodies, ordinal)) is None:
            # An uncommon property, or one that does not fit: the general code finds out.
            packets = [message.packet for message in messages_like(like, group.bodies, source, ordinal)]
        queue = queue_of(descriptor)
        pieces.add_alike(queue, like, packets)
        self._check_quotas(pieces, descriptor, queue, max(map(len, packets)))

    def _add(self, pieces: _Pieces, descriptor: OpenQueueDescriptor, message: Message) -> None:
        if message.authentication_level is not AuthenticationLevel.NONE:
            verified_here(descriptor, message)
        queue, before = queue_of(descriptor), pieces.size
        pieces.add(queue, message)
        self._check_quotas(pieces, descriptor, queue, pieces.size - before)

    def _check_quotas(self, pieces: _Pieces, descriptor: OpenQueueDescriptor, queue: Queue, largest: int) -> None:
        """Check that the machine has room for the messages, and their queue if it is empty."""
        if not self._manager.writing.has_room(pieces.size):
            raise machine_is_full()
        if not self._manager.positions.can_ever_fit(queue, largest):
            raise InvalidParameter(
                f"{descriptor.format_name} has a quota of {queue.attributes.quota} KB, so a message of {largest} "
                "bytes never fits; nothing was stored; set a larger quota"
            )

    def _key(self, batch: Batch) -> Key:
        if not 0 < len(batch.query.encode("utf-8", "surrogatepass")) <= MAX_BULK_NAME:
            raise InvalidParameter(f"the name of a query must have 1 to {MAX_BULK_NAME} bytes: use a GUID, for example")
        if batch.write and batch.run == NULL_GUID:
            raise InvalidParameter("`write` requires `run`, the GUID of the run")
        to = batch.destination
        if isinstance(to, FormatName):
            to = destination_of(to, self._manager.collection)
        return Key(batch.query, batch.number, to)

    def _check(self, key: Key, writer: Writer, identifiers: Sequence[bytes]) -> None:
        for identifier in identifiers:
            staged = self.key_of(identifier)
            if staged is None:
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} does not exist: it was dropped, or not committed in time; "
                    "write the batch again, with a longer lease if necessary"
                )
            if not staged.matches(key):
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} belongs to {staged}, but the commit is for {key}"
                )
            stage = self._stages[identifier]
            if (stage.run, stage.write) != (writer.run, writer.write):
                raise TransactionSequence(
                    f"the stage {guid_text(identifier)} of {key} belongs to another run of the query; write the batch "
                    "again"
                )
            self._check_whole(identifier, staged)
        if not writer.is_version:
            self.commits.check_is_known(key)

    def _check_whole(self, identifier: bytes, key: Key) -> None:
        """Raise QueueDeleted if a queue of messages of the stage was deleted."""
        stage, there = self._stages[identifier], self._manager.collection.by_number
        gone = {*stage.queues, *(run.queue_id for run in stage.runs)} - there.keys() - {_ELSEWHERE}
        names = [key.destination or "a queue"]
        if stage.runs:
            runs = self._manager.lasting.collection[identifier]
            names = sorted({str(run.queue) for run in runs if run.queue.number in gone}) or names
            if sum(map(len, runs)) != stage.count:
                gone.add(0)
        if gone:
            # After a deletion the name of a queue is unknown.
            raise QueueDeleted(
                f"{names[0]} was deleted, or deleted and created again, after messages were staged for it, so batch "
                f"{key.batch} of the query {key.query} is not committed; write the batch again"
            )

    def _check_disk(self, identifiers: Sequence[bytes]) -> None:
        """Check room: messages to another computer are written again, with their sequence numbers. Raises StoreFull."""
        size = 0
        for identifier in identifiers:
            for run in self._manager.lasting.collection.get(identifier, ()):
                if isinstance(run.queue, OutgoingQueue) and len(run.queue.positions):
                    size += run.queue.total_bytes * len(run) // len(run.queue.positions)
        if size:
            self._kernel.check_room(size)

    def _commit(self, key: Key, identifiers: Sequence[bytes], now: Now) -> tuple[int, Commit]:
        """Commit the stages in their order. Returns the number of messages too."""
        count = sum(self._stages[identifier].count for identifier in identifiers)
        self._commit_old([identifier for identifier in identifiers if self._stages[identifier].runs], now)
        framed = [(identifier, self._stages[identifier]) for identifier in identifiers if identifier in self._stages]
        for identifier, _ in framed:
            self._end(identifier)
        return count, self.delivery.commit(key, sorted(framed, key=lambda each: each[1].order), now)

    def _commit_old(self, identifiers: Sequence[bytes], now: Now) -> None:
        """Commit stages with messages in their queues, in the order in which they were made."""
        lasting = self._manager.lasting
        runs = {identifier: lasting.collection[identifier] for identifier in identifiers}
        lasting.commit(sorted(runs, key=lambda identifier: _first_place(runs[identifier])), now.wall)
        for identifier in identifiers:
            self._end(identifier)
            self._kernel.messages.batch.delete(Table.BULK, keys.stage_key(identifier))

    def _begin(self, identifier: bytes, stage: StageRecord, now: Now) -> None:
        self._by_batch.setdefault((stage.query, stage.batch), {})[identifier] = None
        self.staged_for.update(dict.fromkeys(stage.queues, stage.left))
        deadline = now.monotonic + stage.lease_s
        self._kernel.timers.start((Stages, identifier), deadline, lambda _: self._lease_ended(identifier))

    def _lease_ended(self, identifier: bytes) -> None:
        self._drop(identifier)

    def _drop_all(self, key: Key, writer: Writer) -> None:
        """Drop the other stages of a committed batch: they can never be committed.

        Those of other named writes of the batch stay.
        """
        for identifier in list(self._by_batch.get((key.query, key.batch), ())):
            stage = self._stages[identifier]
            is_other = stage.run == writer.run and stage.write != writer.write
            if key.matches(Key(stage.query, stage.batch, stage.destination)) and not is_other:
                self._drop(identifier)

    def _drop(self, identifier: bytes) -> None:
        stage = self._stages.get(identifier)
        if stage is None:
            return
        if stage.runs:
            self._manager.lasting.drop(identifier)
            self._kernel.messages.batch.delete(Table.BULK, keys.stage_key(identifier))
        else:
            self.delivery.forget(identifier, stage)
        self._end(identifier)

    def _end(self, identifier: bytes) -> None:
        """Forget a stage that is committed or dropped, before any of it is delivered."""
        stage = self._stages.pop(identifier)
        for queue in stage.queues:
            self.staged_for[queue] -= stage.left
            if not self.staged_for[queue]:
                del self.staged_for[queue]
        others = self._by_batch[stage.query, stage.batch]
        del others[identifier]
        if not others:
            del self._by_batch[stage.query, stage.batch]
        self._kernel.timers.stop((Stages, identifier))


# The number of all queues of other computers.
_ELSEWHERE: Final = 0


def _number(queue: Queue) -> int:
    return _ELSEWHERE if isinstance(queue, OutgoingQueue) else queue.number


def _varied_packets(like: Message, group: Group, source: bytes, ordinal: int) -> Iterator[bytes]:
    """The packets of messages that differ from `like` in some attributes, too. `like` is used up."""
    names = list(group.varied)
    for body, *values in zip(group.bodies, *group.varied.values(), strict=True):
        for name, value in zip(names, values, strict=True):
            setattr(like, name, value)
        like.body, like.packet = body, b""
        like.identifier = MessageIdentifier(source, ordinal)
        ordinal += 1
        yield packet_of(like)


def _marked(packet: bytes, *, is_first: bool, is_last: bool) -> bytes:
    message = stored_message(packet)
    mark_in_transaction(message, is_first=is_first, is_last=is_last)
    return message.packet or packet_of(message)


def _is_quiet(message: Message) -> bool:
    """Whether it asks for no attention and does not expire: such messages enter a queue together."""
    return not message.asks_for_attention and message.time_to_be_received == INFINITE


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
