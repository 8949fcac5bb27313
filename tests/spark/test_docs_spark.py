"""docs/spark.md shows a program that works, and its tables have what the code has."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tempfile
from functools import cache
from typing import TYPE_CHECKING

import pytest

import waypost.spark
from tests.crash.daemons import ROOT, Daemon
from tests.late import late
from waypost.arrow.schema import ALL
from waypost.spark import options
from waypost.spark.session import SETTINGS, local_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.pandas import types
    from pyspark.sql.types import DataType

    from waypost.spark import sink_columns
else:
    sink_columns = late("waypost.spark.sink_columns")
    types = late("pyspark.sql.pandas.types")


PAGE = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
TOUR = ROOT / "examples/spark_tour.py"


def section(title: str) -> str:
    """The text under a heading, up to the next heading."""
    found = re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/spark.md has no section {title}"
    return found[1]


def table(title: str) -> list[list[str]]:
    """The rows of all tables of a section, without their heads."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(rows) if set("".join(row)) <= set("- :")]
    return [row for number, row in enumerate(rows) if number not in rules and number + 1 not in rules]


def names(cell: str) -> list[str]:
    """The code spans of a cell. A span in two backticks contains single ones."""
    return [one or two for two, one in re.findall(r"``(.+?)``|`([^`]+)`", cell)]


def programs(text: str) -> list[str]:
    return re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_program_of_the_page_is_the_example() -> None:
    docstring, _, program = TOUR.read_text(encoding="utf-8").partition('"""\n\n')
    assert docstring.startswith('"""')
    assert "\n".join(programs(PAGE)) == program


def test_the_readme_shows_a_piece_of_it() -> None:
    (piece,) = programs((ROOT / "README.md").read_text(encoding="utf-8"))
    assert f"\n{piece}\n" in TOUR.read_text(encoding="utf-8")


def test_the_program_does_what_the_page_says(
    spark: SparkSession,
    daemon: Daemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WAYPOST_URL", daemon.url)
    monkeypatch.setattr(waypost.spark, "session", lambda _: spark)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(TOUR))
    said = capsys.readouterr().out
    for words in (
        "|  new|   string|  order 0|",
        "11 orders begin with 1",
        "batches: [60, 40]",
        "100 orders are in Parquet files, and in their queue",
        "|   by hand|   10|",
        "|by machine|  100|",
        "110 invoices are archived and out of their queue",
        "tour-orders has 0 messages",
        "tour-invoices has 0 messages",
    ):
        assert words in said, said


def test_the_options_are_those_of_the_code() -> None:
    told = [name for row in table("Options") for name in names(row[0])]
    assert sorted(told) == sorted(options._NAMES)


def test_the_columns_are_those_of_messages_with_their_types() -> None:
    told = {name: row[1] for row in table("Columns") for name in names(row[0])}
    assert told == {field.name: types.from_arrow_type(field.type).simpleString() for field in ALL}
    assert list(told) == ALL.names


def test_the_columns_of_the_sink_are_those_that_it_takes_with_their_types() -> None:
    told = {name: row[1] for row in table("Columns to write") for name in names(row[0])}
    assert told == {name: " or ".join(dict.fromkeys(map(_word, kinds))) for name, kinds in sink_columns._TYPES.items()}


def _word(kind: type[DataType]) -> str:
    return "integer" if kind in sink_columns._WHOLE else kind().simpleString()


def test_the_settings_are_those_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    told = {name: row[1] for row in table("A session") for name in names(row[0])}
    assert told == {**SETTINGS, **local_settings()}


def test_each_row_of_the_comparison_names_its_source() -> None:
    known = set(re.findall(r"^- \*\*([A-Z])\*\*: ", section("Comparison with Kafka and Delta"), re.MULTILINE))
    rows = [(cells, set(re.findall(r"[A-Z]", places))) for *cells, places in table("Comparison with Kafka and Delta")]
    assert len(rows) > 25
    assert set().union(*(places for _, places in rows)) == known
    for cells, places in rows:
        assert places <= known
        assert places or all("not checked" in cell or cell == "does not apply" for cell in cells[2:]), cells


@pytest.mark.parametrize("sentence", [name for row in table("Troubleshooting") for name in names(row[0])])
def test_a_sentence_of_the_page_is_one_that_the_code_says(sentence: str) -> None:
    parts = [part for part in sentence.split("…") if part]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    assert any(pattern.search(text) for text in texts()), sentence


@cache
def texts() -> list[str]:
    """Every text in the code, with an ellipsis where a value stands."""
    found = []
    for path in (ROOT / "src/waypost").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(_part(each) for each in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def _part(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"
