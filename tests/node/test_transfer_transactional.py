"""Messages of transactions between whole queue managers: MS-MQQB 3.1.1.5, 3.1.1.6.2, 3.1.5.6, 3.1.5.8.6, 3.1.7.1.3."""

from itertools import pairwise

import pytest

from tests.node.hosts import Host, Net, Peer, letter
from waypost.core.management import DirectoryState, queue_snapshot
from waypost.core.stored_message import sequence_of
from waypost.transfer.settings import ResendTimeouts, TransferSettings
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import SequenceInfo, TxSequenceId
from waypost.wire.internal_packets import EstablishConnection, SessionAck
from waypost.wire.management import EodState, SourceInfo
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_message import UserMessage

T = r"DIRECT=OS:b\private$\t"
P = r"DIRECT=OS:peer\private$\t"
HERE = r"DIRECT=OS:a\private$\t"


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    host = net.add("a")
    host.create("t", transactional=True)
    return host


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    assert a.is_up
    host = net.add("b")
    host.create("t", transactional=True)
    return host


@pytest.fixture
def peer(net: Net, a: Host) -> Peer:
    assert a.is_up
    return net.add_peer()


def numbers(peer: Peer) -> list[tuple[int, int]]:
    """TxSequenceNumber and PreviousTxSequenceNumber of what came."""
    return [(each.tx_sequence_number, each.previous_tx_sequence_number) for each in peer.headers]


def eod(host: Host, name: str) -> EodState:
    eod = queue_snapshot(host.outgoing(name), DirectoryState()).eod
    assert eod is not None
    return eod


def source_info(host: Host) -> SourceInfo:
    (info,) = host.source_info("t")
    return info


@pytest.mark.spec("MQQB-1.3.2.1.3-01")
def test_messages_of_a_transaction_go_on_the_wire_when_it_commits_and_never_if_it_aborts(
    net: Net, a: Host, b: Host
) -> None:  # fmt: skip
    aborted, committed = a.begin(), a.begin()
    a.send(T, "aborted", aborted)
    a.send(T, "one", committed)
    a.send(T, "two", committed)
    net.advance(60)
    assert net.packets(UserMessage) == []
    a.abort(aborted)
    a.commit(committed)
    net.advance(60)
    assert [packet.properties.label for packet in net.packets(UserMessage)] == ["one", "two"]
    (one, two) = b.messages("t")
    assert one.delivery_guarantee == two.delivery_guarantee == letter().delivery_guarantee


@pytest.mark.spec("MQQB-1.3.2.1.3-01")
def test_messages_of_transactions_come_once_and_in_order_through_broken_links_and_crashes(
    net: Net, a: Host, b: Host
) -> None:  # fmt: skip
    for number in range(12):
        a.send_all(T, f"{number}a", f"{number}b")
        match number % 4:
            case 0:
                net.part(a, b)
            case 1:
                a.crash_and_start()
            case 2:
                net.join()
            case 3:
                b.crash_and_start()
                net.advance(6)
    net.advance(100)
    assert b.bodies("t") == [f"{number}{part}" for number in range(12) for part in "ab"]
    assert a.bodies(T) == []


@pytest.mark.spec("MQQB-3.1.7.1.3-01", "MQDMPR-3.1.1.12-51", "MQDMPR-3.1.1.12-52")
def test_messages_of_transactions_are_numbered_in_their_sequence(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, "1", "2")
    a.send_all(T, "3")
    packets = [packet for packet in net.packets(UserMessage) if packet.transaction is not None]
    one, two, three = [packet.transaction for packet in packets if packet.transaction is not None]
    assert one.tx_sequence_id == two.tx_sequence_id == three.tx_sequence_id
    assert one.tx_sequence_id == TxSequenceId(1, int(net.now.wall)).value
    assert [each.tx_sequence_number for each in (one, two, three)] == [1, 2, 3]
    assert [each.previous_tx_sequence_number for each in (one, two, three)] == [0, 1, 2]
    messages = b.messages("t")
    assert [message.transaction_sequence_number for message in messages] == [1, 2, 3]
    assert [message.transaction_previous_sequence_number for message in messages] == [0, 1, 2]
    assert {message.transactional_message_sequence_identifier for message in messages} == {
        TxSequenceId(1, int(net.now.wall))
    }
    first, second, third = [message.transaction_identifier for message in messages]
    assert first == second != third
    b.create("q")
    a.send(r"DIRECT=OS:b\private$\q", "plain")
    (plain,) = b.messages("q")
    assert (plain.transactional_message_sequence_identifier, plain.transaction_identifier) == (None, None)


