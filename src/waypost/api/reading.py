"""Timeouts, lookup ids and seek words of a read, in the form of the queue manager."""

from math import ceil
from typing import Final

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.core.positions import END
from waypost.core.reading import MessageSeekAction
from waypost.errors import InvalidParameter

_SEEK: Final = {
    "first": MessageSeekAction.SEEK_FIRST,
    "previous": MessageSeekAction.SEEK_PREVIOUS,
    "current": MessageSeekAction.SEEK_CURRENT,
    "next": MessageSeekAction.SEEK_NEXT,
    "last": MessageSeekAction.SEEK_LAST,
}

# The longest finite timeout, in seconds.
LONGEST_TIMEOUT: Final = 1 << 32
_MAX_DIGITS: Final = 20


def milliseconds(seconds: float) -> int | None:
    """A timeout in milliseconds; None for no timeout."""
    return ceil(seconds * 1000) if seconds < LONGEST_TIMEOUT else None


def lookup_number(value: int | str) -> int:
    """A LookupIdentifier, as a number or in decimal digits."""
    if isinstance(value, str):
        is_number = value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
        value = int(value) if is_number else -1
    if not 0 <= value < END:
        raise InvalidParameter("`lookup_id` must be a number in decimal digits")
    return value


def place_of(lookup_id: int | UnsetType, seek: str | UnsetType) -> tuple[int, MessageSeekAction] | None:
    """The message to look up; None for the first message in the queue, or the next one to arrive."""
    if lookup_id is UNSET and seek is UNSET:
        return None
    action = _SEEK.get("current" if seek is UNSET else seek)
    if action is None:
        raise InvalidParameter(f"`seek` must be one of {', '.join(_SEEK)}, not {excerpt(seek)}")
    if lookup_id is UNSET and seek not in ("first", "last"):
        raise InvalidParameter(f"`seek={seek!r}` requires the `lookup_id` of the message to start from")
    return 0 if lookup_id is UNSET else lookup_id, action
