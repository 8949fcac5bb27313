"""Other queue managers that a test speaks for, packet by packet, on separate addresses of loopback."""

import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Self

from tests.crash.daemons import TRANSFER_PORT, Daemon, loopback
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.guid import NULL_GUID
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.user_message import UserMessage

SECONDS: Final = 60.0


class Stranger:
    """A queue manager with a session at a daemon. A `with` block opens one, and closes it in the end."""

    def __init__(self, victim: Daemon, number: int, guid: bytes = b"") -> None:
        self.victim = victim
        self.guid = guid or bytes([number]) * 16
        self.received: list[Packet] = []
        self._address = loopback(number)
        self._ordinal = 0

    def __enter__(self) -> Self:
        self._splitter = Splitter()
        self._sent = 0
        self.received = []
        source = (self._address, 0)
        self._socket = socket.create_connection((self.victim.address, TRANSFER_PORT), SECONDS, source_address=source)
        self._socket.sendall(EstablishConnection.request(self.guid, NULL_GUID, 1, 0).encode())
        self.read_until(EstablishConnection)
        self._socket.sendall(ConnectionParameters(recoverable_ack_timeout=50, ack_timeout=20_000).encode())
        self.read_until(ConnectionParameters)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def message(self, queue: str, body: bytes = b"", tx: tuple[int, int, int] | None = None, **changes: Any) -> bytes:
        """A recoverable message; `tx` are TimeStamp, TxSequenceNumber and PreviousTxSequenceNumber."""
        self._ordinal += 1
        message = Message(
            identifier=MessageIdentifier(self.guid, self._ordinal),
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            destination_queue_format_name=FormatName.parse(self.victim.direct(queue)),
            sent_time=int(time.time()),
            body=body,
        )
        if tx is not None:
            message.transaction_identifier = 1
            message.transactional_message_sequence_identifier = TxSequenceId(1, tx[0])
            message.transaction_sequence_number = tx[1]
            message.transaction_previous_sequence_number = tx[2]
        return packet_of(replace(message, **changes))

    def send(self, *packets: bytes) -> None:
        """Wait until all of them are acknowledged by the session."""
        self._sent += len(packets)
        self._socket.sendall(b"".join(packets))
        while not any(ack.session.ack_sequence_number >= self._sent for ack in self.of(SessionAck)):
            assert self._read(), "the session was closed"

    def send_to_the_end(self, *packets: bytes) -> None:
        """Wait until the session is closed because of them."""
        self._socket.sendall(b"".join(packets))
        while self._read():
            pass

    def of(self, kind: type[Packet]) -> list[Any]:
        return [packet for packet in self.received if isinstance(packet, kind)]

    def read_until(self, kind: type[Packet], count: int = 1) -> None:
        """Wait until so many packets of this kind have come."""
        while len(self.of(kind)) < count:
            assert self._read(), "the session was closed"

    def _read(self) -> bool:
        """Read the next data; False when the connection ends."""
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            return False
        self.received += map(decode_packet, self._splitter.feed(data))
        return bool(data)


class Listener:
    """A queue manager that daemons connect to: it answers with any GUID, and says nothing else. For a `with` block."""

    def __init__(self, number: int, guid: bytes) -> None:
        self.address = loopback(number)
        self.received: list[Packet] = []
        self._guid = guid

    def __enter__(self) -> Self:
        self._server = socket.create_server((self.address, TRANSFER_PORT))
        self._server.settimeout(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._socket.close()

    def read_until(self, kind: type[Packet]) -> None:
        """Take the connection that comes first, and wait until a packet of this kind has come on it."""
        if not self.received:
            self._socket, _ = self._server.accept()
            self._socket.settimeout(SECONDS)
            self._splitter = Splitter()
        while not any(isinstance(packet, kind) for packet in self.received):
            data = self._socket.recv(65536)
            assert data, "the session was closed"
            self.take(data)

    def take(self, data: bytes) -> None:
        for packet in map(decode_packet, self._splitter.feed(data)):
            self.received.append(packet)
            match packet:
                case EstablishConnection():
                    self._socket.sendall(packet.accepted(self._guid).encode())
                case ConnectionParameters():
                    self._socket.sendall(packet.response(64).encode())

    def take_what_is_there(self) -> None:
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while data := self._socket.recv(65536):
                self.take(data)


def changed(packet: bytes) -> UserMessage:
    """A packet to change and encode again."""
    return UserMessage.decode(packet)
