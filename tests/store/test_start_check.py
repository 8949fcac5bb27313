"""The look at a store's pages before LMDB opens it: after an unclean end, and not after a clean one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from tests.store import writer
from tests.store.engines import put
from waypost.errors import NotAStore, StoreDamaged, StoreError
from waypost.store import folder as folders
from waypost.store import start_check
from waypost.store.keys import message_key
from waypost.store.lmdb import LmdbStore
from waypost.store.page_file import PageFile
from waypost.store.port import Table

M = Table.MESSAGES


class Walks:
    """The number of looks at pages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        damage_of = start_check.damage_of

        def counted(*args: object) -> object:
            self.count += 1
            return damage_of(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(start_check, "damage_of", counted)


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Walks:
    return Walks(monkeypatch)


def fill(folder: Path, count: int = 300) -> None:
    with LmdbStore(folder) as store:
        store.commit(put(*((message_key(1, number), bytes(700)) for number in range(count))), 1)


def damage_leaf(folder: Path) -> None:
    """Destroy the order of a leaf of the messages."""
    data = folder / "data.mdb"
    with PageFile(data) as file:
        page_size = file.page_size
        number = next(
            each for each in range(2, file.count) if (page := file.page(each))[10] == 2 and message_key(1, 9) in page
        )
    with data.open("r+b") as opened:
        opened.seek(number * page_size + 16)
        opened.write(bytes(4))


def test_after_a_clean_end_pages_are_not_looked_at(tmp_path: Path, walks: Walks) -> None:
    for _ in range(3):
        fill(tmp_path)
    assert walks.count == 0


def test_after_an_unclean_end_pages_are_looked_at_once(tmp_path: Path, walks: Walks) -> None:
    with subprocess.Popen(
        [sys.executable, writer.__file__, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    seen: list[tuple[int, int]] = []
    LmdbStore(tmp_path, on_walk=lambda done, total: seen.append((done, total))).close()
    assert walks.count == 1
    assert seen
    assert all(0 <= done <= total for done, total in seen)
    assert seen[-1][0] == seen[-1][1]
    LmdbStore(tmp_path).close()
    assert walks.count == 1


def test_the_mark_is_gone_before_lmdb_opens_the_file(
    tmp_path: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abort of LMDB is an unclean end, also of a life that has written nothing."""
    fill(tmp_path)

    def aborts(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("waypost.store.lmdb.lmdb.open", aborts)
        with pytest.raises(KeyboardInterrupt):
            LmdbStore(tmp_path)
    LmdbStore(tmp_path).close()
    assert walks.count == 1


def test_a_store_that_could_not_write_everything_leaves_no_mark(tmp_path: Path, walks: Walks) -> None:
    store = LmdbStore(tmp_path)
    with pytest.raises(StoreError):
        store.commit(put((b"", b"a key that LMDB refuses")), 1)
    with pytest.raises(StoreError):
        store.close()
    LmdbStore(tmp_path).close()
    assert walks.count == 1


def test_without_room_for_the_mark_pages_are_looked_at(
    tmp_path: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(start_check, "leave_mark", full)
        fill(tmp_path)
    fill(tmp_path)
    assert walks.count == 1


@pytest.mark.parametrize("change", ["size", "transaction", "torn"])
def test_a_mark_counts_only_for_the_file_that_it_was_made_for(change: str, tmp_path: Path, walks: Walks) -> None:
    fill(tmp_path)
    if change == "size":
        with (tmp_path / "data.mdb").open("ab") as data:
            data.write(bytes(4096))
    elif change == "transaction":
        older = (tmp_path / "data.mdb").read_bytes()
        fill(tmp_path, 1)
        (tmp_path / "data.mdb").write_bytes(older)
    else:
        lock = tmp_path / "waypost.lock"
        mark = bytearray(lock.read_bytes())
        mark[-1] ^= 1
        lock.write_bytes(mark)
    LmdbStore(tmp_path).close()
    assert walks.count == 1


def test_damage_is_a_sentence_with_the_page_the_table_and_the_command(tmp_path: Path) -> None:
    fill(tmp_path)
    damage_leaf(tmp_path)
    (tmp_path / "waypost.lock").unlink()
    for _ in range(2):
        with pytest.raises(StoreDamaged) as caught:
            LmdbStore(tmp_path)
        assert "of the table messages" in str(caught.value)
        assert "page " in str(caught.value)
        assert f"`waypost store salvage {tmp_path} NEW`" in str(caught.value)


def test_a_file_that_is_cut_off_is_damaged_also_after_a_clean_end(tmp_path: Path) -> None:
    fill(tmp_path)
    os.truncate(tmp_path / "data.mdb", 9 * 4096)
    with pytest.raises(StoreDamaged, match="end of the file"):
        LmdbStore(tmp_path)


def test_the_mark_stands_behind_the_holder(tmp_path: Path) -> None:
    fill(tmp_path)
    lock = (tmp_path / "waypost.lock").read_bytes()
    assert lock[:16].decode().strip() == str(os.getpid())
    assert len(lock) <= 512
    opened = folders.lock_folder(tmp_path)
    try:
        found = folders.take_mark(opened)
        assert found is not None
        assert found[1] == (tmp_path / "data.mdb").stat().st_size
        assert folders.take_mark(opened) is None
    finally:
        os.close(opened)


def test_a_file_of_another_program_is_not_called_damaged(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), max_dbs=1) as env, env.begin(write=True) as transaction:
        transaction.put(b"key", b"value")
        env.open_db(b"theirs", transaction, dupsort=True)
    with pytest.raises(NotAStore):
        LmdbStore(tmp_path)
