"""The reports of a run of the archive, and of its verification."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.archive import Outcome
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import shown

DRAWN: Final = 12
_DAYS: Final = (
    Column("queue", "Queue", Kind.CODE),
    Column("date", "Day"),
    Column("messages", "Messages", Kind.COUNT),
    Column("malformed", "Malformed", Kind.COUNT),
    Column("bytes", "Packets", Kind.BYTES),
    Column("files", "Files", Kind.COUNT),
    Column("batches", "Batches", Kind.COUNT),
    Column("first_seq", "First", Kind.CODE),
    Column("last_seq", "Last", Kind.CODE),
)
_PROBLEMS: Final = (
    Column("path", "File", Kind.CODE),
    Column("queue", "Queue", Kind.CODE),
    Column("date", "Day"),
    Column("problem", "Problem"),
)


def report(outcome: Outcome, *, origin: str = "") -> Report:
    """The report on the messages that a run archived, by queue and day."""
    days = outcome.days
    messages, size = _total(days, "messages"), _total(days, "bytes")
    queues = len({day["queue"] for day in days})
    stored = outcome.stored_bytes
    summary = (
        f"{messages:,} messages of {_queues(queues)} are in {outcome.path}."
        if messages
        else f"The queues have no new messages for {outcome.path}."
    )
    figures = [
        Figure("Messages", messages, note=f"of {_queues(queues)}"),
        Figure("Packets", size, Kind.BYTES),
        Figure(
            "Files", stored, Kind.BYTES, note=f"{size / stored:.1f} times smaller" if stored and size > stored else ""
        ),
        Figure("Batches", outcome.batches),
    ]
    malformed = _total(days, "malformed")
    if malformed:
        figures.append(Figure("Malformed", malformed, note="archived unchanged", tone=Tone.WARNING))
    parts: list[Part] = [Table.of("days", "By queue and day", _DAYS, days)]
    by_queue: dict[str, int] = {}
    for day in days:
        by_queue[day["queue"]] = by_queue.get(day["queue"], 0) + day["messages"]
    if len(by_queue) > 1:
        most = dict(sorted(by_queue.items(), key=lambda item: -item[1])[:DRAWN])
        parts.insert(0, plots.bars("queues", "Messages by queue", most, text="Archived messages by queue."))
    return Report("Archive", summary, figures, [Section("Archived messages", "", parts)], origin)


def verification(path: str, files: int, problems: Sequence[Mapping[str, Any]]) -> Report:
    """The report on a verification of all files."""
    count = len({row["path"] for row in problems})
    summary = (
        f"{count:,} of {files:,} files of {path} do not match their manifests."
        if problems
        else f"All {files:,} files of {path} match their manifests."
    )
    figures = [Figure("Files", files), Figure("Wrong", count, tone=Tone.of_problems(count))]
    parts: list[Part] = [Table.of("problems", "Files", _PROBLEMS, problems)] if problems else []
    if problems:
        parts.insert(0, Note("A replay does not send the messages in missing files.", Tone.BAD))
    return Report("Archive verification", summary, figures, [Section("Differences", "", parts)] if parts else [], path)


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _queues(count: int) -> str:
    return f"{shown(count, Kind.COUNT)} queue{'' if count == 1 else 's'}"
