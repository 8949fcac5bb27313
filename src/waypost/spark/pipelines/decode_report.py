"""The report on decoded packets: their classes, destinations and bodies, and the malformed packets."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from waypost.spark.pipelines import in_memory
from waypost.spark.pipelines.decode import Counts, count
from waypost.spark.pipelines.expressions import Listed, Row
from waypost.spark.pipelines.report import Column, Figure, Kind, Part, Report, Section, Table, Tone
from waypost.wire.message_class import meaning

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


def report(decoded: DataFrame | pa.Table, *, origin: str = "") -> tuple[Report, bool]:
    """Make the report, and say whether all files were read to their end.

    The rows must have all columns of `decoded`; they are read once. A table in memory needs no Spark.
    """
    counts = in_memory.count(decoded) if isinstance(decoded, pa.Table) else count(decoded)
    return _report(counts, origin), not counts.failed.total


def _report(counts: Counts, origin: str) -> Report:
    good, bad, failed = counts.good, counts.bad, counts.failed
    figures = [
        Figure("Messages", good),
        Figure("Malformed", bad, tone=Tone.of_problems(bad)),
        Figure("Queues", counts.queues.total, note="destinations"),
    ]
    if failed.total:
        figures.append(Figure("Files", failed.total, note="not read to the end", tone=Tone.BAD))
    contents: list[Part] = [_classes(counts.classes), _table(counts.queues, "queues", "Destinations", _QUEUES)]
    if counts.kinds is not None:
        contents.append(_table(counts.kinds, "kinds", "Bodies", _KINDS))
    sections = [Section("Messages", "", contents)]
    problems: list[Part] = []
    if bad:
        problems.append(_table(counts.errors, "malformed", "Malformed packets", _ERRORS))
    if failed.total:
        problems.append(_table(failed, "files", "Files", _FILES))
    if problems:
        sections.append(Section("Problems", "", problems))
    return Report("Decoded packets", _summary(good, bad, failed), figures, sections, origin)


def _summary(good: int, bad: int, failed: Listed) -> str:
    told = f"{_told(good, 'message was', 'messages were')} decoded; {_told(bad, 'packet is', 'packets are')} malformed"
    if not failed.total:
        return f"{told}."
    names = ", ".join(row["file"] for row in failed.rows[:NAMED])
    more = f" and {failed.total - NAMED:,} more" if failed.total > NAMED else ""
    return f"{told}; the command could not read these files to their end: {names}{more}."


def _told(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _table(listed: Listed, name: str, title: str, columns: Sequence[Column]) -> Table:
    return Table.of(name, title, columns, listed.rows, total=listed.total)


def _classes(found: Listed) -> Table:
    return Table.of("classes", "Classes", _CLASSES, [_class(row) for row in found.rows], total=found.total)


def _class(row: Row) -> dict[str, object]:
    number = row["message_class"]
    return {"message_class": f"0x{number:04X}", "meaning": meaning(number), "packets": row["packets"]}
