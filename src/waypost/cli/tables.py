"""Tables and JSON on standard output: drawn for a terminal, plain columns for everything else."""

import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from waypost.cli.program import Output, printable

Row = Sequence[object]


def write_json(out: Output, value: object) -> None:
    out.write(json.dumps(value, indent=2) + "\n")


def write_table(out: Output, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Nothing is written for no rows: what is not there needs no heading."""
    if not rows:
        return
    texts = [[_text(value) for value in row] for row in rows]
    if sys.stdout.isatty() or os.environ.get("FORCE_COLOR"):
        out.write(import_module("waypost.cli.drawing").drawn_table(columns, texts))
    else:
        out.write(_plain(columns, texts))


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


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )
