"""The reports of a run of the archive, and of its verification."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.archive import Outcome
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import counted

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
        f"{counted(messages, 'message')} of {_queues(queues)} {'is' if messages == 1 else 'are'} in {outcome.path}."
        if messages
        else f"The queues contain no new messages for the archive {outcome.path}."
    )
    smaller = f"{size / stored:.1f} times smaller than the packets" if stored and size > stored else ""
    figures = [
        Figure("Messages", messages, note=f"of {_queues(queues)}"),
        Figure("Packets", size, Kind.BYTES),
        Figure("Files", stored, Kind.BYTES, note=smaller),
        Figure("Batches", outcome.batches),
    ]
    malformed = _total(days, "malformed")
    if malformed:
        figures.append(Figure("Malformed", malformed, note="malformed packets, archived unchanged", tone=Tone.WARNING))
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
    summary = f"All {files:,} files of {path} match the manifests."
    if problems:
        verb = "does" if count == 1 else "do"
        summary = f"{count:,} of {counted(files, 'file')} of {path} {verb} not match the manifests."
    elif files == 1:
        summary = f"The only file of {path} matches its manifest."
    figures = [Figure("Files", files), Figure("Wrong", count, tone=Tone.of_problems(count))]
    parts: list[Part] = [Table.of("problems", "Files", _PROBLEMS, problems)] if problems else []
    if problems:
        parts.insert(0, Note("A replay does not send messages from missing files.", Tone.BAD))
    return Report("Archive verification", summary, figures, [Section("Differences", "", parts)] if parts else [], path)


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def _queues(count: int) -> str:
    return counted(count, "queue")