@pytest.mark.spec("MQQB-3.1.1.6.2-03", "MQQB-3.1.5.5.3-03", "MQQB-3.1.5.6-05")
def test_a_message_of_a_transaction_leaves_when_both_its_acks_have_come(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "1", "2", "3")
    peer.ack(3, 1, 0b011)
    assert a.bodies(P) == ["1", "2", "3"]
    peer.order_ack(1)
    assert a.bodies(P) == ["2", "3"]
    # Now the OrderAck is the first.
    a.send_all(P, "4", "5")
    peer.order_ack(4)
    assert a.bodies(P) == ["4", "5"]
    peer.ack(5, 1, 0b01111)
    assert a.bodies(P) == ["5"]
    peer.order_ack(5)
    assert a.bodies(P) == []


@pytest.mark.spec("MQQB-3.1.5.6-06", "MQQB-3.1.1.6.2-03", "MQQB-3.1.1.3.1-08")
def test_a_journaled_message_waits_for_its_final_ack_also_over_a_crash(net: Net, a: Host, b: Host) -> None:
    assert a.bodies("awaiting_final_ack$") == []
    a.send_all(
        T,
        letter("jp", positive_journaling_requested=True),
        letter("jn", negative_journaling_requested=True),
        "neither",
    )
    net.advance(2)
    assert (a.bodies(T), a.bodies("awaiting_final_ack$")) == ([], ["jp", "jn"])
    a.crash_and_start()
    assert a.bodies("awaiting_final_ack$") == ["jp", "jn"]
    b.receive("t")
    b.purge("t")
    net.advance(6)
    assert (a.bodies("awaiting_final_ack$"), a.bodies(";journal"), a.bodies(";deadxact")) == ([], ["jp"], ["jn"])


@pytest.mark.spec("MQQB-3.1.5.6-07", "MQQB-3.1.1.5-05")
def test_the_next_sequence_begins_when_no_message_of_the_last_is_left(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "1", "2")
    peer.acknowledge()
    peer.order_ack(1)
    a.send_all(P, "3")
    peer.acknowledge()
    peer.order_ack(3)
    a.send_all(P, "1 of the next")
    one, two, three, following = peer.headers
    assert one.tx_sequence_id == two.tx_sequence_id == three.tx_sequence_id == following.tx_sequence_id - 1
    assert (following.tx_sequence_number, following.previous_tx_sequence_number) == (1, 0)
    # A late ack of the last one changes nothing, and nothing more is sent in it.
    peer.acknowledge()
    peer.order_ack(1, one.tx_sequence_id)
    assert a.bodies(P) == ["1 of the next"]
    net.advance(31)
    peer.hang_up()
    net.advance(6)
    assert {each.tx_sequence_id for each in peer.headers[4:]} == {following.tx_sequence_id}


def test_a_session_ack_of_the_last_sequence_keeps_no_message_of_the_next(net: Net, a: Host, peer: Peer) -> None:
    """Both sequences have the same numbers."""
    a.send_all(P, "1", "2")
    net.advance(31)
    assert peer.bodies == ["1", "2"] * 2
    # The messages leave with the acknowledgments of the first transmission.
    peer.ack(2, 1, 0b11)
    peer.order_ack(2)
    assert a.bodies(P) == []
    a.send_all(P, "3", "4")
    assert numbers(peer)[4:] == numbers(peer)[:2]
    peer.order_ack(2)
    # Now that of the second one comes.
    peer.ack(4, 3, 0b11)
    assert a.bodies(P) == ["3", "4"]
    peer.acknowledge()
    assert a.bodies(P) == []


