"""`waypost.restore`: a data folder from a backup."""

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
    """The result of a restore. `guid` is the GUID of the new queue manager, and `backup_guid` is the GUID of the queue
    manager in the backup.

    With a new identity, `set_aside` is the number of outgoing messages that became dead-letter messages. `dropped` is
    the number of delivered messages and acknowledgments that were deleted. `damaged` is the number of records that were
    damaged in the store before the backup.
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
        """Return the result as a dict that `json.dumps` accepts."""
        return asdict(self)


def restore(
    backup: Backup,
    path: str | os.PathLike[str],
    *,
    same_identity: bool = False,
    new_identity: bool = False,
    progress: Progress | None = None,
) -> RestoreInfo:
    """Create the data folder `path` from a backup. The backup is a folder, a file or an open binary file.

    You must choose the identity of the restored queue manager. If two queue managers run with the same identity, they
    lose and duplicate each other's messages.

    same_identity  Restore the queue manager with its original GUID. The original queue manager must never start again.
                   The restored queue manager sends the messages in its outgoing queues.
    new_identity   Create another queue manager, with a new GUID and the same queues and messages. Messages in outgoing
                   queues are not sent, but become dead-letter messages of the new queue manager.

    The function checks the whole backup before it creates the folder. The function overwrites nothing, so `path` must
    not exist or must be an empty folder. `progress` is called with the number of bytes that were read so far, and with
    an estimate of the total number.

    Raises BackupDamaged if the backup is missing, incomplete or damaged. Raises BackupError if the creation of the
    folder fails.
    """
    if bool(same_identity) == bool(new_identity):
        raise InvalidParameter("exactly one of `same_identity` and `new_identity` must be True")
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
        raise BackupError(f"cannot create {folder}: {error.strerror or error}") from None
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
                raise BackupDamaged(f"{place.parent} is not a backup: the file {NAME} is missing")
        file = place.open("rb")
    except OSError as error:
        raise BackupDamaged(f"cannot read {place}: {error.strerror or error}") from None
    with file:
        yield file


def _copy(stream: BinaryIO, file: Path, progress: Progress | None) -> BackupInfo:
    """Write the copy of the store, and check the whole backup."""
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
        raise BackupDamaged(f"cannot read the backup: {error.strerror or error}") from None
