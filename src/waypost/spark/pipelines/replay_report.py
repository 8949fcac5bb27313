"""The reconciliation of a replay: messages archived, sent, and found in the destination queues."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from waypost.spark.pipelines.replay import Chunk, Plan
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import counted

_QUEUES: Final = (
    Column("queue", "Archived from", Kind.CODE),
    Column("archived", "Archived", Kind.COUNT),
    Column("archived_digest", "Digest", Kind.CODE),
    Column("sent", "Sent", Kind.COUNT),
    Column("sent_digest", "Digest", Kind.CODE),
    Column("first_seq", "First", Kind.CODE),
    Column("last_seq", "Last", Kind.CODE),
)
_THERE: Final = (
    Column("dest_queue", "Sent to", Kind.CODE),
    Column("messages", "Messages", Kind.COUNT),
    Column("digest", "Digest", Kind.CODE),
    Column("found", "Found there", Kind.COUNT),
)


def report(plan: Plan, *, sent_now: int, there: Sequence[Mapping[str, Any]] | None = None) -> Report:
    """The report on a replay. `there` has the rows of `found_there`, if requested. An unsaved plan is a dry run."""
    left = plan.messages - plan.messages_sent
    figures = [
        Figure("Archived", plan.messages, note="messages that match the options"),
        Figure("Sent", plan.messages_sent, note=f"{sent_now:,} of these by this run"),
        Figure("Left", left, tone=Tone.WARNING if left else Tone.GOOD),
    ]
    sections = [Section("Queues", "", [Table.of("queues", "Archived and sent", _QUEUES, _by_queue(plan))])]
    if there is not None:
        readable = [row for row in there if row["found"] is not None]
        missing = sum(row["messages"] - row["found"] for row in readable)
        figures.append(Figure("Not found", missing, note="already received, or still in transit"))
        sections.append(Section("Destinations", "", _destinations(there)))
    return Report("Replay", _summary(plan, left, sent_now), figures, sections, f"replay {plan.name} of {plan.path}")


def _summary(plan: Plan, left: int, sent_now: int) -> str:
    if not plan.messages:
        return "No message in the archive matches the options."
    if not plan.sent and not sent_now:
        return f"{counted(plan.messages, 'message')} would be sent; nothing was done."
    if left:
        return (
            f"{plan.messages_sent:,} of {plan.messages:,} messages were sent; run the command again to send the rest."
        )
    all_sent = "The message was" if plan.messages == 1 else f"All {plan.messages:,} messages were"
    if not sent_now:
        return f"{all_sent} sent by an earlier run; to send the same messages again, use another --id."
    return f"{all_sent} sent once."


def _by_queue(plan: Plan) -> list[dict[str, object]]:
    names = sorted({chunk.queue for chunk in plan.chunks})
    return [_record(name, [chunk for chunk in plan.chunks if chunk.queue == name], plan.sent) for name in names]


def _record(name: str, chunks: Sequence[Chunk], sent: set[int]) -> dict[str, object]:
    done = [chunk for chunk in chunks if chunk.number in sent]
    return {
        "queue": name,
        "archived": sum(chunk.messages for chunk in chunks),
        "archived_digest": _digest(chunks),
        "sent": sum(chunk.messages for chunk in done),
        "sent_digest": _digest(done),
        "first_seq": min(chunk.first_seq for chunk in chunks),
        "last_seq": max(chunk.last_seq for chunk in chunks),
    }


def _digest(chunks: Iterable[Chunk]) -> str:
    """The digest of several chunks: the sum of their digests."""
    return str(sum(int(chunk.digest) for chunk in chunks))


def _destinations(there: Sequence[Mapping[str, Any]]) -> list[Part]:
    parts: list[Part] = [Table.of("destinations", "Messages in the queues", _THERE, there)]
    if any(row["found"] is None for row in there):
        parts.append(Note("Messages in queues of other computers are not counted."))
    return parts