def test_messages_that_were_sent_twice_to_a_slow_host_hold_up_no_later_ones(net: Net) -> None:
    a = net.add("a", TransferSettings(resend_timeouts=ResendTimeouts(short=7)))
    b = net.add("b", TransferSettings(order_ack_timeout_ms=50))
    b.create("t", transactional=True)
    b.hold_disk()
    a.send_all(T, "1", "2")
    (connection,) = b.connections
    b.hold_reading(connection, is_held=True)
    net.advance(11)
    assert len(net.packets(UserMessage)) == 4
    # It acknowledges the first transmission before it reads the second one.
    b.release_disk()
    assert a.bodies(T) == []
    a.send_all(T, "3", "4")
    b.hold_reading(connection, is_held=False)
    net.advance(5)
    assert (a.bodies(T), b.bodies("t")) == ([], ["1", "2", "3", "4"])
    assert len(net.packets(UserMessage)) == 6


@pytest.mark.spec("MQQB-3.1.6.5-01", "MQQB-3.1.1.6-01", "MQQB-3.1.7.1.3-02")
def test_what_has_no_order_ack_in_time_is_sent_again_in_order_with_its_numbers(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "1", "2")
    peer.acknowledge()
    net.advance(29)
    a.send_all(P, "3")
    peer.acknowledge()
    assert peer.bodies == ["1", "2", "3"]
    net.advance(2)
    assert peer.bodies == ["1", "2", "3"] * 2
    assert numbers(peer)[3:] == [(1, 0), (2, 1), (3, 2)]
    assert len(peer.of(EstablishConnection)) == 1
    peer.acknowledge()
    peer.order_ack(3)
    net.advance(60)
    assert len(peer.bodies) == 6


@pytest.mark.spec("MQQB-3.1.7.1.3-03", "MQQB-3.1.1.1.1.7-01")
def test_what_is_sent_again_bridges_the_gap_that_an_expired_message_left(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "1", letter("2", time_to_reach_queue=20), "3")
    peer.acknowledge()
    net.advance(31)
    assert peer.bodies == ["1", "2", "3", "1", "3"]
    assert numbers(peer)[3:] == [(1, 0), (3, 1)]


def test_a_gap_does_not_hold_up_what_follows(net: Net, a: Host, b: Host) -> None:
    net.part(a, b)
    a.send_all(T, letter("expires", time_to_reach_queue=1), "1")
    net.advance(4)
    net.join()
    net.advance(6)
    net.part(a, b)
    a.send_all(T, "purged", "purged")
    a.purge(T)
    a.send_all(T, "2")
    net.join()
    net.advance(6)
    assert (b.bodies("t"), a.bodies(T)) == (["1", "2"], [])


@pytest.mark.spec("MQQB-3.1.1.1.1.7-01")
def test_a_message_of_a_transaction_goes_from_state_to_state(net: Net, a: Host, peer: Peer) -> None:
    net.part(a, peer)
    a.send_all(P, letter("m", positive_journaling_requested=True))
    assert a.bodies(P) == ["m"]
    net.join()
    net.advance(6)
    # No session ack: the session is closed, and the message is sent again on the next.
    net.advance(90)
    sessions = len(peer.of(EstablishConnection))
    assert sessions >= 2
    # No OrderAck: it is sent again on the same.
    peer.acknowledge()
    sent = len(peer.bodies)
    net.advance(31)
    assert (len(peer.bodies), len(peer.of(EstablishConnection))) == (sent + 1, sessions)
    peer.acknowledge()
    peer.order_ack(1)
    assert (a.bodies(P), a.bodies("awaiting_final_ack$")) == ([], ["m"])
    net.advance(3600)
    assert a.bodies("awaiting_final_ack$") == ["m"]


