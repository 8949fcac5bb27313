"""A data folder that comes into being out of a backup or of a damaged store.

It is made beside its place, where no queue manager opens it, and takes its place when it is whole and on disk. So an
interruption leaves nothing that a queue manager would start on.
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
    """A folder that becomes the one at `place` if the block ends well, and goes if not.

    Raises `error` if something is there already, and OSError.
    """
    folder = Path(os.path.realpath(place))
    _check(folder, error)
    unfinished = folder.with_name(folder.name + _SUFFIXES[work])
    try:
        unfinished.mkdir(mode=0o700)
    except FileExistsError:
        raise error(
            f"{unfinished} is there already: another {work} is at work, or one was interrupted; delete it then"
        ) from None
    try:
        (unfinished / UNFINISHED).touch(mode=0o600)
        _flush(unfinished)
        yield unfinished
        (unfinished / UNFINISHED).unlink()
        _flush(unfinished)
        # A folder that somebody has put something into since stays what it is.
        unfinished.rename(folder)
        _flush(folder.parent)
    except BaseException:
        with suppress(OSError):
            shutil.rmtree(unfinished)
        raise


def _check(folder: Path, error: type[WaypostError]) -> None:
    if os.path.ismount(folder):
        raise error(f"{folder} is a mount point, whose place nothing can take; name a folder in it")
    try:
        is_empty = not os.listdir(folder)
    except FileNotFoundError:
        return
    if not is_empty:
        raise error(f"{folder} is not empty, and nothing is overwritten; name a new folder")


def _flush(folder: Path) -> None:
    if sys.platform != "win32":
        flush_folder(folder)
