"""Values in a report: as people write them, and so that no text out of a message is taken for markup or a formula."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape
from typing import Final

from waypost.api.excerpt import printable

_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_TIME_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_MARKUP: Final = re.compile(r"[\\`*_\[\]<>|&~#$@]|(?<=[A-Za-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
# What a spreadsheet takes for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class Kind(StrEnum):
    """What a value is, which decides how it is written."""

    TEXT = "text"
    # An identifier, a format name, an address: in letters of one width.
    CODE = "code"
    # Its first letters tell it from others; files for programs have it whole.
    GUID = "guid"
    COUNT = "count"
    NUMBER = "number"
    BYTES = "bytes"
    SECONDS = "seconds"
    SHARE = "share"
    TIME = "time"

    @property
    def is_number(self) -> bool:
        return self not in (Kind.TEXT, Kind.CODE, Kind.GUID, Kind.TIME)


def shown(value: object, kind: Kind = Kind.TEXT) -> str:
    """The value for a reader; what is not there is a dash."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() | float() if kind.is_number:
            return _number(value, kind)
        case timedelta():
            return _number(value.total_seconds(), Kind.SECONDS)
        case datetime():
            return in_utc(value).strftime("%Y-%m-%d %H:%M:%S")
        case bytes() | bytearray():
            return value.hex()
        case str():
            return printable(value.strip("{}")[:8] if kind is Kind.GUID else value)
        case Sequence():
            return ", ".join(shown(each, kind) for each in value)
    return printable(str(value))


def in_utc(value: datetime) -> datetime:
    """Spark hands out local times without a zone."""
    return value.astimezone(UTC)


def _number(value: float, kind: Kind) -> str:
    match kind:
        case Kind.BYTES:
            return _bytes(value)
        case Kind.SECONDS:
            return f"-{_seconds(-value)}" if value < 0 else _seconds(value)
        case Kind.SHARE:
            return f"{value:.1%}" if abs(value) >= 0.001 or value == 0 else "< 0.1%"
    if isinstance(value, int) or (kind is Kind.COUNT and value.is_integer()):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _bytes(value: float) -> str:
    unit = 0
    while abs(value) >= 1024 and unit < len(_BYTE_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_BYTE_UNITS[unit]}"


def _seconds(value: float) -> str:
    if value < 1:
        return "0 s" if value == 0 else f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s" if value % 1 else f"{value:.0f} s"
    whole = round(value)
    at = next(index for index, (_, size) in enumerate(_TIME_UNITS) if whole >= size)
    (unit, size), (smaller, part) = _TIME_UNITS[at : at + 2]
    rest = whole % size // part
    return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"


def short(text: str, length: int) -> str:
    """The text with its middle left out if it is too long."""
    text = printable(text)
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def html(text: str) -> str:
    return escape(printable(text), quote=True)


def markdown(text: str) -> str:
    """In running text or in the cell of a table: no markup, no link, no new line."""
    return _MARKUP.sub(r"\\\g<0>", printable(text))


def csv_cell(value: object) -> str:
    """For programs: numbers and times in one plain form. A text that a spreadsheet would run gets an apostrophe."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case datetime():
            return in_utc(value).isoformat()
        case timedelta():
            return str(value.total_seconds())
        case bytes() | bytearray():
            return value.hex()
    text = printable(value) if isinstance(value, str) else shown(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
