"""The in-memory twin beyond the contract: it completes on command, crashes and fills up."""

import pytest

from tests.store.engines import put
from waypost.errors import OutcomeUnknown, StoreFull
from waypost.store.memory import MemoryStore
from waypost.store.port import Table

M = Table.MESSAGES


def submitted(count: int) -> MemoryStore:
    store = MemoryStore()
    for number in range(count):
        store.submit(put((b"%d" % number, b"")), number)
    return store


def test_nothing_is_durable_before_it_is_completed() -> None:
    store = submitted(3)
    assert store.poll() == []
    assert store.pending == 3
    assert store.complete(2) == 2
    assert store.poll() == [0, 1]
    assert store.keys(M) == [b"0", b"1"]
    assert store.complete() == 1
    assert store.complete() == 0
    assert store.poll() == [2]


def test_a_crash_forgets_what_was_not_completed() -> None:
    store = submitted(3)
    store.complete(1)
    store.poll()
    store.crash()
    assert store.keys(M) == [b"0"]
    assert store.pending == store.complete() == 0
    assert store.poll() == []


def test_a_crash_between_completion_and_report_keeps_the_batch_and_loses_the_token() -> None:
    store = submitted(2)
    store.complete(1)
    assert store.keys(M) == []
    store.crash()
    assert store.keys(M) == [b"0"]
    assert store.poll() == []


def test_a_full_disk_completes_nothing_and_goes_on_when_there_is_room() -> None:
    store = submitted(2)
    store.full = True
    assert store.complete() == 0
    assert store.poll() == []
    assert isinstance(store.trouble, StoreFull)
    store.full = False
    assert store.complete() == 2
    assert store.poll() == [0, 1]
    assert store.trouble is None


def test_a_disk_that_is_nearly_full_says_so_with_the_next_poll_and_takes_what_it_is_given() -> None:
    store = submitted(1)
    store.low = True
    assert store.room.takes(0, 1)
    store.poll()
    assert not store.room.takes(0, 1)
    assert store.commit(put((b"b", b"2")), 2) == [0, 2]
    store.low = False
    store.poll()
    assert store.room.takes(0, 1)


def test_a_commit_on_a_full_disk_has_no_outcome_yet_and_stays_pending() -> None:
    store = MemoryStore()
    store.full = True
    with pytest.raises(OutcomeUnknown):
        store.commit(put((b"a", b"1")), 1)
    with pytest.raises(StoreFull):
        store.close()
    store.full = False
    assert store.commit(put((b"b", b"2")), 2) == [1, 2]


@pytest.mark.parametrize("key", [b"", b"k" * 512])
def test_a_key_that_lmdb_would_refuse_is_a_bug_of_the_caller(key: bytes) -> None:
    with pytest.raises(AssertionError):
        MemoryStore().submit(put((key, b"")), 1)
