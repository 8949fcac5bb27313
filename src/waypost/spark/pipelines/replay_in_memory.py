"""Replay from an archive on a disk, in this process, without Spark: for small archives, in seconds.

    library = TableLibrary("/archive")
    for sent in replay(plan_of(library, wanted, name="one"), TableSink({"server": "other"})):
        print(sent)

The plan, its chunks and their transactions are those of waypost.spark.pipelines.replay: each engine continues the
replays of the other. Messages are Arrow tables.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from waypost.arrow.schema import ALL
from waypost.spark.pipelines.in_memory import grouped, like, ordered, rows_of
from waypost.spark.pipelines.manifest import digest_of
from waypost.spark.pipelines.notes import DiskNotes, Line, Notes
from waypost.spark.pipelines.reading import read_archive_table
from waypost.spark.pipelines.replay import COLUMNS, DIGESTED, Chunk, Plan, Wanted
from waypost.spark.pipelines.sending import SENT


@dataclass(slots=True)
class TableLibrary:
    """An archive on a disk of this computer. It keeps the messages that it has read last: chunks follow each other."""

    path: str
    _last: tuple[Wanted, frozenset[str] | None, Any] | None = field(default=None, init=False)

    @property
    def notes(self) -> Notes:
        return DiskNotes(self.path)

    def messages(self, wanted: Wanted, *, batches: Collection[str] | None = None) -> Any:
        key = None if batches is None else frozenset(batches)
        if self._last is None or self._last[:2] != (wanted, key):
            self._last = wanted, key, chosen(read_archive_table(self.path, COLUMNS, batches=batches), wanted)
        return self._last[2]

    def divided(self, messages: Any, size: int) -> list[Chunk]:
        rows = rows_of(messages.select(["batch", "queue", "seq", *DIGESTED]))
        found: list[Line] = []
        for (batch, queue), each in grouped(rows, lambda row: (row["batch"], row["queue"])).items():
            in_order = ordered(each, "seq")
            for start in range(0, len(in_order), size):
                some = in_order[start : start + size]
                found.append(
                    {
                        "batch": batch,
                        "queue": queue,
                        "first_seq": some[0]["seq"],
                        "last_seq": some[-1]["seq"],
                        "messages": len(some),
                        "digest": _digest(some),
                    }
                )
        in_order = ordered(found, "first_seq", "queue", "batch")
        return [Chunk(number, **row) for number, row in enumerate(in_order)]

    def of_chunk(self, messages: Any, chunk: Chunk) -> Any:
        is_in_it = pc.and_(
            pc.equal(messages["queue"], chunk.queue),
            pc.and_(pc.greater_equal(messages["seq"], chunk.first_seq), pc.less_equal(messages["seq"], chunk.last_seq)),
        )
        return messages.filter(is_in_it).sort_by("seq")


def chosen(archived: Any, wanted: Wanted) -> Any:
    """See waypost.spark.pipelines.replay.Wanted.of."""
    is_of_queue, has_label = like(wanted.queue), like(wanted.label_pattern)

    def is_chosen(row: Line) -> bool:
        came = row["arrived_time"]
        return (
            row["packet_error"] is None
            and is_of_queue(row["queue"])
            and has_label(row["label"])
            and (wanted.since is None or (came is not None and came >= wanted.since))
            and (wanted.until is None or (came is not None and came < wanted.until))
        )

    looked_at = rows_of(archived.select(["packet_error", "queue", "label", "arrived_time", "dest_queue"]))
    is_it = [is_chosen(row) for row in looked_at]
    rows = [row for row, each in zip(looked_at, is_it, strict=True) if each]
    found = archived.filter(pa.array(is_it, pa.bool_()))
    changed = {
        "dest_queue": [wanted.destination(row["queue"], row["dest_queue"]) for row in rows],
        "label": [wanted.new_label(row["label"]) for row in rows],
    }
    for name, values in changed.items():
        found = found.set_column(found.schema.get_field_index(name), name, pa.array(values, ALL.field(name).type))
    return found.select(["batch", "queue", "seq", *SENT])


def found_there(plan: Plan, read: Callable[[str], Any]) -> list[Line]:
    """See waypost.spark.pipelines.replay.found_there."""
    outgoing = plan.library.messages(plan.wanted, batches={chunk.batch for chunk in plan.chunks})
    rows = rows_of(outgoing.select(DIGESTED))
    found = []
    for name, sent in grouped(rows, lambda row: row["dest_queue"]).items():
        there = read(name)
        copies = None if there is None else Counter(_contents(rows_of(there)))
        matched = None if copies is None else (Counter(_contents(sent)) & copies).total()
        found.append({"dest_queue": name, "messages": len(sent), "digest": _digest(sent), "found": matched})
    return ordered(found, "dest_queue")


def _contents(rows: Sequence[Line]) -> Iterator[bytes]:
    """The contents that can be found: a message without a label or a body equals no other."""
    for row in rows:
        if row["label"] is not None and row["body"] is not None:
            yield sha256(sha256(row["label"].encode()).digest() + row["body"]).digest()


def _digest(rows: Sequence[Line]) -> str:
    return digest_of(tuple(row[name] for name in DIGESTED) for row in rows)
