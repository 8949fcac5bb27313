"""A bar on standard error for work that takes a while, if somebody watches."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module

Advance = Callable[[int], None]


def progress(verb: str, total: int) -> AbstractContextManager[Advance]:
    """Call what it gives with how much was done."""
    if sys.stderr is None or not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    bar: AbstractContextManager[Advance] = import_module("waypost.cli.drawing").bar(verb, total)
    return bar
