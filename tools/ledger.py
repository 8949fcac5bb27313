"""The ledger, a pytest plugin: which requirements of the specifications are proven by a passing test.

tests/ledger/*.csv lists the requirements, one file for each document. A test names those that it proves with
`@pytest.mark.spec("ROW-ID")`; an id that is in no file is a collection error. With `--ledger=record`, pytest writes
build/ledger.json: a row is proven when at least one test that carries it passed and none that carries it failed.
tests/ledger/waived.toml excuses rows of scope `platform` that cannot apply.

Two figures are printed. A proven row is also reachable if its scope is about bytes and names alone, or if a test that
proves it goes through the product (tools/reach.py). tests/ledger/departs.toml lists the rows whose sentence the
product does not follow to the letter, with the reading that it follows instead; they are counted apart.
"""

import csv
import json
import tomllib
from collections import defaultdict
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypedDict

import pytest

from tools.reach import Reach

LEDGER: Final = Path("tests/ledger")
RECORD: Final = Path("build/ledger.json")

# Facts of bytes and names are proven wherever they are made, and no user has to reach a platform.
ANYWHERE: Final = frozenset({"wire", "name", "platform"})

# A test's rows travel in the user_properties of its report, because those are what pytest-xdist sends from a worker.
ROWS: Final = "ledger rows"

# Stands for all documents or scopes, and sorts behind each of them.
TOTAL: Final = "~"


class LedgerError(Exception):
    """The ledger contradicts itself or the tests."""


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement. `document` is the name of its file."""

    document: str
    id: str
    scope: str
    requirement: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """All requirements by id, the ids of those that are waived, and of those that a reading contradicts."""

    rows: Mapping[str, Row]
    waived: Collection[str]
    departs: Mapping[str, str] = field(default_factory=dict)


class Document(TypedDict):
    """The entry of build/ledger.json for one document."""

    rows: int
    proven: int
    reachable: int
    by_reading: list[str]
    unreached: list[str]
    waived: list[str]
    missing: list[str]


@dataclass(slots=True, eq=False)
class Outcomes:
    """The results of the tests that ran, for the rows that they carry."""

    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    # The tests that proved each row.
    tests: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, report: pytest.TestReport) -> None:
        rows = {row for key, rows in report.user_properties if key == ROWS for row in str(rows).split()}
        if report.failed:
            self.failed |= rows
        elif report.passed and report.when == "call" and not hasattr(report, "wasxfail"):
            self.passed |= rows
            for row in rows:
                self.tests[row].add(report.nodeid)

    @property
    def proven(self) -> set[str]:
        return self.passed - self.failed

    def reachable(self, ledger: Ledger, reach: Reach) -> set[str]:
        """Those of the proven rows that the product itself is seen to keep."""
        return {
            row
            for row in self.proven
            if ledger.rows[row].scope in ANYWHERE or any(map(reach.is_reached_by, self.tests[row]))
        }


def read_ledger(directory: Path) -> Ledger:
    rows: dict[str, Row] = {}
    for path in sorted(directory.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                row = Row(path.stem, line["id"], line["scope"], line["requirement"])
                if row.id in rows:
                    raise LedgerError(f"{row.id} is twice in the ledger")
                rows[row.id] = row
    reasons = tomllib.loads((directory / "waived.toml").read_text(encoding="utf-8"))
    for row_id, reason in reasons.items():
        if row_id not in rows:
            raise LedgerError(f"waived.toml names {row_id}, which is not in the ledger")
        if rows[row_id].scope != "platform":
            raise LedgerError(
                f"waived.toml names {row_id} of scope {rows[row_id].scope}; only platform rows can be waived"
            )
        if not isinstance(reason, str) or not reason.strip():
            raise LedgerError(f"waived.toml gives no reason for {row_id}")
    path = directory / "departs.toml"
    departs: dict[str, str] = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for row_id in departs.keys() - rows.keys():
        raise LedgerError(f"departs.toml names {row_id}, which is not in the ledger")
    return Ledger(rows, reasons.keys(), departs)


def summarise(ledger: Ledger, proven: Collection[str], reachable: Collection[str]) -> dict[str, Document]:
    """The record: for each document its counts, and the ids of what is waived, missing or not reached."""
    documents: dict[str, Document] = {}
    for row in ledger.rows.values():
        document = documents.setdefault(
            row.document,
            {"rows": 0, "proven": 0, "reachable": 0, "by_reading": [], "unreached": [], "waived": [], "missing": []},
        )
        document["rows"] += 1
        if row.id in proven:
            document["proven"] += 1
            if row.id in ledger.departs:
                document["by_reading"].append(row.id)
            if row.id in reachable:
                document["reachable"] += 1
            else:
                document["unreached"].append(row.id)
        elif row.id in ledger.waived:
            document["waived"].append(row.id)
        else:
            document["missing"].append(row.id)
    return documents


def table(ledger: Ledger, proven: Collection[str], reachable: Collection[str]) -> list[str]:
    """The counts for each scope of each document, for each document, and for all."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for row in ledger.rows.values():
        column = 1 if row.id in proven else 3 if row.id in ledger.waived else 4
        for key in (row.document, row.scope), (row.document, TOTAL), (TOTAL, TOTAL):
            counts[key][0] += 1
            counts[key][column] += 1
            counts[key][2] += row.id in reachable
    heads = "".join(f"{head:>10}" for head in ("rows", "proven", "reachable", "waived", "missing"))
    lines = [f"{'document':<10}{'scope':<12}{heads}"]
    for key in sorted(counts):
        document, scope = (part.replace(TOTAL, "all") for part in key)
        lines.append(f"{document:<10}{scope:<12}" + "".join(f"{count:>10}" for count in counts[key]))
    return lines


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ledger",
        choices=("record", "table", "missing"),
        help=f"write what this run proves to {RECORD}; print it as a table too; list what is missing too",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        ledger = read_ledger(config.rootpath / LEDGER)
    except LedgerError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(Marks(ledger))
    wanted = config.getoption("--ledger")
    if wanted and not hasattr(config, "workerinput"):
        reach = Reach.read(config.rootpath, LEDGER)
        config.pluginmanager.register(Recorder(ledger, reach, config.rootpath / RECORD, wanted))


