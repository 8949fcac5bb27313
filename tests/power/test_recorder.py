"""The recorder sees every write, flush and name of a process, its threads and its children."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.power import ptrace
from tests.power.disk import everything, unseen
from tests.power.log import ROOT, Finished, Flush, Log, Mapped, Over, Told, Write
from tests.power.recorder import record

pytestmark = pytest.mark.skipif(bool(ptrace.why_not()), reason=ptrace.why_not())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded") / "root"
    (root / "old").mkdir(parents=True)
    (root / "old" / "file").write_bytes(b"before")
    return root


@pytest.fixture(scope="module")
def log(root: Path) -> Log:
    writer = [sys.executable, "-m", "tests.power.writer", str(root)]
    return record(root, root.parent, {7: writer, 8: [sys.executable, "-c", "raise SystemExit(3)"]})


def test_the_log_makes_the_same_files_again(root: Path, log: Log) -> None:
    assert unseen(log, root) == []
    assert len(everything(log)["folder/file"] or b"") == 12_006


def test_what_the_log_has_not_seen_is_found(root: Path, log: Log, tmp_path: Path) -> None:
    copy = tmp_path / "root"
    shutil.copytree(root, copy)
    (copy / "linked").write_bytes(b"unseen")
    (copy / "stranger").touch()
    shutil.rmtree(copy / "old")
    assert unseen(log, copy) == ["linked", "old", "old/file", "stranger"]


def test_what_was_told_stands_among_the_writes(log: Log) -> None:
    told = [at for at, entry in enumerate(log.entries) if isinstance(entry, Told)]
    assert [log.entries[at] for at in told] == [Told(7, '{"begin":"all"}\n'), Told(7, '{"end":"all"}\n')]
    between = log.entries[slice(*told)]
    writes = [entry for entry in between if isinstance(entry, Write)]
    assert [(write.offset, write.data) for write in writes] == [(0, b"one"), (5000, b"two"), (9000, b"threefour")]
    assert isinstance(between[-1], Flush)
    assert between[-1].file == writes[0].file
    # It began when everything had returned.
    assert all(isinstance(entry, Finished) for entry in log.entries[between[-1].begun - 1 : told[1] - 1])


def test_synchronous_writes_are_marked(log: Log) -> None:
    assert [write.data for write in log.entries if isinstance(write, Write) and write.is_synchronous] == [b"five"]


def test_a_flush_of_the_folder_and_a_mapping_are_seen(log: Log) -> None:
    assert any(isinstance(entry, Flush) and entry.file == ROOT for entry in log.entries)
    assert sum(isinstance(entry, Mapped) for entry in log.entries) == 1


def test_rounds_end_with_their_exit_codes(log: Log) -> None:
    assert [entry for entry in log.entries if isinstance(entry, Over)] == [Over(7, 0), Over(8, 3)]