@pytest.mark.spec("MQQB-3.1.1.1.1.7-01")
@pytest.mark.parametrize("state", ["waits to be sent", "waits for its session ack", "waits for its OrderAck"])
def test_a_message_of_a_transaction_expires_as_long_as_it_has_not_arrived(
    net: Net, a: Host, peer: Peer, state: str
) -> None:  # fmt: skip
    if state == "waits to be sent":
        net.part(a, peer)
    a.send_all(P, letter("m", time_to_reach_queue=10, negative_journaling_requested=True))
    if state == "waits for its OrderAck":
        peer.acknowledge()
    net.advance(11)
    assert (a.bodies(P), a.bodies(";deadxact")) == ([], ["m"])


@pytest.mark.spec("MQQB-3.1.1.6.2-02")
def test_one_order_ack_covers_all_that_came_in_order(net: Net, a: Host, peer: Peer) -> None:
    peer.connect(a)
    for number in (1, 2, 4):
        peer.send(peer.message(HERE, str(number), tx=(5, number, number - 1)))
    net.advance(1)
    (ack,) = peer.of(OrderAck)
    assert (ack.body.tx_sequence_id, ack.body.tx_sequence_number, ack.body.tx_previous_sequence_number) == (5, 2, 1)
    assert a.bodies("t") == ["1", "2"]


@pytest.mark.spec("MQQB-3.1.5.8.6-01", "MQQB-3.1.5.8.6-04", "MQQB-3.1.5.8.1-01")
def test_a_duplicate_is_acknowledged_again_and_not_delivered_again(net: Net, a: Host, peer: Peer) -> None:
    message = peer.message(HERE, "m", tx=(5, 1, 0))
    peer.connect(a)
    for _ in range(2):
        peer.send(message)
        net.advance(1)
    assert [ack.body.tx_sequence_number for ack in peer.of(OrderAck)] == [1, 1]
    assert a.bodies("t") == ["m"]
    # Only the numbers count: with others the same identifier is another message.
    peer.send(peer.message(HERE, "other", tx=(5, 2, 1), identifier=a.messages("t")[0].identifier))
    assert a.bodies("t") == ["m", "other"]


@pytest.mark.spec("MQQB-3.1.5.8.6-05", "MQQB-3.1.5.8.6-06", "MQQB-3.1.1.3.1-06")
def test_what_is_out_of_order_or_of_an_older_sequence_is_not_delivered(net: Net, a: Host, peer: Peer) -> None:
    peer.connect(a)
    peer.send(peer.message(HERE, "1", tx=(5, 1, 0)))
    for tx in ((5, 3, 2), (6, 2, 1), (4, 2, 0)):
        peer.send(peer.message(HERE, "no", tx=tx))
    assert a.bodies("t") == ["1"]
    assert source_info(a).message_reject_count == 3
    a.crash_and_start()
    assert source_info(a).message_reject_count == 3
    peer.connect(a)
    peer.send(peer.message(HERE, "2", tx=(5, 2, 1)), peer.message(HERE, "next", tx=(6, 1, 0)))
    assert a.bodies("t") == ["1", "2", "next"]


@pytest.mark.spec("MQQB-3.1.5.8.6-07", "MQDMPR-3.1.1.5-03")
def test_rejections_are_counted_until_the_next_message_is_accepted(net: Net, a: Host, peer: Peer) -> None:
    def told() -> tuple[int, int]:
        info = source_info(a)
        return info.last_access_time - int(net.now.wall), info.message_reject_count

    peer.connect(a)
    peer.send(peer.message(HERE, "1", tx=(5, 1, 0)))
    assert told() == (0, 0)
    for count in (1, 2):
        net.advance(5)
        peer.send(peer.message(HERE, "3", tx=(5, 3, 2)))
        assert told() == (0, count)
    net.advance(5)
    peer.send(peer.message(HERE, "2", tx=(5, 2, 1)))
    # It shows the rejections before this one, and counts from 0 again.
    assert told() == (0, 2)
    peer.send(peer.message(HERE, "3", tx=(5, 3, 2)))
    assert told() == (0, 0)
    assert a.bodies("t") == ["1", "2", "3"]


