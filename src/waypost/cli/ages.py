"""Ages at the command line: 90s, 15m, 12h, 30d."""

import re
from datetime import UTC, datetime
from typing import Final

import typer

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGE: Final = re.compile(r"([0-9]{1,9})([smhd])")


def seconds_of(text: str, option: str) -> float:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text[:80]!r} is not an age such as 90s, 15m, 12h or 30d", param_hint=option)
    return float(int(match[1]) * _UNITS[match[2]])


def age_text(since: datetime | None) -> str | None:
    """Rounded down to one unit; None without a time."""
    if since is None:
        return None
    seconds = max(int((datetime.now(UTC) - since).total_seconds()), 0)
    unit = next(unit for unit in reversed(_UNITS) if seconds >= 2 * _UNITS[unit] or unit == "s")
    return f"{seconds // _UNITS[unit]}{unit}"
