"""The LMDB engine beyond the contract: groups, growth, the commit thread, and a kill at any moment."""

import random
import signal
import stat
import subprocess
import sys
from pathlib import Path
from threading import Event, current_thread, main_thread
from time import monotonic, sleep

import lmdb
import pytest

from tests.store import writer
from tests.store.engines import put
from waypost.errors import StoreError
from waypost.store import lmdb as engine
from waypost.store.keys import lookup_id_of, message_key
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Table

M = Table.MESSAGES


def reported(store: LmdbStore, count: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < count:
        assert store.wait(60)
        tokens += store.poll()
    return tokens


def test_a_small_batch_is_written_at_once_when_the_disk_is_quick(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        assert not store.commit_if_quick(put((b"how long it takes", b"is not known yet")))
        store.commit(put((b"first", b"1")), 1)
        store._flush_seconds = 0.0
        assert store.commit_if_quick(put((b"second", b"2")))
        assert store.get(M, b"second") == b"2"
        assert store.poll() == []
    with LmdbStore(tmp_path) as store:
        assert (store.get(M, b"first"), store.get(M, b"second")) == (b"1", b"2")


def test_what_may_take_long_is_not_written_at_once(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"first", b"1")), 1)
        store._flush_seconds = 0.0
        assert not store.commit_if_quick(put((b"large", bytes(engine._SMALL + 1))))
        store._flush_seconds, store._flushed_at = 1.0, monotonic()
        assert not store.commit_if_quick(put((b"slow disk", b"")))
        store._flush_seconds = 0.0
        store.submit(put((b"before", b"")), 2)
        assert not store.commit_if_quick(put((b"overtakes", b"")))
        assert reported(store, 1) == [2]
        assert store.keys(M) == [b"before", b"first"]


def test_a_slow_flush_is_forgotten_after_a_while(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"first", b"1")), 1)
        store._flush_seconds, store._flushed_at = 1.0, monotonic() - 60
        assert store.commit_if_quick(put((b"second", b"2")))
        assert store.get(M, b"second") == b"2"


def test_a_batch_that_cannot_be_written_at_once_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_FIRST_MAP", 1 << 18)
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"first", b"1")), 1)
        batches = [put((b"%d" % number, bytes(60_000))) for number in range(9)]
        written = 0
        store._flush_seconds = 0.0
        while store.commit_if_quick(batches[written]):
            written += 1
            store._flush_seconds = 0.0
        assert 0 < written < 9
        assert len(store.keys(M)) == written + 1
        store.commit(batches[written], 2)
        assert len(store.keys(M)) == written + 2


def test_what_is_pending_is_written_in_one_transaction(tmp_path: Path) -> None:
    committed, go_on = Event(), Event()

    def notify() -> None:
        committed.set()
        go_on.wait(60)

    with LmdbStore(tmp_path, notify) as store:
        store.submit(put((b"first", b"")), 0)
        committed.wait(60)
        before = store._env.info()["last_txnid"]
        for token in range(1, 200):
            store.submit(put((b"%d" % token, b"")), token)
        go_on.set()
        assert reported(store, 200) == list(range(200))
        assert store._env.info()["last_txnid"] == before + 1


def test_a_large_group_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_COMMIT_BYTES", 1000)
    with LmdbStore(tmp_path) as store:
        for token in range(20):
            store.submit(put((b"%d" % token, bytes(600))), token)
        assert reported(store, 20) == list(range(20))
        assert store._env.info()["last_txnid"] >= 10


def test_notify_is_called_by_the_commit_thread_once_until_the_poll(tmp_path: Path) -> None:
    calls: list[bool] = []
    with LmdbStore(tmp_path, lambda: calls.append(current_thread() is main_thread())) as store:
        assert calls == []
        for token in range(3):
            store.submit(put((b"a", b"")), token)
            while len(store._tokens) <= token:
                sleep(0.001)
        assert calls == [False]
        assert reported(store, 3) == [0, 1, 2]
        store.submit(put((b"b", b"")), 3)
        assert store.wait(60)
        assert len(calls) == 2


