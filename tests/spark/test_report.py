"""A report in all its forms, without Spark: what people read, what programs read, and texts that mean harm."""

import csv
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from waypost.spark.pipelines import plots
from waypost.spark.pipelines.report import Column, Figure, Kind, Note, Report, Section, Table, Tone
from waypost.spark.pipelines.report_parts import csv_cell, markdown, short, shown

EVIL = "<script>alert(1)</script>|`x` [a](http://evil.example) $x$ \"'&amp; \x1b[31m\u202e\n=1+1"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

COLUMNS = [
    Column("queue", "Queue", Kind.CODE),
    Column("label", "Label"),
    Column("size", "Size", Kind.BYTES),
    Column("at", "At", Kind.TIME),
]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, Kind.COUNT, "-"),
        (True, Kind.TEXT, "yes"),
        (1234567, Kind.COUNT, "1,234,567"),
        (12.0, Kind.COUNT, "12"),
        (0.12345, Kind.NUMBER, "0.123"),
        (1234.5, Kind.NUMBER, "1,234"),
        (1023, Kind.BYTES, "1023 B"),
        (1536, Kind.BYTES, "1.5 KiB"),
        (1 << 50, Kind.BYTES, "1024.0 TiB"),
        (0, Kind.SECONDS, "0 s"),
        (0.25, Kind.SECONDS, "250 ms"),
        (2.5, Kind.SECONDS, "2.5 s"),
        (-3, Kind.SECONDS, "-3 s"),
        (60, Kind.SECONDS, "1 min"),
        (3725, Kind.SECONDS, "1 h 2 min"),
        (90_061, Kind.SECONDS, "1 d 1 h"),
        (timedelta(minutes=2), Kind.TEXT, "2 min"),
        (0.123, Kind.SHARE, "12.3%"),
        (0.00001, Kind.SHARE, "< 0.1%"),
        (0, Kind.SHARE, "0.0%"),
        (NOON, Kind.TIME, "2026-03-01 12:00:00"),
        (b"\x01\xff", Kind.CODE, "01ff"),
        (["a", "b"], Kind.TEXT, "a, b"),
        ("{1a1a1a1a-0000-0000-0000-000000000000}", Kind.GUID, "1a1a1a1a"),
        ("a\nb\u202e\udc00", Kind.TEXT, r"a\nb\u202e\udc00"),
    ],
)
def test_values_are_written_for_people(value: object, kind: Kind, text: str) -> None:
    assert shown(value, kind) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (1234567, "1234567"),
        (-1.5, "-1.5"),
        (NOON, "2026-03-01T12:00:00+00:00"),
        (timedelta(seconds=90), "90.0"),
        (b"\x01", "01"),
        ("plain", "plain"),
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("@x", "'@x"),
        ("a\tb", r"a\tb"),
    ],
)
def test_values_are_written_for_programs(value: object, text: str) -> None:
    assert csv_cell(value) == text


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_a_time_without_a_zone_is_local_and_written_in_utc() -> None:
    summer = datetime.fromisoformat("2026-07-01T12:00:00")
    assert shown(summer, Kind.TIME) == "2026-07-01 10:00:00"
    assert csv_cell(summer) == "2026-07-01T10:00:00+00:00"
    assert csv_cell(NOON.astimezone()) == "2026-03-01T12:00:00+00:00"


def test_a_long_text_loses_its_middle() -> None:
    assert short("abcdefghij", 10) == "abcdefghij"
    assert short("abcdefghijk", 10) == "abcde…hijk"


def test_markdown_of_a_text_is_no_markup() -> None:
    escaped = markdown(EVIL)
    assert "\n" not in escaped
    assert re.search(r"(?<!\\)[<>|`*_\[\]$]", escaped) is None
    assert "http\\://" in escaped
    assert markdown("see www.evil.example") == r"see www\.evil.example"


def sample() -> Report:
    table = Table("messages", EVIL, COLUMNS, [[EVIL, EVIL, 2048, NOON], ["q", None, None, None]], total=70)
    drawn = [
        plots.bars("bars", EVIL, {EVIL: 3, "$a$ 漢字": 2}, text=EVIL),
        plots.stacked("stacked", "s", [EVIL], [plots.Series(EVIL, [1], Tone.BAD), plots.Series("b", [2])], text="t"),
        plots.columns("columns", "c", [NOON, NOON + timedelta(hours=1)], [1, 2], width_s=3600, text="t"),
        plots.histogram("histogram", "h", {EVIL: 1, "b": 0}, text="t"),
        plots.graph("graph", "g", [plots.Edge(EVIL, "b", 3, EVIL), plots.Edge("b", EVIL, 1, "back")], text="t"),
    ]
    note = Note(EVIL, Tone.WARNING)
    return Report(EVIL, EVIL, [Figure(EVIL, 3, note=EVIL)], [Section(EVIL, EVIL, [table, note, *drawn])], EVIL, NOON)


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_is_one_file_without_scripts_and_without_foreign_things(tmp_path: Path) -> None:
    text = sample().write(tmp_path).html.read_text("utf-8")
    page = Elements()
    page.feed(text)
    tags = {tag for tag, _ in page.found}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "a", "image", "foreignobject"})
    policies = [each["content"] for tag, each in page.found if tag == "meta" and "http-equiv" in each]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    names = {name for _, attributes in page.found for name in attributes}
    assert {name for name in names if name.startswith("on") or name in ("src", "href")} == set()
    assert "url(http" not in text
    assert "prefers-color-scheme:dark" in text
    # Drawings follow the colours of the page.
    assert "#01fe" not in text
    assert "var(--accent)" in text


