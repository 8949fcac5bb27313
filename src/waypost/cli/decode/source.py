"""One input of `waypost decode`: a file or standard input, read once from front to back and never whole."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from waypost.cli.program import Failure

HEAD: Final = 4096
CHUNK: Final = 0x1_0000


class InputError(Failure):
    """An input that cannot be read or understood."""


class Source:
    """The bytes of one input. `head` shows how it begins without taking anything; `advanced` hears of every read."""

    def __init__(self, name: str, file: BinaryIO, advanced: Callable[[int], None]) -> None:
        self.name = name
        self._file = file
        self._advanced = advanced
        self.head = self._read(HEAD)
        if not self.head:
            raise InputError(f"{name} has no bytes.", "check the program that should have written them.")
        self._left = self.head

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise _unreadable(self.name, error) from None

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        data, self._left = self._left[:size], self._left[size:]
        if len(data) < size:
            data += self._read(size - len(data))
        self._advanced(len(data))
        return data

    def chunks(self) -> Iterator[bytes]:
        while data := self.read(CHUNK):
            yield data


@contextmanager
def open_source(name: str, advanced: Callable[[int], None]) -> Iterator[Source]:
    """The input that a command line names: a path, or - for standard input."""
    if name == "-":
        if sys.stdin is None:
            raise InputError("Standard input is closed.", "pipe a file into it, or name the file.")
        yield Source("standard input", sys.stdin.buffer, advanced)
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise _unreadable(name, error) from None
        yield Source(name, file, advanced)


def _unreadable(name: str, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{name} does not exist.", "check the name; - reads standard input.")
    return InputError(f"{name} cannot be read: {error.strerror or error}.", "name a file that you may read.")
