"""A queue manager of the core that serves remote readers, and clients that talk to it without connections.

A Client is one association: its calls go through the stubs of the interface, and are answered to an Answer. The Host is
what the servers need of a node. Events are handed on after every call, as a node does at the end of an operation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.core.engine import Rig
from waypost.core.external_transactions import ExternalTransactions
from waypost.core.message import Message
from waypost.core.ports import MessagePositionDeleted, ReadEnded
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue, QueueAttributes
from waypost.core.reading import Read
from waypost.core.writing import EnqueueStatus
from waypost.errors import DecodeError
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT, ReadThen, RemoteSettings
from waypost.remote.cursors import RemoteCursors
from waypost.remote.remote_read.coordinator import LocalCoordinator
from waypost.remote.remote_read.pending import PendingRequestTable
from waypost.rpc.associations import Associations
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Method, Parameters, decode_reply, decode_request, encode_request
from waypost.rpc.server_calls import Call, Service
from waypost.rpc.statistics import RpcStatistics
from waypost.wire.format_names import FormatName
from waypost.wire.ndr import NdrSyntax
from waypost.wire.path_names import PathName

ALICE = Caller(AuthLevel.PRIVACY, "CORP\\alice", "10.0.0.9")


class Host(Rig):
    """RemoteHost, on a queue manager with a plain queue `orders` and a transactional queue `ledger`.

    Everybody may do everything but what is in `denied`.
    """

    def __init__(self, settings: RemoteSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or RemoteSettings()
        self.ledger = self.create_with("ledger", transactional=True)
        self.external = ExternalTransactions(self.manager.transactions)
        self.external.initialize(self.manager.identity.identifier)
        self.coordinator = LocalCoordinator(
            self.manager.transactions, self.external, self.settings.transaction_timeout_s, self.manager.timers
        )
        self.cursors = RemoteCursors(self.manager)
        self.statistics = RpcStatistics()
        self.remote_read_port = REMOTE_READ_PORT
        self.qm2qm_port = QM2QM_PORT
        self.denied: set[tuple[str | None, Queue, AccessType]] = set()
        self.asked: list[tuple[Caller, Queue, AccessType]] = []
        self.reasons: list[tuple[str, int]] = []
        self._waits: dict[int, ReadThen] = {}
        self._is_operating = False
        self._next_random = 0
        self.associations = Associations(self.new_guid)
        self.pump()

    # RemoteHost.

    def may(self, caller: Caller, queue: Queue, access: AccessType) -> bool:
        self.asked.append((caller, queue, access))
        return (caller.name, queue, access) not in self.denied

    def refused(self, caller: Caller, queue: Queue, access: AccessType) -> None:
        assert (caller.name, queue, access) in self.denied

    def await_read(self, wait_id: int, then: ReadThen) -> None:
        self._waits[wait_id] = then

    def purge(self, descriptor: OpenQueueDescriptor, then: Callable[[], None]) -> None:
        self.manager.purge_open_queue(descriptor)
        then()

    def new_guid(self) -> bytes:
        self._next_random += 1
        return (0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835 * self._next_random % (1 << 128)).to_bytes(16, "little")

    # Events beside the calls.

    def pump(self) -> None:
        """Hand on what happened, and what that led to."""
        if self._is_operating:
            return
        while events := self.manager.take_events():
            for event in events:
                match event:
                    case ReadEnded(wait_id, status, message) if wait_id in self._waits:
                        self._waits.pop(wait_id)(Read(status, message), self.now)
                    case MessagePositionDeleted(message=message, reason=reason):
                        self.reasons.append((message.label, reason))

    @contextmanager
    def one_operation(self) -> Iterator[None]:
        """Actions inside come in one piece, as by one arrival of bytes: events are handed on behind it."""
        self._is_operating = True
        yield
        self._is_operating = False
        self.pump()

    def tick(self, seconds: float) -> None:
        """Time goes by."""
        self.advance(seconds)
        self.pump()

    def deadline_of_requests(self) -> float | None:
        """When the first Pending Request Cleanup Timer fires."""
        return self._deadline_of(lambda key: isinstance(key, tuple) and key[0] is PendingRequestTable)

    def deadline_of_transactions(self) -> float | None:
        """When the first transaction that a reader has begun takes too long."""
        self.coordinator.settle()
        return self._deadline_of(lambda key: isinstance(key, tuple) and key[0] is LocalCoordinator)

    def _deadline_of(self, is_meant: Callable[[object], bool]) -> float | None:
        timers = self.manager.timers
        return min((at for key, (at, _, _) in timers._running.items() if is_meant(key)), default=None)

    def forget_aborts(self, queue: Queue) -> None:
        """As if nobody had tried to read what is in the queue."""
        for lookup_id in queue.positions:
            message = self.messages.get(queue.number, lookup_id)
            self.messages.update(queue.number, replace(message, abort_count=0))

    def create_with(self, name: str, /, **attributes: Any) -> Queue:
        path = PathName.parse(f"host\\private$\\{name}")
        return self.manager.create_queue(QueueAttributes(path, **attributes), self.now)

    def put(self, message: Message | str, queue: Queue | None = None, tx: bytes | None = None) -> int:
        """The LookupIdentifier of a message that arrives in `orders`, or in another queue."""
        if isinstance(message, str):
            message = self.message(message)
        message.destination_queue_format_name = FormatName.parse("DIRECT=OS:host\\private$\\orders")
        assert self.enqueue(message, queue, tx) is EnqueueStatus.ACCEPTED
        self.pump()
        return message.lookup_identifier

    def contents(self, queue: Queue) -> list[tuple[str, PositionState]]:
        """The labels and states of all messages of a queue, in list order."""
        return [
            (self.messages.get(queue.number, lookup_id).label, queue.positions.state(lookup_id))
            for lookup_id in queue.positions
        ]

    def decide_commit(self, identifier: bytes) -> None:
        """The coordinator says that a transaction is to be committed."""
        self.external.dtc_transaction_commit(identifier, self.now.wall)
        self.pump()

    def decide_abort(self, identifier: bytes) -> None:
        self.external.dtc_transaction_abort(identifier)
        self.pump()


class Answer:
    """Outlet of one call, and what came of it: `record` or `raised`, once it is there."""

    def __init__(self, method: Method, syntax: NdrSyntax) -> None:
        self._method = method
        self._syntax = syntax
        self.record: Any = None
        self.raised: int | None = None

    def reply(self, stub: bytes) -> None:
        assert not self.is_there, "answered twice"
        self.record = decode_reply(self._method, stub, self._syntax)

    def fault(self, status: int) -> None:
        assert not self.is_there, "answered twice"
        self.raised = status

    @property
    def is_there(self) -> bool:
        return self.record is not None or self.raised is not None

    @property
    def status(self) -> int:
        """The HRESULT, whether returned or raised."""
        assert self.is_there, "not answered"
        return int(self.record.hresult) if self.raised is None else self.raised


class Client:
    """An association with a server."""

    def __init__(
        self, host: Host, service: Service, caller: Caller = ALICE, syntax: NdrSyntax = NdrSyntax.NDR20
    ) -> None:
        self.host = host
        self.service = service
        self.caller = caller
        self.syntax = syntax
        association = host.associations.join(0, id(self), "test", caller.address)
        assert association is not None
        self.association = association
        self._calls: dict[Answer, Call] = {}

    def start(self, opnum: int, request: Parameters) -> Answer:
        """Call a method. Its answer may come later."""
        return self.start_stub(opnum, encode_request(self.service.interface.methods[opnum], request, self.syntax))

    def start_stub(self, opnum: int, stub: bytes) -> Answer:
        """The same with any bytes as its request."""
        method = self.service.interface.methods[opnum]
        handles = self.association.handles(self.service.interface.uuid, self.caller.name)
        answer = Answer(method, self.syntax)
        call = self._calls[answer] = Call(self.service, method, self.caller, handles, self.syntax, answer)
        try:
            self.service.handler.call(call, decode_request(method, stub, self.syntax), self.host.now)
        except RpcFault as fault:
            call.fault(fault.status)
        except DecodeError:
            call.fault(FaultStatus.BAD_STUB_DATA)
        self.host.pump()
        return answer

    def ask(self, opnum: int, request: Parameters) -> Any:
        """The reply of a call that is answered at once. An RpcFault is raised."""
        answer = self.start(opnum, request)
        assert answer.is_there, "not answered"
        if answer.raised is not None:
            raise RpcFault(answer.raised)
        return answer.record

    def give_up(self, answer: Answer) -> None:
        """Ask for a call to be cancelled (C706 co_cancel)."""
        self.service.handler.cancelled(self._calls[answer], self.host.now)
        self.host.pump()

    def orphan(self, answer: Answer) -> None:
        """Forget a call (C706 orphaned), and stay."""
        self._calls[answer].drop()
        self.give_up(answer)

    def vanish(self) -> None:
        """The last connection goes, with all calls that are open."""
        for call in self._drop_calls():
            self.service.handler.cancelled(call, self.host.now)
        self.host.associations.leave(self.association, id(self), self.host.now)
        self.host.pump()

    def lose_connection_before_calls_end(self) -> None:
        """The same, but the handles run down before the handler hears of the calls."""
        lost = self._drop_calls()
        self.host.associations.leave(self.association, id(self), self.host.now)
        for call in lost:
            self.service.handler.cancelled(call, self.host.now)
        self.host.pump()

    def _drop_calls(self) -> list[Call]:
        lost = [call for call in self._calls.values() if call.is_open]
        for call in lost:
            call.drop()
        return lost
