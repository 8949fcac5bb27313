"""`waypost.restore`: a data folder out of a backup."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final

from waypost.client.backups.container import BackupInfo, BackupReader
from waypost.client.backups.target import NAME, Progress
from waypost.client.storage.new_folder import being_made
from waypost.drive.new_guid import new_guid
from waypost.errors import BackupDamaged, BackupError, InvalidParameter
from waypost.guid import guid_text
from waypost.node.cloning import Cloned, change_identity
from waypost.store.folder import DATA
from waypost.store.lmdb import LmdbStore
from waypost.store.restored import mark_restored
from waypost.store.whole import damaged_records

_PART: Final = 1 << 20

Backup = str | os.PathLike[str] | BinaryIO


@dataclass(frozen=True, slots=True)
class RestoreInfo:
    """The folder that was made. `guid` is that of its queue manager, `backup_guid` that of the one in the backup.

    With a new identity, `set_aside` messages of outgoing queues are dead-letter messages now, and `dropped` messages,
    which were delivered or acknowledgments, are gone. `damaged` records were so in the store before it was backed up.
    """

    path: str
    name: str
    guid: str
    backup_guid: str
    time: str
    bytes: int
    set_aside: int = 0
    dropped: int = 0
    damaged: int = 0

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def restore(
    backup: Backup,
    path: str | os.PathLike[str],
    *,
    same_identity: bool = False,
    new_identity: bool = False,
    progress: Progress | None = None,
) -> RestoreInfo:
    """Make the data folder `path` out of a backup: the folder of one, its file, or an open file.

    Say which queue manager it is to be, because two with one identity lose and double each other's messages:

    same_identity  The one that was backed up, which is gone and never starts again. It sends what waits.
    new_identity   Another one beside it, with a new GUID: it has the queues and the messages in them. Messages that
                   the original is about to send go to the dead-letter queues of the new one.

    The whole backup is read and checked before anything is made of it. Nothing is overwritten: `path` may be an empty
    folder at most. `progress` is called with the bytes that were read so far, and about how many there are.

    Raises BackupDamaged if there is no backup that is whole, and BackupError if the folder cannot be made.
    """
    if bool(same_identity) == bool(new_identity):
        raise InvalidParameter("one of same_identity and new_identity has to be given")
    folder = Path(os.path.abspath(path))
    identifier = new_guid() if new_identity else None
    try:
        with _opened(backup) as stream, being_made(folder, "restore", BackupError) as unfinished:
            info = _copy(stream, unfinished / DATA, progress)
            with LmdbStore(unfinished, finishes=True) as store:
                damaged = damaged_records(store)
                cloned = Cloned() if identifier is None else change_identity(store, identifier)
                mark_restored(store)
    except OSError as error:
        raise BackupError(f"{folder} cannot be made: {error.strerror or error}") from None
    return RestoreInfo(
        str(folder),
        info.name,
        info.guid if identifier is None else guid_text(identifier),
        info.guid,
        info.time,
        info.bytes,
        cloned.set_aside,
        cloned.dropped,
        damaged,
    )


@contextmanager
def _opened(backup: Backup) -> Iterator[BinaryIO]:
    if not isinstance(backup, str | os.PathLike):
        yield backup
        return
    place = Path(backup)
    try:
        if place.is_dir():
            place /= NAME
            if not place.exists():
                raise BackupDamaged(f"{place.parent} does not hold a backup: it has no file {NAME}")
        file = place.open("rb")
    except OSError as error:
        raise BackupDamaged(f"{place} cannot be read: {error.strerror or error}") from None
    with file:
        yield file


def _copy(stream: BinaryIO, file: Path, progress: Progress | None) -> BackupInfo:
    """Write the copy of the store, and check all of it."""
    reader = BackupReader()
    come = 0
    with file.open("xb") as copy:
        file.chmod(0o600)
        while part := _read(stream):
            copy.write(reader.feed(part))
            come += len(part)
            if progress is not None and reader.info is not None:
                progress(come, reader.info.about_bytes)
        info = reader.end()
        copy.flush()
        os.fsync(copy.fileno())
    return info


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read(_PART)
    except OSError as error:
        raise BackupDamaged(f"the backup cannot be read: {error.strerror or error}") from None
