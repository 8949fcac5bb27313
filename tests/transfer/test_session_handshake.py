"""MS-MQQB 3.1.5.2.3, 3.1.5.3 and 3.1.5.4: how a session comes to be open, or does not."""

import pytest

from tests.transfer.session_rig import (
    CLIENT,
    EXPRESS,
    FINAL_ACK,
    ORDER_ACK,
    SERVER,
    STRANGER,
    Rig,
    Side,
    ack,
    new_acceptor,
    open_acceptor,
    open_initiator,
    packets,
)
from tests.wire.vectors import frame, vector
from waypost.guid import NULL_GUID
from waypost.transfer.links import LinkState
from waypost.transfer.session import Role, SessionState, SessionTimer
from waypost.transfer.settings import TransferSettings
from waypost.wire import decode_packet
from waypost.wire.internal_packets import CS, SE, ConnectionParameters, EstablishConnection

REQUEST = EstablishConnection.request(CLIENT, SERVER, 0, 0)
PARAMETERS = ConnectionParameters(recoverable_ack_timeout=1496, ack_timeout=30_000, window_size=7)


def waiting_initiator(expected_guid: bytes = SERVER) -> tuple[Rig, Side, EstablishConnection]:
    rig = Rig(expected_guid=expected_guid)
    rig.initiator.session.connected(rig.now)
    (request,) = packets(rig.initiator.written())
    assert isinstance(request, EstablishConnection)
    return rig, rig.initiator, request


@pytest.mark.spec("MQQB-3.1.1.7.1-01", "MQQB-2.1.1-04")
@pytest.mark.parametrize("expected_guid", [SERVER, NULL_GUID])
def test_four_packets_make_a_session_and_then_both_sides_may_send(expected_guid: bytes) -> None:
    rig = Rig(expected_guid=expected_guid)
    assert not rig.initiator.session.can_send
    rig.initiator.session.connected(rig.now)
    rig.carry()
    assert [(role, type(packet)) for role, packet in rig.wire] == [
        (Role.INITIATOR, EstablishConnection),
        (Role.ACCEPTOR, EstablishConnection),
        (Role.INITIATOR, ConnectionParameters),
        (Role.ACCEPTOR, ConnectionParameters),
    ]
    for side in (rig.initiator, rig.acceptor):
        assert side.state is SessionState.OPEN
        assert side.session.just_opened
        assert side.statistics.sessions_open == 1
        side.send(EXPRESS)
    rig.carry()
    assert [item.data for side in (rig.initiator, rig.acceptor) for item in side.messages] == [EXPRESS, EXPRESS]


@pytest.mark.spec("MQQB-3.1.1.1.1.1-01")
def test_the_states_of_an_initiator() -> None:
    rig = Rig()
    side = rig.initiator
    states = [side.state]
    side.session.connected(rig.now)
    (request,) = packets(side.written())
    states.append(side.state)
    assert isinstance(request, EstablishConnection)
    side.take(request.accepted(SERVER).encode())
    (parameters,) = packets(side.written())
    assert isinstance(parameters, ConnectionParameters)
    states.append(side.state)
    side.take(parameters.response(64).encode())
    states.append(side.state)
    assert states == [
        SessionState.WAITING_EC_MSG,
        SessionState.WAITING_ECR_MSG,
        SessionState.WAITING_CPR_MSG,
        SessionState.OPEN,
    ]
    _, refused, request = waiting_initiator()
    refused.take(request.refused(SERVER).encode())
    waiting, late, _ = waiting_initiator()
    waiting.wait(60)
    _, broken = open_initiator()
    broken.take(bytes(16))
    idle_rig, idle = open_initiator()
    idle_rig.wait(300)
    silent_rig, silent = open_initiator()
    silent.send(EXPRESS)
    silent_rig.wait(40)
    for end in (refused, late, broken, idle, silent):
        assert end.state is SessionState.CLOSED
        assert end.session.error


