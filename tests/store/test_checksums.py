"""A record that is not what was written is never given out, whatever was changed: its value, its key or its place."""

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.engines import put
from waypost.errors import RecordDamaged, StoreTooOld
from waypost.store.lmdb import LmdbStore
from waypost.store.lmdb_reading import StoreSnapshot
from waypost.store.memory import MemoryStore
from waypost.store.port import Reader, Table
from waypost.store.sealed_tables import CHECKSUM_SIZE, checksum, is_whole, seal, seal_all, unseal

M = Table.MESSAGES
KEYS = [b"%02d" % number for number in range(40)]
DAMAGED = KEYS[20]


@given(st.sampled_from(list(Table)), st.binary(min_size=1, max_size=40), st.binary(max_size=200))
def test_what_is_sealed_is_whole(table: Table, key: bytes, value: bytes) -> None:
    sealed = seal(table, key, value)
    assert sealed == value + checksum(table, key, value)
    assert is_whole(table, key, sealed)
    assert list(seal_all(table, [(key, value)])) == [(key, sealed)]
    assert unseal(table, [(key, sealed)]) == [value]


@given(
    st.binary(min_size=1, max_size=20),
    st.binary(max_size=100),
    st.integers(min_value=0),
    st.sampled_from(["value", "key", "table", "border"]),
)
def test_one_changed_bit_is_found_wherever_it_is(key: bytes, value: bytes, bit: int, where: str) -> None:
    sealed = seal(M, key, value)
    table = M
    if where == "value":
        sealed = flipped(sealed, bit)
    elif where == "key":
        key = flipped(key, bit)
    elif where == "table":
        table = Table.POSITIONS
    else:
        # The end of the key and the beginning of the value are not one string.
        key, sealed = key + sealed[:1], sealed[1:]
    assert not is_whole(table, key, sealed)
    assert unseal(table, [(key, sealed)]) == []


@pytest.mark.parametrize("size", range(CHECKSUM_SIZE))
def test_a_value_that_is_too_short_for_a_checksum_is_damaged(size: int) -> None:
    assert not is_whole(M, b"key", bytes(size))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8 % len(data)] ^= 1 << bit % 8
    return bytes(changed)


def damage(folder: Path, key: bytes = DAMAGED) -> None:
    """Change a bit of a record as a disk does."""
    with lmdb.open(str(folder), max_dbs=len(Table) + 1) as env:
        table = env.open_db(b"messages", create=False)
        with env.begin(write=True, db=table) as transaction:
            found = transaction.get(key)
            assert found is not None
            transaction.put(key, flipped(found, 5))


@pytest.fixture(params=["memory", "lmdb", "snapshot"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    """A store with a damaged record."""
    items = put(*((key, b"value " + key) for key in KEYS))
    if request.param == "memory":
        memory = MemoryStore()
        memory.commit(items, 1)
        assert memory.damage(M, DAMAGED)
        yield memory
        return
    with LmdbStore(tmp_path) as store:
        store.commit(items, 1)
    damage(tmp_path)
    with (LmdbStore if request.param == "lmdb" else StoreSnapshot)(tmp_path) as opened:
        yield opened


READS: dict[str, Callable[[Reader], object]] = {
    "get": lambda reader: reader.get(M, DAMAGED),
    "values": lambda reader: reader.values(M, [DAMAGED, KEYS[0]]),
    "first": lambda reader: reader.first(M, DAMAGED),
    "last": lambda reader: reader.last(M, b"", KEYS[21]),
    "scan": lambda reader: reader.scan(M, DAMAGED),
    "scan_back": lambda reader: reader.scan_back(M, b"", KEYS[21]),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_of_a_damaged_record_says_which_it_is(reader: Reader, read: Callable[[Reader], object]) -> None:
    with pytest.raises(RecordDamaged) as caught:
        read(reader)
    assert (caught.value.table, caught.value.key) == (M, DAMAGED)
    assert caught.value.value is not None
    assert len(caught.value.value) == len(b"value 20") + CHECKSUM_SIZE
    assert "damaged" in str(caught.value)


def test_a_read_of_several_ends_before_a_damaged_record_and_goes_on_behind_it(reader: Reader) -> None:
    assert [key for key, _ in reader.scan(M)] == KEYS[:20]
    assert [key for key, _ in reader.scan(M, KEYS[21])] == KEYS[21:]
    assert [key for key, _ in reader.scan_back(M)] == KEYS[:20:-1]
    assert len(reader.values(M, KEYS)) == 20
    assert list(reader.keys(M)) == KEYS
    assert reader.count(M) == len(KEYS)


def test_the_twin_forgets_damage_to_what_is_written_again_or_deleted() -> None:
    memory = MemoryStore()
    memory.commit(put((b"a", b"1"), (b"b", b"2"), (b"c", b"3")), 1)
    assert [memory.damage(M, key) for key in (b"a", b"b", b"c", b"d")] == [True, True, True, False]
    batch = put((b"a", b"new"))
    batch.delete(M, b"b")
    batch.delete_range(M, b"c", b"d")
    memory.commit(batch, 2)
    assert [memory.get(M, key) for key in (b"a", b"b", b"c")] == [b"new", None, None]
    assert memory.lose(M, b"a")
    assert not memory.lose(M, b"a")
    assert memory.get(M, b"a") is None


def test_a_record_under_another_key_is_damaged_there(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"a", b"1")), 1)
    with lmdb.open(str(tmp_path), max_dbs=len(Table) + 1) as env:
        table = env.open_db(b"messages", create=False)
        with env.begin(write=True, db=table) as transaction:
            transaction.put(b"b", transaction.pop(b"a") or b"")
    with LmdbStore(tmp_path) as store:
        assert store.get(M, b"a") is None
        with pytest.raises(RecordDamaged, match="is damaged in the store"):
            store.get(M, b"b")


def test_a_folder_of_the_format_before_is_not_read_by_one_who_must_not_change_it(tmp_path: Path) -> None:
    LmdbStore(tmp_path).close()
    with lmdb.open(str(tmp_path), max_dbs=2) as env, env.begin(write=True) as transaction:
        transaction.put(b"format", (1).to_bytes(4, "little"), db=env.open_db(b"store", transaction))
    with pytest.raises(StoreTooOld, match="start its queue manager once with this version"):
        StoreSnapshot(tmp_path)
