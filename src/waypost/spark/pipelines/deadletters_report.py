"""The report on dead letters: why, where to, which, how old; and what was done with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Row

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.deadletters import Done
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table
from waypost.wire.message_class import meaning

FIGURES: Final = 5
_WRONG_KIND: Final = ("not-transactional-q", "not-transactional-msg")
_REASONS: Final = (
    Column("reason", "Reason"),
    Column("meaning", "What it says"),
    Column("letters", "Letters", Kind.COUNT),
    Column("oldest", "Oldest", Kind.TIME),
)
_GROUPS: Final = (
    Column("reason", "Reason"),
    Column("dest_queue", "Destination", Kind.CODE),
    Column("label_form", "Labels"),
    Column("body_kind", "Body"),
    Column("letters", "Letters", Kind.COUNT),
    Column("bytes", "Bytes", Kind.BYTES),
    Column("age", "Oldest", Kind.SECONDS),
    Column("newest_age", "Newest", Kind.SECONDS),
    Column("sample", "A label"),
    Column("sample_id", "Its message", Kind.CODE),
)


def report(groups: Sequence[Row], *, action: str = "", done: Done | None = None, now: datetime | None = None) -> Report:
    """On the groups that `triage` made of the letters, before anything was done with them.

    Without `done` nothing was, and `action` tells what would be.
    """
    now = now or datetime.now(UTC)
    total = sum(row["letters"] for row in groups)
    reasons = _reasons(groups)
    sections = [Section("Reasons", "", _reason_parts(reasons))] if groups else []
    if groups:
        records = [_record(row, now) for row in groups]
        text = "In the form of a label, # stands for numbers and GUIDs."
        sections.append(Section("Letters", text, [Table.of("letters", "Groups", _GROUPS, records)]))
    oldest = min((row["oldest"] for row in groups if row["oldest"] is not None), default=None)
    figures = [Figure("Letters", total)]
    if oldest is not None:
        figures.append(Figure("Oldest", (now - _aware(oldest)).total_seconds(), Kind.SECONDS))
    figures += [Figure(reason.word, reason.letters, note=reason.meaning) for reason in reasons[:FIGURES]]
    figures += _done_figures(done)
    return Report("Dead letters", _summary(total, action, done), figures, sections, made=now)


def _summary(total: int, action: str, done: Done | None) -> str:
    letters = f"{total:,} dead letter{'' if total == 1 else 's'}"
    verb = {"resend": "sent again", "park": "parked", "drop": "dropped"}.get(action)
    if verb is None:
        return f"There {'is' if total == 1 else 'are'} {letters}." if total else "There is no dead letter."
    if done is None:
        return f"{letters} would be {verb}; nothing was done."
    return f"{done.removed:,} of {letters} {'was' if done.removed == 1 else 'were'} {verb}."


def _done_figures(done: Done | None) -> list[Figure]:
    if done is None:
        return []
    found = [Figure("Removed", done.removed, note="from their dead-letter queue")]
    if done.sent_once:
        found.append(Figure("Sent once", done.sent_once, note="in a transaction"))
    if done.sent_at_least_once:
        found.append(Figure("Sent", done.sent_at_least_once, note="without a transaction, to nontransactional queues"))
    if done.settled:
        found.append(Figure("Settled", done.settled, note="sent by an earlier run, which was interrupted"))
    return found


@dataclass(slots=True)
class _Reason:
    word: str
    meaning: str
    letters: int = 0
    oldest: datetime | None = None


def _reasons(groups: Sequence[Row]) -> list[_Reason]:
    """The most frequent first."""
    found: dict[str, _Reason] = {}
    for row in groups:
        reason = found.setdefault(row["reason"], _Reason(row["reason"], _meaning(row["message_class"])))
        reason.letters += row["letters"]
        oldest = None if row["oldest"] is None else _aware(row["oldest"])
        reason.oldest = min((each for each in (reason.oldest, oldest) if each is not None), default=None)
    return sorted(found.values(), key=lambda each: -each.letters)


def _meaning(message_class: int | None) -> str:
    return "the packet is malformed" if message_class is None else meaning(message_class)


def _reason_parts(reasons: list[_Reason]) -> list[Part]:
    rows = [(each.word, each.meaning, each.letters, each.oldest) for each in reasons]
    parts: list[Part] = [Table("reasons", "Why", _REASONS, rows)]
    if len(reasons) > 1:
        values = {each.word: each.letters for each in reasons}
        parts.insert(0, plots.bars("reasons", "Letters by reason", values, text="Dead letters, by why they died."))
    if any(each.word in _WRONG_KIND for each in reasons):
        parts.append(Note("Letters of the wrong kind for their queue are sent again as the other kind."))
    return parts


def _record(row: Row, now: datetime) -> dict[str, object]:
    return row.asDict() | {
        "age": None if row["oldest"] is None else (now - _aware(row["oldest"])).total_seconds(),
        "newest_age": None if row["newest"] is None else (now - _aware(row["newest"])).total_seconds(),
    }


def _aware(moment: datetime) -> datetime:
    """Spark hands out local times without a zone."""
    return moment.astimezone(UTC)
