"""A written report of findings, for people (Markdown and one HTML file) and for programs (a CSV file per table).

    report = Report(
        title="Delivery audit",
        summary="3 of 1,204 messages are lost.",
        figures=[Figure("Lost", 3, tone=Tone.BAD)],
        sections=[Section("Lost messages", "No acknowledgment came back.", [table])],
    )
    report.write(Path("out")).html

Texts may come from messages and be hostile: all of them are shown as plain text.
"""

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from waypost.spark.pipelines.report_pages import html_page, lone, markdown_page
from waypost.spark.pipelines.report_parts import Column, Figure, Kind, Note, Part, Plot, Section, Table, Tone, csv_cell

__all__ = ["Column", "Figure", "Kind", "Note", "Part", "Paths", "Plot", "Report", "Section", "Table", "Tone"]

# File that lists the files of a report beside its pages: other files of the folder are never changed.
_NOTES: Final = ".waypost-report"
_NAME: Final = re.compile(r"[\w-]+\.(csv|svg)")


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of a written report."""

    markdown: Path
    html: Path
    tables: Sequence[Path]
    plots: Sequence[Path]


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    summary: str
    figures: Sequence[Figure] = ()
    sections: Sequence[Section] = ()
    # The source of the data, in a few words.
    origin: str = ""
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    def parts(self) -> list[Part]:
        return [part for section in self.sections for part in section.parts]

    def write(self, folder: Path) -> Paths:
        """Write the report into a folder, and create the folder. Files of an earlier report are replaced or removed."""
        tables = {folder / f"{part.name}.csv": _csv(part) for part in self.parts() if isinstance(part, Table)}
        plots = {folder / f"{part.name}.svg": lone(part.svg) for part in self.parts() if isinstance(part, Plot)}
        paths = Paths(folder / "report.md", folder / "report.html", list(tables), list(plots))
        pages = {paths.markdown: markdown_page(self), paths.html: html_page(self)}
        names = {path.name for path in (*tables, *plots)}
        folder.mkdir(parents=True, exist_ok=True)
        earlier = _noted(folder)
        # The next report removes the files of this one, even if it is interrupted.
        _note(folder, names | earlier)
        # Pages last: the files that they refer to exist by then.
        for path, text in (tables | plots | pages).items():
            _replace(path, text)
        for name in earlier - names:
            (folder / name).unlink(missing_ok=True)
        _note(folder, names)
        return paths


def _csv(table: Table) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(column.name for column in table.columns)
    writer.writerows([csv_cell(value) for value in row] for row in table.rows)
    return file.getvalue()


def _noted(folder: Path) -> set[str]:
    """The files of the report in the folder, beside its pages. Lines that are not names of such files do not count."""
    try:
        lines = (folder / _NOTES).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    return {line for line in lines if _NAME.fullmatch(line)}


def _note(folder: Path, names: set[str]) -> None:
    _replace(folder / _NOTES, "".join(f"{name}\n" for name in sorted(names)))


def _replace(path: Path, text: str) -> None:
    """Write a file atomically."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
