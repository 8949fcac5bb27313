"""Context handles on the server: C706 5.1.6, MS-RPCE 2.2.1.1.4 and 3.3.1.4.1.

A context handle belongs to the association that made it, to the interface (MS-RPCE 3.1.1.5.3.2.2.2, strict) and to the
caller: an instance of ContextHandles holds those of one such triple, so a handle from elsewhere is not found. A handle
stands for any object of the handler; when the last connection of the association goes, each handle that is
still open runs down.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from waypost.clock import Now
from waypost.limits import MAX_RPC_HANDLES
from waypost.rpc.calls import FaultStatus
from waypost.rpc.faults import RpcFault
from waypost.wire.ndr import ContextHandle

State = TypeVar("State")


# Without slots: with them HandleKind[Queue](...) fails in Python 3.11.
@dataclass(frozen=True)
class HandleKind(Generic[State]):
    """A kind of handles. Kinds of a lower `order` run down first, such as reads before queues."""

    name: str
    rundown: Callable[[State, Now], None]
    order: int = 0


class ContextHandles:
    """The handles of one caller, one interface and one association."""

    __slots__ = ("_new_guid", "_open")

    def __init__(self, new_guid: Callable[[], bytes]) -> None:
        self._new_guid = new_guid
        self._open: dict[ContextHandle, tuple[HandleKind[Any], Any]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def new(self, kind: HandleKind[State], state: State) -> ContextHandle:
        if len(self._open) >= MAX_RPC_HANDLES:
            raise RpcFault(FaultStatus.NCA_SERVER_TOO_BUSY)
        handle = ContextHandle(0, self._new_guid())
        self._open[handle] = (kind, state)
        return handle

    def find(self, handle: ContextHandle, kind: HandleKind[State]) -> State:
        """The object behind the handle. One that is unknown, closed or of another kind ends the call with a fault."""
        entry = self._open.get(handle)
        if entry is None or entry[0] != kind:
            raise RpcFault(FaultStatus.NCA_FAULT_CONTEXT_MISMATCH)
        state: State = entry[1]
        return state

    def close(self, handle: ContextHandle) -> None:
        """From now on the handle is unknown, and does not run down."""
        self._open.pop(handle, None)

    def run_down(self, handle: ContextHandle, now: Now) -> None:
        """Closes the handle, unless the rundown of another one has closed it already."""
        kind, state = self._open.pop(handle, (None, None))
        if kind is not None:
            kind.rundown(state, now)

    def by_order(self) -> list[tuple[int, ContextHandle]]:
        return [(kind.order, handle) for handle, (kind, _) in self._open.items()]


def run_down_all(tables: Iterable[ContextHandles], now: Now) -> int:
    """Every handle of an association that has ended, in the order of the kinds and then of their making.

    Returns how many were open.
    """
    due = [(order, handle, table) for table in tables for order, handle in table.by_order()]
    for _, handle, table in sorted(due, key=lambda entry: entry[0]):
        table.run_down(handle, now)
    return len(due)
