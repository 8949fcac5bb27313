"""Error answers: a status and an ErrorObject with one sentence."""

import logging
from http import HTTPStatus
from typing import Final

from waypost import errors
from waypost.client.transports.http.schema import ErrorObject
from waypost.errors import DecodeError, EncodeError, WaypostError
from waypost.http.requests import Refused, Request, Response, encoded

# The first class that an error is an instance of decides.
_STATUS: Final[tuple[tuple[type[WaypostError], HTTPStatus], ...]] = (
    (errors.QueueNotFound, HTTPStatus.NOT_FOUND),
    (errors.MessageNotFound, HTTPStatus.NOT_FOUND),
    (errors.InvalidHandle, HTTPStatus.NOT_FOUND),
    (errors.UserNotFound, HTTPStatus.NOT_FOUND),
    (errors.TokenNotFound, HTTPStatus.NOT_FOUND),
    (errors.CertificateNotFound, HTTPStatus.NOT_FOUND),
    (errors.PinNotFound, HTTPStatus.NOT_FOUND),
    (errors.UserExists, HTTPStatus.CONFLICT),
    (errors.TooManyLogins, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.NotLoggedIn, HTTPStatus.UNAUTHORIZED),
    (errors.AccessDenied, HTTPStatus.FORBIDDEN),
    (errors.LabelTooLong, HTTPStatus.BAD_REQUEST),
    (errors.UnsupportedAccessMode, HTTPStatus.BAD_REQUEST),
    (errors.QueueError, HTTPStatus.CONFLICT),
    (errors.MessageError, HTTPStatus.CONFLICT),
    (errors.TransactionError, HTTPStatus.CONFLICT),
    (errors.WaitError, HTTPStatus.CONFLICT),
    (errors.IllegalCursorAction, HTTPStatus.CONFLICT),
    (errors.InsufficientResources, HTTPStatus.INSUFFICIENT_STORAGE),
    (errors.StoreFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (errors.BackupUnderWay, HTTPStatus.CONFLICT),
    # Not 503, which proxies and clients take as an invitation to ask again.
    (errors.OutcomeUnknown, HTTPStatus.INTERNAL_SERVER_ERROR),
    (errors.StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.ServiceNotAvailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.DirectoryError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.HostError, HTTPStatus.BAD_GATEWAY),
)
_HINTS: Final[dict[type[WaypostError], str]] = {
    errors.QueueNotFound: "GET /api/queues lists the queues, and POST /api/queues creates one",
    errors.UserNotFound: "GET /api/users lists the users",
    errors.TokenNotFound: "GET /api/users/NAME shows the ids of the tokens",
    errors.CertificateNotFound: "GET /api/certificates lists the certificates",
    errors.PinNotFound: "GET /api/keys/trusted lists the pinned keys",
    errors.NotLoggedIn: "log in again, or use a valid token",
    errors.UserExists: "PATCH /api/users/NAME changes an existing user",
    errors.QueueExists: "PATCH /api/queues/NAME changes its properties",
    errors.TransactionSequence: "POST /api/transactions begins a new transaction",
    errors.InvalidHandle: "unused handles and cursors close after some time; open a new one",
    errors.SharingViolation: "wait until the other reader has closed the queue",
    errors.ClaimTaken: "only one running query can read a claim; GET /api/bulk/claims lists the claims",
    errors.UnsupportedFormatName: (
        "use a local queue such as orders, or a remote queue such as DIRECT=OS:host\\private$\\orders"
    ),
    errors.LimitReached: "close or delete objects that you no longer need, or wait until they expire",
    errors.InsufficientResources: "receive or purge messages, or raise the quota",
    errors.HostUnreachable: "the host must be up and allow remote reading of its queues over RPC",
    errors.BackupUnderWay: "wait until the other backup ends",
    errors.ResetUnderWay: "wait until the other reset ends; `waypost explain QUEUE` shows its progress",
    errors.StoreFull: "receive or purge messages, or free space on the disk, and retry",
    errors.OutcomeUnknown: (
        "free disk space or repair the disk, and check whether the operation was executed before you retry"
    ),
}
# RFC 9110, 15.5.2: every refusal with 401 has it.
UNAUTHORIZED_HEADERS: Final = {"www-authenticate": 'Bearer realm="waypost"'}
_log: Final = logging.getLogger("waypost.http")


def status_of(error: WaypostError) -> HTTPStatus:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)


def problem(error: WaypostError) -> ErrorObject:
    """The ErrorObject of an error. Notes on the error are its hint."""
    return ErrorObject(
        error=type(error).__name__,
        hresult=f"{int(error.hresult):#010x}",
        message=str(error),
        hint=" ".join(getattr(error, "__notes__", ())) or _HINTS.get(type(error), ""),
        arguments=list(error.args) if isinstance(error, DecodeError | EncodeError) else [],
    )


def refuse(request: Request, error: WaypostError) -> Response:
    """The answer to a request that the queue manager refuses."""
    status = status_of(error)
    headers = UNAUTHORIZED_HEADERS if status is HTTPStatus.UNAUTHORIZED else None
    return encoded(request, problem(error), status, headers)


def refuse_http(request: Request, error: Refused) -> Response:
    """The answer to a request that HTTP refuses: an unknown path or method, or a body that is too large."""
    return encoded(request, problem(errors.InvalidParameter(str(error))), error.status, error.headers)


def fail(request: Request, error: Exception) -> Response:
    """The answer to a request that failed with an unexpected error."""
    _log.error("%s %s failed", request.method, request.path[:200], exc_info=error)
    sentence = "the request failed with an unexpected error; see the log of the server for details"
    return encoded(request, problem(WaypostError(sentence)), HTTPStatus.INTERNAL_SERVER_ERROR)


def leave(request: Request) -> Response:
    """The answer to a client that hung up in the middle of its request. Nobody gets it; the log has one quiet line."""
    _log.info("%s closed the connection in the middle of %s %s", request.client, request.method, request.path[:200])
    sentence = "the connection ended before the request was complete"
    return encoded(request, problem(errors.InvalidParameter(sentence)), HTTPStatus.BAD_REQUEST)
