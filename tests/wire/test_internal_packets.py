"""MS-MQQB 2.2.1 to 2.2.3 and 2.2.6."""

import pytest

from tests.wire.vectors import frame, vector
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.wire import ConnectionParameters, EstablishConnection, SessionAck, decode_packet
from waypost.wire.internal_packets import OS, QS, SE, InternalHeader, InternalPacket
from waypost.wire.session_header import SessionHeader

CLIENT = bytes(range(16))
SERVER = bytes(range(16, 32))


def patched(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.spec("MQQB-2.2.1-01", "MQQB-2.2.1-03", "MQQB-3.1.5.1.1-01")
def test_the_internal_header_stands_at_16_and_its_low_bits_name_the_packet() -> None:
    kinds: dict[int, InternalPacket] = {1: SessionAck(), 2: EstablishConnection(), 3: ConnectionParameters()}
    for packet_type, packet in kinds.items():
        data = packet.encode()
        assert data[16:20] == bytes([0, 0, packet_type, 0])
        assert type(decode_packet(data)) is type(packet)
    for packet_type in (0, *range(4, 16)):
        with pytest.raises(DecodeError, match=f"PT must be 1, 2 or 3, not {packet_type}"):
            decode_packet(patched(frame(3), 18, bytes([packet_type])))
    with pytest.raises(DecodeError, match="SH is clear in a SessionAck"):
        decode_packet(patched(frame(8), 2, b"\x0b"))
    with pytest.raises(DecodeError, match="InternalHeader"):
        InternalHeader.decode(bytes(19), 16)


@pytest.mark.spec("MQQB-2.2.1-08")
def test_reserved_bits_are_written_as_0_and_ignored() -> None:
    for number in (3, 5, 8):
        noisy = patched(patched(frame(number), 16, b"\xff\xff"), 19, b"\xff")
        noisy = patched(noisy, 18, bytes([noisy[18] | 0xE0]))
        packet = decode_packet(noisy)
        assert packet.encode() == noisy
        quiet = decode_packet(frame(number))
        assert isinstance(packet, EstablishConnection | ConnectionParameters | SessionAck)
        assert isinstance(quiet, EstablishConnection | ConnectionParameters | SessionAck)
        assert packet.internal.packet_type == quiet.internal.packet_type
        assert not packet.internal.is_refused
        if isinstance(packet, EstablishConnection):
            assert packet.accepted(SERVER).encode()[16:20] == bytes([0, 0, 2, 0])
        if isinstance(packet, ConnectionParameters):
            assert packet.response(window_size=1).encode()[16:20] == bytes([0, 0, 3, 0])
    assert InternalHeader().encode() == bytes(4)


@pytest.mark.spec("MQQB-2.2.1-05")
def test_cs_means_refused_and_never_stands_in_a_session_ack() -> None:
    refusal = EstablishConnection.request(CLIENT, SERVER, 1, 0).refused(SERVER)
    assert refusal.encode()[18] == 0x12
    decoded = decode_packet(refusal.encode())
    assert isinstance(decoded, EstablishConnection)
    assert decoded.internal.is_refused
    parameters = decode_packet(patched(frame(5), 18, b"\x13"))
    assert isinstance(parameters, ConnectionParameters)
    assert parameters.internal.is_refused
    assert SessionAck().encode()[18] == 0x01
    with pytest.raises(DecodeError, match="CS is set in a SessionAck"):
        decode_packet(patched(frame(8), 18, b"\x11"))


@pytest.mark.spec("MQQB-2.2.2-01", "MQQB-2.2.2.1-01", "MQQB-2.2.2.1-04", "MQMQ-2.2.19.1-07", "MQMQ-2.2.19.1-12")
def test_connection_parameters_have_32_bytes() -> None:
    packet = ConnectionParameters(recoverable_ack_timeout=0x11111111, ack_timeout=0x22222222, window_size=0x3333)
    data = packet.encode()
    assert data == bytes.fromhex("10 00 0b00 4c494f52 20000000 ffffffff 0000 0300 11111111 22222222 0000 3333")
    assert decode_packet(data) == packet
    noisy = patched(data, 28, b"\xff\xff")
    decoded = decode_packet(noisy)
    assert isinstance(decoded, ConnectionParameters)
    assert decoded.encode() == noisy
    decoded.reserved = 0
    assert decoded == packet
    assert [ConnectionParameters(window_size=size).window for size in (0, 1, 64)] == [1, 1, 64]


@pytest.mark.spec("MQQB-3.1.5.4.1-02", "MQQB-2.2.2.1-04")
def test_the_acceptor_echoes_the_time_outs_and_states_its_own_window() -> None:
    request = ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20000, window_size=64, reserved=7)
    response = request.response(window_size=9)
    assert response == ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20000, window_size=9)
    assert response.base.is_internal
    assert (response.internal.packet_type, response.internal.is_refused) == (3, False)


@pytest.mark.spec("MQQB-2.2.3-01", "MQQB-2.2.3.1-01", "MQMQ-2.2.19.1-07", "MQMQ-2.2.19.1-12")
def test_an_establish_connection_packet_has_572_bytes() -> None:
    packet = EstablishConnection(
        client_guid=CLIENT, server_guid=SERVER, time_stamp=0x44332211, operating_system=0x0710, padding=b"p" * 512
    )
    data = packet.encode()
    assert data[:20] == bytes.fromhex("10 00 0b00 4c494f52 3c020000 ffffffff 0000 0200")
    assert data[20:] == CLIENT + SERVER + bytes.fromhex("11223344 1007 0000") + b"p" * 512
    assert len(data) == 572
    assert decode_packet(data) == packet


