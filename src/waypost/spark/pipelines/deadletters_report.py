"""The report on dead-letter messages: reasons, destinations, groups and ages, and the action on the messages."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.deadletter_actions import Done
from waypost.spark.pipelines.deadletters import Tally
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table
from waypost.spark.pipelines.report_parts import counted, in_utc
from waypost.wire.message_class import meaning

FIGURES: Final = 5
_WRONG_KIND: Final = ("not-transactional-q", "not-transactional-msg")
_REASONS: Final = (
    Column("reason", "Reason"),
    Column("meaning", "Meaning"),
    Column("messages", "Messages", Kind.COUNT),
    Column("oldest", "Oldest", Kind.TIME),
)
_GROUPS: Final = (
    Column("reason", "Reason"),
    Column("dest_queue", "Destination", Kind.CODE),
    Column("label_form", "Labels"),
    Column("body_kind", "Body"),
    Column("messages", "Messages", Kind.COUNT),
    Column("bytes", "Bytes", Kind.BYTES),
    Column("age", "Oldest", Kind.SECONDS),
    Column("newest_age", "Newest", Kind.SECONDS),
    Column("sample", "Sample label"),
    Column("sample_id", "Sample message", Kind.CODE),
)


def report(tally: Tally, *, action: str = "", done: Done | None = None, now: datetime | None = None) -> Report:
    """The report on dead-letter messages as they were before the action.

    Without `done`, the report is of a dry run of `action`.
    """
    now = now or datetime.now(UTC)
    total = sum(row["messages"] for row in tally.reasons)
    sections = [Section("Reasons", "", _reason_parts(tally.reasons)), _groups(tally, now)] if total else []
    ages = [age for row in tally.reasons if (age := _age(row["oldest"], now)) is not None]
    figures = [Figure("Messages", total)]
    if ages:
        figures.append(Figure("Oldest", max(ages), Kind.SECONDS))
    figures += [Figure(row["reason"], row["messages"], note=_meaning(row)) for row in tally.reasons[:FIGURES]]
    figures += _done_figures(done)
    return Report("Dead-letter messages", _summary(total, action, done), figures, sections, made=now)


def _summary(total: int, action: str, done: Done | None) -> str:
    told = counted(total, "dead-letter message")
    verb = {"resend": "sent again", "park": "parked", "drop": "dropped"}.get(action)
    if verb is None:
        return f"There {'is' if total == 1 else 'are'} {told}." if total else "There are 0 dead-letter messages."
    if done is None:
        return f"{told} would be {verb}; nothing was done."
    if not total:
        return f"No dead-letter message was {verb}.{_settled(done.settled)}"
    return f"{done.removed:,} of {told} {'was' if done.removed == 1 else 'were'} {verb}.{_settled(done.settled)}"


def _settled(count: int) -> str:
    """A sentence on messages of an interrupted run, if it left any."""
    if not count:
        return ""
    return f" {counted(count, 'message')} {'was' if count == 1 else 'were'} sent by an earlier, interrupted run."


def _done_figures(done: Done | None) -> list[Figure]:
    if done is None:
        return []
    found = [Figure("Removed", done.removed, note="removed from the dead-letter queue")]
    if done.sent_once:
        found.append(Figure("Sent once", done.sent_once, note="sent in a transaction"))
    if done.sent_at_least_once:
        found.append(
            Figure("Sent", done.sent_at_least_once, note="sent without a transaction, to nontransactional queues")
        )
    if done.gone:
        found.append(Figure("Gone", done.gone, note="removed by another program during the run"))
    if done.settled:
        found.append(Figure("Settled", done.settled, note="sent by an earlier, interrupted run"))
    return found


def _meaning(row: dict[str, Any]) -> str:
    return "the packet is malformed" if row["message_class"] is None else meaning(row["message_class"])


def _reason_parts(reasons: Sequence[dict[str, Any]]) -> list[Part]:
    records = [row | {"meaning": _meaning(row)} for row in reasons]
    parts: list[Part] = [Table.of("reasons", "Reasons", _REASONS, records)]
    if len(reasons) > 1:
        values = {row["reason"]: row["messages"] for row in reasons}
        parts.insert(0, plots.bars("reasons", "Messages by reason", values, text="Dead-letter messages by reason."))
    if any(row["reason"] in _WRONG_KIND for row in reasons):
        parts.append(
            Note(
                "Some transactional messages failed at nontransactional queues, or the reverse. The action resend "
                "corrects this."
            )
        )
    return parts


def _groups(tally: Tally, now: datetime) -> Section:
    records = [row | {"age": _age(row["oldest"], now), "newest_age": _age(row["newest"], now)} for row in tally.groups]
    total = sum(row["groups"] for row in tally.reasons)
    text = "In a label pattern, # stands for numbers and GUIDs."
    return Section("Groups", text, [Table.of("groups", "Groups", _GROUPS, records, total=total)])


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else (now - in_utc(moment)).total_seconds()
