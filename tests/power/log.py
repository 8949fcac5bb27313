"""Operations of processes on the files below a folder, in order. A position in the log is a moment of a power failure.

A file or a folder is a number here: a name that comes to stand for another file says so in a `Named`. The folder that
the recording was told to watch is number 0. A write is listed when it begins and `Finished` when it has returned, a
flush when it has returned: only then it promises something.
"""

from dataclasses import dataclass, field
from typing import Final

ROOT: Final = 0

# (folder, name): the file or folder that the name stands for from now on, or None for nothing.
Names = dict[tuple[int, str], int | None]


@dataclass(slots=True)
class Write:
    """`is_synchronous` if it promises, when it returns, that its own bytes are durable (O_DSYNC)."""

    file: int
    offset: int
    data: bytes
    is_synchronous: bool


@dataclass(slots=True)
class Finished:
    """The write at position `of` has returned."""

    of: int


@dataclass(slots=True)
class Resize:
    """The file has another size: truncated, or allocated in advance."""

    file: int
    size: int


@dataclass(slots=True)
class Flush:
    """Everything that had returned before position `begun` is durable: of a file its bytes, of a folder its names."""

    file: int
    begun: int


@dataclass(slots=True)
class Named:
    """Names came, went or moved, all in one step."""

    names: Names


@dataclass(slots=True)
class Mapped:
    """Bytes of the file can change from now on without an entry: it is mapped into memory for writing."""

    file: int


@dataclass(slots=True)
class Told:
    """A process said what it is about to do or what was answered."""

    round: int
    line: str


@dataclass(slots=True)
class Over:
    """All processes of a round are gone, with this exit code of the first."""

    round: int
    code: int


Entry = Write | Finished | Resize | Flush | Named | Mapped | Told | Over


@dataclass(slots=True)
class Before:
    """The files that were there, and durable, when the recording began."""

    names: Names = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Log:
    before: Before = field(default_factory=Before)
    entries: list[Entry] = field(default_factory=list)
    folders: set[int] = field(default_factory=lambda: {ROOT})
