"""MS-MQQB 3.1.5.8.7 and 3.1.7.1.3: what a SessionHeader carries."""

import pytest

from tests.wire.vectors import frame
from waypost.errors import ProtocolError
from waypost.transfer.session_acks import SessionCounts, with_session_header
from waypost.wire import SessionAck, Splitter, UserMessage, decode_packet
from waypost.wire.session_header import SessionHeader


def counts() -> SessionCounts:
    state = SessionCounts(
        message_sent_count=11,
        message_received_count=22,
        recoverable_message_sent_count=5,
        recoverable_message_received_count=5,
        unacked_received_msg_count=4,
    )
    state.stored(3)
    state.stored(5)
    return state


@pytest.mark.spec("MQQB-3.1.5.8.7-03", "MQMQ-2.2.20.4-04", "MQMQ-2.2.20.4-05")
def test_the_lowest_number_on_disk_and_a_bit_for_each() -> None:
    state = SessionCounts(recoverable_message_received_count=9)
    for number in (3, 5):
        state.stored(number)
    header = state.take_header(64)
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (3, 0b101)
    assert state.last_acked_recoverable_msg_seq_number == 5
    state.stored(9)
    header = state.take_header(64)
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (9, 0b1)


@pytest.mark.spec("MQMQ-2.2.20.4-05")
def test_32_numbers_fit_a_header() -> None:
    state = SessionCounts(recoverable_message_received_count=38)
    for number in range(7, 39):
        state.stored(number)
    header = state.take_header(64)
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (7, 0xFFFFFFFF)


@pytest.mark.spec("MQQB-4.1.8-01")
def test_the_receiver_of_one_express_message_sends_frame_8() -> None:
    ack = SessionAck(session=SessionCounts(message_received_count=1).take_header(64))
    ack.base.reserved = 0xCD
    assert ack.encode() == frame(8)


@pytest.mark.spec("MQQB-3.1.5.8.7-03")
def test_a_session_ack_states_the_counts_of_the_session() -> None:
    ack = SessionAck(session=counts().take_header(32))
    assert ack.session == SessionHeader(22, 3, 0b101, 11, 5, 32)
    assert (ack.base.is_internal, ack.base.has_session_header, ack.internal.packet_type) == (True, True, 1)
    assert decode_packet(ack.encode()) == SessionAck(session=SessionHeader(22, 3, 0b101, 11, 5, 32))


def test_a_header_stands_behind_the_message_that_carries_it() -> None:
    header = counts().take_header(32)
    (packet,) = Splitter().feed(with_session_header(UserMessage().encode(), header))
    decoded = decode_packet(packet)
    assert isinstance(decoded, UserMessage)
    assert decoded.session == header


@pytest.mark.spec("MQQB-3.1.1.6.1-03", "MQMQ-2.2.20.4-04")
def test_recoverable_acknowledgments_are_told_once() -> None:
    state = counts()
    owed = [state.is_ack_owed]
    state.take_header(64)
    owed.append(state.is_ack_owed)
    assert owed == [True, False]
    header = state.take_header(64)
    assert (header.recoverable_msg_ack_seq_number, header.recoverable_msg_ack_flags) == (0, 0)


def test_a_message_is_stored_later_than_it_is_counted() -> None:
    state = SessionCounts(recoverable_message_received_count=2)
    stored = [state.is_all_stored]
    for number in (1, 2):
        state.stored(number)
        stored.append(state.is_all_stored)
    state.take_header(64)
    stored.append(state.is_all_stored)
    assert stored == [False, False, True, True]


def test_what_the_other_side_counts_is_cut_to_16_bits_on_the_wire() -> None:
    state = SessionCounts(message_received_count=0x10001, recoverable_message_received_count=0x10000)
    state.stored(0x10000)
    header = state.take_header(64)
    assert (header.ack_sequence_number, header.recoverable_msg_ack_seq_number) == (1, 0)
    state.check_received(SessionHeader(user_msg_sequence_number=1, recoverable_msg_seq_number=0))


@pytest.mark.parametrize(
    "header", [SessionHeader(12), SessionHeader(0, 6, 1), SessionHeader(0, 5, 0b10), SessionHeader(0, 1, 0xFFFFFFFF)]
)
def test_what_was_not_sent_cannot_be_acknowledged(header: SessionHeader) -> None:
    with pytest.raises(ProtocolError, match="acknowledges"):
        counts().check_acknowledged(header)


@pytest.mark.parametrize("header", [SessionHeader(11), SessionHeader(0, 5, 1), SessionHeader(3, 1, 0b11111)])
def test_what_was_sent_can_be_acknowledged(header: SessionHeader) -> None:
    counts().check_acknowledged(header)
