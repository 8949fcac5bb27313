"""The store in a folder, read in bulk without a daemon, also while one writes to it.

A queue manager starts on a snapshot of the store, and nothing that it does is written. So it sees what was on disk in
that moment: no express messages, and nothing of what readers have locked since the last start.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from waypost.api.names import format_name
from waypost.client.bulk.frame import Frame
from waypost.client.bulk.local import (
    bulk_queue,
    frame_of,
    matching,
    parse_epoch,
    planned_range,
    range_to_plan,
    range_to_read,
)
from waypost.client.bulk.paging import frames
from waypost.client.bulk.schema import BulkQueue, Locked, PlannedRange, PlanRange, ReadRange
from waypost.clock import Now
from waypost.drive.new_guid import new_guid
from waypost.errors import DecodeError, NotAStore
from waypost.node.application import Call
from waypost.node.bulk import BulkReading, Plan, QueueState, Rows, Target
from waypost.node.effects import Commit, Failure, Notice, Reply
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.store.lmdb_reading import StoreSnapshot
from waypost.store.port import Table
from waypost.store.queue_records import QueueRecord
from waypost.wire.path_names import PathName


class FolderReader:
    """What BulkClient reads, from the folder of a queue manager. Close it, or use it in a `with` statement.

    Raises NotAStore and other StoreErrors if the folder cannot be read.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder: Final = folder
        self._request = 0
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    def renew(self) -> None:
        """See what is on disk by now."""
        self.close()
        self._open()

    def _open(self) -> None:
        self._store = StoreSnapshot(self._folder)
        try:
            self._computer = _computer_name(self._store, self._folder)
            self._node = Node(self._store, Settings(self._computer), new_guid, _now())
        except BaseException:
            self._store.close()
            raise
        self._bulk = BulkReading(self._node)

    def queues(self, pattern: str = "", kind: str = "") -> list[BulkQueue]:
        targets = matching(self._node.manager, pattern, kind)
        states: list[QueueState] = self._do(self._bulk.describe, targets)
        return [bulk_queue(*each) for each in zip(targets, states, strict=True)]

    def queue(self, name: str) -> BulkQueue:
        target = self._target(name)
        states: list[QueueState] = self._do(self._bulk.describe, [target])
        return bulk_queue(target, states[0])

    def plan(self, name: str, wanted: PlanRange) -> PlannedRange:
        plan: Plan = self._do(self._bulk.plan, self._target(name, wanted.epoch), range_to_plan(wanted), wanted.parts)
        return planned_range(plan)

    def read(self, name: str, wanted: ReadRange) -> Frame:
        rows: Rows = self._do(self._bulk.read, self._target(name, wanted.epoch), range_to_read(wanted))
        return Frame.decode(frame_of(rows))

    def read_all(
        self, name: str, after: int, up_to: int, *, locked: Locked = "wait", epoch: str = ""
    ) -> Iterator[Frame]:
        return frames(partial(self.read, name), ReadRange(after=after, up_to=up_to, locked=locked, epoch=epoch))

    def seq_at(self, name: str, moment: datetime) -> int:
        found: int = self._do(self._bulk.seq_at, self._target(name), moment.timestamp())
        return found

    def _target(self, name: str, epoch: str = "") -> Target:
        return Target(format_name(name, self._computer), parse_epoch(epoch))

    def _do(self, operation: Callable[..., None], *args: Any) -> Any:
        self._request += 1
        operation(Call(self._request, _now()), *args)
        while True:
            for effect in self._node.take_effects():
                match effect:
                    case Commit(token=token):
                        # It never happens, but whoever waits for it need not wait.
                        self._node.persisted(token, _now())
                    case Notice("message damaged", facts):
                        warnings.warn(f"{self._folder}: {facts['reason']}, and is left out", stacklevel=3)
                    case Reply(request=request, value=value) if request == self._request:
                        return value
                    case Failure(request=request, error=error) if request == self._request:
                        raise error


def _computer_name(store: StoreSnapshot, folder: str | Path) -> str:
    """As it was when the queues were written last: every queue manager has queues of its own."""
    found = store.first(Table.QUEUES)
    if found is None:
        raise NotAStore(f"{folder} is the store of a queue manager that was never started")
    try:
        return PathName.parse(QueueRecord.decode(found[1]).pathname).computer
    except DecodeError:
        raise NotAStore(f"{folder} does not say whose store it is") from None


def _now() -> Now:
    return Now(time.monotonic(), time.time())