@pytest.mark.spec("MQQB-3.1.5.8.8-06", "MQDMPR-3.1.1.5-01", "MQDMPR-3.1.1.5-02")
def test_a_queue_tells_who_sends_transactions_to_it_and_what_came_last(net: Net, a: Host, peer: Peer) -> None:
    a.create("other", transactional=True)
    second = net.add_peer("second")
    peer.connect(a)
    peer.send(peer.message(HERE, "1", tx=(5, 1, 0)), peer.message(HERE, "2", tx=(5, 2, 1)))
    info = source_info(a)
    assert FormatName.parse(info.format_name) == FormatName.parse(r"DIRECT=OS:a.example.org\private$\t")
    assert (info.sender_id, info.sequence_id, info.sequence_number) == (peer.guid, 5, 2)
    assert a.source_info("other") == []
    peer.send(peer.message(HERE, "next", tx=(6, 1, 0)))
    assert (source_info(a).sequence_id, source_info(a).sequence_number) == (6, 1)
    second.connect(a)
    second.send(second.message(HERE, "1", tx=(5, 1, 0)))
    infos = a.source_info("t")
    assert [(info.sender_id, info.sequence_id) for info in infos] == [(peer.guid, 6), (second.guid, 5)]


@pytest.mark.spec("MQQB-3.1.1.3.1-05")
def test_what_was_accepted_before_a_crash_is_a_duplicate_after_it(net: Net, a: Host, peer: Peer) -> None:
    assert a.sources == []
    messages = [peer.message(HERE, str(number), tx=(5, number, number - 1)) for number in (1, 2)]
    peer.connect(a)
    peer.send(*messages)
    a.crash_and_start()
    peer.connect(a)
    peer.send(*messages, peer.message(HERE, "3", tx=(5, 3, 2)))
    assert a.bodies("t") == ["1", "2", "3"]


@pytest.mark.spec("MQQB-3.1.1.3.1-04", "MQQB-3.1.1.3.1.2-02")
def test_the_sequence_goes_on_after_a_crash_and_what_was_sent_keeps_its_numbers(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, "1", "2")
    assert numbers(peer) == [(1, 0), (2, 1)]
    a.crash_and_start()
    assert [sequence_of(message.packet)[1] for message in a.messages(P)] == [1, 2]
    a.send_all(P, "3")
    net.advance(6)
    assert numbers(peer) == [(1, 0), (2, 1), (1, 0), (2, 1), (3, 2)]
    assert len({each.tx_sequence_id for each in peer.headers}) == 1


@pytest.mark.spec("MQQB-3.1.1.7.3-01")
def test_two_journaled_messages_get_their_three_kinds_of_acks(net: Net, a: Host, b: Host) -> None:
    journaled = [letter(body, positive_journaling_requested=True) for body in ("1", "2")]
    a.send_all(T, *journaled)
    net.advance(2)
    assert max(ack.body.tx_sequence_number for ack in net.packets(OrderAck, "b", "a")) == 2
    assert max(ack.session.ack_sequence_number for ack in net.packets(SessionAck, "b", "a")) == 2
    assert net.packets(FinalAck) == []
    b.receive("t")
    b.receive("t")
    acks = len(net.packets(SessionAck, "a", "b"))
    net.advance(2)
    final = net.packets(FinalAck, "b", "a")
    assert [(ack.message_class, ack.body.tx_sequence_number) for ack in final] == [(0x4000, 1), (0x4000, 2)]
    assert a.bodies(";journal") == ["1", "2"]
    assert len(net.packets(SessionAck, "a", "b")) > acks
    # A session acknowledges what it got, and the FinalAcks are recoverable.
    assert net.packets(SessionAck, "a", "b")[-1].session.recoverable_msg_ack_flags == 0b11


