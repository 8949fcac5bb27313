"""Contents that a disk can have after power has failed, by the promises of its flushes and nothing else.

- A flush that has returned keeps what was written to its file and had returned before it began. A write that is
  synchronous keeps the sectors that it touches.
- Of what was written later any subset is there. The page cache is written back by pages, at any time and in any order:
  a page has what it had after any number of its writes. A page that is torn has that for each of its sectors.
- The size of a file is durable with its bytes; before that it is any that the file had since. Bytes never written
  are zeros.
- A name is durable when its folder is flushed; before that each change of names is there or not. A rename is one
  change.
- A file that is mapped for writing has anything in it.

A disk that lies forgets flushes of one kind.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from tests.power.log import ROOT, Before, Entry, Finished, Flush, Log, Mapped, Named, Names, Resize, Write

SECTOR: Final = 512
PAGE: Final = 4096


class Lie(Enum):
    """A flush that returns and has done nothing."""

    NONE = "the disk is honest"
    FILE = "fsync and fdatasync of a file do nothing"
    SYNCHRONOUS = "O_DSYNC does nothing"
    FOLDER = "fsync of a folder does nothing"


@dataclass(slots=True)
class Change:
    """Bytes that are not durable yet, from `offset` on; then the file has `size` bytes."""

    position: int
    offset: int
    data: bytes
    size: int
    returned: int | None = None


@dataclass(slots=True)
class File:
    """The durable part of a file, and the rest."""

    durable: bytearray = field(default_factory=bytearray)
    changes: list[Change] = field(default_factory=list)
    is_mapped: bool = False

    @property
    def size(self) -> int:
        return self.changes[-1].size if self.changes else len(self.durable)

    def sectors(self) -> dict[int, list[int]]:
        """The sectors that are not durable, each with the changes that touch it, by their place in `changes`."""
        found: dict[int, list[int]] = {}
        for place, change in enumerate(self.changes):
            for sector in _sectors(change):
                found.setdefault(sector, []).append(place)
        return found

    def image(self, reached: dict[int, int], size: int) -> bytes:
        """The file with the first `reached[sector]` of the changes that touch each sector."""
        image = bytearray(self.durable)
        image.extend(bytes(max(0, self._end() - len(image))))
        for sector, places in self.sectors().items():
            for place in places[: reached.get(sector, 0)]:
                _put(image, self.changes[place], sector)
        return bytes(image[:size]) + bytes(max(0, size - len(image)))

    def cached(self) -> bytes:
        """The file as those see it who read it before the power fails."""
        return self.image({sector: len(places) for sector, places in self.sectors().items()}, self.size)

    def sizes(self) -> list[int]:
        """Those that it can have."""
        return [len(self.durable), *(change.size for change in self.changes)]

    def keep(self, is_kept: Callable[[Change], bool]) -> None:
        """Make these changes durable."""
        kept = [change for change in self.changes if is_kept(change)]
        self.changes = [change for change in self.changes if not is_kept(change)]
        for change in kept:
            self._resize(change.size)
            for sector in _sectors(change):
                _put(self.durable, change, sector)

    def keep_sectors(self, of: Change) -> None:
        """Make the sectors durable that this change touches, with all that was written there before."""
        self._resize(max(len(self.durable), of.offset + len(of.data)))
        wanted = set(_sectors(of))
        rest: list[Change] = []
        for change in self.changes:
            if change.position > of.position:
                rest.append(change)
                continue
            touched = list(_sectors(change))
            for sector in touched:
                if sector in wanted:
                    _put(self.durable, change, sector)
            rest += _without(change, [sector for sector in touched if sector not in wanted])
        self.changes = rest

    def _end(self) -> int:
        return max((change.offset + len(change.data) for change in self.changes), default=0)

    def _resize(self, size: int) -> None:
        if size < len(self.durable):
            del self.durable[size:]
        else:
            self.durable.extend(bytes(size - len(self.durable)))


class Disk:
    """The log up to some position. `lie` says what is forgotten."""

    def __init__(self, log: Log, lie: Lie = Lie.NONE) -> None:
        self._log: Final = log
        self._lie: Final = lie
        self.position = 0
        before: Before = log.before
        self.names: Names = dict(before.names)
        self.changes_of_names: list[tuple[int, Names]] = []
        self.files: dict[int, File] = {number: File(bytearray(data)) for number, data in before.files.items()}
        # Writes that have begun.
        self._begun: dict[int, Change] = {}

    def advance(self, position: int) -> None:
        for at in range(self.position, position):
            self._take(at, self._log.entries[at])
        self.position = position

    def file(self, number: int) -> File:
        return self.files.setdefault(number, File())

    def _take(self, at: int, entry: Entry) -> None:
        match entry:
            case Write(number, offset, data):
                file = self.file(number)
                change = Change(at, offset, data, max(file.size, offset + len(data)))
                file.changes.append(change)
                self._begun[at] = change
            case Finished(of):
                change = self._begun.pop(of)
                change.returned = at
                write = self._log.entries[of]
                assert isinstance(write, Write)
                if write.is_synchronous and self._lie is not Lie.SYNCHRONOUS:
                    self.file(write.file).keep_sectors(change)
            case Resize(number, size):
                file = self.file(number)
                # Bytes that are cut off are zeros if the file grows again.
                zeros = bytes(max(0, file.size - size))
                file.changes.append(Change(at, size, zeros, size, at))
            case Flush(number, begun) if number in self._log.folders:
                if self._lie is not Lie.FOLDER:
                    self._keep_names(number, begun)
            case Flush(number, begun):
                if self._lie is not Lie.FILE:
                    self.file(number).keep(lambda each: each.returned is not None and each.returned < begun)
            case Named(names):
                self.changes_of_names.append((at, names))
            case Mapped(number):
                self.file(number).is_mapped = True
            case _:
                pass

    def _keep_names(self, folder: int, begun: int) -> None:
        rest = []
        for at, names in self.changes_of_names:
            if at < begun and any(place[0] == folder for place in names):
                self.names.update(names)
            else:
                rest.append((at, names))
        self.changes_of_names = rest

    def tree(self, changes: Iterable[Names]) -> dict[str, int]:
        """The paths of the files and folders that exist with these changes of names."""
        names = dict(self.names)
        for change in changes:
            names.update(change)
        found: dict[str, int] = {}
        left = [("", ROOT)]
        while left:
            path, folder = left.pop()
            for (within, name), number in names.items():
                if within == folder and number is not None:
                    found[f"{path}{name}"] = number
                    left.append((f"{path}{name}/", number))
        return found

    def is_folder(self, number: int) -> bool:
        return number in self._log.folders


def everything(log: Log) -> dict[str, bytes | None]:
    """The content of the cache when all has returned: the files and, as None, the folders and what is mapped."""
    disk = Disk(log)
    disk.advance(len(log.entries))
    found: dict[str, bytes | None] = {}
    for path, number in disk.tree(names for _, names in disk.changes_of_names).items():
        file = disk.file(number)
        found[path] = None if disk.is_folder(number) or file.is_mapped else file.cached()
    return found


def unseen(log: Log, root: Path) -> list[str]:
    """Paths below the root that are other than the log says: it has not seen all that was done to them."""
    found = everything(log)
    paths = {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_socket()}
    wrong = set(found) ^ set(paths)
    for name, data in found.items():
        if data is not None and name in paths and paths[name].read_bytes() != data:
            wrong.add(name)
    return sorted(wrong)


def _sectors(change: Change) -> range:
    if not change.data:
        return range(0)
    return range(change.offset // SECTOR, (change.offset + len(change.data) - 1) // SECTOR + 1)


def _put(image: bytearray, change: Change, sector: int) -> None:
    """The part of the change that lies in this sector."""
    start = max(change.offset, sector * SECTOR)
    stop = min(change.offset + len(change.data), (sector + 1) * SECTOR, len(image))
    if start < stop:
        image[start:stop] = change.data[start - change.offset : stop - change.offset]


def _without(change: Change, left: list[int]) -> list[Change]:
    """The change as it is in these sectors only, in runs; its size is that of the whole."""
    parts: list[Change] = []
    for sector in left:
        start = max(change.offset, sector * SECTOR)
        stop = min(change.offset + len(change.data), (sector + 1) * SECTOR)
        piece = change.data[start - change.offset : stop - change.offset]
        if parts and parts[-1].offset + len(parts[-1].data) == start:
            parts[-1].data += piece
        else:
            parts.append(Change(change.position, start, piece, change.size, change.returned))
    return parts
