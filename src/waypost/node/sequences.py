"""The transactional sequences of a queue manager, and the identifiers of what it has received: MS-MQQB 3.1.1.3.

A message of a transaction gets its number when the transaction commits, in the batch that makes it durable, so that no
crash gives a number twice (3.1.1.5). What changes here is written with the batch that is being made: sequences with the
messages that moved them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import END, lookup_identifier
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import set_sequence
from waypost.guid import NULL_GUID
from waypost.limits import MAX_INCOMING_SEQUENCES
from waypost.node import transfer_store
from waypost.node.stored_messages import StoredMessages
from waypost.store.port import Reader
from waypost.transfer.duplicates import MessageHistory
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import IncomingSequence, OutgoingSequence, TxOutgoingSequence
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.management import SourceInfo
from waypost.wire.packet_names import destination_format_name
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_message import UserMessage

if TYPE_CHECKING:
    from waypost.wire.user_header import UserHeader

_TIME_STAMP_SHIFT: Final = 32
_NOTHING_YET: Final = IncomingSequence()
_NO_PLACE: Final = TxSequenceId(0, 0), 0

# Transactional messages count as of priority 0, whose positions are behind this one.
_BEFORE_TRANSACTIONAL: Final = lookup_identifier(0, 0)


class Sequences:
    """`now` gives the time of the operation that the node is at."""

    __slots__ = (
        "_changed",
        "_history",
        "_last_before_start",
        "_last_time_stamp",
        "_manager",
        "_messages",
        "_now",
        "_outgoing",
        "_queues",
        "_reader",
        "incoming",
    )

    def __init__(
        self, reader: Reader, manager: QueueManager, messages: StoredMessages, now: Callable[[], Now]
    ) -> None:  # fmt: skip
        self._reader: Final = reader
        self._manager: Final = manager
        self._messages: Final = messages
        self._now: Final = now
        self._outgoing, self.incoming = transfer_store.read_sequences(reader)
        self._last_time_stamp = transfer_store.last_time_stamp(reader)
        # No two queues have the same TimeStamp, so an OrderAck tells by its own which queue it is about.
        self._queues: dict[int, OutgoingQueue] = {}
        for number, sequence in self._outgoing.items():
            queue = manager.collection.by_number[number]
            assert isinstance(queue, OutgoingQueue)
            self._queues[sequence.sequence_id.time_stamp] = queue
        # The last message of each queue that has a number at the start: those before it may have been sent.
        self._last_before_start: Final = {
            number: (sequence.sequence_id, sequence.next_number - 1) for number, sequence in self._outgoing.items()
        }
        # The queue, and who sends to it by which name.
        self._changed: dict[SequenceKey, tuple[Queue, UserHeader]] = {}
        self._history: MessageHistory | None = None
        for key in self.incoming:
            queue = manager.collection.by_number[key[1]]
            # Which of its names the sender used is not kept.
            self._tell(key, queue, f"DIRECT=OS:{queue.qualified_pathname}")
        manager.transactions.number_sends = self._number

    def history(self, size: int, period: float) -> MessageHistory:
        """MessageIDHistoryTable as it was kept. From now on `write` keeps it."""
        self._history = history = MessageHistory(size, period)
        transfer_store.restore_history(self._reader, history, self._now())
        return history

    def outgoing_of(self, queue: OutgoingQueue) -> OutgoingSequence:
        sequence = self._outgoing.get(queue.number)
        if sequence is None:
            batch = self._messages.batch
            sequence = transfer_store.begin_outgoing(batch, queue.number, self._last_time_stamp, self._now())
            self._last_time_stamp = sequence.sequence_id.time_stamp
            self._outgoing[queue.number] = sequence
            self._queues[self._last_time_stamp] = queue
        return sequence

    def queue_of(self, tx_sequence_id: int) -> OutgoingQueue | None:
        """The outgoing queue whose messages are in this sequence, or were."""
        return self._queues.get(tx_sequence_id >> _TIME_STAMP_SHIFT)

    def last_before_start(self, queue: OutgoingQueue) -> tuple[TxSequenceId, int]:
        """The place of the last message of this queue that a process before this one may have sent."""
        return self._last_before_start.get(queue.number, _NO_PLACE)

    def mind_end(self, queue: OutgoingQueue, sent: TxOutgoingSequence) -> None:
        """MS-MQQB 3.1.5.6: when no message of a transaction is left, the next sequence begins."""
        sequence = self._outgoing[queue.number]
        if sequence.next_number == 1 or len(sent):
            return
        first = queue.positions.next_any(_BEFORE_TRANSACTIONAL)
        if first == END or first > queue.last_committed:
            sequence.begin_next()
            sent.begin(sequence.sequence_id)
            transfer_store.write_outgoing(self._messages.batch, queue.number, sequence)

    def would_accept(self, key: SequenceKey, header: TransactionHeader) -> bool:
        return self.incoming.get(key, _NOTHING_YET).is_next(header)

    def accept(self, key: SequenceKey, queue: Queue, packet: UserMessage, now: Now) -> bool:
        """MS-MQQB 3.1.5.8.6: whether the message is the next one from its source for this queue."""
        header = packet.transaction
        assert header is not None
        sequence = self.incoming.get(key)
        if sequence is None:
            if not _NOTHING_YET.is_next(header):
                # Nothing is kept of sources that were never listened to.
                return False
            if len(self.incoming) >= MAX_INCOMING_SEQUENCES:
                self._forget_some()
            sequence = self.incoming[key] = IncomingSequence()
        self._changed[key] = queue, packet.user
        return sequence.accept(header, now.wall)

    def _forget_some(self) -> None:
        """Anybody can send under a new name: those that were silent for the longest time make room."""
        by_age = sorted(self.incoming, key=lambda key: self.incoming[key].last_access_time)
        for key in by_age[: MAX_INCOMING_SEQUENCES // 10]:
            del self.incoming[key]
            self._changed.pop(key, None)
            transfer_store.delete_incoming(self._messages.batch, key)
            queue = self._manager.collection.by_number.get(key[1])
            if queue is not None:
                queue.incoming_transactional_transfer_info.pop(key[0], None)

    def forget(self, queue: Queue) -> None:
        """The queue is deleted, and the records of its sequences with it."""
        self._last_before_start.pop(queue.number, None)
        sequence = self._outgoing.pop(queue.number, None)
        if sequence is not None:
            self._queues.pop(sequence.sequence_id.time_stamp, None)
        for key in [key for key in self.incoming if key[1] == queue.number]:
            del self.incoming[key]
            self._changed.pop(key, None)

    def write(self) -> None:
        """What has changed goes into the batch that is being made."""
        batch = self._messages.batch
        for key, (queue, user) in self._changed.items():
            transfer_store.write_incoming(batch, key, self.incoming[key])
            self._tell(key, queue, str(destination_format_name(user)))
        self._changed.clear()
        if self._history is not None:
            transfer_store.write_history(batch, self._history, self._now())

    def _number(self, queue: OutgoingQueue, messages: Sequence[Message]) -> None:
        sequence = self.outgoing_of(queue)
        for message in messages:
            number = sequence.number()
            set_sequence(message, sequence.sequence_id, number, number - 1)
        transfer_store.write_outgoing(self._messages.batch, queue.number, sequence)

    def _tell(self, key: SequenceKey, queue: Queue, format_name: str) -> None:
        """MS-MQQB 3.1.5.8.6, 3.1.5.8.8: IncomingTransactionalTransferInfo of the queue."""
        sequence = self.incoming[key]
        queue.incoming_transactional_transfer_info[key[0]] = SourceInfo(
            format_name,
            key[0][: len(NULL_GUID)],
            sequence.sequence_id,
            sequence.number,
            sequence.last_access_time,
            sequence.last_reject_count,
        )
