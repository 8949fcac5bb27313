"""Conversations of a remote reader with another computer, and the way a shell carries them.

A conversation is a generator. It yields an Ask for each RPC call and is sent the record that the server answered, or
has the error thrown in with which the call ended: RpcFault from the server, BindRefused or ConnectionFailed from the
connection, DecodeError for a malformed answer. It neither waits nor connects. Several run at a time, so that
a read that waits can be cancelled.

Handles live as long as the connections over which they were got: a shell keeps those of the bindings that a client
names in `bindings`, in one association for each, and may close any other that no call is using.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from waypost.errors import WaypostError
from waypost.hresult import HResult, Severity, hresult_text, severity
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface, Parameters

R = TypeVar("R")

# The port of a binding to the dynamic endpoint: whatever the endpoint mapper of the computer says.
MAPPED: Final = 0
MAX_PORT: Final = 0xFFFF

# MS-MQRR 3.1.2.1, MS-MQQP 3.2.4.1: how long opening and enlisting may take.
CALL_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Binding:
    """An interface, by its UUID, at a port of the other computer."""

    interface: bytes
    port: int = MAPPED


@dataclass(frozen=True, slots=True)
class Ask:
    """One call. When `timeout_s` is over, the call is cancelled and the cancel not waited for."""

    interface: Interface
    opnum: int
    request: Parameters
    port: int = MAPPED
    timeout_s: float | None = None

    @property
    def binding(self) -> Binding:
        return Binding(self.interface.uuid, self.port)

    @property
    def name(self) -> str:
        return self.interface.methods[self.opnum].name


Conversation: TypeAlias = Generator[Ask, Any, R]


class CallFailed(WaypostError):
    """The remote queue manager refused. All failures mean the same to a client."""

    def __init__(self, method: str, status: int) -> None:
        super().__init__(method, status)
        self.method = method
        self.status = status

    def __str__(self) -> str:
        return f"{self.method} of the remote queue manager returned {hresult_text(self.status)}"


def answer(ask: Ask) -> Conversation[Any]:
    """The reply. A failure code that the method raises comes as a fault (MS-MQRR 3.1.4.2) and is a CallFailed."""
    try:
        return (yield ask)
    except RpcFault as fault:
        # The statuses of the RPC runtime itself have no severity.
        if severity(fault.status) is Severity.ERROR:
            raise CallFailed(ask.name, fault.status) from fault
        raise


def success(ask: Ask) -> Conversation[Any]:
    """The reply of a method that returns an HRESULT. Only MQ_OK is a success (readings MQQP 3.7)."""
    reply = yield from answer(ask)
    if reply.hresult != HResult.MQ_OK:
        raise CallFailed(ask.name, reply.hresult)
    return reply


def port_of(ask: Ask) -> Conversation[int]:
    """The port that a method names on which an interface listens; 0, or a number that is not a port, is a failure."""
    reply = yield from answer(ask)
    port: int = reply.port
    if not 0 < port <= MAX_PORT:
        raise CallFailed(ask.name, HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE)
    return port
