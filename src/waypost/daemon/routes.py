"""Routes as the configuration writes them: GUID=HOST, or GUID=via GUID."""

from collections.abc import Iterable

from waypost.errors import DecodeError
from waypost.guid import parse_guid
from waypost.routing.routes import Route


def parse_routes(texts: Iterable[str]) -> tuple[Route, ...]:
    """Raises ValueError with the text that is no route."""
    return tuple(_parse(text) for text in texts)


def _parse(text: str) -> Route:
    target, _, way = text.partition("=")
    way = way.strip()
    try:
        if way.startswith("via "):
            return Route(parse_guid(target.strip()), via=parse_guid(way.removeprefix("via ").strip()))
        if way:
            return Route(parse_guid(target.strip()), host=way)
    except (DecodeError, ValueError):
        pass
    raise ValueError(text)
