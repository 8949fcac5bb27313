"""The report of a delivery audit."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from waypost.spark.pipelines import in_memory, plots
from waypost.spark.pipelines.audit import LOST, OUTCOMES, REFUSED, Findings, Rules, examine, latency_classes
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import counted, id_text, shown
from waypost.wire.message_class import meaning

# Largest number of routes in a drawing.
DRAWN: Final = 12

_ROUTE: Final = (Column("source_qm", "Source", Kind.GUID), Column("dest_queue", "Destination", Kind.CODE))
_ROUTES: Final = (
    *_ROUTE,
    Column("sent", "Sent", Kind.COUNT),
    *(Column(name, name.capitalize(), Kind.COUNT) for name in (*OUTCOMES, "late", "duplicated")),
)
_LATENCIES: Final = (
    *_ROUTE,
    *(
        Column(f"{name}_{part}", title.format(name.capitalize()), Kind.SECONDS)
        for name in ("reach", "receive")
        for part, title in (("p50", "{} 50%"), ("p95", "95%"), ("p99", "99%"), ("max", "Max"))
    ),
)
_MESSAGE: Final = (
    Column("id", "Message", Kind.CODE),
    Column("label", "Label"),
    Column("dest_queue", "Destination", Kind.CODE),
    Column("sent_time", "Sent", Kind.TIME),
)
_TONES: Final = dict(
    zip(OUTCOMES, (Tone.GOOD, Tone.PLAIN, Tone.WARNING, Tone.BAD, Tone.FAINT, Tone.FAINT), strict=True)
)


def report(
    sent: DataFrame | pa.Table, acknowledgments: DataFrame | pa.Table, rules: Rules | None = None, origin: str = ""
) -> Report:
    """Run the audit once, and report its findings. Both sources are DataFrames, or both are Arrow tables."""
    rules = rules or Rules()
    if isinstance(sent, pa.Table):
        findings = in_memory.examine(sent, acknowledgments, rules)
    else:
        assert not isinstance(acknowledgments, pa.Table), (
            "both sources must be DataFrames, or both must be Arrow tables"
        )
        findings = examine(sent, acknowledgments, rules)
    found = _Findings(findings)
    return Report("Delivery audit", found.summary, found.figures(rules), found.sections(rules), origin, rules.now)


class _Findings:
    """The findings in the words of the report."""

    def __init__(self, found: Findings) -> None:
        self.found = found
        self.routes = found.routes
        self.latency = found.latency
        self.counts = {
            name: sum(route[name] for route in self.routes) for name in ("sent", *OUTCOMES, "late", "duplicated")
        }

    @property
    def summary(self) -> str:
        counts = self.counts
        if not counts["sent"]:
            return "No message was sent."
        bad = [
            f"{counts[name]:,} {word}"
            for name, word in ((LOST, "lost"), (REFUSED, "refused"), ("late", "late"), ("duplicated", "duplicated"))
            if counts[name]
        ]
        told = f"of {counted(counts['sent'], 'message')}"
        return f"{', '.join(bad)} {told}." if bad else f"None {told} is lost, refused, late or duplicated."

    def figures(self, rules: Rules) -> list[Figure]:
        counts, sent = self.counts, self.counts["sent"]
        late = shown(rules.late_after, Kind.SECONDS)

        def share(name: str) -> str:
            return f"{shown(counts[name] / sent, Kind.SHARE)} of all messages" if sent else ""

        return [
            Figure("Sent", sent, note=f"on {counted(len(self.routes), 'route')}"),
            Figure("Received", counts["received"], note=share("received"), tone=Tone.GOOD),
            Figure("In their queue", counts["reached"], note="reached, not received"),
            Figure("Lost", counts[LOST], note="no acknowledgment arrived in time", tone=Tone.of_problems(counts[LOST])),
            Figure("Refused", counts[REFUSED], note=share(REFUSED), tone=Tone.of_problems(counts[REFUSED])),
            Figure("Late", counts["late"], note=f"delivered after more than {late}", tone=_warning(counts["late"])),
            Figure("Duplicated", counts["duplicated"], tone=_warning(counts["duplicated"])),
            Figure("99% reach in", self.latency["p99"], Kind.SECONDS, note=f"50% reach their queue in {self._half}"),
        ]

    @property
    def _half(self) -> str:
        return shown(self.latency["p50"], Kind.SECONDS)

    def sections(self, rules: Rules) -> list[Section]:
        return [
            Section(
                "Routes",
                "A route leads from a sending queue manager to a destination queue.",
                [*self._drawn(), Table.of("routes", "Outcomes", self._columns(), self.routes)],
            ),
            Section(
                "Latency",
                "The tables show the time from sending until a message reached its queue, and until an application "
                "received the message. Times are in whole seconds, and come from the clocks of both computers.",
                [*self._histogram(), Table.of("latencies", "By route", _LATENCIES, self.routes)],
            ),
            *self._lost(rules),
            *self._refused(),
            *self._duplicated(),
            *self._unmatched(),
        ]

    def _columns(self) -> list[Column]:
        """Columns of the table of routes, without outcomes that no message had."""
        return [column for column in _ROUTES if self.counts.get(column.name, 1)]

    def _drawn(self) -> list[Part]:
        if not self.routes:
            return []
        most = self.routes[:DRAWN]
        series = [plots.Series(name, [route[name] for route in most], _TONES[name]) for name in OUTCOMES]
        labels = [f"{shown(route['source_qm'], Kind.GUID)} → {route['dest_queue']}" for route in most]
        text = f"Messages by outcome, for the {len(most)} routes with the most messages."
        return [
            plots.stacked("outcomes", "Outcomes of messages", labels, [s for s in series if any(s.values)], text=text)
        ]

    def _histogram(self) -> list[Part]:
        values = {title: self.latency[title] for title, *_ in latency_classes()}
        if not any(values.values()):
            return []
        return [plots.histogram("reach", "Time to reach the queue", values, text="Messages by latency.")]

    def _lost(self, rules: Rules) -> list[Section]:
        count = self.counts[LOST]
        if not count:
            return []
        text = (
            f"The senders of these messages requested acknowledgments, but no acknowledgment arrived within "
            f"{shown(rules.lost_after, Kind.SECONDS)}."
        )
        return [Section("Lost", text, [_list("lost", self.found.lost, _MESSAGE, count)])]

    def _refused(self) -> list[Section]:
        count = self.counts[REFUSED]
        if not count:
            return []
        reasons = [row | {"reason": meaning(row["refusal"])} for row in self.found.refusals]
        columns = (_MESSAGE[2], Column("reason", "Why"), Column("messages", "Messages", Kind.COUNT))
        listed = _list("refused", self.found.refused, (*_MESSAGE, Column("reason", "Why")), count)
        return [Section("Refused", "", [Table.of("refusals", "Reasons", columns, reasons), listed])]

    def _duplicated(self) -> list[Section]:
        count = self.counts["duplicated"]
        if not count:
            return []
        times = [
            Column(f"{name}_count", f"{name.capitalize()} acknowledgments", Kind.COUNT) for name in ("reach", "receive")
        ]
        text = "These messages have several acknowledgments of one kind, so each message was delivered more than once."
        return [Section("Duplicated", text, [_list("duplicated", self.found.duplicated, (*_MESSAGE, *times), count)])]

    def _unmatched(self) -> list[Section]:
        count = self.found.unmatched_count
        if not count:
            return []
        columns = (
            Column("id", "Message", Kind.CODE),
            *(Column(f"{name}_time", name.capitalize(), Kind.TIME) for name in ("reached", "received", "refused")),
        )
        note = Note(
            "The source of the sent messages does not contain these messages. For example, the senders may not have "
            "requested journal copies, or the journal copies may have been removed.",
            Tone.WARNING,
        )
        table = _list("unmatched", self.found.unmatched, columns, count, title="Acknowledged messages")
        return [Section("Acknowledgments of unknown messages", "", [note, table])]


def _list(
    name: str, rows: Sequence[dict[str, Any]], columns: Sequence[Column], total: int, *, title: str = "Messages"
) -> Table:
    told = [
        row
        | {
            "id": id_text(row["message_id"]),
            "reason": None if row["refusal"] is None else meaning(row["refusal"]),
        }
        for row in rows
    ]
    return Table.of(name, title, columns, told, total=total)


def _warning(count: int) -> Tone:
    return Tone.WARNING if count else Tone.GOOD
