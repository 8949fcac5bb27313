"""The text form of times."""

from datetime import datetime


def iso_8601(time: datetime, *, timespec: str = "auto") -> str:
    """A time of UTC, as in "2026-01-31T12:00:00Z". `timespec` is that of datetime.isoformat."""
    return time.isoformat(timespec=timespec).replace("+00:00", "Z")
