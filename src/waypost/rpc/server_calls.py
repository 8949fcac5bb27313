"""The view of a method's handler on a server: the Service that it is part of, and a Call to answer, now or later."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from waypost.clock import Now
from waypost.rpc.authentication import AuthLevel, Caller
from waypost.rpc.context_handles import ContextHandles
from waypost.rpc.interface import Interface, Method, Parameters, encode_reply
from waypost.rpc.statistics import CallResult
from waypost.wire.ndr import NdrSyntax


class Handler(Protocol):
    """The methods of one interface."""

    def call(self, call: "Call", request: Any, now: Now) -> None:
        """Do what `request`, the record of the method, asks, and answer the call at some time.

        An RpcFault that is raised answers it too.
        """

    def cancelled(self, call: "Call", now: Now) -> None:
        """The client does not wait any more for a call that is open.

        It has said so (C706 12.6.4.6 co_cancel) and gets the answer that the handler now hastens to give, or it has
        gone, and the call is not deliverable.
        """


@dataclass(frozen=True, slots=True)
class Service:
    """An interface that a listener offers. `min_level` says what level a method asks for instead of the server's."""

    interface: Interface
    handler: Handler
    min_level: Callable[[Method], AuthLevel] | None = None


def any_level(_method: Method) -> AuthLevel:
    """For a Service that lets everybody in, and refuses on its own."""
    return AuthLevel.NONE


class Outlet(Protocol):
    """Where the answer of a call goes."""

    def reply(self, stub: bytes) -> None: ...

    def fault(self, status: int) -> None: ...


@dataclass(slots=True, eq=False)
class Call:
    """One call of a method, to be answered by exactly one of `reply` and `fault`.

    `handles` are the context handles that the caller has on this interface. A call that is not deliverable needs no
    answer, and one that it gets is dropped: its client has gone. `result` says how it ended, once it has.
    """

    service: Service
    method: Method
    caller: Caller
    handles: ContextHandles
    syntax: NdrSyntax
    outlet: Outlet = field(repr=False)
    object_uuid: bytes = b""
    is_open: bool = True
    is_deliverable: bool = True
    result: CallResult = CallResult.ABANDONED

    @property
    def interface(self) -> Interface:
        return self.service.interface

    @property
    def opnum(self) -> int:
        return self.method.opnum

    def reply(self, record: Parameters) -> None:
        if self.is_deliverable:
            stub = encode_reply(self.method, record, self.syntax)
            self._end(CallResult.of(record))
            self.outlet.reply(stub)

    def fault(self, status: int) -> None:
        if self.is_deliverable:
            self._end(CallResult.FAULT)
            self.outlet.fault(status)

    def drop(self) -> None:
        """The client has gone."""
        self.is_open = self.is_deliverable = False

    def _end(self, result: CallResult) -> None:
        assert self.is_open, "the call is already answered"
        self.is_open = False
        self.result = result
