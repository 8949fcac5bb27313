"""From errors to answers: every refusal is a status and an ErrorObject with one sentence."""

import logging
from http import HTTPStatus
from typing import Final

from litestar import Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException

from waypost import errors
from waypost.client.transports.http.schema import ErrorObject
from waypost.errors import DecodeError, EncodeError, WaypostError
from waypost.http.media import ClientGone, encode

# The first class that an error is an instance of decides.
_STATUS: Final[tuple[tuple[type[WaypostError], HTTPStatus], ...]] = (
    (errors.QueueNotFound, HTTPStatus.NOT_FOUND),
    (errors.MessageNotFound, HTTPStatus.NOT_FOUND),
    (errors.InvalidHandle, HTTPStatus.NOT_FOUND),
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
    errors.QueueExists: "PATCH /api/queues/NAME changes its properties",
    errors.TransactionSequence: "POST /api/transactions begins another",
    errors.InvalidHandle: "what is not used for its lease is closed; open it again",
    errors.SharingViolation: "wait until the other reader has closed the queue",
    errors.UnsupportedFormatName: "name a queue like orders, or DIRECT=OS:host\\private$\\orders on another computer",
    errors.LimitReached: "end or delete what is not needed any more, or wait until it expires",
    errors.InsufficientResources: "receive or purge messages, or raise the quota",
    errors.HostUnreachable: "the host has to be up, and to let others read its queues over RPC",
    errors.BackupUnderWay: "wait until it is made",
    errors.ResetUnderWay: "wait until it is done; `waypost explain QUEUE` shows how far it is",
    errors.StoreFull: "receive or purge messages, or make room on the disk, and ask again",
    errors.OutcomeUnknown: "make room on the disk, or mend it, and look whether it was done before you ask again",
}
_log: Final = logging.getLogger("waypost.http")


def status_of(error: WaypostError) -> HTTPStatus:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)


def problem(error: WaypostError) -> ErrorObject:
    """Notes on the error are its hint."""
    return ErrorObject(
        error=type(error).__name__,
        hresult=f"{int(error.hresult):#010x}",
        message=str(error),
        hint=" ".join(getattr(error, "__notes__", ())) or _HINTS.get(type(error), ""),
        arguments=list(error.args) if isinstance(error, DecodeError | EncodeError) else [],
    )


def refuse(request: Request[object, object, State], error: WaypostError) -> Response[bytes]:
    """The answer to a request that the queue manager refuses."""
    return _response(request, status_of(error), problem(error))


def refuse_http(request: Request[object, object, State], error: HTTPException) -> Response[bytes]:
    """The same for what never comes so far: no such path, a method that it does not have, a body that is too large."""
    status = HTTPStatus(error.status_code)
    match status:
        case HTTPStatus.NOT_FOUND:
            sentence = f"there is nothing at {request.scope['path'][:80]}; /schema lists what there is"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            sentence = f"{request.method} is not possible here; /schema lists what is"
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            sentence = "the request is too large; send fewer messages at once"
        case _ if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            sentence = _sentence(error)
        case _:
            return fail(request, error)
    return _response(request, status, problem(errors.InvalidParameter(sentence)), error.headers)


def fail(request: Request[object, object, State], error: Exception) -> Response[bytes]:
    """The same for what must not happen."""
    _log.error("%s %s failed", request.method, request.scope["path"][:200], exc_info=error)
    sentence = "the server failed to do this, and has written why to its log"
    return _response(request, HTTPStatus.INTERNAL_SERVER_ERROR, problem(WaypostError(sentence)))


def leave(request: Request[object, object, State], _error: ClientGone) -> Response[bytes]:
    """The client has hung up in the middle of its request: an answer that nobody gets, and one quiet line."""
    address = request.client.host if request.client is not None else "a client"
    _log.info("%s hung up in the middle of %s %s", address, request.method, request.scope["path"][:200])
    sentence = "the connection ended before the request was whole"
    return _response(request, HTTPStatus.BAD_REQUEST, problem(errors.InvalidParameter(sentence)))


def _sentence(error: HTTPException) -> str:
    """What litestar says of a parameter, with the name of it."""
    extra = error.extra if isinstance(error.extra, list) else []
    if any(isinstance(each, dict) and each.get("key") == "data" for each in extra):
        return "a body is missing, which has to be JSON or MessagePack; {} stands for the defaults"
    parts = [f"{each.get('key', '')}: {each.get('message', '')}" for each in extra if isinstance(each, dict)]
    return "; ".join(parts) or str(error.detail)


def _response(
    request: Request[object, object, State],
    status: HTTPStatus,
    content: ErrorObject,
    headers: dict[str, str] | None = None,
) -> Response[bytes]:
    body, media = encode(request.scope, content)
    return Response(body, status_code=status, media_type=media, headers=headers)
