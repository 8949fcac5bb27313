"""The transactional sequences of a queue manager, and the identifiers of what it has received: MS-MQQB 3.1.1.3.

A message of a transaction gets its number when the transaction commits, in the batch that makes it durable, so that no
crash gives a number twice (3.1.1.5). What changes here is written with the batch that is being made: sequences with the
messages that moved them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import END, lookup_identifier
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import set_sequence
from waypost.limits import MAX_TIME_STAMP_AHEAD_SECONDS
from waypost.node import scans
from waypost.node.destinations import NO_PLACE
from waypost.node.incoming_store import IncomingStore
from waypost.node.kernel import Kernel
from waypost.node.reserves import stored_end
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.port import Batch, Reader, Table
from waypost.store.records import CounterRecord, DuplicatesRecord, SequenceRecord
from waypost.transfer.duplicates import Block, MessageHistory
from waypost.transfer.sequences import OutgoingSequence, TxOutgoingSequence
from waypost.wire.identifiers import TIME_STAMP_SHIFT, TxSequenceId

_MINUTE: Final = 60

# Transactional messages count as of priority 0, whose positions are behind this one.
BEFORE_TRANSACTIONAL: Final = lookup_identifier(0, 0)


class Sequences:
    """Those of one queue manager, at both ends."""

    __slots__ = (
        "_history",
        "_kernel",
        "_last_before_start",
        "_last_time_stamp",
        "_latest",
        "_manager",
        "_messages",
        "_outgoing",
        "_queues",
        "_reader",
        "_reset",
        "_written_latest",
        "incoming",
    )

    def __init__(self, kernel: Kernel, manager: QueueManager, reader: Reader) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._messages: Final = kernel.messages
        self._reader: Final = reader
        self.incoming: Final = IncomingStore(reader)
        self._outgoing: Final = read_outgoing(reader)
        # The latest time of the clock that the store knows of.
        self._written_latest = stored_end(reader, Counter.LATEST_TIME)
        times = (queue.create_time for queue in manager.collection.by_number.values())
        self._latest = max(self._written_latest, *times, 0)
        self._last_time_stamp = last_time_stamp(reader)
        # No two queues have the same TimeStamp, so an OrderAck tells by its own which queue it is about.
        self._queues: dict[int, OutgoingQueue] = {}
        # The TimeStamps of resets since the start, which an operator asks for one by one.
        self._reset: Final[set[int]] = set()
        for number, sequence in self._outgoing.items():
            queue = manager.collection.by_number[number]
            assert isinstance(queue, OutgoingQueue)
            self._queues[sequence.sequence_id.time_stamp] = queue
        # The last message of each queue that has a number at the start: those before it may have been sent.
        self._last_before_start: Final = {
            number: (sequence.sequence_id, sequence.next_number - 1) for number, sequence in self._outgoing.items()
        }
        self._history: MessageHistory | None = None
        manager.transactions.number_sends = self._number

    def history(self, size: int, period: float, relays: Iterable[str]) -> MessageHistory:
        """MessageIDHistoryTable as it was kept. From now on `write` keeps it."""
        timers = self._kernel.timers
        history = MessageHistory(
            size,
            period,
            relays,
            lambda deadline: timers.start(MessageHistory, deadline, lambda now: history.clean_up(now.monotonic)),
        )
        self._history = history
        restore_history(self._reader, history, self._kernel.now)
        return history

    def outgoing_of(self, queue: OutgoingQueue) -> OutgoingSequence:
        sequence = self._outgoing.get(queue.number)
        if sequence is None:
            batch = self._messages.batch
            sequence = begin_outgoing(batch, queue.number, self._last_time_stamp, self._kernel.now)
            self._last_time_stamp = sequence.sequence_id.time_stamp
            self._outgoing[queue.number] = sequence
            self._queues[self._last_time_stamp] = queue
        return sequence

    def has_numbered(self, queue: OutgoingQueue) -> bool:
        """Whether a message of the queue has got a number."""
        sequence = self._outgoing.get(queue.number)
        return sequence is not None and (sequence.next_number, sequence.sequence_id.ordinal) != (1, 1)

    def begin_again(self, queue: OutgoingQueue, waiting: int) -> OutgoingSequence:
        """A new sequence, above all TimeStamps that were used before (MS-MQQB 3.1.1.3.1, note 35).

        If these are far ahead of the clock, it is the time of the clock. What commits from now on gets numbers behind
        those of so many messages that wait; whoever gives them theirs has the sequence that is returned.
        """
        before = self._outgoing.get(queue.number)
        clock = int(self._kernel.now.wall)
        time_stamp = max(clock, self._last_time_stamp + 1)
        if time_stamp > clock + MAX_TIME_STAMP_AHEAD_SECONDS:
            time_stamp = clock
            # Destinations may know those of earlier resets, and take nothing that begins under one of them again.
            while time_stamp in self._queues or time_stamp in self._reset:
                time_stamp += 1
        self._reset.add(time_stamp)
        if before is not None:
            self._queues.pop(before.sequence_id.time_stamp, None)
        sequence = self._outgoing[queue.number] = OutgoingSequence(TxSequenceId(1, time_stamp), waiting + 1)
        write_outgoing(self._messages.batch, queue.number, sequence)
        self._queues[time_stamp] = queue
        if time_stamp > self._last_time_stamp:
            self._last_time_stamp = time_stamp
            write_last_time_stamp(self._messages.batch, time_stamp)
        return OutgoingSequence.first(time_stamp)

    def ahead_of_clock(self, now: Now) -> list[tuple[OutgoingQueue, int]]:
        """The outgoing queues whose TimeStamps are later than now, and by how many seconds."""
        return [
            (queue, int(time_stamp - now.wall)) for time_stamp, queue in self._queues.items() if time_stamp > now.wall
        ]

    def queue_of(self, tx_sequence_id: int) -> OutgoingQueue | None:
        """The outgoing queue whose messages are in this sequence, or were."""
        return self._queues.get(tx_sequence_id >> TIME_STAMP_SHIFT)

    def last_before_start(self, queue: OutgoingQueue) -> tuple[TxSequenceId, int]:
        """The place of the last message of this queue that a process before this one may have sent."""
        return self._last_before_start.get(queue.number, NO_PLACE)

    def mind_end(self, queue: OutgoingQueue, sent: TxOutgoingSequence) -> None:
        """MS-MQQB 3.1.5.6: when no message of a transaction is left, the next sequence begins."""
        sequence = self._outgoing[queue.number]
        if sequence.next_number == 1 or len(sent):
            return
        first = queue.positions.next_any(BEFORE_TRANSACTIONAL)
        if first == END or first > queue.last_committed:
            sequence.begin_next()
            sent.begin(sequence.sequence_id)
            write_outgoing(self._messages.batch, queue.number, sequence)

    def forget(self, queue: Queue) -> None:
        """The queue is deleted, and the records of its sequences with it."""
        self._last_before_start.pop(queue.number, None)
        sequence = self._outgoing.pop(queue.number, None)
        if sequence is not None:
            self._queues.pop(sequence.sequence_id.time_stamp, None)
        self.incoming.forget(queue)

    def write(self) -> None:
        """What has changed goes into the batch that is being made."""
        incoming, history = self.incoming, self._history
        has_moved = incoming.kept.unwritten or incoming.met.unwritten
        has_met = history is not None and (history.changed or history.obsolete)
        if not has_moved and not has_met:
            return
        batch, now = self._messages.batch, self._kernel.now
        size = len(batch.operations)
        if has_moved:
            incoming.write(batch, self._messages.token)
        if has_met and history is not None:
            write_history(batch, history, now)
        if len(batch.operations) > size:
            self._note_time(int(now.wall))

    def is_clock_behind(self, now: Now) -> bool:
        """Whether the clock is before the latest record of the store: then it says nothing about the time of others."""
        return self.seconds_behind(now) > 0

    def seconds_behind(self, now: Now) -> float:
        """How far the clock is before the latest record of the store."""
        return max(self._latest - now.wall, 0.0)

    def _note_time(self, wall: int) -> None:
        self._latest = max(self._latest, wall)
        if self._latest >= self._written_latest + _MINUTE:
            self._written_latest = self._latest
            value = CounterRecord(self._latest).encode()
            self._messages.batch.put(Table.COUNTERS, Counter.LATEST_TIME.value, value)

    def _number(self, queue: OutgoingQueue, messages: Sequence[Message]) -> None:
        sequence = self.outgoing_of(queue)
        for message in messages:
            number = sequence.number()
            set_sequence(message, sequence.sequence_id, number, number - 1)
        write_outgoing(self._messages.batch, queue.number, sequence)


def read_outgoing(reader: Reader) -> dict[int, OutgoingSequence]:
    """The sequences of what goes out, by the numbers of the queues."""
    outgoing: dict[int, OutgoingSequence] = {}
    for key, value in scans.items(reader, Table.SEQUENCES, *keys.all_outgoing_sequences()):
        try:
            queue, _ = keys.sequence_of(key)
            record = SequenceRecord.decode(value)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.SEQUENCES, key, error) from error
        outgoing[queue] = outgoing_sequence(record.sequence_identifier, record.sequence_number)
    return outgoing


def outgoing_sequence(identifier: int, next_number: int) -> OutgoingSequence:
    return OutgoingSequence(TxSequenceId.of(identifier), next_number)


def begin_outgoing(batch: Batch, queue: int, last_time_stamp: int, now: Now) -> OutgoingSequence:
    """The first sequence of an outgoing queue, with a TimeStamp above the last one of this queue manager.

    The queue may have existed before: its destination accepts nothing below what it has seen.
    """
    sequence = OutgoingSequence.first(max(int(now.wall), last_time_stamp + 1))
    write_outgoing(batch, queue, sequence)
    write_last_time_stamp(batch, sequence.sequence_id.time_stamp)
    return sequence


def write_outgoing(batch: Batch, queue: int, sequence: OutgoingSequence) -> None:
    record = SequenceRecord(sequence.sequence_id.value, sequence.next_number)
    batch.put(Table.SEQUENCES, keys.outgoing_sequence_key(queue), record.encode())


def write_last_time_stamp(batch: Batch, time_stamp: int) -> None:
    batch.put(Table.COUNTERS, Counter.SEQUENCE_TIME_STAMP.value, CounterRecord(time_stamp).encode())


def last_time_stamp(reader: Reader) -> int:
    """The greatest TimeStamp of all sequences that begin_outgoing made; 0 if it made none."""
    return stored_end(reader, Counter.SEQUENCE_TIME_STAMP)


def write_history(batch: Batch, history: MessageHistory, now: Now) -> None:
    """Goes into every batch that received messages."""
    for block in history.take_blocks(now.monotonic):
        record = DuplicatesRecord(int(now.wall), block.identifiers, block.peer)
        batch.put(Table.DUPLICATES, keys.duplicates_key(block.number), record.encode())
    for number in history.take_obsolete() if history.obsolete else ():
        batch.delete(Table.DUPLICATES, keys.duplicates_key(number))


def restore_history(reader: Reader, history: MessageHistory, now: Now) -> None:
    """What is kept was young when it was written.

    An age that is not between 0 and the period says that the clock was set, or that this queue manager was down, when
    nothing could come again. Then it counts as new.
    """
    for key, value in scans.whole_table(reader, Table.DUPLICATES):
        try:
            record = DuplicatesRecord.decode(value)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.DUPLICATES, key, error) from error
        age = now.wall - record.time_stamp
        if not 0 <= age <= history.period:
            age = 0.0
        number = keys.duplicates_number_of(key)
        history.restore(Block(number, record.identifiers, now.monotonic - age, record.peer))
