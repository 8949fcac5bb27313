"""MS-MQQB 2.2.7, 3.1.5.2.3 and 3.1.5.3.2: what an initiator says."""

import pytest

from waypost.guid import NULL_GUID
from waypost.transfer.handshake import Initiator, PingUse, recoverable_ack_send_timeout
from waypost.wire import decode_packet
from waypost.wire.internal_packets import OS, SE
from waypost.wire.ping import RC, RF
from waypost.wire.property_values import OperatingSystem

OWN = bytes(range(16))
PEER = bytes(range(16, 32))
SERVERS = (OperatingSystem.MSMQ_OS_NTS, OperatingSystem.MSMQ_OS_NTE)


@pytest.mark.spec("MQQB-2.2.7-02", "MQQB-2.2.7-03", "MQQB-2.2.7-07")
@pytest.mark.parametrize("system", list(OperatingSystem))
def test_a_ping_request_tells_a_client_system_and_its_own_guid_and_refuses_nothing(system: OperatingSystem) -> None:
    ping = Initiator(OWN, system).ping_request(0x11223344)
    assert (ping.flags & RC == 0) == (system in SERVERS)
    assert not ping.flags & RF
    assert (ping.qm_guid, ping.cookie) == (OWN, 0x11223344)
    for response in (ping.accepted(PEER), ping.refused(PEER)):
        assert response.flags & RC == ping.flags & RC


@pytest.mark.spec("MQQB-2.2.3.1-07", "MQQB-3.1.5.2.3-02")
@pytest.mark.parametrize(("ping", "bit"), [(PingUse.SENT, 0), (PingUse.NOT_SENT, SE)])
def test_se_says_that_no_ping_was_sent(ping: PingUse, bit: int) -> None:
    request = Initiator(OWN, OperatingSystem.MSMQ_OS_FOREIGN).establish_request(PEER, ping, 1234)
    assert request.operating_system & SE == bit
    assert request.time_stamp == 1234
    assert request.accepted(PEER).operating_system & SE == bit


@pytest.mark.spec("MQQB-2.2.3.1-08", "MQQB-3.1.5.2.3-01")
@pytest.mark.parametrize("system", list(OperatingSystem))
def test_a_request_names_both_sides_and_says_whether_it_comes_from_a_server(system: OperatingSystem) -> None:
    initiator = Initiator(OWN, system)
    for remote in (PEER, NULL_GUID):
        request = initiator.establish_request(remote, PingUse.NOT_SENT, 0)
        assert (request.operating_system & OS != 0) == (system in SERVERS)
        assert (request.client_guid, request.server_guid) == (OWN, remote)
        assert request.base.is_internal
        assert (request.internal.packet_type, request.internal.is_refused) == (2, False)


@pytest.mark.spec("MQQB-2.2.3.1-05")
def test_an_uptime_beyond_32_bits_wraps_and_is_echoed() -> None:
    fifty_days = 50 * 24 * 3600 * 1000
    request = Initiator(OWN, OperatingSystem.MSMQ_OS_FOREIGN).establish_request(PEER, PingUse.SENT, fifty_days)
    assert request.time_stamp == fifty_days - 2**32
    assert decode_packet(request.encode()) == request
    assert request.accepted(PEER).time_stamp == request.time_stamp


@pytest.mark.spec("MQQB-3.1.5.3.2-03")
@pytest.mark.parametrize(
    ("round_trip_ms", "timeout_ms"), [(0, 500), (62, 500), (63, 504), (187, 1496), (14_999, 119_992), (15_001, 120_000)]
)
def test_eight_round_trips_within_the_limits_are_the_time_to_acknowledge(round_trip_ms: int, timeout_ms: int) -> None:
    assert recoverable_ack_send_timeout(5000 + round_trip_ms, 5000) == timeout_ms
    # The clock has 32 bits on the wire.
    assert recoverable_ack_send_timeout(2**32 + round_trip_ms, 0) == timeout_ms
