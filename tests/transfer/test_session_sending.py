"""MS-MQQB 3.1.5.5 and 3.1.7.1: what a session sends, and what is acknowledged of it."""

import pytest

from tests.transfer.session_rig import (
    EXPRESS,
    FINAL_ACK,
    ORDER_ACK,
    RECOVERABLE,
    TRANSACTIONAL,
    Rig,
    ack,
    header_of,
    open_acceptor,
    open_initiator,
    packets,
)
from waypost.transfer.session import LAST_NUMBER, Sent, SessionState, SessionTimer
from waypost.transfer.session_acks import with_session_header
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import SessionAck
from waypost.wire.session_header import SessionHeader
from waypost.wire.user_message import UserMessage


def numbers(entries: list[Sent]) -> list[tuple[int, int]]:
    return [(sent.sequence_number, sent.recoverable_sequence_number) for sent in entries]


@pytest.mark.spec("MQQB-3.1.7.1.3-05", "MQQB-3.1.1.3.1.2-01", "MQQB-3.1.1.4-01", "MQQB-3.1.1.4-02")
@pytest.mark.spec("MQQB-3.1.1.4-03", "MQQB-3.1.1.3.1-01", "MQMQ-2.2.20.4-02")
def test_both_sides_count_messages_from_1_and_recoverable_ones_apart() -> None:
    rig = Rig().open()
    sent = rig.initiator.send(EXPRESS, RECOVERABLE, EXPRESS, TRANSACTIONAL)
    assert numbers(sent) == [(1, 0), (2, 1), (3, 0), (4, 2)]
    assert rig.initiator.session.unacked_message_count == 4
    # The other direction has its own numbers.
    assert numbers(rig.acceptor.send(RECOVERABLE)) == [(1, 1)]
    rig.carry()
    # No number was on the wire.
    assert [item.data for item in rig.acceptor.messages] == [EXPRESS, RECOVERABLE, EXPRESS, TRANSACTIONAL]
    assert [item.recoverable_number for item in rig.acceptor.messages] == [0, 1, 0, 2]
    ours, theirs = rig.initiator.session.counts, rig.acceptor.session.counts
    assert (ours.message_sent_count, ours.recoverable_message_sent_count) == (4, 2)
    assert (theirs.message_received_count, theirs.recoverable_message_received_count) == (4, 2)
    assert (theirs.message_sent_count, theirs.recoverable_message_sent_count) == (1, 1)
    assert (ours.message_received_count, ours.recoverable_message_received_count) == (1, 1)


@pytest.mark.spec("MQQB-3.1.3.2-01", "MQQB-3.1.3.2-05", "MQQB-3.1.1.4-01", "MQMQ-2.2.20.4-07")
def test_a_new_session_counts_from_nothing() -> None:
    for _ in range(2):
        rig, side = open_initiator()
        counts = side.session.counts
        assert side.session.unacked_message_count == 0
        assert (counts.message_sent_count, counts.recoverable_message_sent_count) == (0, 0)
        assert (counts.message_received_count, counts.recoverable_message_received_count) == (0, 0)
        assert (counts.recoverable_msg_ack_flags, counts.last_acked_recoverable_msg_seq_number) == (0, 0)
        assert counts.unacked_received_msg_count == 0
        # However long the backlog is, the first 64 of it can go.
        assert numbers(side.send(*[EXPRESS] * 64))[-1] == (64, 0)
        side.take(EXPRESS)
        rig.wait(10)
        assert packets(side.written())[-1] == SessionAck(session=SessionHeader(1, 0, 0, 64, 0, 64))


@pytest.mark.spec("MQQB-3.1.7.1-02")
def test_64_messages_go_out_and_then_the_sender_waits() -> None:
    _, side = open_initiator()
    count = 0
    while side.can_send():
        side.send(EXPRESS)
        count += 1
    assert count == 64
    side.take(ack(1))
    assert side.can_send()
    side.send(EXPRESS)
    assert not side.can_send()


@pytest.mark.spec("MQQB-3.1.1.3.1-11")
@pytest.mark.parametrize(("own", "peer", "limit"), [(64, 10, 10), (10, 64, 10), (64, 0, 1), (1, 1, 1)])
def test_the_smaller_window_caps_what_is_unacknowledged(own: int, peer: int, limit: int) -> None:
    _, side = open_initiator(TransferSettings(window_size=own), window=peer)
    assert side.session.received_window_size == max(peer, 1)
    count = 0
    while side.can_send():
        side.send(EXPRESS)
        count += 1
    assert count == limit
    # Every header states the window again.
    side.take(ack(count, window=2))
    assert side.session.received_window_size == 2
    assert side.can_send()


