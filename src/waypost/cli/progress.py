"""Progress on standard error for work that takes a while, if somebody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from importlib import import_module
from threading import Timer
from typing import Final

from waypost.cli.program import printable

Advance = Callable[[int], None]

# Work that is done before needs no words.
_SECONDS: Final = 2.0


def is_watched() -> bool:
    """Whether somebody sees what is written to standard error as it comes."""
    return sys.stderr is not None and sys.stderr.isatty()


def progress(verb: str, total: int, *, writes: bool = False) -> AbstractContextManager[Advance]:
    """A bar. Call the returned function with the amount of finished work.

    Work that `writes` to standard output meanwhile needs none if that is a terminal, which shows how far it is.
    """
    if not is_watched() or (writes and sys.stdout.isatty()):
        return nullcontext(lambda _: None)
    bar: AbstractContextManager[Advance] = import_module("waypost.cli.drawing").bar(verb, total)
    return bar


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """A text with the elapsed time, shown after two seconds, for work without a known size.

    Nothing else is written during the work.
    """
    if not is_watched():
        yield
        return
    shown = ExitStack()
    later = Timer(_SECONDS, lambda: shown.enter_context(import_module("waypost.cli.drawing").spinner(printable(words))))
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        shown.close()


@contextmanager
def reporting(verb: str, unit: int = 1) -> Iterator["Report"]:
    """A bar that is drawn from reports of progress."""
    with ExitStack() as stack:
        yield Report(verb, unit, stack)


class Report:
    """Draws the progress, in multiples of `unit`, as soon as the total is known."""

    def __init__(self, verb: str, unit: int, stack: ExitStack) -> None:
        self._verb: Final = verb
        self._unit: Final = unit
        self._stack: Final = stack
        self._advance: Advance | None = None
        self._total = self._shown = 0

    def __call__(self, done: int, total: int) -> None:
        done, total = done // self._unit, max(total // self._unit, 1)
        if self._advance is None or total > self._total:
            self._stack.close()
            self._advance, self._total, self._shown = self._stack.enter_context(progress(self._verb, total)), total, 0
        self._advance(done - self._shown)
        self._shown = done
