"""Routes that are bound from the rows of operations: path, parameters, body, reply and status come from there."""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import Body, PathParameter, QueryParameter
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from waypost.api.bulk import BULK_OPERATIONS, ListBulkQueues, ReadClaim, ReadRange
from waypost.api.explanation import Explanation
from waypost.api.frames import MEDIA_TYPE, Frame
from waypost.api.messages import Received
from waypost.api.operations import (
    OPERATIONS,
    AbortTransaction,
    BeginTransaction,
    Browse,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CursorNext,
    CursorPeek,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    Explain,
    Form,
    ListQueues,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    PurgeQueue,
    Receive,
    Resend,
    Send,
    SetQueue,
    ShowQueue,
)
from waypost.api.properties import QueueInfo, QueueList
from waypost.api.records import record_of
from waypost.api.status import Doctor, ShowVerification, StartVerification, Status, VerificationInfo
from waypost.client.transports.http.schema import Messages, Packets, SentIds, SentMessages
from waypost.errors import InvalidParameter
from waypost.http import bulk, handles, reading, sending, status
from waypost.http.media import ApiRequest, is_message_pack
from waypost.http.parameters import Served, decoded
from waypost.http.results import answer, resent
from waypost.http.service import AsgiClient, Client, Service
from waypost.http.slices import sliced
from waypost.node.queue_calls import QueueCalls

R = TypeVar("R")
O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation

# Does what a request asks for.
Perform: TypeAlias = Callable[[Service, O, ApiRequest], Awaitable[object]]

_DECORATORS: Final[dict[str, Callable[..., Any]]] = {"GET": get, "POST": post, "PATCH": patch, "DELETE": delete}


async def _ask(service: Service, operation: Operation[R]) -> R:
    return await service.shell.call(operation)


async def _explain(service: Service, operation: Explain) -> Explanation:
    explanation = await service.shell.call(operation)
    host = service.remote.host_of(operation.queue) if operation.queue else None
    if host is None:
        return explanation
    sentence = f"The queue itself is at {host}, which alone can explain it; what is in it can be read from here."
    return explanation.with_sentence(sentence)


async def _verify(service: Service, operation: StartVerification | ShowVerification) -> VerificationInfo:
    if isinstance(operation, StartVerification):
        service.verifier.start()
    return service.verifier.state


async def _list_queues(service: Service, operation: ListQueues) -> QueueList:
    queues = QueueCalls(service.node)
    names = service.shell.look(queues.names, operation.kind)
    return QueueList(tuple(await sliced(partial(queues.infos, operation.pattern), names)))


async def _own(service: Service, operation: ShowQueue | SetQueue | DeleteQueue) -> QueueInfo | None:
    """Of queues of this computer alone."""
    with service.remote.explaining(operation.name):
        return await service.shell.call(operation)


async def _taken(service: Service, operation: PurgeQueue | DeleteMessage) -> None:
    with service.reading(operation.name, outgoing=operation.outgoing) as queue:
        await queue.call(operation)


async def _resend(service: Service, operation: Resend, request: ApiRequest) -> Messages | Packets:
    with service.reading(operation.name, outgoing=operation.outgoing) as queue:
        sent = await queue.call(operation)
    return resent(sent, operation.form, packed=is_message_pack(request.scope, b"accept"))


async def _send(service: Service, operation: Send, request: ApiRequest) -> SentMessages | SentIds:
    return await sending.sent(service, operation, packed=is_message_pack(request.scope, b"accept"))


def _reading(read: Callable[[Service, Client, O], Awaitable[Received]]) -> Perform[O]:
    """What answers with messages, in the form that is asked for."""

    async def perform(service: Service, operation: O, request: ApiRequest) -> Messages | Packets:
        found = await read(service, AsgiClient(request.receive), operation)
        form: Form = operation.form  # type: ignore[attr-defined]  # all of these have it
        return answer(found, form, packed=is_message_pack(request.scope, b"accept"))

    return perform


def _plain(perform: Callable[[Service, O], Awaitable[object]]) -> Perform[O]:
    """What needs to know nothing of the request."""

    async def performed(service: Service, operation: O, _: ApiRequest) -> object:
        return await perform(service, operation)

    return performed


async def _browse(service: Service, _: Client, operation: Browse) -> Received:
    return await reading.browsed(service, operation)


