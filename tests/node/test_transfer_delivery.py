"""Express and recoverable messages between whole queue managers: MS-MQQB 1.3.2.1, 3.1.1.1.1, 3.1.5.5, 3.1.7.12."""

import pytest

from tests.node.hosts import Host, Net, Peer, express, letter
from waypost.core.queues import OutgoingQueueState
from waypost.guid import guid_text
from waypost.wire.format_names import FormatName
from waypost.wire.internal_packets import EstablishConnection, SessionAck
from waypost.wire.user_message import UserMessage

Q = r"DIRECT=OS:b\private$\q"
P = r"DIRECT=OS:peer\private$\q"
ADMIN = FormatName.parse(r"DIRECT=OS:peer\private$\admin")


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    """The destination, which is not the first host."""
    assert a.is_up
    host = net.add("b")
    host.create("q")
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


@pytest.mark.spec("MQQB-1.3.2.1.1-01")
def test_an_express_message_survives_a_broken_link_and_no_stop_of_either_process(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send(Q, express("kept"))
    net.advance(20)
    assert a.bodies(Q) == ["kept"]
    net.join()
    net.advance(20)
    assert (b.bodies("q"), a.bodies(Q)) == (["kept"], [])
    b.restart()
    assert b.bodies("q") == []
    net.part(a, b)
    a.send(Q, express("lost"))
    net.join()
    a.restart()
    net.advance(20)
    assert (b.bodies("q"), a.bodies(Q)) == ([], [])


@pytest.mark.spec("MQQB-1.3.2.1.2-01", "MQQB-3.1.4.1-01", "MQQB-3.1.1.3.1-09")
def test_delivery_of_what_was_stored_goes_on_after_a_crash_without_anybody_asking(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send(Q, "one")
    a.send(Q, "two")
    a.crash()
    net.join()
    a.start()
    net.advance(1)
    assert (b.bodies("q"), a.bodies(Q)) == (["one", "two"], [])
    b.crash_and_start()
    assert b.bodies("q") == ["one", "two"]
    b.receive("q")
    b.crash_and_start()
    assert b.bodies("q") == ["two"]


@pytest.mark.spec("MQQB-3.1.1.3.1-07", "MQQB-3.1.1.3.2-01")
def test_the_outgoing_messages_that_are_durable_come_back_in_their_order(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    with pytest.raises(KeyError):
        a.outgoing(Q)
    for number in range(40):
        a.send(Q, letter(str(number)))
    a.send(Q, express("express"))
    a.send_all(r"DIRECT=OS:b\private$\t", "t1", "t2")
    a.crash_and_start()
    assert a.bodies(Q) == [str(number) for number in range(40)]
    assert a.bodies(r"DIRECT=OS:b\private$\t") == ["t1", "t2"]


@pytest.mark.spec("MQQB-3.1.4.2-01")
def test_a_stop_closes_every_session_and_leaves_stored_messages_stored(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, "kept")
    a.send_all(P + "2", "kept too")
    assert len(peer.connections) == 1
    a.stop()
    assert (peer.connections, a.network.sessions) == ({}, [])
    a.start()
    assert (a.bodies(P), a.bodies(P + "2")) == (["kept"], ["kept too"])


@pytest.mark.spec("MQQB-3.1.1.1.1.3-01")
def test_an_express_message_waits_again_after_an_error_or_a_time_out_and_leaves_with_its_ack(
    net: Net, a: Host, peer: Peer
) -> None:
    net.part(a, peer)
    a.send(P, express("plain"))
    a.send(P, express("journaled", positive_journaling_requested=True))
    assert a.bodies(P) == ["plain", "journaled"]
    net.join()
    net.advance(6)
    assert peer.bodies == ["plain", "journaled"]
    # A session for a direct name waits twice as long, and once more if anything came in between.
    net.advance(90)
    assert a.bodies(P) == ["plain", "journaled"]
    assert peer.bodies[:4] == ["plain", "journaled"] * 2
    assert a.bodies(";journal") == []
    peer.acknowledge()
    assert (a.bodies(P), a.bodies(";journal")) == ([], ["journaled"])


@pytest.mark.spec("MQQB-3.1.1.6-01", "MQQB-3.1.6.1-02")
def test_what_is_not_acknowledged_is_sent_again_in_order_on_the_next_session(net: Net, a: Host, peer: Peer) -> None:
    for message in (express("1"), letter("2"), express("3")):
        a.send(P, message)
    a.send_all(P, "4")
    peer.hang_up()
    net.advance(6)
    assert len(peer.of(EstablishConnection)) == 2
    assert peer.bodies == ["1", "2", "3", "4"] * 2
    # The sessions stay, and only the transactional one is sent again for want of an OrderAck.
    peer.acknowledge()
    net.advance(31)
    assert peer.bodies[8:] == ["4"]


@pytest.mark.spec("MQQB-3.1.1.1.1.5-01")
def test_a_recoverable_message_is_on_disk_until_its_session_ack(net: Net, a: Host, peer: Peer) -> None:
    def stored() -> list[str]:
        a.crash_and_start()
        return a.bodies(P)

    net.part(a, peer)
    a.send(P, "m")
    a.send(P, letter("dying", time_to_reach_queue=60, negative_journaling_requested=True))
    assert stored() == ["m", "dying"]
    net.join()
    net.advance(10)
    assert peer.bodies == ["m", "dying"]
    assert stored() == ["m", "dying"]
    net.advance(51)
    assert stored() == ["m"]
    assert a.bodies(";deadletter") == ["dying"]
    net.advance(10)
    peer.acknowledge()
    assert stored() == []


@pytest.mark.spec("MQQB-3.1.1.1.1.6-01", "MQQB-3.1.5.8.7-01")
def test_a_recoverable_message_is_acknowledged_only_when_it_is_on_disk(net: Net, a: Host, peer: Peer) -> None:
    a.create("q")
    peer.connect(a)
    a.hold_disk()
    peer.send(*[peer.message(r"DIRECT=OS:a\private$\q", str(number)) for number in range(40)])
    net.advance(15)
    for ack in peer.of(SessionAck):
        assert (ack.session.recoverable_msg_ack_seq_number, ack.session.recoverable_msg_ack_flags) == (0, 0)
    a.release_disk()
    net.advance(15)
    numbers = [
        ack.session.recoverable_msg_ack_seq_number + bit
        for ack in peer.of(SessionAck)
        for bit in range(32)
        if ack.session.recoverable_msg_ack_flags >> bit & 1
    ]
    assert numbers == list(range(1, 41))
    a.crash_and_start()
    assert len(a.bodies("q")) == 40
    a.receive("q")
    a.crash_and_start()
    assert len(a.bodies("q")) == 39
    a.purge("q")
    a.crash_and_start()
    assert a.bodies("q") == []
    peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\q", "expires", time_to_be_received=30))
    a.crash_and_start()
    assert a.bodies("q") == ["expires"]
    net.advance(31)
    a.crash_and_start()
    assert a.bodies("q") == []


@pytest.mark.spec("MQQB-3.1.5.5.2-01")
def test_a_session_ack_deletes_the_express_messages_up_to_its_number_and_no_others(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    peer.window = 2
    for body in ("1", "2", "3", "4"):
        a.send(P, express(body))
    assert peer.bodies == ["1", "2"]
    peer.ack(1)
    assert a.bodies(P) == ["2", "3", "4"]
    assert peer.bodies == ["1", "2", "3"]


@pytest.mark.spec("MQQB-3.1.5.5.3-01", "MQQB-3.1.5.5.3-02")
def test_a_session_ack_deletes_the_recoverable_messages_that_it_names(net: Net, a: Host, peer: Peer) -> None:
    for number in range(1, 7):
        a.send(P, str(number))
    peer.ack(6, 2, 0b0_1001)
    # Up to number 2, and number 5 by its bit.
    assert a.bodies(P) == ["3", "4", "6"]
    peer.ack(6, 6, 1)
    assert a.bodies(P) == []


@pytest.mark.spec("MQQB-3.1.5.5.4-01")
def test_a_message_that_a_session_ack_deletes_goes_to_the_journal_if_it_asks_for_that(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    journaled = {"positive_journaling_requested": True}
    for message in (letter("r"), letter("rj", **journaled), express("e"), express("ej", **journaled)):
        a.send(P, message)
    a.send_all(P, letter("tj", **journaled))
    peer.acknowledge()
    assert sorted(a.bodies(";journal")) == ["ej", "rj"]
    assert a.bodies(P) == ["tj"]


@pytest.mark.spec("MQQB-1.3.4-01")
def test_without_the_flags_no_copy_is_kept_whatever_becomes_of_a_message(net: Net, a: Host, b: Host) -> None:
    b.create("t", transactional=True)
    t, nowhere = r"DIRECT=OS:b\private$\t", r"DIRECT=OS:b\private$\nowhere"
    a.send(Q, "received")
    a.send_all(t, "received")
    net.advance(1)
    b.receive("q")
    b.receive("t")
    a.send(nowhere, "refused")
    a.send_all(nowhere, "refused")
    a.send(Q, letter("expires there", time_to_be_received=5))
    a.send_all(t, "purged")
    net.advance(10)
    b.purge("t")
    net.part(a, b)
    for message in (letter("expires", time_to_reach_queue=1), express("expires", time_to_reach_queue=1)):
        a.send(Q, message)
    a.send_all(t, letter("expires", time_to_reach_queue=1))
    net.advance(10)
    for host in (a, b):
        for name in (";journal", ";deadletter", ";deadxact"):
            assert host.bodies(name) == []
    assert (a.bodies(Q), a.bodies(t)) == ([], [])


@pytest.mark.spec("MQQB-3.1.7.1-01")
def test_nothing_is_sent_from_a_queue_that_is_not_connected(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, "1")
    a.pause(P)
    a.send(P, "2")
    net.advance(30)
    assert peer.bodies == ["1"]
    a.resume(P)
    assert peer.bodies == ["1", "2"]
    peer.acknowledge()
    net.part(a, peer)
    a.send(P, "3")
    unknown = f"PRIVATE={guid_text(peer.guid)}\\00000009"
    a.send(unknown, "nobody knows where")
    net.advance(30)
    assert a.outgoing(P).state is OutgoingQueueState.DISCONNECTED
    assert a.outgoing(unknown).state is not OutgoingQueueState.CONNECTED
    assert peer.bodies == ["1", "2"]


@pytest.mark.spec("MQQB-3.1.7.12-01")
@pytest.mark.parametrize(
    "name", ["MULTICAST=234.1.1.1:8001", "DIRECT=HTTP://peer/msmq/q", "DIRECT=HTTPS://peer/msmq/q"]
)
def test_multicast_and_http_are_not_for_this_protocol(net: Net, a: Host, peer: Peer, name: str) -> None:
    queue = a.open(name)
    with a.node.kernel.operation(net.now):
        a.node.manager.writing.enqueue_message(queue, letter("m", sent_time=int(net.now.wall)), None, net.now)
    net.advance(60)
    assert (peer.received, net.datagrams) == ([], [])
    assert a.bodies(name) == ["m"]


@pytest.mark.spec("MQQB-3.1.7.12-01")
def test_a_local_queue_and_a_locked_or_paused_one_are_not_for_this_protocol(net: Net, peer: Peer) -> None:
    hardened = net.add("hardened", hardened_security=True)
    hardened.create("here")
    hardened.send(r"DIRECT=OS:hardened\private$\here", "m")
    hardened.send(P, "m")
    other = net.add("other")
    other.open(P)
    other.pause(P)
    other.send(P, "m")
    net.advance(60)
    assert peer.received == []
    assert (hardened.bodies("here"), hardened.bodies(P), other.bodies(P)) == (["m"], ["m"], ["m"])


@pytest.mark.spec("MQQB-3.1.7.12-02", "MQQB-3.1.7.16-01")
def test_a_message_that_becomes_available_has_a_session_opened_and_goes_once(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, "1")
    peer.acknowledge()
    net.advance(700)
    # The session was idle and is closed; the history of the queue is not empty any more.
    assert peer.connections == {}
    a.send(P, "2")
    a.send(P, "3")
    assert len(peer.of(EstablishConnection)) == 2
    assert peer.bodies == ["1", "2", "3"]
    net.advance(30)
    assert peer.bodies == ["1", "2", "3"]


@pytest.mark.spec("MQQB-3.1.7.1.6-01")
def test_a_message_whose_connection_breaks_stays_stored_for_the_next(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, "m")
    peer.hang_up()
    assert a.network.sessions == []
    assert a.bodies(P) == ["m"]
    net.advance(6)
    peer.acknowledge()
    assert (peer.bodies, a.bodies(P)) == (["m", "m"], [])


@pytest.mark.spec("MQQB-3.1.7.1.1-01", "MQQB-3.1.1.3-06", "MQQB-3.1.1.3-07")
def test_ordinals_rise_by_one_from_one_are_kept_by_a_retransmission_and_never_issued_twice(
    net: Net, a: Host, peer: Peer
) -> None:  # fmt: skip
    def ordinals() -> list[int]:
        return [packet.user.message_id for packet in peer.of(UserMessage)]

    assert a.node.manager.last_ordinal == 0
    for body in ("1", "2", "3"):
        a.send(P, body)
    assert ordinals() == [1, 2, 3]
    peer.hang_up()
    net.advance(6)
    assert ordinals() == [1, 2, 3] * 2
    peer.acknowledge()
    a.hold_disk()
    a.send(P, "not durable")
    a.crash_and_start()
    a.send(P, "4")
    assert min(ordinals()[6:]) > 3
    assert len(set(ordinals())) == 4
    # The 32 bits are used up.
    a.node.manager.last_ordinal = 0xFFFF_FFFE
    a.send(P, "last")
    a.send(P, "again")
    assert ordinals()[-2:] == [0xFFFF_FFFF, 1]


@pytest.mark.spec("MQQB-3.1.3.2-10")
def test_the_identifier_of_a_queue_manager_is_made_once(net: Net, a: Host, b: Host) -> None:
    before = a.guid
    assert before != b.guid
    a.restart()
    assert a.guid == before
    a.crash_and_start()
    assert a.guid == before


@pytest.mark.spec("MQQB-3.1.1.3-04", "MQQB-3.1.5.8.1-02")
def test_a_duplicate_is_discarded_without_a_word_also_after_a_crash(net: Net, a: Host, peer: Peer) -> None:
    a.create("q")
    message = peer.message(
        r"DIRECT=OS:a\private$\q",
        "m",
        administration_queue_format_name=ADMIN,
        acknowledgements_requested=1,
    )
    peer.connect(a)
    peer.send(message)
    net.advance(20)
    peer.acknowledge()
    acks = len(peer.of(UserMessage))
    assert (acks, a.bodies("q")) == (1, ["m"])
    peer.send(message)
    a.crash_and_start()
    peer.connect(a)
    peer.send(message)
    net.advance(20)
    assert (len(peer.of(UserMessage)), a.bodies("q")) == (1, ["m"])
    assert a.network.statistics.duplicates_discarded == 1


@pytest.mark.spec("MQQB-3.1.5.8.1-02")
def test_a_duplicate_is_remembered_from_the_last_time_that_it_came(net: Net, a: Host, peer: Peer) -> None:
    a.create("q")
    message = peer.message(r"DIRECT=OS:a\private$\q", "m", time_to_reach_queue=0xFFFF_FFFF)
    other = peer.message(r"DIRECT=OS:a\private$\q", "other", time_to_reach_queue=0xFFFF_FFFF)
    peer.connect(a)
    peer.send(message, other)
    for _ in range(4):
        net.advance(1000)
        peer.connect(a)
        peer.send(message)
    assert a.bodies("q") == ["m", "other"]
    peer.send(other)
    assert a.bodies("q") == ["m", "other", "other"]


@pytest.mark.spec("MQQB-3.1.3.1-02")
def test_the_history_that_was_recovered_is_cleaned_up(net: Net, a: Host, peer: Peer) -> None:
    assert a.next_deadline() is None
    a.create("q")
    peer.connect(a)
    peer.send(peer.message(r"DIRECT=OS:a\private$\q", "m"))
    net.advance(1)
    peer.hang_up()
    a.receive("q")
    a.crash_and_start()
    deadline = a.next_deadline()
    assert deadline is not None
    assert deadline <= net.now.monotonic + 1800
    net.advance(3 * 1800)
    assert a.next_deadline() is None


@pytest.mark.spec("MQQB-3.1.5.8.8-01", "MQQB-3.1.7.10-01")
def test_an_accepted_message_is_in_its_queue_with_the_attributes_of_its_packet(net: Net, a: Host, b: Host) -> None:
    sent = letter(
        "subject",
        body=b"\x00\x01body",
        body_type=0x11,
        priority=5,
        application_tag=77,
        extension=b"ext",
        time_to_reach_queue=1000,
        time_to_be_received=2000,
        response_queue_format_name=ADMIN,
    )
    a.send(Q, sent)
    (got,) = b.messages("q")
    for name in ("label", "body", "body_type", "priority", "application_tag", "extension", "time_to_reach_queue"):
        assert getattr(got, name) == getattr(sent, name)
    assert got.time_to_be_received == 2000
    assert got.response_queue_format_name == ADMIN
    assert got.source_machine_identifier == a.guid
    assert got.sent_time == int(net.now.wall)


def test_a_purge_of_what_is_under_way_leaves_nothing_to_be_sent_again(net: Net, a: Host, peer: Peer) -> None:
    a.send(P, letter("r", negative_journaling_requested=True))
    a.send_all(P, letter("t", negative_journaling_requested=True))
    a.purge(P)
    assert (a.bodies(P), a.bodies(";deadletter"), a.bodies(";deadxact")) == ([], ["r"], ["t"])
    peer.acknowledge()
    peer.hang_up()
    net.advance(100)
    assert peer.bodies == ["r", "t"]
    assert a.classes(";deadletter") == a.classes(";deadxact") == [0x8001]
