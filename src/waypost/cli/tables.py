"""Tables and JSON on standard output: drawn for a terminal, plain columns for everything else."""

import json
import sys
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waypost.cli.program import Output, printable

Row = Sequence[object]

_NAME_WIDTH: Final = 32


def write_json(out: Output, value: object) -> None:
    out.write(json.dumps(value, indent=2) + "\n")


def write_table(out: Output, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Nothing is written for no rows: what is not there needs no heading."""
    if not rows:
        return
    texts = [[_text(value) for value in row] for row in rows]
    console = Console(file=sys.stdout)
    out.write(_drawn(console, columns, texts) if console.is_terminal else _plain(columns, texts))


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


def _drawn(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # The first column names the thing: it is the last to be broken into lines.
    table.add_column(columns[0], overflow="fold", min_width=min(max(len(row[0]) for row in rows), _NAME_WIDTH))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )
