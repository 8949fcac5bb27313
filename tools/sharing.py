"""A pytest plugin: tests that share a worker, tests that come first, and tests that `make quick` leaves to `make test`.

The tests of one file share a worker, and so do all that use the session of Spark. It takes the place of pytest-xdist's
`--dist loadfile`. (The marks of `--dist loadgroup` do nothing with pytest 9.2.)
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK: Final = "tests/spark/"
# The processes of such a worker get a third of the time of others, if both want it.
NICE: Final = 5

# The tests of Spark that do without the session that the others share. Some start their own Spark.
APART: Final = frozenset(
    f"{SPARK}test_{name}.py"
    for name in ("cluster", "connect", "java", "notebook", "offsets", "options", "origins", "report")
)

# Slow tests, the longest first: a worker that begins it late works on alone when the others have ended. Folders
# end with a slash. `--quick` leaves all of it out; a test that is not here is in both runs.
SLOW: Final = (
    SPARK,
    "tests/spark/test_cluster.py",
    "tests/spark/test_connect.py",
    "tests/cli/test_demo_command.py",
    "tests/spark/test_notebook.py",
    "tests/test_docs.py",
    "tests/sim/test_mutants.py",
    "tests/daemon/test_sequences_of_strangers.py",
    "tests/power/test_power.py",
    "tests/crash/test_transfer_crash.py",
    "tests/daemon/test_full_disk.py",
    "tests/daemon/test_restore.py",
    "tests/sim/",
    "tests/damage/",
    "tests/daemon/",
    "tests/cli/test_hostile_arguments.py",
    "tests/packaging/",
    "tests/test_site.py",
    "tests/cli/test_serve.py",
    "tests/cli/test_ready.py",
    "tests/cli/test_json_everywhere.py",
    "tests/test_examples.py",
    "tests/crash/",
    "tests/power/",
    "tests/foreign/",
    "tests/upgrade/",
    "tests/cli/test_documents.py",
    "tests/cli/test_remote_queue_commands.py",
    "tests/cli/test_sim_command.py",
    "tests/test_machinery.py",
    "tests/test_vocabulary.py",
    "tests/client/",
    "tests/http/",
)


def scope_of(nodeid: str) -> str:
    """The unit of work of a worker: a file, or the tests that share a session."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(SPARK) and file not in APART else file


def rank(file: str) -> int:
    """The place of a scope, or of a file, among those that take long. The others come behind them."""
    if file in SLOW:
        return SLOW.index(file)
    folders = (place for place, path in enumerate(SLOW) if path.endswith("/") and file.startswith(path))
    return next(folders, len(SLOW))


def is_slow(nodeid: str) -> bool:
    return rank(nodeid.partition("::")[0]) < len(SLOW)


class Turns:
    """A worker without the session of Spark gives way to the one that has it.

    That is the longest piece of work and nobody can share it: everything else has to end beside it, not after it.
    """

    def __init__(self) -> None:
        self._has_begun = False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not self._has_begun and scope_of(nodeid) != SPARK:
            os.nice(NICE)
        self._has_begun = True


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives out scopes as the workers have sorted them."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out what takes long (SLOW in tools/sharing.py)")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Turns())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Rewrite the assertions of all tests the first time: a half in each of two processes, not all in each worker."""
    tests = config.rootpath / "tests"
    if any((tests / "__pycache__").glob("*-pytest-*.pyc")):
        return
    files = sorted(map(str, tests.rglob("test_*.py")))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    halves = [
        subprocess.Popen([*command, *half], cwd=config.rootpath, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for half in (files[::2], files[1::2])
        if half
    ]
    for half in halves:
        half.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return Sharing(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even imported, because Spark alone takes seconds."""
    if not config.getoption("--quick"):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return is_slow(f"{path}/" if collection_path.is_dir() else path) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker: what takes long, and then the scopes with most tests."""
    if hasattr(config, "workerinput"):
        counts = Counter(scope_of(item.nodeid) for item in items)
        scopes = {scope: (rank(scope), -count, scope) for scope, count in counts.items()}
        items.sort(key=lambda item: scopes[scope_of(item.nodeid)])
