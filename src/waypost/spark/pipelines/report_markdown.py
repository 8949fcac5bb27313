"""A report as Markdown."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from waypost.spark.pipelines.report_parts import Note, Part, Plot, Table, Tone
from waypost.spark.pipelines.report_values import markdown, shown

if TYPE_CHECKING:
    from waypost.spark.pipelines.report import Report

_WORDS: Final = {
    Tone.PLAIN: "Note",
    Tone.FAINT: "Note",
    Tone.GOOD: "Good",
    Tone.WARNING: "Warning",
    Tone.BAD: "Problem",
}


def markdown_page(report: "Report") -> str:
    return "\n\n".join(_blocks(report)) + "\n"


def _blocks(report: "Report") -> Iterator[str]:
    yield f"# {markdown(report.title)}"
    yield f"**{markdown(report.summary)}**"
    if report.figures:
        lines = [
            f"| {markdown(each.name)} | {markdown(shown(each.value, each.kind))} | {markdown(each.note)} |"
            for each in report.figures
        ]
        yield "\n".join(["| | | |", "| --- | ---: | --- |", *lines])
    for section in report.sections:
        yield f"## {markdown(section.title)}"
        if section.text:
            yield markdown(section.text)
        for part in section.parts:
            yield from _part(part)
    origin = f" from {markdown(report.origin)}" if report.origin else ""
    yield f"---\n\nMade by `waypost spark`{origin} on {shown(report.made)} UTC. Times are in UTC."


def _part(part: Part) -> Iterator[str]:
    match part:
        case Note():
            yield f"> **{_WORDS[part.tone]}:** {markdown(part.text)}"
        case Plot():
            yield f"![{markdown(part.title)}]({part.name}.svg)"
            yield markdown(part.text)
        case Table():
            yield f"### {markdown(part.title)}"
            yield _table(part) if part.rows else "No rows."
            if part.remark:
                yield markdown(part.remark)


def _table(table: Table) -> str:
    heading = " | ".join(markdown(column.title) for column in table.columns)
    rule = " | ".join("---:" if column.kind.is_number else "---" for column in table.columns)
    rows = (
        " | ".join(markdown(shown(value, column.kind)) for column, value in zip(table.columns, row, strict=True))
        for row in table.shown
    )
    return "\n".join(f"| {line} |" for line in (heading, rule, *rows))
