"""A new data folder from a backup or from a damaged store.

It is made beside its place, where no queue manager opens it, and is renamed when it is whole and on disk. So an
interruption leaves no folder on which a queue manager would start.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from waypost.errors import WaypostError
from waypost.store.folder import UNFINISHED, flush_folder

Work = Literal["restore", "salvage"]

_SUFFIXES: Final[dict[Work, str]] = {"restore": ".restoring", "salvage": ".salvage"}


@contextmanager
def being_made(place: str | os.PathLike[str], work: Work, error: type[WaypostError]) -> Iterator[Path]:
    """A folder that moves to `place` if the block ends without an error, and is deleted otherwise.

    Raises `error` if the place is not free, and OSError.
    """
    folder = Path(os.path.realpath(place))
    _check(folder, error)
    unfinished = folder.with_name(folder.name + _SUFFIXES[work])
    try:
        unfinished.mkdir(mode=0o700)
    except FileExistsError:
        raise error(
            f"{unfinished} already exists: another {work} is running or was interrupted; if it was interrupted, "
            "delete the folder"
        ) from None
    try:
        (unfinished / UNFINISHED).touch(mode=0o600)
        _flush(unfinished)
        yield unfinished
        (unfinished / UNFINISHED).unlink()
        _flush(unfinished)
        # A folder that is not empty any more stays as it is.
        unfinished.rename(folder)
        _flush(folder.parent)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(unfinished)
        raise


def _check(folder: Path, error: type[WaypostError]) -> None:
    if os.path.ismount(folder):
        raise error(f"{folder} is a mount point, which a new folder cannot replace; specify a folder inside it")
    try:
        is_empty = not os.listdir(folder)
    except FileNotFoundError:
        return
    if not is_empty:
        raise error(f"{folder} is not empty; specify a new folder")


def _flush(folder: Path) -> None:
    if sys.platform != "win32":
        flush_folder(folder)
