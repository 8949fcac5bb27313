"""The target of a backup: a folder, or an open file that takes the stream.

A folder has one file, `waypost.backup`. It gets that name when all of it is on disk, so a backup that fails leaves
nothing that looks like one.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from waypost.api.excerpt import excerpt
from waypost.client.backups.container import BackupInfo, BackupReader
from waypost.errors import BackupError, ConnectionLost, InvalidParameter
from waypost.store.folder import flush_folder

NAME: Final = "waypost.backup"
_PART: Final = "waypost.backup.part"

# Called with the number of bytes so far and an estimate of the total.
Progress = Callable[[int, int], None]
Target = str | os.PathLike[str] | BinaryIO


def check_target(target: Target) -> None:
    """Raise an error for an unsuitable target, before the backup begins."""
    if isinstance(target, str | os.PathLike):
        _is_missing(Path(target))
    elif not hasattr(target, "write"):
        raise InvalidParameter(f"`target` must be a folder or an open file, not {excerpt(target)}")


def store_backup(stream: Iterable[bytes], target: Target, progress: Progress | None = None) -> BackupInfo:
    """Write a stream to the target. Raises a BackupError if it is incomplete, and leaves nothing in the folder then."""
    check_target(target)
    if isinstance(target, str | os.PathLike):
        with _file_in(Path(target)) as file:
            return _pass_on(stream, file, progress)
    return _pass_on(stream, target, progress)


def _pass_on(stream: Iterable[bytes], file: BinaryIO, progress: Progress | None) -> BackupInfo:
    reader = BackupReader()
    come = 0
    try:
        for part in stream:
            reader.feed(part)
            _write(file, part)
            come += len(part)
            if progress is not None and reader.info is not None:
                progress(come, reader.info.about_bytes)
    except ConnectionLost as error:
        reason = reader.reason or f"{error}; see the log of the daemon for details"
        raise BackupError(f"the backup failed: {reason}") from None
    return reader.end()


def _write(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            # A file without a buffer may take only a part.
            view = view[file.write(view) or len(view) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise BackupError(f"cannot write the backup: {error.strerror or error}") from None


@contextmanager
def _file_in(folder: Path) -> Iterator[BinaryIO]:
    """A new file that becomes the backup of the folder if the block ends without an error."""
    is_new = _is_missing(folder)
    part = folder / _PART
    try:
        if is_new:
            folder.mkdir(mode=0o700)
        with part.open("xb") as file:
            part.chmod(0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.rename(folder / NAME)
        if sys.platform != "win32":
            for each in (folder, folder.parent):
                flush_folder(each)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise BackupError(f"cannot write to {folder}: {error.strerror or error}") from None
        raise


def _is_missing(folder: Path) -> bool:
    """Whether the folder does not exist. Raises BackupError if it is not empty."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise BackupError(f"cannot use {folder}: {error.strerror or error}") from None
    if _PART in names:
        raise BackupError(
            f"{folder} contains an unfinished backup, which might be in progress; if it was interrupted, delete the "
            "unfinished backup"
        )
    if names:
        raise BackupError(f"{folder} is not empty; specify a new folder")
    return False
