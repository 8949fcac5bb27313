"""Remote readers in the model: their connections, associations and context handles, and the servers of their calls.

A call is taken from the client as sent; a handle is identified by the answer that brought it, so that the model notices
everything lost or mixed up in between. Calls that arrive together are one operation, as in the node.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.hresult import HResult
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.calls import FaultStatus
from waypost.rpc.interface import Interface
from waypost.sim.marks import Marks
from waypost.sim.model.enlistments import Enlistments
from waypost.sim.model.readers import Readers
from waypost.sim.model.records import Answer, ModelHandle, ModelQueue
from waypost.sim.model.state import ModelState
from waypost.sim.model.transactions import ModelTransactions
from waypost.wire.ndr import ContextHandle
from waypost.wire.queue_format import QueueFormat

_ACCESS: Final = {0x01: AccessType.RECEIVE, 0x20: AccessType.PEEK, 0x04: AccessType.MOVE}
_SHARE: Final = {0: ShareMode.DENY_NONE, 1: ShareMode.DENY_RECEIVE}


class Faulted(Exception):
    """The call ends with a fault of this status."""

    def __init__(self, status: HResult | FaultStatus) -> None:
        super().__init__(status.name)
        self.status = status


class Thing(Protocol):
    """The object behind a context handle. Those of a lower `order` run down first."""

    @property
    def order(self) -> int: ...

    def run_down(self) -> None: ...


@dataclass(slots=True, eq=False)
class Group:
    """An association: its connections, the objects made over them, and the handles of those."""

    connections: dict[int, None] = field(default_factory=dict)
    things: dict[Thing, None] = field(default_factory=dict)
    known: dict[ContextHandle, Thing] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Line:
    """A connection: its open calls, and the answers that are on their way out."""

    number: int
    address: str
    group: Group | None = None
    calls: "dict[int, RemoteCall]" = field(default_factory=dict)
    answers: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class RemoteCall:
    """A call that has reached the node. `request` is its number in the simulation, `call_id` that on its connection."""

    request: int
    line: Line
    call_id: int
    interface: Interface
    opnum: int
    record: Any
    is_deliverable: bool = True

    @property
    def group(self) -> Group:
        assert self.line.group is not None
        return self.line.group

    def __str__(self) -> str:
        return f"{self.interface.methods[self.opnum].name} on connection {-self.line.number}"


# The handler of a method, with a call and its request: returns the answer, or None if that comes later.
Do: TypeAlias = Callable[[RemoteCall, Any], Answer | None]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the model that the servers use. `find` is that of the model."""

    state: ModelState
    transactions: ModelTransactions
    readers: Readers
    find: Callable[[str, AccessType], ModelQueue]
    reply: Callable[[RemoteCall, Answer], None]
    enlistments: Enlistments

    @property
    def marks(self) -> Marks:
        return self.state.marks

    def open(self, request: int, queue_format: QueueFormat, access: int, share: int) -> ModelHandle:
        """Raises Refused."""
        queue = self.find(key_of(queue_format), _ACCESS[access])
        handle = ModelHandle(request, queue, _ACCESS[access], _SHARE[share])
        self.readers.check_sharing(handle)
        if handle.share is ShareMode.DENY_RECEIVE:
            self.marks.sometimes("a remote reader that opens a queue exclusively")
        self.readers.open_queue(handle).handles[request] = handle
        return handle


class Server(Protocol):
    """The server of one interface."""

    def call(self, call: RemoteCall) -> None:
        """Raises Faulted."""

    def cancelled(self, call: RemoteCall) -> None: ...


T = TypeVar("T")


