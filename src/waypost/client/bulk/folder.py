"""Bulk reads of the store in a folder, without a daemon, also while one writes to it.

A queue manager starts on a snapshot of the store, and writes nothing. So it sees the disk as of that moment, without
express messages, and without the locks of readers since the last start.
"""

import time
import warnings
from pathlib import Path
from typing import Final, TypeVar, cast

from waypost.api.bulk import BULK_OPERATIONS
from waypost.api.operations import Operation, Right
from waypost.client.bulk.reading import BulkReading
from waypost.clock import Now
from waypost.drive.new_guid import new_guid
from waypost.errors import DecodeError, NotAStore, StoreReadOnly
from waypost.node.effects import Commit, Failure, Notice, Reply
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers
from waypost.node.recovery import Settings
from waypost.store.lmdb_reading import StoreSnapshot
from waypost.store.port import Table
from waypost.store.queue_records import QueueRecord
from waypost.wire.path_names import PathName

R = TypeVar("R")

_READS: Final = frozenset(kind for kind in BULK_OPERATIONS if kind.row.asks is Right.READ)


class FolderReader(BulkReading):
    """The reads of BulkClient, from the folder of a queue manager. Close it, or use it in a `with` statement.

    Raises NotAStore and other StoreErrors if it fails to read the folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder: Final = folder
        self._request = 0
        self._open()

    def close(self) -> None:
        self._store.close()

    def renew(self) -> None:
        """Read the disk again: take a new snapshot."""
        self.close()
        self._open()

    def _open(self) -> None:
        self._store = StoreSnapshot(self._folder)
        try:
            computer = _computer_name(self._store, self._folder)
            self._node = Node(self._store, Settings(computer), new_guid, _now())
        except BaseException:
            self._store.close()
            raise
        self._handlers = Handlers(self._node)

    def call(self, operation: Operation[R], /) -> R:
        """Run an operation of waypost.api.bulk that changes nothing. Raises StoreReadOnly for others."""
        if type(operation) not in _READS:
            raise StoreReadOnly(f"{self._folder} is open for reading only: use the daemon for {operation.row.words}")
        self._request += 1
        self._handlers.start(Call(self._request, _now()), operation)
        while True:
            for effect in self._node.kernel.take_effects():
                match effect:
                    case Commit(token=token):
                        # The batch is never written, but its waiters need not wait.
                        self._node.persisted(token, _now())
                    case Notice("message damaged", facts):
                        warnings.warn(f"{self._folder}: {facts['reason']}, and is left out", stacklevel=3)
                    case Reply(request=request, value=value) if request == self._request:
                        return cast("R", value)
                    case Failure(request=request, error=error) if request == self._request:
                        raise error


def _computer_name(store: StoreSnapshot, folder: str | Path) -> str:
    """The computer name at the last write of the queues: every queue manager has system queues with its name."""
    found = store.first(Table.QUEUES)
    if found is None:
        raise NotAStore(f"the queue manager in {folder} has never started")
    try:
        return PathName.parse(QueueRecord.decode(found[1]).pathname).computer
    except DecodeError:
        raise NotAStore(f"the store in {folder} does not have the name of its computer") from None


def _now() -> Now:
    return Now(time.monotonic(), time.time())
