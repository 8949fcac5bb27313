"""The text form of times."""

from datetime import datetime


def iso_8601(time: datetime) -> str:
    """A time of UTC, as in "2026-01-31T12:00:00Z"."""
    return time.isoformat().replace("+00:00", "Z")
