"""MS-MQRR 3.1.4.7 and 3.1.4.13: the reply of a receive. Offsets from readings MQRR 5."""

import struct

import pytest

from waypost.wire import UserMessage
from waypost.wire.base_header import BaseHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.ndr import NdrReader, NdrSyntax, NdrWriter
from waypost.wire.receive_reply import BodyLimits, ReceiveReply
from waypost.wire.remote_packet import Origin, RemotePacket
from waypost.wire.section_buffer import SectionType, join_sections
from waypost.wire.user_header import UserHeader

LOOKUP_ID = 0x04_11223344556677
WHOLE = BodyLimits(0xFFFFFFFF, 0xFFFFFFFF)


def packet() -> bytes:
    message = UserMessage(
        base=BaseHeader(time_to_reach_queue=100),
        user=UserHeader(sent_time=1_000_000),
        properties=MessagePropertiesHeader(message_body=b"twelve bytes"),
    )
    return RemotePacket.of(message.encode(), Origin(b"q" * 16)).encode()


def encode(reply: ReceiveReply, syntax: NdrSyntax) -> bytes:
    writer = NdrWriter(syntax)
    reply.write(writer)
    return writer.finish()


@pytest.mark.spec("MQRR-3.1.4.13-13")
def test_a_message_comes_with_its_arrival_its_sequence_id_and_its_sections() -> None:
    reply = ReceiveReply.of(packet(), LOOKUP_ID, 1_000_007, WHOLE)
    assert (reply.arrive_time, reply.sequence_id, reply.hresult) == (1_000_007, 0x11223344556677, 0)
    (section,) = reply.sections
    assert section.section_buffer_type is SectionType.ST_FULL_PACKET
    assert UserMessage.decode(RemotePacket.decode(section.data).user_message).base.time_to_reach_queue == 1_000_100
    cut = ReceiveReply.of(packet(), LOOKUP_ID, 1_000_007, BodyLimits(5, 0))
    assert [section.section_buffer_type for section in cut.sections] == [
        SectionType.ST_BINARY_FIRST_SECTION,
        SectionType.ST_BINARY_SECOND_SECTION,
    ]
    joined = UserMessage.decode(RemotePacket.decode(join_sections(cut.sections)).user_message)
    assert joined.base.time_to_reach_queue == 1_000_100
    assert joined.properties.message_body == b"twelv" + bytes(7)


@pytest.mark.spec("MQRR-3.1.4.13-13")
def test_the_reply_in_ndr() -> None:
    reply = ReceiveReply.of(packet(), LOOKUP_ID, 1_000_007, BodyLimits(5, 0))
    first, second = reply.sections
    data = encode(reply, NdrSyntax.NDR20)
    assert struct.unpack_from("<IxxxxQI", data) == (1_000_007, 0x11223344556677, 2)
    assert struct.unpack_from("<I", data, 24) == (2,)
    assert struct.unpack_from("<HxxII", data, 28) == (1, first.section_size_alloc, first.section_size)
    assert struct.unpack_from("<HxxII", data, 44) == (2, second.section_size_alloc, second.section_size)
    assert struct.unpack_from("<I", data, len(data) - 4) == (0,)
    assert len(data) % 4 == 0


@pytest.mark.parametrize("syntax", list(NdrSyntax))
def test_every_reply_survives_the_wire(syntax: NdrSyntax) -> None:
    failed = ReceiveReply(hresult=0xC00E001B)
    for reply in (failed, *(ReceiveReply.of(packet(), LOOKUP_ID, 9, BodyLimits(size, 0)) for size in (0, 5, 12, 13))):
        reader = NdrReader(encode(reply, syntax), syntax)
        assert ReceiveReply.read(reader) == reply
        reader.finish()
    if syntax is NdrSyntax.NDR20:
        assert encode(failed, syntax) == bytes(24) + bytes.fromhex("1b000ec0")
