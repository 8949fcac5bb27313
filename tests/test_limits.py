"""Every bound has an answer to the question: who loses what, and who is told?"""

import re
from pathlib import Path

from waypost import limits

ADR = Path(__file__).resolve().parents[1] / "docs/adr/0021-bounds-refuse-new-work.md"


def test_every_bound_stands_in_the_tables_of_the_decision_and_nothing_else_does() -> None:
    rows = [line for line in ADR.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    named = {name for line in rows for name in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", line.split("|")[1])}
    bounds = {name for name in vars(limits) if name.isupper()}
    assert named == bounds
