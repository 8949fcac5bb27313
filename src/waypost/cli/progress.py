"""A bar on standard error for work that takes a while, if somebody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]


@contextmanager
def progress(verb: str, total: int) -> Iterator[Advance]:
    """Call what it gives with how much was done."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda amount: bar.advance(task, amount)
