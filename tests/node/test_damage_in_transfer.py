"""Damage to what is on its way to another computer, and to what is known of those that send here (ADR 30)."""

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from waypost.core.queues import Queue
from waypost.errors import RecordDamaged, StoreDamaged
from waypost.node.explain_sequences import refused_hint, refused_sentence
from waypost.store import keys
from waypost.store.port import Table
from waypost.transfer.incoming import Verdict

T = r"DIRECT=OS:b\private$\t"
Q = r"DIRECT=OS:b\private$\q"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    assert a.is_up
    host = net.add("b")
    host.create("t", transactional=True)
    host.create("q")
    return host


def spoil(host: Host, name: str, label: str, *, is_lost: bool = False) -> None:
    queue = host._find(name)
    (lookup_id,) = [each for each in queue.positions if label_of(host, queue, each) == label]
    key = keys.message_key(queue.number, lookup_id)
    memory = host.memory
    assert memory.lose(Table.MESSAGES, key) if is_lost else memory.damage(Table.MESSAGES, key)


def label_of(host: Host, queue: Queue, lookup_id: int) -> str:
    try:
        return host.node.messages.get(queue.number, lookup_id).label
    except RecordDamaged:
        return ""


def damaged(host: Host) -> int:
    return len(host.node.damaged)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("name", [T, Q])
@pytest.mark.parametrize("victims", ["1", "2", "3", "12", "23", "123"])
def test_the_others_arrive_in_their_order(
    net: Net, a: Host, b: Host, name: str, victims: str, *, is_lost: bool
) -> None:  # fmt: skip
    net.part(a, b)
    for label in "123":
        if name == T:
            a.send_all(T, label)
        else:
            a.send(Q, label)
    for label in victims:
        spoil(a, name, label, is_lost=is_lost)
    net.join()
    net.advance(100)
    assert b.bodies(name[-1]) == [label for label in "123" if label not in victims]
    assert damaged(a) == len(victims)
    if name == T:
        a.send_all(T, "4")
    else:
        a.send(Q, "4")
    net.advance(10)
    assert b.bodies(name[-1])[-1] == "4"
    assert a.bodies(name) == []


@pytest.mark.parametrize("victim", "123")
def test_what_was_sent_and_is_damaged_before_its_acknowledgment_keeps_nobody(net: Net, a: Host, victim: str) -> None:
    peer = net.add_peer()
    name = r"DIRECT=OS:peer\private$\t"
    a.send_all(name, "1", "2", "3")
    spoil(a, name, victim)
    net.advance(31)
    left = [label for label in "123" if label != victim]
    assert peer.bodies[3:] == left
    numbers = [(each.tx_sequence_number, each.previous_tx_sequence_number) for each in peer.headers[3:]]
    assert [number for number, _ in numbers] == [int(label) for label in left]
    # None names the one that is gone as the one before, but the first that is sent again names nobody.
    assert [previous for _, previous in numbers] == [0, int(left[0])]
    peer.acknowledge()
    peer.order_ack(3)
    net.advance(10)
    assert a.bodies(name) == []
    assert damaged(a) == 1


@pytest.mark.parametrize("victims", ["3", "23"])
def test_what_is_damaged_after_it_arrived_does_not_keep_those_before_it(net: Net, a: Host, victims: str) -> None:
    """The process that follows cannot send it again, and its destination acknowledges it with those before it."""
    peer = net.add_peer()
    name = r"DIRECT=OS:peer\private$\t"
    a.send_all(name, "0")
    a.send_all(name, "1", "2", "3")
    for victim in victims:
        spoil(a, name, victim)
    a.crash_and_start()
    net.advance(10)
    assert peer.bodies[4:] == [label for label in "0123" if label not in victims]
    peer.acknowledge()
    peer.order_ack(4)
    assert a.bodies(name) == []
    assert (damaged(a), len(a.node.kept_acks)) == (len(victims), 0)
    # The next message is behind the one that is gone.
    a.send_all(name, "4")
    peer.acknowledge()
    peer.order_ack(peer.headers[-1].tx_sequence_number)
    assert a.bodies(name) == []


