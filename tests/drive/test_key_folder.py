"""The key folder, used by several threads at once."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from waypost.api.keys import KINDS
from waypost.drive.keys import key_state
from waypost.drive.keys.formats import loaded, pem_of, pkcs8, sealed_pem
from waypost.drive.keys.key_folder import KeyFolder
from waypost.drive.keys.rsa_work import perform
from waypost.drive.keys.settings import KeySettings
from waypost.drive.keys.workers import Workers
from waypost.guid import guid_text, parse_guid
from waypost.security.work import Generate, Work

# Long enough for a machine with four busy neighbours.
LIMIT = 60.0


@cache
def private(_number: int) -> bytes:
    found: bytes = perform(Generate(1024))
    return found


class SlowWorkers(Workers):
    """Makes a key when the test says so."""

    def __init__(self) -> None:
        super().__init__(processes=False)
        self.asked = 0
        self.is_asked = Event()
        self.may_answer = Event()

    def call(self, work: Work) -> Any:
        self.asked += 1
        number = self.asked
        self.is_asked.set()
        assert self.may_answer.wait(LIMIT)
        return private(number) if isinstance(work, Generate) else perform(work)


class Desk:
    """A key folder with slow workers, and threads that use it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "keys"
        self.workers = SlowWorkers()
        self.folder = self.opened()
        self.threads = ThreadPoolExecutor(8)

    def opened(self) -> KeyFolder:
        return KeyFolder(self.path.parent, KeySettings(), self.workers, "HOST")

    def making(self) -> Future[Any]:
        """The current exchange key that a thread has begun to make."""
        making = self.threads.submit(self.folder.current, "exchange")
        assert self.workers.is_asked.wait(LIMIT)
        return making


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    yield found
    found.workers.may_answer.set()
    found.threads.shutdown()


def test_nobody_waits_for_a_key_that_is_being_made_for_another(desk: Desk) -> None:
    making = desk.making()
    folder, pem = desk.folder, pem_of(loaded(private(9)).public_key())
    for use in (
        lambda: folder.decrypting_keys(time.time()),
        lambda: (folder.facts(), folder.keys, folder.certificates, folder.pins, folder.changes),
        lambda: folder.note_answer("there", bytes(16)),
        lambda: folder.pin("there", pem, "exchange"),
        lambda: folder.unpin("there", ["exchange"]),
    ):
        desk.threads.submit(use).result(LIMIT / 4)
    assert not making.done()
    desk.workers.may_answer.set()
    assert pkcs8(making.result(LIMIT)) == private(1)
    assert folder.decrypting_keys(time.time()) == (private(1),)


def test_nobody_waits_for_the_disk_to_read_the_folder(desk: Desk) -> None:
    with desk.folder._lock:
        for use in (
            lambda: desk.folder.decrypting_keys(time.time()),
            lambda: (desk.folder.facts(), desk.folder.keys, desk.folder.changes),
        ):
            desk.threads.submit(use).result(LIMIT / 4)


def test_two_callers_at_once_make_one_key(desk: Desk) -> None:
    making = [desk.making(), *(desk.threads.submit(desk.folder.current, "exchange") for _ in range(4))]
    desk.workers.may_answer.set()
    assert [pkcs8(each.result(LIMIT)) for each in making] == [private(1)] * 5
    assert desk.workers.asked == len(desk.folder.keys) == len(desk.opened().keys) == 1


def test_a_key_that_is_imported_while_one_is_being_made_is_the_current_one(desk: Desk) -> None:
    making = desk.making()
    pem = sealed_pem(loaded(private(9)), None)
    desk.threads.submit(desk.folder.import_key, "exchange", pem, "", 30).result(LIMIT / 4)
    desk.workers.may_answer.set()
    assert pkcs8(making.result(LIMIT)) == private(9)
    assert [each.retired for each in desk.folder.keys] == [None]


def test_the_folder_may_change_while_its_facts_are_gathered(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = desk.folder
    for number in range(1, 4):
        folder.note_answer(f"host-{number}", number.to_bytes(16, "big"))

    def changing(text: str) -> bytes:
        guid = parse_guid(text)
        folder.note_answer("news", bytes(15) + b"\x09")
        folder.note_answer(f"more-{guid_text(guid)}", guid)
        return guid

    monkeypatch.setattr(key_state, "parse_guid", changing)
    assert set(folder.facts().answered) == {"host-1", "host-2", "host-3"}
    monkeypatch.undo()
    assert len(folder.facts().answered) == len(desk.opened().facts().answered) == 7


def test_a_key_whose_grace_has_ended_is_forgotten_with_its_file(desk: Desk) -> None:
    folder = desk.folder
    desk.workers.may_answer.set()
    for kind in KINDS:
        folder.current(kind)
        folder.rotate(kind, 1)
    (ends,) = {each.ends for each in folder.keys if each.ends is not None}
    assert folder.facts().grace_ends == ends
    changes = folder.changes
    folder.end_keys(ends - 1)
    assert (folder.changes, len(folder.decrypting_keys(ends - 1)), len(folder.keys)) == (changes, 2, 4)
    folder.end_keys(ends)
    for each in (folder, desk.opened()):
        assert [key.ends for key in each.keys] == [None, None]
        assert each.facts().grace_ends is None
    assert folder.changes == changes + 1
    assert {path.stem for path in desk.path.glob("*.pem")} == {each.digest for each in folder.keys}