@pytest.mark.spec("MQQB-3.1.1.1.1.2-01", "MQQB-3.1.5.3.1-07")
def test_the_states_of_an_acceptor() -> None:
    _, side = new_acceptor()
    states = [side.state]
    side.take(REQUEST.encode())
    assert side.written() == REQUEST.accepted(SERVER).encode()
    states.append(side.state)
    side.take(PARAMETERS.encode())
    assert side.written() == PARAMETERS.response(64).encode()
    states.append(side.state)
    assert states == [SessionState.WAITING_EC_MSG, SessionState.WAITING_CP_MSG, SessionState.OPEN]
    _, refused = new_acceptor(accept_policy=lambda _: "it is full")
    refused.take(REQUEST.encode())
    late_rig, late = new_acceptor()
    late_rig.wait(60)
    _, broken = open_acceptor()
    broken.take(bytes(16))
    idle_rig, idle = open_acceptor()
    idle_rig.wait(300)
    silent_rig, silent = open_acceptor()
    silent.send(EXPRESS)
    silent_rig.wait(40)
    for end in (refused, late, broken, idle, silent):
        assert end.state is SessionState.CLOSED
        # It never reconnects: nothing is left that could start it again.
        assert not any(end.runs(timer) for timer in SessionTimer)


@pytest.mark.spec("MQQB-3.1.1.3.1-10")
def test_the_states_have_the_names_of_the_specification() -> None:
    names = {state.name for state in SessionState}
    assert names == {"OPEN", "CLOSED", "WAITING_CP_MSG", "WAITING_CPR_MSG", "WAITING_EC_MSG", "WAITING_ECR_MSG"}
    # A link that waits has no session.
    assert LinkState.WAITING_RECONNECT.name == "WAITING_RECONNECT"


@pytest.mark.spec("MQQB-3.1.5.3.1-03", "MQQB-3.1.5.3.1-04", "MQQB-3.1.5.3.1-01")
@pytest.mark.parametrize("server_guid", [SERVER, NULL_GUID])
def test_the_own_guid_and_no_guid_are_granted_a_session(server_guid: bytes) -> None:
    _, side = new_acceptor()
    side.take(EstablishConnection.request(CLIENT, server_guid, 99, SE).encode())
    (response,) = packets(side.written())
    assert isinstance(response, EstablishConnection)
    assert not response.internal.is_refused
    assert (response.client_guid, response.server_guid, response.time_stamp) == (CLIENT, SERVER, 99)
    assert side.session.remote_qm_guid == CLIENT


@pytest.mark.spec("MQQB-3.1.5.3.1-05", "MQQB-2.2.1-06")
def test_another_guid_is_refused_in_a_response() -> None:
    _, side = new_acceptor()
    side.take(EstablishConnection.request(CLIENT, STRANGER, 99, 0).encode())
    (response,) = packets(side.written())
    assert isinstance(response, EstablishConnection)
    assert response.internal.flags & CS
    assert side.state is SessionState.CLOSED
    assert side.session.was_refused
    assert ", not for this queue manager" in str(side.error())
    assert side.statistics.handshakes_refused == 1
    _, other = new_acceptor()
    other.take(EstablishConnection.request(CLIENT, NULL_GUID, 99, 0).encode())
    (response,) = packets(other.written())
    assert isinstance(response, EstablishConnection)
    assert not response.internal.flags & CS


@pytest.mark.spec("MQQB-3.1.5.3.1-02")
def test_a_policy_can_refuse_who_did_not_ping() -> None:
    for flags, state in ((SE, SessionState.CLOSED), (0, SessionState.WAITING_CP_MSG)):
        _, side = new_acceptor(accept_policy=lambda request: "it is full" if request.operating_system & SE else None)
        side.take(EstablishConnection.request(CLIENT, NULL_GUID, 0, flags).encode())
        assert side.state is state
        (response,) = packets(side.written())
        assert isinstance(response, EstablishConnection)
        assert response.internal.is_refused == (flags == SE)


