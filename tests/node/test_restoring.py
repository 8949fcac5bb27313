"""A queue manager that goes on from an old copy of its store, and peers that remember what the copy does not know."""

import itertools
from copy import deepcopy
from typing import Any

import pytest

from tests.node.hosts import START, Host, Net, Peer, letter
from tests.node.test_incoming_sequences import numbered
from tests.node.test_sequence_admin import begin_reset, go_on
from waypost.clock import Now
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.stored_message import sequence_of
from waypost.errors import StoreFull
from waypost.node import restoring
from waypost.node.restoring import Restored, begin_again
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch, Table
from waypost.store.records import CounterRecord
from waypost.store.restored import RestoredRecord, mark_restored, read_mark

T = r"DIRECT=OS:b\private$\t"
U = r"DIRECT=OS:b\private$\u"
Q = r"DIRECT=OS:b\private$\q"
FOREVER: dict[str, Any] = {"positive_journaling_requested": True}
STAMP = int(START.wall)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net) -> Host:
    host = net.add("b")
    host.create("q")
    for name in ("t", "u"):
        host.create(name, transactional=True)
    return host


def copy_of(host: Host) -> MemoryStore:
    """Messages that are acknowledged by then have left."""
    host.net.advance(60)
    return deepcopy(host.memory)


def lose(host: Host) -> None:
    """It is gone, with its disk."""
    host.crash()
    host.net.advance(60)


def start_on(host: Host, copy: MemoryStore, *, is_marked: bool = True) -> Restored | None:
    """Start on a copy that was made before."""
    host.memory = host.engine.store = store = deepcopy(copy)
    if is_marked:
        mark_restored(store)
    done = begin_again(store, host.net.now)
    host.start()
    return done


def ordinals(host: Host, queue: str) -> list[int]:
    return [message.identifier.ordinal for message in host.messages(queue)]


# A sender that was restored


def test_what_a_restored_sender_sends_arrives_once(a: Host, b: Host) -> None:
    a.send_all(T, "t0", "t1")
    copy = copy_of(a)
    for body in ("t2", "t3", "t4"):
        a.send_all(T, body)
    lose(a)
    assert start_on(a, copy) == Restored(sequences=1, renumbered=0)
    for body in ("t5", "t6"):
        a.send_all(T, body)
    a.net.advance(60)
    assert b.bodies("t") == ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]
    assert a.bodies(T) == []
    assert read_mark(a.engine.store) is None


@pytest.mark.parametrize("is_marked", [False, True])
def test_without_the_mark_new_messages_would_be_taken_for_old_ones(
    net: Net, a: Host, b: Host, *, is_marked: bool
) -> None:
    net.part(a, b)
    a.send_all(T, "t0")
    copy = copy_of(a)
    net.join()
    for body in ("t1", "t2", "t3"):
        a.send_all(T, body)
    net.advance(60)
    lose(a)
    start_on(a, copy, is_marked=is_marked)
    a.send_all(T, "t4")
    net.advance(60)
    assert b.bodies("t")[:4] == ["t0", "t1", "t2", "t3"]
    # A message that waited in the backup and was delivered since comes again: nobody can know that.
    assert b.bodies("t")[4:] == (["t0", "t4"] if is_marked else [])


def test_what_waits_in_the_backup_gets_new_numbers_and_arrives_in_order(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "t0")
    net.advance(60)
    net.part(a, b)
    a.send_all(T, "t1", "t2")
    a.send_all(U, "u0")
    a.send(Q, "q0")
    copy = copy_of(a)
    lose(a)
    # The queue for plain messages has a sequence of which nothing was sent.
    assert start_on(a, copy) == Restored(sequences=3, renumbered=3)
    places = [sequence_of(message.packet) for message in a.messages(T)]
    assert [(number, previous) for _, number, previous in places] == [(1, 0), (2, 1)]
    assert {place.ordinal for place, _, _ in places} == {1}
    assert places[0][0].time_stamp == int(net.now.wall)
    (other,) = [sequence_of(message.packet)[0] for message in a.messages(U)]
    assert other.time_stamp == places[0][0].time_stamp + 1
    a.send_all(T, "t3")
    net.join()
    net.advance(60)
    assert (b.bodies("t"), b.bodies("u"), b.bodies("q")) == (["t0", "t1", "t2", "t3"], ["u0"], ["q0"])


