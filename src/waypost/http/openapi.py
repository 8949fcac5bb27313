"""/schema: the OpenAPI document, made of the handlers and of the structures that are enforced.

Every status that an operation is answered with is there; a method that a path does not have (405) is not an operation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Final, get_args

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg, PathParameter, QueryParameter
from litestar.typing import FieldDefinition
from msgspec import Meta, Struct

import waypost
from waypost.client.transports.http.schema import ErrorObject
from waypost.http.media import JSON, MESSAGE_PACK
from waypost.http.request_guard import OPEN, WITH_BODY

_DESCRIPTION: Final = (
    "A queue manager that speaks MSMQ. Requests and answers are JSON or MessagePack, as Content-Type and Accept say; "
    "bytes are base64 text in JSON and binary in MessagePack."
)
_MEDIA_TYPES: Final = (JSON.decode(), *sorted(each.decode() for each in MESSAGE_PACK))
_TOKEN: Final = "token"

_STATUSES: Final = {
    400: "The request is wrong in itself.",
    401: "A token is demanded, and the request has not shown it.",
    403: "A page of another site asks, or another computer does not let this one read.",
    404: "There is no such queue, message, cursor or handle.",
    409: "It cannot be done now.",
    413: "The request is too large.",
    415: "The body is neither JSON nor MessagePack.",
    421: "The name in Host is not one of this server.",
    500: "The disk failed while something was stored, or the server has a defect.",
    502: "Another computer, whose queue is to be read, cannot be reached or was lost.",
    503: "The queue manager cannot do it: it is stopping, or as much is open as may be.",
    507: "The disk or a quota has no room.",
}
# Operations that name nothing that could be missing or in use.
_NAMELESS: Final = frozenset(
    {
        ("GET", "/api/status"),
        ("GET", "/api/doctor"),
        ("GET", "/api/queues"),
        ("GET", "/api/bulk/queues"),
        ("GET", "/api/bulk/commits"),
        ("GET", "/api/sequences/admitted"),
        ("GET", "/api/store/damaged"),
        ("DELETE", "/api/store/damaged"),
        ("GET", "/api/store/verification"),
        ("POST", "/api/store/verification"),
    }
)
# Where a name may be that of a queue of another computer, which is read there.
_ELSEWHERE: Final = re.compile(
    r"/api/(queues/\{name\}/(receive|peek|browse|move|move-all|resend|purge|messages/.*)|handles|cursors(/.*)?)"
)
_PATH_PARAMETER: Final = re.compile(r"\{(\w+):\w+\}")
_WORD_ENDS: Final = re.compile(r"[^A-Za-z0-9]+")
_REFERENCE: Final = "#/components/schemas/{name}"


class Document:
    """The document of one server, made when it is first asked for."""

    __slots__ = ("_content", "_demands_token", "_handlers")

    def __init__(self, handlers: Sequence[HTTPRouteHandler], *, demands_token: bool) -> None:
        self._handlers: Final = handlers
        self._demands_token: Final = demands_token
        self._content = b""

    @property
    def content(self) -> bytes:
        if not self._content:
            self._content = msgspec.json.encode(document(self._handlers, demands_token=self._demands_token))
        return self._content


@get(["/schema", "/schema/openapi.json"], include_in_schema=False)
async def schema(document: NamedDependency[Document]) -> Response[bytes]:
    """This API, for programs."""
    return Response(document.content, media_type="application/vnd.oai.openapi+json")


def document(handlers: Iterable[HTTPRouteHandler], *, demands_token: bool) -> dict[str, object]:
    shown = [
        (_PATH_PARAMETER.sub(r"{\1}", path), handler)
        for handler in handlers
        if handler.include_in_schema is not False
        for path in sorted(handler.paths)
    ]
    types = [ErrorObject, *(each for _, handler in shown for each in _types(handler))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    known = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for path, handler in shown:
        for method in handler.http_methods:
            paths.setdefault(path, {})[method.lower()] = _operation(
                str(method), path, handler, known, demands_token=demands_token
            )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Waypost", "version": waypost.__version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {_TOKEN: {"type": "http", "scheme": "bearer"}},
        },
        "security": [{_TOKEN: []}] if demands_token else [],
    }


def statuses(method: str, path: str, *, has_data: bool, demands_token: bool) -> Iterator[int]:
    """The refusals that an operation is answered with."""
    yield from (400, 500)
    if path in OPEN:
        return
    yield from (401, 403, 503) if demands_token else (403, 421, 503)
    if (method, path) not in _NAMELESS:
        yield from (404, 409)
    if method in WITH_BODY:
        yield 415
    if has_data:
        yield 413
    if method != "GET":
        yield 507
    if _ELSEWHERE.fullmatch(path):
        yield 502


def _operation(
    method: str, path: str, handler: HTTPRouteHandler, known: Mapping[str, Mapping[str, object]], *, demands_token: bool
) -> dict[str, object]:
    data = _data(handler)
    refusals = statuses(method, path, has_data=data is not None, demands_token=demands_token)
    summary, _, more = (handler.fn.__doc__ or "").partition("\n\n")
    operation: dict[str, object] = {
        "operationId": _identifier(path, handler),
        "summary": summary.strip(),
        "description": "\n\n".join(" ".join(part.split()) for part in (summary, *more.split("\n\n")) if part.strip()),
        "parameters": [_parameter(field, known) for field in _parameters(handler)],
        "responses": {
            str(handler.status_code): _answer(handler, known),
            **{str(status): _refusal(status, known) for status in sorted(refusals)},
        },
    }
    if data is not None:
        operation["requestBody"] = {"required": True, "content": _contents(known[repr(data)])}
    if path in OPEN:
        operation["security"] = []
    return operation


def _types(handler: HTTPRouteHandler) -> Iterator[object]:
    """What a handler takes and gives."""
    data = _data(handler)
    if data is not None:
        yield data
    yield from map(_constrained, _parameters(handler))
    yield from _structures(handler)


def _data(handler: HTTPRouteHandler) -> object:
    field = handler.parsed_fn_signature.parameters.get("data")
    return None if field is None else field.annotation


def _structures(handler: HTTPRouteHandler) -> list[type[Struct]]:
    annotation = handler.parsed_fn_signature.return_type.annotation
    found = get_args(annotation) or (annotation,)
    return [each for each in found if isinstance(each, type) and issubclass(each, Struct)]


def _parameters(handler: HTTPRouteHandler) -> list[FieldDefinition]:
    fields = handler.parsed_fn_signature.parameters.values()
    return [field for field in fields if isinstance(field.kwarg_definition, QueryParameter | PathParameter)]


def _constrained(field: FieldDefinition) -> object:
    """The type of a parameter, with what litestar checks and what its `schema_extra` says beside."""
    limits = field.kwarg_definition
    assert isinstance(limits, ParameterKwarg)
    meta = Meta(ge=limits.ge, le=limits.le, extra_json_schema=limits.schema_extra)
    return Annotated[field.annotation, meta]


def _parameter(field: FieldDefinition, known: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    definition = field.kwarg_definition
    assert isinstance(definition, ParameterKwarg)
    is_path = isinstance(definition, PathParameter)
    schema = dict(known[repr(_constrained(field))])
    if field.has_default:
        schema["default"] = field.default
    parameter: dict[str, object] = {
        "name": definition.name or field.name,
        "in": "path" if is_path else "query",
        "required": is_path or not field.has_default,
        "schema": schema,
    }
    return parameter | ({"description": definition.description} if definition.description else {})


def _answer(handler: HTTPRouteHandler, known: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    status = HTTPStatus(handler.status_code)
    answer: dict[str, object] = {"description": status.description or status.phrase}
    structures = _structures(handler)
    if structures:
        schemas = [known[repr(each)] for each in structures]
        answer["content"] = _contents(schemas[0] if len(schemas) == 1 else {"anyOf": schemas})
    elif status is not HTTPStatus.NO_CONTENT:
        kind = str(handler.media_type or JSON.decode())
        is_json = kind == JSON.decode()
        answer["content"] = {kind: {"schema": {"type": "object"} if is_json else {"type": "string"}}}
    return answer


def _refusal(status: int, known: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    return {"description": _STATUSES[status], "content": _contents(known[repr(ErrorObject)])}


def _contents(schema: Mapping[str, object]) -> dict[str, object]:
    return {kind: {"schema": schema} for kind in _MEDIA_TYPES}


def _identifier(path: str, handler: HTTPRouteHandler) -> str:
    """Such as ApiQueuesNamePeekPeek. Programs that were generated from the document have methods of these names."""
    found = ""
    for part in path.strip("/").replace("{", "").replace("}", "").split("/"):
        if part.title() not in found:
            found += part.title()
    return _WORD_ENDS.sub("", found + handler.handler_name.title())
