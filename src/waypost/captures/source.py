"""One input: a file or a pipe, read once from front to back and never whole."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from waypost.errors import WaypostError

HEAD: Final = 4096
CHUNK: Final = 0x1_0000


class InputError(WaypostError):
    """An input that is unreadable or not understood: a sentence, and a hint what to do."""

    def __init__(self, sentence: str, hint: str) -> None:
        super().__init__(sentence, hint)
        self.sentence = sentence
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.sentence} Hint: {self.hint}"


class UnknownKind(InputError):
    """An input that is not of the given kind, or not of any known kind."""


class Source:
    """The bytes of one input. `head` contains the first bytes; `advanced` is called with the size of every read."""

    def __init__(self, name: str, file: BinaryIO, advanced: Callable[[int], None]) -> None:
        self.name = name
        self._file = file
        self._advanced = advanced
        self.head = self._read(HEAD)
        if not self.head:
            raise InputError(f"{name} is empty.", "check the program that writes the file.")
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
def open_file(name: str, advanced: Callable[[int], None]) -> Iterator[Source]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise _unreadable(name, error) from None
        yield Source(name, file, advanced)


def _unreadable(name: str, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"{name} does not exist.", "check the name.")
    return InputError(
        f"cannot read {name}: {error.strerror or error}.", "specify a file that you have permission to read."
    )
