"""Tables and JSON on standard output: drawn for a terminal, plain columns for everything else."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain

from waypost.cli.program import Output, printable

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that fits its terminal.

    If the terminal is too narrow, the column with the highest `drop` is left out first. Columns with `drop` 0 always
    stay. A value that is too long is cut, but not to fewer than `least` characters. With `least` 0, a value is never
    cut.
    """

    name: str
    drop: int = 0
    least: int = 0
    right: bool = False
    # A value is cut in its middle: its end says more.
    middle: bool = False


def write_json(out: Output, value: object) -> None:
    out.write(json.dumps(value, indent=2) + "\n")


def is_drawn() -> bool:
    """Whether tables are drawn, for somebody at a terminal."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def write_table(out: Output, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Without rows, nothing is written, not even a heading."""
    if not rows:
        return
    texts = [[_text(value) for value in row] for row in rows]
    if is_drawn():
        out.write(import_module("waypost.cli.drawing").drawn_table(columns, texts))
    else:
        _write_plain(out, columns, texts)


def write_fitting(out: Output, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """A table with one line for each row: on a terminal as wide as that, elsewhere with everything."""
    if not rows:
        return
    texts = [[_text(value) for value in row] for row in rows]
    if is_drawn():
        out.write(import_module("waypost.cli.drawing").fitting_table(columns, texts))
    else:
        _write_plain(out, [column.name for column in columns], texts)


def write_pairs(out: Output, pairs: Sequence[tuple[str, object]]) -> None:
    """A name and a value on each line."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        out.write(f"{name:{width}}  {_text(value)}".rstrip() + "\n")


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(_text, value))
    return printable(str(value))


def _write_plain(out: Output, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # The last column, which may be long, is not filled up.
    widths = [max(map(len, column)) for column in zip(*(line[:-1] for line in chain([columns], rows)), strict=True)]
    for line in chain([columns], rows):
        cells = [f"{text:{width}}" for text, width in zip(line[:-1], widths, strict=True)]
        out.write("  ".join((*cells, line[-1])).rstrip() + "\n")
