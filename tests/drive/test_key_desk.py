"""The key desk and its workers: peers take turns, and what nobody waits for is not done."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from waypost.drive.driver import Driver
from waypost.drive.keys.key_desk import KeyDesk
from waypost.drive.keys.key_folder import KeyFolder
from waypost.drive.keys.settings import KeySettings
from waypost.drive.keys.workers import Workers
from waypost.drive.settings import settings
from waypost.node.effects import CheckSignatures, KeyWork
from waypost.security.work import CheckedSignature, CheckSignature

SECONDS = 60


class Desk:
    """A desk with one worker, which does nothing before `go`. `began` names the work that it has begun, in order."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("waypost.drive.keys.workers.perform", self._perform)
        self._go, self._is_busy, self._has_more = Event(), Event(), Event()
        self.began: list[bytes] = []
        workers = Workers(1, processes=False)
        self.desk = KeyDesk(KeyFolder(path, KeySettings(), workers, "HOST"), workers, self._has_more.set)

    def _perform(self, work: CheckSignature) -> Any:
        self.began.append(work.certificate)
        self._is_busy.set()
        assert self._go.wait(SECONDS)
        return CheckedSignature(-1, "checked")

    def ask(self, job: int, name: bytes, count: int = 1, *, peer: str = "", size: int = 256) -> None:
        """Ask for so many checks with this certificate, of signatures of so many bytes."""
        checks = CheckSignatures((CheckSignature(name, bytes(size), 0x800E, (b"",)),) * count)
        self.desk.start(KeyWork(job, checks, peer))

    def is_busy(self) -> None:
        """Wait until the worker has begun."""
        assert self._is_busy.wait(SECONDS)

    def results(self, count: int) -> list[int]:
        """Let the worker go on, and wait for the results of so many jobs."""
        self._go.set()
        found: list[int] = []
        while len(found) < count:
            assert self._has_more.wait(SECONDS)
            self._has_more.clear()
            found += [self.desk.take()[0] for _ in range(self.desk.finished)]
        return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    found = Desk(tmp_path / "keys", monkeypatch)
    yield found
    found.desk.close()


def test_work_that_nobody_waits_for_is_not_begun(desk: Desk) -> None:
    desk.ask(1, b"first")
    desk.is_busy()
    desk.ask(2, b"dropped", count=200)
    desk.ask(3, b"last")
    desk.desk.drop(2)
    assert desk.results(2) == [1, 3]
    assert desk.began == [b"first", b"last"]


def test_work_that_has_begun_ends_although_nobody_waits_for_it(desk: Desk) -> None:
    desk.ask(1, b"begun")
    desk.is_busy()
    desk.desk.drop(1)
    desk.ask(2, b"next")
    assert desk.results(2) == [1, 2]


def test_peers_take_turns_whatever_one_of_them_asks_for(desk: Desk) -> None:
    desk.ask(1, b"busy", peer="flood")
    desk.is_busy()
    for job in range(2, 10):
        desk.ask(job, b"flood", peer="flood")
    desk.ask(10, b"honest", count=130, peer="honest")
    desk.ask(11, b"own")
    desk.ask(12, b"own")
    results = desk.results(12)
    assert sorted(results) == list(range(1, 13))
    pieces = [name for place, name in enumerate(desk.began) if name != b"honest" or desk.began[place - 1] != name]
    assert pieces[1:8] == [b"flood", b"honest", b"own", b"flood", b"honest", b"own", b"flood"]
    assert (desk.began.count(b"honest"), desk.began.count(b"flood")) == (130, 8)


def test_dropped_work_leaves_the_turns_of_others(desk: Desk) -> None:
    desk.ask(1, b"busy")
    desk.is_busy()
    desk.ask(2, b"gone", peer="a")
    desk.ask(3, b"b", peer="b")
    desk.desk.drop(2)
    desk.desk.drop(2)
    desk.ask(4, b"a", peer="a")
    assert desk.results(3) == [1, 3, 4]
    assert desk.began == [b"busy", b"b", b"a"]


@pytest.mark.parametrize(("size", "together"), [(512, 64), (1024, 16), (2048, 4), (60_000, 1)])
def test_a_piece_with_long_signatures_takes_no_longer_than_others(desk: Desk, size: int, together: int) -> None:
    desk.ask(1, b"busy", peer="flood")
    desk.is_busy()
    desk.ask(2, b"long", count=128, peer="flood", size=size)
    desk.ask(3, b"honest", peer="honest")
    desk.results(3)
    assert desk.began[: together + 2] == [b"busy", *[b"long"] * together, b"honest"]


def test_the_driver_drops_the_work_for_which_the_engine_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[int] = []
    monkeypatch.setattr(KeyDesk, "start", lambda _desk, _effect: None)
    monkeypatch.setattr(KeyDesk, "drop", lambda _desk, job: dropped.append(job))
    driver = Driver.open(tmp_path, settings("HOST", None), lambda: None, max_size=None)
    kernel = driver.node.kernel
    jobs = [kernel.ask_keys(CheckSignatures(()), lambda _result, _now: None) for _ in range(2)]
    driver.settle()
    kernel.drop_keys(jobs[0])
    kernel.drop_keys(jobs[0])
    driver.settle()
    assert dropped == jobs[:1]
    driver.stop()
    driver.close_store()
