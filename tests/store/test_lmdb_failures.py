"""One clear error for each way in which a folder fails, with nothing lost and nothing half-written."""

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from tests.store import writer
from tests.store.disks import MEGABYTE, free_bytes, small_disk
from tests.store.engines import put
from waypost.errors import (
    NotAStore,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreReadOnly,
    StoreTooNew,
)
from waypost.store import folder as store_folder
from waypost.store import lmdb as store_engine
from waypost.store.lmdb import LmdbStore
from waypost.store.lmdb_reading import FORMAT_VERSION
from waypost.store.port import Table

M = Table.MESSAGES
BODY = bytes(50_000)
NOBODY = 65534

# Opens a store and reads all of it in a separate process, which a damaged file could kill.
READ_ALL = """
import sys
from waypost.errors import StoreError
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Table, after
try:
    with LmdbStore(sys.argv[1]) as store:
        for table in Table:
            start = b""
            while page := store.scan(table, start):
                start = after(page[-1][0])
    print("sound")
except StoreError as error:
    print(type(error).__name__)
"""


def read_all(folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", READ_ALL, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 8 MB."""
    with small_disk(8 * MEGABYTE) as path:
        yield path


def fill(store: LmdbStore) -> tuple[list[int], list[int]]:
    """Submit until the store is full: the tokens that were reported, and all."""
    reported: list[int] = []
    submitted: list[int] = []
    while store.trouble is None:
        submitted.append(len(submitted))
        store.submit(put((b"%04d" % submitted[-1], BODY), (b"%04d." % submitted[-1], b"twin")), submitted[-1])
        assert store.wait(60)
        reported += store.poll()
    return reported, submitted


def trouble_of(store: LmdbStore) -> StoreError | None:
    """The attribute as it is now; a type checker believes that it stays as it was."""
    return store.trouble


def keys_of(tokens: list[int]) -> list[bytes]:
    return [b"%04d" % token + end for token in tokens for end in (b"", b".")]


def test_on_a_full_disk_batches_wait_and_are_written_when_there_is_room(disk: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    with LmdbStore(disk / "store") as store:
        reported, submitted = fill(store)
        assert isinstance(trouble_of(store), StoreFull)
        assert "the disk is full" in str(store.trouble)
        assert 0 < len(reported) < len(submitted)
        assert store.keys(M, limit=1000) == keys_of(reported)
        with pytest.raises(OutcomeUnknown):
            store.commit(put((b"last", b"")), 9999)
        ballast.unlink()
        while len(reported) < len(submitted) + 1:
            assert store.wait(60)
            reported += store.poll()
        assert reported == [*submitted, 9999]
        assert trouble_of(store) is None
        assert store.keys(M, limit=1000) == [*keys_of(submitted), b"last"]


def test_a_store_that_is_closed_on_a_full_disk_says_what_it_could_not_write(disk: Path) -> None:
    store = LmdbStore(disk / "store")
    reported, submitted = fill(store)
    assert reported != submitted
    with pytest.raises(StoreFull):
        store.close()
    # It opens on the full disk, and has all that was reported, in whole batches.
    assert read_all(disk / "store") == "sound"
    with LmdbStore(disk / "store") as store:
        assert store.keys(M, limit=1000) == keys_of(reported)


def test_a_new_store_on_a_full_disk_is_refused(disk: Path) -> None:
    (disk / "ballast").write_bytes(bytes(free_bytes(disk)))
    with pytest.raises(StoreFull):
        LmdbStore(disk / "store")
    (disk / "ballast").unlink()
    with LmdbStore(disk / "store") as store:
        store.commit(put((b"a", b"1")), 1)


def test_the_largest_size_is_a_full_disk_too(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, max_size=1 << 20)
    reported, submitted = fill(store)
    assert isinstance(store.trouble, StoreFull)
    assert "has reached its maximum size" in str(store.trouble)
    with pytest.raises(StoreFull):
        store.close()
    with LmdbStore(tmp_path, max_size=1 << 22) as store:
        assert store.keys(M, limit=1000) == keys_of(reported)
        store.commit(put((b"%04d" % submitted[-1], BODY)), 1)


def test_a_file_that_may_not_grow_lets_batches_wait_too(tmp_path: Path) -> None:
    """The bound of the operating system, raised again while the store waits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with LmdbStore(tmp_path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
        try:
            reported, submitted = fill(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        while len(reported) < len(submitted):
            assert store.wait(60)
            reported += store.poll()
        assert reported == submitted
        assert trouble_of(store) is None


def test_a_read_only_folder_is_refused(disk: Path) -> None:
    LmdbStore(disk / "store").close()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    for folder in (disk / "store", disk / "new"):
        with pytest.raises(StoreReadOnly, match="cannot write to "):
            LmdbStore(folder)


def test_a_folder_without_the_right_to_write_is_refused() -> None:
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o500)
        # Root may write everywhere, so somebody else tries.
        if user == 0:
            os.chown(folder, NOBODY, -1)
            os.seteuid(NOBODY)
        try:
            with pytest.raises(StoreReadOnly, match="cannot write to "):
                LmdbStore(folder)
        finally:
            os.seteuid(user)
            folder.chmod(0o700)
        assert list(folder.iterdir()) == []


def test_a_second_process_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, writer.__file__, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StoreInUse, match=f"is in use by process {process.pid}"):
            LmdbStore(tmp_path)
        process.kill()
        process.stdout.read()
    with LmdbStore(tmp_path) as store:
        assert store.first(M) is not None
        assert read_all(tmp_path) == "StoreInUse"
    assert read_all(tmp_path) == "sound"


def test_a_second_store_in_one_process_is_refused(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
            LmdbStore(tmp_path)
        store.commit(put((b"a", b"1")), 1)


def test_the_store_of_a_newer_waypost_is_refused_and_untouched(tmp_path: Path) -> None:
    LmdbStore(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=2) as env, env.begin(write=True) as transaction:
        mark = env.open_db(b"store", transaction)
        transaction.put(b"format", (FORMAT_VERSION + 1).to_bytes(4, "little"), db=mark)
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(
        StoreTooNew, match=f"has format {FORMAT_VERSION + 1}, but this version of Waypost supports only formats up to"
    ):
        LmdbStore(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_a_folder_with_something_else_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(NotAStore, match="contains other files"):
        LmdbStore(tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]
    for path in (tmp_path / "letter.txt", tmp_path / "letter.txt" / "below"):
        with pytest.raises(NotAStore, match="is not a folder"):
            LmdbStore(path)


def test_the_database_of_another_program_is_refused_and_untouched(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as transaction:
        transaction.put(b"theirs", b"1")
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(NotAStore, match="is not a store of Waypost"):
        LmdbStore(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before


def test_a_fresh_file_system_and_a_start_that_was_cut_off_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "waypost.lock").touch()
    (tmp_path / "lock.mdb").touch()
    (tmp_path / "data.new").write_bytes(b"\xa5" * 8192)
    (tmp_path / "data.mdb").touch()
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"a", b"1")), 1)
    assert not (tmp_path / "data.new").exists()


def test_a_data_file_gets_its_name_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[list[str]] = []

    def cut_off(new: Path, _: Path) -> None:
        names.append(sorted(os.listdir(tmp_path / "store")))
        raise OSError(errno.EIO, "power fails")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", cut_off)
        with pytest.raises(StoreError, match="power fails"):
            LmdbStore(tmp_path / "store")
    assert names == [["data.new", "waypost.lock"]]
    with LmdbStore(tmp_path / "store") as store:
        store.commit(put((b"a", b"1")), 1)


def test_new_folders_above_the_store_are_durable_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose name a power failure takes away takes the store along."""
    flushed: list[tuple[Path, list[str]]] = []
    for module in (store_folder, store_engine):
        monkeypatch.setattr(module, "flush_folder", lambda folder: flushed.append((folder, sorted(os.listdir(folder)))))
    store = tmp_path / "a" / "b" / "store"
    LmdbStore(store).close()
    assert flushed[:3] == [(tmp_path, ["a"]), (tmp_path / "a", ["b"]), (tmp_path / "a" / "b", ["store"])]
    assert flushed[-1] == (store, ["data.mdb", "waypost.lock"])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    with LmdbStore(folder) as store:
        for number in range(30):
            store.commit(put(*((b"%02d-%02d" % (number, each), bytes(900)) for each in range(20))), number)
    return folder


def damaged(sound: Path, folder: Path, data: bytes) -> Path:
    shutil.copytree(sound, folder)
    (folder / "data.mdb").write_bytes(data)
    return folder


@pytest.mark.parametrize("size", [100, 4096, 8192, 12288, 50_000, 0.5, -4096])
def test_a_file_that_was_cut_short_is_damaged(sound: Path, tmp_path: Path, size: float) -> None:
    data = (sound / "data.mdb").read_bytes()
    cut = int(len(data) * size) if isinstance(size, float) else size
    assert read_all(damaged(sound, tmp_path / "store", data[:cut])) == "StoreDamaged"


@pytest.mark.parametrize("start", [0, 4096, 8192])
def test_a_file_whose_first_pages_are_garbage_is_damaged(sound: Path, tmp_path: Path, start: int) -> None:
    data = (sound / "data.mdb").read_bytes()
    garbage = data[:start] + b"\xa5" * (len(data) - start)
    assert read_all(damaged(sound, tmp_path / "store", garbage)) == "StoreDamaged"


def test_text_in_place_of_the_file_is_damaged(sound: Path, tmp_path: Path) -> None:
    assert read_all(damaged(sound, tmp_path / "store", b"not a database\n" * 2000)) == "StoreDamaged"


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.9])
def test_a_page_of_garbage_is_damage_when_it_is_read(sound: Path, tmp_path: Path, part: float) -> None:
    data = (sound / "data.mdb").read_bytes()
    at = int(len(data) * part) & ~0xFFF
    garbage = data[:at] + b"\xa5" * 4096 + data[at + 4096 :]
    assert read_all(damaged(sound, tmp_path / "store", garbage)) == "StoreDamaged"
