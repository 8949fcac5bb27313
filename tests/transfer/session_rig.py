"""Two sessions joined in memory, with a clock that moves when told."""

from typing import Any

from waypost.clock import Now
from waypost.guid import NULL_GUID
from waypost.timers import Timers
from waypost.transfer.handshake import Initiator
from waypost.transfer.session import Incoming, Received, Role, Sent, Session, SessionState, SessionTimer
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire import Splitter, decode_packet
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet
from waypost.wire.property_values import OperatingSystem
from waypost.wire.session_header import SessionHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.transactional_acks import (
    FinalAckBody,
    OrderAckBody,
    final_ack,
    local_order_queue,
    order_ack,
)
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

CLIENT = bytes(range(16))
SERVER = bytes(range(16, 32))
STRANGER = bytes(range(32, 48))

EXPRESS = UserMessage().encode()
RECOVERABLE = UserMessage(user=UserHeader(flags=0x20)).encode()
TRANSACTIONAL = UserMessage(user=UserHeader(flags=0x20), transaction=TransactionHeader()).encode()
ORDER_ACK = order_ack(UserHeader(), local_order_queue(), OrderAckBody(1, 1, 0)).encode()
FINAL_ACK = final_ack(UserHeader(), local_order_queue(), 0x4000, FinalAckBody(1, 1, 0, CLIENT, 7)).encode()


def packets(data: bytes) -> list[Packet]:
    """The packets that a session has written."""
    splitter = Splitter()
    found = [decode_packet(packet) for packet in splitter.feed(data)]
    assert splitter.pending == 0
    return found


def header_of(data: bytes) -> SessionHeader:
    """The acknowledgment in the one packet that `data` is."""
    (packet,) = packets(data)
    assert isinstance(packet, SessionAck | UserMessage)
    assert packet.session is not None
    return packet.session


def ack(
    number: int = 0,
    recoverable: int = 0,
    flags: int = 0,
    *,
    sent: tuple[int, int] = (0, 0),
    window: int = 64,
) -> bytes:
    return SessionAck(session=SessionHeader(number, recoverable, flags, *sent, window)).encode()


class Side:
    """One session with what its owner has got from it."""

    def __init__(self, rig: "Rig", role: Role, address: str = "192.0.2.1", **options: Any) -> None:
        own_guid = CLIENT if role is Role.INITIATOR else SERVER
        self._rig = rig
        self.statistics = Statistics()
        self.messages: list[Incoming] = []
        self.acknowledged: list[Sent] = []
        self.session = Session(
            role,
            1,
            address,
            identity=Initiator(own_guid, OperatingSystem.MSMQ_OS_NTS),
            settings=rig.settings,
            timers=rig.timers,
            on_timer=Session.expired,
            statistics=self.statistics,
            now=rig.now,
            **options,
        )

    @property
    def state(self) -> SessionState:
        return self.session.state

    # Methods, because mypy takes an attribute that was asserted once to stay as it was.
    def error(self) -> str | None:
        return self.session.error

    def is_active(self) -> bool:
        return self.session.session_active

    def can_send(self) -> bool:
        return self.session.can_send

    def take(self, data: bytes) -> Received:
        received = self.session.data_received(data, self._rig.now)
        self.messages += received.messages
        self.acknowledged += received.acknowledged
        return received

    def send(self, *messages: bytes, may_piggyback: bool = True) -> list[Sent]:
        entries: list[Sent] = []
        for data in messages:
            flags = int.from_bytes(data[60:64], "little")
            sent = Sent(None, len(entries), None, is_transactional=flags & 0x10_0000 != 0)
            recoverable = flags & 0x60 == 0x20
            self.session.send(data, sent, self._rig.now, is_recoverable=recoverable, may_piggyback=may_piggyback)
            entries.append(sent)
        return entries

    def store(self, *numbers: int) -> None:
        self.session.stored(numbers, self._rig.now)

    def written(self) -> bytes:
        return self.session.take_output()

    def runs(self, timer: SessionTimer) -> bool:
        return self._rig.timers.is_running((self.session, timer))

    def remaining(self, timer: SessionTimer) -> float:
        deadline = self._rig.timers.deadline((self.session, timer))
        assert deadline is not None
        return round(deadline - self._rig.now.monotonic, 6)


class Rig:
    """An initiator and an acceptor. `carry` moves what they write until both are silent."""

    def __init__(self, settings: TransferSettings | None = None, *, expected_guid: bytes = SERVER) -> None:
        self.settings = settings or TransferSettings()
        self.now = Now(monotonic=1000.0, wall=1_700_000_000.0)
        self.timers = Timers()
        self.initiator = Side(self, Role.INITIATOR, expected_guid=expected_guid)
        self.acceptor = Side(self, Role.ACCEPTOR)
        # The packets on the wire, with the role of the writer.
        self.wire: list[tuple[Role, Packet]] = []

    def open(self) -> "Rig":
        self.initiator.session.connected(self.now)
        self.carry()
        assert self.initiator.state is self.acceptor.state is SessionState.OPEN
        return self

    def carry(self) -> None:
        sides = (self.initiator, self.acceptor)
        silent = 0
        while silent < 2:
            writer, reader = sides
            data = writer.written()
            silent = 0 if data else silent + 1
            self.wire += [(writer.session.role, packet) for packet in packets(data)]
            if data:
                reader.take(data)
            sides = (reader, writer)

    def wait(self, seconds: float) -> None:
        """Let time pass; each timer fires at its deadline, and what it makes a session write stays unread."""
        end = self.now.monotonic + seconds
        while (deadline := self.timers.earliest()) is not None and deadline <= end:
            self._at(deadline)
            self.timers.fire(self.now)
        self._at(end)

    def _at(self, monotonic: float) -> None:
        self.now = Now(monotonic, self.now.wall + monotonic - self.now.monotonic)


def new_acceptor(settings: TransferSettings | None = None, **options: Any) -> tuple[Rig, Side]:
    """An acceptor whose other side is the test."""
    rig = Rig(settings)
    side = Side(rig, Role.ACCEPTOR, **options)
    return rig, side


def open_acceptor(
    settings: TransferSettings | None = None,
    *,
    parameters: ConnectionParameters | None = None,
    server_guid: bytes = NULL_GUID,
) -> tuple[Rig, Side]:
    """An acceptor in the state OPEN, whose other side is the test."""
    rig, side = new_acceptor(settings)
    default = ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000)
    side.take(EstablishConnection.request(CLIENT, server_guid, 0, 0).encode() + (parameters or default).encode())
    assert side.state is SessionState.OPEN
    side.written()
    return rig, side


def open_initiator(settings: TransferSettings | None = None, *, window: int = 64) -> tuple[Rig, Side]:
    """An initiator in the state OPEN, whose other side is the test."""
    rig = Rig(settings)
    side = rig.initiator
    side.session.connected(rig.now)
    (request,) = packets(side.written())
    assert isinstance(request, EstablishConnection)
    side.take(request.accepted(SERVER).encode())
    (parameters,) = packets(side.written())
    assert isinstance(parameters, ConnectionParameters)
    side.take(parameters.response(window).encode())
    assert side.state is SessionState.OPEN
    return rig, side