@pytest.mark.spec("MQQB-3.1.5.5.1-01", "MQQB-3.1.1.6.1-01", "MQMQ-2.2.20.4-03")
def test_an_acknowledgment_is_for_all_up_to_and_including_its_number() -> None:
    _, side = open_initiator()
    sent = side.send(EXPRESS, EXPRESS, EXPRESS)
    side.take(ack(0))
    assert side.acknowledged == []
    side.take(ack(2))
    assert side.acknowledged == sent[:2]
    assert side.session.unacked_message_count == 1
    assert side.session.in_flight() == sent[2:]
    # Told again, and a number of the past: nothing new.
    side.take(ack(2) + ack(1))
    assert side.acknowledged == sent[:2]
    assert side.session.unacked_message_count == 1
    late = side.send(EXPRESS)
    side.take(ack(3))
    assert side.acknowledged == sent
    assert side.session.in_flight() == late


@pytest.mark.spec("MQQB-3.1.1.6.1-02")
def test_a_recoverable_message_is_acknowledged_by_its_own_number_or_bit() -> None:
    _, side = open_initiator()
    sent = side.send(RECOVERABLE, EXPRESS, RECOVERABLE, RECOVERABLE, RECOVERABLE, RECOVERABLE)
    side.take(ack(6))
    assert side.acknowledged == [sent[1]]
    assert side.session.unacked_message_count == 0
    # Numbers up to 2, and bits for 2 and 4.
    side.take(ack(6, 2, 0b101))
    assert side.acknowledged == [sent[1], sent[0], sent[2], sent[4]]
    assert side.session.in_flight() == [sent[3], sent[5]]
    side.take(ack(6, 5, 0b1))
    assert side.acknowledged[4:] == [sent[3], sent[5]]
    assert side.session.in_flight() == []


@pytest.mark.spec("MQQB-3.1.5.5.1-01")
def test_a_transactional_message_is_told_with_its_number_and_not_by_a_bit() -> None:
    _, side = open_initiator()
    sent = side.send(TRANSACTIONAL, TRANSACTIONAL, RECOVERABLE)
    side.take(ack(0, 1, 0b111))
    assert side.acknowledged == [sent[2]]
    side.take(ack(2))
    assert side.acknowledged == [sent[2], sent[0], sent[1]]


@pytest.mark.spec("MQQB-2.2.6-02", "MQQB-3.1.5.8.4-01")
def test_both_forms_of_an_acknowledgment_do_the_same() -> None:
    results = []
    for is_alone in (True, False):
        _, side = open_initiator()
        sent = side.send(EXPRESS, RECOVERABLE, EXPRESS)
        header = SessionHeader(3, 1, 1, 1, 0, 5)
        if is_alone:
            side.take(EXPRESS + SessionAck(session=header).encode())
        else:
            # The counters of the header include the message that carries it.
            side.take(with_session_header(EXPRESS, header))
        assert side.error() is None
        assert [item.data for item in side.messages] == [EXPRESS]
        message = side.messages[0].packet
        assert isinstance(message, UserMessage)
        assert message.encode() == EXPRESS
        results.append([sent.index(entry) for entry in side.acknowledged] + [side.session.received_window_size])
    assert results[0] == results[1] == [0, 2, 1, 5]


@pytest.mark.spec("MQQB-3.1.5.5.5-01", "MQQB-3.1.5.5.5-02")
@pytest.mark.parametrize("counted", [(1, 1), (3, 1), (2, 0), (2, 2)])
def test_counts_that_differ_close_the_session_after_the_acknowledgment(counted: tuple[int, int]) -> None:
    _, side = open_initiator()
    sent = side.send(EXPRESS)
    side.take(EXPRESS + RECOVERABLE)
    side.take(ack(sent=(2, 1)))
    assert side.error() is None
    side.take(ack(1, sent=counted))
    assert side.state is SessionState.CLOSED
    assert "the other side reports" in str(side.error())
    assert side.acknowledged == sent
    assert side.statistics.protocol_errors == 1


@pytest.mark.spec("MQQB-3.1.5.8.4-01", "MQMQ-2.2.20.4-06")
def test_a_piggybacked_header_that_does_not_count_its_message_closes_the_session_behind_it() -> None:
    _, side = open_initiator()
    side.take(with_session_header(EXPRESS, SessionHeader(user_msg_sequence_number=0)) + EXPRESS)
    assert side.state is SessionState.CLOSED
    assert [item.data for item in side.messages] == [EXPRESS]


