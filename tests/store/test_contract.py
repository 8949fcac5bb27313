"""The promises of waypost.store.port, for every implementation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.engines import Engine, LmdbEngine, MemoryEngine, put
from waypost.limits import MAX_PACKET_SIZE, MAX_SCAN_BYTES
from waypost.store.port import MAX_KEY, Batch, Store, Table, after

M = Table.MESSAGES
ITEMS = [(bytes([letter]), bytes([letter]) * 3) for letter in b"abcdefgh"]


@pytest.fixture(params=["memory", "lmdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine: Engine = MemoryEngine() if request.param == "memory" else LmdbEngine(tmp_path / "store")
    yield engine
    engine.stop()


@pytest.fixture
def store(engine: Engine) -> Store:
    return engine.store


@pytest.fixture
def filled(store: Store) -> Store:
    store.commit(put(*ITEMS), 0)
    return store


def test_a_new_store_is_empty(store: Store) -> None:
    for table in Table:
        assert store.get(table, b"a") is None
        assert store.first(table) is None
        assert store.last(table) is None
        assert not store.scan(table)
        assert not store.scan_back(table)
        assert not store.keys(table)
    assert store.poll() == []
    assert store.trouble is None


def test_tokens_come_back_in_the_order_of_submission(engine: Engine) -> None:
    for token in range(100, 0, -1):
        engine.store.submit(put((b"%d" % token, b"")), token)
    assert engine.finish(100) == list(range(100, 0, -1))
    assert engine.store.poll() == []


def test_a_token_may_be_any_number_and_come_twice(engine: Engine) -> None:
    for token in (7, -1, 7, 1 << 70):
        engine.store.submit(Batch(), token)
    assert engine.finish(4) == [7, -1, 7, 1 << 70]


def test_reads_see_what_was_reported_and_nothing_else(engine: Engine) -> None:
    store = engine.store
    store.submit(put((b"a", b"1")), 1)
    assert store.get(M, b"a") is None
    engine.finish(1)
    assert store.get(M, b"a") == b"1"
    store.submit(put((b"a", b"2"), (b"b", b"2")), 2)
    assert store.get(M, b"a") == b"1"
    assert list(store.keys(M)) == [b"a"]
    engine.finish(1)
    assert list(store.scan(M)) == [(b"a", b"2"), (b"b", b"2")]


def test_commit_returns_the_earlier_tokens_too(engine: Engine) -> None:
    engine.store.submit(put((b"a", b"1")), 1)
    engine.store.submit(put((b"b", b"2")), 2)
    assert engine.store.commit(put((b"c", b"3")), 3) == [1, 2, 3]
    assert list(engine.store.keys(M)) == [b"a", b"b", b"c"]


def test_commit_waits_for_its_own_batch_even_if_an_earlier_one_has_its_token(engine: Engine) -> None:
    engine.store.submit(put((b"a", b"1")), 1)
    assert engine.store.commit(put((b"b", b"2")), 1) == [1, 1]
    assert list(engine.store.keys(M)) == [b"a", b"b"]


def test_the_operations_of_a_batch_happen_in_their_order(store: Store) -> None:
    batch = Batch()
    batch.put(M, b"a", b"1")
    batch.put(M, b"a", b"2")
    batch.put(M, b"b", b"1")
    batch.delete(M, b"b")
    batch.put(M, b"c", b"1")
    batch.delete_range(M, b"c", b"d")
    batch.put(M, b"c", b"2")
    batch.delete(M, b"d")
    batch.put(M, b"d", b"1")
    store.commit(batch, 1)
    assert list(store.scan(M)) == [(b"a", b"2"), (b"c", b"2"), (b"d", b"1")]
    assert (len(batch), batch.size) == (9, 6)


def test_batches_happen_in_their_order(engine: Engine) -> None:
    for number in range(50):
        engine.store.submit(put((b"a", b"%d" % number)), number)
    engine.finish(50)
    assert engine.store.get(M, b"a") == b"49"


def test_tables_are_apart_and_one_batch_writes_them_all(store: Store) -> None:
    batch = Batch()
    for table in Table:
        batch.put(table, b"key", table.name.encode())
    store.commit(batch, 1)
    assert [store.get(table, b"key") for table in Table] == [table.name.encode() for table in Table]
    batch = Batch()
    batch.delete_range(M, b"", b"\xff")
    store.commit(batch, 2)
    assert [table for table in Table if store.get(table, b"key") is None] == [M]


def test_a_range_is_half_open(filled: Store) -> None:
    assert list(filled.scan(M, b"c", b"f")) == ITEMS[2:5]
    assert list(filled.scan(M, b"bb", b"ff")) == ITEMS[2:6]
    assert list(filled.scan(M, b"f", b"c")) == list(filled.scan(M, b"c", b"c")) == []
    assert list(filled.scan(M, b"f")) == ITEMS[5:]
    assert list(filled.scan(M, stop=b"c")) == ITEMS[:2]
    assert list(filled.scan(M)) == ITEMS
    assert list(filled.scan(M, b"i")) == list(filled.scan(M, stop=b"a")) == []


def test_a_scan_back_is_the_scan_reversed(filled: Store) -> None:
    bounds: list[bytes] = [b"", b"0", b"a", b"c", b"cc", b"h", b"i"]
    for start in bounds:
        for stop in (*bounds, None):
            assert list(filled.scan_back(M, start, stop)) == list(reversed(filled.scan(M, start, stop)))


def test_a_limit_takes_from_the_end_where_the_scan_starts(filled: Store) -> None:
    assert list(filled.scan(M, b"c", limit=2)) == ITEMS[2:4]
    assert list(filled.scan_back(M, b"c", b"g", 2)) == [ITEMS[5], ITEMS[4]]
    assert list(filled.keys(M, b"c", limit=2)) == [b"c", b"d"]
    assert not filled.scan(M, limit=0)
    assert not filled.scan_back(M, limit=0)
    assert not filled.keys(M, limit=0)


def test_keys_are_those_of_the_scan(filled: Store) -> None:
    for start, stop in ((b"", None), (b"c", b"f"), (b"cc", None), (b"f", b"c"), (b"i", None)):
        assert list(filled.keys(M, start, stop)) == [key for key, _ in filled.scan(M, start, stop)]


def test_values_are_those_of_the_keys_in_their_order(filled: Store) -> None:
    for wanted in (b"", b"a", b"abcdefgh", b"hgfedcba", b"acegh", b"bbc", b"abdefcgh"):
        keys = [bytes([letter]) for letter in wanted]
        assert list(filled.values(M, keys)) == [filled.get(M, key) for key in keys]


def test_values_end_before_a_key_that_is_absent(filled: Store) -> None:
    for absent in (b"0", b"cc", b"z"):
        assert list(filled.values(M, [b"a", b"b", absent, b"c", b"d"])) == [b"aaa", b"bbb"]
        assert list(filled.values(M, [absent, b"a"])) == []
    assert list(filled.values(M, [b"b", b"bb", b"d", b"e"])) == [b"bbb"]


def test_many_values_come_as_well_with_gaps_between_their_keys(store: Store) -> None:
    items = [(b"%05d" % number, b"%d" % number) for number in range(1000)]
    store.commit(put(*items), 1)
    for keys in (items, items[::2], items[::-1], items[:40] + items[41:90] + items[500:], [*items[9:60], *items[8:40]]):
        assert list(store.values(M, [key for key, _ in keys])) == [value for _, value in keys]


def test_values_end_when_they_have_many_bytes_but_never_empty(store: Store) -> None:
    keys = [b"%02d" % number for number in range(40)]
    store.commit(put(*((key, bytes(MAX_SCAN_BYTES // 2)) for key in keys)), 1)
    assert 2 <= len(store.values(M, keys)) <= 17
    assert len(store.values(M, keys[:1])) == 1


def test_first_and_last_are_the_neighbours_of_a_key(filled: Store) -> None:
    assert filled.first(M, b"c") == ITEMS[2]
    assert filled.first(M, after(b"c")) == ITEMS[3]
    assert filled.first(M, after(b"c"), b"d") is None
    assert filled.last(M, stop=b"c") == ITEMS[1]
    assert filled.last(M, b"c", b"c") is None
    assert filled.last(M) == ITEMS[-1]
    assert filled.last(M, after(b"h")) is None


def test_a_walk_by_pages_is_not_disturbed_by_commits(filled: Store) -> None:
    walked = []
    key = b""
    while page := filled.scan(M, key, limit=2):
        walked += [key for key, _ in page]
        key = after(walked[-1])
        batch = Batch()
        batch.delete(M, walked[-1])
        batch.put(M, b"A" + walked[-1], b"behind the walk")
        filled.commit(batch, 1)
    assert walked == [key for key, _ in ITEMS]


def test_what_a_scan_returned_does_not_change(filled: Store) -> None:
    page = filled.scan(M)
    filled.commit(put((b"a", b"other")), 1)
    assert list(page) == ITEMS


def test_keys_order_as_bytes(store: Store) -> None:
    keys = [b"\0", b"\0\0", b"\0\1", b"\1", b"a", b"a\0", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
    store.commit(put(*((key, b"") for key in reversed(keys))), 1)
    assert list(store.keys(M)) == keys


def test_a_delete_range_takes_exactly_its_keys(filled: Store) -> None:
    for start, stop, left in (
        (b"c", b"e", b"abefgh"),
        (b"ff", b"g", b"abefgh"),
        (b"g", b"z", b"abef"),
        (b"", b"b", b"bef"),
    ):
        batch = Batch()
        batch.delete_range(M, start, stop)
        filled.commit(batch, 1)
        assert b"".join(filled.keys(M)) == left
    batch = Batch()
    batch.delete_range(M, b"f", b"b")
    batch.delete_range(M, b"x", b"y")
    filled.commit(batch, 1)
    assert b"".join(filled.keys(M)) == b"bef"


def test_a_long_range_is_deleted(store: Store) -> None:
    store.commit(put(*((b"%06d" % number, bytes(500)) for number in range(3000))), 1)
    batch = Batch()
    batch.delete_range(M, b"000010", b"002990")
    store.commit(batch, 2)
    assert list(store.keys(M)) == [b"%06d" % number for number in (*range(10), *range(2990, 3000))]


def test_an_absent_key_is_deleted_without_complaint(filled: Store) -> None:
    batch = Batch()
    batch.delete(M, b"z")
    batch.delete(M, b"aa")
    filled.commit(batch, 1)
    assert list(filled.scan(M)) == ITEMS


def test_values_have_any_length_up_to_the_largest_message(store: Store) -> None:
    sizes = (0, 1, 2000, 4096, 100_000, MAX_PACKET_SIZE)
    for size in sizes:
        store.commit(put((b"%d" % size, b"x" * size)), size)
    for size in sizes:
        assert store.get(M, b"%d" % size) == b"x" * size
    store.commit(put((b"%d" % MAX_PACKET_SIZE, b"short")), 1)
    assert store.get(M, b"%d" % MAX_PACKET_SIZE) == b"short"


def test_a_key_has_up_to_511_bytes(store: Store) -> None:
    store.commit(put((b"k" * MAX_KEY, b"1")), 1)
    assert store.get(M, b"k" * MAX_KEY) == b"1"


def test_a_scan_ends_when_it_has_many_bytes_but_never_empty(store: Store) -> None:
    half = bytes(MAX_SCAN_BYTES // 2)
    store.commit(put(*((b"%d" % number, half) for number in range(4)), (b"4", bytes(MAX_SCAN_BYTES + 1))), 1)
    assert [key for key, _ in store.scan(M)] == [b"0", b"1"]
    assert [key for key, _ in store.scan(M, b"3")] == [b"3", b"4"]
    assert [key for key, _ in store.scan_back(M)] == [b"4"]
    assert [key for key, _ in store.scan_back(M, stop=b"4")] == [b"3", b"2"]
    assert len(store.keys(M)) == 5


def test_what_was_written_is_there_after_a_restart(engine: Engine) -> None:
    engine.store.commit(put(*ITEMS), 1)
    engine.store.commit(put((b"guid", b"1"), table=Table.QUEUES), 2)
    engine.restart()
    assert list(engine.store.scan(M)) == ITEMS
    assert engine.store.get(Table.QUEUES, b"guid") == b"1"
    assert engine.store.commit(put((b"a", b"again")), 1) == [1]
    engine.restart()
    assert engine.store.get(M, b"a") == b"again"


def test_close_writes_what_is_pending_and_returns_its_tokens(engine: Engine) -> None:
    for number in range(20):
        engine.store.submit(put((b"%02d" % number, b"x")), number)
    assert engine.store.close() == list(range(20))
    engine.restart()
    assert len(engine.store.keys(M)) == 20


def test_a_batch_that_was_submitted_empty_is_reported(engine: Engine) -> None:
    engine.store.submit(Batch(), 1)
    assert engine.finish(1) == [1]
