"""Checks of the arguments of both facades, which become fields of operations, and their documentation."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from inspect import getdoc
from math import inf
from textwrap import TextWrapper
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.bodies import BYTES
from waypost.api.excerpt import excerpt
from waypost.api.operation_rows import Row
from waypost.api.operations import Operation, Seek
from waypost.api.properties import MessageProperties
from waypost.api.reading import LONGEST_TIMEOUT
from waypost.api.rows import PropertyRow
from waypost.client.message import Message
from waypost.core.positions import END, SEQUENCE_MASK
from waypost.errors import InvalidParameter
from waypost.limits import MAX_HTTP_LEASE_SECONDS

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

# One text or several.
Texts: TypeAlias = str | Iterable[str]

SEEKS: Final = get_args(Seek)
_BYTES: Final = (bytes, bytearray, memoryview)


def asked(operation: Operation[R]) -> Operation[R]:
    """An operation that a program has made itself, after a check of its fields: Python does not check their types."""
    kind = type(operation)
    row = vars(kind).get("row")
    if not isinstance(row, Row):
        raise InvalidParameter(
            f"`operation` must be a waypost.api record such as ListQueues(), not {excerpt(operation)}"
        )
    if not row.path:
        raise InvalidParameter(f"the operation {row.words!r} is internal to the queue manager")
    try:
        # Bytes stay bytes; in JSON they would be text.
        return msgspec.convert(msgspec.to_builtins(operation, builtin_types=_BYTES), kind, builtin_types=_BYTES)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise InvalidParameter(
            f"invalid fields for the operation {row.words!r}: {error or type(error).__name__}"
        ) from None


def texts(given: Texts) -> list[str]:
    """One text or several as a list."""
    found = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(each, str) for each in found):
        raise InvalidParameter(f"a string or a list of strings is required, not {excerpt(given)}")
    return found


def seconds(timeout: float | None) -> float:
    """Seconds to wait; infinity for None."""
    if timeout is None:
        return inf
    if not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidParameter(f"`timeout` must be a number of seconds, or None for no limit, not {excerpt(timeout)}")
    return timeout if timeout < LONGEST_TIMEOUT else inf


def sought(lookup_id: int | None, seek: Seek | None) -> tuple[int | UnsetType, Seek | UnsetType]:
    """The message to look up; UNSET for the first one in the queue."""
    if seek is not None and seek not in SEEKS:
        raise InvalidParameter(f"`seek` must be one of {', '.join(SEEKS)}, not {excerpt(seek)}")
    if lookup_id is None and seek not in (None, "first", "last"):
        raise InvalidParameter(f"`seek={seek!r}` requires the `lookup_id` of the message to start from")
    if lookup_id is not None and not isinstance(lookup_id, int):
        raise InvalidParameter(f"`lookup_id` must be a number, not {excerpt(lookup_id)}")
    return UNSET if lookup_id is None else lookup_id, UNSET if seek is None else seek


def event_id(since: Message | int | Literal["start"] | None) -> str:
    """The id of the last event before those to read, as in the event stream; "" for events from now on."""
    if since is None or since == "start":
        return since or ""
    lookup_id = since.lookup_id if isinstance(since, Message) else since
    if isinstance(lookup_id, bool) or not isinstance(lookup_id, int) or not 0 <= lookup_id < END:
        raise InvalidParameter(
            f'`since` must be a Message, the `lookup_id` of a message, "start" or None, not {excerpt(since)}'
        )
    return str(lookup_id & SEQUENCE_MASK)


def how_many(count: int) -> int:
    if not isinstance(count, int) or count < 1:
        raise InvalidParameter(f"`count` must be a number of messages, 1 or more, not {excerpt(count)}")
    return count


def lookup_id_of(message: Message | int, verb: str) -> int:
    """The lookup id of a message that a caller gives as a Message or as its lookup id."""
    lookup_id = message.lookup_id if isinstance(message, Message) else message
    if not isinstance(lookup_id, int) or not 0 <= lookup_id < END:
        raise InvalidParameter(
            f"the message to {verb} must be a Message or the `lookup_id` of a message, not {excerpt(message)}"
        )
    return lookup_id


def with_body_type(properties: MessageProperties, found: int) -> MessageProperties:
    """The properties of messages with bodies of this type, which are encoded as bytes."""
    if properties.body_type is not None or found == BYTES:
        return properties
    return replace(properties, body_type=found)


def transaction_limit(timeout: float | None, usual: float | None) -> float:
    """Seconds that a transaction may be idle; 0 without a limit."""
    if timeout is None:
        return usual or 0.0
    return _limit(timeout, "the timeout of a transaction")


def lease_limit(lease_s: float) -> float:
    """Duration of a lease, in seconds."""
    return _limit(lease_s, "`lease_s`")


def _limit(given: float, what: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= MAX_HTTP_LEASE_SECONDS:
        most = MAX_HTTP_LEASE_SECONDS
        raise InvalidParameter(f"{what} must be more than 0 and at most {most} seconds, not {excerpt(given)}")
    return float(given)


def warn_of_ignored(notes: tuple[str, ...]) -> None:
    """Warn of properties without an effect. The warning names the line of the program, three calls up."""
    for note in notes:
        warnings.warn(note, stacklevel=4)


def with_table(rows: Sequence[PropertyRow]) -> Callable[[F], F]:
    """Append a table of properties to the documentation of a method that takes them by name."""
    width = max(len(row.name) for row in rows) + 2
    wrapper = TextWrapper(116, subsequent_indent=" " * width, break_on_hyphens=False)
    lines = [line for row in rows for line in wrapper.wrap(f"{row.name.ljust(width)}{row.help}")]

    def document(method: F) -> F:
        method.__doc__ = f"{getdoc(method)}\n\n" + "\n".join(lines)
        return method

    return document
