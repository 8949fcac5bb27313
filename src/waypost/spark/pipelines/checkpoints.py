"""Run a query in this process, without Spark, up to the present end of its queues, on a checkpoint of Spark.

    metadata            the id of the query
    offsets/N           the end of batch N, written before the batch is worked on
    commits/N           written when the batch is done

The steps are those of Spark with the trigger availableNow: only when a batch is done, the stream removes its messages.
Spark and this process continue the queries of each other. A query has one source, and its checkpoint is on a disk.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from waypost.errors import InvalidParameter, SharingViolation
from waypost.spark.offsets import Json
from waypost.spark.pipelines.storage import force
from waypost.spark.stream_ranges import RangeStream

if os.name == "posix":
    import fcntl

_VERSION: Final = "v1"
_OFFSETS: Final = "offsets"
_COMMITS: Final = "commits"
_METADATA: Final = "metadata"
_LOCK: Final = ".waypost.lock"
# A version, the time, and the position of the only source.
_OFFSET_LINES: Final = 3
# Batches that Spark keeps by default (spark.sql.streaming.minBatchesToRetain).
_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """The last batch that was begun, its start and end, and whether it is done. The start of batch 0 is not kept."""

    number: int
    start: Json | None
    end: Json
    is_done: bool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    folder: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs away that hold it too. Raises SharingViolation if another run has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.name == "posix":
                try:
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise self._in_use() from None
            yield
        finally:
            os.close(number)

    def is_of_another_format(self) -> bool:
        """True if only Spark can continue the query: a version of Spark has written another format."""
        return any(self._lines(file)[:1] != [_VERSION] for name in (_OFFSETS, _COMMITS) for file in self._last(name))

    def query(self) -> str:
        """The id of the query, which is new if the checkpoint is."""
        file = self.folder / _METADATA
        if not file.exists():
            if self._numbers(_OFFSETS):
                raise self._damaged(file)
            self._write(file, json.dumps({"id": str(uuid4())}, separators=(",", ":")))
        try:
            return str(json.loads(file.read_bytes())["id"])
        except (ValueError, TypeError, KeyError):
            raise self._damaged(file) from None

    def progress(self) -> Progress | None:
        """The last batch; None if there is none. Raises InvalidParameter if the checkpoint is damaged."""
        numbers = self._numbers(_OFFSETS)
        if not numbers:
            return None
        last, done = numbers[-1], self._numbers(_COMMITS)
        start = self._offset(last - 1) if last - 1 in numbers else None
        if last and start is None:
            raise self._damaged(self.folder / _OFFSETS / str(last - 1))
        return Progress(last, start, self._offset(last), is_done=bool(done) and done[-1] >= last)

    def begin(self, number: int, end: Json) -> None:
        """Note the end of a batch, before the batch is worked on."""
        facts = {"batchWatermarkMs": 0, "batchTimestampMs": time.time_ns() // 1_000_000, "conf": {}}
        # Spark compares offsets as texts: this is the text that Python makes of them there.
        lines = [_VERSION, json.dumps(facts, separators=(",", ":")), json.dumps(end)]
        self._write(self.folder / _OFFSETS / str(number), "\n".join(lines))

    def finish(self, number: int) -> None:
        """Note that a batch is done, and forget old batches as Spark does."""
        self._write(self.folder / _COMMITS / str(number), f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}')
        for name in (_COMMITS, _OFFSETS):
            for old in self._numbers(name):
                if old < number - _KEPT:
                    (self.folder / name / str(old)).unlink(missing_ok=True)
                    (self.folder / name / f".{old}.crc").unlink(missing_ok=True)

    def _offset(self, number: int) -> Json:
        file = self.folder / _OFFSETS / str(number)
        lines = self._lines(file)
        try:
            found: Any = json.loads(lines[-1])
        except (ValueError, IndexError):
            raise self._damaged(file) from None
        if lines[0] != _VERSION or len(lines) != _OFFSET_LINES or not isinstance(found, dict):
            raise self._damaged(file)
        return found

    def _last(self, name: str) -> list[Path]:
        return [self.folder / name / str(number) for number in self._numbers(name)[-1:]]

    def _numbers(self, name: str) -> list[int]:
        folder = self.folder / name
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(each) for each in names if each.isascii() and each.isdigit())

    def _lines(self, file: Path) -> list[str]:
        return file.read_text("utf-8", "replace").splitlines()

    def _damaged(self, file: Path) -> InvalidParameter:
        return InvalidParameter(
            f"the checkpoint is damaged: {file} is missing or unreadable; restore the file from a copy, or specify "
            "another checkpoint"
        )

    def _in_use(self) -> SharingViolation:
        return SharingViolation(f"another run uses the checkpoint {self.folder}; wait until that run has ended")

    def _write(self, file: Path, text: str) -> None:
        """Write a file that does not exist yet, whole or not at all, and force it to disk."""
        file.parent.mkdir(parents=True, exist_ok=True)
        hidden = file.with_name(f".{file.name}.{uuid4()}.tmp")
        with hidden.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        if file.exists():
            # A run that does not hold the checkpoint has written it.
            hidden.unlink()
            raise self._in_use()
        hidden.rename(file)
        for folder in (file.parent, self.folder, self.folder.parent):
            force(folder)


# --- Runs -------------------------------------------------------------------------------------------------------------

# The parts of a batch, each as batches of Arrow, and the number of the batch.
Each = Callable[[Iterable[Iterator[Any]], int], None]


def run_available(stream: RangeStream, checkpoint: Checkpoint, each: Each) -> None:
    """Call `each` for a batch that was not finished, and for the new batches. The caller holds the checkpoint."""
    stream.prepareForTriggerAvailableNow()
    progress, limit = checkpoint.progress(), stream.getDefaultReadLimit()
    number, start = 0, stream.initialOffset() if progress is None or progress.start is None else progress.start
    if progress is not None:
        number = progress.number
        if not progress.is_done:
            each(_parts(stream, start, progress.end), number)
            checkpoint.finish(number)
        number, start = number + 1, progress.end
    # To ask for the next batch removes the messages of the last one.
    while (end := stream.latestOffset(start, limit)) != start:
        checkpoint.begin(number, end)
        each(_parts(stream, start, end), number)
        checkpoint.finish(number)
        number, start = number + 1, end


def _parts(stream: RangeStream, start: Any, end: Any) -> Iterator[Iterator[Any]]:
    for part in stream.partitions(start, end):
        yield stream.read(part)
