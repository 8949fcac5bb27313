"""What a report is made of: figures, tables, plots and notes, in sections."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from waypost.spark.pipelines.report_values import Kind

# How many rows of a table a reader is shown. The CSV file has all that the table holds.
SHOWN_ROWS: Final = 50


class Tone(StrEnum):
    """How good the news is."""

    PLAIN = "plain"
    FAINT = "faint"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"

    @classmethod
    def of_problems(cls, count: int) -> "Tone":
        """For a number that should be 0."""
        return cls.BAD if count else cls.GOOD


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that matters, with its name and half a sentence that explains it."""

    name: str
    value: object
    kind: Kind = Kind.COUNT
    note: str = ""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is for programs, `title` for people."""

    name: str
    title: str
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """`name` becomes the name of the CSV file. `total` says how many rows there are where only some are held."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    total: int | None = None
    # How many of them a reader is shown.
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
        """From records with the names of the columns, such as the dictionaries of Spark's rows."""
        return cls(name, title, columns, [[each[column.name] for column in columns] for each in records], total)

    @property
    def shown(self) -> Sequence[Sequence[object]]:
        return self.rows[: self.most]

    @property
    def remark(self) -> str:
        """What a reader is not shown."""
        total = max(self.total or 0, len(self.rows))
        if total <= len(self.shown):
            return ""
        remark = f"The first {len(self.shown):,} of {total:,} rows."
        return f"{remark} {self.name}.csv has {len(self.rows):,}."


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing of waypost.spark.pipelines.plots. `text` says in words what it shows."""

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
