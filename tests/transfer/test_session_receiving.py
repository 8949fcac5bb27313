"""MS-MQQB 3.1.5.1 and 3.1.5.8: what a session receives, and how it acknowledges that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transfer.session_rig import (
    EXPRESS,
    FINAL_ACK,
    ORDER_ACK,
    RECOVERABLE,
    TRANSACTIONAL,
    Rig,
    Side,
    ack,
    header_of,
    new_acceptor,
    open_acceptor,
    open_initiator,
    packets,
)
from tests.wire.vectors import frame
from waypost.clock import Now
from waypost.timers import Timers
from waypost.transfer.handshake import Initiator
from waypost.transfer.pings import Pings
from waypost.transfer.session import Role, SessionState, SessionTimer
from waypost.transfer.settings import TransferSettings
from waypost.wire.internal_packets import ConnectionParameters, SessionAck
from waypost.wire.packets import decode_packet
from waypost.wire.ping import Ping
from waypost.wire.property_values import OperatingSystem
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.session_header import SessionHeader
from waypost.wire.transactional_acks import FinalAck, OrderAck
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

DIRECT = UserMessage(user=UserHeader(destination_queue=DirectQueueFormatName("TCP:192.0.2.1\\private$\\q"))).encode()


@pytest.mark.spec("MQQB-2.1.1-01")
def test_six_kinds_of_packets_travel_and_each_starts_with_a_base_header() -> None:
    rig = Rig().open()
    rig.initiator.send(EXPRESS, ORDER_ACK, FINAL_ACK)
    rig.carry()
    rig.wait(10)
    rig.carry()
    assert [type(packet).__name__ for _, packet in rig.wire] == [
        *["EstablishConnection"] * 2,
        *["ConnectionParameters"] * 2,
        *["UserMessage", "OrderAck", "FinalAck", "SessionAck"],
    ]
    for _, packet in rig.wire:
        data = packet.encode()
        assert (data[0], data[4:8]) == (0x10, b"LIOR")
        assert int.from_bytes(data[8:12], "little") == len(data)
    assert rig.initiator.state is rig.acceptor.state is SessionState.OPEN


@pytest.mark.spec("MQQB-3.1.5.1.1-05")
def test_a_ping_is_for_the_ping_port_and_nothing_else_is() -> None:
    for data in (frame(1), frame(2), Ping().encode()):
        for side in (new_acceptor()[1], open_acceptor()[1], open_initiator()[1]):
            side.take(data)
            assert side.state is SessionState.CLOSED
            assert side.written() == b""
    identity = Initiator(bytes(16), OperatingSystem.MSMQ_OS_NTS)
    pings: Pings[str] = Pings(identity, Timers(), lambda _key, _now: None)
    pings.request("a", Now(0.0, 0.0))
    for number in range(3, 9):
        assert pings.answer(frame(number), would_accept=True) is None
        assert pings.response(frame(number)) is None


@pytest.mark.spec("MQQB-3.1.5.8.2-02")
def test_every_message_counts_and_starts_the_timer() -> None:
    rig, side = open_acceptor()
    counts = side.session.counts
    assert not side.is_active()
    side.take(EXPRESS + RECOVERABLE)
    assert (counts.message_received_count, counts.unacked_received_msg_count) == (2, 2)
    assert side.is_active()
    assert side.remaining(SessionTimer.ACK_SEND) == 10
    rig.wait(4)
    side.take(ORDER_ACK + TRANSACTIONAL)
    assert (counts.message_received_count, counts.unacked_received_msg_count) == (4, 4)
    assert counts.recoverable_message_received_count == 2
    assert side.remaining(SessionTimer.ACK_SEND) == 6
    assert [type(item.packet) for item in side.messages] == [UserMessage, UserMessage, OrderAck, UserMessage]


@pytest.mark.spec("MQQB-3.1.5.8.2-03")
def test_a_message_with_a_direct_name_makes_the_session_direct() -> None:
    _, side = open_acceptor()
    side.take(EXPRESS)
    results = [side.session.is_direct]
    side.take(DIRECT)
    results.append(side.session.is_direct)
    assert results == [False, True]


@pytest.mark.spec("MQQB-3.1.6.4-01", "MQQB-3.1.6.4-02", "MQQB-3.1.1.7.2-02")
def test_one_acknowledgment_for_all_that_came_within_the_delay() -> None:
    rig, side = open_acceptor()
    side.take(EXPRESS + RECOVERABLE)
    side.store(1)
    rig.wait(0.4)
    side.take(EXPRESS + RECOVERABLE)
    side.store(2)
    assert side.written() == b""
    rig.wait(0.1)
    assert header_of(side.written()) == SessionHeader(4, 1, 0b11, 0, 0, 64)
    counts = side.session.counts
    assert (counts.recoverable_msg_ack_flags, counts.unacked_received_msg_count) == (0, 0)
    assert counts.last_acked_recoverable_msg_seq_number == counts.recoverable_message_received_count == 2
    assert side.remaining(SessionTimer.ACK_SEND) == 10
    # There is nothing to say at the next expiry, and then the timer rests.
    rig.wait(10)
    assert side.written() == b""
    assert not side.runs(SessionTimer.ACK_SEND)


@pytest.mark.spec("MQMQ-2.2.20.4-03")
def test_the_example_of_the_readings() -> None:
    rig, side = open_acceptor()
    side.take(EXPRESS + RECOVERABLE + EXPRESS + RECOVERABLE)
    side.store(1, 2)
    rig.wait(0.5)
    assert header_of(side.written()) == SessionHeader(4, 1, 0b11)
    side.take(RECOVERABLE)
    side.store(3)
    rig.wait(0.5)
    assert header_of(side.written()) == SessionHeader(5, 3, 0b1)
    side.take(EXPRESS)
    rig.wait(10)
    assert header_of(side.written()) == SessionHeader(6, 0, 0)


@pytest.mark.spec("MQQB-3.1.2.5-01", "MQQB-3.1.5.8.7-04", "MQQB-2.2.2.1-02")
@pytest.mark.parametrize(("timeout_ms", "delay"), [(500, 0.5), (1496, 1.496), (0, 0.5), (9_000, 9.0)])
def test_the_first_recoverable_message_shortens_the_delay(timeout_ms: int, delay: float) -> None:
    parameters = ConnectionParameters(recoverable_ack_timeout=timeout_ms, ack_timeout=20_000)
    rig, side = open_acceptor(parameters=parameters)
    assert not side.runs(SessionTimer.ACK_SEND)
    side.take(EXPRESS + RECOVERABLE + RECOVERABLE)
    assert side.remaining(SessionTimer.ACK_SEND) == 10
    side.store(1)
    assert side.remaining(SessionTimer.ACK_SEND) == delay
    rig.wait(0.25)
    side.store(2)
    assert side.remaining(SessionTimer.ACK_SEND) == round(delay - 0.25, 6)
    rig.wait(delay - 0.251)
    assert side.written() == b""
    rig.wait(0.001)
    assert header_of(side.written()) == SessionHeader(3, 1, 0b11)
    # It is the first again after the acknowledgment.
    side.take(RECOVERABLE)
    side.store(3)
    assert side.remaining(SessionTimer.ACK_SEND) == delay


def test_a_slow_handshake_does_not_make_acknowledgments_late() -> None:
    parameters = ConnectionParameters(recoverable_ack_timeout=120_000, ack_timeout=20_000)
    _, side = open_acceptor(parameters=parameters)
    side.take(RECOVERABLE)
    side.store(1)
    assert side.remaining(SessionTimer.ACK_SEND) == 10


@pytest.mark.spec("MQQB-3.1.5.8.7-05")
def test_each_stored_message_has_its_bit() -> None:
    _, side = open_acceptor()
    counts = side.session.counts
    for number in range(1, 6):
        side.take(RECOVERABLE)
        side.store(number)
        last = counts.recoverable_message_received_count - counts.last_acked_recoverable_msg_seq_number - 1
        assert counts.recoverable_msg_ack_flags >> last == 1


@pytest.mark.spec("MQQB-3.1.5.8.7-02")
def test_32_stored_messages_are_acknowledged_at_once() -> None:
    settings = TransferSettings(window_size=1000)
    _, side = open_acceptor(settings, parameters=ConnectionParameters(window_size=1000))
    side.take(RECOVERABLE * 31)
    side.store(*range(1, 32))
    assert side.written() == b""
    side.take(RECOVERABLE)
    side.store(32)
    assert header_of(side.written()) == SessionHeader(32, 1, 0xFFFFFFFF, 0, 0, 1000)
    counts = side.session.counts
    assert (counts.unacked_received_msg_count, counts.last_acked_recoverable_msg_seq_number) == (0, 32)
    # So the message that comes next finds none pending.
    side.take(RECOVERABLE)
    side.store(33)
    assert (side.written(), counts.recoverable_msg_ack_flags) == (b"", 1)
    # Many that are stored together take several acknowledgments.
    side.take(RECOVERABLE * 70)
    side.store(*range(34, 104))
    acks = packets(side.written())
    assert [packet.session.recoverable_msg_ack_seq_number for packet in acks if isinstance(packet, SessionAck)] == [
        33,
        65,
    ]
    assert (counts.first_pending, counts.recoverable_msg_ack_flags) == (97, 0x7F)


@pytest.mark.spec("MQQB-3.1.1.6.1-04", "MQQB-3.1.1.3.1-11", "MQQB-2.2.2.1-05")
@pytest.mark.parametrize(("own", "peer", "count"), [(64, 64, 32), (64, 10, 5), (8, 64, 4), (64, 0, 1), (1, 1, 1)])
def test_half_a_window_is_acknowledged_without_waiting(own: int, peer: int, count: int) -> None:
    for message in (EXPRESS, RECOVERABLE):
        settings = TransferSettings(window_size=own)
        _, side = open_acceptor(settings, parameters=ConnectionParameters(window_size=peer))
        for number in range(1, count + 1):
            assert side.written() == b""
            side.take(message)
            if message is RECOVERABLE:
                side.store(number)
        assert header_of(side.written()).ack_sequence_number == count


def test_a_backlog_flows_without_any_timer() -> None:
    rig = Rig().open()
    sent = 0
    while sent < 1000:
        while rig.initiator.session.can_send and sent < 1000:
            rig.initiator.send((EXPRESS, RECOVERABLE, TRANSACTIONAL)[sent % 3])
            sent += 1
        known = len(rig.acceptor.messages)
        rig.acceptor.take(rig.initiator.written())
        rig.acceptor.store(
            *[item.recoverable_number for item in rig.acceptor.messages[known:] if item.recoverable_number]
        )
        rig.carry()
    rig.wait(0.5)
    rig.carry()
    rig.wait(0.5)
    rig.carry()
    assert len(rig.acceptor.messages) == len(rig.initiator.acknowledged) == 1000
    assert rig.initiator.session.in_flight() == []
    assert rig.now.monotonic == 1001


def test_a_message_on_its_way_to_the_disk_is_acknowledged_twice() -> None:
    rig, side = open_acceptor()
    side.take(RECOVERABLE)
    rig.wait(10)
    assert header_of(side.written()) == SessionHeader(1, 0, 0)
    assert side.session.counts.last_acked_recoverable_msg_seq_number == 0
    side.store(1)
    assert side.remaining(SessionTimer.ACK_SEND) == 0.5
    rig.wait(0.5)
    assert header_of(side.written()) == SessionHeader(1, 1, 1)


def test_a_full_window_waits_for_the_disk() -> None:
    _, side = open_acceptor()
    side.take(RECOVERABLE * 40)
    assert side.written() == b""
    side.store(*range(1, 11))
    assert header_of(side.written()) == SessionHeader(40, 1, 0b11_1111_1111)


@pytest.mark.spec("MQQB-3.1.7.13-01")
def test_pausing_asks_for_one_message_at_a_time() -> None:
    _, side = open_acceptor()
    side.take(EXPRESS + RECOVERABLE)
    side.store(1)
    side.send(EXPRESS)
    side.written()
    side.session.pause(Now(0.0, 0.0))
    assert header_of(side.written()) == SessionHeader(2, 1, 1, 1, 0, 1)
    counts = side.session.counts
    assert (counts.recoverable_msg_ack_flags, counts.unacked_received_msg_count) == (0, 0)
    assert counts.last_acked_recoverable_msg_seq_number == 1
    assert not side.runs(SessionTimer.ACK_SEND)
    active = [side.is_active()]
    side.session.resume(Now(0.0, 0.0))
    active.append(side.is_active())
    assert active == [False, True]


def test_a_closed_session_is_not_paused() -> None:
    _, side = new_acceptor()
    side.session.pause(Now(0.0, 0.0))
    assert side.written() == b""


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([value]) + data[at + 1 :]


@pytest.mark.spec("MQQB-3.1.5.1.2-01", "MQQB-3.1.5.1.2-02", "MQQB-1.7-01", "MQQB-2.2.1-04", "MQQB-3.1.5.1.3-01")
@pytest.mark.parametrize(
    "broken",
    [
        *[with_byte(EXPRESS, 0, version) for version in (0x00, 0x0F, 0x11, 0x20)],
        with_byte(EXPRESS, 4, 0x4D),
        with_byte(EXPRESS, 7, 0x00),
        *[with_byte(ack(), 18, kind) for kind in (0x0, *range(4, 16))],
        with_byte(EXPRESS, 8, 15),
        EXPRESS[:8] + b"\xff\xff\xff\xff" + EXPRESS[12:],
        with_byte(ack(), 8, 35),
        with_byte(EXPRESS, 60, 0x60),
        EXPRESS[:8] + bytes([20, 0, 0, 0]) + EXPRESS[12:20],
    ],
)
def test_a_malformed_packet_closes_the_session_and_what_came_before_stays(broken: bytes) -> None:
    _, side = open_acceptor()
    _, other = open_acceptor()
    received = side.take(RECOVERABLE + broken + EXPRESS)
    assert [item.data for item in received.messages] == [RECOVERABLE]
    assert side.state is SessionState.CLOSED
    assert "malformed packet" in str(side.error())
    assert side.statistics.packets_malformed == 1
    assert side.written() == b""
    assert side.take(EXPRESS).messages == []
    other.take(EXPRESS)
    assert other.state is SessionState.OPEN


@given(st.binary(max_size=80), st.integers(0, 2**30))
def test_any_bytes_close_the_session_or_wait_for_more(data: bytes, position: int) -> None:
    for start in (new_acceptor, open_acceptor, open_initiator):
        side: Side = start()[1]
        side.take(data)
    mixed = bytearray(EXPRESS + RECOVERABLE + ack(sent=(2, 1)))
    mixed[position % len(mixed)] ^= 1 << position % 8
    _, side = open_acceptor()
    side.take(bytes(mixed))
    side.store(*[item.recoverable_number for item in side.messages if item.recoverable_number])
    for item in side.messages:
        assert item.packet.encode() == item.data
        assert decode_packet(item.data) == item.packet


@given(st.lists(st.integers(1, 200), max_size=20))
def test_it_does_not_matter_how_the_stream_is_cut(cuts: list[int]) -> None:
    stream = EXPRESS + ORDER_ACK + RECOVERABLE + ack(sent=(3, 1)) + FINAL_ACK
    _, side = open_acceptor()
    at = 0
    for size in [*cuts, len(stream)]:
        side.take(stream[at : at + size])
        at += size
    assert [item.data for item in side.messages] == [EXPRESS, ORDER_ACK, RECOVERABLE, FINAL_ACK]
    assert isinstance(side.messages[3].packet, FinalAck)
    assert side.error() is None


@pytest.mark.spec("MQQB-3.1.1.3.1-13")
@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "00000001.00A0C9123456"])
def test_the_remote_address_is_the_text_that_it_came_as(address: str) -> None:
    rig = Rig()
    side = Side(rig, Role.ACCEPTOR, address=address)
    assert side.session.remote_qm_address == address


def test_not_more_packets_are_looked_at_than_were_allowed() -> None:
    _, side = open_acceptor()
    received = side.session.data_received(EXPRESS * 5, Now(1000.0, 1_700_000_000.0), 2)
    assert (len(received.messages), received.packets, len(side.session.inlet.packets)) == (2, 2, 3)
    received = side.session.data_received(b"", Now(1000.0, 1_700_000_000.0), 2)
    assert (len(received.messages), len(side.session.inlet.packets)) == (2, 1)
    side.take(EXPRESS)
    assert side.session.counts.message_received_count == 6
    assert len(side.session.inlet.packets) == 0


def test_what_came_before_the_stream_broke_is_looked_at_first() -> None:
    _, side = open_acceptor()
    side.session.data_received(EXPRESS * 3, Now(1000.0, 1_700_000_000.0), 1)
    side.take(b"no packet at all, and long enough to be one")
    assert side.session.counts.message_received_count == 3
    assert side.state is SessionState.CLOSED
    assert len(side.session.inlet.packets) == 0


WINDOW = TransferSettings(window_size=4)


def test_a_peer_within_the_window_is_not_held() -> None:
    _, side = open_acceptor(WINDOW)
    side.take(RECOVERABLE * 4)
    assert not side.session.inlet.is_held
    assert len(side.messages) == 4


def test_a_peer_beyond_the_window_is_not_looked_at_until_the_acknowledgment_is_out() -> None:
    rig, side = open_acceptor(WINDOW)
    side.take(RECOVERABLE * 12)
    # The window, and the one that was too many.
    assert len(side.messages) == 5
    assert side.session.inlet.is_held
    assert len(side.session.inlet.packets) == 7
    side.take(RECOVERABLE)
    side.take(b"")
    assert len(side.messages) == 5
    assert not side.session.go_on(rig.now)
    side.store(1, 2, 3, 4, 5)
    assert side.session.inlet.is_held
    assert header_of(side.written()).ack_sequence_number == 5
    assert side.session.go_on(rig.now)
    assert not side.session.go_on(rig.now)
    side.take(b"")
    assert len(side.messages) == 10
    assert side.state is SessionState.OPEN
    assert side.error() is None


def test_a_session_that_is_held_sends_nothing_before_its_acknowledgment() -> None:
    rig, side = open_acceptor(WINDOW)
    side.take(RECOVERABLE * 6)
    assert not side.can_send()
    side.store(1, 2, 3, 4, 5)
    assert not side.can_send()
    side.written()
    side.session.go_on(rig.now)
    assert side.can_send()


def test_the_ack_wait_timer_stands_still_while_the_peer_is_held() -> None:
    rig, side = open_acceptor(WINDOW)
    side.send(EXPRESS)
    rig.wait(15)
    before = side.remaining(SessionTimer.ACK_WAIT)
    side.take(RECOVERABLE * 6)
    assert not side.runs(SessionTimer.ACK_WAIT)
    rig.wait(1000)
    assert side.state is SessionState.OPEN
    # The timer for acknowledgments has sent one meanwhile.
    side.written()
    assert side.session.go_on(rig.now)
    assert side.remaining(SessionTimer.ACK_WAIT) == before
    side.written()
    rig.wait(before)
    rig.wait(2 * side.remaining(SessionTimer.ACK_WAIT))
    assert side.error() == "the other side does not acknowledge messages"


def test_the_ack_wait_timer_stands_still_while_the_connection_is_not_read() -> None:
    rig, side = open_initiator()
    side.session.inlet.set_unread(rig.now, is_unread=True)
    side.send(EXPRESS)
    rig.wait(10_000)
    assert side.state is SessionState.OPEN
    side.session.inlet.set_unread(rig.now, is_unread=False)
    assert side.remaining(SessionTimer.ACK_WAIT) == 20
    rig.wait(60)
    assert side.error() == "the other side does not acknowledge messages"


def test_a_session_that_is_not_read_is_not_idle() -> None:
    rig, side = open_initiator(TransferSettings(idle_timeout_s=30))
    side.session.inlet.set_unread(rig.now, is_unread=True)
    rig.wait(100)
    assert side.state is SessionState.OPEN
    side.session.inlet.set_unread(rig.now, is_unread=False)
    rig.wait(100)
    assert side.error() == "the session was idle"