def test_identifiers_on_the_page_are_unique(tmp_path: Path) -> None:
    page = Elements()
    page.feed(sample().write(tmp_path).html.read_text("utf-8"))
    found = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(found) == len(set(found))


def test_markdown_has_the_whole_report(tmp_path: Path) -> None:
    text = sample().write(tmp_path).markdown.read_text("utf-8")
    lines = text.splitlines()
    assert lines[0] == f"# {markdown(EVIL)}"
    assert "| Queue | Label | Size | At |" in lines
    assert "| q | - | - | - |" in lines
    assert "The table shows the first 2 of 70 rows. The file messages.csv contains 2 rows." in lines
    assert f"![{markdown(EVIL)}](bars.svg)" in lines
    assert not any(line.startswith("<") for line in lines)
    assert lines[-1].endswith("at 2026-03-01 12:00:00. All times are UTC.")


def test_every_table_is_a_csv_file_and_every_drawing_a_picture(tmp_path: Path) -> None:
    paths = sample().write(tmp_path / "new" / "folder")
    (table,) = paths.tables
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["queue", "label", "size", "at"]
    assert rows[1][2:] == ["2048", "2026-03-01T12:00:00+00:00"]
    assert rows[2] == ["q", "", "", ""]
    assert [path.name for path in paths.plots] == [
        "bars.svg",
        "stacked.svg",
        "columns.svg",
        "histogram.svg",
        "graph.svg",
    ]
    for path in paths.plots:
        assert "var(" not in path.read_text("utf-8")
        ET.parse(path)


def test_the_same_data_gives_the_same_report(tmp_path: Path) -> None:
    first, second = (sample().write(tmp_path / name).html.read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_long_table_shows_its_first_rows_and_the_file_has_all(tmp_path: Path) -> None:
    table = Table("many", "Many", COLUMNS[:1], [[f"row {number}"] for number in range(120)])
    paths = Report("t", "s", sections=[Section("x", parts=[table])]).write(tmp_path)
    assert table.remark == "The table shows the first 50 of 120 rows. The file many.csv contains 120 rows."
    assert "row 49" in paths.markdown.read_text("utf-8")
    assert "row 50" not in paths.markdown.read_text("utf-8")
    assert "row 119" in paths.tables[0].read_text("utf-8")


def test_a_table_without_rows_says_so(tmp_path: Path) -> None:
    paths = Report("t", "s", sections=[Section("x", parts=[Table("none", "None", COLUMNS, [])])]).write(tmp_path)
    assert "No rows." in paths.markdown.read_text("utf-8")
    assert "No rows." in paths.html.read_text("utf-8")


def test_a_graph_without_a_start_can_be_drawn() -> None:
    ring = [plots.Edge("a", "b", 1, ""), plots.Edge("b", "a", 1, ""), plots.Edge("c", "c", 1, "")]
    assert plots.graph("ring", "Ring", ring, text="").svg.startswith("<svg")


def of_tables(*names: str) -> Report:
    parts = [Table(name, name, COLUMNS[:1], [[name]]) for name in names]
    return Report("t", " ".join(names), sections=[Section("x", parts=parts)], made=NOON)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_a_report_takes_the_place_of_an_earlier_one_and_of_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sample().write(folder)
    of_tables("lost", "routes").write(folder)
    assert files(folder) == {"lost.csv", "routes.csv", "report.md", "report.html"}
    (folder / "mine.csv").write_text("mine")
    (tmp_path / "other.csv").write_text("other")
    with (folder / ".waypost-report").open("a") as notes:
        notes.write("../other.csv\nreport.md\n")
    of_tables("routes").write(folder)
    assert files(folder) == {"routes.csv", "mine.csv", "report.md", "report.html"}
    # It is somebody else's now.
    (folder / "lost.csv").write_text("mine")
    of_tables("routes").write(folder)
    assert files(folder) == {"lost.csv", "routes.csv", "mine.csv", "report.md", "report.html"}
    assert (tmp_path / "other.csv").exists()


def test_a_report_that_cannot_be_written_leaves_whole_files_and_the_earlier_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = of_tables("lost").write(tmp_path).html
    before = page.read_bytes()
    replace = Path.replace
    replaced = []

    def full(path: Path, target: Path) -> Path:
        if target == page:
            raise OSError("no space left")
        replaced.append(target.name)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="no space left"):
            of_tables("refused").write(tmp_path)
    assert replaced == [".waypost-report", "refused.csv", "report.md"]
    assert page.read_bytes() == before
    assert files(tmp_path) == {"lost.csv", "refused.csv", "report.md", "report.html"}
    assert not list(tmp_path.glob(".*.part"))
    of_tables("routes").write(tmp_path)
    assert files(tmp_path) == {"routes.csv", "report.md", "report.html"}
