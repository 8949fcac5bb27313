"""Common parts of the stream readers: their origin, the limits of a batch, and a repeated batch that is gone.

A reader in the driver knows neither its query nor the number of its batch. Tasks know both, so that a task finds out
whether a repeated batch, of which messages are gone, is committed here.
"""

import logging
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import UNSET, UnsetType
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from waypost.api.bulk import BulkQueue
from waypost.errors import InvalidParameter, MessageNotFound, QueueNotFound
from waypost.spark.offsets import Json
from waypost.spark.options import ReadOptions
from waypost.spark.origins import Origin, open_origin
from waypost.spark.ranges import chosen, each_once, is_name_of
from waypost.spark.schema import Form
from waypost.spark.tasks import Shipped, query_task

_log: Final = logging.getLogger("waypost.spark")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a batch; UNSET means unlimited."""

    max_messages: int | UnsetType = UNSET
    max_bytes: int | UnsetType = UNSET


@dataclass(frozen=True)
class GoneBatch(InputPartition):
    """Messages of a batch that are gone, for the `reason`: the batch is repeated after it was committed, or lost.

    If `is_done`, the query itself removed the messages after Spark had recorded the batch. If not, another program may
    have removed them while the batch was being written.
    """

    reason: str
    is_done: bool = False


class MessageStream(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader. The driver has one while the query runs; executors get copies that only read."""

    def __init__(self, options: ReadOptions, shape: Form) -> None:
        self._options: Final = options
        self._shape: Final = shape
        self._opened: Origin | None = None
        self._initial: Json | None = None
        # Queues that the options name, once they were looked up.
        self._named: list[BulkQueue] | None = None
        # Format names of those that the query has read before, and that did not exist then.
        self._gone: list[str] = []
        # The last offset that Spark was given, to report the messages after it.
        self._last: Json | None = None
        self._last_data: float = time.monotonic()
        self._has_begun = False

    def arguments(self) -> tuple[Any, ...]:
        return self._options, self._shape

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, the name is Spark's
        rate = self._options.rate
        if rate.max_messages is not None:
            return ReadMaxRows(rate.max_messages)
        if rate.max_bytes is not None:
            return ReadMaxBytes(rate.max_bytes)
        return ReadAllAvailable()

    def _chosen(self, places: Iterable[str]) -> list[BulkQueue]:
        """The queues that are read. A query that starts again may name others than before; a pattern finds others at
        any time.

        A named queue that is gone is left out if the query has read it before: the caller has its position.
        Raises QueueNotFound for any other that does not exist.
        """
        if self._options.pattern is not None:
            return chosen(self._origin, self._options)
        if self._named is None:
            self._named = self._found(list(places))
        return self._named

    def _found(self, places: list[str]) -> list[BulkQueue]:
        try:
            return chosen(self._origin, self._options)
        except QueueNotFound:
            found: list[BulkQueue] = []
            for name in self._options.queues:
                try:
                    found += chosen(self._origin, replace(self._options, queues=(name,)))
                except QueueNotFound:
                    read = [place for place in places if is_name_of(name, place)]
                    if not read:
                        raise
                    self._gone += read
            return each_once(found)

    def _names(self, queues: Iterable[BulkQueue], places: Iterable[str]) -> list[str]:
        """The queues to read now, with those that are gone: their loss is an error, or they may come again."""
        if self._options.pattern is not None:
            return list(places)
        return [*(queue.format_name for queue in queues), *self._gone]

    @property
    def _origin(self) -> Origin:
        if self._opened is None:
            self._opened = open_origin(self._options.endpoint)
        return self._opened

    def _begin(self) -> None:
        """Warn at the start of a query that removes messages of a setting that it cannot see."""
        if not self._has_begun and self._options.mode != "peek":
            _log.warning(
                "the mode %s removes the messages of a batch when Spark has recorded the batch as done: do not set the "
                "option asyncProgressTrackingEnabled of writeStream; a source cannot check this option",
                self._options.mode,
            )
        self._has_begun = True

    def _limits(self, limit: ReadLimit) -> Limits:
        """The limits of a batch: the one that Spark passes, and the other one from the options."""
        rate = self._options.rate
        if isinstance(limit, ReadMaxRows):
            return Limits(limit.max_rows, rate.max_bytes or UNSET)
        if isinstance(limit, ReadMaxBytes):
            return Limits(rate.max_messages or UNSET, limit.max_bytes)
        return Limits()

    def _is_too_early(self, count: int) -> bool:
        """True if the batch waits for more messages than these."""
        rate = self._options.rate
        return count < rate.min_messages and time.monotonic() - self._last_data < rate.max_delay_s

    def _handed_out(self, offset: Json) -> Json:
        self._last = offset
        self._last_data = time.monotonic()
        return offset


def check_for_stream(options: ReadOptions) -> None:
    if options.end != "latest":
        raise InvalidParameter(
            "the options `endingOffsets` and `endingTimestamp` are only for batch reads: a stream has no end"
        )
    if options.mode == "claim" and options.endpoint.kind != "daemon":
        raise InvalidParameter(
            "the mode `claim` requires a Waypost daemon: set the option `server`, or use another mode"
        )


def check_is_committed(options: ReadOptions, batch: GoneBatch) -> None:
    """Raise MessageNotFound in a task unless its query has committed all of the present batch at this daemon."""
    task = query_task()
    if task is None:
        raise MessageNotFound(batch.reason)
    with closing(open_origin(options.endpoint)) as origin:
        found = origin.batches(task.query)
    if task.batch in (found.batches if batch.is_done else found.whole):
        _log.warning(
            "batch %d of the query %s was committed before, and its messages are removed: the batch is not written "
            "again",
            task.batch,
            task.query,
        )
        return
    reason = batch.reason
    if task.batch in found.batches:
        reason += (
            f"; a function of foreachBatch has committed writes of batch {task.batch}, but perhaps not all writes: "
            "check the destinations first"
        )
    raise MessageNotFound(reason)
