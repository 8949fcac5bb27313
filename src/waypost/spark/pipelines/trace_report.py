"""The report of a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from waypost.spark.pipelines import in_memory, plots
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Part, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import counted, id_text
from waypost.spark.pipelines.trace import find_routes

# Largest number of ways in a readable graph.
DRAWN: Final = 30
# A way is slow if its median is more than this many times the median of all ways, and more than a second.
SLOW: Final = 3

_EDGES: Final = (
    Column("start", "From", Kind.CODE),
    Column("end", "To", Kind.CODE),
    Column("messages", "Messages", Kind.COUNT),
    Column("unfinished", "Not received", Kind.COUNT),
    Column("repeated", "Sent again", Kind.COUNT),
    Column("p50", "50%", Kind.SECONDS),
    Column("p99", "99%", Kind.SECONDS),
    Column("max", "Max", Kind.SECONDS),
)
_JOURNEY: Final = (
    Column("id", "Message", Kind.CODE),
    Column("dest_queue", "Destination", Kind.CODE),
    Column("way", "Route", Kind.CODE),
    Column("sent_time", "Sent", Kind.TIME),
)

_PLACES: Final = (Column("name", "Name in this report", Kind.CODE), Column("place", "Identifier or address", Kind.CODE))


def report(reports: DataFrame | pa.Table, origin: str = "") -> Report:
    """Report on traced messages, from report messages in a DataFrame or in an Arrow table. A table needs no Spark."""
    routes = in_memory.find_routes(reports) if isinstance(reports, pa.Table) else find_routes(reports)
    totals = routes.totals
    names = place_names(routes.edges)
    ways = _ways(routes.edges, names)
    slow = sum(_is_slow(way, ways) for way in ways)
    parts: list[Part] = [
        *_graph(ways),
        Table.of("ways", "Links", _EDGES, [asdict(way) for way in ways]),
        Table.of("places", "Queue managers", _PLACES, _places(names)),
    ]
    sections = [
        Section(
            "Routes",
            "A link leads from one queue manager to the next. Times come from the clocks of both queue managers.",
            parts,
        )
    ]
    if totals["unfinished"]:
        listed = _list("unfinished", routes.unfinished, names, totals["unfinished"])
        note = Note(
            "A report says that the message was sent, but no report says that the message was received. The message "
            "may be in transit or lost. Reports are express messages, so it is also possible that only the report was "
            "lost.",
            Tone.WARNING,
        )
        sections.append(Section("Not arrived", "", [note, listed]))
    if totals["loops"]:
        listed = _list("loops", routes.loops, names, totals["loops"])
        sections.append(Section("Loops", "These messages reached the same queue manager more than once.", [listed]))
    columns = (*_JOURNEY, Column("hops", "Hops", Kind.COUNT), Column("seconds", "Took", Kind.SECONDS))
    listed = Table.of("slowest", "Messages", columns, _journeys(routes.slowest, names), total=totals["timed"])
    sections.append(Section("Slowest", "", [listed]))
    figures = [
        Figure(
            "Traced messages", totals["messages"], note=f"from {counted(routes.reports, 'message')} of the report queue"
        ),
        Figure("Queue managers", len(set(names.values()))),
        Figure("Hops, at most", totals["hops"]),
        Figure("Not arrived", totals["unfinished"], tone=Tone.WARNING if totals["unfinished"] else Tone.GOOD),
        Figure("In a loop", totals["loops"], tone=Tone.of_problems(totals["loops"])),
        Figure("Slow links", slow, tone=Tone.WARNING if slow else Tone.GOOD),
        Figure("99% arrive in", totals["p99"], Kind.SECONDS),
    ]
    return Report("Routes of traced messages", _summary(totals, slow), figures, sections, origin)


def _summary(totals: dict[str, Any], slow: int) -> str:
    if not totals["messages"]:
        return "The report queue contains no reports about traced messages."
    problems = [
        f"{number:,} {words}"
        for number, words in (
            (totals["unfinished"], "did not arrive"),
            (totals["loops"], "went in a loop"),
        )
        if number
    ]
    told = f"All {totals['messages']:,} traced messages arrived"
    if problems:
        told = f"Of {counted(totals['messages'], 'traced message')}, {' and '.join(problems)}, according to the reports"
    if not slow:
        return f"{told}."
    return f"{told}; 1 link is slow." if slow == 1 else f"{told}; {slow:,} links are slow."


@dataclass(slots=True)
class _Way:
    """A way from one queue manager to the next, with their names in this report. Times are in seconds."""

    start: str
    end: str
    messages: int
    unfinished: int
    repeated: int
    p50: float | None
    p99: float | None
    max: float | None


def place_names(found: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Names for the queue managers, and for addresses of unknown queue managers.

    The address of a queue manager is that of the busiest way to it, which comes first.
    """
    named: dict[str, str] = {}
    for row in found:
        if row["to_qm"] and row["address"] and row["to_qm"] not in named:
            named[row["to_qm"]] = named[row["address"]] = f"{row['address']} ({row['to_qm'][:4]})"
    for row in found:
        for place in (row["from_qm"], row["to_qm"] or row["address"]):
            if place:
                named.setdefault(place, place[:8] if len(place) == 36 else place)
    return dict(sorted(named.items(), key=lambda item: item[1]))