def test_an_outgoing_queue_with_damage_is_there_after_a_restart(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send_all(T, "1", "2", "3")
    spoil(a, T, "1")
    spoil(a, T, "3")
    a.crash_and_start()
    assert damaged(a) == 2
    assert a.bodies(T) == ["2"]
    a.crash_and_start()
    assert damaged(a) == 2
    net.join()
    net.advance(100)
    assert b.bodies("t") == ["2"]


def test_damage_to_a_message_on_its_way_that_expires_does_not_keep_its_host_from_starting(
    net: Net, a: Host, b: Host
) -> None:  # fmt: skip
    """It has a record of its position besides."""
    net.part(a, b)
    a.send(Q, letter("1", time_to_be_received=1000))
    spoil(a, Q, "1")
    a.crash_and_start()
    assert (damaged(a), a.bodies(Q)) == (1, [])


def test_an_outgoing_queue_of_nothing_but_damage_goes(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send(Q, "1")
    spoil(a, Q, "1")
    a.crash_and_start()
    assert a.bodies(Q) == []
    assert damaged(a) == 1
    net.join()
    a.send(Q, "2")
    net.advance(10)
    assert b.bodies("q") == ["2"]


def test_a_message_that_waits_for_its_final_ack_and_is_damaged_is_set_aside_when_that_comes(
    net: Net, a: Host, b: Host
) -> None:  # fmt: skip
    a.send_all(T, letter("jp", positive_journaling_requested=True))
    net.advance(2)
    spoil(a, "awaiting_final_ack$", "jp")
    b.receive("t")
    net.advance(10)
    assert damaged(a) == 1
    assert (a.bodies("awaiting_final_ack$"), a.bodies(";journal")) == ([], [])
    a.send_all(T, letter("next", positive_journaling_requested=True))
    net.advance(2)
    b.receive("t")
    net.advance(10)
    assert a.bodies(";journal") == ["next"]


def spoil_sequences(host: Host) -> None:
    """Damage every record of a sequence that comes in."""
    found = host.memory.keys(Table.SEQUENCES, *keys.all_incoming_sequences())
    assert found
    for key in found:
        host.memory.damage(Table.SEQUENCES, key)
    # The next process has none of them in memory.
    host.crash_and_start()


def test_a_source_whose_record_is_damaged_is_refused_in_words_until_it_is_reset(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "1")
    net.advance(10)
    spoil_sequences(b)
    a.send_all(T, "2")
    net.advance(10)
    assert b.bodies("t") == ["1"]
    (refused,) = b.network.arrivals.admission.refused
    assert refused.verdict is Verdict.DAMAGED
    assert "is damaged in the store" in refused_sentence(b.node, refused, net.now)
    assert "waypost sequence reset --source" in refused_hint(refused)
    assert b.network.statistics.sequences_refused > 0
    with b.node.kernel.operation(net.now):
        b.node.sequences.incoming.expect_any(refused.key)
    net.advance(100)
    assert b.bodies("t") == ["1", "2"]
    b.crash_and_start()
    a.send_all(T, "3")
    net.advance(10)
    assert b.bodies("t") == ["1", "2", "3"]


def test_a_source_whose_record_is_damaged_is_still_listed(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "1")
    net.advance(10)
    spoil_sequences(b)
    assert b.sources == [a.guid]


def test_a_damaged_count_of_sources_begins_again(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "1")
    net.advance(10)
    for key in b.memory.keys(Table.SEQUENCES, *keys.all_sequence_addresses()):
        b.memory.damage(Table.SEQUENCES, key)
    b.crash_and_start()
    assert b.node.sequences.incoming.addresses(10) == ({}, True)
    a.send_all(T, "2")
    net.advance(10)
    assert b.bodies("t") == ["1", "2"]


def test_a_sender_that_is_a_peer_is_not_lost_with_its_acknowledgments(net: Net, b: Host) -> None:
    """OrderAcks that wait for a peer are records too."""
    peer: Peer = net.add_peer("source")
    peer.connect(b)
    peer.send(peer.message(T, "1", tx=(1, 1, 0)))
    peer.hang_up()
    net.advance(2)
    for key in b.memory.keys(Table.MESSAGES):
        b.memory.damage(Table.MESSAGES, key)
    b.crash_and_start()
    net.advance(10)
    b.send(r"DIRECT=OS:b\private$\q", "still here")
    assert b.bodies("q") == ["still here"]


def test_a_queue_whose_sequence_is_gone_does_not_begin_another_for_its_messages(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send_all(T, "1")
    (key,) = a.memory.keys(Table.SEQUENCES, *keys.all_outgoing_sequences())
    a.memory.lose(Table.SEQUENCES, key)
    with pytest.raises(StoreDamaged, match="has messages of a sequence, but the outgoing sequence of queue"):
        a.crash_and_start()
