"""A program that writes a backup of the store in a folder to standard output, while a queue manager uses the folder.

It is a separate process (`python -m waypost.client.backups.copying FOLDER ...`) for three reasons: a queue manager
grows the map of its store only while nobody reads in its process; a damaged page that LMDB cannot read ends this
process and not the queue manager; and the copy runs at a lower priority.

It reads the newest transaction that was committed before it began. Everything that was acknowledged before is durable,
so it is in the copy. As long as it reads, the queue manager cannot use the room again that messages leave, so it ends
when nobody takes what it writes for `stall_seconds`, or after `most_seconds` in all.
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
from waypost.client.backups.container import BackupInfo, BackupWriter
from waypost.errors import BackupError, StoreDamaged, StoreError
from waypost.guid import guid_text
from waypost.store.folder import lock_backup
from waypost.store.keys import QUEUE_MANAGER_KEY
from waypost.store.lmdb_reading import StoreSnapshot, store_error
from waypost.store.port import Table
from waypost.store.queue_records import QueueManagerRecord

_PART: Final = 1 << 18
_NICENESS: Final = 10


class _Output:
    """Standard output, which others may be slow to read, or at most so quick."""

    def __init__(self, stall_seconds: float, most_seconds: float, bytes_per_second: int) -> None:
        self._file: Final = sys.stdout.fileno()
        self._stall_seconds: Final = stall_seconds
        self._most_seconds: Final = most_seconds
        self._rate: Final = bytes_per_second
        self._begun: Final = time.monotonic()
        self._written = 0
        os.set_blocking(self._file, False)

    def write(self, data: bytes) -> None:
        """Raises BackupError for a reader that is too slow, and BrokenPipeError for one that is gone."""
        view = memoryview(data)
        while view:
            if not select.select([], [self._file], [], self._stall_seconds)[1]:
                raise BackupError(f"nobody has read the backup for {self._stall_seconds:g} seconds")
            with suppress(BlockingIOError):
                view = view[os.write(self._file, view) :]
        self._written += len(data)
        passed = time.monotonic() - self._begun
        if passed > self._most_seconds:
            raise BackupError(f"the backup took longer than the {self._most_seconds:g} seconds of store.backup_limit_s")
        if self._rate and self._written > passed * self._rate:
            time.sleep(self._written / self._rate - passed)


def main() -> int:
    """0 if standard output has a whole backup; else standard error has the error, as JSON."""
    folder, *limits = sys.argv[1:]
    stall_seconds, most_seconds, bytes_per_second = map(float, limits)
    with suppress(OSError):
        os.nice(_NICENESS)
    try:
        _back_up(Path(folder), _Output(stall_seconds, most_seconds, int(bytes_per_second)))
    except BrokenPipeError:
        return 1
    except (StoreError, OSError) as error:
        told = error if isinstance(error, StoreError) else store_error(error, Path(folder))
        json.dump({"error": type(told).__name__, "message": str(told)}, sys.stderr)
        return 1
    return 0


def _back_up(folder: Path, output: _Output) -> None:
    # Before anything is made in the folder: it may not be one of a store.
    with StoreSnapshot(folder) as snapshot:
        lock = lock_backup(folder)
        try:
            writer = BackupWriter()
            output.write(writer.begin(_info_of(snapshot, folder)))
            _copy(snapshot, writer, output)
            output.write(writer.end())
        finally:
            os.close(lock)


def _copy(snapshot: StoreSnapshot, writer: BackupWriter, output: _Output) -> None:
    """LMDB writes into a pipe, in a thread, and everything that comes out of it is counted and passed on."""
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
        # LMDB cannot write any more, and comes to its end.
        os.close(out)
        thread.join()
    if failures:
        raise failures[0]


def _info_of(snapshot: StoreSnapshot, folder: Path) -> BackupInfo:
    value = snapshot.get(Table.COUNTERS, QUEUE_MANAGER_KEY)
    if value is None:
        raise StoreDamaged(f"{folder} does not say whose store it is")
    record = QueueManagerRecord.decode(value)
    begun = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    guid, size = guid_text(record.identifier), snapshot.bytes_in_use
    return BackupInfo(record.computer_name, guid, begun, size, waypost.__version__)


if __name__ == "__main__":
    sys.exit(main())
