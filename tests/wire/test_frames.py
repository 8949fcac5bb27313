"""MS-MQQB 4.1: the eight frames, field by field, and built from the same values. readings MQQB 6."""

import pytest

from tests.wire.vectors import frame
from waypost.guid import guid_text, parse_guid
from waypost.wire import (
    ConnectionParameters,
    EstablishConnection,
    Ping,
    SessionAck,
    UserMessage,
    decode_packet,
    internal_packets,
    user_header,
)
from waypost.wire.base_header import BaseHeader
from waypost.wire.internal_packets import InternalHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.security_header import SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.transactional_acks import FinalAckBody, OrderAckBody, final_ack, local_order_queue, order_ack
from waypost.wire.user_header import UserHeader

CLIENT = bytes.fromhex("D1587355509195954997B6E611EA26C6")
SERVER = bytes.fromhex("0789CD434C39118F44459078909EA0FC")
OTHER_CLIENT = bytes.fromhex("0523741F5EBE7741BC77C4DD7719E474")
OTHER_SERVER = bytes.fromhex("EB6A3A3C67F5434187D385CF4D68CEB4")
SID = bytes.fromhex("010500000000000515000000AD4A9EBD36D9FA3D63A656DAE8030000")


def internal_base(reserved: int, flags: int, packet_size: int) -> BaseHeader:
    return BaseHeader(reserved=reserved, flags=flags, packet_size=packet_size)


@pytest.mark.spec("MQQB-4.1.1-01")
def test_frame_1_is_a_ping_request() -> None:
    ping = Ping(flags=0x7D01, cookie=4, qm_guid=CLIENT)
    assert decode_packet(frame(1)) == ping
    assert ping.signature == 0x5548
    assert (ping.flags & 1, ping.flags >> 1 & 1) == (1, 0)
    assert ping.encode() == frame(1)
    assert guid_text(ping.qm_guid) == "557358d1-9150-9595-4997-b6e611ea26c6"


@pytest.mark.spec("MQQB-4.1.2-01")
def test_frame_2_is_the_response_to_frame_1() -> None:
    ping = Ping(flags=0xB295, cookie=4, qm_guid=SERVER)
    assert decode_packet(frame(2)) == ping
    assert (ping.flags & 1, ping.flags >> 1 & 1) == (1, 0)
    assert ping.flags & ~3
    assert ping.encode() == frame(2)
    assert ping.answers(Ping.decode(frame(1)))


@pytest.mark.spec("MQQB-4.1.3-01")
def test_frame_3_asks_for_a_session() -> None:
    packet = EstablishConnection(
        internal_base(0xC0, 0x000B, 572),
        InternalHeader(0, internal_packets.ESTABLISH_CONNECTION),
        CLIENT,
        SERVER,
        501140046,
        0x0310,
        0,
        b"\x5a" * 512,
    )
    assert decode_packet(frame(3)) == packet
    assert packet.encode() == frame(3)
    assert packet.operating_system & internal_packets.SE
    assert packet.operating_system & internal_packets.OS
    assert not packet.operating_system & internal_packets.QS


@pytest.mark.spec("MQQB-4.1.4-01")
def test_frame_4_grants_a_session() -> None:
    packet = EstablishConnection(
        internal_base(0x5A, 0x000B, 572),
        InternalHeader(0, internal_packets.ESTABLISH_CONNECTION),
        OTHER_CLIENT,
        OTHER_SERVER,
        501140046,
        0x0310,
        0,
        b"\x5a" * 512,
    )
    assert decode_packet(frame(4)) == packet
    assert packet.encode() == frame(4)
    assert not packet.internal.is_refused


@pytest.mark.spec("MQQB-4.1.5-01")
def test_frame_5_states_the_connection_parameters() -> None:
    packet = ConnectionParameters(
        internal_base(0xC0, 0x000B, 32),
        InternalHeader(0, internal_packets.CONNECTION_PARAMETERS),
        recoverable_ack_timeout=1496,
        ack_timeout=120000,
        reserved=0,
        window_size=64,
    )
    assert decode_packet(frame(5)) == packet
    assert packet.encode() == frame(5)


@pytest.mark.spec("MQQB-4.1.6-01")
def test_frame_6_answers_frame_5_with_a_window_of_64() -> None:
    request = decode_packet(frame(5))
    assert isinstance(request, ConnectionParameters)
    response = request.response(window_size=64)
    response.base.reserved = 0xC0
    assert response.encode() == frame(6)
    assert decode_packet(frame(6)) == response


