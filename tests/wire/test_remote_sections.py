"""MS-MQRR 2.2.7 and 3.1.4.7: a packet for a remote reader in sections."""

import pytest

from waypost.wire.base_header import BaseHeader
from waypost.wire.codec import INFINITE
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.remote_packet import (
    Origin,
    RemotePacket,
    absolute_time_to_reach_queue,
    cut_sections,
    sequence_id,
)
from waypost.wire.remote_trailers import ExtendedAddressHeader, HostAddress
from waypost.wire.section_buffer import SectionBuffer, SectionType, join_sections
from waypost.wire.soap import CompoundMessageHeader, SrmpEnvelopeHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

IPV4 = HostAddress(bytes((192, 0, 2, 7)))


def message(body: bytes = b"") -> UserMessage:
    return UserMessage(
        BaseHeader(time_to_reach_queue=100),
        UserHeader(sent_time=1_700_000_000, destination_queue=DirectQueueFormatName("OS:host\\q")),
        properties=MessagePropertiesHeader(label="hello", extension_data=b"ext", message_body=body),
    )


def srmp_message() -> UserMessage:
    made = message()
    made.srmp_envelope = SrmpEnvelopeHeader(data="<se:Envelope/>")
    made.compound_message = CompoundMessageHeader(msg_body_size=4, msg_body_offset=11, data=b"POST /msmq body")
    return made


def absolute(packet: bytes) -> bytes:
    """The bytes of all sections of `packet` together: the same bytes with TimeToReachQueue 1,700,000,100."""
    return packet[:12] + (1_700_000_100).to_bytes(4, "little") + packet[16:]


def remote(made: UserMessage) -> bytes:
    return RemotePacket.of(made.encode(), Origin(bytes(16), IPV4)).encode()


@pytest.mark.spec("MQRR-2.2.6-01")
@pytest.mark.parametrize("made", [message(), message(b"1234567"), srmp_message()])
def test_a_packet_has_two_sections_only_if_part_of_its_body_was_left_out(made: UserMessage) -> None:
    packet = remote(made)
    size = 16 + 15 if made.compound_message is not None else len(made.properties.message_body)
    for limit in (*range(size + 2), INFINITE):
        sections = cut_sections(packet, limit, limit)
        left_out = max(size - limit, 0)
        assert len(sections) == (2 if left_out else 1)
        assert sum(len(section.data) for section in sections) == len(packet) - left_out
        joined, cut_at = join_sections(sections), len(sections[0].data)
        assert joined == absolute(packet)[:cut_at] + bytes(left_out) + packet[cut_at + left_out :]


@pytest.mark.spec("MQRR-3.1.4.7-26")
@pytest.mark.parametrize(("body", "limit"), [(b"", 0), (b"", 5), (b"12345", 5), (b"12345", 6), (b"12345", INFINITE)])
def test_a_binary_message_within_the_limit_is_one_full_section(body: bytes, limit: int) -> None:
    packet = remote(message(body))
    size = len(packet)
    # The other limit does not matter for this kind of message.
    for other in (0, INFINITE):
        expected = SectionBuffer(SectionType.ST_FULL_PACKET, size, size, absolute(packet))
        assert cut_sections(packet, limit, other) == [expected]


@pytest.mark.spec("MQRR-3.1.4.7-26")
def test_an_srmp_message_is_measured_by_its_compound_message_header() -> None:
    packet = remote(srmp_message())
    for other in (0, INFINITE):
        (section,) = cut_sections(packet, other, 16 + 15)
        assert section == SectionBuffer(SectionType.ST_FULL_PACKET, len(packet), len(packet), absolute(packet))
        assert len(cut_sections(packet, other, 16 + 15 - 1)) == 2


@pytest.mark.spec("MQRR-3.1.4.7-27", "MQRR-3.1.4.7-28")
@pytest.mark.parametrize("limit", [0, 1, 4, 6])
def test_a_longer_binary_body_is_cut_at_the_limit(limit: int) -> None:
    body = b"1234567"
    packet = remote(message(body))
    headers = packet.index(body)
    first = cut_sections(packet, limit, INFINITE)[0]
    assert first.section_buffer_type is SectionType.ST_BINARY_FIRST_SECTION
    assert first.data == absolute(packet)[: headers + limit]
    assert first.section_size == len(first.data) == headers + limit
    assert first.section_size_alloc == headers + len(body)


