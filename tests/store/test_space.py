"""On a disk that is nearly full, what removes goes on, in space that was kept for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.disks import MEGABYTE, free_bytes, small_disk, take_the_rest
from tests.store.engines import put
from waypost.limits import MAX_RESERVE, MIN_RESERVE
from waypost.store.free_pages import free_pages
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Room, Table

M = Table.MESSAGES
SIZE = 12 * MEGABYTE
WAIT = 60


@pytest.fixture
def disk() -> Iterator[Path]:
    with small_disk(SIZE) as path:
        yield path


def room_of(store: LmdbStore) -> Room:
    """The attribute as it is now; a type checker believes that it stays as it was."""
    return store.room


def fill(store: LmdbStore, size: int) -> list[bytes]:
    """Store values of this size for as long as an owner would admit them: their keys."""
    stored: list[bytes] = []
    count = max(20_000 // size, 1)
    while store.room.takes(0, count * size, size):
        keys = [b"%08d" % number for number in range(len(stored), len(stored) + count)]
        store.commit(put(*((key, bytes(size)) for key in keys)), len(stored))
        stored += keys
    return stored


def remove(store: LmdbStore, keys: list[bytes]) -> None:
    for number, key in enumerate(keys):
        batch = Batch()
        batch.delete(M, key)
        store.commit(batch, number)


def until_it_has_room(store: LmdbStore) -> None:
    while store.room.is_low:
        assert store.wait(WAIT)
        store.poll()


def keys_in(store: LmdbStore) -> list[bytes]:
    return list(store.keys(M, limit=1_000_000))


@pytest.mark.parametrize("size", [1500, 10_000, 200_000])
def test_a_disk_is_filled_and_drained_without_a_free_byte_and_filled_again(disk: Path, size: int) -> None:
    with LmdbStore(disk / "store") as store:
        first = fill(store, size)
        assert keys_in(store) == first
        assert len(first) * size > SIZE // 4
        ballast = take_the_rest(disk)
        assert free_bytes(disk) == 0
        remove(store, first)
        assert keys_in(store) == []
        until_it_has_room(store)
        second = fill(store, size)
        assert len(second) > len(first) * 3 // 4
        remove(store, second)
        ballast.unlink()
    with LmdbStore(disk / "store") as store:
        assert keys_in(store) == []


def test_what_is_left_after_a_restart_without_a_free_byte_can_be_removed(disk: Path) -> None:
    with LmdbStore(disk / "store") as store:
        stored = fill(store, 1500)
    take_the_rest(disk)
    with LmdbStore(disk / "store") as store:
        assert not store.room.takes(0, 100_000)
        remove(store, stored)
        assert keys_in(store) == []


def test_many_removals_in_any_order_go_on_without_a_free_byte(disk: Path) -> None:
    with LmdbStore(disk / "store") as store:
        stored = fill(store, 1500)
        take_the_rest(disk)
        # Every removal touches a different page.
        scattered = [key for start in range(97) for key in stored[start::97]]
        for number, key in enumerate(scattered):
            batch = Batch()
            batch.delete(M, key)
            store.submit(batch, number)
        reported: list[int] = []
        while len(reported) < len(scattered):
            assert store.wait(WAIT)
            reported += store.poll()
            assert store.trouble is None
        assert keys_in(store) == []


def test_a_purge_makes_room_though_nothing_else_is_written(disk: Path) -> None:
    with LmdbStore(disk / "store") as store:
        fill(store, 1500)
        take_the_rest(disk)
        assert room_of(store).is_low
        batch = Batch()
        batch.delete_range(M, b"", b"9")
        store.commit(batch, 1)
        until_it_has_room(store)
        assert room_of(store).free > MEGABYTE


def test_another_program_that_fills_and_clears_the_disk_is_noticed_though_nothing_is_written(disk: Path) -> None:
    with LmdbStore(disk / "store") as store:
        assert store.room.free > SIZE // 2
        ballast = take_the_rest(disk)
        while room_of(store).free > MEGABYTE:
            assert store.wait(WAIT)
            store.poll()
        ballast.unlink()
        while room_of(store).free < SIZE // 2:
            assert store.wait(WAIT)
            store.poll()


def test_what_a_reader_still_sees_is_not_room_until_it_has_gone(disk: Path) -> None:
    with LmdbStore(disk / "store") as store:
        stored = fill(store, 1500)
        take_the_rest(disk)
        reader = store._env.begin()
        batch = Batch()
        batch.delete_range(M, b"", stored[len(stored) // 2])
        store.commit(batch, 1)
        remove(store, stored[-5:])
        store._look_at_room()
        store.poll()
        assert room_of(store).is_low
        reader.abort()
        until_it_has_room(store)


def test_the_largest_size_has_a_reserve_too(tmp_path: Path) -> None:
    with LmdbStore(tmp_path, max_size=2 * MEGABYTE) as store:
        first = fill(store, 10_000)
        assert "limited to 2.0 MB" in store.room.sentence
        remove(store, first)
        until_it_has_room(store)
        assert len(fill(store, 10_000)) > len(first) * 3 // 4


def test_a_large_store_keeps_more_and_a_small_disk_less(tmp_path: Path, disk: Path) -> None:
    with LmdbStore(tmp_path / "a") as store:
        assert store.room.reserve == MIN_RESERVE
        store.commit(put(*((b"%d" % number, bytes(MEGABYTE)) for number in range(20))), 1)
        assert MIN_RESERVE < room_of(store).reserve < MAX_RESERVE
    with LmdbStore(tmp_path / "b", reserve=3 * MEGABYTE) as store:
        assert store.room.reserve == 3 * MEGABYTE
        assert os.stat(tmp_path / "b" / "data.mdb").st_blocks * 512 > 3 * MEGABYTE
    with LmdbStore(disk / "store") as store:
        fill(store, 1500)
        assert store.room.reserve == SIZE // 8


def test_a_disk_that_gives_no_space_beforehand_is_written_with_zeros(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waypost.store.space._find_fallocate", lambda: None)
    with LmdbStore(disk / "store") as store:
        stored = fill(store, 1500)
        take_the_rest(disk)
        remove(store, stored)
        assert keys_in(store) == []
    with LmdbStore(disk / "store") as store:
        assert keys_in(store) == []


def test_large_values_are_refused_when_free_pages_are_scattered() -> None:
    scattered = Room("the disk", 4 * MEGABYTE, 0, MEGABYTE, runs={1: 1000, 2: 10})
    assert scattered.takes(0, 1000, 1000)
    assert not scattered.takes(0, 10_000, 10_000)
    assert Room("the disk", 4 * MEGABYTE, 0, MEGABYTE, runs={6: 10}).takes(0, 10_000, 10_000)
    assert not Room("the disk", 1 << 40, 1 << 40, MEGABYTE, is_low=True).takes(0, 1, 1)


def test_what_was_admitted_before_and_is_not_durable_counts() -> None:
    room = Room("the disk", 1000, 1000, MEGABYTE)
    assert room.takes(0, 500)
    assert not room.takes(400, 500)


@pytest.mark.parametrize("data", [b"", b"\0" * 9000, bytes(range(256)) * 64])
def test_a_file_that_is_not_one_of_lmdb_has_no_free_pages(data: bytes) -> None:
    assert free_pages(lambda at, size: data[at : at + size], 1 << 60, 1000) == ({}, 0)


def test_free_pages_are_those_that_lmdb_has_freed(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        store.commit(put(*((b"%04d" % number, bytes(10_000)) for number in range(100))), 1)
        batch = Batch()
        batch.delete_range(M, b"", b"9")
        store.commit(batch, 2)
        data = (tmp_path / "data.mdb").read_bytes()
    runs, seen = free_pages(lambda at, size: data[at : at + size], 1 << 60, 10_000)
    assert sum(length * count for length, count in runs.items()) >= 300
    assert seen == 0
    assert max(runs) >= 100
