"""What a session hands out of the bytes that came."""

from dataclasses import dataclass, field
from typing import NamedTuple

from waypost.transfer.in_flight import Sent
from waypost.wire import base_header
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

# Each of them counts as a UserMessage.
MessagePacket = UserMessage | OrderAck | FinalAck


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


def without_session_header(message: UserMessage, data: bytes) -> bytes:
    """Take the SessionHeader off a message that has one; `data` are its bytes."""
    message.session = None
    message.base.flags &= ~base_header.SH
    return b"".join((data[:2], message.base.flags.to_bytes(2, "little"), data[4 : message.base.packet_size]))
