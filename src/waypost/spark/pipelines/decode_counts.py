"""Count decoded packets: by class, destination and body, the malformed packets, and the files that failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

LISTED: Final = 1000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """The first rows, and the number of all rows."""

    rows: Sequence[Row]
    total: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Listed":
        return cls(rows[:LISTED], len(rows))


@dataclass(frozen=True, slots=True)
class Counts:
    """The messages and the malformed packets; `kinds` is None if bodies were not decoded."""

    good: int
    bad: int
    classes: Listed
    queues: Listed
    kinds: Listed | None
    errors: Listed
    failed: Listed


def count(decoded: DataFrame) -> Counts:
    """Count the rows of a DataFrame with all columns of `decoded`; they are read once."""
    kept = decoded.drop("body", "packet", "extension", "body_text").persist()
    try:
        packets = kept.where("file_error is null") if "file_error" in kept.columns else kept
        sound, malformed = packets.where("packet_error is null"), packets.where("packet_error is not null")
        return Counts(
            good=sound.count(),
            bad=malformed.count(),
            classes=_counted(sound, "message_class"),
            queues=_queues(sound),
            kinds=_counted(sound, "body_kind") if "body_kind" in kept.columns else None,
            errors=_counted(malformed, "packet_error"),
            failed=_failed(kept),
        )
    finally:
        kept.unpersist()


def _listed(ordered: DataFrame) -> Listed:
    rows = [row.asDict() for row in ordered.limit(LISTED).collect()]
    return Listed(rows, len(rows) if len(rows) < LISTED else ordered.count())


def _failed(rows: DataFrame) -> Listed:
    if "file_error" not in rows.columns:
        return Listed([], 0)
    return _listed(rows.where("file_error is not null").select("file", "file_error").orderBy("file"))


def _counted(rows: DataFrame, name: str) -> Listed:
    found = rows.groupBy(name).agg(sf.count("*").alias("packets"))
    return _listed(found.orderBy(sf.desc("packets"), name))


def _queues(rows: DataFrame) -> Listed:
    found = rows.groupBy("dest_queue").agg(
        sf.count("*").alias("packets"),
        sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
        sf.countDistinct("source_qm").alias("senders"),
        sf.min("sent_time").alias("first"),
        sf.max("sent_time").alias("last"),
    )
    return _listed(found.orderBy(sf.desc("packets"), "dest_queue"))
