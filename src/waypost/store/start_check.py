"""The check of a store's file before LMDB opens it: after an unclean end, all its branch and leaf pages.

LMDB believes its pages. One that is not what it wrote ends the process by an assertion or a signal, at every start
again. The walk is Waypost's own and reads the file without LMDB, so that it survives such pages, needs no separate
process, and says what is wrong in a sentence.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from waypost.errors import StoreDamaged
from waypost.store.folder import DATA, leave_mark, take_mark
from waypost.store.page_file import PageFile
from waypost.store.pages import OtherVersion
from waypost.store.progress import Progress, unheard
from waypost.store.walk import MAIN, Damage, Walker, check_metas

# The table that says whose file it is, and which format it has.
STORE_TABLE: Final = "store"
# Of these, a sentence names so many.
_NAMED: Final = 3


def check_before_opening(folder: Path, lock: int, progress: Progress) -> None:
    """Raises StoreDamaged if the file is not one that LMDB can be given, and OSError."""
    mark = take_mark(lock)
    data = folder / DATA
    if not data.exists() or not data.stat().st_size:
        return
    with PageFile(data) as file:
        newest = file.newest
        if newest is not None and not file.damaged_metas and mark == (newest.transaction, file.size):
            return
        if any(isinstance(error, OtherVersion) for error in file.damaged_metas):
            # LMDB says so itself.
            return
        found = damage_of(file, progress)
    if found:
        raise damaged(folder, found)


def damage_of(file: PageFile, progress: Progress = unheard) -> list[Damage]:
    """Faults in the pages of a file that nobody writes to, if it is a store of Waypost."""
    found = check_metas(file, file.metas, file.damaged_metas)
    if found or file.newest is None:
        return found
    walked = Walker(file, file.newest, progress=progress).walk()
    is_ours = STORE_TABLE in walked.tables
    if is_ours and walked.has_others:
        walked.damage.append(Damage(MAIN, file.newest.main.root, "has records outside the tables"))
    return walked.damage if is_ours or MAIN in walked.holes else []


def damaged(folder: Path, found: list[Damage]) -> StoreDamaged:
    """The error, with the command to type."""
    sentence = "; ".join(map(str, found[:_NAMED]))
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return StoreDamaged(
        f"{folder / DATA} is damaged: {sentence}{more}; `waypost store salvage {folder} NEW` recovers the intact "
        "records into the new folder NEW"
    )


def leave_clean(folder: Path, lock: int) -> None:
    """The store was closed, and everything is on disk: the next start need not look at its pages.

    Without room for the mark, the next start looks at them.
    """
    with suppress(OSError), PageFile(folder / DATA) as file:
        newest = file.newest
        if newest is not None:
            leave_mark(lock, newest.transaction, file.size)
