"""An unusable key folder: a start says so, and a running queue manager goes on without it."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from waypost.api.keys import ShowKeys
from waypost.api.operations import CreateQueue
from waypost.drive.driver import Driver
from waypost.drive.keys.key_desk import KeyDesk
from waypost.drive.keys.key_folder import KeyFolder
from waypost.drive.keys.settings import KeySettings
from waypost.errors import KeyFolderError, ServiceNotAvailable
from waypost.node.directory import DirectoryMode
from waypost.node.recovery import Settings

EMBEDDED = Settings("HOST", directory=DirectoryMode.EMBEDDED)


def opened(path: Path, settings: Settings = EMBEDDED) -> Driver:
    return Driver.open(path, settings, lambda: None, max_size=None, keys=KeySettings(bits=1024))


@contextmanager
def running(path: Path, settings: Settings = EMBEDDED) -> Iterator[Driver]:
    driver = opened(path, settings)
    try:
        yield driver
    finally:
        driver.stop()
        driver.finish(driver.close_store())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The folder of a queue manager that has had no directory so far."""
    with running(tmp_path, Settings("HOST")):
        return tmp_path


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[KeyDesk]:
    """The desks that were closed."""
    found: list[KeyDesk] = []
    close = KeyDesk.close

    def noted(desk: KeyDesk) -> None:
        found.append(desk)
        close(desk)

    monkeypatch.setattr(KeyDesk, "close", noted)
    return found


def full(count: int) -> Callable[[int], None]:
    """A flush that finds the disk full after some that did not."""
    calls = iter(range(count))
    flush = os.fsync

    def fail(file: int) -> None:
        if next(calls, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    return fail


# The first start writes an empty index, and for each key its file and the index; each file has two flushes.
@pytest.mark.parametrize("count", range(10))
def test_a_first_start_on_a_full_disk_ends_with_a_sentence_and_can_be_repeated(
    path: Path, monkeypatch: pytest.MonkeyPatch, closed: list[KeyDesk], count: int
) -> None:
    make_keys = KeyFolder.make_keys

    def make(folder: KeyFolder) -> None:
        patch.setattr(os, "fsync", full(count))
        make_keys(folder)

    with monkeypatch.context() as patch:
        patch.setattr(KeyFolder, "make_keys", make)
        with pytest.raises(KeyFolderError, match=r"cannot write .*/keys/.*No space left on device"):
            opened(path)
    assert len(closed) == 1
    left = {each.name for each in (path / "keys").iterdir()}
    index = (path / "keys" / "index.json").read_text() if "index.json" in left else ""
    # No private key is left that is unknown, nor half a file.
    assert {each for each in left if each.split(".")[0] not in index} <= {"index.json"}
    with running(path) as driver:
        facts = driver.node.protection.facts
        assert facts.encryption_list.a_public_keys
        assert facts.signing_list.a_public_keys


def test_a_private_key_that_a_crash_leaves_alone_does_not_stop_the_next_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    replace = Path.replace

    def crash(partial: Path, target: Path) -> None:
        replace(partial, target)
        if target.suffix == ".pem":
            raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(Crash):
            opened(path)
    with running(path) as driver:
        assert driver.node.protection.facts.encryption_list.a_public_keys


def test_a_key_folder_that_is_not_a_folder_is_refused_with_its_name(path: Path) -> None:
    (path / "keys").write_bytes(b"")
    (path / "keys").chmod(0o600)
    for settings in (EMBEDDED, Settings("HOST")):
        with pytest.raises(KeyFolderError, match=f"cannot read {path / 'keys'}: "):
            opened(path, settings)


def test_a_start_that_fails_after_the_key_folder_is_open_closes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, closed: list[KeyDesk]
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(_: Driver) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Driver, "settle", interrupt)
        with pytest.raises(Interrupted):
            opened(path)
    assert len(closed) == 1
    with running(path):
        pass


def test_a_running_queue_manager_goes_on_without_its_key_folder(path: Path) -> None:
    with running(path, Settings("HOST")) as driver:
        (path / "keys").mkdir(mode=0o755)
        for _ in range(2):
            answer = driver.start(ShowKeys(), driver.node.administrator)
            driver.settle()
            with pytest.raises(ServiceNotAvailable, match=f"run: chmod 700 {path / 'keys'}"):
                answer.result()
        assert not driver.is_broken
        created = driver.start(CreateQueue(name="orders"), driver.node.administrator)
        driver.settle()
        while not created.is_done:
            driver.poll()
        created.result()
        # Later it works, without a restart.
        (path / "keys").chmod(0o700)
        answer = driver.start(ShowKeys(), driver.node.administrator)
        driver.settle()
        while not answer.is_done:
            driver.poll()
        answer.result()


def test_work_with_keys_that_cannot_begin_is_answered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with running(path, Settings("HOST")) as driver:
        with monkeypatch.context() as patch:
            patch.setattr(KeyDesk, "start", fail)
            answer = driver.start(ShowKeys(), driver.node.administrator)
            driver.settle()
        with pytest.raises(ServiceNotAvailable, match="can't start new thread"):
            answer.result()
        assert not driver.is_broken
