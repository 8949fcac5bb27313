"""Errors of a client's calls that end without an answer, besides RpcFault."""

from waypost.errors import ProtocolError, WaypostError
from waypost.hresult import HResult
from waypost.rpc.binds import RejectionReason, RejectReason


def _named(reasons: type[RejectionReason] | type[RejectReason], reason: int) -> str:
    try:
        return reasons(reason).name
    except ValueError:
        return str(reason)


class ConnectionFailed(ProtocolError):
    """The connection ended, or its server broke the protocol: nobody knows here whether the call was executed."""

    hresult = HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE


class BindRefused(ConnectionFailed):
    """C706 12.6.4.5: the server refuses the bind, with a RejectReason or another number. Nothing was executed."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"the server refuses the bind: {_named(RejectReason, reason)}")
        self.reason = reason


class InterfaceRefused(ConnectionFailed):
    """C706 12.6.3.1: the server does not accept an interface, with a RejectionReason. Nothing was executed."""

    def __init__(self, interface: str, reason: int) -> None:
        super().__init__(f"the server does not accept the interface {interface}: {_named(RejectionReason, reason)}")
        self.interface = interface
        self.reason = reason


class InterfaceNotSupported(InterfaceRefused):
    """The server does not have the interface at this endpoint."""

    def __init__(self, interface: str) -> None:
        super().__init__(interface, RejectionReason.ABSTRACT_SYNTAX_NOT_SUPPORTED)


class CallTimedOut(WaypostError):
    """MS-RPCE 3.3.2.6.1: the time for a call is over. It was cancelled, and may have been executed."""

    hresult = HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE
