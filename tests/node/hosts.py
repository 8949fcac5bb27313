"""Queue managers on a network without faults, with a virtual clock and a disk that works at once.

Their effects are carried out in order; `Net.settle` goes on until nothing happens. Every host has its
name as host name, and an address; the names are the DNS. A Peer is a queue manager whose packets the test makes: it
shakes hands by itself, and says nothing else that it is not told to.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from math import inf
from typing import Any, TypeVar

from tests.node.key_twin import KeyTwin
from tests.store.engines import Engine, MemoryEngine
from waypost.api.messages import Received
from waypost.api.operations import AbortTransaction, BeginTransaction, CommitTransaction, DeleteQueue
from waypost.clock import Now
from waypost.core.management import DirectoryState, queue_snapshot
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import (
    AccessType,
    OpenQueueDescriptor,
    OutgoingQueue,
    Queue,
    QueueAttributes,
    ReadRequest,
    ShareMode,
)
from waypost.core.serialization import packet_of
from waypost.errors import WaypostError
from waypost.guid import NULL_GUID, guid_text
from waypost.node.effects import (
    Close,
    Commit,
    Connect,
    DropKeyWork,
    Failure,
    HoldReading,
    KeyWork,
    Notice,
    Reply,
    Resolve,
    SendDatagram,
    Write,
)
from waypost.node.kernel import Call
from waypost.node.network.network import Network
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers
from waypost.node.recovery import Settings
from waypost.routing.routes import Route
from waypost.store.memory import MemoryStore
from waypost.transfer.settings import TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.management import SourceInfo
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.path_names import PathName
from waypost.wire.session_header import SessionHeader
from waypost.wire.transaction_header import IllegalSequenceNumber, TransactionHeader
from waypost.wire.transactional_acks import (
    FinalAck,
    FinalAckBody,
    OrderAck,
    OrderAckBody,
    final_ack,
    local_order_queue,
    order_ack,
)
from waypost.wire.user_header import RECOVERABLE, UserHeader
from waypost.wire.user_message import UserMessage

START = Now(monotonic=1000.0, wall=1_700_000_000.0)
TRANSFER = TransferSettings()

P = TypeVar("P", bound=Packet)


def letter(body: str = "", /, **changes: Any) -> Message:
    """A recoverable message."""
    message = Message(delivery_guarantee=DeliveryGuarantee.RECOVERABLE, body=body.encode(), label=body)
    return replace(message, **changes)


def express(body: str = "", /, **changes: Any) -> Message:
    return letter(body, delivery_guarantee=DeliveryGuarantee.EXPRESS, **changes)


class Host:
    """One queue manager and its shell. Only one in memory can crash."""

    def __init__(
        self, net: "Net", name: str, address: str, settings: Settings, engine: Engine | None = None
    ) -> None:  # fmt: skip
        self.net = net
        self.name = name
        self.address = address
        self.engine: Engine = MemoryEngine() if engine is None else engine
        self.settings = settings
        self._guids = (bytes([int(address.rpartition(".")[2])]) + number.to_bytes(15, "big") for number in count(1))
        self._requests = count(1)
        self.notices: list[Notice] = []
        self.key_desk = KeyTwin()
        self.is_up = False
        self.start()

    @property
    def network(self) -> Network:
        assert self.node.network is not None
        return self.node.network

    @property
    def guid(self) -> bytes:
        return self.node.manager.identity.identifier

    @property
    def memory(self) -> MemoryStore:
        """Its store, if that is in memory."""
        assert isinstance(self.engine, MemoryEngine)
        return self.engine.memory

    @memory.setter
    def memory(self, store: MemoryStore) -> None:
        assert isinstance(self.engine, MemoryEngine)
        self.engine.memory = store

    def start(self) -> None:
        self.node = Node(self.engine.store, self.settings, lambda: next(self._guids), self.net.now)
        self.handlers = Handlers(self.node)
        self.answers: dict[int, object] = {}
        # The peer, and its number of the connection.
        self.connections: dict[int, tuple[Host | Peer, int]] = {}
        # Data on connections that are not read from.
        self.unread: dict[int, bytes] = {}
        self.disk_is_held = False
        # After these many batches more it crashes, before anybody hears of the last one.
        self.batches_to_live: int | None = None
        self.is_up = True
        self.net.settle()

    def next_deadline(self) -> float | None:
        return self.node.next_deadline(self.net.now)

    def tick(self) -> None:
        self.node.tick(self.net.now)

    def hold_disk(self) -> None:
        """Nothing becomes durable from now on."""
        self.disk_is_held = True

    def release_disk(self) -> None:
        self.disk_is_held = False
        self.net.settle()

    def crash(self, *, written: int = 0) -> None:
        """The process dies: only what was durable is there at the next start, and these many of the pending batches."""
        self.memory.complete(written)
        self.memory.crash()
        self._lose_connections()

    def crash_and_start(self) -> None:
        self.crash()
        self.start()

    def restart(self, /, **settings: object) -> None:
        """Stop in order, and start again with other settings."""
        self.stop()
        self.settings = replace(self.settings, **settings)  # type: ignore[arg-type]
        self.start()

    def stop(self) -> None:
        """Stop in order."""
        self.network.stop(self.net.now)
        self.net.settle()
        self.engine.restart()
        self._lose_connections()

    def _lose_connections(self) -> None:
        self.is_up = False
        for peer, number in self.connections.values():
            if peer.connections.pop(number, None) is not None:
                peer.network.connection_lost(number, self.net.now)
        self.connections = {}
        self.net.settle()

    def turn(self) -> bool:
        """Carry out the effects that are there; whether there were any."""
        if not self.is_up:
            return False
        effects = self.node.kernel.take_effects()
        for effect in effects:
            match effect:
                case Commit(batch, token):
                    self.engine.store.submit(batch, token)
                case Reply(request, value):
                    self.answers[request] = value
                case Failure(request, error):
                    self.answers[request] = error
                case Notice():
                    self.notices.append(effect)
                case KeyWork():
                    self.key_desk.carry_out(effect, self.node.kernel, self.net.now)
                case DropKeyWork(job):
                    self.key_desk.dropped.append(job)
                case HoldReading(connection, is_held):
                    self.hold_reading(connection, is_held=is_held)
                case _:
                    self.net.carry(self, effect)
        if self.batches_to_live is not None:
            if self.engine.pending > self.batches_to_live:
                self.crash(written=self.batches_to_live)
                return True
            self.batches_to_live -= self.engine.pending
        tokens = [] if self.disk_is_held else self.engine.finish(self.engine.pending)
        for token in tokens:
            self.node.persisted(token, self.net.now)
        return bool(effects or tokens)

    def hold_reading(self, connection: int, *, is_held: bool) -> None:
        """Read nothing more from a connection; or read again, first what was not looked at."""
        if is_held:
            self.unread.setdefault(connection, b"")
        elif connection in self.unread:
            self.network.data_received(connection, self.unread.pop(connection), self.net.now)

    def arrived(self, connection: int, data: bytes) -> None:
        if connection in self.unread:
            self.unread[connection] += data
        else:
            self.network.data_received(connection, data, self.net.now)

    # Operations.

    def queue(self, name: str) -> Queue:
        return self.node.manager.queues[PathName.parse(f"{self.name}\\private$\\{name}")]

    def outgoing(self, name: str) -> OutgoingQueue:
        return self.node.manager.collection.outgoing[FormatName.parse(name)]

    def create(self, name: str, /, **attributes: object) -> Queue:
        self._create(f"{self.name}\\private$\\{name}", attributes)
        return self.queue(name)

    def publish(self, name: str, /, **attributes: object) -> Queue:
        """A public queue, for a host with a directory."""
        path = f"{self.name}\\{name}"
        self._create(path, attributes)
        return self.node.manager.queues[PathName.parse(path)]

    def _create(self, path: str, attributes: dict[str, object]) -> None:
        attributes["pathname"] = PathName.parse(path)
        with self.node.kernel.operation(self.net.now):
            self.node.manager.create_queue(QueueAttributes(**attributes), self.net.now)  # type: ignore[arg-type]
        self.net.settle()

    def name_of(self, name: str) -> str:
        """The private format name of a queue here."""
        return f"PRIVATE={guid_text(self.guid)}\\{self.queue(name).private_queue_number:08x}"

    def delete(self, name: str) -> None:
        self.handlers.start(self._call(), DeleteQueue(name=name))
        self.net.settle()

    def purge(self, name: str) -> None:
        """A queue of this computer, or an outgoing queue by its format name."""
        if "=" in name:
            handle = self._open(name, AccessType.RECEIVE_ADMIN)
        else:
            handle = self._open(f"DIRECT=OS:{self.name}\\private$\\{name}", AccessType.RECEIVE)
        self.handlers.messages.purge_messages(self._call(), handle)
        self._close(handle)
        self.net.settle()

    def open(self, name: str) -> OutgoingQueue:
        """The outgoing queue with this format name, which may be new."""
        self._close(self._open(name, AccessType.SEND))
        self.net.settle()
        return self.outgoing(name)

    def hold(self, name: str) -> OutgoingQueue:
        """The same, and somebody has it open from now on."""
        self._open(name, AccessType.SEND)
        return self.outgoing(name)

    def pause(self, name: str) -> None:
        with self.node.kernel.operation(self.net.now):
            self.node.manager.outgoing.pause_queue(self.outgoing(name))
        self.net.settle()

    def resume(self, name: str) -> None:
        with self.node.kernel.operation(self.net.now):
            self.node.manager.outgoing.resume_queue(self.outgoing(name))
        self.net.settle()

    def send(self, name: str, message: Message | str, tx: bytes | None = None) -> None:
        """Send and settle. `name` is a format name."""
        handle = self._open(name, AccessType.SEND)
        call = self._call()
        message = letter(message) if isinstance(message, str) else message
        self.handlers.messages.send_message(call, handle, message, tx)
        self._close(handle)
        self.net.settle()
        answer = self.answers.get(call.request)
        if isinstance(answer, WaypostError):
            raise answer

    def send_all(self, name: str, *messages: Message | str) -> None:
        """In one transaction."""
        tx = self.begin()
        for message in messages:
            self.send(name, message, tx)
        self.commit(tx)

    def begin(self) -> bytes:
        tx = next(self._guids)
        self.handlers.start(self._call(), BeginTransaction(id=guid_text(tx)))
        return tx

    def commit(self, tx: bytes) -> None:
        self.handlers.start(self._call(), CommitTransaction(identifier=guid_text(tx)))
        self.net.settle()

    def abort(self, tx: bytes) -> None:
        self.handlers.start(self._call(), AbortTransaction(identifier=guid_text(tx)))
        self.net.settle()

    def bodies(self, name: str) -> list[str]:
        """The labels of what is in a queue, in order: one of this computer, a ;system queue, or an outgoing queue by
        its format name, which goes when it is not used.
        """
        return [message.label for message in self.messages(name)]

    def classes(self, name: str) -> list[int]:
        return [message.message_class for message in self.messages(name)]

    def messages(self, queue: Queue | str) -> list[Message]:
        if isinstance(queue, str):
            if "=" in queue and FormatName.parse(queue) not in self.node.manager.collection.outgoing:
                return []
            queue = self._find(queue)
        return [self.node.messages.get(queue.number, lookup_id) for lookup_id in queue.positions]

    def source_info(self, name: str) -> list[SourceInfo]:
        """The known sequences of transactional messages that came for a queue."""
        found = self.node.sequences.incoming.source_info(self.queue(name))
        return queue_snapshot(self.queue(name), DirectoryState(), found).source_info

    @property
    def sources(self) -> list[bytes]:
        """The queue managers whose sequences are kept."""
        found, _ = self.node.sequences.incoming.page(b"")
        return [source[:16] for (source, _), _ in found]

    def _find(self, name: str) -> Queue:
        if "=" in name:
            return self.outgoing(name)
        return self._system(name) if name.startswith(";") else self.queue(name)

    def receive(self, name: str) -> Message:
        handle = self._open(f"DIRECT=OS:{self.name}\\private$\\{name}", AccessType.RECEIVE)
        call = self._call()
        self.handlers.reading.receive_message(call, handle, ReadRequest(0, tag=call.request))
        self._close(handle)
        self.net.settle()
        answer = self.answers[call.request]
        assert isinstance(answer, Received), answer
        return answer.messages[0]

    def _system(self, name: str) -> Queue:
        queue = self.node.manager.find_queue(FormatName.parse(f"DIRECT=OS:{self.name}\\SYSTEM$;{name.strip(';')}"))
        assert queue is not None
        return queue

    def _open(self, name: str, access: AccessType) -> OpenQueueDescriptor:
        with self.node.kernel.operation(self.net.now):
            manager = self.node.manager
            handle = manager.open_queue(FormatName.parse(name), access, ShareMode.DENY_NONE, self.net.now)
        self.net.settle()
        return handle

    def _close(self, handle: OpenQueueDescriptor) -> None:
        with self.node.kernel.operation(self.net.now):
            self.node.manager.close_queue(handle)

    def _call(self) -> Call:
        return Call(next(self._requests), self.net.now, self.node.administrator)


class Peer:
    """See the module. `received` is all that came, `got` what came on the connection that was opened last."""

    def __init__(self, net: "Net", name: str, address: str) -> None:
        self.net = net
        self.name = name
        self.address = address
        self.guid = bytes([int(address.rpartition(".")[2])]) * 16
        self.connections: dict[int, tuple[Host | Peer, int]] = {}
        self.is_up = True
        self.window = 64
        self.received: list[Packet] = []
        self._says_hello = False
        self._calls: dict[int, _Call] = {}
        self._output: list[tuple[int, bytes]] = []
        self._numbers = count(1)
        self._ordinals = count(1)

    # Actions of the test.

    def connect(self, host: Host) -> int:
        """Open a session. Its number is that of `send`."""
        self._says_hello = True
        return self.dial(host)

    def dial(self, host: Host) -> int:
        """Open a connection, and say nothing."""
        number = next(self._numbers)
        self.net.connect(self, number, host.address)
        self._says_hello = False
        self.net.settle()
        return number

    def message(
        self, name: str, body: str = "", /, tx: tuple[int, int, int] | None = None, **changes: Any
    ) -> UserMessage:  # fmt: skip
        """A recoverable message; `tx` are TxSequenceID, TxSequenceNumber and PreviousTxSequenceNumber."""
        message = letter(
            body,
            identifier=MessageIdentifier(self.guid, next(self._ordinals)),
            destination_queue_format_name=FormatName.parse(name),
            sent_time=int(self.net.now.wall),
        )
        if tx is not None:
            message.transaction_identifier = 1
            message.transactional_message_sequence_identifier = TxSequenceId(tx[0], 0)
            message.transaction_sequence_number = tx[1]
            message.transaction_previous_sequence_number = tx[2]
        return UserMessage.decode(packet_of(replace(message, **changes)))

    def send(self, *packets: UserMessage | OrderAck | FinalAck, on: int | None = None) -> None:
        """All of them together, on the last connection or on the one with this number."""
        number = max(self._calls) if on is None else on
        call = self._calls[number]
        for packet in packets:
            message = packet if isinstance(packet, UserMessage) else packet.message
            call.sent += 1
            call.recoverable_sent += message.user.delivery == RECOVERABLE
        self._output.append((number, b"".join(packet.encode() for packet in packets)))
        self.net.settle()

    def order_ack(self, number: int, sequence_id: int | None = None) -> None:
        """An OrderAck up to this number, of the sequence that came last or of this one."""
        sequence_id = self.headers[-1].tx_sequence_id if sequence_id is None else sequence_id
        body = OrderAckBody(sequence_id, number, number - 1)
        self.send(order_ack(self._user(), local_order_queue(), body))

    def final_ack(self, message_class: int, packet: UserMessage) -> None:
        """A FinalAck for what came."""
        header, user = packet.transaction, packet.user
        assert header is not None
        body = FinalAckBody(
            header.tx_sequence_id,
            header.tx_sequence_number,
            header.previous_tx_sequence_number,
            user.source_queue_manager,
            user.message_id,
        )
        self.send(final_ack(self._user(), local_order_queue(), message_class, body))

    def _user(self) -> UserHeader:
        return UserHeader(
            source_queue_manager=self.guid, message_id=next(self._ordinals), sent_time=int(self.net.now.wall)
        )  # fmt: skip

    def acknowledge(self) -> None:
        """A SessionAck for all that came on the last connection, as stored."""
        recoverable = sum(_user_message(packet).user.delivery == RECOVERABLE for packet in self.got)
        self.ack(len(self.got), 1 if recoverable else 0, (1 << recoverable) - 1)

    def ack(self, number: int, recoverable: int = 0, flags: int = 0) -> None:
        """A SessionAck with these values, on the last connection."""
        call = self._calls[max(self._calls)]
        header = SessionHeader(number, recoverable, flags, call.sent, call.recoverable_sent, self.window)
        self._output.append((max(self._calls), SessionAck(session=header).encode()))
        self.net.settle()

    def hang_up(self) -> None:
        for number, (host, other) in list(self.connections.items()):
            del self.connections[number]
            if host.connections.pop(other, None) is not None:
                host.network.connection_lost(other, self.net.now)
        self.net.settle()

    # Received packets.

    @property
    def got(self) -> "list[UserMessage | OrderAck | FinalAck]":
        return self._calls[max(self._calls)].got

    def on(self, number: int) -> list[Packet]:
        """The packets that came on the connection with this number."""
        return self._calls[number].received

    def of(self, kind: type[P]) -> list[P]:
        return [packet for packet in self.received if isinstance(packet, kind)]

    @property
    def headers(self) -> list[TransactionHeader]:
        """Those of all messages of transactions."""
        return [packet.transaction for packet in self.of(UserMessage) if packet.transaction is not None]

    @property
    def bodies(self) -> list[str]:
        """The labels of all UserMessages."""
        return [packet.properties.label or "" for packet in self.of(UserMessage)]

    # Calls of the net, as those of a Network.

    @property
    def network(self) -> "Peer":
        return self

    def accept(self, _address: str, _now: Now) -> int | None:
        number = next(self._numbers)
        self._calls[number] = _Call()
        return number

    def connected(self, number: int, _now: Now) -> None:
        self._calls[number] = _Call()
        if self._says_hello:
            self._output.append((number, EstablishConnection.request(self.guid, NULL_GUID, 0, 0).encode()))

    def connect_failed(self, _number: int, reason: str, _now: Now) -> None:
        raise AssertionError(reason)

    def connection_lost(self, _number: int, _now: Now) -> None: ...

    def resolved(self, _request: int, _addresses: tuple[str, ...], _now: Now) -> None: ...

    def datagram_received(self, _data: bytes, _address: str, _port: int, _now: Now) -> None: ...

    def ping_answered(self, _data: bytes, _now: Now) -> None: ...

    def arrived(self, number: int, data: bytes) -> None:
        self.data_received(number, data, self.net.now)

    def data_received(self, number: int, data: bytes, _now: Now) -> None:
        call = self._calls[number]
        for packet in map(decode_packet, call.splitter.feed(data)):
            self.received.append(packet)
            call.received.append(packet)
            match packet:
                case EstablishConnection() if packet.client_guid != self.guid:
                    self._output.append((number, packet.accepted(self.guid).encode()))
                case EstablishConnection():
                    parameters = ConnectionParameters(
                        recoverable_ack_timeout=500, ack_timeout=20_000, window_size=self.window
                    )
                    call.is_initiator = True
                    self._output.append((number, parameters.encode()))
                case ConnectionParameters() if not call.is_initiator:
                    self._output.append((number, packet.response(self.window).encode()))
                case UserMessage() | OrderAck() | FinalAck():
                    call.got.append(packet)

    def turn(self) -> bool:
        output, self._output = self._output, []
        for number, data in output:
            self.net.carry(self, Write(number, data))
        return bool(output)

    def next_deadline(self) -> None: ...

    def tick(self) -> None: ...


class _Call:
    """A connection of a Peer."""

    def __init__(self) -> None:
        self.splitter = Splitter()
        self.is_initiator = False
        self.sent = 0
        self.recoverable_sent = 0
        self.received: list[Packet] = []
        self.got: list[UserMessage | OrderAck | FinalAck] = []


def _decoded(data: bytes) -> Packet:
    """The packets on the wire, with any sequence numbers."""
    try:
        return decode_packet(data)
    except IllegalSequenceNumber:
        return UserMessage.decode(data)


def _user_message(packet: UserMessage | OrderAck | FinalAck) -> UserMessage:
    return packet if isinstance(packet, UserMessage) else packet.message


class Net:
    """The hosts, their clock, and what went over the wire between them: (from, to, packet)."""

    def __init__(self) -> None:
        self.now = START
        self.hosts: dict[str, Host | Peer] = {}
        self.wire: list[tuple[str, str, Packet]] = []
        self.datagrams: list[tuple[str, str, int, bytes]] = []
        # Pairs of addresses between which nothing is connected.
        self.cut: set[frozenset[str]] = set()
        self._splitters: dict[tuple[str, int], Splitter] = {}
        self._is_settling = False

    def add(
        self,
        name: str,
        transfer: TransferSettings = TRANSFER,
        routes: Sequence[Route] = (),
        engine: Engine | None = None,
        /,
        **settings: object,
    ) -> Host:
        """`settings` are those of waypost.node.recovery. It is in memory unless it has another engine."""
        address = self._new_address()
        start = Settings(name, f"{name}.example.org", frozenset({address}), transfer=transfer, routes=tuple(routes))
        host = Host(self, name, address, replace(start, **settings), engine)  # type: ignore[arg-type]
        self.hosts[address] = host
        self.settle()
        return host

    def add_peer(self, name: str = "peer") -> Peer:
        peer = Peer(self, name, self._new_address())
        self.hosts[peer.address] = peer
        return peer

    def _new_address(self) -> str:
        return f"127.0.0.{len(self.hosts) + 2}"

    def part(self, one: Host | Peer, other: Host | Peer) -> None:
        """The connections between them break, and no other can be made."""
        self.cut.add(frozenset((one.address, other.address)))
        for number, (peer, theirs) in list(one.connections.items()):
            if peer is other:
                del one.connections[number], other.connections[theirs]
                one.network.connection_lost(number, self.now)
                other.network.connection_lost(theirs, self.now)
        self.settle()

    def join(self) -> None:
        """Everybody can connect to everybody again."""
        self.cut.clear()

    def settle(self) -> None:
        """Until nothing happens any more."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            for _ in range(100_000):
                turned = [host.turn() for host in self.hosts.values()]
                if not any(turned):
                    return
            raise AssertionError("the hosts do not come to rest")
        finally:
            self._is_settling = False

    def advance(self, seconds: float) -> None:
        """Let time go by, with every timer at its time."""
        self.settle()
        end = self.now.monotonic + seconds
        while True:
            deadlines = [host.next_deadline() for host in self.hosts.values() if host.is_up]
            due = min([deadline for deadline in deadlines if deadline is not None], default=inf)
            step = max(min(due, end) - self.now.monotonic, 0.0)
            self.now = Now(self.now.monotonic + step, self.now.wall + step)
            if due > end:
                return
            for host in self.hosts.values():
                if host.is_up:
                    host.tick()
            self.settle()

    def packets(self, kind: type[P], source: str = "", target: str = "") -> list[P]:
        """The packets of this kind on the wire, from all hosts or this one, to all hosts or this one."""
        return [
            packet
            for sender, receiver, packet in self.wire
            if isinstance(packet, kind) and source in ("", sender) and target in ("", receiver)
        ]

    def carry(self, host: Host | Peer, effect: object) -> None:
        match effect:
            case Connect(number, address, _):
                self.connect(host, number, address)
            case Write(number, data):
                peer = host.connections.get(number)
                if peer is not None:
                    self._note(host, peer[0], number, data)
                    peer[0].arrived(peer[1], data)
            case Close(number):
                peer = host.connections.pop(number, None)
                if peer is not None and peer[0].connections.pop(peer[1], None) is not None:
                    peer[0].network.connection_lost(peer[1], self.now)
            case Resolve(request, name):
                addresses = tuple(a for a, h in self.hosts.items() if name.lower() in (h.name, f"{h.name}.example.org"))
                host.network.resolved(request, addresses, self.now)
            case SendDatagram(data, address, port, is_request):
                self.datagrams.append((host.address, address, port, data))
                peer_host = self.hosts.get(address)
                if peer_host is not None and peer_host.is_up:
                    if is_request:
                        peer_host.network.datagram_received(data, host.address, 4057, self.now)
                    else:
                        peer_host.network.ping_answered(data, self.now)

    def connect(self, host: Host | Peer, number: int, address: str) -> None:
        peer = self.hosts.get(address)
        accepted = None
        if peer is not None and peer.is_up and frozenset((host.address, address)) not in self.cut:
            accepted = peer.network.accept(host.address, self.now)
        if peer is None or accepted is None:
            host.network.connect_failed(number, "connection refused", self.now)
            return
        host.connections[number] = peer, accepted
        peer.connections[accepted] = host, number
        host.network.connected(number, self.now)

    def _note(self, host: Host | Peer, peer: Host | Peer, number: int, data: bytes) -> None:
        splitter = self._splitters.setdefault((host.address, number), Splitter())
        self.wire += [(host.name, peer.name, _decoded(packet)) for packet in splitter.feed(data)]
