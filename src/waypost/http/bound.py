"""Routes that are bound from the rows of operations: path, parameters, body, reply and status come from there."""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, TypeVar, get_args

import msgspec
from litestar import delete, get, patch, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import Body, PathParameter, QueryParameter
from msgspec import Struct
from msgspec.structs import FieldInfo, asdict, fields

from waypost.api.explanation import Explanation
from waypost.api.operations import OPERATIONS, DeleteQueue, Explain, ListQueues, Operation, ShowQueue
from waypost.api.queues import QueueInfo, QueueList
from waypost.api.records import record_of
from waypost.errors import InvalidParameter
from waypost.http.parameters import Served, decoded
from waypost.http.service import Service
from waypost.http.slices import sliced
from waypost.node.queue_calls import QueueCalls

R = TypeVar("R")
O = TypeVar("O", bound=Operation[object])  # noqa: E741, an operation

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


async def _list_queues(service: Service, operation: ListQueues) -> QueueList:
    queues = QueueCalls(service.node)
    names = service.shell.look(queues.names, operation.kind)
    return QueueList(tuple(await sliced(partial(queues.infos, operation.pattern), names)))


async def _show_queue(service: Service, operation: ShowQueue) -> QueueInfo:
    with service.remote.explaining(operation.name):
        return await service.shell.call(operation)


async def _delete_queue(service: Service, operation: DeleteQueue) -> None:
    """By the queue object that all share, whose handles have to be closed."""
    with service.remote.explaining(operation.name):
        await service.manager.queue(operation.name).delete()


def routes() -> list[HTTPRouteHandler]:
    """One for each operation."""
    by_hand = [
        _route(Explain, _explain),
        _route(ListQueues, _list_queues),
        _route(ShowQueue, _show_queue),
        _route(DeleteQueue, _delete_queue),
    ]
    others = set(OPERATIONS) - {Explain, ListQueues, ShowQueue, DeleteQueue}
    return [*by_hand, *(_route(kind, _ask) for kind in OPERATIONS if kind in others)]


def _route(kind: type[O], perform: Callable[[Service, O], Awaitable[object]]) -> HTTPRouteHandler:
    row = kind.row
    by_name = {each.name: each for each in fields(kind)}
    body = _body(kind)

    async def handle(service: Service, data: Struct | None = None, **values: Any) -> object:
        return await perform(service, operation_of(kind, values, data))

    types: dict[str, Any] = {"service": Served}
    types |= {name: _annotated(by_name[name], PathParameter) for name in row.path_names}
    types |= {name: _annotated(by_name[name], QueryParameter) for name in row.query_names}
    if body is not None:
        types["data"] = Annotated[body, Body()]
    handle.__name__ = handle.__qualname__ = row.name
    handle.__doc__ = kind.__doc__
    # litestar reads what a handler takes, and the schema of it, from its signature.
    handle.__annotations__ = types | {"return": None if row.reply is type(None) else row.reply}
    handle.__signature__ = Signature(  # type: ignore[attr-defined]  # inspect looks for it
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=_default(by_name.get(name)))
            for name, annotation in types.items()
        ],
        return_annotation=handle.__annotations__["return"],
    )
    path = row.path
    for name in row.path_names:
        path = path.replace(f"{{{name}}}", f"{{{name}:str}}")
    bind: Callable[..., HTTPRouteHandler] = _DECORATORS[row.method](path, status_code=row.status)
    return bind(handle)


def operation_of(kind: type[O], values: dict[str, Any], body: Struct | None) -> O:
    """The record that a request asks for, of the parameters in its path and query and of its body."""
    if isinstance(body, kind):
        return body
    for name in kind.row.path_names:
        values[name] = decoded(values[name])
    try:
        return record_of(values if body is None else values | asdict(body), kind)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"the request is not what it should be: {error}") from None


def _body(kind: type[Operation[object]]) -> type[Struct] | None:
    """What the body of a request is decoded into: the record, or the part of it that is not elsewhere."""
    row = kind.row
    if not row.body_names:
        return None
    if not row.path_names and not row.query_names:
        return kind
    given = [each for each in fields(kind) if each.name in row.body_names]
    return msgspec.defstruct(
        f"{kind.__name__}Body",
        [(each.name, each.type) if each.required else (each.name, each.type, each.default) for each in given],
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _annotated(field: FieldInfo, place: Callable[..., object]) -> Any:
    """The type of a parameter, with what its Meta says."""
    kind, *notes = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
    meta = next((each for each in notes if isinstance(each, msgspec.Meta)), msgspec.Meta())
    return Annotated[
        kind, place(description=meta.description, ge=meta.ge, le=meta.le, schema_extra=meta.extra_json_schema)
    ]


def _default(field: FieldInfo | None) -> Any:
    return Parameter.empty if field is None or field.required else field.default
