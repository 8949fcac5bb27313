"""What is drawn for a terminal: tables, and bars for work that takes a while. Only who draws waits for the library."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

_NAME_WIDTH: Final = 32


def drawn_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    # The first column names the thing: it is the last to be broken into lines.
    table.add_column(columns[0], overflow="fold", min_width=min(max(len(row[0]) for row in rows), _NAME_WIDTH))
    for column in columns[1:]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text) for text in row))
    console = Console(file=sys.stdout)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@contextmanager
def bar(verb: str, total: int) -> Iterator[Callable[[int], None]]:
    """On standard error, until the work is done. Call what it gives with how much was done."""
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda amount: progress.advance(task, amount)