@pytest.mark.spec("MQQB-3.1.5.3.2-01", "MQQB-3.1.5.3.2-02")
@pytest.mark.parametrize(
    ("expected", "client", "server", "refused", "granted"),
    [
        (SERVER, CLIENT, SERVER, 0, True),
        (SERVER, STRANGER, SERVER, 0, False),
        (SERVER, CLIENT, STRANGER, 0, False),
        (SERVER, CLIENT, SERVER, CS, False),
        (NULL_GUID, CLIENT, STRANGER, 0, True),
        (NULL_GUID, STRANGER, SERVER, 0, False),
        (NULL_GUID, CLIENT, SERVER, CS, False),
    ],
)
def test_which_responses_grant_a_session(
    *, expected: bytes, client: bytes, server: bytes, refused: int, granted: bool
) -> None:
    _, side, _ = waiting_initiator(expected)
    response = EstablishConnection.request(client, server, 0, 0)
    response.internal.flags |= refused
    side.take(response.encode())
    if granted:
        assert side.state is SessionState.WAITING_CPR_MSG
        assert side.session.remote_qm_guid == server
    else:
        assert side.state is SessionState.CLOSED
        assert side.session.was_refused
        assert side.written() == b""


@pytest.mark.spec("MQQB-3.1.5.3.2-03", "MQQB-3.1.5.3.2-04")
@pytest.mark.parametrize(("round_trip", "timeout"), [(0.001, 500), (0.187, 1496), (20.0, 120_000)])
def test_the_initiator_measures_the_round_trip_and_states_its_time_outs(round_trip: float, timeout: int) -> None:
    rig = Rig(TransferSettings(ack_wait_timeout_ms=119_000, round_trip_delay_ms=1000, window_size=7))
    rig.initiator.session.connected(rig.now)
    (request,) = packets(rig.initiator.written())
    assert isinstance(request, EstablishConnection)
    rig.wait(round_trip)
    rig.initiator.take(request.accepted(SERVER).encode())
    assert packets(rig.initiator.written()) == [
        ConnectionParameters(recoverable_ack_timeout=timeout, ack_timeout=120_000, window_size=7)
    ]
    assert rig.initiator.session.recoverable_ack_send_timeout_ms == timeout


@pytest.mark.spec("MQQB-3.1.5.4.1-01", "MQQB-3.1.5.4.1-03")
def test_the_acceptor_takes_time_outs_and_window_from_the_request() -> None:
    rig, side = open_acceptor(parameters=PARAMETERS)
    session = side.session
    assert (session.received_window_size, session.ack_wait_timeout_ms) == (7, 30_000)
    assert session.recoverable_ack_send_timeout_ms == 1496
    assert not side.runs(SessionTimer.INITIALIZATION)
    assert session.can_send
    side.send(EXPRESS)
    assert side.remaining(SessionTimer.ACK_WAIT) == 30
    rig.wait(60)
    assert session.error == "the other side does not acknowledge messages"


@pytest.mark.spec("MQQB-3.1.5.4.2-01")
def test_the_initiator_takes_the_window_from_the_response() -> None:
    rig, side = open_initiator(window=9)
    assert side.session.received_window_size == 9
    assert not side.runs(SessionTimer.INITIALIZATION)
    rig.wait(100)
    assert side.state is SessionState.OPEN


