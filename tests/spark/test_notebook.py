"""The notebook of the examples runs as it is, finds what was made to go wrong, and is stored with what it shows.

`jupyter execute --inplace examples/audit.ipynb` stores new results. Cells with the tag `exact` show the same in
every run.
"""

import re
import struct
import sys
from base64 import b64decode
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import nbformat
import pytest
from nbclient import NotebookClient

ROOT: Final = Path(__file__).parents[2]
NOTEBOOK: Final = ROOT / "examples/audit.ipynb"
# For each cell.
SECONDS: Final = 300

# Sent, received, reached, refused, lost.
FATES: Final = {
    "WAREHOUSE orders": [2400, 2400, 0, 0, 0],
    "WAREHOUSE returns": [300, 250, 50, 0, 0],
    "WAREHOUSE offers": [150, 0, 0, 150, 0],
    "WAREHOUSE prices": [80, 0, 0, 0, 80],
    "BRANCH orders": [40, 0, 0, 40, 0],
    "WAREHOUSE ordres": [30, 0, 0, 0, 30],
}


def folders() -> set[Path]:
    """The folders of the notebook's sites while they run."""
    return {path for name in ("shop", "warehouse", "branch") for path in Path(gettempdir()).glob(f"waypost-{name}-*")}


def read() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def stored() -> Any:
    return read()


@pytest.fixture(scope="module")
def executed(class_archive: Path | None) -> Any:
    """The notebook, run in a separate process with a separate Spark."""
    before = folders()
    notebook = read()
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=place).execute()
    assert folders() <= before
    return notebook


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """Its outputs as text."""
    return [output.get("text") or output.data["text/plain"] for output in cell.outputs]


def table(notebook: Any, heading: str) -> dict[str, list[str]]:
    """The first table with this heading: the words behind the destination of each line."""
    text = next(text for cell in code(notebook) for text in shown(cell) if re.search(heading, text))
    rows = (line.split() for line in text.splitlines() if line.startswith(("WAREHOUSE ", "BRANCH ")))
    return {" ".join(words[:2]): words[2:] for words in rows}


def test_what_was_made_lost_is_told_as_lost(executed: Any) -> None:
    found = table(executed, "sent +received +reached +refused +lost +late")
    assert {name: [int(word) for word in words[:5]] for name, words in found.items()} == FATES
    late = {name: int(words[5]) for name, words in found.items()}
    # All that were sent while the other side was off; others only if this computer is very busy.
    assert late["WAREHOUSE orders"] >= 400
    summary = re.search(r"110 lost, 190 refused, (\d+) late of 3,000 messages\.", "".join(shown(code(executed)[-2])))
    assert summary is not None
    assert int(summary[1]) == sum(late.values())


def test_reasons_are_told(executed: Any) -> None:
    reasons = table(executed, "why +messages")
    assert {name: (" ".join(words[:-1]), int(words[-1])) for name, words in reasons.items()} == {
        "WAREHOUSE offers": ("the message expired in the queue before it was received", 150),
        "WAREHOUSE prices": ("lost: no word came back", 80),
        "BRANCH orders": ("the message expired before it reached its queue", 40),
        "WAREHOUSE ordres": ("lost: no word came back", 30),
    }
    dead = table(executed, r"reason\s+label\s+messages")
    assert dead["WAREHOUSE offers"][:3] == ["receive-timeout", "offer", "150"]
    assert dead["BRANCH orders"][:3] == ["reach-queue-timeout", "order", "40"]


def test_waits_are_seen_where_they_were(executed: Any) -> None:
    """Orders waited on their way, for the power; returns in their queue, for somebody to take them."""
    found = {name: [int(word) for word in words] for name, words in table(executed, "reached after").items()}
    assert set(found) == {"WAREHOUSE orders", "WAREHOUSE returns", "WAREHOUSE offers"}
    orders, returns, offers = found.values()
    assert orders[3] > 6
    assert returns[4] > max(6, returns[3])
    assert len(offers) == 4


def test_what_is_stored_is_what_it_shows(stored: Any, executed: Any) -> None:
    pairs = [
        (before, after)
        for before, after in zip(code(stored), code(executed), strict=True)
        if "exact" in before.metadata.get("tags", ())
    ]
    assert len(pairs) > 5
    assert [shown(before) for before, _ in pairs] == [shown(after) for _, after in pairs]


def test_a_reader_sees_plots_and_tables_without_running_it(stored: Any) -> None:
    outputs = [output for cell in code(stored) for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"stream", "execute_result", "display_data"}
    assert {output.name for output in outputs if output.output_type == "stream"} == {"stdout"}
    assert all("text/html" in output.data for output in outputs if output.output_type == "execute_result")
    plots = [output.data["image/png"] for output in outputs if output.output_type == "display_data"]
    sizes = [struct.unpack(">II", b64decode(plot)[16:24]) for plot in plots]
    assert len(sizes) == 4
    assert all(900 <= width <= 1100 and 250 <= height <= 500 for width, height in sizes)


def test_nothing_of_the_computer_that_ran_it_is_stored(stored: Any) -> None:
    texts = [text for cell in code(stored) for text in shown(cell)]
    markup = [output.data.get("text/html", "") for cell in code(stored) for output in cell.outputs if "data" in output]
    for path in (ROOT, Path(sys.prefix), Path(gettempdir()), Path.home(), "/home/", "/usr/"):
        assert [text for text in (*texts, *markup) if str(path) in text] == []