@pytest.mark.spec("MQRR-3.1.4.7-27", "MQRR-3.1.4.7-28")
@pytest.mark.parametrize("limit", [0, 16, 20])
def test_a_longer_compound_message_is_cut_at_the_limit(limit: int) -> None:
    made = srmp_message()
    assert made.compound_message is not None
    compound = made.compound_message.encode()
    packet = remote(made)
    headers = packet.index(compound)
    first = cut_sections(packet, INFINITE, limit)[0]
    assert first.section_buffer_type is SectionType.ST_SRMP_FIRST_SECTION
    assert first.data == absolute(packet)[: headers + limit]
    assert first.section_size == len(first.data) == headers + limit
    assert first.section_size_alloc == headers + 16 + 15


@pytest.mark.spec("MQRR-3.1.4.7-29")
@pytest.mark.parametrize(
    ("made", "second_type", "trailers_at"),
    [
        (message(b"1234567"), SectionType.ST_BINARY_SECOND_SECTION, b"1234567"),
        (srmp_message(), SectionType.ST_SRMP_SECOND_SECTION, b"POST /msmq body"),
    ],
)
def test_the_trailers_are_the_second_section(made: UserMessage, second_type: SectionType, trailers_at: bytes) -> None:
    packet = remote(made)
    trailers = packet[packet.index(trailers_at) + len(trailers_at) :]
    sections = cut_sections(packet, 0, 0)
    assert len(sections) == 2
    assert sections[1] == SectionBuffer(second_type, len(trailers), len(trailers), trailers)


@pytest.mark.spec("MQRR-3.1.4.7-29")
def test_without_trailers_there_is_no_second_section() -> None:
    made = message()
    made.properties.extension_data = b""
    made.properties.message_body = b"12345678"
    assert [section.section_buffer_type for section in cut_sections(made.encode(), 4, 0)] == [
        SectionType.ST_BINARY_FIRST_SECTION
    ]


@pytest.mark.spec("MQRR-2.2.7-02")
@pytest.mark.parametrize("made", [message(b"12345"), message(b"1234567"), srmp_message()])
def test_the_sections_meet_behind_the_header_that_was_cut(made: UserMessage) -> None:
    """And together they make a packet that can be read, with zeros in the gap."""
    packet = remote(made)
    last = made.compound_message or made.properties
    header_end = packet.index(last.encode()) + len(last.encode())
    padding = len(RemotePacket.decode(packet).message().properties.padding)
    if made.compound_message is not None:
        padding = -len(made.compound_message.data) & 3
    first, second = cut_sections(packet, 2, 18)
    assert first.section_size_alloc == header_end - padding <= header_end
    assert second.data == packet[header_end - padding :]
    joined = join_sections([first, second])
    assert len(joined) == len(packet)
    assert joined[: first.section_size] == absolute(packet)[: first.section_size]
    assert not any(joined[first.section_size : first.section_size_alloc])
    assert RemotePacket.decode(joined).extended_address == ExtendedAddressHeader.of(IPV4)


def test_an_encrypted_body_is_cut_by_the_room_it_takes() -> None:
    made = message(b"12345678")
    made.properties.allocation_remainder = b"abcdefgh"
    packet = remote(made)
    first, _ = cut_sections(packet, 8, 0)
    assert first.section_size_alloc - first.section_size == 8
    assert cut_sections(packet, 16, 0)[0].section_buffer_type is SectionType.ST_FULL_PACKET


@pytest.mark.spec("MQRR-3.1.4.7-30")
@pytest.mark.parametrize(
    ("sent_time", "stored", "expected"),
    [
        (1000, 0, 1000),
        (1000, 60, 1060),
        (1, INFINITE, INFINITE),
        (0, INFINITE, INFINITE),
        (0xFFFF_FFF0, 0x20, INFINITE),
    ],
)
def test_the_first_section_has_sent_time_plus_time_to_reach_queue(sent_time: int, stored: int, expected: int) -> None:
    made = message(b"body")
    made.user.sent_time = sent_time
    made.base.time_to_reach_queue = stored
    assert absolute_time_to_reach_queue(sent_time, stored) == expected
    for limit in (0, INFINITE):
        data = cut_sections(remote(made), limit, 0)[0].data
        assert data[12:16] == expected.to_bytes(4, "little")
        assert data[:12] + data[16:48] == remote(made)[:12] + remote(made)[16:48]


def test_the_sequence_id_is_the_low_7_bytes_of_the_lookup_identifier() -> None:
    assert sequence_id(0x0711_2233_4455_6677) == 0x0011_2233_4455_6677
    assert sequence_id(0xFFFF_FFFF_FFFF_FFFF) == 0x00FF_FFFF_FFFF_FFFF
    assert sequence_id(0x0400_0000_0000_0000) == 0
