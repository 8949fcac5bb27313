"""The report of an inventory."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from waypost.spark.pipelines import in_memory, plots
from waypost.spark.pipelines.expressions import Listed
from waypost.spark.pipelines.inventory import DRAWN, Stock, take_stock
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import counted, in_utc, shown

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


def report(messages: DataFrame | pa.Table, now: datetime | None = None, origin: str = "") -> Report:
    """Report on the messages of a DataFrame or of an Arrow table. An Arrow table needs no Spark."""
    now = now or datetime.now(UTC)
    stock = in_memory.take_stock(messages, now) if isinstance(messages, pa.Table) else take_stock(messages, now)
    sections = [
        Section("Queues", "", [*_sizes(stock.queues), Table.of("queues", "Amounts", _QUEUES, stock.queues)]),
        Section("Time", "The age of a message is the time since its arrival.", _times(stock)),
        Section("Contents", "", _contents(stock)),
        *_checks(stock.streams),
    ]
    figures = _figures(stock.queues, stock.streams)
    return Report("Inventory of queues", _summary(stock.queues), figures, sections, origin, now)


def _summary(queues: Sequence[dict[str, Any]]) -> str:
    count, size = (sum(queue[name] for queue in queues) for name in ("messages", "bytes"))
    if not count:
        return "No messages were found."
    oldest = max((queue["age_max"] for queue in queues if queue["age_max"] is not None), default=None)
    verb, told = "is" if count == 1 else "are", counted(count, "message")
    found = f"{told} ({shown(size, Kind.BYTES)}) {verb} in {counted(len(queues), 'queue')}"
    return f"{found}." if oldest is None else f"{found}; the oldest message is {shown(oldest, Kind.SECONDS)} old."


def _figures(queues: Sequence[dict[str, Any]], checked: Sequence[dict[str, Any]]) -> list[Figure]:
    def total(name: str, rows: Sequence[dict[str, Any]] = queues) -> int:
        return sum(row[name] for row in rows)

    found = [
        Figure("Messages", total("messages"), note=f"in {counted(len(queues), 'queue')}"),
        Figure("Bodies", total("bytes"), Kind.BYTES),
        Figure(
            "Greatest", max((row["size_max"] or 0 for row in queues), default=0), Kind.BYTES, "size of the largest body"
        ),
        Figure("Oldest", max((row["age_max"] or 0 for row in queues), default=0), Kind.SECONDS),
        Figure("Transactional", total("transactional")),
        Figure("Express", total("express"), note="kept in memory only" if total("express") else ""),
    ]
    if total("malformed"):
        found.append(Figure("Malformed", total("malformed"), tone=Tone.BAD))
    if checked:
        wrong = total("duplicates", checked) + total("out_of_order", checked)
        note = "duplicates, and messages out of order"
        found.append(Figure("Stream errors", wrong, note=note, tone=Tone.of_problems(wrong)))
    return found


def _sizes(queues: Sequence[dict[str, Any]]) -> list[Part]:
    most = queues[:DRAWN]
    if len(most) < 2:
        return []
    values = {row["queue"] or "?": row["messages"] for row in most}
    text = f"Messages in the {len(most)} queues with the most messages, of {len(queues):,} queues in total."
    return [plots.bars("messages", "Messages by queue", values, text=text)]


def _times(stock: Stock) -> list[Part]:
    parts: list[Part] = [Table.of("ages", "Ages", _AGES, stock.queues)]
    if not stock.bucket_s:
        return parts
    span = shown(stock.bucket_s, Kind.SECONDS)
    starts, counts = [in_utc(row["start"]) for row in stock.arrivals], [row["messages"] for row in stock.arrivals]
    text = f"Messages that arrived in each {span}."
    columns = (Column("start", "From", Kind.TIME), *_AMOUNT)
    return [
        plots.columns("arrivals", "Arrivals", starts, counts, width_s=stock.bucket_s, text=text),
        *parts,
        replace(Table.of("arrivals", f"Arrivals in each {span}", columns, stock.arrivals), most=10),
    ]


def _contents(stock: Stock) -> list[Part]:
    most = {row["kind"] or "?": row["messages"] for row in stock.by_kind}
    return [
        plots.bars("kinds", "Kinds of bodies", most, text="Messages by kind of body."),
        _cut("kinds", "Bodies by queue", (_QUEUE, Column("kind", "Kind"), *_AMOUNT), stock.kinds),
        _cut("talkers", "Senders", (Column("source_qm", "Source", Kind.GUID), _QUEUE, *_AMOUNT), stock.talkers),
        _cut("priorities", "Priorities", (_QUEUE, _PRIORITY, *_AMOUNT), stock.priorities),
    ]


def _checks(checked: Sequence[dict[str, Any]]) -> list[Section]:
    if not checked:
        return []
    notes: list[Part] = []
    if any(row["duplicates"] or row["out_of_order"] for row in checked):
        notes.append(
            Note("Some messages are duplicated, or were overtaken by a later message of their transaction.", Tone.BAD)
        )
    if any(row["cut_at_start"] or row["cut_at_end"] for row in checked):
        notes.append(
            Note(
                "If an application has already received the first messages of a transaction, these messages are "
                "missing. This is normal. A transaction without its last message is not normal."
            )
        )
    text = (
        "Transactional messages must arrive exactly once and in order. The table shows whether this is true for each "
        "queue and each source."
    )
    return [Section("Transactional streams", text, [*notes, Table.of("streams", "Checks", _STREAMS, checked)])]


def _cut(name: str, title: str, columns: Sequence[Column], found: Listed) -> Table:
    """A table of the first rows, with the number of all rows."""
    return Table.of(name, title, columns, found.rows, total=found.total if found.total > len(found.rows) else None)
