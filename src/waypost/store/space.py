"""The space that the file of a store has, and the part of it that is kept for receiving messages (ADR 33).

LMDB changes nothing in place: to delete a message it writes new pages, and the old ones can be used again two
transactions later. So the reserve is space behind the last page that is used, which the file is given before it is
needed: another program that fills the disk cannot take it. A transaction takes free pages first, then those behind.

Space is measured after every transaction, and also without writes when room is short, because others fill the disk
and clear it. The list of free pages is read only when little is left behind the end.
"""

import ctypes
import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import lmdb

from waypost.limits import MAX_RESERVE, MIN_RESERVE
from waypost.store.folder import DATA
from waypost.store.free_pages import free_pages
from waypost.store.port import Room, megabytes

# The reserve is a part of the disk, and of what is used.
_PART_OF_DISK: Final = 8
_PART_OF_USED: Final = 4
# When so much of the reserve is left beside it, nothing new is stored, and when so much is, something is again.
_PART_THAT_BEGINS: Final = 8
_PART_THAT_ENDS: Final = 2
# To measure takes as long as a hundredth of a small transaction: where there is room for many reserves, it is done ten
# times a second, or when a part of one was written.
_MUCH: Final = 16
_MEASURE_SECONDS: Final = 0.1
# The list of free pages is read for one part of the time at most, unless little of what it showed is left.
_PATIENCE: Final = 20
# Pages that a removal may touch: its table, the totals of its queue, the tables' root, the list of free pages.
_PAGES_OF_REMOVAL: Final = 8
# Flag of Linux to leave the size of the file as it is, and its error of a file system that cannot do so.
_KEEP_SIZE: Final = 0x01
_UNABLE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_PIECE: Final = 1 << 20

# It gets a file, a mode, an offset and a length, and returns -1 if it fails.
_Fallocate = Callable[[int, int, int, int], int]


