"""MS-MQQB 3.1.2 and 3.1.6: the timers of a session."""

import pytest

from tests.transfer.session_rig import (
    CLIENT,
    EXPRESS,
    RECOVERABLE,
    SERVER,
    Rig,
    Side,
    ack,
    new_acceptor,
    open_acceptor,
    open_initiator,
)
from waypost.transfer.session import Role, SessionState, SessionTimer
from waypost.transfer.settings import ROUTER_IDLE_TIMEOUT_S, TransferSettings
from waypost.wire.internal_packets import EstablishConnection


@pytest.mark.spec("MQQB-3.1.2.1-01", "MQQB-3.1.6.6-01", "MQQB-3.1.5.10-01", "MQQB-3.1.5.2.3-04")
@pytest.mark.parametrize(("settings", "delay"), [
    (TransferSettings(), 60),
    (TransferSettings(session_init_timeout_s=7, round_trip_delay_ms=1500), 10),
])  # fmt: skip
def test_a_session_that_is_not_set_up_in_time_is_closed(settings: TransferSettings, delay: float) -> None:
    rig, side = new_acceptor(settings)
    assert side.state is SessionState.WAITING_EC_MSG
    assert side.remaining(SessionTimer.INITIALIZATION) == delay
    rig.wait(delay - 0.001)
    side.take(EstablishConnection.request(CLIENT, SERVER, 0, 0).encode())
    assert side.error() is None
    rig.wait(0.001)
    assert side.error() == "the session did not open in time"

    rig = Rig(settings)
    rig.wait(1)
    rig.initiator.session.connected(rig.now)
    assert rig.initiator.remaining(SessionTimer.INITIALIZATION) == delay
    rig.wait(delay)
    assert rig.initiator.error() == "the session did not open in time"
    rig = Rig(settings).open()
    for side in (rig.initiator, rig.acceptor):
        assert not side.runs(SessionTimer.INITIALIZATION)


@pytest.mark.spec("MQQB-3.1.2.2-01", "MQQB-3.1.6.2-01")
@pytest.mark.parametrize(
    ("settings", "period"),
    [(TransferSettings(), 300), (TransferSettings(idle_timeout_s=ROUTER_IDLE_TIMEOUT_S), 120)],
)
def test_a_session_without_messages_for_a_whole_period_is_closed(settings: TransferSettings, period: float) -> None:
    rig, side = open_acceptor(settings)
    rig.wait(period - 1)
    side.take(EXPRESS)
    rig.wait(1)
    assert not side.is_active()
    assert side.remaining(SessionTimer.CLEANUP) == period
    # A packet that is not a message does not count.
    side.take(ack(sent=(1, 0)))
    rig.wait(period - 0.001)
    assert side.error() is None
    rig.wait(0.001)
    assert side.error() == "the session was idle"


@pytest.mark.spec("MQQB-3.1.6.2-01")
def test_sending_keeps_a_session_too() -> None:
    rig, side = open_initiator()
    side.send(EXPRESS)
    side.take(ack(1))
    rig.wait(599)
    assert side.error() is None
    rig.wait(1)
    assert side.error() == "the session was idle"


@pytest.mark.spec("MQQB-3.1.6.3-01")
def test_the_wait_ends_when_nothing_is_unacknowledged() -> None:
    rig, side = open_initiator()
    side.send(EXPRESS)
    side.take(ack(1))
    rig.wait(20)
    assert not side.runs(SessionTimer.ACK_WAIT)
    # ReceivedAck is FALSE now: with the next message the first expiry closes.
    side.send(EXPRESS)
    assert side.remaining(SessionTimer.ACK_WAIT) == 20
    rig.wait(19.999)
    assert side.error() is None
    rig.wait(0.001)
    assert side.error() == "the other side does not acknowledge messages"


@pytest.mark.spec("MQQB-3.1.6.3-02", "MQQB-3.1.6.3-03", "MQQB-3.1.5.1-01")
@pytest.mark.parametrize("sign", [EXPRESS, RECOVERABLE, ack()])
def test_any_packet_prolongs_the_wait_once(sign: bytes) -> None:
    rig, side = open_initiator()
    sent = side.send(EXPRESS)
    rig.wait(20)
    # The handshake was heard, so this expiry forgave.
    assert side.remaining(SessionTimer.ACK_WAIT) == 20
    rig.wait(19)
    side.take(sign)
    rig.wait(20)
    assert side.error() is None
    rig.wait(20)
    assert side.error() == "the other side does not acknowledge messages"
    assert side.session.in_flight() == sent


@pytest.mark.spec("MQQB-3.1.5.5.5-03")
def test_an_acknowledgment_that_leaves_something_restarts_the_wait() -> None:
    rig, side = open_initiator()
    side.send(EXPRESS, RECOVERABLE)
    rig.wait(15)
    side.take(ack(1))
    assert side.remaining(SessionTimer.ACK_WAIT) == 20
    rig.wait(5)
    # The number is acknowledged, but not that it is on disk.
    side.take(ack(2))
    assert side.remaining(SessionTimer.ACK_WAIT) == 20
    rig.wait(5)
    side.take(ack(2, 1, 1))
    assert side.remaining(SessionTimer.ACK_WAIT) == 15


@pytest.mark.spec("MQQB-3.1.5.9-01", "MQQB-3.1.1.7.2-01")
def test_closing_stops_everything_and_sends_nothing() -> None:
    for rig, side in (open_acceptor(), open_initiator()):
        side.take(EXPRESS)
        sent = side.send(RECOVERABLE)
        assert side.runs(SessionTimer.ACK_WAIT)
        assert side.runs(SessionTimer.ACK_SEND)
        side.session.close("the test ends")
        assert side.state is SessionState.CLOSED
        assert side.error() == "the test ends"
        assert not any(side.runs(timer) for timer in SessionTimer)
        assert side.written() == b""
        assert side.session.in_flight() == sent
        side.session.close("another reason")
        assert side.error() == "the test ends"
        assert (side.statistics.sessions, side.statistics.sessions_open) == (0, 0)
        rig.wait(1000)
        side.store(1)
        assert side.take(EXPRESS).messages == []
        assert side.written() == b""


@pytest.mark.spec("MQQB-3.1.1.7.2-01")
def test_an_idle_side_just_closes() -> None:
    rig = Rig().open()
    rig.wait(300)
    for side in (rig.initiator, rig.acceptor):
        assert side.state is SessionState.CLOSED
        assert side.written() == b""


@pytest.mark.spec("MQQB-3.1.5.10-01")
def test_an_accepted_connection_gets_a_fresh_session() -> None:
    rig, first = open_acceptor()
    first.take(EXPRESS)
    side = Side(rig, Role.ACCEPTOR)
    assert side.state is SessionState.WAITING_EC_MSG
    assert side.session.counts.message_received_count == 0
    assert side.remaining(SessionTimer.INITIALIZATION) == 60
    rig.wait(60)
    assert side.error() is not None
    assert first.state is SessionState.OPEN
