"""A store of format 1 gets its checksums when it is opened: nothing of it is lost, whenever the process dies."""

import os
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import lmdb
import pytest

from waypost.errors import StoreDamaged, StoreFull
from waypost.store import upgrade
from waypost.store.lmdb import LmdbStore
from waypost.store.lmdb_reading import StoreSnapshot
from waypost.store.port import Table

M = Table.MESSAGES
COUNT = 300
# Version 0.1 had all of today's tables but these.
NEW = {Table.DAMAGED}

# Opens a store, and is killed at the moment that is named by its second argument.
OPEN_AND_DIE = """
import os, signal, sys
from pathlib import Path
from waypost.store import upgrade
from waypost.store.lmdb import LmdbStore

folder, moment = sys.argv[1:]
upgrade._PART = 50

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def die_before(owner, name):
    setattr(owner, name, die)

def die_behind(owner, name):
    done = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: (done(*args, **kwargs), die()))

calls = []
def progress(done, total):
    calls.append(done)
    if moment == "copy" and len(calls) == 3:
        die()

if moment == "before":
    die_before(upgrade, "_copy")
elif moment == "copied":
    die_behind(upgrade, "_copy")
elif moment == "unlinked":
    die_before(Path, "replace")
elif moment == "replaced":
    die_behind(Path, "replace")
elif moment == "flushed":
    die_behind(upgrade, "flush_folder")
with LmdbStore(folder, on_upgrade=progress):
    print("open")
"""


def value(number: int) -> bytes:
    return b"%d:" % number + bytes(number * 37 % 6000)


def make_old(folder: Path, *, without: tuple[Table, ...] = ()) -> None:
    """A store as it was before there were checksums."""
    folder.mkdir(exist_ok=True)
    with lmdb.open(str(folder), 1 << 26, max_dbs=len(Table) + 1) as env, env.begin(write=True) as transaction:
        transaction.put(b"format", (1).to_bytes(4, "little"), db=env.open_db(b"store", transaction))
        for table in Table:
            if table in NEW or table in without:
                continue
            database = env.open_db(table.name.lower().encode(), transaction)
            for number in range(COUNT if table is M else 3):
                transaction.put(b"%04d" % number, value(number), db=database)


def check(folder: Path, *, without: tuple[Table, ...] = ()) -> None:
    with LmdbStore(folder) as store:
        for table in Table:
            count = 0 if table in NEW or table in without else COUNT if table is M else 3
            assert store.count(table) == count
            assert [store.get(table, b"%04d" % number) for number in range(count)] == list(map(value, range(count)))
    assert {path.name for path in folder.iterdir()} == {"data.mdb", "lock.mdb", "waypost.lock"}
    assert (folder / "data.mdb").stat().st_mode & 0o777 == 0o600


def test_every_record_of_the_old_format_is_there_and_has_its_checksum(tmp_path: Path) -> None:
    make_old(tmp_path)
    told: list[tuple[int, int]] = []
    with LmdbStore(tmp_path, on_upgrade=lambda done, total: told.append((done, total))) as store:
        assert store.get(M, b"0007") == value(7)
    total = COUNT + 3 * (len(Table) - len(NEW) - 1)
    assert told[-1] == (total, total)
    check(tmp_path)
    with StoreSnapshot(tmp_path) as snapshot:
        assert snapshot.get(M, b"0007") == value(7)
    with LmdbStore(tmp_path, on_upgrade=lambda *_: pytest.fail("upgraded twice")):
        pass


def test_a_store_from_before_there_were_claims_and_stages_is_upgraded(tmp_path: Path) -> None:
    make_old(tmp_path, without=(Table.BULK,))
    check(tmp_path, without=(Table.BULK,))


@pytest.mark.parametrize("moment", ["before", "copy", "copied", "unlinked", "replaced", "flushed", "never"])
def test_an_upgrade_that_is_killed_leaves_the_old_store_or_the_new_one(tmp_path: Path, moment: str) -> None:
    make_old(tmp_path)
    command = [sys.executable, "-c", OPEN_AND_DIE, str(tmp_path), moment]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if moment == "never" else -signal.SIGKILL), done.stderr
    check(tmp_path)


def test_a_disk_without_room_for_the_copy_is_told_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path)
    before = (tmp_path / "data.mdb").read_bytes()
    usage = namedtuple("usage", "total used free")  # noqa: PYI024, as shutil has it
    monkeypatch.setattr(upgrade, "disk_usage", lambda _: usage(1 << 30, 1 << 30, 12_345))
    with pytest.raises(StoreFull, match=r"requires [\d,]+ bytes of disk space, but only 12,345 are free"):
        LmdbStore(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before
    monkeypatch.undo()
    check(tmp_path)


def test_a_copy_that_fails_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "_parts", fail)
        with pytest.raises(StoreFull):
            LmdbStore(tmp_path)
    check(tmp_path)


def test_records_that_are_not_all_there_are_not_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path)
    parts = upgrade._parts
    monkeypatch.setattr(upgrade, "_parts", lambda records: parts(iter(list(records)[1:])))
    with pytest.raises(StoreDamaged, match="its table messages should have 300 records, but only 299 could be copied"):
        LmdbStore(tmp_path)
    monkeypatch.undo()
    check(tmp_path)
