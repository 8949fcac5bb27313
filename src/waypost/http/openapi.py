"""/schema: the OpenAPI document, generated from the routes and the structures that they decode.

It lists every status of an operation. A method that a path does not have (405) is not an operation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Final, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

import waypost
from waypost.api.operation_rows import QueueRight
from waypost.client.transports.http.schema import ErrorObject
from waypost.http.request_guard import OPEN, WITH_BODY
from waypost.http.requests import JSON, MESSAGE_PACK, Request, Response
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service
from waypost.security.callers import Role

_DESCRIPTION: Final = (
    "HTTP API of a queue manager that speaks MSMQ. Requests and answers are JSON or MessagePack, according to "
    "Content-Type and Accept. Bytes are base64 text in JSON and binary in MessagePack."
)
_MEDIA_TYPES: Final = (JSON.decode(), *sorted(each.decode() for each in MESSAGE_PACK))
_TOKEN: Final = "token"

_STATUSES: Final = {
    400: "The request is invalid.",
    401: "The token is missing or wrong.",
    403: "The caller does not have the required role or the required right on the queue, or a web page of another site "
    "sent the request.",
    404: "The queue, message, cursor, handle, user, certificate or pinned key does not exist.",
    409: "The operation conflicts with the current state.",
    413: "The request is too large.",
    415: "The body is neither JSON nor MessagePack.",
    421: "The host name in the Host header does not belong to this server.",
    429: "Too many logins have failed. Retry later.",
    500: "The disk failed during a write, or the server has a bug.",
    502: "The computer that hosts the queue is unreachable, or the connection to this computer was lost.",
    503: "The queue manager is stopping, or too many objects are open.",
    507: "The disk is full, or a quota is reached.",
}
# Operations that check a password.
_WITH_PASSWORD: Final = frozenset({"/api/login", "/api/users/{name}/password"})
# Operations without a name that could be missing or in use.
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
# Paths that also accept a queue of another computer, and read it there.
_ELSEWHERE: Final = re.compile(
    r"/api/(queues/\{name\}/(receive|peek|browse|move|move-all|resend|purge|messages/.*)|handles|cursors(/.*)?)"
)
_WORD_ENDS: Final = re.compile(r"[^A-Za-z0-9]+")
_REFERENCE: Final = "#/components/schemas/{name}"


class Document:
    """The OpenAPI document of one server, built at the first request."""

    __slots__ = ("_content", "_demands_token", "_routes")

    def __init__(self, routes: Sequence[Route], *, demands_token: bool) -> None:
        self._routes: Final = routes
        self._demands_token: Final = demands_token
        self._content = b""

    @property
    def content(self) -> bytes:
        if not self._content:
            self._content = msgspec.json.encode(document(self._routes, demands_token=self._demands_token))
        return self._content


def schema_routes(document: Document) -> list[Route]:
    """The routes of the OpenAPI document."""

    async def answer(_service: Service, _asked: Nothing, _request: Request) -> Response:
        return Response(document.content, media_type="application/vnd.oai.openapi+json")

    return [
        Route(
            method="GET",
            path=path,
            name="schema",
            asked=Nothing,
            perform=of(Nothing, answer),
            asks=Role.NONE,
            is_shown=False,
        )
        for path in ("/schema", "/schema/openapi.json")
    ]


def document(routes: Iterable[Route], *, demands_token: bool) -> dict[str, object]:
    shown = [route for route in routes if route.is_shown]
    types = [ErrorObject, *(each for route in shown for each in _types(route))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    known = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, known, demands_token=demands_token)
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
    """The error statuses of an operation."""
    yield from (400, 500)
    if path in OPEN:
        return
    yield from (401, 403, 503) if demands_token else (401, 403, 421, 503)
    if (method, path) not in _NAMELESS:
        yield from (404, 409)
    if path in _WITH_PASSWORD:
        yield 429
    if method in WITH_BODY:
        yield 415
    if has_data:
        yield 413
    if method != "GET":
        yield 507
    if _ELSEWHERE.fullmatch(path):
        yield 502


def _operation(route: Route, known: Mapping[str, dict[str, object]], *, demands_token: bool) -> dict[str, object]:
    refusals = statuses(route.method, route.path, has_data=route.body is not None, demands_token=demands_token)
    summary, _, more = (route.help or route.perform.__doc__ or "").partition("\n\n")
    operation: dict[str, object] = {
        "operationId": _identifier(route),
        "summary": summary.strip(),
        "description": "\n\n".join(" ".join(part.split()) for part in (summary, *more.split("\n\n")) if part.strip()),
        "parameters": [_parameter(route, field, known) for field in route.parameters],
        "responses": {
            str(int(route.status)): _answer(route, known),
            **{str(status): _refusal(status, known) for status in sorted(refusals)},
        },
    }
    if isinstance(route.asks, Role):
        operation["x-role"] = route.asks.word
    elif isinstance(route.asks, QueueRight):
        operation["x-queue-right"] = route.asks.value
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _contents(known[repr(route.body)])}
    if route.path in OPEN:
        operation["security"] = []
    return operation


def _types(route: Route) -> Iterator[object]:
    """The types of the requests and answers of a route."""
    if route.body is not None:
        yield route.body
    yield from (_typed(field)[0] for field in route.parameters)
    yield from route.answers


def _typed(field: FieldInfo) -> tuple[object, str]:
    """The type of a parameter, and its description apart."""
    kind, *notes = get_args(field.type) if hasattr(field.type, "__metadata__") else (field.type,)
    meta = next((each for each in notes if isinstance(each, Meta)), Meta())
    limits = Meta(ge=meta.ge, le=meta.le, extra_json_schema=meta.extra_json_schema)
    return Annotated[kind, limits], meta.description or ""


def _parameter(route: Route, field: FieldInfo, known: Mapping[str, dict[str, object]]) -> dict[str, object]:
    kind, description = _typed(field)
    is_path = field.name in route.path_names
    schema = dict(known[repr(kind)])
    if not field.required:
        schema["default"] = field.default
    parameter: dict[str, object] = {
        "name": field.name,
        "in": "path" if is_path else "query",
        "required": is_path or field.required,
        "schema": schema,
    }
    return parameter | ({"description": description} if description else {})


def _answer(route: Route, known: Mapping[str, dict[str, object]]) -> dict[str, object]:
    status = HTTPStatus(route.status)
    answer: dict[str, object] = {"description": status.description or status.phrase}
    if route.answers:
        schemas = [known[repr(each)] for each in route.answers]
        answer["content"] = _contents(schemas[0] if len(schemas) == 1 else {"anyOf": schemas})
    elif status is not HTTPStatus.NO_CONTENT:
        is_json = route.media_type == JSON.decode()
        answer["content"] = {route.media_type: {"schema": {"type": "object"} if is_json else {"type": "string"}}}
    return answer


def _refusal(status: int, known: Mapping[str, dict[str, object]]) -> dict[str, object]:
    return {"description": _STATUSES[status], "content": _contents(known[repr(ErrorObject)])}


def _contents(schema: Mapping[str, object]) -> dict[str, object]:
    return {kind: {"schema": schema} for kind in _MEDIA_TYPES}


def _identifier(route: Route) -> str:
    """The operationId, such as ApiQueuesNamePeekPeek. Programs generated from the document name methods so."""
    found = ""
    for part in route.path.strip("/").replace("{", "").replace("}", "").split("/"):
        if part.title() not in found:
            found += part.title()
    return _WORD_ENDS.sub("", found + route.name.title())