@pytest.mark.parametrize("data", [ack(2), ack(0, 2, 1), ack(0, 1, 0b10), ack(1, 0, 1 << 31)])
def test_an_acknowledgment_of_what_was_not_sent_closes_the_session(data: bytes) -> None:
    _, side = open_initiator()
    sent = side.send(RECOVERABLE)
    side.take(data)
    assert side.state is SessionState.CLOSED
    assert "acknowledges" in str(side.error())
    assert side.acknowledged == []
    assert side.session.in_flight() == sent


@pytest.mark.spec("MQQB-3.1.7.11-01", "MQQB-3.1.7.1.3-06", "MQQB-3.1.7.1.3-07", "MQMQ-2.2.20.4-07")
def test_an_acknowledgment_rides_on_a_message_when_three_quarters_of_its_time_are_over() -> None:
    rig, side = open_acceptor()
    side.take(RECOVERABLE + EXPRESS)
    side.store(1)
    assert side.remaining(SessionTimer.ACK_SEND) == 0.5
    rig.wait(0.375)
    side.send(EXPRESS)
    assert side.written() == EXPRESS
    rig.wait(0.001)
    side.send(RECOVERABLE)
    assert header_of(side.written()) == SessionHeader(2, 1, 1, 2, 1, 64)
    counts = side.session.counts
    assert (counts.recoverable_msg_ack_flags, counts.unacked_received_msg_count) == (0, 0)
    assert counts.last_acked_recoverable_msg_seq_number == counts.recoverable_message_received_count == 1
    assert side.remaining(SessionTimer.ACK_SEND) == 10
    # Nothing is left to acknowledge.
    rig.wait(9)
    side.send(EXPRESS)
    assert side.written() == EXPRESS
    assert side.statistics.session_acks_sent == 1


@pytest.mark.parametrize("data", [ORDER_ACK, FINAL_ACK])
def test_no_acknowledgment_rides_on_a_transactional_acknowledgment(data: bytes) -> None:
    rig, side = open_acceptor()
    side.take(EXPRESS)
    rig.wait(9)
    side.send(data, may_piggyback=False)
    assert side.written() == data


@pytest.mark.spec("MQQB-3.1.7.1.3-08", "MQQB-3.1.2.4-01")
def test_sending_starts_the_wait_for_an_acknowledgment() -> None:
    for is_direct, delay in ((False, 20), (True, 40)):
        rig, side = open_initiator()
        side.session.is_direct = is_direct
        assert not side.runs(SessionTimer.ACK_WAIT)
        assert not side.is_active()
        sent = side.send(EXPRESS)
        assert side.session.in_flight() == sent
        assert side.is_active()
        assert side.remaining(SessionTimer.ACK_WAIT) == delay
        rig.wait(5)
        side.send(EXPRESS)
        assert side.remaining(SessionTimer.ACK_WAIT) == delay - 5


def test_a_session_that_knows_no_guid_is_direct_and_waits_twice_as_long() -> None:
    assert Rig(expected_guid=bytes(16)).initiator.session.is_direct
    assert not Rig().initiator.session.is_direct


def test_a_full_transport_stops_sending() -> None:
    _, side = open_initiator()
    side.session.transport_paused = True
    assert not side.can_send()


def test_a_session_is_recycled_before_its_numbers_wrap() -> None:
    _, side = open_initiator()
    session = side.session
    session.counts.message_sent_count = LAST_NUMBER - 1
    session._unacknowledged.acknowledged = LAST_NUMBER - 1
    assert [session.can_send, session.wants_recycling] == [True, False]
    side.send(EXPRESS)
    assert [session.can_send, session.wants_recycling] == [False, True]
    side.take(ack(LAST_NUMBER))
    assert [session.can_send, session.wants_recycling] == [False, True]
    assert session.in_flight() == []


def test_what_is_sent_is_counted() -> None:
    _, side = open_initiator()
    before = side.statistics.bytes_sent
    side.send(EXPRESS, RECOVERABLE)
    assert len(side.written()) == side.statistics.bytes_sent - before == len(EXPRESS) + len(RECOVERABLE)
    assert side.statistics.messages_sent == 2
    side.take(ack(1))
    assert side.statistics.session_acks_received == 1
