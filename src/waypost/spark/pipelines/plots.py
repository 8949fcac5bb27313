"""The drawings of a report, made with matplotlib: bars, columns over time, route graphs. Each is a Plot with SVG."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from waypost.spark.pipelines.report import ACCENT, FAINT, GRID, INK, OF_TONE, PAPER
from waypost.spark.pipelines.report_parts import Kind, Plot, Tone, short, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH: Final = 10.0
_LABEL: Final = 46
_LABEL_AT: Final = 0.4
# Metadata of the drawing, and identifiers without references, which several drawings share.
_UNUSED: Final = re.compile(r"\s*<metadata>.*?</metadata>| id=\"[a-z2.]+_\d+\"", re.DOTALL)
_SETTINGS: Final[Any] = {
    # Text stays text: the $ in the name private$ must not begin a formula.
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one kind, over the same labels or times as the other series."""

    name: str
    values: Sequence[float]
    tone: Tone = Tone.PLAIN


def bars(name: str, title: str, values: Mapping[str, float], *, kind: Kind = Kind.COUNT, text: str) -> Plot:
    """A horizontal bar for each name, with the value at its end."""
    labels = [short(label, _LABEL) for label in values]
    with _drawing(name, height=0.55 + 0.34 * max(len(labels), 1)) as (axes, drawn):
        places = range(len(labels))
        found = axes.barh(places, list(values.values()), height=0.62, color=ACCENT)
        axes.bar_label(found, [shown(value, kind) for value in values.values()], padding=5, color=INK)
        axes.set_yticks(list(places), labels, color=INK)
        axes.invert_yaxis()
        axes.xaxis.set_visible(False)
        axes.margins(x=0.12)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    return Plot(name, title, drawn[0], text)


def stacked(name: str, title: str, labels: Sequence[str], series: Sequence[Series], *, text: str) -> Plot:
    """A horizontal bar for each label, made up of the series."""
    with _drawing(name, height=0.95 + 0.36 * max(len(labels), 1)) as (axes, drawn):
        places = range(len(labels))
        left = [0.0] * len(labels)
        for each in series:
            axes.barh(
                places, each.values, left=left, height=0.62, color=OF_TONE[each.tone], label=short(each.name, _LABEL)
            )
            left = [start + value for start, value in zip(left, each.values, strict=True)]
        axes.set_yticks(list(places), [short(label, _LABEL) for label in labels], color=INK)
        axes.invert_yaxis()
        _number_axis(axes, "x", Kind.COUNT)
        _legend(axes, len(series))
    return Plot(name, title, drawn[0], text)


