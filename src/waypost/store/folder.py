"""The folder of a store: it belongs to one process at a time, the holder of a lock on `waypost.lock`."""

import os
import sys
from pathlib import Path
from typing import Final

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

_LOCK: Final = "waypost.lock"
_BACKUP_LOCK: Final = "backup.lock"
# What may lie in a folder before the data file does; a file system of its own has a lost+found.
_HARMLESS: Final = frozenset({_LOCK, READERS, NEW_DATA, "lost+found"})
_PID_SIZE: Final = 16


def lock_folder(folder: Path, *, finishes: bool = False) -> int:
    """Take the folder for this process, and create it if need be. Returns the file that holds the lock.

    A folder that is not finished is only for the program that finishes it.
    """
    try:
        _make(folder)
        names = set(os.listdir(folder))
        if UNFINISHED in names and not finishes:
            raise NotAStore(
                f"{folder} was never finished: a restore or a salvage broke off there; delete it and start that again"
            )
        if DATA not in names and names - _HARMLESS:
            raise NotAStore(f"{folder} holds other files and no store; name an empty folder for a new one")
    except (FileExistsError, NotADirectoryError):
        raise NotAStore(f"{folder} is not a folder") from None
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    holder = _holder_unless_free(lock)
    if holder is not None:
        os.close(lock)
        advice = ", which is this one; use what opened it, or close that" if holder == str(os.getpid()) else ""
        raise StoreInUse(f"{folder} is in use by process {holder or 'unknown'}{advice}")
    return lock


def lock_backup(folder: Path) -> int:
    """Let no other process make a backup of the store. Raises BackupUnderWay. Returns the file that holds the lock."""
    lock = os.open(folder / _BACKUP_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    holder = _holder_unless_free(lock)
    if holder is not None:
        os.close(lock)
        raise BackupUnderWay(f"a backup of {folder} is under way in process {holder or 'unknown'}")
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


def flush_folder(folder: Path) -> None:
    """A new name is durable when its folder is."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
