"""The report on packets that were decoded: what they are, and which are none."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from waypost.spark.pipelines.report import Column, Figure, Kind, Part, Report, Section, Table, Tone
from waypost.wire.message_class import meaning

LISTED: Final = 1000
_COUNT: Final = Column("packets", "Packets", Kind.COUNT)
_CLASSES: Final = (Column("message_class", "Class", Kind.CODE), Column("meaning", "What it says"), _COUNT)
_QUEUES: Final = (
    Column("dest_queue", "Sent to", Kind.CODE),
    _COUNT,
    Column("bytes", "Bodies", Kind.BYTES),
    Column("senders", "Senders", Kind.COUNT),
    Column("first", "First", Kind.TIME),
    Column("last", "Last", Kind.TIME),
)
_KINDS: Final = (Column("body_kind", "Body"), _COUNT)
_ERRORS: Final = (Column("packet_error", "Why"), _COUNT)
_FILES: Final = (Column("file", "File", Kind.CODE), Column("file_error", "Problem"))


def report(decoded: DataFrame, *, origin: str = "") -> Report:
    """Looks at the packets once. The rows are those of `decoded` with all columns."""
    kept = decoded.drop("body", "packet", "extension", "body_text").persist()
    try:
        return _report(kept, origin)
    finally:
        kept.unpersist()


def _report(rows: DataFrame, origin: str) -> Report:
    failed = _failed(rows)
    packets = rows.where("file_error is null") if "file_error" in rows.columns else rows
    sound = packets.where("packet_error is null")
    classes = _counted(sound, sf.col("message_class"), "message_class")
    errors = _counted(packets.where("packet_error is not null"), sf.col("packet_error"), "packet_error")
    queues = _queues(sound)
    good, bad = (sum(row["packets"] for row in found) for found in (classes, errors))
    figures = [
        Figure("Messages", good),
        Figure("Malformed", bad, tone=Tone.of_problems(bad)),
        Figure("Queues", len(queues), note="that they are for"),
    ]
    if failed:
        figures.append(Figure("Files", len(failed), note="could not be read to their end", tone=Tone.BAD))
    contents: list[Part] = [
        Table.of("classes", "Classes", _CLASSES, [_class(row) for row in classes]),
        _table("queues", "Destinations", _QUEUES, queues),
    ]
    if "body_kind" in rows.columns:
        contents.append(_table("kinds", "Bodies", _KINDS, _counted(sound, sf.col("body_kind"), "body_kind")))
    sections = [Section("Messages", "", contents)]
    problems: list[Part] = []
    if errors:
        problems.append(_table("malformed", "Malformed packets", _ERRORS, errors))
    if failed:
        problems.append(_table("files", "Files", _FILES, failed))
    if problems:
        sections.append(Section("Problems", "", problems))
    told = f"{_told(good, 'message was', 'messages were')} decoded; {_told(bad, 'packet is', 'packets are')} malformed."
    return Report("Decoded packets", told, figures, sections, origin)


def _told(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _failed(rows: DataFrame) -> list[Row]:
    if "file_error" not in rows.columns:
        return []
    return rows.where("file_error is not null").select("file", "file_error").orderBy("file").limit(LISTED).collect()


def _counted(rows: DataFrame, value: SparkColumn, name: str) -> list[Row]:
    found = rows.groupBy(value.alias(name)).agg(sf.count("*").alias("packets"))
    return found.orderBy(sf.desc("packets"), name).limit(LISTED).collect()


def _queues(rows: DataFrame) -> list[Row]:
    found = rows.groupBy("dest_queue").agg(
        sf.count("*").alias("packets"),
        sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
        sf.countDistinct("source_qm").alias("senders"),
        sf.min("sent_time").alias("first"),
        sf.max("sent_time").alias("last"),
    )
    return found.orderBy(sf.desc("packets"), "dest_queue").limit(LISTED).collect()


def _class(row: Row) -> dict[str, object]:
    number = row["message_class"]
    return {"message_class": f"0x{number:04X}", "meaning": meaning(number), "packets": row["packets"]}


def _table(name: str, title: str, columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    return Table.of(name, title, columns, [row.asDict() for row in rows])
