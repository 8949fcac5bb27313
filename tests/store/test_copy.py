"""Copies of a store by another process, while its owner writes."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Table

COPYING: Final = """
import os, sys
from waypost.store.lmdb_reading import StoreSnapshot
with StoreSnapshot(sys.argv[1]) as snapshot, open(sys.argv[2], "wb") as file:
    print("open", flush=True)
    sys.stdin.readline()
    snapshot.copy(file.fileno())
    print(snapshot.bytes_in_use)
"""


def write(store: LmdbStore, first: int, count: int) -> None:
    batch = Batch()
    for number in range(first, first + count):
        batch.put(Table.MESSAGES, number.to_bytes(16, "big"), b"v" * 1000)
    store.commit(batch, 1)


def test_a_copy_is_of_the_moment_in_which_the_snapshot_was_taken_however_the_store_grows(tmp_path: Path) -> None:
    with LmdbStore(tmp_path / "store") as store:
        write(store, 0, 100)
        words = [sys.executable, "-c", COPYING, str(tmp_path / "store"), str(tmp_path / "copied")]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            # Beyond the map that the other process has.
            for part in range(1, 9):
                write(store, 10_000 * part, 10_000)
            told, _ = process.communicate("\n", 60)
            assert process.returncode == 0
    (tmp_path / "copy").mkdir()
    size = (tmp_path / "copied").stat().st_size
    (tmp_path / "copied").rename(tmp_path / "copy/data.mdb")
    with LmdbStore(tmp_path / "copy") as copy:
        assert copy.count(Table.MESSAGES) == 100
        assert copy.get(Table.MESSAGES, bytes(16)) == b"v" * 1000
    assert abs(size - int(told)) <= 8 * 4096
