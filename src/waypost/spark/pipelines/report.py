"""A written report of findings, for people (Markdown and one HTML file) and for programs (a CSV file per table).

    report = Report(
        title="Delivery audit",
        summary="3 of 1,204 messages are lost.",
        figures=[Figure("Lost", 3, tone=Tone.BAD)],
        sections=[Section("Lost messages", "No acknowledgment came back.", [table])],
    )
    report.write(Path("out")).html

Texts may come from messages and be hostile: all of them are shown as plain text. The HTML file needs no other file (no
script, no font, no picture).

Colours of drawings follow the page, which is light or dark; a drawing in a separate file is light. A drawing is made
with the unusual colours below; each stands for a variable of the page.
"""

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from waypost import __version__
from waypost.spark.pipelines.report_parts import (
    Column,
    Figure,
    Kind,
    Note,
    Part,
    Plot,
    Section,
    Table,
    Tone,
    csv_cell,
    html,
    markdown,
    short,
    shown,
)

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


# --- Colours ----------------------------------------------------------------------------------------------------------

INK: Final = "#01fe01"
FAINT: Final = "#01fe02"
GRID: Final = "#01fe03"
ACCENT: Final = "#01fe04"
GOOD: Final = "#01fe05"
WARNING: Final = "#01fe06"
BAD: Final = "#01fe07"
PAPER: Final = "#01fe08"

OF_TONE: Final = {Tone.PLAIN: ACCENT, Tone.FAINT: FAINT, Tone.GOOD: GOOD, Tone.WARNING: WARNING, Tone.BAD: BAD}

VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--line",
    ACCENT: "--accent",
    GOOD: "--good",
    WARNING: "--warning",
    BAD: "--bad",
    PAPER: "--card",
}

# Name of the variable, its colour on a light page, and on a dark page.
PALETTE: Final = (
    ("--page", "#f6f7f9", "#0f1318"),
    ("--card", "#ffffff", "#171c23"),
    ("--ink", "#1b2430", "#e6eaf0"),
    ("--faint", "#5f6c7b", "#95a2b3"),
    ("--line", "#e1e6ec", "#2a323d"),
    ("--accent", "#2f6fdb", "#6ea2f7"),
    ("--good", "#1f8a57", "#4cc38a"),
    ("--warning", "#b87503", "#e8ae45"),
    ("--bad", "#cc3340", "#f2777f"),
)
_LIGHT: Final = {name: light for name, light, _ in PALETTE}


def themed(svg: str) -> str:
    """A drawing for a page that has the variables."""
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg


def lone(svg: str) -> str:
    """A drawing for a separate file."""
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, _LIGHT[variable])
    return svg


# --- HTML -------------------------------------------------------------------------------------------------------------

# A browser loads and runs nothing, even if a text looks like markup.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
# A longer text is cut in its middle; the tooltip has the whole text.
_CELL: Final = 72
# A text up to this length is not broken into lines.
_BRIEF: Final = 44

_LIGHT_PAGE: Final = "".join(f"{name}:{light};" for name, light, _ in PALETTE)
_DARK_PAGE: Final = "".join(f"{name}:{dark};" for name, _, dark in PALETTE)
_STYLE: Final = (
    f":root{{color-scheme:light dark;{_LIGHT_PAGE}}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_DARK_PAGE}}}}}"
    """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
-webkit-text-size-adjust:100%}
main{max-width:1080px;margin:0 auto;padding:48px 24px 64px}
header p.kicker{margin:0 0 6px;color:var(--faint);font-size:12px;font-weight:600;
letter-spacing:.09em;text-transform:uppercase}
h1{margin:0;font-size:30px;line-height:1.2;letter-spacing:-.015em}
h2{margin:44px 0 6px;font-size:19px;line-height:1.3;letter-spacing:-.005em}
h3{margin:0;padding:14px 18px 10px;font-size:14px;font-weight:600}
p{margin:0 0 14px}
p.summary{margin:10px 0 0;font-size:18px;line-height:1.45;color:var(--faint);max-width:62em}
section>p{color:var(--faint);max-width:72em}
.figures{display:grid;grid-template-columns:repeat(var(--across),1fr);gap:12px;margin:28px 0 0;padding:0}
.figure,.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.figure{padding:14px 16px 13px;border-top:3px solid var(--tone)}
.figure dt{color:var(--faint);font-size:13px}
.figure dd{margin:0}
.figure .value{font-size:25px;font-weight:650;line-height:1.3;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.figure .note{color:var(--faint);font-size:12.5px;line-height:1.4}
.plain,.faint{--tone:var(--line)}.good{--tone:var(--good)}.warning{--tone:var(--warning)}.bad{--tone:var(--bad)}
.figure.good .value{color:var(--good)}.figure.warning .value{color:var(--warning)}.figure.bad .value{color:var(--bad)}
.card{margin:14px 0 0;overflow:hidden}
.scroll{overflow-x:auto}
table{width:100%;border-collapse:collapse;font-size:13.5px;line-height:1.45}
th,td{padding:7px 10px;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
th{color:var(--faint);font-weight:600;font-size:12px;white-space:nowrap}
th:first-child,td:first-child{padding-left:18px}th:last-child,td:last-child{padding-right:18px}
td.number,th.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.time{white-space:nowrap;font-variant-numeric:tabular-nums}
td.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:12.5px;overflow-wrap:anywhere}
td.brief{white-space:nowrap}td.code:not(.brief),td.text:not(.brief){min-width:20em}
td.text{overflow-wrap:anywhere}
tbody tr:hover td{background:color-mix(in srgb,var(--accent) 7%,transparent)}
.card p{margin:0;padding:9px 18px 11px;color:var(--faint);font-size:12.5px;border-top:1px solid var(--line)}
.card p.none{color:var(--faint);font-size:13.5px}
.plot svg{display:block;width:100%;height:auto;padding:0 18px 10px}
.plot text{fill:currentColor}
aside{margin:14px 0 0;padding:11px 16px;border-left:3px solid var(--tone);border-radius:0 8px 8px 0;
background:var(--card);font-size:14px}
aside.plain,.faint{--tone:var(--accent)}
footer{margin-top:48px;padding-top:14px;border-top:1px solid var(--line);color:var(--faint);font-size:12.5px}
@media(max-width:760px){.figures{grid-template-columns:repeat(2,1fr)}}
@media(max-width:600px){main{padding:28px 14px 40px}h1{font-size:24px}th,td{padding:6px 8px}}
@media print{body{background:none}
main{max-width:none;padding:0}.card,.figure,aside{break-inside:avoid}.scroll{overflow:visible}}
"""
)