def known(call: RemoteCall, context: ContextHandle, kind: type[T]) -> T:
    """The object behind a handle of the caller."""
    thing = call.group.known.get(context)
    if not isinstance(thing, kind):
        raise Faulted(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
    return thing


def make(call: RemoteCall, thing: Thing) -> Callable[[Any], None]:
    """Make an object whose handle the caller learns from the answer."""
    group = call.group
    group.things[thing] = None
    return lambda reply: group.known.update({reply.context: thing})


def close(call: RemoteCall, context: ContextHandle) -> None:
    thing = call.group.known.pop(context)
    del call.group.things[thing]


def key_of(queue_format: QueueFormat) -> str:
    text = str(queue_format.to_format_name()).rpartition("\\")[2].removeprefix("SYSTEM$")
    name, semicolon, suffix = text.partition(";")
    return name + semicolon + (suffix.lower() if suffix.isupper() else suffix)


class ModelRemote:
    """The connections of all remote readers, each of which has `bind_time` seconds to bind."""

    def __init__(self, state: ModelState, bind_time: float) -> None:
        self._state: Final = state
        self._bind_time: Final = bind_time
        self._strangers: Final[deque[tuple[float, int]]] = deque()
        self._servers: Final[dict[bytes, Server]] = {}
        self._lines: Final[dict[int, Line]] = {}
        self._groups: Final[dict[int, Group]] = {}
        self._timers: Final[list[Timed]] = []

    def serve(self, remote_read: "TimedServer", qmcomm: Server, qm2qm: Server, *timers: "Timed") -> None:
        self._servers.update({REMOTE_READ.uuid: remote_read, QMCOMM.uuid: qmcomm, QM2QM.uuid: qm2qm})
        self._timers.extend((remote_read, *timers))

    def accept(self, number: int, address: str) -> None:
        self._lines[number] = Line(number, address)
        self._strangers.append((self._state.now.monotonic + self._bind_time, number))

    def bind(self, number: int, group_id: int) -> None:
        """Handle a bind. One that names an association that is gone is refused, which ends the connection."""
        line = self._lines[number]
        line.group = self._groups.get(group_id) if group_id else Group()
        if line.group is None:
            self._state.marks.sometimes("a remote reader that binds to an association that no longer exists")
            del self._lines[number]
            return
        line.group.connections[number] = None
        if group_id:
            self._state.marks.sometimes("a second connection of a remote reader")

    def bound(self, number: int, group_id: int) -> None:
        """Note that the bind was accepted, and the number of the association."""
        group = self._lines[number].group
        assert group is not None
        self._groups[group_id] = group

    def is_bound(self, number: int) -> bool:
        return self._lines[number].group is not None

    @property
    def connections(self) -> list[int]:
        return list(self._lines)

    def is_open(self, number: int) -> bool:
        return number in self._lines

    def line(self, number: int) -> Line:
        return self._lines[number]

    def call(self, call: RemoteCall) -> None:
        call.line.calls[call.call_id] = call
        try:
            self._servers[call.interface.uuid].call(call)
        except Faulted as fault:
            self.reply(call, Answer(fault.status, is_fault=True))

    def reply(self, call: RemoteCall, answer: Answer) -> None:
        """Expect an answer, unless its receiver is gone."""
        if call.is_deliverable:
            del call.line.calls[call.call_id]
            call.line.answers[call.request] = None
            self._state.answer(call.request, answer)

    def cancel(self, number: int, call_id: int) -> None:
        call = self._lines[number].calls.get(call_id)
        if call is not None:
            self._state.marks.sometimes("a remote call that its client cancels")
            self._servers[call.interface.uuid].cancelled(call)

    def orphan(self, number: int, call_id: int) -> bool:
        """Whether the call was open: then it gets no answer."""
        call = self._lines[number].calls.pop(call_id, None)
        if call is None:
            return False
        call.is_deliverable = False
        self._servers[call.interface.uuid].cancelled(call)
        return True

    def lost(self, number: int) -> None:
        """Note the loss of a connection. With the last one of an association, everything made over it runs down."""
        line = self._lines.pop(number, None)
        if line is None:
            # Its time to bind has just ended.
            return
        for request in line.answers:
            self._state.expected.pop(request, None)
        calls = list(line.calls.values())
        line.calls.clear()
        for call in calls:
            call.is_deliverable = False
        for call in calls:
            self._servers[call.interface.uuid].cancelled(call)
        group = line.group
        if group is None:
            return
        del group.connections[number]
        if group.connections:
            self._state.marks.sometimes("a remote reader that loses one of two connections")
            return
        for group_id in [each for each, other in self._groups.items() if other is group]:
            del self._groups[group_id]
        for thing in sorted(group.things, key=lambda thing: thing.order):
            thing.run_down()

    def tick(self, now: Now) -> None:
        while self._strangers and self._strangers[0][0] <= now.monotonic:
            _, number = self._strangers.popleft()
            if number in self._lines and not self.is_bound(number):
                self._state.marks.sometimes("a remote reader that does not bind in time")
                self.lost(number)
        for timed in self._timers:
            timed.tick(now)

    @property
    def next_deadline(self) -> float | None:
        deadlines = [each.next_deadline for each in self._timers]
        deadlines += [deadline for deadline, _ in islice(self._strangers, 1)]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)


class Timed(Protocol):
    @property
    def next_deadline(self) -> float | None: ...

    def tick(self, now: Now) -> None: ...


class TimedServer(Server, Timed, Protocol):
    """RemoteRead."""
