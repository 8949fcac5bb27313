"""The report of a delivery audit."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.audit import LOST, OUTCOMES, REFUSED, Rules, matched, outcomes, refusals, routes
from waypost.spark.pipelines.expressions import class_meaning, message_id_text, percentile
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_values import shown

# Largest number of messages in a list.
LISTED: Final = 1000
# Largest number of routes in a drawing.
DRAWN: Final = 12

# Upper ends of the classes of latencies in the histogram, in seconds.
_CLASSES: Final = (0, 1, 2, 5, 10, 30, 60, 300, 3600)

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


def report(sent: DataFrame, acknowledgments: DataFrame, rules: Rules | None = None, origin: str = "") -> Report:
    """Run the audit once, and report its findings."""
    rules = rules or Rules()
    both = matched(sent, acknowledgments).persist()
    try:
        audited = outcomes(both.where("is_sent"), rules)
        found = _Findings(audited, both.where("is_sent is null"))
        return Report("Delivery audit", found.summary, found.figures(rules), found.sections(rules), origin, rules.now)
    finally:
        both.unpersist()


class _Findings:
    """The data for the report. Each list is read only if it is not empty."""

    def __init__(self, audited: DataFrame, unmatched: DataFrame) -> None:
        self.audited = audited
        self.unmatched = unmatched
        self.routes = routes(audited).collect()
        self.unmatched_count = unmatched.count()
        self.counts = {
            name: sum(route[name] for route in self.routes) for name in ("sent", *OUTCOMES, "late", "duplicated")
        }
        self.latency = _latency(audited)

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
        told = f"of {counts['sent']:,} messages"
        return f"{', '.join(bad)} {told}." if bad else f"None {told} is lost, refused, late or duplicated."

    def figures(self, rules: Rules) -> list[Figure]:
        counts, sent = self.counts, self.counts["sent"]
        late = shown(rules.late_after, Kind.SECONDS)

        def share(name: str) -> str:
            return f"{shown(counts[name] / sent, Kind.SHARE)} of all messages" if sent else ""

        return [
            Figure("Sent", sent, note=f"on {len(self.routes):,} routes"),
            Figure("Received", counts["received"], note=share("received"), tone=Tone.GOOD),
            Figure("In their queue", counts["reached"], note="reached, not received"),
            Figure("Lost", counts[LOST], note="no acknowledgment came", tone=Tone.of_problems(counts[LOST])),
            Figure("Refused", counts[REFUSED], note=share(REFUSED), tone=Tone.of_problems(counts[REFUSED])),
            Figure("Late", counts["late"], note=f"after more than {late}", tone=_warning(counts["late"])),
            Figure("Duplicated", counts["duplicated"], tone=_warning(counts["duplicated"])),
            Figure("99% reach in", self.latency["p99"], Kind.SECONDS, note=f"half of them in {self._half}"),
        ]

    @property
    def _half(self) -> str:
        return shown(self.latency["p50"], Kind.SECONDS)

    def sections(self, rules: Rules) -> list[Section]:
        return [
            Section(
                "Routes",
                "A route is the sending queue manager and the destination queue.",
                [*self._drawn(), Table.of("routes", "Outcomes", self._columns(), _records(self.routes))],
            ),
            Section(
                "Latency",
                "From sending until the message reached its queue, and until an application received it. Time is "
                "counted in whole seconds, by the clocks of both computers.",
                [*self._histogram(), Table.of("latencies", "By route", _LATENCIES, _records(self.routes))],
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
        text = f"Messages by outcome, for the {len(most)} routes with most messages."
        return [
            plots.stacked("outcomes", "Outcomes of messages", labels, [s for s in series if any(s.values)], text=text)
        ]

    def _histogram(self) -> list[Part]:
        values = {title: self.latency[title] for title in _class_titles()}
        if not any(values.values()):
            return []
        return [plots.histogram("reach", "Time to reach the queue", values, text="Messages by latency.")]

    def _lost(self, rules: Rules) -> list[Section]:
        count = self.counts[LOST]
        if not count:
            return []
        text = f"Their senders asked for an acknowledgment; none came within {shown(rules.lost_after, Kind.SECONDS)}."
        return [Section("Lost", text, [self._list("lost", sf.col("outcome") == LOST, _MESSAGE, count)])]

    def _refused(self) -> list[Section]:
        count = self.counts[REFUSED]
        if not count:
            return []
        reasons = refusals(self.audited).withColumn("reason", class_meaning(sf.col("refusal"))).collect()
        columns = (_MESSAGE[2], Column("reason", "Why"), Column("messages", "Messages", Kind.COUNT))
        listed = self._list("refused", sf.col("outcome") == REFUSED, (*_MESSAGE, Column("reason", "Why")), count)
        return [Section("Refused", "", [Table.of("refusals", "Reasons", columns, _records(reasons)), listed])]

    def _duplicated(self) -> list[Section]:
        count = self.counts["duplicated"]
        if not count:
            return []
        times = [
            Column(f"{name}_count", f"{name.capitalize()} acknowledgments", Kind.COUNT) for name in ("reach", "receive")
        ]
        text = "Each of these messages has several acknowledgments of the same kind: it was delivered more than once."
        return [
            Section("Duplicated", text, [self._list("duplicated", sf.col("duplicated"), (*_MESSAGE, *times), count)])
        ]

    def _unmatched(self) -> list[Section]:
        if not self.unmatched_count:
            return []
        columns = (
            Column("id", "Message", Kind.CODE),
            *(Column(f"{name}_time", name.capitalize(), Kind.TIME) for name in ("reached", "received", "refused")),
        )
        some = (
            self.unmatched.withColumn("id", message_id_text(sf.col("message_id"))).orderBy("message_id").limit(LISTED)
        )
        note = Note("They were sent before the journal begins, or their senders keep no journal.", Tone.WARNING)
        table = Table.of(
            "unmatched", "Acknowledged messages", columns, _records(some.collect()), total=self.unmatched_count
        )
        return [Section("Acknowledgments of unknown messages", "", [note, table])]

    def _list(self, name: str, which: Expression, columns: Sequence[Column], total: int) -> Table:
        some = self.audited.where(which).orderBy("sent_time", "message_id").limit(LISTED)
        told = some.withColumns(
            {"id": message_id_text(sf.col("message_id")), "reason": class_meaning(sf.col("refusal"))}
        )
        return Table.of(name, "Messages", columns, _records(told.collect()), total=total)


def _latency(audited: DataFrame) -> Row:
    """Latencies of all routes together: percentiles, and the number of messages in each class."""
    seconds = sf.coalesce("reach_seconds", "receive_seconds")
    lower = (None, *_CLASSES)
    counts = []
    for title, above, up_to in zip(_class_titles(), lower, (*_CLASSES, None), strict=True):
        is_in = seconds.isNotNull()
        if above is not None:
            is_in &= seconds > above
        if up_to is not None:
            is_in &= seconds <= up_to
        counts.append(sf.count_if(is_in).alias(title))
    shares = [percentile(seconds, share).alias(name) for name, share in (("p50", 0.5), ("p99", 0.99))]
    found = audited.agg(*shares, *counts).first()
    assert found is not None
    return found


def _class_titles() -> list[str]:
    titles = [f"≤ {shown(end, Kind.SECONDS)}" for end in _CLASSES]
    return [*titles, f"> {shown(_CLASSES[-1], Kind.SECONDS)}"]


def _records(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [row.asDict() for row in rows]


def _warning(count: int) -> Tone:
    return Tone.WARNING if count else Tone.GOOD
