"""How times, spans and counts are said in an explanation."""

from datetime import UTC, datetime
from typing import Final

from waypost.api.times import iso_8601

_UNITS: Final = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def at(wall: float) -> str:
    """A time in UTC, to the second. What no calendar has is told as a number."""
    return moment(int(wall))


def moment(wall: float) -> str:
    """The same as it is known, in the form that all surfaces give a time."""
    try:
        return iso_8601(datetime.fromtimestamp(wall, UTC))
    except (OverflowError, ValueError, OSError):
        return f"{int(wall)} seconds after 1970"


def span(seconds: float) -> str:
    """A span in its largest unit of which there are two or more: "90 seconds" is 1 minute to nobody."""
    if 0 < seconds < 1:
        return "less than a second"
    whole = max(int(seconds), 0)
    for size, unit in _UNITS:
        if whole >= 2 * size:
            return counted(whole // size, unit)
    return counted(whole, "second")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