def _ways(found: Sequence[dict[str, Any]], names: Mapping[str, str]) -> list[_Way]:
    """The ways. Messages without a report of arrival count for the queue manager with the same address."""
    ways: dict[tuple[str, str], _Way] = {}
    for row in sorted(found, key=lambda row: row["p50"] is None):
        start, end = names.get(row["from_qm"], "?"), names.get(row["to_qm"] or row["address"], "?")
        way = ways.setdefault((start, end), _Way(start, end, 0, 0, 0, row["p50"], row["p99"], row["max"]))
        way.messages += row["messages"]
        way.unfinished += row["unfinished"]
        way.repeated += row["repeated"]
    return sorted(ways.values(), key=lambda way: (-way.messages, way.start, way.end))


def _places(names: Mapping[str, str]) -> list[dict[str, object]]:
    """Queue managers, and addresses of unknown queue managers, with their names."""
    return [{"place": place, "name": name} for place, name in names.items() if len(place) == 36 or place == name]


def _is_slow(way: _Way, ways: Sequence[_Way]) -> bool:
    medians = sorted(each.p50 for each in ways if each.p50 is not None)
    return way.p50 is not None and way.p50 > max(1, SLOW * medians[(len(medians) - 1) // 2])


def _graph(ways: Sequence[_Way]) -> list[Part]:
    if not ways:
        return []
    drawn = [plots.Edge(way.start, way.end, way.messages, _words(way), _tone(way, ways)) for way in ways[:DRAWN]]
    text = (
        "The width and the text of an arrow show the number of messages. The text also shows the median time. "
        "Yellow links are slow. Red links have messages that were not received."
    )
    return [plots.graph("routes", "Route graph", drawn, text=text)]


def _words(way: _Way) -> str:
    return f"{way.messages:,}" if way.p50 is None else f"{way.messages:,} · {way.p50:.0f} s"


def _tone(way: _Way, ways: Sequence[_Way]) -> Tone:
    if way.unfinished:
        return Tone.BAD
    return Tone.WARNING if _is_slow(way, ways) else Tone.PLAIN


def _list(name: str, rows: Sequence[dict[str, Any]], names: Mapping[str, str], total: int) -> Table:
    return Table.of(name, "Messages", _JOURNEY, _journeys(rows, names), total=total)


def _journeys(rows: Sequence[dict[str, Any]], names: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        row | {"id": id_text(row["message_id"]), "way": " → ".join(names.get(place, place) for place in row["path"])}
        for row in rows
    ]
