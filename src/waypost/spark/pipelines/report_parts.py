"""The parts of a report: figures, tables, plots and notes, in sections."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from waypost.spark.pipelines.report_values import Kind

# Largest number of rows of a table on a page. The CSV file has all rows that the table holds.
SHOWN_ROWS: Final = 50


class Tone(StrEnum):
    """Rating of a fact, which decides its colour."""

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
        remark = f"The first {len(self.shown):,} of {total:,} rows."
        return f"{remark} {self.name}.csv has {len(self.rows):,}."


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
