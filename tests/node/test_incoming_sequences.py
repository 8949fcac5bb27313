"""Sequences of one source that come from several addresses, and those of a stranger in its name: ADR 23."""

from dataclasses import replace

import pytest

from tests.node.hosts import START, TRANSFER, Host, Net, Peer
from waypost.clock import Now
from waypost.node.network.admission import Refused
from waypost.node.node import Node
from waypost.routing.routes import Relays, Route
from waypost.store import keys
from waypost.store.port import Batch, Table
from waypost.store.records import SequenceRecord
from waypost.transfer.incoming import Verdict
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.internal_packets import SessionAck
from waypost.wire.transactional_acks import OrderAck
from waypost.wire.user_message import UserMessage

T = r"DIRECT=OS:b\private$\t"
SECOND = int(START.wall)
DAY = 86_400


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def b(net: Net) -> Host:
    host = net.add("b")
    host.create("t", transactional=True)
    return host


def at_another_address(net: Net, peer: Peer) -> Peer:
    """The same queue manager, or somebody that says so."""
    other = net.add_peer(f"{peer.name}{len(net.hosts)}")
    other.guid = peer.guid
    return other


def numbered(
    peer: Peer, body: str, time_stamp: int, number: int = 1, ordinal: int = 1, previous: int | None = None
) -> UserMessage:
    """A transactional message at a place in a sequence."""
    previous = number - 1 if previous is None else previous
    identifier = TxSequenceId(ordinal, time_stamp)
    return peer.message(T, body, tx=(ordinal, number, previous), transactional_message_sequence_identifier=identifier)


def told(peer: Peer) -> list[tuple[int, int]]:
    """TimeStamp and number of the OrderAcks that came."""
    return [(ack.body.tx_sequence_id >> 32, ack.body.tx_sequence_number) for ack in peer.of(OrderAck)]


def refused(host: Host) -> list[Refused]:
    return host.network.arrivals.admission.refused