def columns(
    name: str, title: str, times: Sequence[datetime], values: Sequence[float], *, width_s: float, text: str
) -> Plot:
    """A column for the value of each span of time."""
    with _drawing(name, height=2.6) as (axes, drawn):
        axes.bar(times, values, width=width_s / 86_400 * 0.86, align="edge", color=ACCENT)  # type: ignore[arg-type]
        locator = AutoDateLocator(maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        _number_axis(axes, "y", Kind.COUNT)
    return Plot(name, title, drawn[0], text)


def histogram(name: str, title: str, values: Mapping[str, float], *, text: str) -> Plot:
    """A column for each class of values, from the smallest to the largest."""
    with _drawing(name, height=2.6) as (axes, drawn):
        places = range(len(values))
        axes.bar(places, list(values.values()), width=0.82, color=ACCENT)
        axes.set_xticks(list(places), [short(label, _LABEL) for label in values])
        _number_axis(axes, "y", Kind.COUNT)
    return Plot(name, title, drawn[0], text)


@dataclass(frozen=True, slots=True)
class Edge:
    """A way of messages between two places."""

    start: str
    end: str
    count: int
    label: str
    tone: Tone = Tone.PLAIN


def graph(name: str, title: str, edges: Sequence[Edge], *, text: str) -> Plot:
    """Places in columns from left to right, by their number of hops from a start, and the ways between them."""
    places = _layout(edges)
    rows = max((sum(x == column for x, _ in places.values()) for column, _ in places.values()), default=1)
    greatest = max((edge.count for edge in edges), default=1)
    width = max((x for x, _ in places.values()), default=0.0) + 0.9
    height = 0.5 + 1.15 * rows
    # Points of the drawing for one column and one row.
    unit_x, unit_y = 72 * WIDTH / width, 72 * height / (rows + 0.2)
    with _drawing(name, height=height) as (axes, drawn):
        axes.set_xlim(-0.45, width - 0.45)
        axes.set_ylim(-0.6, rows - 0.4)
        axes.set_axis_off()
        box = {"boxstyle": "round,pad=0.5", "facecolor": PAPER, "edgecolor": ACCENT, "linewidth": 1.2}
        boxes = {
            place: axes.text(x, y, short(place, 26), ha="center", va="center", bbox=box).get_bbox_patch()
            for place, (x, y) in places.items()
        }
        for edge in edges:
            (x, y), (to_x, to_y) = places[edge.start], places[edge.end]
            # An arrow to the left, or inside a column, is curved, so that it does not hide the others.
            bow = 0.0 if to_x > x else 0.35
            # Above the places, which are drawn first: an arrow ends at the edge of its target.
            axes.add_patch(
                FancyArrowPatch(
                    (x, y),
                    (to_x, to_y),
                    patchA=boxes[edge.start],
                    patchB=boxes[edge.end],
                    arrowstyle="-|>",
                    connectionstyle=f"arc3,rad={bow}",
                    mutation_scale=13,
                    color=OF_TONE[edge.tone],
                    linewidth=1 + 3 * edge.count / greatest,
                    zorder=4,
                )
            )
            # Nearer to the start than to the end, where ways cross less; for curves, half way to the control point.
            axes.annotate(
                short(edge.label, _LABEL),
                (x + _LABEL_AT * (to_x - x), y + _LABEL_AT * (to_y - y)),
                (bow * (to_y - y) * unit_y / 2, -bow * (to_x - x) * unit_x / 2),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=8.5,
                color=FAINT,
                bbox={"boxstyle": "round,pad=0.2", "facecolor": PAPER, "edgecolor": "none"},
                zorder=5,
            )
    return Plot(name, title, drawn[0], text)


def _layout(edges: Sequence[Edge]) -> dict[str, tuple[float, float]]:
    """The position of each place: one column after the place before it; places of one column are below each other."""
    names = list(dict.fromkeys(name for edge in edges for name in (edge.start, edge.end)))
    ends = {edge.end for edge in edges if edge.start != edge.end}
    level = {name: 0 for name in names if name not in ends} or dict.fromkeys(names[:1], 0)
    while reached := {
        edge.end: level[edge.start] + 1 for edge in edges if edge.start in level and edge.end not in level
    }:
        level |= reached
    for name in names:
        level.setdefault(name, 0)
    columns: dict[int, list[str]] = {}
    for name in names:
        columns.setdefault(level[name], []).append(name)
    rows = max(map(len, columns.values()), default=1)
    return {
        name: (float(column), (rows - len(members)) / 2 + len(members) - 1 - at)
        for column, members in columns.items()
        for at, name in enumerate(members)
    }


@contextmanager
def _drawing(name: str, *, height: float) -> Iterator[tuple["Axes", list[str]]]:
    """Axes to draw on; after the drawing, the SVG text is in the list."""
    drawn: list[str] = []
    # Identifiers of several drawings on one page must differ, and be the same in every run.
    with mpl.rc_context(_SETTINGS | {"svg.hashsalt": name}), warnings.catch_warnings():
        # For a character that the font lacks, the browser uses another font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
        axes = canvas.add_subplot()
        axes.set_facecolor("none")
        yield axes, drawn
        file = io.StringIO()
        canvas.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = file.getvalue()
        drawn.append(_UNUSED.sub("", text[text.index("<svg ") :]))


def _number_axis(axes: "Axes", side: str, kind: Kind) -> None:
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, kind)))
    axes.grid(axis="x" if side == "x" else "y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left" if side == "y" else "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _legend(axes: "Axes", count: int) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=count, frameon=False, handlelength=1, handleheight=1)
