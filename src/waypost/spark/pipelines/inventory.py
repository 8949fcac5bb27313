"""Inventory of queues before an operation on them: number, size, age, kind and senders of messages.

Ages and rates count from the arrival of a message; if that is unknown, as in a capture, from the time it was sent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from waypost.spark.pipelines.expressions import (
    Listed,
    listed,
    moment,
    ordinal,
    percentile,
    records,
    seconds_between,
)
from waypost.spark.pipelines.report_parts import in_utc

# Largest number of bars in a drawing.
DRAWN: Final = 12

# Spans of time for a picture, in seconds. It has few columns, so that a long time needs long spans.
BUCKETS: Final = (60, 300, 900, 3_600, 10_800, 43_200, 86_400, 604_800, 2_592_000)
_MOST_BUCKETS: Final = 120

# Variant types, and 0x300 for the BinaryMessageFormatter.
_BODY_TYPES: Final = {
    "untyped": (0,),
    "string": (8, 30, 31),
    "integer": (2, 3, 16, 17, 18, 19, 20, 21),
    "float": (4, 5),
    "currency": (6,),
    "date": (7,),
    "boolean": (11,),
    "guid": (72,),
    "bytes": (0x1011, 0x2011),
    "object": (68, 69),
    "net-binary": (0x300,),
}


@dataclass(frozen=True, slots=True)
class Stock:
    """The results of an inventory, which Spark or waypost.spark.pipelines.in_memory makes.

    `arrivals` are counted in spans of `bucket_s`, which is 0 if no time is known.
    """

    queues: Sequence[dict[str, Any]]
    streams: Sequence[dict[str, Any]]
    bucket_s: int
    arrivals: Sequence[dict[str, Any]]
    by_kind: Sequence[dict[str, Any]]
    kinds: Listed
    talkers: Listed
    priorities: Listed


def take_stock(messages: DataFrame, now: datetime) -> Stock:
    """Count all that a report shows. The messages are read once, and their bodies are not kept."""
    kept = messages.drop("body", "packet", "extension", "body_text").persist()
    try:
        queues = records(inventory(kept, now))
        bucket = bucket_of(queues)
        bodies = kinds(kept)
        by_kind = bodies.groupBy("kind").agg(sf.sum("messages").alias("messages"))
        return Stock(
            queues=queues,
            streams=records(streams(kept)) if any(queue["transactional"] for queue in queues) else [],
            bucket_s=bucket,
            arrivals=records(arrivals(kept, bucket)) if bucket else [],
            by_kind=records(by_kind.orderBy(sf.desc("messages"), "kind").limit(DRAWN)),
            kinds=listed(bodies),
            talkers=listed(talkers(kept)),
            priorities=listed(priorities(kept)),
        )
    finally:
        kept.unpersist()


def bucket_of(queues: Sequence[dict[str, Any]]) -> int:
    """The span of time for a picture of the arrivals in these queues; 0 if no time is known."""
    known = [row for row in queues if row["oldest"] is not None]
    if not known:
        return 0
    span = max(in_utc(row["newest"]) for row in known) - min(in_utc(row["oldest"]) for row in known)
    return bucket_for(span.total_seconds())


def inventory(messages: DataFrame, now: datetime | None = None) -> DataFrame:
    """A row for each queue: counts, sizes in bytes, ages in seconds, messages an hour, senders."""
    time, size = _time(), sf.col("body_size")
    age = seconds_between(time, moment(now or datetime.now(UTC)))
    span = seconds_between(sf.min(time), sf.max(time))
    return (
        messages.groupBy("queue")
        .agg(
            sf.count("*").alias("messages"),
            sf.coalesce(sf.sum(size), sf.lit(0)).alias("bytes"),
            percentile(size, 0.5).alias("size_p50"),
            sf.max(size).alias("size_max"),
            sf.min(time).alias("oldest"),
            sf.max(time).alias("newest"),
            percentile(age, 0.5).alias("age_p50"),
            percentile(age, 0.95).alias("age_p95"),
            sf.max(age).alias("age_max"),
            # A burst within one second has no rate.
            sf.when(span > 0, sf.count("*") * 3_600 / span).alias("per_hour"),
            sf.count_distinct("source_qm").alias("senders"),
            sf.count_if("transactional").alias("transactional"),
            sf.count_if(sf.col("delivery") == 0).alias("express"),
            sf.count_if(sf.col("message_id").isNull()).alias("malformed"),
        )
        .orderBy(sf.desc("messages"), "queue")
    )


def kinds(messages: DataFrame) -> DataFrame:
    """The kinds of bodies, by queue. The option decodeBody of the source gives more exact kinds."""
    kind = sf.col("body_kind") if "body_kind" in messages.columns else body_type_name(sf.col("body_type").cast("long"))
    return _shares(messages.withColumn("kind", kind), "queue", "kind")


def priorities(messages: DataFrame) -> DataFrame:
    return _shares(messages, "queue", "priority")


def talkers(messages: DataFrame) -> DataFrame:
    """The senders of the messages, busiest first."""
    return _shares(messages, "source_qm", "queue")


def arrivals(messages: DataFrame, bucket_s: int) -> DataFrame:
    """Number of messages and bytes that arrived in each span of time."""
    start = sf.window(_time(), f"{bucket_s} seconds")["start"]
    return (
        messages.where(_time().isNotNull())
        .groupBy(start.alias("start"))
        .agg(sf.count("*").alias("messages"), sf.sum("body_size").alias("bytes"))
        .orderBy("start")
    )


def bucket_for(span_s: float) -> int:
    """The smallest span that keeps the number of columns in a picture small."""
    return next((bucket for bucket in BUCKETS if span_s / bucket <= _MOST_BUCKETS), BUCKETS[-1])


def streams(messages: DataFrame) -> DataFrame:
    """Check the transactional messages of each queue and source.

    duplicates    further copies of messages in the queue
    out_of_order  messages that come after a later one of the same transaction
    cut_at_start  transactions without their first message: it was received already, or is missing
    cut_at_end    transactions without their last message
    """
    stream = ("queue", "source_qm")
    number = ordinal(sf.col("message_id"))
    in_transaction = Window.partitionBy(*stream, "xact_id").orderBy("seq")
    copies = sf.row_number().over(Window.partitionBy(*stream, "message_id").orderBy("seq"))
    checked = messages.where(sf.col("transactional") & sf.col("message_id").isNotNull()).select(
        *stream, "xact_id", "xact_first", "xact_last",
        (copies > 1).alias("is_copy"),
        # A copy counts as a duplicate, not also as out of order.
        ((copies == 1) & (number < sf.max(number).over(in_transaction))).alias("is_late"),
    )  # fmt: skip
    transactions = checked.groupBy(*stream, "xact_id").agg(
        sf.count("*").alias("messages"),
        sf.count_if("is_copy").alias("duplicates"),
        sf.count_if("is_late").alias("out_of_order"),
        (~sf.bool_or("xact_first")).cast("int").alias("cut_at_start"),
        (~sf.bool_or("xact_last")).cast("int").alias("cut_at_end"),
    )
    sums = ("messages", "duplicates", "out_of_order", "cut_at_start", "cut_at_end")
    return (
        transactions.groupBy(*stream)
        .agg(sf.count("*").alias("transactions"), *(sf.sum(name).alias(name) for name in sums))
        .orderBy(sf.desc(sf.col("duplicates") + sf.col("out_of_order")), sf.desc("messages"), *stream)
    )


def body_type_name(body_type: Column) -> Column:
    """The kind of a body (waypost.arrow.bodies), as far as the type alone shows it."""
    known = sf.create_map(*(sf.lit(part) for number, word in _body_types() for part in (number, word)))
    return sf.coalesce(
        sf.try_element_at(known, body_type.cast("int")), sf.concat(sf.lit("type-"), body_type.cast("string"))
    )


def body_type_word(body_type: int | None) -> str | None:
    """Like `body_type_name`, for one value."""
    return None if body_type is None else dict(_body_types()).get(body_type, f"type-{body_type}")


def _body_types() -> Iterator[tuple[int, str]]:
    for word, numbers in _BODY_TYPES.items():
        yield from ((number, word) for number in numbers)


def _time() -> Column:
    return sf.coalesce("arrived_time", "sent_time")


def _shares(messages: DataFrame, *by: str) -> DataFrame:
    return (
        messages.groupBy(*by)
        .agg(sf.count("*").alias("messages"), sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"))
        .orderBy(sf.desc("messages"), *by)
    )
