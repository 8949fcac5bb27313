"""What handlers take: the service, and what stands in paths and queries."""

from typing import Annotated, Final, TypeAlias
from urllib.parse import unquote

from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from waypost.api.excerpt import excerpt
from waypost.api.forms import GUID_FORM, LOOKUP_ID_FORM, PLACE_FORM
from waypost.errors import InvalidParameter
from waypost.http.service import Service

Served: TypeAlias = NamedDependency[Service]

# A name as it was sent, percent-encoded; `decoded` is what the client means.
Name = Annotated[
    str, PathParameter(description="The percent-encoded name of a queue: orders, orders;retry, DIRECT=..., any NAME.")
]
Identifier = Annotated[str, PathParameter(description="The id that opened it, or began it.", schema_extra=GUID_FORM)]
LookupIdInPath = Annotated[
    str, PathParameter(description="The lookup_id of a message in the queue.", schema_extra=LOOKUP_ID_FORM)
]
After = Annotated[str, QueryParameter(description="The `next` of the page before.", schema_extra=PLACE_FORM)]
Outgoing = Annotated[bool, QueryParameter(description="Whether the outgoing queue with this format name is meant.")]

_MAX_DIGITS: Final = 20


def decoded(name: str) -> str:
    """Raises InvalidParameter for what is no text."""
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise InvalidParameter(f"the name {excerpt(name)} is not UTF-8 in percent-encoding") from None
