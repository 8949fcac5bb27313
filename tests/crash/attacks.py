"""Attacks of hostile hosts on a daemon over real sockets. Each attack ends by itself, whatever is answered."""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any, Final

from fuzz import corpus
from tests.crash.daemons import HTTP_PORT, PING_PORT, ROOT, TRANSFER_PORT, Daemon, loopback
from waypost.core.message import Message
from waypost.core.message_values import Acknowledgements, DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.guid import NULL_GUID, parse_guid
from waypost.limits import MAX_PACKET_SIZE
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.ping import Ping
from waypost.wire.session_header import SessionHeader

SECONDS: Final = 5.0
# A daemon lets a peer have so many connections, less a few: more come from more addresses.
CONNECTIONS_OF_ONE: Final = 200
MAX_PACKETS_A_CONNECTION: Final = 12
_MEGABYTE: Final = 1 << 20


class Attacker:
    """One victim, and the queues of it that anybody may send to. `dice` decides all that is random."""

    def __init__(self, victim: Daemon, queue: str, transactional_queue: str, seed: int) -> None:
        self.victim = victim
        self.dice = random.Random(seed)
        self._queue = victim.direct(queue)
        self._transactional_queue = victim.direct(transactional_queue)
        self._ordinal = 0
        vectors = [path.read_bytes() for path in sorted((ROOT / "tests/vectors").glob("*.bin"))]
        self.vectors: Final = vectors
        self._seeds: Final = [
            *vectors,
            *(data for data in corpus.known("packet") if len(data) < 10_000),
            *(self.message(self._queue) for _ in range(5)),
            *(self.transactional_message() for _ in range(5)),
        ]

    # Parts

    def connect(self, number: int = 0, port: int = TRANSFER_PORT) -> socket.socket:
        """From one of many addresses."""
        source = (loopback(100 + number // CONNECTIONS_OF_ONE % 100), 0)
        return socket.create_connection((self.victim.address, port), SECONDS, source_address=source)

    def session(self, number: int = 0) -> socket.socket:
        """A connection with an open session, like that of a queue manager that behaves well."""
        peer = self.connect(number)
        try:
            self.shake_hands(peer, self.dice.randbytes(16))
        except OSError:
            peer.close()
            raise
        return peer

    def shake_hands(self, peer: socket.socket, guid: bytes) -> None:
        peer.sendall(EstablishConnection.request(guid, NULL_GUID, 1, 0).encode())
        _read(peer)
        peer.sendall(ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000).encode())
        _read(peer)

    def message(self, name: str, body: bytes = b"hello", /, source: bytes | None = None, **changes: Any) -> bytes:
        self._ordinal += 1
        return packet_of(
            Message(
                identifier=MessageIdentifier(source or self.dice.randbytes(16), self._ordinal),
                delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
                destination_queue_format_name=FormatName.parse(name),
                sent_time=int(time.time()),
                body=body,
                **changes,
            )
        )

    def transactional_message(self) -> bytes:
        """The first of a sequence that nobody else has."""
        return self.message(
            self._transactional_queue,
            transaction_identifier=1,
            transactional_message_sequence_identifier=TxSequenceId(1, self.dice.randrange(1 << 31)),
            transaction_sequence_number=1,
            transaction_previous_sequence_number=0,
        )

    def mutated(self) -> bytes:
        dice = self.dice
        data = bytearray(dice.choice(self._seeds))
        for _ in range(dice.choice((0, 1, 1, 2, 5, 20))):
            at = dice.randrange(max(len(data), 1))
            match dice.randrange(5):
                case 0:
                    data[at : at + 1] = bytes([dice.randrange(256)])
                case 1:
                    data[at : at + 4] = dice.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(data))).to_bytes(4, "little")
                case 2:
                    del data[at : at + dice.randrange(1, 40)]
                case 3:
                    data[at:at] = dice.randbytes(dice.randrange(1, 40))
                case _:
                    other = dice.choice(self._seeds)
                    data[at:] = other[dice.randrange(max(len(other), 1)) :]
        return bytes(data)

    # Attacks on the port for messages

    def send_vectors(self) -> None:
        """Every one, before and after a handshake."""
        for vector in self.vectors:
            with suppress(OSError), self.connect() as peer:
                peer.sendall(vector)
                _read(peer, 0.05)
            with suppress(OSError), self.session() as peer:
                peer.sendall(vector)
                _read(peer, 0.05)

    def send_mutants(self, count: int) -> None:
        """Mutated packets, most of them in sessions that are open, after messages that count."""
        left = count
        while left > 0 and self.victim.is_up:
            packets = [self.mutated() for _ in range(min(left, self.dice.randrange(1, MAX_PACKETS_A_CONNECTION)))]
            left -= len(packets)
            if self.dice.randrange(4) == 0:
                with suppress(OSError), self.connect(self.dice.randrange(1 << 14)) as peer:
                    peer.sendall(b"".join(packets))
                    _read(peer, 0.001)
                continue
            with suppress(OSError), self.session(self.dice.randrange(1 << 14)) as peer:
                peer.sendall(self.message(self._queue) * self.dice.randrange(3))
                for packet in packets:
                    peer.sendall(packet)
                _read(peer, 0.001)

    def be_idle(self, count: int, seconds: float = 0.0) -> int:
        """So many connections that say nothing, and some that say a byte a second. Returns how many were let in."""
        request = EstablishConnection.request(self.dice.randbytes(16), NULL_GUID, 1, 0).encode()
        with ExitStack() as stack:
            peers = []
            for number in range(count):
                with suppress(OSError):
                    peers.append(stack.enter_context(self.connect(number)))
            time.sleep(0.5)
            let_in = sum(_is_open(peer) for peer in peers)
            deadline = time.monotonic() + seconds
            for number in range(len(request)):
                for peer in peers[::4]:
                    with suppress(OSError):
                        peer.send(request[number : number + 1])
                if time.monotonic() > deadline:
                    break
                time.sleep(1)
        return let_in

    def drip(self, count: int, seconds: float) -> None:
        """Sessions that are open and get a message byte by byte."""
        message = self.message(self._queue, bytes(5000))
        with ExitStack() as stack:
            peers = []
            for number in range(count):
                with suppress(OSError):
                    peers.append(stack.enter_context(self.session(number)))
            deadline = time.monotonic() + seconds
            for number in range(len(message)):
                for peer in peers:
                    with suppress(OSError):
                        peer.send(message[number : number + 1])
                if time.monotonic() > deadline:
                    return
                time.sleep(1)

    def send_too_much(self, megabytes: int = 64) -> None:
        """Packets that say they are larger than any, that end too soon, and the largest that may be."""
        header = self.message(self._queue)[:16]
        for size in (MAX_PACKET_SIZE + 1, 0x7FFF_FFFF, 0xFFFF_FFFF, MAX_PACKET_SIZE):
            with suppress(OSError), self.session() as peer:
                peer.sendall(header[:8] + size.to_bytes(4, "little") + header[12:])
                for _ in range(megabytes):
                    peer.sendall(bytes(_MEGABYTE))
        largest = self.message(self._queue, bytes(MAX_PACKET_SIZE - 4096))
        for number in range(8):
            # Without a queue none is kept.
            with suppress(OSError), self.session(number * CONNECTIONS_OF_ONE) as peer:
                peer.sendall(largest.replace("orders".encode("utf-16-le"), "nobody".encode("utf-16-le")))
                peer.sendall(largest[: self.dice.randrange(16, len(largest))])

    def lie(self, count: int) -> None:
        """Session acknowledgments of what never was, and acknowledgments of the orders of others."""
        dice = self.dice
        for number in range(count):
            with suppress(OSError), self.session(number) as peer:
                values = [dice.choice((0, 1, 2, 0x7FFF, 0xFFFF)) for _ in range(5)]
                ack, stored, sent, recoverable, window = values
                header = SessionHeader(ack, stored, dice.choice((0, 1, 0xFFFF_FFFF)), sent, recoverable, window)
                peer.sendall(SessionAck(session=header).encode())
                peer.sendall(self.message(self._queue))
                _read(peer, 0.01)

    def be_its_twin(self, count: int) -> None:
        """Handshakes of somebody who has the identifier of the victim."""
        guid = parse_guid(self.victim.guid)
        for number in range(count):
            with suppress(OSError), self.connect(number) as peer:
                self.shake_hands(peer, guid)

    def forge(self, packets: Iterator[bytes]) -> int:
        """Send messages, each in its turn, over sessions that acknowledge nothing. Returns how many were written."""
        written = 0
        packet = next(packets, None)
        while packet is not None and self.victim.is_up:
            with suppress(OSError), self.session(written) as peer:
                for _ in range(500):
                    peer.sendall(packet)
                    written += 1
                    packet = next(packets, None)
                    if packet is None:
                        break
                _drain(peer)
        return written

    def forged_admin_queues(self, count: int) -> Iterator[bytes]:
        """Messages that ask for acknowledgments to hosts that do not exist."""
        for number in range(count):
            host = f"127.77.{number >> 8 & 0xFF}.{number & 0xFF}"
            yield self.message(
                self._queue,
                administration_queue_format_name=FormatName.parse(rf"DIRECT=TCP:{host}\private$\admin{number}"),
                acknowledgements_requested=Acknowledgements.ACK_POS_ARRIVAL | Acknowledgements.ACK_NEG_ARRIVAL,
            )

    def forged_sources(self, count: int) -> Iterator[bytes]:
        """Transactional messages, each from another queue manager that does not exist."""
        return (self.transactional_message() for _ in range(count))

    def flood_pings(self, count: int) -> None:
        """Datagrams of all sorts to the port for pings."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.bind((loopback(100), 0))
            ping = Ping(flags=0, cookie=1, qm_guid=self.dice.randbytes(16)).encode()
            for _ in range(count):
                data = self.dice.choice(
                    (ping, self.dice.randbytes(len(ping)), self.dice.randbytes(1200), b"", ping[:7])
                )
                with suppress(OSError):
                    asking.sendto(data, (self.victim.address, PING_PORT))

    # Attacks on HTTP

    def http(self, data: bytes, seconds: float = SECONDS) -> bytes:
        """The first part of the answer."""
        with suppress(OSError), self.connect(0, HTTP_PORT) as peer:
            with suppress(OSError):
                peer.sendall(data)
            return _read(peer, seconds)
        return b""

    @property
    def token(self) -> bytes:
        """The line with the token of the victim, without which it does not look at a body."""
        return f"Authorization: {self.victim.headers['Authorization']}\r\n".encode("ascii")

    def post(self, body: bytes, kind: bytes = b"application/json", length: int | None = None) -> bytes:
        head = (
            b"POST /api/queues/orders/messages HTTP/1.1\r\nHost: %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n"
            + self.token
            + b"\r\n"
        )
        host = self.victim.address.encode()
        return self.http(head % (host, kind, len(body) if length is None else length) + body)

    def send_bad_requests(self, count: int) -> None:
        """Bodies that are not JSON, not MessagePack or too large, and heads that are not HTTP."""
        dice = self.dice
        for _ in range(count):
            kind = dice.choice((b"application/json", b"application/msgpack"))
            bodies = (
                dice.randbytes(200),
                b"[" * 20_000,
                b'{"messages":[{"body_base64":"!"}]}',
                b"\xdd\xff\xff\xff\xff",
            )
            self.post(dice.choice(bodies), kind)
        self.post(b"", length=1 << 40)
        self.http(dice.randbytes(5000), 0.2)
        self.http(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000, 0.5)
        self.http(b"GET /" + b"a" * _MEGABYTE, 0.5)

    def send_huge_bodies(self, megabytes: int) -> None:
        """With and without a length."""
        self.post(bytes(megabytes * _MEGABYTE))
        with suppress(OSError), self.connect(0, HTTP_PORT) as peer:
            host = self.victim.address.encode()
            peer.sendall(
                b"POST /api/queues/orders/messages HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n%b\r\n" % (host, self.token)
            )
            for _ in range(megabytes):
                peer.sendall(b"100000\r\n" + bytes(_MEGABYTE) + b"\r\n")
            _read(peer)

    def be_idle_on_http(self, count: int, seconds: float) -> None:
        """Connections that say nothing, or a byte of a request a second."""
        request = b"POST /api/queues/orders/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
        with ExitStack() as stack:
            peers = []
            for number in range(count):
                with suppress(OSError):
                    peers.append(stack.enter_context(self.connect(number, HTTP_PORT)))
            deadline = time.monotonic() + seconds
            for number in range(len(request)):
                for peer in peers[::2]:
                    with suppress(OSError):
                        peer.send(request[number : number + 1])
                if time.monotonic() > deadline:
                    return
                time.sleep(1)


@contextmanager
def deaf_queue_manager(address: str) -> Iterator[None]:
    """It opens sessions with a large window, and then neither reads nor acknowledges anything."""
    with socket.create_server((address, TRANSFER_PORT)) as server, ExitStack() as stack:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    stack.callback(peer.close)
                    request = EstablishConnection.decode(_read(peer))
                    peer.sendall(request.accepted(b"\x77" * 16).encode())
                    parameters = ConnectionParameters.decode(_read(peer))
                    peer.sendall(parameters.response(0xFFFF).encode())

        Thread(target=serve, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


def _read(peer: socket.socket, seconds: float = SECONDS) -> bytes:
    """The next bytes within this time."""
    peer.settimeout(seconds)
    try:
        return peer.recv(65536)
    except TimeoutError:
        return b""
    finally:
        peer.settimeout(SECONDS)


def _drain(peer: socket.socket) -> None:
    while _read(peer, 0.02):
        pass


def _is_open(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return bool(peer.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False
