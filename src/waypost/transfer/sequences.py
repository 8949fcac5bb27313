"""The place of transactional messages in their sequences, at both ends: MS-MQQB 3.1.1.5, 3.1.5.6 and 3.1.5.8.6.

A message gets its number when its transaction commits and keeps it for good. A sequence ends when all its messages are
acknowledged; the next one starts at 1 again under a greater identifier. OutgoingSequence and IncomingSequence outlive
the process: code that advances one writes it in the batch of the message.

A message may leave its outgoing queue when its OrderAck has come and no session waits for its SessionAck any more;
either may come first (readings MQQB 3.7). After a time-out or in a new session, all messages without an OrderAck are
sent again; consecutive time-outs make the wait longer, and progress makes it short again (readings MQQB 3.16).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from waypost.clock import Now
from waypost.transfer.ascending import Ascending
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.transactional_acks import FinalAckBody, OrderAckBody

_LARGEST: Final = 0xFFFF_FFFF


@dataclass(slots=True)
class OutgoingSequence:
    """OutgoingTxSequenceID and OutgoingTxSequenceNumber of MS-MQQB 3.1.1.3.1, of one outgoing queue."""

    sequence_id: TxSequenceId
    next_number: int = 1

    @classmethod
    def first(cls, time_stamp: int) -> "OutgoingSequence":
        """MS-MQQB 3.1.1.3.1. Every earlier sequence of this queue manager had a smaller TimeStamp."""
        return cls(TxSequenceId(1, time_stamp))

    def number(self) -> int:
        """Take the next TxSequenceNumber. `sequence_id` is then that of the message.

        A queue that is never empty runs out of numbers; then its sequence ends here.
        """
        if self.next_number == _LARGEST:
            self.begin_next()
        number = self.next_number
        self.next_number += 1
        return number

    def begin_next(self) -> None:
        """MS-MQQB 3.1.1.5, 3.1.5.6: no message of this sequence is left."""
        self.sequence_id = TxSequenceId(self.sequence_id.ordinal + 1, self.sequence_id.time_stamp)
        self.next_number = 1


@dataclass(slots=True)
class SentEntry:
    """A message by its TxSequenceNumber. `awaits_session_ack`: a session has it and has not acknowledged it yet."""

    number: int
    lookup_id: int
    awaits_session_ack: bool = True
    order_acknowledged: bool = False


@dataclass(slots=True)
class TxOutgoingSequence:
    """OutgoingTransferSequence of MS-MQQB 3.1.1.3.1.1, of one outgoing queue: the sent messages. It is volatile.

    All entries are of the sequence `sequence_id`. `highest_number` is the greatest number in it that is known to be
    sent; an acknowledgment beyond that changes nothing. The Transactional Ack Wait Timer (3.1.2.6) runs on the
    monotonic clock, to `deadline`; TimeOfLastAck and ResendTime are wall clock times.
    """

    sequence_id: TxSequenceId
    resend_timer_table: Sequence[float]
    highest_number: int = 0
    last_ack_number: int = 0
    time_of_last_ack: float = 0.0
    last_ack_count: int = 0
    # Number of times that the OrderAck with `last_ack_number` has come.
    last_ack_repeats: int = 0
    resend_interval_index: int = 0
    # Number of expiries of the timer in a row.
    resend_count: int = 0
    resend_time: float = 0.0
    deadline: float | None = None
    _unacked: Ascending = field(default_factory=Ascending)
    _entries: dict[int, SentEntry] = field(default_factory=dict)

    @classmethod
    def of(
        cls, outgoing: OutgoingSequence, resend_timer_table: Sequence[float], written: tuple[TxSequenceId, int]
    ) -> "TxOutgoingSequence":  # fmt: skip
        """`written` is the last message that is known to have been sent before."""
        sequence_id, number = written
        return cls(outgoing.sequence_id, resend_timer_table, number if sequence_id == outgoing.sequence_id else 0)

    @property
    def resend_interval(self) -> float:
        return self.resend_timer_table[self.resend_interval_index]

    @property
    def unacked_sequence(self) -> list[int]:
        """The SeqNo of each entry of UnackedSequence."""
        return self._unacked.all()

    @property
    def unacked_count(self) -> int:
        return len(self._unacked)

    @property
    def unacked_ends(self) -> tuple[int, int]:
        """The first and the last number of UnackedSequence; 0 if it is empty."""
        return self._unacked.ends()

    def __len__(self) -> int:
        """Number of messages that were sent and have not left."""
        return len(self._entries)

    def __bool__(self) -> bool:
        return True

    def begin(self, sequence_id: TxSequenceId) -> None:
        """Begin this sequence with the next messages. All of the one before have left (MS-MQQB 3.1.1.5)."""
        assert not self._entries
        self.sequence_id = sequence_id
        self.highest_number = self.last_ack_number = 0

    def reset(self, now: Now) -> list[SentEntry]:
        """MS-MQQB 3.1.3.2: begin a new session, in which everything is to be sent again.

        Returns the entries that leave: acknowledged by the destination, and no session waits for them any more.
        """
        self.last_ack_number = 0
        self.time_of_last_ack = now.wall
        self.last_ack_count = 0
        self._rewind()
        self._stop_timer()
        leaving = [entry for entry in self._entries.values() if entry.order_acknowledged]
        for entry in leaving:
            del self._entries[entry.number]
        for entry in self._entries.values():
            entry.awaits_session_ack = False
        return leaving

    def is_acknowledged(self, number: int) -> bool:
        """Whether it need not be sent: an OrderAck came for a message of an earlier session or process."""
        return number <= self.last_ack_number

    def previous_of(self, number: int) -> int:
        """MS-MQQB 3.1.7.1.3: PreviousTxSequenceNumber bridges the gap that others left (readings MQQB 3.19).

        A destination that no longer knows the sequence accepts only 0, so it gets 0 after a time-out.
        """
        previous = self._unacked.before(number)
        if previous is not None:
            return previous
        return 0 if self.resend_interval_index else min(self.last_ack_number, number - 1)

    def sent(self, number: int, lookup_id: int, now: Now) -> None:
        """Note a first or repeated send. A running timer goes on, else steady traffic would delay resending."""
        entry = self._entries.get(number)
        if entry is not None:
            entry.awaits_session_ack = True
        else:
            entry = self._entries[number] = SentEntry(
                number, lookup_id, order_acknowledged=self.is_acknowledged(number)
            )
            if not entry.order_acknowledged:
                self._unacked.add(number)
            self.highest_number = max(self.highest_number, number)
        assert number <= self.highest_number, f"{number} was sent, but the highest number is {self.highest_number}"
        assert len(self._unacked) <= len(self._entries), "more messages are unacknowledged than were sent"
        if self.deadline is None and self._unacked:
            self._start_timer(now)

    def lookup_id_of(self, number: int) -> int | None:
        """The message with this number, if it was sent and has not left."""
        entry = self._entries.get(number)
        return None if entry is None else entry.lookup_id

    def number_of(self, lookup_id: int) -> int | None:
        """The number of this message, if it was sent and has not left. For the rare case: it looks at all of them."""
        return next((number for number, entry in self._entries.items() if entry.lookup_id == lookup_id), None)

    def session_acknowledged(self, sequence_id: TxSequenceId, number: int) -> SentEntry | None:
        """Note that the next hop has the message. Returns its entry if it leaves now.

        A message that was sent twice may leave after the first SessionAck. The second one can come when the next
        sequence uses the number: an acknowledgment of another sequence changes nothing.
        """
        entry = self._entries.get(number) if sequence_id == self.sequence_id else None
        if entry is None:
            return None
        entry.awaits_session_ack = False
        return self._entries.pop(number) if entry.order_acknowledged else None

    def order_acknowledged(self, sequence_id: int, number: int, now: Now) -> list[SentEntry]:
        """MS-MQQB 3.1.5.6: the destination has all messages up to this one. Returns the entries that leave now.

        An acknowledgment of another sequence (readings MQQB 3.17) or of unsent messages changes nothing.
        """
        if sequence_id != self.sequence_id.value or number > self.highest_number:
            return []
        self.time_of_last_ack = now.wall
        self.last_ack_count += 1
        if number <= self.last_ack_number:
            self.last_ack_repeats += number == self.last_ack_number
            return []
        self.last_ack_number = number
        assert self.last_ack_number <= self.highest_number, f"{number} is acknowledged, but was never sent"
        self.last_ack_repeats = 1
        acknowledged = [self._entries[each] for each in self._unacked.take_through(number)]
        if acknowledged:
            self._rewind()
            self._stop_timer()
            if self._unacked:
                self._start_timer(now)
        return [entry for entry in acknowledged if self._leaves(entry)]

    def timed_out(self) -> list[SentEntry]:
        """MS-MQQB 3.1.6.5: handle the expired timer. Returns the entries to send again, in order.

        The timer starts again when the first of them is sent.
        """
        self.resend_interval_index = min(self.resend_interval_index + 1, len(self.resend_timer_table) - 1)
        self.resend_count += 1
        self._stop_timer()
        entries = [self._entries[number] for number in self._unacked.all()]
        for entry in entries:
            entry.awaits_session_ack = False
        return entries

    def removed(self, number: int) -> None:
        """Note that the message is gone from its queue: expired, purged or refused."""
        self._entries.pop(number, None)
        self._unacked.discard(number)
        assert len(self._unacked) <= len(self._entries), "a message that was removed still waits for its OrderAck"
        if not self._unacked:
            self._rewind()
            self._stop_timer()

    def _leaves(self, entry: SentEntry) -> bool:
        entry.order_acknowledged = True
        if entry.awaits_session_ack:
            return False
        del self._entries[entry.number]
        return True

    def _rewind(self) -> None:
        self.resend_interval_index = 0
        self.resend_count = 0

    def _start_timer(self, now: Now) -> None:
        """MS-MQQB 3.1.2.6."""
        self.deadline = now.monotonic + self.resend_interval
        self.resend_time = now.wall + self.resend_interval

    def _stop_timer(self) -> None:
        self.deadline = None
        self.resend_time = 0.0


@dataclass(slots=True)
class IncomingSequence:
    """IncomingTxSequenceID, IncomingTxSequenceNumber and TxMessageRejectCount of MS-MQQB 3.1.1.3.1.

    There is one for each source queue manager, local queue and TimeStamp (readings MQQB 3.18, ADR 23).
    `last_access_time` is in seconds since 1970.
    """

    sequence_id: int = 0
    number: int = 0
    reject_count: int = 0
    last_access_time: int = 0
    # IncomingTransactionalTransferInfo.RejectCount: number of times that the last message was refused.
    last_reject_count: int = field(default=0, compare=False)

    def accept(self, header: TransactionHeader, wall: float) -> bool:
        """MS-MQQB 3.1.5.8.6: whether the message is the next one. Only then the sequence moves (readings MQQB 3.5)."""
        is_next = self.is_next(header)
        if is_next:
            self.advance(header, wall)
        else:
            self.last_access_time = int(wall)
            self.reject_count = min(self.reject_count + 1, _LARGEST)
            self.last_reject_count = self.reject_count
        return is_next

    def advance(self, header: TransactionHeader, wall: float) -> None:
        """Advance to an accepted message."""
        place = header.tx_sequence_id, header.tx_sequence_number
        assert place > (self.sequence_id, self.number), f"{place} is accepted after {(self.sequence_id, self.number)}"
        self.last_access_time = int(wall)
        self.last_reject_count = self.reject_count
        self.sequence_id = header.tx_sequence_id
        self.number = header.tx_sequence_number
        self.reject_count = 0

    def order_ack_body(self) -> OrderAckBody | None:
        """MS-MQQB 2.2.4.1: everything accepted so far. It names the incoming sequence (readings MQQB 3.6).

        None if nothing was accepted: message 0 does not exist.
        """
        if not self.number:
            return None
        return OrderAckBody(self.sequence_id, self.number, self.number - 1)

    def is_next(self, header: TransactionHeader) -> bool:
        """Whether the message, which has the TimeStamp of this line, is the next one."""
        if header.tx_sequence_id == self.sequence_id:
            return header.previous_tx_sequence_number <= self.number < header.tx_sequence_number
        return header.tx_sequence_id > self.sequence_id and header.previous_tx_sequence_number == 0

    def is_later(self, header: TransactionHeader) -> bool:
        """Whether the message, which has the TimeStamp of this line, comes after all accepted ones."""
        return (header.tx_sequence_id, header.tx_sequence_number) > (self.sequence_id, self.number)


def final_ack_body(header: TransactionHeader, identifier: MessageIdentifier) -> FinalAckBody:
    """MS-MQQB 3.1.7.17: the content of a FinalAck for the message with this header and this identifier."""
    return FinalAckBody(
        header.tx_sequence_id,
        header.tx_sequence_number,
        header.previous_tx_sequence_number,
        identifier.queue_manager_guid,
        identifier.ordinal,
    )
