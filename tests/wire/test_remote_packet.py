"""MS-MQRR 2.2.5 to 2.2.5.2: the packet for a remote reader."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.guid import NULL_GUID
from waypost.wire import base_header, user_header
from waypost.wire.base_header import BaseHeader
from waypost.wire.codec import INFINITE
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.queue_names import DirectQueueFormatName, PublicQueueFormatName
from waypost.wire.remote_packet import (
    Origin,
    RemotePacket,
    cut_sections,
    sender_address,
)
from waypost.wire.remote_trailers import (
    DI,
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    HostAddress,
    HostAddressType,
    SenderAddress,
    SubqueueHeader,
)
from waypost.wire.security_header import SENDER_SID, SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

SRMP_VECTOR = (Path(__file__).parents[1] / "vectors" / "srmp-user-message.bin").read_bytes()

SOURCE = bytes(range(16))
RELAY = bytes(range(0x40, 0x50))
IPV4 = HostAddress(bytes((192, 0, 2, 7)))
IPV6 = HostAddress(bytes.fromhex("fe80000000000000 0123456789abcdef"), 5)
DIRECT = DirectQueueFormatName("OS:host\\q")
PUBLIC = PublicQueueFormatName(bytes(range(0x20, 0x30)))


def message(body: bytes = b"", *, destination: DirectQueueFormatName | PublicQueueFormatName = DIRECT) -> UserMessage:
    return UserMessage(
        BaseHeader(time_to_reach_queue=100),
        UserHeader(source_queue_manager=SOURCE, sent_time=1_700_000_000, destination_queue=destination),
        properties=MessagePropertiesHeader(label="hello", extension_data=b"ext", message_body=body),
    )


def srmp_message(data: bytes = b"POST /msmq body") -> UserMessage:
    made = message()
    made.srmp_envelope = SrmpEnvelopeHeader(data="<se:Envelope/>")
    made.compound_message = CompoundMessageHeader(msg_body_size=4, msg_body_offset=11, data=data)
    return made


def user_flags(packet: bytes) -> int:
    return int.from_bytes(packet[60:64], "little")


@pytest.mark.spec("MQRR-2.2.5-01")
def test_the_trailers_follow_the_user_message_in_their_order() -> None:
    stored = message(b"body").encode()
    packet = RemotePacket.of(stored, Origin(RELAY, IPV4))
    packet.dead_letter = DeadLetterHeader("host\\dead")
    data = packet.encode()
    at = len(stored)
    assert data[:at] == packet.user_message
    sizes = []
    for kind in (ExtensionHeader, SubqueueHeader, DeadLetterHeader, ExtendedAddressHeader):
        start = at
        _, at = kind.decode(data, at)
        sizes.append(at - start)
    assert sizes == [12, 148, 4 + 20, 28]
    assert at == len(data)
    packet.dead_letter = None
    assert len(packet.encode()) == len(stored) + 12 + 148 + 28
    assert RemotePacket.decode(data).dead_letter == DeadLetterHeader("host\\dead")
    assert RemotePacket.decode(packet.encode()).dead_letter is None


@pytest.mark.spec("MQRR-2.2.5.2-06")
def test_a_packet_that_ends_with_the_user_message_is_read() -> None:
    stored = message(b"body").encode()
    packet = RemotePacket.decode(stored)
    assert (packet.extension, packet.subqueue, packet.extended_address) == (None, None, None)
    assert packet.encode() == stored


@pytest.mark.spec("MQRR-2.2.5.1-01")
def test_the_parts_of_a_user_message_stand_in_their_order() -> None:
    made = srmp_message()
    made.transaction = TransactionHeader()
    made.security = SecurityHeader(flags=SENDER_SID, security_id=bytes(12))
    made.user.flags |= user_header.RECOVERABLE << user_header.DM_SHIFT
    made.debug = DebugHeader()
    made.soap = SoapHeader(header="h", body="b")
    made.multi_queue = MultiQueueFormatHeader()
    made.session = SessionHeader()
    parts = [
        made.transaction.encode(),
        made.security.encode(),
        made.properties.encode(),
        made.debug.encode(),
        SrmpEnvelopeHeader(data="<se:Envelope/>").encode(),
        CompoundMessageHeader(msg_body_size=4, msg_body_offset=11, data=b"POST /msmq body").encode(),
        made.soap.encode(),
        made.multi_queue.encode(),
        made.session.encode(),
    ]
    data = made.encode()
    assert data[16 + 48 :].startswith(DIRECT.encode())
    assert data[16 + 48 + len(DIRECT.encode()) :] == b"".join(parts)
    assert len(parts[-1]) == 16
    assert RemotePacket.decode(data).user_message == data


@pytest.mark.spec("MQRR-2.2.5.1-02")
def test_the_time_to_reach_queue_of_a_returned_packet_is_a_moment() -> None:
    stored = message().encode()
    assert BaseHeader.decode(stored, 0)[0].time_to_reach_queue == 100
    (section,) = cut_sections(RemotePacket.of(stored, Origin(RELAY)).encode(), INFINITE, INFINITE)
    assert section.data[12:16] == (1_700_000_100).to_bytes(4, "little")
    assert RemotePacket.decode(section.data).message().base.time_to_reach_queue == 1_700_000_100


@pytest.mark.spec("MQRR-2.2.5.1-03")
def test_a_direct_destination_gives_the_address_of_the_sender() -> None:
    packet = RemotePacket.of(message().encode(), Origin(RELAY, IPV4))
    assert packet.user_message[16:32] == SOURCE
    assert packet.user_message[32:48] == bytes.fromhex("0400 0100 00000000 c000020700000000")
    assert sender_address(packet.message().user) == SenderAddress(4, HostAddressType.IP, 0, b"\xc0\0\2\7\0\0\0\0")


@pytest.mark.spec("MQRR-2.2.5.1-04")
def test_another_destination_gives_the_guid_of_the_relaying_host() -> None:
    packet = RemotePacket.of(message(destination=PUBLIC).encode(), Origin(RELAY, IPV4))
    assert packet.user_message[16:32] == SOURCE
    assert packet.user_message[32:48] == RELAY
    assert sender_address(packet.message().user) is None


@pytest.mark.spec("MQRR-2.2.5.1-05")
@pytest.mark.parametrize(
    ("host", "length", "address_type", "scope"),
    [(IPV4, 4, 1, 0), (HostAddress(IPV4.address, 9), 4, 1, 0), (IPV6, 16, 6, 5), (HostAddress(), 0, 0, 0)],
)
def test_the_overlay_has_length_type_and_scope_of_the_address(
    host: HostAddress, length: int, address_type: int, scope: int
) -> None:
    data = SenderAddress.of(host).encode()
    assert len(data) == 16
    assert data[:2] == length.to_bytes(2, "little")
    assert data[2:4] == address_type.to_bytes(2, "little")
    assert data[4:8] == scope.to_bytes(4, "little")
    assert SenderAddress.decode(data, 0) == (SenderAddress.of(host), 16)
    with pytest.raises(DecodeError, match="AddressType at offset 2"):
        SenderAddress.decode(data[:2] + b"\x02\0" + data[4:], 0)


def test_the_overlay_has_an_ipv4_address_whole_and_the_first_half_of_an_ipv6_address() -> None:
    assert SenderAddress.of(IPV4).encode()[8:] == IPV4.address + bytes(4)
    assert SenderAddress.of(IPV6).encode()[8:] == IPV6.address[:8]


@pytest.mark.spec("MQRR-2.2.5.1-07")
def test_ah_is_set_only_if_envelope_and_compound_message_are_both_there() -> None:
    both = srmp_message()
    assert user_flags(both.encode()) & user_header.AH
    plain = message()
    only_envelope, only_compound = srmp_message(), srmp_message()
    only_envelope.compound_message = None
    only_compound.srmp_envelope = None
    plain.user.flags |= user_header.AH
    packet = RemotePacket.of(plain.encode(), Origin(RELAY, IPV4))
    assert not user_flags(packet.user_message) & user_header.AH
    for made in (only_envelope, only_compound):
        with pytest.raises(EncodeError, match="must be present if and only if SRMPEnvelopeHeader is present"):
            made.encode()
    # The tail of the header stands where it always does.
    packet = RemotePacket.of(both.encode(), Origin(RELAY, IPV4))
    assert packet.user_message[48:] == both.encode()[48:]


@pytest.mark.spec("MQRR-2.2.5.1-08")
def test_the_session_header_is_there_exactly_when_sh_is_set() -> None:
    made = message(b"body")
    without = made.encode()
    made.session = SessionHeader(ack_sequence_number=7)
    with_session = made.encode()
    assert not BaseHeader.decode(without, 0)[0].has_session_header
    assert BaseHeader.decode(with_session, 0)[0].has_session_header
    assert len(with_session) == len(without) + 16
    trailers = RemotePacket(b"").encode()
    packet = RemotePacket.decode(with_session + trailers)
    assert (packet.user_message, packet.encode()) == (with_session, with_session + trailers)
    assert packet.message().session == made.session
    with pytest.raises(DecodeError):
        RemotePacket.decode(with_session[:-16] + trailers)
    with pytest.raises(DecodeError):
        RemotePacket.decode(without + made.session.encode() + trailers)


@pytest.mark.spec("MQRR-2.2.5.1-08")
def test_a_reader_gets_no_session_header_and_a_clear_sh() -> None:
    made = message(b"body")
    expected = RemotePacket.of(made.encode(), Origin(RELAY, IPV4))
    made.session = SessionHeader(ack_sequence_number=7)
    packet = RemotePacket.of(made.encode(), Origin(RELAY, IPV4))
    assert packet == expected
    assert not packet.message().base.has_session_header


@pytest.mark.spec("MQRR-2.2.5.1.1-01")
def test_a_binary_message_has_no_ah_and_none_of_the_srmp_headers() -> None:
    packet = RemotePacket.of(message(b"body").encode(), Origin(RELAY, IPV4))
    made = packet.message()
    assert not made.user.flags & user_header.AH
    assert (made.srmp_envelope, made.compound_message) == (None, None)


@pytest.mark.spec("MQRR-2.2.5.1.2-01", "MQRR-2.2.5.1.2.1-01", "MQRR-2.2.5.1.2.2-01")
def test_an_srmp_message_has_ah_and_both_headers() -> None:
    packet = RemotePacket.of(srmp_message().encode(), Origin(RELAY, IPV4))
    made = packet.message()
    assert made.user.flags & user_header.AH
    assert made.srmp_envelope is not None
    assert made.srmp_envelope.data == "<se:Envelope/>"
    assert made.compound_message is not None
    assert made.compound_message.message_body == b"body"
    # With AH cleared the two headers are bytes that belong nowhere.
    data = bytearray(packet.encode())
    data[63] &= ~(user_header.AH >> 24)
    with pytest.raises(DecodeError):
        RemotePacket.decode(bytes(data))


def test_the_vector_is_a_user_message_and_a_bare_extension_header_to_its_last_byte() -> None:
    packet = RemotePacket.decode(SRMP_VECTOR)
    assert len(packet.user_message) == 0x940
    assert packet.extension == ExtensionHeader(0, 0)
    assert (packet.subqueue, packet.dead_letter, packet.extended_address) == (None, None, None)
    assert packet.encode() == SRMP_VECTOR
    made = packet.message()
    assert made.compound_message is not None
    assert made.compound_message.message_body == b"Message"
    assert made.properties.label == "poc"


def test_what_a_stored_packet_has_behind_its_message_is_replaced() -> None:
    packet = RemotePacket.of(SRMP_VECTOR, Origin(RELAY, IPV6))
    assert len(packet.user_message) == 0x940
    assert packet.user_message[8:12] == (0x940).to_bytes(4, "little")
    assert RemotePacket.decode(packet.encode()).subqueue == SubqueueHeader()


@pytest.mark.spec("MQRR-2.2.5.2-01")
def test_the_fields_of_an_extension_header_and_what_a_reader_ignores() -> None:
    stored = message().encode()
    data = RemotePacket.of(stored, Origin(RELAY)).encode()
    at = len(stored)
    assert data[at : at + 12] == bytes.fromhex("0c000000 b0000000 12 000000")
    plain = RemotePacket.decode(data)
    odd = data[: at + 8] + b"\xf6abc" + data[at + 12 :]
    packet = RemotePacket.decode(odd)
    assert packet.extension == ExtensionHeader(176, 0x12 | 0b1110_0100, b"abc")
    assert (packet.subqueue, packet.dead_letter, packet.extended_address) == (
        plain.subqueue,
        None,
        plain.extended_address,
    )
    assert packet.encode() == odd
    with pytest.raises(DecodeError, match=f"HeaderSize at offset {at}"):
        RemotePacket.decode(data[:at] + b"\x0d" + data[at + 1 :])


@pytest.mark.spec("MQRR-2.2.5.2-02")
def test_remaining_headers_size_is_the_sum_of_the_headers_behind() -> None:
    stored = message().encode()
    packet = RemotePacket.of(stored, Origin(RELAY))
    assert ExtensionHeader.decode(packet.encode(), len(stored))[0].remaining_headers_size == 176
    packet.dead_letter = DeadLetterHeader("host\\dead")
    data = packet.encode()
    assert ExtensionHeader.decode(data, len(stored))[0].remaining_headers_size == 176 + 24
    for wrong in (0, 176, 199, 201, 0xFFFF_FFFF):
        with pytest.raises(DecodeError, match="RemainingHeadersSize"):
            RemotePacket.decode(data[: len(stored) + 4] + wrong.to_bytes(4, "little") + data[len(stored) + 8 :])


@pytest.mark.spec("MQRR-2.2.5.2-03", "MQRR-2.2.5.2-04")
def test_dl_follows_the_dead_letter_header_and_sq_and_ea_are_always_set() -> None:
    packet = RemotePacket.of(message().encode(), Origin(RELAY))
    flags_at = len(packet.user_message) + 8
    assert packet.encode()[flags_at] == 0x12
    packet.dead_letter = DeadLetterHeader("host\\dead")
    assert packet.encode()[flags_at] == 0x13
    decoded = RemotePacket.decode(packet.encode())
    decoded.dead_letter = None
    assert decoded.encode()[flags_at] == 0x12
    # A set DL without the header: the next header is taken for it and refused.
    with pytest.raises(DecodeError):
        RemotePacket.decode(decoded.encode()[:flags_at] + b"\x13" + decoded.encode()[flags_at + 1 :])


@pytest.mark.spec("MQRR-2.2.5.2-05")
def test_di_marks_an_invalid_dead_letter_queue_and_counts_only_with_dl() -> None:
    packet = RemotePacket.of(message().encode(), Origin(RELAY))
    packet.dead_letter = DeadLetterHeader("host\\dead")
    valid = RemotePacket.decode(packet.encode()).extension
    packet.extension = ExtensionHeader(flags=DI)
    data = packet.encode()
    invalid = RemotePacket.decode(data).extension
    packet.dead_letter = None
    alone = RemotePacket.decode(packet.encode()).extension
    assert data[len(packet.user_message) + 8] == 0x1B
    assert valid is not None
    assert not valid.is_dead_letter_queue_invalid
    assert invalid is not None
    assert invalid.is_dead_letter_queue_invalid
    assert alone is not None
    assert not alone.is_dead_letter_queue_invalid


u16, u32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFF_FFFF)
names = st.text(st.characters(min_codepoint=1, max_codepoint=0xFFFF), max_size=32)
subqueues = st.builds(
    SubqueueHeader,
    tm=st.integers(0, 1),
    acknowledgement_class=u16,
    reserved=st.integers(0, 0x7FFF),
    abort_counter=u32,
    move_counter=u32,
    last_move_time=u32,
    subqueue_name=names,
    target_subqueue_name=names,
)
addresses = st.builds(
    ExtendedAddressHeader, u16, st.sampled_from(HostAddressType), u32, st.binary(min_size=16, max_size=16)
)
packets = st.builds(
    RemotePacket,
    st.sampled_from([message(b"body").encode(), message(destination=PUBLIC).encode(), srmp_message().encode()]),
    st.builds(ExtensionHeader, flags=st.integers(0, 255), reserved=st.binary(min_size=3, max_size=3)),
    st.none() | subqueues,
    st.none() | st.builds(DeadLetterHeader, names),
    st.none() | addresses,
)


@given(packets)
@settings(max_examples=60, deadline=None)
def test_every_packet_round_trips(packet: RemotePacket) -> None:
    data = packet.encode()
    decoded = RemotePacket.decode(data)
    assert decoded.encode() == data
    assert (decoded.user_message, decoded.extended_address) == (packet.user_message, packet.extended_address)
    for sent, read in ((packet.subqueue, decoded.subqueue), (packet.dead_letter, decoded.dead_letter)):
        assert (sent is None) == (read is None)
        if sent is not None and read is not None:
            assert sent.encode() == read.encode()


@given(packets, st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_bytes_give_the_same_bytes_again_or_a_decode_error(packet: RemotePacket, data: st.DataObject) -> None:
    damaged = bytearray(packet.encode())
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))
    raw = bytes(damaged[: data.draw(st.integers(len(damaged) - 40, len(damaged)))])
    try:
        decoded = RemotePacket.decode(raw)
    except DecodeError:
        return
    assert decoded.encode() == raw
    assert sum(section.section_size_alloc for section in cut_sections(raw, 3, 3)) == len(raw)
    assert RemotePacket.of(raw, Origin(NULL_GUID)).extended_address == ExtendedAddressHeader()


def test_the_flags_that_presence_decides_are_the_only_ones_that_change() -> None:
    stored = message().encode()
    flags = BaseHeader.decode(stored, 0)[0].flags
    kept = RemotePacket.of(stored, Origin(RELAY)).user_message
    assert BaseHeader.decode(kept, 0)[0].flags == flags & ~base_header.SH
    assert kept[:32] + kept[48:] == stored[:32] + stored[48:]


@pytest.mark.spec("MQRR-2.2.5.3-02")
def test_a_reader_ignores_the_subqueue_header_of_a_message_in_no_subqueue() -> None:
    outside = RemotePacket.of(UserMessage().encode(), Origin(bytes(16)))
    outside.subqueue = SubqueueHeader(acknowledgement_class=0xC004, abort_counter=3, target_subqueue_name="t")
    assert RemotePacket.decode(outside.encode()).placement is None
    inside = RemotePacket.of(UserMessage().encode(), Origin(bytes(16)))
    inside.subqueue = SubqueueHeader(abort_counter=3, subqueue_name="retry")
    assert RemotePacket.decode(inside.encode()).placement == inside.subqueue
