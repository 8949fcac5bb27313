"""The folder of a store: it belongs to one process at a time, the holder of a lock on `waypost.lock`.

That file also has the mark of a clean end, behind the holder: it is written when the store was closed as it should be,
and taken away before the file of the store is opened again.
"""

import errno
import os
import sys
from pathlib import Path
from struct import Struct
from typing import Final

from xxhash import xxh3_64_digest

from waypost.errors import BackupUnderWay, NotAStore, StoreInUse

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

DATA: Final = "data.mdb"
# A data file until it is whole.
NEW_DATA: Final = "data.new"
READERS: Final = "lock.mdb"

# In a folder that is being made of a backup or of a damaged store. It is gone when the folder is whole.
UNFINISHED: Final = "waypost.unfinished"

LOCK: Final = "waypost.lock"
_BACKUP_LOCK: Final = "backup.lock"
# Files that a folder may hold before the data file; a separate file system has a lost+found.
_HARMLESS: Final = frozenset({LOCK, READERS, UNFINISHED, NEW_DATA, "lost+found"})
_PID_SIZE: Final = 16
# Behind the byte that is locked where locks are on bytes.
_MARK_AT: Final = 32
# A word and a version, the last transaction of the store's file, and the size of the file.
_MARK: Final = Struct("<4sIQQ")
_MARK_WORD: Final = b"end:"
_MARK_VERSION: Final = 1
_MARK_SIZE: Final = _MARK.size + 8


def require_store(folder: Path) -> None:
    """Raises NotAStore, and OSError if nobody can say."""
    if not (folder / DATA).is_file():
        raise NotAStore(f"{folder} does not contain a store")


def lock_folder(folder: Path, *, finishes: bool = False) -> int:
    """Take the folder for this process, and create it if need be. Returns the file that holds the lock.

    A folder that is not finished is only for the program that finishes it.
    """
    try:
        _make(folder)
        names = set(os.listdir(folder))
        if not finishes:
            _require_finished(folder)
        if DATA not in names and names - _HARMLESS:
            raise NotAStore(f"{folder} contains other files, but no store; specify an empty folder for a new store")
    except (FileExistsError, NotADirectoryError):
        raise NotAStore(f"{folder} is not a folder") from None
    return _taken(folder, os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600))


def hold_folder(folder: Path) -> int | None:
    """Keep others from the folder of a store that is only read, which may be on a read-only disk.

    Returns the file that holds the lock, or None if nobody ever had the folder since it was put here: nothing is
    written into it for that.
    """
    _require_finished(folder)
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        lock = os.open(folder / LOCK, os.O_RDONLY)
    return _taken(folder, lock)


def release(lock: int | None) -> None:
    """Let others have the folder."""
    if lock is not None:
        os.close(lock)


def _require_finished(folder: Path) -> None:
    if (folder / UNFINISHED).exists():
        raise NotAStore(
            f"{folder} is incomplete: a restore or a salvage was interrupted there; delete the folder and start again"
        )


def _taken(folder: Path, lock: int) -> int:
    """The open file, with the lock on it. Raises StoreInUse."""
    holder = _holder_unless_free(lock)
    if holder is not None:
        os.close(lock)
        advice = (
            ", which is this process; use or close the manager that has the folder open"
            if holder == str(os.getpid())
            else ""
        )
        raise StoreInUse(f"{folder} is in use by {_process(holder)}{advice}")
    return lock


def _process(holder: str) -> str:
    return f"process {holder}" if holder else "an unknown process"


def lock_backup(folder: Path) -> int:
    """Let no other process make a backup of the store. Raises BackupUnderWay. Returns the file that holds the lock."""
    lock = os.open(folder / _BACKUP_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    holder = _holder_unless_free(lock)
    if holder is not None:
        os.close(lock)
        raise BackupUnderWay(f"a backup of {folder} is in progress in {_process(holder)}")
    write_holder(lock)
    return lock


def _holder_unless_free(lock: int) -> str | None:
    """Take the lock on an open file. If it is taken, by whom."""
    try:
        if sys.platform == "win32":
            os.lseek(lock, _PID_SIZE, os.SEEK_SET)
            msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.lseek(lock, 0, os.SEEK_SET)
        return os.read(lock, _PID_SIZE).decode("ascii", "replace").strip()
    return None


def _make(folder: Path) -> None:
    """Create the folder and the missing ones above it, from the top. Each is durable before it has anything in it."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700 if each is missing[0] else 0o777, exist_ok=True)
        if sys.platform != "win32":
            flush_folder(each.parent)
    if not folder.is_dir():
        raise NotADirectoryError(folder)


def write_holder(lock: int) -> None:
    """Say who holds the lock, over the bytes of the holder before, so that a full disk has room for it."""
    os.lseek(lock, 0, os.SEEK_SET)
    os.write(lock, f"{os.getpid():<{_PID_SIZE}}".encode("ascii"))


def leave_mark(lock: int, transaction: int, size: int) -> None:
    """Say that the store was closed with this transaction as its last one and a file of this size."""
    mark = _MARK.pack(_MARK_WORD, _MARK_VERSION, transaction, size)
    _write_mark(lock, mark + xxh3_64_digest(mark))


def take_mark(lock: int) -> tuple[int, int] | None:
    """Transaction and size of a clean end, None without one. From here on there is none, also after a power failure."""
    os.lseek(lock, _MARK_AT, os.SEEK_SET)
    found = os.read(lock, _MARK_SIZE)
    if not found.strip(b"\0"):
        return None
    _write_mark(lock, bytes(_MARK_SIZE))
    mark, checksum = found[: _MARK.size], found[_MARK.size :]
    if len(found) < _MARK_SIZE or xxh3_64_digest(mark) != checksum:
        return None
    word, version, transaction, size = _MARK.unpack(mark)
    return (transaction, size) if (word, version) == (_MARK_WORD, _MARK_VERSION) else None


def _write_mark(lock: int, mark: bytes) -> None:
    """In one sector, over the bytes that were there: a full disk has room for it from the second time on."""
    os.lseek(lock, _MARK_AT, os.SEEK_SET)
    os.write(lock, mark)
    os.fsync(lock)


def flush_folder(folder: Path) -> None:
    """A new name is durable when its folder is."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
