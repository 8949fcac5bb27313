"""The storage of an archive: a disk of this computer, or any other storage of Spark."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException

from waypost.errors import InvalidParameter

_PATTERN: Final = frozenset("*?[]{}\\")


class OnlyWithSpark(InvalidParameter):
    """This process cannot do the work without Spark. The text is the reason."""


def check_path(path: str) -> None:
    """Raises InvalidParameter for a path with characters that Spark reads as a pattern: Spark would write files there
    and not find them again."""
    if _PATTERN.intersection(path):
        raise InvalidParameter(
            f"the path {path} must not contain any of {' '.join(sorted(_PATTERN))}; choose another path"
        )


def has_pattern(path: str) -> bool:
    """True if Spark reads the path as a pattern."""
    return bool(_PATTERN.intersection(path))


def is_path_missing(error: AnalysisException) -> bool:
    return error.getCondition() == "PATH_NOT_FOUND"


def is_on_disk(path: str) -> bool:
    """True if a path of Spark is on a disk of this computer."""
    return urlsplit(path).scheme in ("", "file")


def require_disk(path: str) -> None:
    """Raises OnlyWithSpark unless a path of Spark is on a disk of this computer."""
    if not is_on_disk(path):
        raise OnlyWithSpark(f"{path} is not on a local disk")


def local_path(path: str) -> Path:
    """The absolute path of a folder on a disk of this computer: workers may run in another folder."""
    place = urlsplit(path)
    return Path(unquote(place.path) if place.scheme else path).absolute()


def local_folder(path: str) -> Path | None:
    """The folder of a path of Spark on a disk of this computer, or None if the path is on other storage."""
    if not is_on_disk(path):
        return None
    folder = local_path(path)
    return folder if folder.is_dir() else None


def is_hidden(name: str) -> bool:
    """True for the names of files and folders that Spark does not read."""
    return name.startswith((".", "_"))


def flush(path: str, files: Iterable[str]) -> None:
    """Force files below the path and their folders to disk, which Spark does not do.

    Storage other than a disk of this computer keeps closed files safe.
    """
    root = local_folder(path)
    if root is None:
        return
    folders = {root}
    for name in files:
        force(root / name)
        folders.update(root / parent for parent in Path(name).parents)
    for folder in folders:
        force(folder)


def force(path: Path) -> None:
    """Force a file or a folder to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
