"""tools/ledger.py, run on small suites with a separate small ledger."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.ledger import LEDGER, LedgerError, read_ledger
from tools.reach import Reach

CSV = """id,section,title,level,scope,requirement
A-1,1,Title,MUST,wire,"The first, with a comma."
A-2,1,Title,MUST,wire,The second.
A-3,1,Title,MAY,platform,The third.
"""

# A row whose scope is about what the product does.
DOES = CSV + "A-4,1,Title,MUST,queue,The fourth.\n"

REACH = """folders = ["tests/node"]
[unreachable]
"json.tool" = "Nobody can switch it on."
"""


@dataclass(slots=True)
class Project:
    """A project in a temporary folder, with the ledger above and whatever tests a test gives it."""

    pytester: pytest.Pytester

    @property
    def ledger(self) -> Path:
        return self.pytester.path / "tests/ledger"

    def run(self, source: str, *options: str) -> pytest.RunResult:
        self.pytester.makepyfile("import pytest\nspec = pytest.mark.spec\n" + source)
        return self.pytester.runpytest("-p", "tools.ledger", "--ledger=record", *options)

    def record(self) -> Any:
        return json.loads((self.pytester.path / "build/ledger.json").read_text())["A"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    project = Project(pytester)
    project.ledger.mkdir(parents=True)
    (project.ledger / "A.csv").write_text(CSV)
    (project.ledger / "waived.toml").touch()
    return project


def test_a_row_is_proven_by_a_test_that_passes(project: Project) -> None:
    result = project.run("@spec('A-1')\ndef test(): pass")
    assert result.ret == 0
    assert project.record() == {
        "rows": 3,
        "proven": 1,
        "reachable": 1,
        "by_reading": [],
        "unreached": [],
        "waived": [],
        "missing": ["A-2", "A-3"],
    }


@pytest.mark.parametrize(
    "other",
    [
        "@spec('A-1')\ndef test_other(): assert False",
        "@spec('A-1')\n@pytest.mark.parametrize('n', [0, 1])\ndef test_other(n): assert n",
        "@pytest.fixture\ndef broken():\n yield\n assert False\n@spec('A-1')\ndef test_other(broken): pass",
        "@pytest.fixture\ndef broken(): assert False\n@spec('A-1')\ndef test_other(broken): pass",
    ],
    ids=["test", "parameter", "teardown", "setup"],
)
def test_one_failure_takes_the_proof_away(project: Project, other: str) -> None:
    project.run("@spec('A-1', 'A-2')\ndef test(): pass\n" + other)
    assert project.record()["missing"] == ["A-1", "A-3"]


def test_skipped_tests_and_expected_failures_prove_nothing(project: Project) -> None:
    result = project.run(
        "@spec('A-1')\ndef test_skip(): pytest.skip()\n"
        "@spec('A-2')\n@pytest.mark.xfail\ndef test_fail(): assert False\n"
        "@spec('A-3')\n@pytest.mark.xfail\ndef test_fail_that_passes(): pass\n"
    )
    assert result.ret == 0
    assert project.record()["proven"] == 0


def test_a_mark_on_a_class_counts_for_its_tests(project: Project) -> None:
    project.run("@spec('A-1')\nclass Test:\n @spec('A-2')\n def test(self): pass")
    assert project.record()["missing"] == ["A-3"]


def test_workers_report_to_one_record(project: Project) -> None:
    result = project.run("@spec('A-1')\n@pytest.mark.parametrize('n', range(4))\ndef test(n): pass", "-n2")
    assert result.ret == 0
    assert project.record()["proven"] == 1


@pytest.mark.parametrize("options", [[], ["-n1"]], ids=["alone", "worker"])
def test_an_unknown_row_is_an_error_that_names_test_and_row(project: Project, options: list[str]) -> None:
    result = project.run("class Test:\n @spec('A-1', 'A-9')\n def test_it(self): pass", *options)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*::Test::test_it: tests/ledger has no row A-9"])
    result.assert_outcomes(errors=1)


def test_a_mark_without_a_row_is_an_error(project: Project) -> None:
    result = project.run("@spec\ndef test(): pass")
    result.stdout.fnmatch_lines(["*::test: its spec mark names no row"])
    result.assert_outcomes(errors=1)


def test_a_waived_row_is_not_missing(project: Project) -> None:
    (project.ledger / "waived.toml").write_text('"A-3" = "It cannot apply."')
    assert project.run("def test(): pass").ret == 0
    assert project.record()["waived"] == ["A-3"]
    assert project.record()["missing"] == ["A-1", "A-2"]


def test_a_waived_row_that_is_proven_fails_the_suite(project: Project) -> None:
    (project.ledger / "waived.toml").write_text('"A-3" = "It cannot apply."')
    result = project.run("@spec('A-3')\ndef test(): pass")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR A-3 is proven by a test; take it out of waived.toml"])


@pytest.mark.parametrize(
    ("waived", "reason"),
    [
        ('"A-9" = "No such row."', "A-9, which is not in the ledger"),
        ('"A-1" = "Hard to test."', "A-1 of scope wire; only platform rows can be waived"),
        ('"A-3" = " "', "no reason for A-3"),
    ],
)
def test_a_wrong_waiver_stops_the_suite(project: Project, waived: str, reason: str) -> None:
    (project.ledger / "waived.toml").write_text(waived)
    result = project.run("def test(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{reason}*"])


def test_a_row_that_is_twice_in_the_ledger_is_refused(project: Project) -> None:
    (project.ledger / "B.csv").write_text(CSV)
    with pytest.raises(LedgerError, match="A-1 is twice"):
        read_ledger(project.ledger)


def test_the_table_counts_by_document_and_scope_and_lists_what_is_missing(project: Project) -> None:
    (project.ledger / "waived.toml").write_text('"A-3" = "It cannot apply."')
    result = project.run("@spec('A-1')\ndef test(): pass", "--ledger=missing")
    lines = [line.split() for line in result.outlines]
    start = lines.index(["document", "scope", "rows", "proven", "reachable", "waived", "missing"])
    assert lines[start + 1 : start + 5] == [
        ["A", "platform", "1", "0", "0", "1", "0"],
        ["A", "wire", "2", "1", "1", "0", "1"],
        ["A", "all", "3", "1", "1", "1", "1"],
        ["all", "all", "3", "1", "1", "1", "1"],
    ]
    assert result.outlines[start + 5] == "A-2 (wire) The second."


def test_a_run_without_the_option_writes_no_record(pytester: pytest.Pytester, project: Project) -> None:
    pytester.makepyfile("def test(): pass")
    assert pytester.runpytest("-p", "tools.ledger").ret == 0
    assert not (pytester.path / "build").exists()


@pytest.fixture
def reach(project: Project) -> Project:
    (project.ledger / "A.csv").write_text(DOES)
    (project.ledger / "reach.toml").write_text(REACH)
    return project


def run_in(project: Project, folder: str, source: str) -> Any:
    """The record of a suite whose one file of tests is in this folder."""
    path = project.pytester.path / folder / "test_it.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import pytest\nspec = pytest.mark.spec\n" + source)
    project.pytester.runpytest("-p", "tools.ledger", "--ledger=record", "--import-mode=importlib")
    return project.record()


def test_a_row_is_reached_by_a_test_that_goes_through_the_product(reach: Project) -> None:
    record = run_in(reach, "tests/node", "@spec('A-4')\ndef test(): pass")
    assert (record["proven"], record["reachable"], record["unreached"]) == (1, 1, [])


def test_a_row_of_a_test_that_lives_elsewhere_is_not_reached(reach: Project) -> None:
    record = run_in(reach, "tests/core", "@spec('A-4')\ndef test(): pass")
    assert (record["proven"], record["reachable"], record["unreached"]) == (1, 0, ["A-4"])


def test_a_row_of_bytes_counts_wherever_its_test_lives(reach: Project) -> None:
    record = run_in(reach, "tests/wire", "@spec('A-1')\ndef test(): pass")
    assert (record["proven"], record["reachable"]) == (1, 1)


@pytest.mark.parametrize(
    "source",
    [
        "from json.tool import main\n@spec('A-4')\ndef test(): assert main",
        "from json import tool\n@spec('A-4')\ndef test(): assert tool",
        "from json import tool\n@pytest.fixture\ndef thing(): return tool\n@spec('A-4')\ndef test(thing): assert thing",
        "from json import tool\ndef helper(): return tool\n@spec('A-4')\nclass Test:\n def test(self): assert helper()",
    ],
    ids=["name", "module", "fixture", "class"],
)
def test_a_row_of_a_test_that_uses_what_no_user_reaches_is_not_reached(reach: Project, source: str) -> None:
    record = run_in(reach, "tests/node", source)
    assert (record["proven"], record["reachable"], record["unreached"]) == (1, 0, ["A-4"])


def test_a_test_beside_one_that_uses_what_no_user_reaches_still_counts(reach: Project) -> None:
    source = "from json import tool\ndef test_other(): assert tool\n@spec('A-4')\ndef test(): pass"
    assert run_in(reach, "tests/node", source)["reachable"] == 1


def test_a_helper_of_the_tests_that_uses_what_no_user_reaches_counts_as_such(reach: Project) -> None:
    helper = reach.pytester.path / "tests/helper.py"
    helper.write_text("from json import tool\ndef rig(): return tool\ndef other(): return 1\n")
    template = "from tests.helper import {0}\n@spec('A-4')\ndef test(): assert {0}()"
    reach.pytester.syspathinsert(reach.pytester.path)
    (reach.pytester.path / "tests/node").mkdir()
    assert Reach.read(reach.pytester.path, LEDGER).is_reached_by(written(reach, template.format("other")))
    assert not Reach.read(reach.pytester.path, LEDGER).is_reached_by(written(reach, template.format("rig")))


def written(project: Project, source: str) -> str:
    """The node id of the test in this source, in a separate file."""
    folder = project.pytester.path / "tests/node"
    name = f"test_{len(list(folder.iterdir()))}.py"
    (folder / name).write_text(source)
    return f"tests/node/{name}::test"


def test_a_row_that_a_reading_contradicts_is_listed_apart(project: Project) -> None:
    (project.ledger / "departs.toml").write_text('"A-1" = "the other way round"')
    result = project.run("@spec('A-1', 'A-2')\ndef test(): pass", "--ledger=table")
    assert project.record()["by_reading"] == ["A-1"]
    result.stdout.fnmatch_lines(["A-1 is proven by a reading: the other way round"])
    result.stdout.fnmatch_lines(["2 of 3 rows are proven, 2 of them through the product, 1 by a reading*"])


def test_a_reading_of_an_unknown_row_stops_the_suite(project: Project) -> None:
    (project.ledger / "departs.toml").write_text('"A-9" = "the other way round"')
    result = project.run("def test(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *departs.toml names A-9, which is not in the ledger*"])


def test_what_reach_names_exists() -> None:
    root = Path(__file__).resolve().parents[1]
    reach = Reach.read(root, LEDGER)
    paths = [root / "src" / module.replace(".", "/") for module in reach.unreachable]
    assert [path for path in paths if not (path.is_dir() or path.with_suffix(".py").exists())] == []
    assert [folder for folder in reach.folders if not (root / folder).is_dir()] == []
    assert all(reach.unreachable.values())


def test_every_reading_that_is_named_is_one() -> None:
    root = Path(__file__).resolve().parents[1]
    known = (root / "docs/readings.md").read_text(encoding="utf-8")
    for row, text in read_ledger(root / LEDGER).departs.items():
        number = text.partition(":")[0].partition(" ")[2]
        assert f"**{number}**" in known, f"{row} names {number}"