@pytest.mark.spec("MQQB-2.2.3.1-06", "MQQB-3.1.5.2.3-01")
def test_a_request_names_both_queue_managers_or_leaves_the_server_null() -> None:
    request = EstablishConnection.request(CLIENT, SERVER, 5, 0)
    data = request.encode()
    assert (data[20:36], data[36:52]) == (CLIENT, SERVER)
    assert EstablishConnection.request(CLIENT, NULL_GUID, 5, 0).encode()[36:52] == bytes(16)
    assert request.base.is_internal
    assert (request.internal.packet_type, request.internal.is_refused) == (2, False)
    for flags in (0, SE, OS, QS, SE | OS | QS, 0xFF):
        assert EstablishConnection.request(CLIENT, SERVER, 5, flags).encode()[56] == 0x10


@pytest.mark.spec("MQQB-2.2.3.1-07", "MQQB-2.2.3.1-08", "MQQB-2.2.3.1-09", "MQQB-2.2.3.1-10")
def test_the_operating_system_bits() -> None:
    assert (SE, OS, QS) == (0x0100, 0x0200, 0x0400)
    for flags in (0, SE, OS, QS):
        request = EstablishConnection.request(CLIENT, SERVER, 0x01020304, flags)
        assert request.encode()[52:60] == b"\x04\x03\x02\x01\x10" + bytes([flags >> 8]) + b"\0\0"
        assert request.accepted(SERVER).operating_system & SE == flags & SE
    noisy = decode_packet(patched(frame(3), 57, b"\xfb\xff\xff"))
    assert isinstance(noisy, EstablishConnection)
    assert noisy.operating_system & (SE | OS | QS) == SE | OS
    assert noisy.encode()[57:60] == b"\xfb\xff\xff"
    assert noisy.accepted(SERVER).operating_system == 0x0310
    assert noisy.accepted(SERVER).reserved == 0


@pytest.mark.spec("MQQB-2.2.3.1-02", "MQQB-2.2.3.1-04", "MQQB-2.2.3.1-05", "MQQB-3.1.5.3.1-06")
@pytest.mark.parametrize("server", [SERVER, NULL_GUID])
@pytest.mark.parametrize("flags", [0, SE | OS])
def test_a_response_echoes_the_request_and_names_the_acceptor(server: bytes, flags: int) -> None:
    request = EstablishConnection.request(CLIENT, server, 0xDEADBEEF, flags)
    request.padding = bytes(512)
    for response in (request.accepted(SERVER), request.refused(SERVER)):
        assert response.base.is_internal
        assert response.internal.packet_type == 2
        assert (response.client_guid, response.server_guid) == (CLIENT, SERVER)
        assert response.time_stamp == 0xDEADBEEF
        assert response.operating_system & SE == flags & SE
        assert response.padding == b"\x5a" * 512
    assert not request.accepted(SERVER).internal.is_refused
    assert not request.internal.is_refused


@pytest.mark.spec("MQQB-2.2.3.1-11")
def test_a_response_is_padded_with_5a_whatever_padded_the_request() -> None:
    zeros = decode_packet(vector("scanner-establish-connection"))
    assert isinstance(zeros, EstablishConnection)
    assert zeros.padding == bytes(512)
    for response in (zeros.accepted(SERVER), zeros.refused(SERVER)):
        assert response.encode()[60:] == b"\x5a" * 512
    assert isinstance(decode_packet(frame(3)[:60] + bytes(range(256)) * 2), EstablishConnection)


@pytest.mark.spec("MQQB-2.2.6-01", "MQMQ-2.2.19.1-07", "MQMQ-2.2.19.1-08", "MQMQ-2.2.19.1-12")
def test_a_session_ack_has_36_bytes_and_counts_its_session_header() -> None:
    packet = SessionAck(session=SessionHeader(1, 2, 3, 4, 5, 6, 7))
    data = packet.encode()
    assert data == bytes.fromhex(
        "10 00 1b00 4c494f52 24000000 ffffffff 0000 0100 0100 0200 03000000 0400 0500 0600 0700"
    )
    assert decode_packet(data) == packet


@pytest.mark.parametrize("number", [3, 5, 8])
def test_another_size_is_refused(number: int) -> None:
    data = frame(number)
    for size in (len(data) - 4, len(data) + 4):
        with pytest.raises(DecodeError, match="PacketSize at offset 8"):
            decode_packet(patched(data, 8, size.to_bytes(4, "little")))
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(DecodeError):
            decode_packet(wrong)


@pytest.mark.spec("MQMQ-2.2.19.1-08")
@pytest.mark.parametrize("number", [3, 5, 8])
def test_dh_is_never_set_in_an_internal_packet(number: int) -> None:
    data = frame(number)
    with pytest.raises(DecodeError, match="DH or TR is set"):
        decode_packet(patched(data, 2, bytes([data[2] | 0x20])))
    with pytest.raises(DecodeError, match="DH or TR is set"):
        decode_packet(patched(data, 3, b"\x01"))