def routes() -> list[HTTPRouteHandler]:
    """One for each operation."""
    by_hand = (
        _route(Status, _plain(status.status)),
        _route(Doctor, _plain(status.doctor)),
        _route(StartVerification, _plain(_verify)),
        _route(ShowVerification, _plain(_verify)),
        _route(Explain, _plain(_explain)),
        _route(ListQueues, _plain(_list_queues)),
        _route(ShowQueue, _plain(_own)),
        _route(SetQueue, _plain(_own)),
        _route(DeleteQueue, _plain(_own)),
        _route(PurgeQueue, _plain(_taken)),
        _route(DeleteMessage, _plain(_taken)),
        _route(Send, _send, SentMessages | SentIds),
        _route(Resend, _resend, Messages | Packets),
        _route(Receive, _reading(reading.received), Messages | Packets),
        _route(Peek, _reading(reading.peeked), Messages | Packets),
        _route(Browse, _reading(_browse), Messages | Packets),
        _route(MoveMessage, _plain(reading.moved)),
        _route(MoveAll, _plain(reading.moved_all)),
        _route(OpenQueue, _plain(handles.open_queue)),
        _route(CloseQueue, _plain(handles.close_queue)),
        _route(OpenCursor, _plain(handles.open_cursor)),
        _route(CloseCursor, _plain(handles.close_cursor)),
        _route(CursorPeek, _reading(handles.read_at), Messages | Packets),
        _route(CursorNext, _reading(handles.read_at), Messages | Packets),
        _route(CursorReceive, _reading(handles.read_at), Messages | Packets),
        _route(BeginTransaction, _plain(handles.begin_transaction)),
        _route(CommitTransaction, _plain(handles.commit_transaction)),
        _route(AbortTransaction, _plain(handles.abort_transaction)),
        _route(ListBulkQueues, _plain(bulk.list_queues)),
        _route(ReadRange, _plain(bulk.framed), Response[bytes]),
        _route(ReadClaim, _plain(bulk.framed), Response[bytes]),
    )
    bound = {route.name for route in by_hand}
    others = (kind for kind in (*OPERATIONS, *BULK_OPERATIONS) if kind.row.name not in bound)
    return [*by_hand, *(_route(kind, _plain(_ask)) for kind in others)]


def _route(kind: type[O], perform: Perform[O], reply: object = None) -> HTTPRouteHandler:
    """`reply` is what the answer is made of, if that is not the reply itself."""
    row = kind.row
    by_name = {each.name: each for each in fields(kind)}

    async def handle(service: Service, request: ApiRequest, data: Struct | None = None, **values: object) -> object:
        values = {name.removesuffix("_"): value for name, value in values.items()}
        return await perform(service, operation_of(kind, values, data), request)

    types: dict[str, Any] = {"service": Served, "request": ApiRequest}
    types |= {name: _annotated(by_name[name], PathParameter) for name in row.path_names}
    # litestar has a meaning of its own for some names, "query" among them.
    query = {f"{name}_": partial(QueryParameter, name=name) for name in row.query_names}
    types |= {name: _annotated(by_name[name.removesuffix("_")], place) for name, place in query.items()}
    if row.body is not None:
        types["data"] = Annotated[row.body, Body()]
    handle.__name__ = handle.__qualname__ = row.name
    handle.__doc__ = kind.__doc__
    # litestar reads what a handler takes, and the schema of it, from its signature.
    handle.__annotations__ = types | {"return": None if row.reply is type(None) else reply or row.reply}
    defaults = {name: _default(by_name.get(name.removesuffix("_"))) for name in types}
    handle.__signature__ = Signature(  # type: ignore[attr-defined]  # inspect looks for it
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=defaults[name])
            for name, annotation in types.items()
        ],
        return_annotation=handle.__annotations__["return"],
    )
    path = row.path
    for name in row.path_names:
        path = path.replace(f"{{{name}}}", f"{{{name}:str}}")
    media_type = MEDIA_TYPE if row.reply is Frame else None
    bind: Callable[..., HTTPRouteHandler] = _DECORATORS[row.method](
        path, status_code=row.status, name=row.name, media_type=media_type
    )
    return bind(handle)


def operation_of(kind: type[O], values: dict[str, object], body: Struct | None) -> O:
    """The record that a request asks for, of the parameters in its path and query and of its body."""
    if isinstance(body, kind):
        return body
    for name in kind.row.path_names:
        values[name] = decoded(str(values[name]))
    if body is not None:
        return kind(**values, **{name: getattr(body, name) for name in kind.row.body_names})
    try:
        return record_of(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"the request is not what it should be: {error}") from None


def _annotated(field: FieldInfo, place: "type[PathParameter] | partial[QueryParameter]") -> object:
    """The type of a parameter, with what its Meta says."""
    kind, *notes = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
    meta = next((each for each in notes if isinstance(each, msgspec.Meta)), msgspec.Meta())
    return Annotated[
        kind, place(description=meta.description, ge=meta.ge, le=meta.le, schema_extra=meta.extra_json_schema)
    ]


def _default(field: FieldInfo | None) -> object:
    return Parameter.empty if field is None or field.required else field.default
