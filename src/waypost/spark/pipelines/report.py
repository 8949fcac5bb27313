"""A written report: what was found, for people (Markdown and one HTML file) and for programs (a CSV file per table).

    report = Report(
        title="Delivery audit",
        summary="3 of 1,204 messages are lost.",
        figures=[Figure("Lost", 3, tone=Tone.BAD)],
        sections=[Section("Lost messages", "No word came back.", [table])],
    )
    report.write(Path("out")).html

Texts may come out of messages and mean harm: whatever they hold is shown as text.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from waypost.spark.pipelines.report_html import html_page
from waypost.spark.pipelines.report_markdown import markdown_page
from waypost.spark.pipelines.report_parts import Column, Figure, Note, Part, Plot, Section, Table, Tone
from waypost.spark.pipelines.report_svg import lone
from waypost.spark.pipelines.report_values import Kind, csv_cell

__all__ = ["Column", "Figure", "Kind", "Note", "Part", "Paths", "Plot", "Report", "Section", "Table", "Tone"]


@dataclass(frozen=True, slots=True)
class Paths:
    """Where a report was written."""

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
    # What it was made from, in half a sentence.
    origin: str = ""
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    def parts(self) -> list[Part]:
        return [part for section in self.sections for part in section.parts]

    def write(self, folder: Path) -> Paths:
        """Into a folder, which is made if it is not there. Files of an earlier report are replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = [_write_csv(folder, part) for part in self.parts() if isinstance(part, Table)]
        plots = [_write_svg(folder, part) for part in self.parts() if isinstance(part, Plot)]
        paths = Paths(folder / "report.md", folder / "report.html", tables, plots)
        paths.markdown.write_text(markdown_page(self), encoding="utf-8")
        paths.html.write_text(html_page(self), encoding="utf-8")
        return paths


def _write_csv(folder: Path, table: Table) -> Path:
    path = folder / f"{table.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in table.columns)
        writer.writerows([csv_cell(value) for value in row] for row in table.rows)
    return path


def _write_svg(folder: Path, plot: Plot) -> Path:
    path = folder / f"{plot.name}.svg"
    path.write_text(lone(plot.svg), encoding="utf-8")
    return path
