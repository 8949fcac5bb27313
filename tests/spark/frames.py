"""Messages as DataFrames, for tests of pipelines: only what a test is about is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waypost.arrow.schema import DEFAULT
from waypost.guid import guid_text
from waypost.wire.identifiers import MessageIdentifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row, SparkSession


START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALPHA, BETA, GAMMA, DELTA = (bytes([number]) * 16 for number in (0x1A, 0x2B, 0x3C, 0x4D))
ORDERS = r"DIRECT=OS:beta\private$\orders"
BILLS = r"DIRECT=OS:gamma\private$\bills"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def message_id(ordinal: int, manager: bytes = ALPHA) -> bytes:
    return MessageIdentifier(manager, ordinal).encode()


def frame(spark: SparkSession, records: Sequence[dict[str, Any]]) -> DataFrame:
    """All columns of a message; null where a record says nothing."""
    return spark.createDataFrame(pa.Table.from_pylist(list(records), schema=DEFAULT))


def sent(ordinal: int, seconds: float = 0, queue: str = ORDERS, **values: Any) -> dict[str, Any]:
    """A message in a journal, sent so many seconds after the start, that asks for all acknowledgments."""
    return {
        "message_id": message_id(ordinal),
        "message_class": 0,
        "source_qm": guid_text(ALPHA),
        "dest_queue": queue,
        "label": f"order {ordinal}",
        "sent_time": at(seconds),
        "acknowledge": 0x0F,
    } | values


def word(ordinal: int, message_class: int, seconds: float, **values: Any) -> dict[str, Any]:
    """An acknowledgment."""
    return {"correlation_id": message_id(ordinal), "message_class": message_class, "sent_time": at(seconds)} | values


def by_id(rows: Sequence[Row]) -> dict[int, Row]:
    """The rows by the ordinal of their message."""
    return {int.from_bytes(row["message_id"][16:], "little"): row for row in rows}
