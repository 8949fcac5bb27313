"""Routes: the handlers of paths and methods, and the structures of their requests.

A route decodes the path, query and body of a request into one structure, and passes it to a function. Routes of
operations come from their rows (waypost.http.operation_routes); the others are written by hand.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, wraps
from http import HTTPStatus
from typing import Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct, defstruct
from msgspec.structs import FieldInfo, fields

from waypost.api.excerpt import excerpt
from waypost.api.local import Note
from waypost.api.operation_rows import Asks
from waypost.errors import AccessDenied, InvalidParameter
from waypost.http.requests import JSON, App, Refused, Request, Response, encoded, refused_body
from waypost.http.service import Service
from waypost.security.callers import Role, check_role

S = TypeVar("S", bound=Struct)

# Performs a request.
Perform: TypeAlias = Callable[[Service, S, Request], Awaitable[Struct | App | None]]

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
# An error of msgspec about a field.
_OF_FIELD: Final = re.compile(r"(.*) - at `\$\.(\w+)`")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_NO_BODY: Final = "the body is missing; send JSON or MessagePack, or {} for all defaults"
# In the tree of paths: any one part.
_ANY: Final = "{}"


class Nothing(Struct, frozen=True):
    """The structure of a request with nothing but its path."""


def of(asked: type[S], perform: Perform[S]) -> Perform[Struct]:
    """Wrap the function of a route that decodes requests into this structure."""

    @wraps(perform)
    async def performed(service: Service, found: Struct, request: Request) -> Struct | App | None:
        assert isinstance(found, asked)
        return await perform(service, found, request)

    return performed


@dataclass(frozen=True, kw_only=True)
class Route:
    """A route. `asked` is the structure of a request; `body` is the part of it in the body.

    `asks` is the role, the right or the ownership that a caller needs. `answers` are the structures of an answer, for
    the schema; empty if the answer has another `media_type`.
    """

    method: str
    path: str
    name: str
    asked: type[Struct]
    perform: Perform[Struct]
    asks: Asks
    # Empty for the docstring of `perform`.
    help: str = ""
    body: type[Struct] | None = None
    answers: tuple[type[Struct], ...] = ()
    status: int = HTTPStatus.OK
    media_type: str = JSON.decode()
    is_shown: bool = True

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        return tuple(_PATH_PARAMETER.findall(self.path))

    @cached_property
    def parameters(self) -> tuple[FieldInfo, ...]:
        """The parameters in the path and the query."""
        in_body = () if self.body is None else self.body.__struct_fields__
        return tuple(each for each in fields(self.asked) if each.name not in in_body)

    @cached_property
    def query_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.parameters) - frozenset(self.path_names)

    @cached_property
    def _bare(self) -> type[Struct]:
        """The parameters alone."""
        if self.body is None:
            return self.asked
        given = [
            (each.name, each.type) if each.required else (each.name, each.type, each.default)
            for each in self.parameters
        ]
        return defstruct(self.asked.__name__, given)

    @cached_property
    def _decoders(self) -> "tuple[msgspec.json.Decoder[Struct], msgspec.msgpack.Decoder[Struct]]":
        assert self.body is not None
        return msgspec.json.Decoder(self.body), msgspec.msgpack.Decoder(self.body)

    def _check_role(self, service: Service, role: Role) -> None:
        what = self.name.replace("_", " ")
        try:
            check_role(service.caller, role, f"for the operation {what!r}")
        except AccessDenied as error:
            service.start(Note(what=what, result=str(error)))
            raise

    async def answer(self, service: Service, values: Sequence[str], request: Request) -> App:
        """The answer to a request. `values` are the parts of its path for the parameters of the route.

        Raises AccessDenied if the caller does not have the role of the route, before it looks at the request.
        """
        if isinstance(self.asks, Role):
            self._check_role(service, self.asks)
        asked = await self._asked(values, request)
        found = await self.perform(service, asked, request)
        if found is None:
            return Response(b"", self.status)
        return encoded(request, found, self.status) if isinstance(found, Struct) else found

    async def _asked(self, values: Sequence[str], request: Request) -> Struct:
        given = dict(zip(self.path_names, map(decoded, values), strict=True)) | self._query(request.query)
        body = None if self.body is None else await self._read(request)
        try:
            parameters = msgspec.convert(given, self._bare, strict=False)
        except msgspec.ValidationError as error:
            sentence = _OF_FIELD.sub(r"\2: \1", str(error))
            raise InvalidParameter(_MISSING.sub(r"the query parameter \1 is missing", sentence)) from None
        return joined(self.asked, parameters, body)

    def _query(self, query: bytes) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else ():
            if name not in self.query_names:
                raise InvalidParameter(_unknown(name, self.query_names))
            if name in found:
                raise InvalidParameter(f"the query parameter {name} is repeated; send it only once")
            found[name] = value
        return found

    async def _read(self, request: Request) -> Struct:
        content = await request.body()
        if not content:
            raise InvalidParameter(_NO_BODY)
        try:
            found = self._decoders[request.has_message_pack].decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise refused_body(error) from None
        return found


def joined(kind: type[S], parameters: Struct, body: Struct | None) -> S:
    """The whole structure, from the parameters in path and query and from the body."""
    for whole in (parameters, body):
        if isinstance(whole, kind):
            return whole
    assert body is not None
    return kind(**{name: getattr(part, name) for part in (parameters, body) for name in part.__struct_fields__})


def decoded(part: str) -> str:
    """A part of a path without percent-encoding. Raises InvalidParameter if it is not text."""
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InvalidParameter(f"the name {excerpt(part)} in the path is not percent-encoded UTF-8") from None


def _unknown(name: str, known: frozenset[str]) -> str:
    sentence = f"unknown query parameter {excerpt(name)}"
    if near := get_close_matches(name, sorted(known), 1):
        return f"{sentence}; did you mean {near[0]!r}?"
    return f"{sentence}; use {', '.join(sorted(known))}" if known else f"{sentence}; this path has no query parameters"


class Routes:
    """The tree of all routes, to find that of a request."""

    __slots__ = ("_tree",)

    def __init__(self, routes: Iterable[Route]) -> None:
        self._tree: Final = _Part()
        for route in routes:
            part = self._tree
            for name in _PATH_PARAMETER.sub(_ANY, route.path).strip("/").split("/"):
                part = part.parts.setdefault(name, _Part())
            assert route.method not in part.routes, f"duplicate route for {route.method} {route.path}"
            part.routes[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, list[str]] | Response:
        """The route, and the parts of the path for its parameters; or the answer to OPTIONS. Raises Refused."""
        values: list[str] = []
        found = _find(self._tree, path.strip("/").split("/"), 0, values)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"unknown path {path[:80]}; /schema lists the paths")
        route = found.routes.get(method)
        if route is not None:
            return route, values
        allow = {"allow": ", ".join(sorted({*found.routes, "OPTIONS"}))}
        if method == "OPTIONS":
            return Response(b"", HTTPStatus.NO_CONTENT, headers=allow)
        sentence = f"the method {method[:80]} is not allowed for this path; /schema lists the methods"
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, sentence, allow)


class _Part:
    """A part of a path: the parts that may follow it, and the routes that end with it, by method."""

    __slots__ = ("parts", "routes")

    def __init__(self) -> None:
        self.parts: Final[dict[str, _Part]] = {}
        self.routes: Final[dict[str, Route]] = {}


def _find(part: _Part, path: Sequence[str], at: int, values: list[str]) -> _Part | None:
    """The part for a path. A literal name is tried before a parameter."""
    if at == len(path):
        return part if part.routes else None
    name = path[at]
    spelled = part.parts.get(name) if name != _ANY else None
    if spelled is not None and (found := _find(spelled, path, at + 1, values)) is not None:
        return found
    left_open = part.parts.get(_ANY)
    if left_open is None or not name:
        return None
    values.append(name)
    found = _find(left_open, path, at + 1, values)
    if found is None:
        values.pop()
    return found