def test_wait_says_whether_there_is_something_to_poll(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        assert not store.wait(0.01)
        store.submit(put((b"a", b"")), 1)
        assert store.wait(60)
        assert store.wait(0)
        assert store.poll() == [1]
        assert not store.wait(0.01)


def test_the_map_grows_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_FIRST_MAP", 1 << 20)
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"first", b"1")), 0)
        for token in range(1, 60):
            store.submit(put((b"%03d" % token, bytes(300_000))), token)
            assert store.get(M, b"first") == b"1"
        assert reported(store, 59) == list(range(1, 60))
        assert store._env.info()["map_size"] > 59 * 300_000
        assert len(store.keys(M)) == 60
        assert store.get(M, b"059") == bytes(300_000)
    with LmdbStore(tmp_path) as store:
        assert len(store.keys(M)) == 60


def test_reads_before_the_poll_do_not_see_what_grew_the_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_FIRST_MAP", 1 << 20)
    with LmdbStore(tmp_path) as store:
        store.submit(put((b"a", bytes(900_000))), 1)
        assert store.wait(60)
        store.submit(put((b"b", bytes(900_000))), 2)
        while not store._wanted_map:
            sleep(0.001)
        assert store.keys(M) == []
        assert store.poll() == [1]
        assert store.keys(M) == [b"a"]
        assert reported(store, 1) == [2]
        assert store.keys(M) == [b"a", b"b"]


def test_close_grows_the_map_for_what_is_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_FIRST_MAP", 1 << 20)
    store = LmdbStore(tmp_path)
    for token in range(20):
        store.submit(put((b"%02d" % token, bytes(400_000))), token)
    assert store.close() == list(range(20))
    with LmdbStore(tmp_path) as store:
        assert len(store.keys(M)) == 20


def test_room_of_deleted_messages_is_used_again(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        sizes = []
        for number in range(60):
            batch = put((b"%03d" % number, bytes(200_000)))
            batch.delete(M, b"%03d" % (number - 1))
            store.commit(batch, number)
            sizes.append((tmp_path / "data.mdb").stat().st_size)
        assert sizes[-1] == sizes[10] < 2_000_000


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.close()
    assert store.close() == []
    for use in (store.poll, lambda: store.commit(Batch(), 1), lambda: store.get(M, b"a"), lambda: store.scan(M)):
        with pytest.raises(StoreError):
            use()


def test_a_key_that_lmdb_refuses_stops_the_store_and_loses_nothing(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path)
    store.commit(put((b"a", b"1")), 1)
    with pytest.raises(StoreError):
        store.commit(put((b"b", b"2"), (b"", b"3")), 2)
    with pytest.raises(StoreError):
        store.close()
    with LmdbStore(tmp_path) as store:
        assert store.scan(M) == [(b"a", b"1")]


def test_a_store_from_before_there_were_claims_and_stages_opens(tmp_path: Path) -> None:
    with LmdbStore(tmp_path) as store:
        store.commit(put((b"key", b"value")), 1)
    with lmdb.open(str(tmp_path), max_dbs=len(Table) + 1) as env, env.begin(write=True) as transaction:
        transaction.drop(env.open_db(b"bulk", transaction))
        assert transaction.get(b"bulk") is None
    with LmdbStore(tmp_path) as store:
        assert store.get(M, b"key") == b"value"
        assert store.scan(Table.BULK) == []
        store.commit(put((b"key", b"value"), table=Table.BULK), 1)
        assert store.get(Table.BULK, b"key") == b"value"


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    LmdbStore(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_nothing_reported_is_lost_and_nothing_is_half_written_when_the_process_is_killed(tmp_path: Path) -> None:
    chance = random.Random(3)
    last_reported = -1
    for _ in range(8):
        command = [sys.executable, writer.__file__, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(chance.randrange(1, 150))]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
            last_reported = int(lines[-1])
        with LmdbStore(tmp_path) as store:
            found = store.get(Table.COUNTERS, b"last")
            last = int(found or -1)
            assert last >= last_reported
            expected = range(max(last - last % 10, 0), last + 1)
            items = store.scan(M, limit=1000)
            assert [lookup_id_of(key) for key, _ in items] == list(expected)
            for number, (key, value) in zip(expected, items, strict=True):
                assert key == message_key(1, number)
                assert value == b"%d:" % number + bytes(number * 37 % 6000)
    assert last_reported > 100


def test_a_close_that_is_interrupted_goes_on_when_it_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    store = LmdbStore(tmp_path)
    store.submit(put((b"a", b"1")), 1)
    with monkeypatch.context() as patch:
        patch.setattr(LmdbStore, "_serve", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    assert store.close() == [1]
    assert store.close() == []
    with LmdbStore(tmp_path) as store:
        assert store.get(M, b"a") == b"1"
