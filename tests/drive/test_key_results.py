"""Results of work with keys, and the facts about keys, come into the engine together."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from waypost.api.keys import ShowKeys
from waypost.clock import Now
from waypost.drive.answers import Answer
from waypost.drive.driver import Driver
from waypost.drive.keys.key_desk import KeyDesk
from waypost.drive.keys.key_folder import KeyFolder
from waypost.drive.keys.settings import KEY_FOLDER, KeySettings
from waypost.drive.keys.workers import Workers
from waypost.node.recovery import Settings
from waypost.security.protection_facts import ProtectionFacts

LIMIT = 60.0


@contextmanager
def running(path: Path) -> Iterator[Driver]:
    driver = Driver.open(path, Settings("HOST"), lambda: None, max_size=None, keys=KeySettings(bits=1024))
    try:
        yield driver
    finally:
        driver.stop()
        driver.finish(driver.close_store())


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with running(tmp_path) as found:
        yield found


def asked(driver: Driver) -> tuple[Answer, KeyDesk]:
    """A question about keys, whose result waits for the next poll."""
    answer = driver.start(ShowKeys(), driver.node.administrator)
    driver.settle()
    desk = driver._keys
    assert desk is not None
    until(lambda: desk.finished > 0)
    return answer, desk


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_facts_that_fail_once_lose_neither_results_nor_the_change(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, desk = asked(driver)

    def fail() -> ProtectionFacts:
        raise RuntimeError("odd")

    with monkeypatch.context() as patch:
        patch.setattr(desk.folder, "facts", fail)
        with pytest.raises(RuntimeError):
            driver.poll()
    done = [answer.is_done]
    driver.poll()
    assert [*done, answer.is_done] == [False, True]
    assert driver.node.protection.facts.encryption_list.a_public_keys
    assert desk.take_facts() is None


def test_a_result_waits_for_facts_that_are_as_new(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that was just registered, for example, is known when its answer says so."""
    known: list[bool] = []
    _, desk = asked(driver)

    def note(_result: object, _now: Now) -> None:
        known.append(driver.node.protection.facts == desk.folder.facts())

    driver.node.kernel._jobs[1000] = note
    take_facts = desk.take_facts

    def overtaken() -> ProtectionFacts | None:
        facts = take_facts()
        # The folder changes just behind the look at it, and the result is there at once.
        desk.folder.rotate("exchange", 1)
        desk._end(1000, None)
        return facts

    with monkeypatch.context() as patch:
        patch.setattr(KeyDesk, "take_facts", lambda _: overtaken())
        driver.poll()
    assert known == []
    driver.poll()
    assert known == [True]


def test_a_grace_that_ends_while_the_queue_manager_is_stopped_is_over_at_the_next_start(tmp_path: Path) -> None:
    workers = Workers(processes=False)
    folder = KeyFolder(tmp_path, KeySettings(bits=1024), workers, "HOST")
    with running(tmp_path):
        folder.current("exchange")
        folder.rotate("exchange", 1)
    path = tmp_path / KEY_FOLDER / "index.json"
    path.write_text(re.sub(r'"ends": \d+', '"ends": 1', path.read_text()))
    with running(tmp_path) as driver:
        assert driver.node.protection.facts.grace_ends == 1

        def is_over() -> bool:
            driver.tick()
            driver.poll()
            return driver.node.protection.facts.grace_ends is None

        until(is_over)
        assert len(list(path.parent.glob("*.pem"))) == 1