def test_a_queue_that_is_new_after_the_restore_begins_above_all_others(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "t0")
    copy = copy_of(a)
    # Not in the backup, and known to b.
    a.send_all(U, "u0", "u1")
    lose(a)
    start_on(a, copy)
    a.send_all(U, "u2")
    net.advance(60)
    assert b.bodies("u") == ["u0", "u1", "u2"]


def test_a_clock_that_is_behind_does_not_take_sequences_back(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send_all(T, "t0")
    copy = copy_of(a)
    first = a.node.sequences.outgoing_of(a.outgoing(T)).sequence_id.time_stamp
    lose(a)
    net.now = Now(net.now.monotonic, first - 100_000.0)
    start_on(a, copy)
    assert a.node.sequences.outgoing_of(a.outgoing(T)).sequence_id.time_stamp == first + 1


def test_receipts_of_what_was_delivered_before_the_backup_are_journaled(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("j0", **FOREVER))
    net.advance(60)
    copy = copy_of(a)
    lose(a)
    start_on(a, copy)
    a.send_all(T, letter("j1", **FOREVER))
    net.advance(60)
    for _ in range(2):
        b.receive("t")
    net.advance(60)
    assert a.bodies(";journal") == ["j0", "j1"]


def test_what_is_not_committed_gets_no_number(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send_all(T, "t0")
    copy = copy_of(a)
    (value,) = [value for key, value in copy.scan(Table.MESSAGES, limit=100) if b"t0" in value]
    store = deepcopy(copy)
    batch = Batch()
    key = next(key for key, found in store.scan(Table.MESSAGES, limit=100) if found == value)
    message = a.messages(T)[0]
    at = value.index(message.packet)
    place = sequence_of(message.packet)
    numbers = place[0].value.to_bytes(8, "little") + place[1].to_bytes(4, "little") + place[2].to_bytes(4, "little")
    assert value.count(numbers, at) == 1
    batch.put(Table.MESSAGES, key, value[:at] + value[at:].replace(numbers, bytes(16)))
    store.commit(batch, 1)
    lose(a)
    assert start_on(a, store) == Restored(sequences=1, renumbered=0)


@pytest.mark.parametrize("commits", range(1, 9))
def test_a_first_start_that_is_interrupted_goes_on_where_it_was(
    net: Net, a: Host, b: Host, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "_PAGE", 2)
    net.part(a, b)
    for number in range(5):
        a.send_all(T, f"t{number}")
        a.send_all(U, f"u{number}")
    store = copy_of(a)
    lose(a)
    mark_restored(store)
    dying = Dying(store, commits)
    with pytest.raises(StoreFull):
        begin_again(dying, net.now)
    net.advance(1000)
    begin_again(store, net.now)
    a.memory = a.engine.store = store
    a.start()
    stamps = set()
    for name in (T, U):
        places = [sequence_of(message.packet) for message in a.messages(name)]
        assert [number for _, number, _ in places] == [1, 2, 3, 4, 5]
        stamps |= {place.time_stamp for place, _, _ in places}
    assert len(stamps) == 2
    net.join()
    net.advance(60)
    assert b.bodies("t") == [f"t{number}" for number in range(5)]
    assert b.bodies("u") == [f"u{number}" for number in range(5)]


class Dying:
    """A store that has so many commits left to make."""

    def __init__(self, store: MemoryStore, commits: int) -> None:
        self._store = store
        self._left = commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, batch: Batch, token: int) -> list[int]:
        if not self._left:
            raise StoreFull("it dies here")
        self._left -= 1
        return self._store.commit(batch, token)


# A receiver that was restored


def test_a_restored_receiver_hears_senders_that_went_on(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "t0", "t1")
    copy = copy_of(b)
    for body in ("t2", "t3"):
        a.send_all(T, body)
    net.advance(60)
    lose(b)
    start_on(b, copy)
    a.send_all(T, "t4")
    net.advance(60)
    # Messages between backup and loss are gone, and acknowledged.
    assert b.bodies("t") == ["t0", "t1", "t4"]
    assert a.bodies(T) == []
    a.send_all(T, "t5")
    net.advance(60)
    assert b.bodies("t")[-2:] == ["t4", "t5"]


def test_a_restored_receiver_takes_the_next_message_wherever_its_source_is(net: Net, b: Host) -> None:
    """A source that never says that nothing comes before its message."""
    peer = connected(net, b)
    peer.send(*(numbered(peer, "m", STAMP, number) for number in (1, 2, 3)))
    copy = copy_of(b)
    peer.send(*(numbered(peer, "m", STAMP, number) for number in (4, 5)))
    lose(b)
    start_on(b, copy)
    peer.connect(b)
    assert len(b.bodies("t")) == 3
    # Known to be taken, also before anything else was.
    peer.send(numbered(peer, "m", STAMP, 3))
    assert len(b.bodies("t")) == 3
    peer.send(numbered(peer, "m", STAMP, 6))
    assert len(b.bodies("t")) == 4
    peer.send(numbered(peer, "m", STAMP, 6), numbered(peer, "m", STAMP, 2))
    assert len(b.bodies("t")) == 4
    # From here on a gap is a mistake.
    peer.send(numbered(peer, "m", STAMP, 9))
    assert len(b.bodies("t")) == 4
    peer.send(numbered(peer, "m", STAMP, 7))
    assert len(b.bodies("t")) == 5


def test_a_source_that_did_not_go_on_is_heard_where_it_was(net: Net, b: Host) -> None:
    peer = connected(net, b)
    peer.send(numbered(peer, "m", STAMP, 1))
    copy = copy_of(b)
    lose(b)
    start_on(b, copy)
    peer.connect(b)
    peer.send(numbered(peer, "m", STAMP, 1), numbered(peer, "m", STAMP, 2))
    assert len(b.bodies("t")) == 2


def connected(net: Net, host: Host) -> Peer:
    peer = net.add_peer()
    peer.connect(host)
    return peer


# Numbers


def test_numbers_go_on_far_above_those_of_the_backup(net: Net, a: Host, b: Host) -> None:
    a.create("here")
    a.send(r"DIRECT=OS:a\private$\here", "h0")
    copy = copy_of(a)
    lose(a)
    start_on(a, copy)
    a.send(r"DIRECT=OS:a\private$\here", "h1")
    first, second = ordinals(a, "here")
    assert 1 << 30 <= second - first <= 3 << 30
    arrived = [message.lookup_identifier & SEQUENCE_MASK for message in a.messages("here")]
    assert arrived[1] >= int(net.now.wall - 60) << 20
    queue = a.create("later")
    assert queue.private_queue_number > a.queue("here").private_queue_number + 60_000


def test_a_second_restore_of_the_same_backup_gives_other_numbers(net: Net, a: Host, b: Host) -> None:
    a.create("here")
    copy = copy_of(a)
    seen = []
    for _ in range(5):
        lose(a)
        start_on(a, copy)
        a.send(r"DIRECT=OS:a\private$\here", "h")
        (message,) = a.messages("here")
        seen.append((message.identifier.ordinal, message.lookup_identifier & SEQUENCE_MASK))
    assert [arrival for _, arrival in seen] == sorted({arrival for _, arrival in seen})
    near = sorted(ordinal for ordinal, _ in seen)
    assert min(after - before for before, after in itertools.pairwise(near)) > 1 << 24


def test_the_counters_of_a_new_store_can_be_raised(net: Net) -> None:
    """As of a store that was salvaged without them."""
    store = MemoryStore()
    mark_restored(store)
    assert begin_again(store, net.now) == Restored()
    value = store.get(Table.COUNTERS, b"sequential_id")
    assert value is not None
    assert CounterRecord.decode(value).value == int(net.now.wall) << 20
    assert begin_again(store, net.now) is None


def test_the_mark_encodes_to_what_it_was() -> None:
    record = RestoredRecord(1_700_000_000, 3, 7, 1 << 60, 5)
    assert RestoredRecord.decode(record.encode()) == record


def test_a_backup_between_two_parts_of_a_reset_is_restored_with_one_new_sequence(
    net: Net, a: Host, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("waypost.node.renumbering.RENUMBERED_PART", 2)
    bodies = [str(number) for number in range(5)]
    net.part(a, b)
    a.send_all(T, *bodies)
    begin_reset(a, T)
    go_on(a, 1)
    copy = deepcopy(a.memory)
    lose(a)
    net.now = Now(net.now.monotonic, net.now.wall + 1000)
    start_on(a, copy)
    assert not a.node.renumberings
    places = [sequence_of(message.packet) for message in a.messages(T)]
    assert [(sequence.time_stamp, number) for sequence, number, _ in places] == [
        (int(net.now.wall), number + 1) for number in range(5)
    ]
    net.join()
    net.advance(60)
    assert b.bodies("t") == bodies