@pytest.mark.spec("MQQB-2.2.2.1-03")
@pytest.mark.parametrize(
    ("stated", "used"),
    [
        ((0, 0), (500, 20_000)),
        ((500, 20_000), (500, 20_000)),
        ((120_000, 120_000), (120_000, 120_000)),
        ((2**32 - 1, 2**32 - 1), (120_000, 120_000)),
    ],
)
def test_time_outs_outside_their_range_are_moved_into_it(stated: tuple[int, int], used: tuple[int, int]) -> None:
    parameters = ConnectionParameters(recoverable_ack_timeout=stated[0], ack_timeout=stated[1])
    rig, side = new_acceptor()
    side.take(REQUEST.encode() + parameters.encode())
    # The answer repeats what was asked for.
    assert packets(side.written())[1] == parameters
    session = side.session
    assert (session.recoverable_ack_send_timeout_ms, session.ack_wait_timeout_ms) == used
    side.send(EXPRESS)
    # The first expiry forgives, because the handshake was heard.
    rig.wait(2 * used[1] / 1000 - 0.001)
    assert session.error is None
    rig.wait(0.001)
    assert session.error == "the other side does not acknowledge messages"


@pytest.mark.spec("MQQB-3.1.5.3-01", "MQQB-3.1.5.4-01", "MQQB-3.1.5.5-01", "MQQB-3.1.5.6-01")
@pytest.mark.spec("MQQB-3.1.5.7-01", "MQQB-3.1.5.8-01")
def test_a_packet_in_the_wrong_state_closes_the_session() -> None:
    establish, parameters = REQUEST.encode(), PARAMETERS.encode()
    others = (ack(), EXPRESS, ORDER_ACK, FINAL_ACK)
    cases = [
        ([], (parameters, *others)),
        ([establish], (establish, *others)),
        ([establish, parameters], (establish, parameters)),
    ]
    for before, wrong in cases:
        for packet in wrong:
            _, side = new_acceptor()
            for data in before:
                side.take(data)
            side.written()
            received = side.take(packet)
            assert side.state is SessionState.CLOSED
            assert "in the state" in str(side.error())
            assert side.statistics.protocol_errors == 1
            assert received.messages == []
            assert side.written() == b""
    for packet in (parameters, *others):
        _, side, _ = waiting_initiator()
        side.take(packet)
        assert side.state is SessionState.CLOSED
    for packet in (establish, *others):
        _, side, request = waiting_initiator()
        side.take(request.accepted(SERVER).encode())
        side.take(packet)
        assert side.state is SessionState.CLOSED
    for packet in (establish, parameters):
        _, side = open_initiator()
        side.take(packet)
        assert side.state is SessionState.CLOSED


@pytest.mark.spec("MQQB-3.1.3.2-06", "MQQB-3.1.3.2-08")
def test_the_defaults_of_a_session() -> None:
    rig, side = new_acceptor()
    assert (side.session.window_size, side.session.ack_wait_timeout_ms) == (64, 20_000)
    assert rig.settings.order_ack_timeout_ms == 500
    rig, side = new_acceptor(TransferSettings(window_size=8, ack_wait_timeout_ms=25_000, round_trip_delay_ms=500))
    assert (side.session.window_size, side.session.ack_wait_timeout_ms) == (8, 25_500)


def test_the_printed_handshake_opens_a_session() -> None:
    _, side = new_acceptor()
    for first in (frame(3), vector("scanner-establish-connection")):
        _, side = new_acceptor()
        asked = decode_packet(first)
        assert isinstance(asked, EstablishConnection)
        asked.server_guid = SERVER
        side.take(asked.encode())
        assert side.state is SessionState.WAITING_CP_MSG
    side.take(frame(5))
    assert side.state is SessionState.OPEN
    # Frame 6 is frame 5 again, with noise in a reserved byte.
    answer = side.written()[-32:]
    assert answer[2:] == frame(6)[2:]
    assert side.session.recoverable_ack_send_timeout_ms == 1496
    assert side.session.ack_wait_timeout_ms == 120_000
    side.take(frame(7))
    assert [item.data for item in side.messages] == [frame(7)]


def test_a_large_packet_before_the_session_is_open_is_not_waited_for() -> None:
    _, side = new_acceptor()
    side.take(EXPRESS[:8] + (4_000_000).to_bytes(4, "little") + EXPRESS[12:16] + bytes(600))
    assert side.state is SessionState.CLOSED
    assert "large packet" in str(side.error())