def test_the_configured_resend_time_outs_hold_after_a_restart(net: Net, peer: Peer) -> None:
    c = net.add("c", TransferSettings(resend_timeouts=ResendTimeouts(short=3, medium=4, long=5, final=6)))
    for start in (c.restart, c.crash_and_start):
        start()
        c.send_all(P, "m")
        times = []
        for _ in range(30):
            peer.acknowledge()
            sent = len(peer.bodies)
            net.advance(1)
            times += [net.now.monotonic] * (len(peer.bodies) > sent)
        assert [round(later - earlier) for earlier, later in pairwise(times)][:5] == [3, 3, 4, 4, 4]
        peer.acknowledge()
        peer.order_ack(1)
        assert c.bodies(P) == []


@pytest.mark.spec("MQDMPR-3.1.1.4-01", "MQDMPR-3.1.1.4-02", "MQDMPR-3.1.1.4-03", "MQDMPR-3.1.1.4-04", "MQQB-3.1.5.6-08")
def test_an_outgoing_queue_tells_how_far_its_sequence_has_come(net: Net, a: Host, peer: Peer) -> None:
    a.send_all(P, letter("1", positive_journaling_requested=True), "2", "3")
    sequence = TxSequenceId(1, int(net.now.wall))

    def place(number: int, of: TxSequenceId = sequence) -> SequenceInfo:
        return SequenceInfo.of(of, number, number - 1)

    told, sent = eod(a, P), int(net.now.wall)
    assert (told.first_non_ack, told.last_non_ack, told.no_ack_count) == (place(1), place(3), 3)
    assert (told.last_ack, told.last_ack_time, told.last_ack_count) == (None, 0, 0)
    assert (told.next_seq, told.no_read_count) == (place(4), 0)
    assert (told.resend_count, told.resend_interval, told.resend_time) == (1, 30, sent + 30)
    peer.acknowledge()
    net.advance(5)
    peer.order_ack(2)
    told = eod(a, P)
    assert (told.first_non_ack, told.last_non_ack, told.no_ack_count) == (place(3), place(3), 1)
    assert (told.last_ack, told.last_ack_time, told.last_ack_count) == (place(2), sent + 5, 1)
    assert (told.next_seq, told.no_read_count) == (place(4), 1)
    assert told.resend_time == sent + 35
    net.advance(2)
    peer.order_ack(2)
    told = eod(a, P)
    assert (told.last_ack, told.last_ack_time, told.last_ack_count) == (place(2), sent + 7, 2)
    # The timer runs from the acknowledgment that moved the sequence, and three times 30 seconds come first.
    net.advance(29)
    assert peer.bodies == ["1", "2", "3", "3"]
    told = eod(a, P)
    assert (told.resend_count, told.resend_interval, told.resend_time) == (2, 30, sent + 65)
    peer.acknowledge()
    peer.order_ack(3)
    told = eod(a, P)
    assert (told.first_non_ack, told.last_non_ack, told.no_ack_count) == (None, None, 0)
    assert (told.last_ack, told.last_ack_count, told.resend_time) == (place(3), 1, 0)
    assert told.next_seq == place(1, TxSequenceId(2, sequence.time_stamp))


def test_what_arrived_stays_unread_until_its_final_ack(net: Net, a: Host, b: Host) -> None:
    a.send_all(T, letter("1", positive_journaling_requested=True), "2")
    net.advance(2)
    assert eod(a, T).no_read_count == 1
    b.receive("t")
    net.advance(2)
    assert eod(a, T).no_read_count == 0
