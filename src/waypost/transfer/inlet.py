"""What comes on the connection of a session: bytes of one packet, whole packets that wait, and what they are."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from waypost.clock import Now
from waypost.errors import DecodeError
from waypost.transfer.in_flight import Sent
from waypost.transfer.session_timers import SessionTimers
from waypost.wire import base_header
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.transaction_header import IllegalSequenceNumber
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

# Each of them counts as a UserMessage.
MessagePacket = UserMessage | OrderAck | FinalAck

# More packets than any data have.
ALL: Final = 1 << 62


class Inlet:
    """Packets come out in their order, as many as are wanted, and none while it is held.

    It is held while the other side has sent more than the window, and unread while the owner does not read from the
    connection. While it is either, the other side is not to blame that nothing comes: the Ack Wait Timer stands still.
    """

    __slots__ = ("_splitter", "_timers", "is_held", "is_unread", "packets", "unfinished_bytes")

    def __init__(self, timers: SessionTimers) -> None:
        self._timers: Final = timers
        self._splitter: Final = Splitter()
        # Those that wait.
        self.packets: Final[deque[bytes]] = deque()
        self.is_held = False
        self.is_unread = False
        # Of a packet that has come in part, even after `clear`, so that an owner who adds them up can.
        self.unfinished_bytes = 0

    @property
    def is_shut(self) -> bool:
        return self.is_held or self.is_unread

    def hold(self, now: Now) -> None:
        self.is_held = True
        self._mind_ack_wait(now)

    def release(self, now: Now) -> bool:
        """Whether it was held until now."""
        was_held, self.is_held = self.is_held, False
        if was_held:
            self._mind_ack_wait(now)
        return was_held

    def set_unread(self, now: Now, *, is_unread: bool) -> None:
        """The owner does not read from the connection for now, or reads again."""
        self.is_unread = is_unread
        self._mind_ack_wait(now)

    def _mind_ack_wait(self, now: Now) -> None:
        if self.is_shut:
            self._timers.stop_ack_wait_clock(now)
        else:
            self._timers.start_ack_wait_clock(now)

    def feed(self, data: bytes) -> None:
        """Take bytes. Where the stream breaks it ends: see `check`."""
        if data and self._splitter.error is None:
            try:
                self.packets.extend(self._splitter.feed(data))
            except DecodeError:
                # What came before the break is looked at first.
                if not self.packets:
                    raise
            finally:
                self.unfinished_bytes = self._splitter.pending

    def take(self, most: int) -> Iterator[bytes]:
        """The next packets, which wait no longer."""
        packets = self.packets
        for _ in range(0 if self.is_held else min(most, len(packets))):
            yield packets.popleft()

    def check(self) -> None:
        """Raise DecodeError if the stream is broken and everything before the break was taken."""
        if not self.packets and self._splitter.error is not None:
            raise self._splitter.error

    def clear(self) -> None:
        self.packets.clear()


class Incoming(NamedTuple):
    """A message that has come.

    `data` are its bytes without the SessionHeader of the session it came over. `recoverable_number` is to be told to
    `Session.stored`; it is 0 for an express message.
    """

    packet: MessagePacket
    data: bytes
    recoverable_number: int


@dataclass(slots=True)
class Received:
    """What came out of some bytes: messages, in order, and what they acknowledge of that which was sent.

    `packets` is how many were looked at, messages or not.
    """

    messages: list[Incoming] = field(default_factory=list)
    acknowledged: list[Sent] = field(default_factory=list)
    packets: int = 0


def decode_received(data: bytes) -> Packet:
    """A packet that came on a session.

    A relay that passes on a message with an illegal sequence number sends it on every session: to close each of them
    would stop the link. So it is counted and acknowledged like any other message, and discarded behind that.
    """
    try:
        return decode_packet(data)
    except IllegalSequenceNumber:
        return UserMessage.decode(data)


def without_session_header(message: UserMessage, data: bytes) -> bytes:
    """Take the SessionHeader off a message that has one; `data` are its bytes."""
    message.session = None
    message.base.flags &= ~base_header.SH
    return b"".join((data[:2], message.base.flags.to_bytes(2, "little"), data[4 : message.base.packet_size]))
