"""MS-MQQB 3.1.5.8.7 and 3.1.7.1.3: what a SessionHeader carries."""

import pytest

from tests.wire.vectors import frame
from waypost.transfer.session_acks import SessionCounts
from waypost.wire import SessionAck, Splitter, UserMessage, decode_packet
from waypost.wire.session_header import SessionHeader
from waypost.wire.user_header import UserHeader


def recoverable() -> UserMessage:
    return UserMessage(user=UserHeader(flags=0x20))


def counts() -> SessionCounts:
    return SessionCounts(
        message_sent_count=11,
        message_received_count=22,
        recoverable_message_sent_count=5,
        window_size=32,
        pending={3, 5},
    )


@pytest.mark.spec("MQMQ-2.2.20.4-02", "MQMQ-2.2.20.4-03", "MQMQ-2.2.20.4-07")
def test_both_sides_count_from_1_and_recoverable_messages_apart() -> None:
    sender, receiver = SessionCounts(), SessionCounts()
    numbers = []
    for message in (UserMessage(), recoverable(), UserMessage(), recoverable()):
        sender.piggyback(message)
        assert message.session is not None
        numbers.append((message.session.user_msg_sequence_number, message.session.recoverable_msg_seq_number))
        receiver.count_received(message)
        counted = (receiver.message_received_count, receiver.recoverable_message_received_count)
        assert counted == numbers[-1]
        ack = receiver.session_ack().session
        assert ack.ack_sequence_number == len(numbers)
        assert (ack.user_msg_sequence_number, ack.recoverable_msg_seq_number) == (0, 0)
    assert numbers == [(1, 0), (2, 1), (3, 1), (4, 2)]


@pytest.mark.spec("MQMQ-2.2.20.4-03")
@pytest.mark.parametrize(
    ("sent", "ack_sequence_number", "last"),
    [(3, 0, 0), (3, 2, 2), (3, 3, 3), (0x1_0002, 0xFFFF, 0xFFFF), (0x1_0002, 0, 0x1_0000), (0x1_0002, 2, 0x1_0002)],
)
def test_an_acknowledgment_is_for_all_up_to_and_including_its_number(
    sent: int, ack_sequence_number: int, last: int
) -> None:
    state = SessionCounts(message_sent_count=sent)
    assert state.acknowledged_by(SessionHeader(ack_sequence_number=ack_sequence_number)) == last


def test_a_number_that_was_never_sent_acknowledges_nothing() -> None:
    assert SessionCounts(message_sent_count=3).acknowledged_by(SessionHeader(ack_sequence_number=4)) == 0


@pytest.mark.spec("MQQB-3.1.5.8.7-03", "MQMQ-2.2.20.4-04", "MQMQ-2.2.20.4-05")
@pytest.mark.parametrize("order", [(3, 5), (5, 3)])
def test_the_lowest_number_on_disk_and_a_bit_for_each(order: tuple[int, int]) -> None:
    state = SessionCounts()
    for number in order:
        state.stored(number)
    header = state.session_ack().session
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (3, 0b101)
    state.stored(9)
    header = state.session_ack().session
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (9, 0b1)


@pytest.mark.spec("MQMQ-2.2.20.4-05")
def test_32_numbers_fit_a_header() -> None:
    state = SessionCounts()
    for number in range(7, 39):
        state.stored(number)
    assert state.session_ack().session.recoverable_msg_ack_flags == 0xFFFFFFFF


@pytest.mark.parametrize("order", [(1, 40), (40, 1)])
def test_a_number_too_far_from_the_lowest_waits_for_the_next_header(order: tuple[int, int]) -> None:
    state = SessionCounts()
    for number in order:
        state.stored(number)
    told = [decode_packet(state.session_ack().encode()) for _ in range(3)]
    assert told == [SessionAck(session=SessionHeader(0, number, bits)) for number, bits in ((1, 1), (40, 1), (0, 0))]


@pytest.mark.spec("MQQB-4.1.8-01")
def test_the_receiver_of_one_express_message_sends_frame_8() -> None:
    ack = SessionCounts(message_received_count=1).session_ack()
    ack.base.reserved = 0xCD
    assert ack.encode() == frame(8)


@pytest.mark.spec("MQQB-3.1.5.8.7-03")
def test_a_session_ack_states_the_counts_of_the_session() -> None:
    ack = counts().session_ack()
    assert ack.session == SessionHeader(22, 3, 0b101, 11, 5, 32)
    assert (ack.base.is_internal, ack.base.has_session_header, ack.internal.packet_type) == (True, True, 1)
    assert decode_packet(ack.encode()) == SessionAck(session=SessionHeader(22, 3, 0b101, 11, 5, 32))


@pytest.mark.spec("MQQB-3.1.7.1.3-06")
def test_a_piggybacked_header_counts_the_message_that_carries_it() -> None:
    state = counts()
    message = recoverable()
    state.piggyback(message)
    assert message.session == SessionHeader(22, 3, 0b101, 12, 6, 32)
    (packet,) = Splitter().feed(message.encode())
    decoded = decode_packet(packet)
    assert isinstance(decoded, UserMessage)
    assert decoded.session == message.session
    express = UserMessage()
    state.piggyback(express)
    assert express.session == SessionHeader(22, 0, 0, 13, 6, 32)


@pytest.mark.spec("MQQB-3.1.1.6.1-03", "MQMQ-2.2.20.4-04")
def test_recoverable_acknowledgments_are_told_once() -> None:
    state = counts()
    state.session_ack()
    header = state.session_ack().session
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (0, 0)


def test_counters_are_cut_to_16_bits_on_the_wire() -> None:
    state = SessionCounts(message_sent_count=0xFFFF, message_received_count=0x10001)
    state.piggyback(UserMessage())
    header = state.session_ack().session
    assert (header.user_msg_sequence_number, header.ack_sequence_number) == (0, 1)