def test_a_stranger_in_the_name_of_a_source_does_not_stop_it(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    stranger = at_another_address(net, source)
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    stranger.connect(b)
    stranger.send(numbered(stranger, "forged", SECOND + 60))
    source.send(numbered(source, "2", SECOND, 2))
    source.send(numbered(source, "3", SECOND, ordinal=2))
    # A new sequence, as after an idle time.
    source.send(numbered(source, "4", SECOND + 30))
    b.crash_and_start()
    source.connect(b)
    source.send(numbered(source, "4", SECOND + 30), numbered(source, "5", SECOND + 30, 2))
    source.send(numbered(source, "6", SECOND + 40))
    assert b.bodies("t") == ["1", "forged", "2", "3", "4", "5", "6"]
    net.advance(20)
    assert told(source)[-1] == (SECOND + 40, 1)


def test_each_address_gets_the_order_acks_of_its_own_sequence(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    stranger = at_another_address(net, source)
    for peer, time_stamp in ((source, SECOND), (stranger, SECOND + 60)):
        peer.connect(b)
        peer.send(numbered(peer, "m", time_stamp))
    net.advance(20)
    assert (told(source), told(stranger)) == ([(SECOND, 1)], [(SECOND + 60, 1)])


def test_a_stranger_that_was_there_first_does_not_get_the_acknowledgments_of_the_source(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    stranger = at_another_address(net, source)
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    source.hang_up()
    stranger.connect(b)
    net.advance(20)
    source.connect(b)
    source.send(numbered(source, "2", SECOND, 2))
    net.advance(20)
    assert (b.bodies("t"), told(source)[-1]) == (["1", "2"], (SECOND, 2))


def test_a_host_that_moves_goes_on_where_it_was(net: Net, b: Host) -> None:
    here = net.add_peer("source")
    there = at_another_address(net, here)
    here.connect(b)
    here.send(numbered(here, "1", SECOND), numbered(here, "2", SECOND, 2))
    here.hang_up()
    there.connect(b)
    # It had no acknowledgment.
    there.send(numbered(there, "2", SECOND, 2, previous=0), numbered(there, "3", SECOND, 3))
    here.connect(b)
    here.send(numbered(here, "3", SECOND, 3, previous=0), numbered(here, "4", SECOND, ordinal=2))
    assert b.bodies("t") == ["1", "2", "3", "4"]


def test_an_address_that_was_never_met_is_shut_out_and_named(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    stranger = at_another_address(net, source)
    moved = at_another_address(net, source)
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    stranger.connect(b)
    stranger.send(numbered(stranger, "forged", SECOND + 60))
    moved.connect(b)
    moved.send(numbered(moved, "2", SECOND + 10))
    net.advance(20)
    assert (b.bodies("t"), told(moved)) == (["1", "forged"], [])
    # Its session has acknowledged it, so the session goes on.
    assert moved.of(SessionAck)
    (found,) = refused(b)
    assert (found.source, found.address, found.verdict) == (source.guid, moved.address, Verdict.NOT_MET)
    assert (found.time_stamp, found.greatest, found.greatest_address) == (SECOND + 10, SECOND + 60, stranger.address)
    notice = next(notice for notice in b.notices if notice.event == "sequence refused")
    assert (notice.facts["peer"], notice.facts["reason"]) == (moved.address, "address not met")
    assert b.network.statistics.sequences_refused == 1
    # What is above the stranger's is taken, and then nothing is refused any more.
    moved.send(numbered(moved, "2", SECOND + 61))
    assert (b.bodies("t")[-1], refused(b)) == ("2", [])


def test_a_sequence_far_ahead_of_the_clock_is_not_begun(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    source.connect(b)
    source.send(numbered(source, "far", SECOND + 2 * DAY + 100))
    net.advance(1)
    assert (b.bodies("t"), b.sources, told(source)) == ([], [], [])
    assert [each.verdict for each in refused(b)] == [Verdict.AHEAD]
    source.send(numbered(source, "1", SECOND + 2 * DAY - 100))
    # It goes on, and no step counts from the last one.
    source.send(numbered(source, "2", SECOND + 2 * DAY - 100, 2))
    source.send(numbered(source, "step", SECOND + 4 * DAY - 200))
    assert b.bodies("t") == ["1", "2"]


def test_a_sequence_that_was_begun_goes_on_when_the_clock_is_put_back(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    net.now = Now(net.now.monotonic, net.now.wall - 30 * DAY)
    source.send(numbered(source, "2", SECOND, 2), numbered(source, "3", SECOND, ordinal=2))
    # A clock that is behind the store says nothing about the time of others.
    source.send(numbered(source, "4", SECOND + 10 * DAY))
    b.crash_and_start()
    source.connect(b)
    source.send(numbered(source, "5", SECOND + 11 * DAY))
    assert b.bodies("t") == ["1", "2", "3", "4", "5"]


def test_new_sequences_of_one_address_are_bounded_by_their_rate(net: Net, b: Host) -> None:
    b.restart(transfer=replace(TRANSFER, new_sequences_at_once=5, new_sequences_per_s=1.0))
    flood, honest = net.add_peer("flood"), net.add_peer("honest")
    flood.connect(b)
    packets = []
    for number in range(1, 11):
        flood.guid = bytes([number]) * 16
        packets.append(numbered(flood, f"flood {number}", SECOND))
        flood.send(packets[-1])
    honest.connect(b)
    honest.guid = b"\x77" * 16
    honest.send(numbered(honest, "honest", SECOND))
    assert b.bodies("t") == [*(f"flood {number}" for number in range(1, 6)), "honest"]
    assert {each.verdict for each in refused(b)} == {Verdict.TOO_MANY}
    assert {each.address for each in refused(b)} == {flood.address}
    # What was taken goes on, and the rest comes again later.
    flood.guid = bytes([1]) * 16
    flood.send(numbered(flood, "more", SECOND, 2))
    net.advance(5)
    flood.send(*packets)
    assert len(b.bodies("t")) == 12
    assert len(b.sources) == 11


def test_a_stranger_that_tries_all_time_stamps_does_not_find_that_of_a_source(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    stranger = at_another_address(net, source)
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    stranger.connect(b)
    stranger.send(numbered(stranger, "forged", SECOND + 100))
    for time_stamp in range(SECOND + 99, SECOND - 100, -1):
        stranger.send(numbered(stranger, "guess", time_stamp, ordinal=1 << 31))
        stranger.send(numbered(stranger, "guess", time_stamp))
    net.advance(1)
    assert {time_stamp for time_stamp, _ in told(stranger)} <= {SECOND + 100}
    source.send(numbered(source, "2", SECOND, 2), numbered(source, "3", SECOND, ordinal=2))
    assert b.bodies("t") == ["1", "forged", "2", "3"]
    # A source that has moved to an address with few such tries goes on at once, and the stranger's own line too.
    moved = at_another_address(net, source)
    moved.connect(b)
    moved.send(numbered(moved, "4", SECOND, 2, ordinal=2))
    stranger.send(numbered(stranger, "forged", SECOND + 100, 2))
    assert b.bodies("t")[-2:] == ["4", "forged"]


def test_new_sequences_of_a_relay_are_not_bounded(net: Net, b: Host) -> None:
    at_address, by_guid, stranger = net.add_peer("one"), net.add_peer("two"), net.add_peer("three")
    guid = b"\x42" * 16
    relays = Relays(frozenset({guid}), frozenset({at_address.address}))
    b.restart(
        transfer=replace(TRANSFER, new_sequences_at_once=2, new_sequences_per_s=0.001),
        relays=relays,
        routes=(Route(guid, by_guid.address),),
    )
    for place, peer in enumerate((at_address, by_guid, stranger)):
        peer.guid = b"\x41" * 16 if peer is at_address else guid
        peer.connect(b)
        for number in range(1, 6):
            peer.guid = bytes([place + 1, number]) * 8
            peer.send(numbered(peer, peer.name, SECOND))
    # A GUID alone makes nobody a relay.
    assert b.bodies("t") == ["one"] * 5 + ["two"] * 5 + ["three"] * 2


def test_sources_are_counted_by_the_address_that_they_came_from(net: Net, b: Host) -> None:
    one, other = net.add_peer("one"), net.add_peer("other")
    for peer in (one, other):
        peer.connect(b)
        for number in range(1, 4):
            peer.guid = bytes([number]) * 16
            peer.send(numbered(peer, "m", SECOND + (60 if peer is other else 0)))
    one.guid = b"\x09" * 16
    one.send(numbered(one, "m", SECOND))
    b.crash_and_start()
    incoming = b.node.sequences.incoming
    found, is_whole = incoming.addresses(100)
    assert is_whole
    assert {address: (each.sources, each.single) for address, each in found.items()} == {
        one.address: (4, 1),
        other.address: (3, 0),
    }
    queues = b.node.manager.collection.by_number.values()
    assert incoming.bytes_of(one.address, queues) > incoming.bytes_of(other.address, queues) > 0
    b.delete("t")
    assert incoming.addresses(100) == ({}, True)


def test_a_start_reads_no_incoming_sequence(net: Net, b: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    source = net.add_peer("source")
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    b.crash()

    def fail(_value: bytes) -> None:
        raise AssertionError("a record was read")

    with monkeypatch.context() as patch:
        patch.setattr("waypost.node.incoming_store.read_incoming", fail)
        Node(b.engine.store, b.settings, lambda: bytes(16), net.now)
    b.start()
    source.connect(b)
    source.send(numbered(source, "1", SECOND), numbered(source, "2", SECOND, 2))
    assert b.bodies("t") == ["1", "2"]


def test_what_is_not_durable_yet_counts_already(net: Net, b: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.incoming_store.MAX_CACHED_SEQUENCES", 1)
    b.crash_and_start()
    source = net.add_peer("source")
    source.connect(b)
    b.hold_disk()
    for number in range(1, 4):
        source.guid = bytes([number]) * 16
        source.send(numbered(source, "1", SECOND))
    for number in range(1, 4):
        source.guid = bytes([number]) * 16
        source.send(numbered(source, "1", SECOND), numbered(source, "2", SECOND, 2))
    b.release_disk()
    assert b.bodies("t") == ["1", "1", "1", "2", "2", "2"]
    assert b.node.sequences.incoming.in_memory == 1


def test_a_folder_from_before_addresses_were_kept_goes_on(net: Net, b: Host) -> None:
    source = net.add_peer("source")
    source.connect(b)
    source.send(numbered(source, "1", SECOND))
    ((key, _),) = b.node.sequences.incoming.page(b"")[0]
    b.crash()
    batch = Batch()
    record = SequenceRecord(TxSequenceId(3, SECOND).value, 7, 0, SECOND)
    batch.put(Table.SEQUENCES, keys.incoming_sequence_key(key[1], key[0]), record.encode())
    b.engine.store.commit(batch, 1)
    b.engine.restart()
    b.start()
    moved = at_another_address(net, source)
    moved.connect(b)
    moved.send(numbered(moved, "old", SECOND, 7, ordinal=3), numbered(moved, "8", SECOND, 8, ordinal=3))
    assert b.bodies("t") == ["1", "8"]


@pytest.mark.spec("MQDMPR-3.1.1.2-19")
def test_a_queue_refers_to_its_journal_its_subqueues_and_what_comes_in_transactions(net: Net, b: Host) -> None:
    source, other = net.add_peer("source"), net.add_peer("other")
    for peer in (source, other):
        peer.connect(b)
        peer.send(numbered(peer, "1", SECOND), numbered(peer, "2", SECOND, 2))
    queue = b.queue("t")
    assert queue.journal is not None
    assert queue.journal.parent is queue
    assert queue.subqueues == {}
    found = {info.sender_id: (info.sequence_id >> 32, info.sequence_number) for info in b.source_info("t")}
    assert found == {source.guid: (SECOND, 2), other.guid: (SECOND, 2)}
