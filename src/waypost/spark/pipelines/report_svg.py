"""The colours of drawings: they follow the page, which is light or dark; a drawing in a separate file is light.

A drawing is made with the unusual colours below; each stands for a variable of the page.
"""

from typing import Final

from waypost.spark.pipelines.report_parts import Tone

INK: Final = "#01fe01"
FAINT: Final = "#01fe02"
GRID: Final = "#01fe03"
ACCENT: Final = "#01fe04"
GOOD: Final = "#01fe05"
WARNING: Final = "#01fe06"
BAD: Final = "#01fe07"
PAPER: Final = "#01fe08"

OF_TONE: Final = {Tone.PLAIN: ACCENT, Tone.FAINT: FAINT, Tone.GOOD: GOOD, Tone.WARNING: WARNING, Tone.BAD: BAD}

VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--line",
    ACCENT: "--accent",
    GOOD: "--good",
    WARNING: "--warning",
    BAD: "--bad",
    PAPER: "--card",
}

# Name of the variable, its colour on a light page, and on a dark page.
PALETTE: Final = (
    ("--page", "#f6f7f9", "#0f1318"),
    ("--card", "#ffffff", "#171c23"),
    ("--ink", "#1b2430", "#e6eaf0"),
    ("--faint", "#5f6c7b", "#95a2b3"),
    ("--line", "#e1e6ec", "#2a323d"),
    ("--accent", "#2f6fdb", "#6ea2f7"),
    ("--good", "#1f8a57", "#4cc38a"),
    ("--warning", "#b87503", "#e8ae45"),
    ("--bad", "#cc3340", "#f2777f"),
)
_LIGHT: Final = {name: light for name, light, _ in PALETTE}


def themed(svg: str) -> str:
    """A drawing for a page that has the variables."""
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg


def lone(svg: str) -> str:
    """A drawing for a separate file."""
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, _LIGHT[variable])
    return svg