def html_page(report: "Report") -> str:
    return "".join(_page(report))


def _page(report: "Report") -> Iterator[str]:
    title = html(report.title)
    yield f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
    yield f'<header>\n<p class="kicker">Waypost on Spark</p>\n<h1>{title}</h1>\n'
    yield f'<p class="summary">{html(report.summary)}</p>\n</header>\n'
    if report.figures:
        # More than 6 figures stand in two rows of about the same length.
        across = len(report.figures) if len(report.figures) <= 6 else (len(report.figures) + 1) // 2
        yield f'<dl class="figures" style="--across:{across}">\n'
        yield from map(_figure, report.figures)
        yield "</dl>\n"
    for section in report.sections:
        yield from _section(section)
    origin = f" from {html(report.origin)}" if report.origin else ""
    yield f"<footer>Generated by waypost {__version__}{origin} at {shown(report.made)}. All times are UTC.</footer>\n"
    yield "</main>\n</body>\n</html>\n"


def _figure(figure: Figure) -> str:
    note = f'<dd class="note">{html(figure.note)}</dd>' if figure.note else ""
    value = html(shown(figure.value, figure.kind))
    return f'<div class="figure {figure.tone}"><dt>{html(figure.name)}</dt><dd class="value">{value}</dd>{note}</div>\n'


def _section(section: Section) -> Iterator[str]:
    yield f"<section>\n<h2>{html(section.title)}</h2>\n"
    if section.text:
        yield f"<p>{html(section.text)}</p>\n"
    for part in section.parts:
        yield from _part(part)
    yield "</section>\n"


def _part(part: Part) -> Iterator[str]:
    match part:
        case Note():
            yield f'<aside class="{part.tone}">{html(part.text)}</aside>\n'
        case Plot():
            yield f'<figure class="card plot">\n<h3>{html(part.title)}</h3>\n'
            yield themed(part.svg).replace("<svg ", f'<svg role="img" aria-label="{html(part.text)}" ', 1)
            yield f"<p>{html(part.text)}</p>\n</figure>\n"
        case Table():
            yield f'<div class="card">\n<h3>{html(part.title)}</h3>\n'
            if part.rows:
                yield from _table(part)
            else:
                yield '<p class="none">No rows.</p>\n'
            if part.remark:
                yield f"<p>{html(part.remark)}</p>\n"
            yield "</div>\n"


def _table(table: Table) -> Iterator[str]:
    yield '<div class="scroll"><table>\n<thead><tr>'
    for column in table.columns:
        yield f'<th class="{_class(column)}">{html(column.title)}</th>'
    yield "</tr></thead>\n<tbody>\n"
    for row in table.shown:
        cells = (_cell(value, column) for value, column in zip(row, table.columns, strict=True))
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</tbody></table></div>\n"


def _class(column: Column) -> str:
    return "number" if column.kind.is_number else "code" if column.kind is Kind.GUID else column.kind


def _cell(value: object, column: Column) -> str:
    text = shown(value, column.kind)
    if column.kind is Kind.GUID and isinstance(value, str):
        return f'<td class="code brief" title="{html(value)}">{html(text)}</td>'
    brief = short(text, _CELL) if column.kind in (Kind.TEXT, Kind.CODE) else text
    whole = f' title="{html(text)}"' if brief != text else ""
    width = " brief" if len(brief) <= _BRIEF else ""
    return f'<td class="{_class(column)}{width}"{whole}>{html(brief)}</td>'


# --- Markdown ---------------------------------------------------------------------------------------------------------

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
            yield from _markdown_part(part)
    origin = f" from {markdown(report.origin)}" if report.origin else ""
    yield f"---\n\nGenerated by `waypost spark`{origin} at {shown(report.made)}. All times are UTC."


def _markdown_part(part: Part) -> Iterator[str]:
    match part:
        case Note():
            yield f"> **{_WORDS[part.tone]}:** {markdown(part.text)}"
        case Plot():
            yield f"![{markdown(part.title)}]({part.name}.svg)"
            yield markdown(part.text)
        case Table():
            yield f"### {markdown(part.title)}"
            yield _markdown_table(part) if part.rows else "No rows."
            if part.remark:
                yield markdown(part.remark)


def _markdown_table(table: Table) -> str:
    heading = " | ".join(markdown(column.title) for column in table.columns)
    rule = " | ".join("---:" if column.kind.is_number else "---" for column in table.columns)
    rows = (
        " | ".join(markdown(shown(value, column.kind)) for column, value in zip(table.columns, row, strict=True))
        for row in table.shown
    )
    return "\n".join(f"| {line} |" for line in (heading, rule, *rows))
