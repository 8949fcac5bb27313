"""The query of a request: a name that the path does not know is refused, and so is one that comes twice."""

from difflib import get_close_matches
from typing import Final
from urllib.parse import parse_qsl

from litestar import Request
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from waypost.api.excerpt import excerpt
from waypost.errors import InvalidParameter


class Queries:
    """What the handlers of one application know."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: Final[dict[BaseRouteHandler, frozenset[str]]] = {}

    def check(self, request: Request[object, object, State]) -> None:
        """Raises InvalidParameter."""
        query = request.scope["query_string"]
        if not query:
            return
        known = self._known(request.route_handler)
        seen = set()
        for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in known:
                raise InvalidParameter(_unknown(name, known))
            if name in seen:
                raise InvalidParameter(f"the query parameter {name} is given twice; give it once")
            seen.add(name)

    def _known(self, handler: BaseRouteHandler) -> frozenset[str]:
        if handler not in self._names:
            self._names[handler] = names_of(handler)
        return self._names[handler]


def names_of(handler: BaseRouteHandler) -> frozenset[str]:
    """The query parameters of a handler."""
    fields = handler.parsed_fn_signature.parameters.values()
    return frozenset(
        field.kwarg_definition.name or field.name
        for field in fields
        if isinstance(field.kwarg_definition, QueryParameter)
    )


def _unknown(name: str, known: frozenset[str]) -> str:
    sentence = f"unknown query parameter {excerpt(name)}"
    if near := get_close_matches(name, sorted(known), 1):
        return f"{sentence}; did you mean {near[0]!r}?"
    return f"{sentence}; known are {', '.join(sorted(known))}" if known else f"{sentence}; there are none here"
