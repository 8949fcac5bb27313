"""Drawings for a terminal: tables, and bars for work that takes a while. The library is loaded only to draw."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Final

import typer
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from waypost.cli.tables import Column

_NAME_WIDTH: Final = 32
_BETWEEN: Final = 2
_CUT: Final = "…"


def drawn_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Values that are too long go on in the next line of their column."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # The first column names the thing: it is the last to be broken into lines.
    table.add_column(columns[0], overflow="fold", min_width=min(max(len(row[0]) for row in rows), _NAME_WIDTH))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    return _printed(table)


def fitting_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """One line for each row, not wider than the terminal."""
    width = get_terminal_size().columns
    # A column without a value says nothing.
    shown = [
        at for at, column in enumerate(columns) if not column.drop or any(row[at] not in ("", "-") for row in rows)
    ]
    widths = _widths(columns, rows, shown, width)
    heading = _line(columns, widths, [column.name for column in columns])
    rule = "─" * cell_len(heading)
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")
    lines = [heading if is_plain else typer.style(heading, bold=True), rule]
    return "\n".join([*lines, *(_line(columns, widths, row) for row in rows), ""])


def _line(columns: Sequence[Column], widths: dict[int, int], row: Sequence[str]) -> str:
    cells = []
    for at, size in widths.items():
        text = (_cut_in_middle if columns[at].middle else _cut)(row[at], size)
        room = " " * (size - cell_len(text))
        cells.append(room + text if columns[at].right else text + room)
    return (" " * _BETWEEN).join(cells).rstrip()


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], shown: list[int], width: int) -> dict[int, int]:
    """The columns that fit, by their places, and the width of each."""
    whole = {at: max(cell_len(columns[at].name), *(cell_len(row[at]) for row in rows)) for at in shown}
    least = {at: min(whole[at], columns[at].least or whole[at]) for at in shown}
    while sum(least[at] + _BETWEEN for at in shown) - _BETWEEN > width:
        last = max(shown, key=lambda at: columns[at].drop)
        if not columns[last].drop:
            # Those that stay share what there is.
            share = max((width + _BETWEEN) // len(shown) - _BETWEEN, 1)
            return {at: min(least[at], share) for at in shown}
        shown = [at for at in shown if at != last]
    left = width - sum(least[at] + _BETWEEN for at in shown) + _BETWEEN
    found = {}
    # The most important first.
    for at in sorted(shown, key=lambda at: columns[at].drop):
        more = min(whole[at] - least[at], left)
        found[at] = least[at] + more
        left -= more
    return {at: found[at] for at in shown}


def _cut(text: str, size: int) -> str:
    if cell_len(text) <= size:
        return text
    return f"{set_cell_size(text, size - 1)}{_CUT}" if size > 1 else _CUT


def _cut_in_middle(text: str, size: int) -> str:
    if cell_len(text) <= size:
        return text
    end = size // 2
    last = len(text)
    while last and cell_len(text[last - 1 :]) <= end:
        last -= 1
    return f"{set_cell_size(text, size - cell_len(text[last:]) - 1)}{_CUT}{text[last:]}"


def _printed(drawn: Table) -> str:
    console = Console(file=sys.stdout, width=get_terminal_size().columns)
    with console.capture() as capture:
        console.print(drawn)
    # Without the blank lines and spaces around it.
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines() if line.strip())


@contextmanager
def bar(verb: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error until the work is done. Call the returned function with the amount of finished work."""
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda amount: progress.advance(task, amount)


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """A line on standard error until the work is done: the work, and the elapsed time."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(words, total=None)
        yield
