"""Errors for programs, from the errors of conversations with a host: what is wrong, and what to do.

They do not speak of messages: a reader gets the message, or it stays in its queue.
"""

from typing import Final

from waypost import errors
from waypost.client.transports.msmq.access import Access, NoCredentials
from waypost.client.transports.msmq.rpc_connection import NotAccepted
from waypost.errors import AuthenticationFailed, HostError, WaypostError
from waypost.hresult import HResult
from waypost.remote.client.conversations import CallFailed
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.binds import RejectReason
from waypost.rpc.calls import FaultStatus
from waypost.rpc.client_errors import BindRefused, CallTimedOut, ConnectionFailed, InterfaceRefused
from waypost.rpc.endpoint_lookup import EPT_S_NOT_REGISTERED
from waypost.rpc.faults import RpcFault

# Each text follows the name of the queue.
_STATUSES: Final[dict[int, tuple[type[WaypostError], str]]] = {
    HResult.MQ_ERROR_QUEUE_NOT_FOUND: (errors.QueueNotFound, "does not exist on the host; check the name"),
    HResult.MQ_ERROR_QUEUE_DELETED: (errors.QueueDeleted, "was deleted"),
    HResult.MQ_ERROR_SHARING_VIOLATION: (
        errors.SharingViolation,
        "is open in another reader: either that reader has opened the queue exclusively, or this program wants to "
        "open the queue exclusively; try again later",
    ),
    HResult.MQ_ERROR_IO_TIMEOUT: (errors.Timeout, "received no message in time"),
    HResult.MQ_ERROR_MESSAGE_NOT_FOUND: (errors.MessageNotFound, "does not contain the message"),
    HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED: (
        errors.MessageAlreadyReceived,
        "no longer contains the message at the cursor; another reader has received it",
    ),
    HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION: (
        errors.MessageLocked,
        "contains the message, but a transaction of another reader locks it; try again later",
    ),
    HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION: (
        errors.IllegalCursorAction,
        "has a cursor that is in use, or not yet at a message; call peek first",
    ),
    HResult.MQ_ERROR_OPERATION_CANCELLED: (errors.OperationCancelled, "was closed during the read"),
    HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT: (errors.OperationCancelled, "was closed during the read"),
    HResult.MQ_ERROR_TRANSACTION_USAGE: (
        errors.TransactionUsage,
        "requires a transaction, or a transaction has locked the message",
    ),
    HResult.MQ_ERROR_TRANSACTION_SEQUENCE: (errors.TransactionSequence, "does not know the transaction"),
    HResult.MQ_ERROR_INVALID_HANDLE: (errors.InvalidHandle, "is no longer open at the host; try again"),
    HResult.STATUS_INVALID_HANDLE: (errors.InvalidHandle, "is no longer open at the host; try again"),
    HResult.MQ_ERROR_STALE_HANDLE: (errors.InvalidHandle, "is no longer open at the host; try again"),
    HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE: (errors.QueueNotAvailable, "no longer exists"),
    HResult.MQ_ERROR_INVALID_PARAMETER: (errors.InvalidParameter, "was read with an invalid parameter"),
    HResult.STATUS_INVALID_PARAMETER: (
        errors.InvalidParameter,
        "was used with an invalid parameter; messages move only between a queue and its subqueues",
    ),
    HResult.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION: (
        errors.UnsupportedFormatName,
        "is not readable from another computer",
    ),
    HResult.MQ_ERROR_UNSUPPORTED_ACCESS_MODE: (errors.UnsupportedAccessMode, "does not support this access mode"),
    HResult.MQ_ERROR_INSUFFICIENT_RESOURCES: (
        errors.InsufficientResources,
        "is not available: the host has too many open handles; close queues and cursors on that host",
    ),
    HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE: (
        errors.ServiceNotAvailable,
        "is not available now: the queue manager is starting or stopping; try again",
    ),
}  # fmt: skip

# From a host that starts or stops, or that has not noticed yet that its reader has lost the connection.
_PASSING: Final = frozenset(
    {
        HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE,
        HResult.MQ_ERROR_SHARING_VIOLATION,
        HResult.MQ_ERROR_OPERATION_CANCELLED,
        HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT,
    }
)

_DENIED: Final = frozenset({HResult.MQ_ERROR_ACCESS_DENIED, HResult.STATUS_ACCESS_DENIED})

# Faults of the RPC runtime of the host.
_UNAUTHENTICATED: Final = frozenset(
    {
        FaultStatus.ACCESS_DENIED,
        FaultStatus.UNKNOWN_AUTHN_SERVICE,
        FaultStatus.SEC_PKG_ERROR,
        FaultStatus.NCA_UNSUPPORTED_AUTHN_LEVEL,
        FaultStatus.NCA_INVALID_CHECKSUM,
    }
)
_NOT_SERVED: Final = frozenset({EPT_S_NOT_REGISTERED, FaultStatus.NCA_UNK_IF})
_BUSY: Final = frozenset({FaultStatus.NCA_SERVER_TOO_BUSY, FaultStatus.NCA_FAULT_REMOTE_NO_MEMORY})
_NOT_REGISTERED: Final = "does not serve remote readers: MSMQ is not running there, or uses another rpc_port"


class Failures:
    """The errors for one queue of one host."""

    __slots__ = ("_access", "_host", "_queue")

    def __init__(self, host: str, queue: str, access: Access) -> None:
        self._host: Final = host
        self._queue: Final = queue
        self._access: Final = access

    def of(self, error: WaypostError, unknown: tuple[int, ...] = ()) -> WaypostError:
        """The error that a program gets for an error. `unknown` is that of a HostError."""
        match error:
            case HostError():
                return error
            case CallFailed(status=status):
                return self._failed(error, status)
            case RpcFault(status=status):
                return self._fault(error, status)
            case NoCredentials():
                return self._without_credentials()
            case AuthenticationFailed():
                return self._unauthenticated(f" ({error})")
            case BindRefused(reason=RejectReason.AUTHENTICATION_TYPE_NOT_RECOGNIZED):
                given = "user" if self._access.user else "level"
                return AuthenticationFailed(
                    f"{self._host} has no user accounts; omit the {given}, or add users on that host"
                )
            case NotAccepted():
                return errors.SessionRefused(str(error))
            case BindRefused():
                return errors.SessionRefused(f"{self._host} does not accept readers now: {error}; try again")
            case InterfaceRefused():
                return errors.SessionRefused(f"{self._host} {_NOT_REGISTERED} ({error})")
            case CallTimedOut():
                return errors.NotAcknowledged(f"{self._host} does not answer: {error}", (), unknown)
            case ConnectionFailed():
                return errors.SessionLost(f"the connection to {self._host} is lost: {error}", (), unknown)
        return error

    def _failed(self, error: WaypostError, status: int) -> WaypostError:
        if status in _DENIED:
            return errors.AccessDenied(
                f"{self._queue} denies access to {self._access.who}; "
                "grant the permission to peek or receive in the security settings of the queue"
            )
        if status == HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE:
            return errors.SessionRefused(f"{self._host} {_NOT_REGISTERED}")
        if status in _STATUSES:
            kind, sentence = _STATUSES[status]
            return kind(f"{self._queue} {sentence}")
        return error

    def _fault(self, error: WaypostError, status: int) -> WaypostError:
        if status in _UNAUTHENTICATED:
            return self._unauthenticated()
        if status in _NOT_SERVED:
            return errors.SessionRefused(f"{self._host} {_NOT_REGISTERED}")
        if status in _BUSY:
            return errors.InsufficientResources(f"{self._host} has too many readers; try again later")
        if status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH:
            return errors.InvalidHandle(f"{self._queue} is no longer open at the host; try again")
        if status == FaultStatus.NCA_OP_RNG_ERROR:
            return errors.UnsupportedAccessMode(f"{self._host} is too old for this operation")
        return error

    def _without_credentials(self) -> WaypostError:
        user = self._access.user
        who, advice = (user, "pass password=") if user else ("the user of this process", "pass user= and password=")
        return AuthenticationFailed(f"{who} has no password and no Kerberos ticket: {advice}, or run kinit")

    def _unauthenticated(self, detail: str = "") -> WaypostError:
        access = self._access
        if access.level is AuthLevel.NONE:
            advice = "pass `user` and `password`"
        elif access.level < AuthLevel.PRIVACY:
            advice = "check the name and the password, or pass level='privacy'"
        else:
            advice = "check the name, DOMAIN\\user or user@REALM, and the password"
        return AuthenticationFailed(f"{self._host} refuses {access.who}: {advice}{detail}")


def is_lost_handle(error: WaypostError) -> bool:
    """Whether the host does not know the handle: the queue was created again, or the host lost its readers."""
    if isinstance(error, CallFailed):
        kind, _ = _STATUSES.get(error.status, (WaypostError, ""))
        return kind in (errors.InvalidHandle, errors.QueueNotAvailable)
    return isinstance(error, RpcFault) and error.status == FaultStatus.NCA_FAULT_CONTEXT_MISMATCH


def is_passing(error: WaypostError) -> bool:
    """Whether the error may pass while a read goes on waiting."""
    if isinstance(error, CallFailed):
        return error.status in _PASSING
    return isinstance(error, ConnectionFailed | errors.HostUnreachable)
