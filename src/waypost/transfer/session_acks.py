"""What a session says about itself in every SessionHeader: MS-MQQB 3.1.1.6.1, 3.1.5.8.7 and 3.1.7.1.3.

The number of a message is the count that it makes, so the first one has 1. The counters only grow here and are cut to
16 bits on the wire. Pending recoverable acknowledgments are told once: each header that leaves takes them along
(readings MQQB 3.8).
"""

from dataclasses import dataclass, field
from typing import Final

from waypost.wire.internal_packets import SessionAck
from waypost.wire.session_header import DEFAULT_WINDOW_SIZE, SessionHeader
from waypost.wire.user_header import RECOVERABLE
from waypost.wire.user_message import UserMessage

_ON_THE_WIRE: Final = 0xFFFF
_BITS: Final = 32


@dataclass(slots=True)
class SessionCounts:
    """The state of one session that its acknowledgments carry, by the names of MS-MQQB 3.1.1.3.1."""

    message_sent_count: int = 0
    message_received_count: int = 0
    recoverable_message_sent_count: int = 0
    recoverable_message_received_count: int = 0
    window_size: int = DEFAULT_WINDOW_SIZE
    # Numbers of recoverable messages that are on disk and not yet acknowledged.
    pending: set[int] = field(default_factory=set)

    def count_sent(self, message: UserMessage) -> None:
        self.message_sent_count += 1
        if message.user.delivery == RECOVERABLE:
            self.recoverable_message_sent_count += 1

    def count_received(self, message: UserMessage) -> None:
        self.message_received_count += 1
        if message.user.delivery == RECOVERABLE:
            self.recoverable_message_received_count += 1

    def acknowledged_by(self, header: SessionHeader) -> int:
        """MS-MQQB 3.1.5.5.1: the number up to which, and including it, a received header acknowledges what was sent.

        The header has 16 bits of it: it is the largest such number that was sent, and 0 if none was.
        """
        return max(self.message_sent_count - (self.message_sent_count - header.ack_sequence_number & _ON_THE_WIRE), 0)

    def stored(self, number: int) -> None:
        """MS-MQQB 3.1.1.6.1: the recoverable message with this number is on disk, so a header acknowledges it."""
        self.pending.add(number)

    def session_ack(self) -> SessionAck:
        """MS-MQQB 3.1.5.8.7: the acknowledgment in a packet of its own."""
        return SessionAck(session=self._take_header())

    def piggyback(self, message: UserMessage) -> None:
        """MS-MQQB 3.1.7.1.3: the acknowledgment behind a message about to be sent, which counts as sent in it."""
        self.count_sent(message)
        message.session = self._take_header()

    def _take_header(self) -> SessionHeader:
        """The bits of a header reach 31 numbers beyond the lowest; what lies farther waits for the next header."""
        lowest = min(self.pending, default=0)
        told = {number for number in self.pending if number - lowest < _BITS}
        self.pending -= told
        return SessionHeader(
            ack_sequence_number=self.message_received_count & _ON_THE_WIRE,
            recoverable_msg_ack_seq_number=lowest & _ON_THE_WIRE,
            recoverable_msg_ack_flags=sum(1 << number - lowest for number in told),
            user_msg_sequence_number=self.message_sent_count & _ON_THE_WIRE,
            recoverable_msg_seq_number=self.recoverable_message_sent_count & _ON_THE_WIRE,
            window_size=self.window_size,
        )