# pytest keeps plugins in sets, when there is a conftest.py for some tests only.
@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """Reads the marks of every test as it is collected."""

    ledger: Ledger

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, object, object]:
        made = yield
        if isinstance(made, list):
            for item in made:
                self.read(item)
        return made

    def read(self, item: pytest.Item) -> None:
        marks = list(item.iter_markers("spec"))
        rows = [row for mark in marks for row in mark.args]
        unknown = [str(row) for row in rows if row not in self.ledger.rows]
        if unknown:
            raise pytest.Collector.CollectError(f"{item.nodeid}: {LEDGER} has no row {', '.join(unknown)}")
        if marks and not rows:
            raise pytest.Collector.CollectError(f"{item.nodeid}: its spec mark names no row")
        item.user_properties.append((ROWS, " ".join(rows)))


@dataclass(slots=True, eq=False)
class Recorder:
    """Collects the outcomes of a run, in the one process that sees them all, and writes and prints what they prove."""

    ledger: Ledger
    reach: Reach
    path: Path
    wanted: str
    outcomes: Outcomes = field(default_factory=Outcomes)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.outcomes.add(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        documents = summarise(self.ledger, self.outcomes.proven, self.reachable)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(documents, indent=1) + "\n", encoding="utf-8")
        if self.needlessly_waived:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        proven = self.outcomes.proven
        terminalreporter.section("ledger")
        if self.wanted != "record":
            for line in table(self.ledger, proven, self.reachable):
                terminalreporter.write_line(line)
        if self.wanted == "missing":
            for row in self.ledger.rows.values():
                if row.id not in proven and row.id not in self.ledger.waived:
                    terminalreporter.write_line(f"{row.id} ({row.scope}) {row.requirement}")
            for row_id in sorted(proven - self.reachable):
                terminalreporter.write_line(f"{row_id} is proven, but not through the product")
        by_reading = sorted(proven & self.ledger.departs.keys())
        if self.wanted != "record":
            for row_id in by_reading:
                terminalreporter.write_line(f"{row_id} is proven by a reading: {self.ledger.departs[row_id]}")
        for row_id in self.needlessly_waived:
            terminalreporter.write_line(f"ERROR {row_id} is proven by a test; take it out of waived.toml", red=True)
        terminalreporter.write_line(
            f"{len(proven)} of {len(self.ledger.rows)} rows are proven, {len(self.reachable)} of them through the "
            f"product, {len(by_reading)} by a reading that departs from the sentence; written to {RECORD}"
        )

    @property
    def reachable(self) -> set[str]:
        return self.outcomes.reachable(self.ledger, self.reach)

    @property
    def needlessly_waived(self) -> list[str]:
        return sorted(self.outcomes.proven.intersection(self.ledger.waived))
