"""A program that writes a backup of the store in a folder to standard output, while a queue manager uses the folder.

It is a separate process (`python -m waypost.client.backups.copying FOLDER ...`) for three reasons: a queue manager
grows the map of its store only without readers in its process; a damaged page that LMDB fails to read ends this
process and not the queue manager; and the copy runs at a lower priority.

It reads the newest transaction that was committed before it began. Everything that was acknowledged before is durable,
so it is in the copy. As long as it reads, the queue manager does not reuse the space of removed messages. So it ends if
the reader of its output takes nothing for `stall_seconds`, after `most_seconds` in all, and before the disk of the
queue manager is so full that the queue manager refuses senders.
"""

import json
import os
import select
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Final

import waypost
from waypost.api.times import iso_8601
from waypost.client.backups.container import BackupInfo, BackupWriter
from waypost.errors import BackupError, StoreDamaged, StoreError
from waypost.guid import guid_text
from waypost.store.folder import lock_backup
from waypost.store.keys import QUEUE_MANAGER_KEY
from waypost.store.lmdb_reading import StoreSnapshot, store_error
from waypost.store.port import Table, megabytes
from waypost.store.queue_records import QueueManagerRecord

_PART: Final = 1 << 18
_NICENESS: Final = 10
# Interval of checks of the disk, and the loss of free space that is ignored.
_WATCH_SECONDS: Final = 0.02
_UNNOTICED: Final = 1 << 16


class _Watch:
    """Watch over the disk of the queue manager, which fills up while the backup reads."""

    def __init__(self, snapshot: StoreSnapshot, folder: Path, max_size: int, reserve: int | None) -> None:
        self._snapshot: Final = snapshot
        self._folder: Final = folder
        self._max_size: Final = max_size
        self._reserve: Final = reserve
        self._first: Final = snapshot.room(max_size, reserve)[0]
        self._due = 0.0

    def check(self) -> None:
        """Raise BackupError if the disk is nearly full, and has less free space than at the start."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _WATCH_SECONDS
        left, reserve = self._snapshot.room(self._max_size, self._reserve)
        if left < reserve and left < self._first - _UNNOTICED:
            raise BackupError(
                f"the backup was cancelled, because the disk of {self._folder} is nearly full (free space in addition "
                f"to the reserve: {megabytes(max(left, 0))}). During a backup, the store file grows, because the store "
                "does not reuse space. If the backup continued, the queue manager would soon refuse messages. Make "
                "more space available on the disk, or back up to another disk, at a time with less traffic"
            )


class _Output:
    """Standard output with a limit of its speed, and of the time that its reader may pause."""

    def __init__(self, watch: _Watch, stall_seconds: float, most_seconds: float, bytes_per_second: int) -> None:
        self._file: Final = sys.stdout.fileno()
        self._watch: Final = watch
        self._stall_seconds: Final = stall_seconds
        self._most_seconds: Final = most_seconds
        self._rate: Final = bytes_per_second
        self._begun: Final = time.monotonic()
        self._written = 0
        os.set_blocking(self._file, False)

    def write(self, data: bytes) -> None:
        """Write all of `data`. Raises BackupError if the reader is too slow, and BrokenPipeError if it is gone."""
        view = memoryview(data)
        taken = time.monotonic()
        while view:
            self._watch.check()
            if select.select([], [self._file], [], min(_WATCH_SECONDS, self._stall_seconds))[1]:
                with suppress(BlockingIOError):
                    view = view[os.write(self._file, view) :]
                    taken = time.monotonic()
            elif time.monotonic() - taken >= self._stall_seconds:
                raise BackupError(f"the reader of the backup has read nothing for {self._stall_seconds:g} seconds")
        self._written += len(data)
        self._check_time()
        while self._rate and (ahead := self._written / self._rate - (time.monotonic() - self._begun)) > 0:
            self._watch.check()
            time.sleep(min(ahead, _WATCH_SECONDS))

    def _check_time(self) -> None:
        if time.monotonic() - self._begun > self._most_seconds:
            raise BackupError(f"the backup took longer than {self._most_seconds:g} seconds (store.backup_limit_s)")


def main() -> int:
    """Write the backup. Returns 0 if standard output has it whole; else standard error has the error as JSON."""
    folder, *limits = sys.argv[1:]
    stall_seconds, most_seconds, bytes_per_second, max_size, reserve = map(float, limits)
    with suppress(OSError):
        os.nice(_NICENESS)
    try:
        with StoreSnapshot(folder) as snapshot:
            watch = _Watch(snapshot, Path(folder), int(max_size), None if reserve < 0 else int(reserve))
            _back_up(Path(folder), snapshot, _Output(watch, stall_seconds, most_seconds, int(bytes_per_second)))
    except BrokenPipeError:
        return 1
    except (StoreError, OSError) as error:
        told = error if isinstance(error, StoreError) else store_error(error, Path(folder))
        json.dump({"error": type(told).__name__, "message": str(told)}, sys.stderr)
        return 1
    return 0


def _back_up(folder: Path, snapshot: StoreSnapshot, output: _Output) -> None:
    # The snapshot shows that the folder has a store; before, nothing is created in it.
    lock = lock_backup(folder)
    try:
        writer = BackupWriter()
        output.write(writer.begin(_info_of(snapshot, folder)))
        _copy(snapshot, writer, output)
        output.write(writer.end())
    finally:
        os.close(lock)


def _copy(snapshot: StoreSnapshot, writer: BackupWriter, output: _Output) -> None:
    """Copy the store: LMDB writes to a pipe in a thread, and this thread passes the bytes on."""
    out, into = os.pipe()
    failures: list[StoreError] = []

    def copy() -> None:
        try:
            snapshot.copy(into)
        except StoreError as error:
            failures.append(error)
        finally:
            os.close(into)

    thread = Thread(target=copy, name="waypost-copy")
    thread.start()
    try:
        while part := os.read(out, _PART):
            writer.add(part)
            output.write(part)
    finally:
        # The writes of LMDB fail now, and its thread ends.
        os.close(out)
        thread.join()
    if failures:
        raise failures[0]


def _info_of(snapshot: StoreSnapshot, folder: Path) -> BackupInfo:
    value = snapshot.get(Table.COUNTERS, QUEUE_MANAGER_KEY)
    if value is None:
        raise StoreDamaged(f"the store in {folder} does not contain the identity of its queue manager")
    record = QueueManagerRecord.decode(value)
    begun = iso_8601(datetime.now(UTC), timespec="milliseconds")
    guid, size = guid_text(record.identifier), snapshot.bytes_in_use
    return BackupInfo(record.computer_name, guid, begun, size, waypost.__version__)


if __name__ == "__main__":
    sys.exit(main())
