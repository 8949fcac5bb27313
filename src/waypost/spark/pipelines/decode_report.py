"""The report on decoded packets: their classes, destinations and bodies, and the malformed packets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from waypost.spark.pipelines.report import Column, Figure, Kind, Part, Report, Section, Table, Tone
from waypost.wire.message_class import meaning

LISTED: Final = 1000
# Largest number of files that the summary names.
NAMED: Final = 3
_COUNT: Final = Column("packets", "Packets", Kind.COUNT)
_CLASSES: Final = (Column("message_class", "Class", Kind.CODE), Column("meaning", "Meaning"), _COUNT)
_QUEUES: Final = (
    Column("dest_queue", "Sent to", Kind.CODE),
    _COUNT,
    Column("bytes", "Bodies", Kind.BYTES),
    Column("senders", "Senders", Kind.COUNT),
    Column("first", "First", Kind.TIME),
    Column("last", "Last", Kind.TIME),
)
_KINDS: Final = (Column("body_kind", "Body"), _COUNT)
_ERRORS: Final = (Column("packet_error", "Reason"), _COUNT)
_FILES: Final = (Column("file", "File", Kind.CODE), Column("file_error", "Problem"))


@dataclass(frozen=True, slots=True)
class _Listed:
    """The first rows, and the number of all rows."""

    rows: Sequence[Row]
    total: int

    @classmethod
    def of(cls, ordered: DataFrame) -> "_Listed":
        rows = ordered.limit(LISTED).collect()
        return cls(rows, len(rows) if len(rows) < LISTED else ordered.count())

    def table(self, name: str, title: str, columns: Sequence[Column]) -> Table:
        return Table.of(name, title, columns, [row.asDict() for row in self.rows], total=self.total)


def report(decoded: DataFrame, *, origin: str = "") -> tuple[Report, bool]:
    """Make the report, and say whether all files were read to their end.

    The rows must have all columns of `decoded`; they are read once.
    """
    kept = decoded.drop("body", "packet", "extension", "body_text").persist()
    try:
        failed = _failed(kept)
        return _report(kept, failed, origin), not failed.total
    finally:
        kept.unpersist()


def _report(rows: DataFrame, failed: _Listed, origin: str) -> Report:
    packets = rows.where("file_error is null") if "file_error" in rows.columns else rows
    sound, malformed = packets.where("packet_error is null"), packets.where("packet_error is not null")
    good, bad = sound.count(), malformed.count()
    queues = _queues(sound)
    figures = [
        Figure("Messages", good),
        Figure("Malformed", bad, tone=Tone.of_problems(bad)),
        Figure("Queues", queues.total, note="destinations"),
    ]
    if failed.total:
        figures.append(Figure("Files", failed.total, note="not read to their end", tone=Tone.BAD))
    contents: list[Part] = [_classes(sound), queues.table("queues", "Destinations", _QUEUES)]
    if "body_kind" in rows.columns:
        contents.append(_counted(sound, "body_kind").table("kinds", "Bodies", _KINDS))
    sections = [Section("Messages", "", contents)]
    problems: list[Part] = []
    if bad:
        problems.append(_counted(malformed, "packet_error").table("malformed", "Malformed packets", _ERRORS))
    if failed.total:
        problems.append(failed.table("files", "Files", _FILES))
    if problems:
        sections.append(Section("Problems", "", problems))
    return Report("Decoded packets", _summary(good, bad, failed), figures, sections, origin)


def _summary(good: int, bad: int, failed: _Listed) -> str:
    told = f"{_told(good, 'message was', 'messages were')} decoded; {_told(bad, 'packet is', 'packets are')} malformed"
    if not failed.total:
        return f"{told}."
    names = ", ".join(row["file"] for row in failed.rows[:NAMED])
    more = f" and {failed.total - NAMED:,} more" if failed.total > NAMED else ""
    return f"{told}; not read to the end: {names}{more}."


def _told(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _failed(rows: DataFrame) -> _Listed:
    if "file_error" not in rows.columns:
        return _Listed([], 0)
    return _Listed.of(rows.where("file_error is not null").select("file", "file_error").orderBy("file"))


def _counted(rows: DataFrame, name: str) -> _Listed:
    found = rows.groupBy(name).agg(sf.count("*").alias("packets"))
    return _Listed.of(found.orderBy(sf.desc("packets"), name))


def _queues(rows: DataFrame) -> _Listed:
    found = rows.groupBy("dest_queue").agg(
        sf.count("*").alias("packets"),
        sf.coalesce(sf.sum("body_size"), sf.lit(0)).alias("bytes"),
        sf.countDistinct("source_qm").alias("senders"),
        sf.min("sent_time").alias("first"),
        sf.max("sent_time").alias("last"),
    )
    return _Listed.of(found.orderBy(sf.desc("packets"), "dest_queue"))


def _classes(rows: DataFrame) -> Table:
    found = _counted(rows, "message_class")
    return Table.of("classes", "Classes", _CLASSES, [_class(row) for row in found.rows], total=found.total)


def _class(row: Row) -> dict[str, object]:
    number = row["message_class"]
    return {"message_class": f"0x{number:04X}", "meaning": meaning(number), "packets": row["packets"]}
