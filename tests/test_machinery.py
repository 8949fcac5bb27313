"""tools/sharing.py and tools/needs.py, and what collecting the suite loads."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.late import late
from tools import needs, sharing
from tools.sharing import APART, NICE, SLOW, SPARK, Turns, is_slow, pytest_collection_modifyitems, scope_of

ROOT = Path(__file__).parents[1]

COLLECT = """
import sys
import pytest
code = pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", "tests"])
print("loaded:", sorted({"impacket", "pyspark", "scapy"} & sys.modules.keys()))
sys.exit(code)
"""


def test_collecting_loads_neither_spark_nor_scapy_nor_impacket() -> None:
    """tests/late.py says how a test does without."""
    done = subprocess.run([sys.executable, "-c", COLLECT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_late_modules_exist() -> None:
    """A name that is wrong would be noticed only by the test that uses it."""
    places = {
        place
        for path in (ROOT / "tests").rglob("*.py")
        for place in re.findall(r'^    \w+ = late\("([\w.]+)"\)', path.read_text("utf-8"), re.MULTILINE)
    }
    ours = [ROOT / Path("src" if place.startswith("waypost.") else "", *place.split(".")) for place in places]
    assert len(places) > 10
    assert [
        place
        for place, path in zip(places, ours, strict=True)
        if place.startswith(("waypost.", "tests.")) and not (path.is_dir() or path.with_suffix(".py").exists())
    ] == []


def test_a_late_module_is_patched_and_whole_again() -> None:
    module = late(needs.__name__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "VARIABLE", "OTHER")
        assert needs.VARIABLE == module.VARIABLE == "OTHER"
    assert needs.VARIABLE == module.VARIABLE == "WAYPOST_NEED"


def test_what_takes_long_is_there() -> None:
    assert [path for path in (*SLOW, *APART) if not (ROOT / path).exists()] == []


def test_files_that_run_apart_do_not_use_the_shared_session() -> None:
    assert [path for path in APART if re.search(r"\bspark: ", (ROOT / path).read_text("utf-8"))] == []


def test_tests_that_share_a_session_share_a_worker() -> None:
    assert scope_of("tests/spark/test_sink.py::test_a") == scope_of("tests/spark/contract/test_b.py::test_b") == SPARK
    assert scope_of("tests/spark/test_cluster.py::test_c[1]") == "tests/spark/test_cluster.py"
    assert scope_of("tests/wire/test_a.py::Case::test_a") == "tests/wire/test_a.py"


def test_a_test_is_slow_by_its_folder_or_its_file() -> None:
    assert is_slow("tests/spark/contract/test_a.py::test_a")
    assert is_slow("tests/sim/test_mutants.py::test_a")
    assert not is_slow("tests/wire/test_a.py::test_a")
    assert not is_slow("tests/sparkling/test_a.py::test_a")


def test_a_worker_runs_what_takes_long_first_and_then_the_files_with_most_tests() -> None:
    names = [
        "tests/wire/test_a.py::a",
        "tests/wire/test_b.py::b",
        "tests/wire/test_b.py::c",
        "tests/spark/test_d.py::d",
    ]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    worker: Any = SimpleNamespace(workerinput={})
    pytest_collection_modifyitems(worker, items)
    assert [item.nodeid[-1] for item in items] == ["d", "b", "c", "a"]


@pytest.mark.parametrize(("first", "given"), [("tests/spark/test_a.py::a", []), ("tests/wire/test_a.py::a", [NICE])])
def test_workers_give_way_to_the_one_with_the_session(
    first: str, given: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "nice", asked.append)
    turns = Turns()
    for nodeid in (first, "tests/spark/test_b.py::b", "tests/wire/test_b.py::b"):
        turns.pytest_runtest_logstart(nodeid)
    assert asked == given


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    for name in ("wire", "spark"):
        path = pytester.path / f"tests/{name}/test_{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text("def test(): pass\n")
    return pytester


def test_before_the_first_run_the_assertions_are_rewritten_once(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (suite.path / "tests/test_top.py").write_text("def test(): assert True\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    config: Any = SimpleNamespace(rootpath=suite.path)
    sharing.pytest_xdist_setupnodes(config)
    assert len(list((suite.path / "tests").rglob("test_*-pytest-*.pyc"))) == 3
    monkeypatch.setattr(subprocess, "Popen", None)
    sharing.pytest_xdist_setupnodes(config)


def test_a_quick_run_leaves_out_what_takes_long_and_the_other_does_not(suite: pytest.Pytester) -> None:
    suite.runpytest("-p", sharing.__name__, "--quick").assert_outcomes(passed=1)
    suite.runpytest("-p", sharing.__name__).assert_outcomes(passed=2)


NEEDY = """
import pytest

@pytest.fixture
def realm():
    raise AssertionError("a fixture is not asked for what is missing")

@pytest.mark.needs("samba")
def test(realm): pass

def test_other(): pass
"""


@pytest.fixture
def needy(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setattr(needs, "missing", lambda need: (f"the program of {need}",))
    pytester.makepyfile(NEEDY)
    return pytester


def test_a_test_whose_need_is_missing_is_skipped_and_says_why(
    needy: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(needs.VARIABLE, raising=False)
    result = needy.runpytest("-p", needs.__name__, "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines("SKIPPED*needs samba, and this computer lacks the program of samba: apt-get install*")


def test_a_need_that_the_environment_demands_is_not_skipped(
    needy: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(needs.VARIABLE, "kerberos, samba")
    needy.runpytest("-p", needs.__name__).assert_outcomes(passed=1, errors=1)


def test_an_unknown_need_is_refused(needy: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(needs.VARIABLE, "kerberoast")
    result = needy.runpytest("-p", needs.__name__)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*WAYPOST_NEED names kerberoast; known are chromium, kerberos, samba")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = needs.Need(("waypost", "no_such_package"), ("no-such-program|sh", "no-such-tool"), "")
    monkeypatch.setattr(needs, "NEEDS", {"it": needed})
    needs.missing.cache_clear()
    assert needs.missing("it") == ("no_such_package", "no-such-tool")
    needs.missing.cache_clear()
