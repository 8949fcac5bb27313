"""One connection between a stranger and a host, on the side of the stranger: its claimed identity and its answers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from waypost.guid import NULL_GUID
from waypost.sim.net.forgeries import parameters
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Splitter, decode_packet
from waypost.wire.session_header import SessionHeader
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_header import RECOVERABLE
from waypost.wire.user_message import UserMessage

if TYPE_CHECKING:
    from waypost.sim.net.host import NetworkHost


@dataclass(slots=True)
class Counts:
    """Messages of one direction, and how many of them are recoverable."""

    messages: int = 0
    recoverable: int = 0

    def add(self, packet: UserMessage | OrderAck | FinalAck) -> None:
        message = packet if isinstance(packet, UserMessage) else packet.message
        self.messages += 1
        self.recoverable += message.user.delivery == RECOVERABLE


@dataclass(slots=True)
class Visit:
    """A visit. With `is_thief` the stranger acknowledges and keeps whatever the host sends."""

    host: "NetworkHost"
    guid: bytes
    is_thief: bool = False
    is_open: bool = False
    was_called: bool = False
    sent: Counts = field(default_factory=Counts)
    received: Counts = field(default_factory=Counts)
    _splitter: Splitter = field(default_factory=Splitter)

    def writes(self, data: bytes) -> None:
        """Count the written packets, because both sides have to count the same."""
        if self.is_thief:
            for packet in map(decode_packet, Splitter().feed(data)):
                if isinstance(packet, UserMessage | OrderAck | FinalAck):
                    self.sent.add(packet)

    def answer(self, data: bytes) -> bytes:
        """The bytes that the stranger writes in answer."""
        if self.is_open and not self.is_thief:
            return b""
        before = self.received.messages
        answer = b""
        for packet in map(decode_packet, self._splitter.feed(data)):
            match packet:
                case EstablishConnection() if packet.client_guid != self.guid:
                    # The stranger poses as the host that the caller looks for.
                    self.was_called = True
                    self.guid = self.guid if packet.server_guid == NULL_GUID else packet.server_guid
                    answer += packet.accepted(self.guid).encode()
                case EstablishConnection() if not packet.internal.is_refused:
                    answer += parameters()
                case ConnectionParameters():
                    answer += packet.response(packet.window_size).encode() if self.was_called else b""
                    self.is_open = True
                case UserMessage() | OrderAck() | FinalAck():
                    self.received.add(packet)
        return answer if self.received.messages == before else answer + self._acknowledgment()

    def _acknowledgment(self) -> bytes:
        header = SessionHeader(
            ack_sequence_number=self.received.messages,
            recoverable_msg_ack_seq_number=self.received.recoverable,
            recoverable_msg_ack_flags=int(self.received.recoverable > 0),
            user_msg_sequence_number=self.sent.messages,
            recoverable_msg_seq_number=self.sent.recoverable,
        )
        return SessionAck(session=header).encode()
