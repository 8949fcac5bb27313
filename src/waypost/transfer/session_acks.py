"""The acknowledgments of a session: MS-MQQB 3.1.1.6.1, 3.1.5.5.1 to 3.1.5.5.3, 3.1.5.8.7 and 3.1.7.1.3.

SessionCounts has the numbers of every SessionHeader, InFlight the sent messages that the other side has not confirmed.

The number of a message is the count that it makes, so the first one has 1. The counters only grow here and are cut to
16 bits on the wire. Pending recoverable acknowledgments are sent once: each header that leaves takes them along
(readings MQQB 3.8).
"""

from dataclasses import dataclass
from typing import Any, Final

from waypost.errors import ProtocolError
from waypost.wire import base_header
from waypost.wire.session_header import SessionHeader

ON_THE_WIRE: Final = 0xFFFF
ACK_FLAGS: Final = 32


@dataclass(slots=True)
class SessionCounts:
    """The state of one session that its acknowledgments carry, by the names of MS-MQQB 3.1.1.3.1.

    `recoverable_msg_ack_flags` has a bit for each recoverable message that is on disk and not yet acknowledged, from
    the number `first_pending` on. The messages reach the disk in the order of their numbers, but later than they come:
    `last_acked_recoverable_msg_seq_number` is the last number in a header, which is behind
    `recoverable_message_received_count` while some are on their way to the disk. The last `untaken` of the received
    messages are not acknowledged yet, because the queue manager has not taken them.
    """

    message_sent_count: int = 0
    message_received_count: int = 0
    recoverable_message_sent_count: int = 0
    recoverable_message_received_count: int = 0
    unacked_received_msg_count: int = 0
    recoverable_msg_ack_flags: int = 0
    last_acked_recoverable_msg_seq_number: int = 0
    first_pending: int = 0
    untaken: int = 0

    @property
    def taken_count(self) -> int:
        """The number of received messages that may be acknowledged."""
        return self.message_received_count - self.untaken

    @property
    def is_ack_owed(self) -> bool:
        """A message that reaches the disk after its number was acknowledged is owed a second acknowledgment."""
        return self.unacked_received_msg_count != 0 or self.recoverable_msg_ack_flags != 0

    def is_much_owed(self, window: int, last_number: int) -> bool:
        """Whether the other side may wait for an acknowledgment: of half the window, or of its last number."""
        if self.message_received_count >= last_number:
            return self.is_ack_owed
        return self.unacked_received_msg_count >= max(window // 2, 1)

    @property
    def is_all_stored(self) -> bool:
        """Whether every received recoverable message is on disk."""
        last = self.last_acked_recoverable_msg_seq_number
        if self.recoverable_msg_ack_flags:
            last = self.first_pending + self.recoverable_msg_ack_flags.bit_length() - 1
        return last == self.recoverable_message_received_count

    def received(self, *, is_recoverable: bool) -> int:
        """MS-MQQB 3.1.5.8.7: count a message. Returns its number among the recoverable ones, 0 if it is express."""
        self.message_received_count += 1
        self.unacked_received_msg_count += 1
        assert self.unacked_received_msg_count <= self.message_received_count, (
            "more messages are unacknowledged than arrived"
        )
        if is_recoverable:
            self.recoverable_message_received_count += 1
            return self.recoverable_message_received_count
        return 0

    def stored(self, number: int) -> None:
        """MS-MQQB 3.1.1.6.1: the recoverable message with this number is on disk: the next header acknowledges it."""
        assert 0 < number <= self.recoverable_message_received_count, f"message {number} is stored, but never arrived"
        if not self.recoverable_msg_ack_flags:
            self.first_pending = number
        self.recoverable_msg_ack_flags |= 1 << number - self.first_pending

    def take_header(self, window_size: int) -> SessionHeader:
        """MS-MQQB 3.1.5.8.7, 3.1.6.4 and 3.1.7.1.3: the header that leaves, after which nothing taken is pending."""
        header = SessionHeader(
            ack_sequence_number=self.taken_count & ON_THE_WIRE,
            recoverable_msg_ack_flags=self.recoverable_msg_ack_flags,
            user_msg_sequence_number=self.message_sent_count & ON_THE_WIRE,
            recoverable_msg_seq_number=self.recoverable_message_sent_count & ON_THE_WIRE,
            window_size=window_size,
        )
        self.unacked_received_msg_count = self.untaken
        if self.recoverable_msg_ack_flags:
            header.recoverable_msg_ack_seq_number = self.first_pending & ON_THE_WIRE
            last = self.first_pending + self.recoverable_msg_ack_flags.bit_length() - 1
            assert self.last_acked_recoverable_msg_seq_number < self.first_pending, f"{last} is reported twice"
            assert last <= self.recoverable_message_received_count, f"{last} is reported, but never arrived"
            self.last_acked_recoverable_msg_seq_number = last
            self.recoverable_msg_ack_flags = 0
        return header

    def check_acknowledged(self, header: SessionHeader) -> None:
        """Raise an error if unsent messages are acknowledged. (The numbers sent do not wrap: readings MQQB 3.27.)"""
        if header.ack_sequence_number > self.message_sent_count:
            raise ProtocolError(
                f"the other side acknowledges {header.ack_sequence_number} messages, "
                f"but {self.message_sent_count} were sent"
            )
        last = header.recoverable_msg_ack_seq_number + max(header.recoverable_msg_ack_flags.bit_length() - 1, 0)
        if last > self.recoverable_message_sent_count:
            raise ProtocolError(
                f"the other side acknowledges {last} recoverable messages, "
                f"but {self.recoverable_message_sent_count} were sent"
            )

    def check_received(self, header: SessionHeader) -> None:
        """MS-MQQB 3.1.5.5.5: both sides count the same messages."""
        if (
            header.user_msg_sequence_number != self.message_received_count & ON_THE_WIRE
            or header.recoverable_msg_seq_number != self.recoverable_message_received_count & ON_THE_WIRE
        ):
            raise ProtocolError(
                f"the other side reports {header.user_msg_sequence_number} sent messages "
                f"({header.recoverable_msg_seq_number} recoverable), but {self.message_received_count} messages "
                f"arrived ({self.recoverable_message_received_count} recoverable)"
            )


@dataclass(slots=True, eq=False)
class Sent:
    """One message on its way: OutgoingMessagePosition of MS-MQQB 3.1.1.3.1.2.

    `owner`, `lookup_id` and `message` are for the sender only. `recoverable_sequence_number` is 0 for
    an express message.
    """

    owner: Any
    lookup_id: int
    message: Any
    is_transactional: bool
    sequence_number: int = 0
    recoverable_sequence_number: int = 0


class InFlight:
    """The entries in the order in which they were sent.

    An express or transactional one is acknowledged by its number; a recoverable one when the other side reports that it
    is on disk (3.1.5.5.3). Only messages sent here are entries, so a number 0 cannot match (readings MQQB 3.1).
    """

    __slots__ = ("_entries", "_recoverable", "_recoverable_acknowledged", "acknowledged")

    def __init__(self) -> None:
        self.acknowledged = 0
        self._entries: dict[int, Sent] = {}
        self._recoverable: dict[int, Sent] = {}
        self._recoverable_acknowledged = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, sent: Sent) -> None:
        self._entries[sent.sequence_number] = sent
        if sent.recoverable_sequence_number and not sent.is_transactional:
            self._recoverable[sent.recoverable_sequence_number] = sent

    def entries(self) -> list[Sent]:
        return list(self._entries.values())

    def acknowledge(self, header: SessionHeader) -> list[Sent]:
        """Remove the entries that the header acknowledges. A number that was acknowledged before changes nothing."""
        taken = []
        entries = self._entries
        last = header.ack_sequence_number
        for number in range(self.acknowledged + 1, last + 1):
            sent = entries.get(number)
            if sent is not None and (sent.is_transactional or not sent.recoverable_sequence_number):
                del entries[number]
                taken.append(sent)
        self.acknowledged = max(self.acknowledged, last)

        lowest = header.recoverable_msg_ack_seq_number
        flags = header.recoverable_msg_ack_flags
        for number in range(self._recoverable_acknowledged + 1, lowest + max(flags.bit_length(), 1)):
            if number <= lowest or flags >> number - lowest & 1:
                sent = self._recoverable.pop(number, None)
                if sent is not None:
                    del entries[sent.sequence_number]
                    taken.append(sent)
        self._recoverable_acknowledged = max(self._recoverable_acknowledged, lowest)
        assert len(self._recoverable) <= len(entries), "an unsent message waits until the other side has stored it"
        return taken


def with_session_header(data: bytes, header: SessionHeader) -> bytes:
    """MS-MQQB 3.1.7.11: the bytes of a message with an acknowledgment behind it, which PacketSize does not count."""
    flags = int.from_bytes(data[2:4], "little") | base_header.SH
    return b"".join((data[:2], flags.to_bytes(2, "little"), data[4:], header.encode()))
