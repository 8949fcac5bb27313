"""The parts of a report: values, figures, tables, plots and notes, in sections.

Values are formatted for people; texts from messages are escaped: they are not markup or formulas.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape
from typing import Final, TypeAlias

from waypost.api.excerpt import printable
from waypost.guid import guid_text

_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_TIME_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_MARKUP: Final = re.compile(r"[\\`*_\[\]<>|&~#$@]|(?<=[A-Za-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
# First characters of a formula in a spreadsheet.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class Kind(StrEnum):
    """Kind of a value, which determines its format."""

    TEXT = "text"
    # An identifier, a format name or an address, in a font of fixed width.
    CODE = "code"
    # Pages show the first digits, and files for programs the whole GUID.
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
    """The value as text for people; a missing value is a dash."""
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


def counted(count: int, noun: str) -> str:
    """The number with its noun, such as "1 queue" and "1,200 queues"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def id_text(message_id: bytes) -> str:
    """`{guid}\\number`, as people write the 20 bytes of a message id."""
    return f"{{{guid_text(bytes(message_id[:16]))}}}\\{int.from_bytes(message_id[16:20], 'little')}"


def in_utc(value: datetime) -> datetime:
    """The time in UTC. Spark returns local times without a zone."""
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
    """Text for a paragraph or a cell of a table in Markdown: no markup, no link, no new line."""
    return _MARKUP.sub(r"\\\g<0>", printable(text))


def csv_cell(value: object) -> str:
    """A value for programs: numbers and times in plain form. A text that a spreadsheet would run gets an apostrophe."""
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


# Largest number of rows of a table on a page. The CSV file has all rows that the table holds.
SHOWN_ROWS: Final = 50


class Tone(StrEnum):
    """Rating of a fact, which determines its colour."""

    PLAIN = "plain"
    FAINT = "faint"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"

    @classmethod
    def of_problems(cls, count: int) -> "Tone":
        """The tone for a number of problems, which should be 0."""
        return cls.BAD if count else cls.GOOD


@dataclass(frozen=True, slots=True)
class Figure:
    """An important number, with its name and a short explanation."""

    name: str
    value: object
    kind: Kind = Kind.COUNT
    note: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `name` is for programs, `title` for people."""

    name: str
    title: str
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `name` becomes the name of the CSV file. `total` is the number of all rows if `rows` has only some."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    total: int | None = None
    # Largest number of rows on a page.
    most: int = SHOWN_ROWS

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        columns: Sequence[Column],
        records: Iterable[Mapping[str, object]],
        *,
        total: int | None = None,
    ) -> "Table":
        """A table from records with the names of the columns, such as the dictionaries of Spark's rows."""
        return cls(name, title, columns, [[each[column.name] for column in columns] for each in records], total)

    @property
    def shown(self) -> Sequence[Sequence[object]]:
        return self.rows[: self.most]

    @property
    def remark(self) -> str:
        """A sentence on the rows that a page leaves out."""
        total = max(self.total or 0, len(self.rows))
        if total <= len(self.shown):
            return ""
        remark = f"The table shows the first {len(self.shown):,} of {total:,} rows."
        return f"{remark} The file {self.name}.csv contains {counted(len(self.rows), 'row')}."


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing of waypost.spark.pipelines.plots. `text` describes it in words."""

    name: str
    title: str
    svg: str
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence that a reader must not miss."""

    text: str
    tone: Tone = Tone.PLAIN


Part: TypeAlias = Table | Plot | Note


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    text: str = ""
    parts: Sequence[Part] = ()