class Space:
    """That of one file. All is called between two transactions."""

    def __init__(self, folder: Path, env: lmdb.Environment, max_size: int, reserve: int | None) -> None:
        """`reserve` in bytes; None for a part of the disk. Raises OSError."""
        self._folder: Final = folder
        self._env: Final = env
        self._max_size: Final = max_size
        self._wanted: Final = reserve
        self._page: Final[int] = env.stat()["psize"]
        self._fallocate = _find_fallocate()
        # End of the space that the file is known to have.
        self._end = 0
        self._last = 0, 0
        # Result of the last read of the free pages, bytes written since, and the time of the next read.
        self._runs: Mapping[int, int] = {}
        self._written = 0
        self._look_at = 0.0
        # Bytes written since the last measurement, and the time until which none is needed.
        self._unmeasured = 0
        self._measure_at = 0.0
        # Pages that were freed, and that readers still see.
        self._seen = 0
        self._file: Final = os.open(folder / DATA, os.O_RDWR | getattr(os, "O_BINARY", 0))
        self.room = Room("", 0, 0, 0)
        self.measure()

    def close(self) -> None:
        os.close(self._file)

    @property
    def most_operations(self) -> int:
        """Of one transaction, so that the reserve has pages for it even if each of them touches others."""
        return max(self.room.reserve // (self._page * _PAGES_OF_REMOVAL), 1)

    @property
    def awaits_transaction(self) -> bool:
        """Whether pages are free, and can be used again when there is one transaction more."""
        return self._seen > 2 * _PAGES_OF_REMOVAL

    @property
    def has_much(self) -> bool:
        """Whether there is room for so many reserves that what others do on the disk does not matter soon."""
        return self.room.free > _MUCH * self.room.reserve

    def measure(self, written: int = 0) -> Room:
        """The room now, after values of this many bytes were written. With much room, that of the last measurement."""
        self._written += written
        self._unmeasured += written
        now = time.monotonic()
        if now < self._measure_at and self.has_much and self._unmeasured * _MUCH < self.room.reserve:
            return self.room
        self._unmeasured = 0
        self._measure_at = now + _MEASURE_SECONDS
        info = self._env.info()
        used = (info["last_pgno"] + 1) * self._page
        total, free = self._disk()
        reserve = reserve_of(used, min(total, self._max_size), self._wanted)
        if self._end < min(used + reserve, self._max_size):
            is_given = self._keep(used, reserve)
            # Another bound, as for one user, may be reached before the disk is full.
            free = self._disk()[1] if is_given or free < reserve else 0
        most = self._max_size - used
        behind = max(min(max(self._end - used, 0) + free, most), 0)
        runs = self._free_runs(info["last_txnid"], reserve) if behind < 2 * reserve else {}
        left = behind + self._page * sum(length * count for length, count in runs.items()) - reserve
        if runs:
            left -= 2 * self._written
        # It begins before a small message is refused, and ends when there is room for many.
        is_low = left < reserve // (_PART_THAT_ENDS if self.room.is_low else _PART_THAT_BEGINS)
        where = f"the disk of {self._folder}"
        if behind == most:
            where = f"the store in {self._folder}, limited to {megabytes(self._max_size)} (store.max_size_gb),"
        self.room = Room(where, left, behind - reserve // 2, reserve, is_low, runs)
        return self.room

    def _disk(self) -> tuple[int, int]:
        """The bytes of the file system, and those of them that are free."""
        # A disk that does not say has what it had.
        with suppress(OSError):
            self._last = disk_of(self._folder)
        return self._last

    # Space behind the end.

    def _keep(self, used: int, reserve: int) -> bool:
        """Give the file the reserve. If not all of it is to be had, as much as is, and False."""
        wanted = min(used + reserve, self._max_size)
        # Some more, so that not every transaction has to ask.
        if self._extend(used, min(wanted + reserve // 4, self._max_size)) or self._extend(used, wanted):
            return True
        step = (wanted - max(self._end, used)) // 2
        while step >= self._page:
            self._extend(used, max(self._end, used) + step)
            step //= 2
        return False

    def _extend(self, used: int, end: int) -> bool:
        start = max(self._end, used)
        if self._fallocate is not None:
            if not self._fallocate(self._file, _KEEP_SIZE, start, end - start):
                self._end = end
                return True
            if ctypes.get_errno() not in _UNABLE:
                return False
            self._fallocate = None
        size = os.fstat(self._file).st_size
        with suppress(OSError):
            while size < end:
                os.lseek(self._file, size, os.SEEK_SET)
                size += os.write(self._file, bytes(min(end - size, _PIECE)))
        self._end = max(self._end, size)
        return self._end >= end

    # Free pages.

    def _free_runs(self, last: int, reserve: int) -> Mapping[int, int]:
        now = time.monotonic()
        if now >= self._look_at or 2 * self._written > reserve // 4:
            oldest = min([last, *self._readers()])
            self._runs, seen = free_pages(self._read, oldest, 4 * reserve // self._page)
            # Those that an older reader sees are not free when there is one transaction more.
            self._seen = seen if oldest >= last - 1 else 0
            self._written = 0
            ended = time.monotonic()
            self._look_at = ended + _PATIENCE * (ended - now)
        return self._runs

    def _readers(self) -> list[int]:
        """The transactions that are read from."""
        self._env.reader_check()
        columns = [line.split() for line in self._env.readers().splitlines()]
        return [int(each[2]) for each in columns if len(each) == 3 and each[2].isdigit()]

    def _read(self, offset: int, size: int) -> bytes:
        os.lseek(self._file, offset, os.SEEK_SET)
        return os.read(self._file, size)


def disk_of(folder: Path) -> tuple[int, int]:
    """The bytes of the file system of a folder, and those of them that are free. Raises OSError."""
    if sys.platform == "win32":
        usage = shutil.disk_usage(folder)
        return usage.total, usage.free
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def reserve_of(used: int, total: int, wanted: int | None) -> int:
    """The reserve of a store that uses so much of a disk of this size, in bytes; None for what follows from these."""
    if wanted is not None:
        return min(wanted, total // 2)
    return min(max(used // _PART_OF_USED, MIN_RESERVE), total // _PART_OF_DISK, MAX_RESERVE)


@cache
def _find_fallocate() -> _Fallocate | None:
    """That of the C library, where there is one: Python's own writes into each block where it cannot do better."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    found = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return found
