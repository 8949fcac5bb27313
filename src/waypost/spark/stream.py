"""What the stream readers share: their origin, and how much a trigger may take."""

import time
from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET, UnsetType
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from waypost.api.bulk import BulkQueue
from waypost.errors import InvalidParameter, QueueNotFound
from waypost.spark.offsets import Json
from waypost.spark.options import ReadOptions
from waypost.spark.origin import Origin
from waypost.spark.origins import open_origin
from waypost.spark.ranges import chosen
from waypost.spark.schema import Shape
from waypost.spark.shipping import Shipped


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may take; UNSET is everything."""

    max_messages: int | UnsetType = UNSET
    max_bytes: int | UnsetType = UNSET


class MessageStream(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver has one for as long as the query runs; executors get copies that only read."""

    def __init__(self, options: ReadOptions, shape: Shape) -> None:
        self._options: Final = options
        self._shape: Final = shape
        self._opened: Origin | None = None
        self._initial: Json | None = None
        # What the options have named, once somebody has looked.
        self._named: list[BulkQueue] | None = None
        # The last offset that was handed out, to tell how much is behind it.
        self._last: Json | None = None
        self._last_data: float = time.monotonic()

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

    def _chosen(self) -> list[BulkQueue]:
        """The queues that are read. A query that starts again may name others than before; a pattern finds others at
        any time. Nothing, for who has places of them already, if one that is named is gone.
        """
        if self._options.pattern is not None:
            return chosen(self._origin, self._options)
        if self._named is None:
            try:
                self._named = chosen(self._origin, self._options)
            except QueueNotFound:
                self._named = []
        return self._named

    @property
    def _origin(self) -> Origin:
        if self._opened is None:
            self._opened = open_origin(self._options.endpoint)
        return self._opened

    def _limits(self, limit: ReadLimit) -> Limits:
        """Spark hands over one limit at a time; the other one is ours to add."""
        rate = self._options.rate
        if isinstance(limit, ReadMaxRows):
            return Limits(limit.max_rows, rate.max_bytes or UNSET)
        if isinstance(limit, ReadMaxBytes):
            return Limits(rate.max_messages or UNSET, limit.max_bytes)
        return Limits()

    def _is_too_early(self, count: int) -> bool:
        """Whether to wait for more messages than these."""
        rate = self._options.rate
        return count < rate.min_messages and time.monotonic() - self._last_data < rate.max_delay_s

    def _handed_out(self, offset: Json) -> Json:
        self._last = offset
        self._last_data = time.monotonic()
        return offset


def check_for_stream(options: ReadOptions) -> None:
    if options.end != "latest":
        raise InvalidParameter("the options endingOffsets and endingTimestamp are for batch reads: a stream has no end")
    if options.mode == "claim" and options.endpoint.kind != "daemon":
        raise InvalidParameter("the mode claim needs a Waypost daemon: give the option server, or read in another mode")