def frame_7() -> UserMessage:
    return UserMessage(
        base=BaseHeader(flags=3, packet_size=2224, time_to_reach_queue=0x00054600),
        user=UserHeader(
            source_queue_manager=CLIENT,
            sent_time=0x524F494C,
            message_id=2286,
            flags=0x00281C00,
            destination_queue=DirectQueueFormatName("OS:a04bm02\\q"),
        ),
        security=SecurityHeader(flags=1, security_id=SID),
        properties=MessagePropertiesHeader(
            flags=0x0F,
            body_type=8,
            hash_algorithm=0x8004,
            encryption_algorithm=0x6801,
            label="mqsender label",
            message_body=b"a\0" * 1000,
            padding=b"\0\0",
        ),
    )


@pytest.mark.spec("MQQB-4.1.7-01", "MQQB-4.1.7-02")
def test_frame_7_is_an_express_message() -> None:
    packet = decode_packet(frame(7))
    assert isinstance(packet, UserMessage)
    assert packet == frame_7()
    assert packet.user.flags == 0x00281C00
    assert (packet.user.flags & user_header.DQ) >> user_header.DQ_SHIFT == 7
    assert packet.user.delivery == user_header.EXPRESS
    assert packet.security is not None
    assert (packet.security.sender_type, len(packet.security.security_id)) == (1, 28)
    assert len(packet.properties.message_body) == len(packet.properties.allocated_body) == 2000


@pytest.mark.spec("MQQB-4.1.7-01")
def test_frame_7_built_from_values_alone_has_its_flags_and_sizes_computed() -> None:
    message = frame_7()
    message.base.packet_size = 0
    message.user.flags = 0
    message.properties.padding = b""
    assert message.encode() == frame(7)
    assert len(frame(7)) == 0x8B0


@pytest.mark.spec("MQQB-4.1.8-01", "MQQB-2.2.6-01")
def test_frame_8_acknowledges_one_express_message() -> None:
    packet = SessionAck(
        internal_base(0xCD, 0x001B, 36),
        InternalHeader(0, internal_packets.SESSION_ACK),
        SessionHeader(ack_sequence_number=1, window_size=64),
    )
    assert decode_packet(frame(8)) == packet
    assert packet.encode() == frame(8)
    built = SessionAck(session=SessionHeader(ack_sequence_number=1))
    built.base.reserved = 0xCD
    assert built.encode() == frame(8)


@pytest.mark.spec("MQQB-2.2-01")
def test_integers_and_guids_are_little_endian_in_every_packet() -> None:
    guid = parse_guid("00112233-4455-6677-8899-aabbccddeeff")
    on_the_wire = bytes.fromhex("33221100 5544 7766 8899aabbccddeeff")
    establish = EstablishConnection(client_guid=guid, server_guid=guid, time_stamp=0x01020304, operating_system=0x0506)
    assert establish.encode()[20:58] == on_the_wire * 2 + bytes.fromhex("04030201 0605")
    assert establish.encode()[8:12] == bytes.fromhex("3c020000")
    parameters = ConnectionParameters(recoverable_ack_timeout=0x01020304, ack_timeout=0x05060708, window_size=0x090A)
    assert parameters.encode()[20:] == bytes.fromhex("04030201 08070605 0000 0a09")
    ack = SessionAck(session=SessionHeader(0x0102, 0x0304, 0x05060708, 0x090A, 0x0B0C, 0x0D0E, 0x0F10))
    assert ack.encode()[20:] == bytes.fromhex("0201 0403 08070605 0a09 0c0b 0e0d 100f")
    assert Ping(flags=0x0102, cookie=0x03040506, qm_guid=guid).encode() == (
        bytes.fromhex("0201 4855 06050403") + on_the_wire
    )
    user = UserHeader(guid, guid, 0x01020304, 0x05060708, 0x090A0B0C, 0)
    order = order_ack(user, local_order_queue(), OrderAckBody(0x0102030405060708, 0x090A0B0C, 0x0D0E0F10)).encode()
    assert order[16:60] == on_the_wire * 2 + bytes.fromhex("04030201 08070605 0c0b0a09")
    assert bytes.fromhex("08070605 04030201 0c0b0a09 100f0e0d") in order
    final = final_ack(user, local_order_queue(), 0x4000, FinalAckBody(1, 2, 3, guid, 0x01020304)).encode()
    assert on_the_wire + bytes.fromhex("04030201") == final[-20:]
