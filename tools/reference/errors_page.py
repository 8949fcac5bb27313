"""docs/reference/errors.md: the tree of errors, with what each means over HTTP."""

import inspect
from collections.abc import Iterator
from typing import Final

from tools.reference.markdown import MADE, prose, table
from waypost import errors
from waypost.errors import WaypostError
from waypost.http.problems import _STATUS

_HEAD: Final = f"""\
# Errors

{MADE}
Every error of the Python API is a class of `waypost.errors`, derived from `WaypostError`. `str(error)` is a sentence,
and `error.hresult` is the result code of MSMQ. The table shows the class tree: an indented class is derived from the
nearest class above it that is less indented.

In an error response of the HTTP API, the key `error` contains the name of the class. The last column of the table is
the HTTP status of the response. If a command fails, it prints the sentence with a hint, and ends with one of the
[exit codes](../cli.md#exit-codes).
"""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    yield from table(("class", "meaning", "HRESULT", "HTTP"), map(_row, _tree(WaypostError)))


def _tree(kind: type[WaypostError]) -> Iterator[type[WaypostError]]:
    """A class, then those below it, in the order of the module."""
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _tree(below)


def _row(kind: type[WaypostError]) -> tuple[str, ...]:
    depth = len(kind.__mro__) - len(WaypostError.__mro__)
    words = " ".join((inspect.getdoc(kind) or "").split())
    status = next((status for above, status in _STATUS if issubclass(kind, above)), 400)
    return (
        f"{'&emsp;' * depth}`{kind.__name__}`",
        prose(words),
        f"`0x{kind.hresult & 0xFFFFFFFF:08X}` {kind.hresult.name}",
        str(int(status)),
    )
