"""The report of an inventory."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.inventory import arrivals, bucket_for, inventory, kinds, priorities, streams, talkers
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_values import in_utc, shown

DRAWN: Final = 12
LISTED: Final = 1000

_QUEUE: Final = Column("queue", "Queue", Kind.CODE)
_PRIORITY: Final = Column("priority", "Priority", Kind.COUNT)
_AMOUNT: Final = (Column("messages", "Messages", Kind.COUNT), Column("bytes", "Bytes", Kind.BYTES))
_QUEUES: Final = (
    _QUEUE,
    *_AMOUNT,
    Column("size_p50", "Median size", Kind.BYTES),
    Column("size_max", "Max", Kind.BYTES),
    Column("senders", "Senders", Kind.COUNT),
    Column("transactional", "Transactional", Kind.COUNT),
    Column("express", "Express", Kind.COUNT),
    Column("malformed", "Malformed", Kind.COUNT),
)
_AGES: Final = (
    _QUEUE,
    Column("oldest", "Oldest", Kind.TIME),
    Column("newest", "Newest", Kind.TIME),
    Column("age_p50", "Age 50%", Kind.SECONDS),
    Column("age_p95", "95%", Kind.SECONDS),
    Column("age_max", "Max", Kind.SECONDS),
    Column("per_hour", "Per hour", Kind.NUMBER),
)
_STREAMS: Final = (
    _QUEUE,
    Column("source_qm", "Source", Kind.GUID),
    Column("transactions", "Transactions", Kind.COUNT),
    Column("messages", "Messages", Kind.COUNT),
    Column("duplicates", "Duplicates", Kind.COUNT),
    Column("out_of_order", "Out of order", Kind.COUNT),
    Column("cut_at_start", "Without start", Kind.COUNT),
    Column("cut_at_end", "Without end", Kind.COUNT),
)


def report(messages: DataFrame, now: datetime | None = None, origin: str = "") -> Report:
    """Report on the messages. They are read once, and their bodies are not kept."""
    now = now or datetime.now(UTC)
    kept = messages.drop("body", "packet", "extension", "body_text").persist()
    try:
        queues = inventory(kept, now).collect()
        checked = streams(kept).collect() if any(queue["transactional"] for queue in queues) else []
        sections = [
            Section("Queues", "", [*_sizes(queues), _table("queues", "Amounts", _QUEUES, queues)]),
            Section("Time", "From the arrival of a message.", _times(kept, queues)),
            Section("Contents", "", _contents(kept)),
            *_checks(checked),
        ]
        return Report("Inventory of queues", _summary(queues), _figures(queues, checked), sections, origin, now)
    finally:
        kept.unpersist()


def _summary(queues: Sequence[Row]) -> str:
    count, size = (sum(queue[name] for queue in queues) for name in ("messages", "bytes"))
    if not count:
        return "No messages were found."
    oldest = max((queue["age_max"] for queue in queues if queue["age_max"] is not None), default=None)
    told = f"{count:,} messages of {shown(size, Kind.BYTES)} in {_queues(len(queues))}"
    return f"{told}." if oldest is None else f"{told}; the oldest is {shown(oldest, Kind.SECONDS)} old."


def _figures(queues: Sequence[Row], checked: Sequence[Row]) -> list[Figure]:
    def total(name: str, rows: Sequence[Row] = queues) -> int:
        return sum(row[name] for row in rows)

    found = [
        Figure("Messages", total("messages"), note=f"in {_queues(len(queues))}"),
        Figure("Bodies", total("bytes"), Kind.BYTES),
        Figure("Greatest", max((row["size_max"] or 0 for row in queues), default=0), Kind.BYTES, "of one body"),
        Figure("Oldest", max((row["age_max"] or 0 for row in queues), default=0), Kind.SECONDS),
        Figure("Transactional", total("transactional")),
        Figure("Express", total("express"), note="kept in memory only" if total("express") else ""),
    ]
    if total("malformed"):
        found.append(Figure("Malformed", total("malformed"), tone=Tone.BAD))
    if checked:
        wrong = total("duplicates", checked) + total("out_of_order", checked)
        found.append(Figure("Stream errors", wrong, note="duplicates and out of order", tone=Tone.of_problems(wrong)))
    return found


def _queues(count: int) -> str:
    return f"{count:,} queue" if count == 1 else f"{count:,} queues"


def _sizes(queues: Sequence[Row]) -> list[Part]:
    most = queues[:DRAWN]
    if len(most) < 2:
        return []
    values = {row["queue"] or "?": row["messages"] for row in most}
    text = f"Messages in the {len(most)} fullest of {len(queues):,} queues."
    return [plots.bars("messages", "Messages by queue", values, text=text)]


def _times(messages: DataFrame, queues: Sequence[Row]) -> list[Part]:
    known = [row for row in queues if row["oldest"] is not None]
    parts: list[Part] = [_table("ages", "Ages", _AGES, queues)]
    if not known:
        return parts
    span = max(in_utc(row["newest"]) for row in known) - min(in_utc(row["oldest"]) for row in known)
    bucket = bucket_for(span.total_seconds())
    found = arrivals(messages, bucket).collect()
    text = f"Messages that arrived in each {shown(bucket, Kind.SECONDS)}."
    starts, counts = [in_utc(row["start"]) for row in found], [row["messages"] for row in found]
    columns = (Column("start", "From", Kind.TIME), *_AMOUNT)
    return [
        plots.columns("arrivals", "Arrivals", starts, counts, width_s=bucket, text=text),
        *parts,
        replace(_table("arrivals", f"Arrivals in each {shown(bucket, Kind.SECONDS)}", columns, found), most=10),
    ]


def _contents(messages: DataFrame) -> list[Part]:
    bodies = kinds(messages)
    by_kind = bodies.groupBy("kind").agg(sf.sum("messages").alias("messages")).orderBy(sf.desc("messages"), "kind")
    most = {row["kind"] or "?": row["messages"] for row in by_kind.limit(DRAWN).collect()}
    return [
        plots.bars("kinds", "Kinds of bodies", most, text="Messages by kind of body."),
        _cut("kinds", "Bodies by queue", (_QUEUE, Column("kind", "Kind"), *_AMOUNT), bodies),
        _cut("talkers", "Senders", (Column("source_qm", "Source", Kind.GUID), _QUEUE, *_AMOUNT), talkers(messages)),
        _cut("priorities", "Priorities", (_QUEUE, _PRIORITY, *_AMOUNT), priorities(messages)),
    ]


def _checks(checked: Sequence[Row]) -> list[Section]:
    if not checked:
        return []
    notes: list[Part] = []
    if any(row["duplicates"] or row["out_of_order"] for row in checked):
        notes.append(Note("Messages are duplicated, or come after a later one of their transaction.", Tone.BAD))
    if any(row["cut_at_start"] or row["cut_at_end"] for row in checked):
        notes.append(
            Note(
                "A transaction without its first messages is usual while an application receives them; one without its "
                "last message is not."
            )
        )
    text = "Transactional messages arrive once and in order. They are checked by queue and source."
    return [Section("Transactional streams", text, [*notes, _table("streams", "Checks", _STREAMS, checked)])]


def _table(name: str, title: str, columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    return Table.of(name, title, columns, [row.asDict() for row in rows])


def _cut(name: str, title: str, columns: Sequence[Column], found: DataFrame) -> Table:
    """A table of the first rows, with the number of all rows."""
    rows = found.limit(LISTED).collect()
    total = found.count() if len(rows) == LISTED else None
    return replace(_table(name, title, columns, rows), total=total)
