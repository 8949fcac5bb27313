"""Additions of the command line to the inputs of waypost.captures: standard input, and error texts with its options."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from waypost.captures.source import InputError, Source, UnknownKind, open_file
from waypost.cli.program import Failure


@contextmanager
def open_source(name: str, advanced: Callable[[int], None]) -> Iterator[Source]:
    """The input that a command line names: a path, or - for standard input."""
    if name != "-":
        with open_file(name, advanced) as source:
            yield source
        return
    if sys.stdin is None:
        raise InputError("Standard input is closed.", "pipe a file into the command, or specify the file name.")
    yield Source("standard input", sys.stdin.buffer, advanced)


def failure_of(error: InputError) -> Failure:
    hint = f"{error.hint} Use the option --as." if isinstance(error, UnknownKind) else error.hint
    return Failure(error.sentence, hint)
