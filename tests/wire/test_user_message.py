"""MS-MQMQ 2.2.20: the chain of headers."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.strategies import user_messages
from tests.wire.vectors import frame, vector
from waypost.errors import DecodeError, EncodeError
from waypost.wire import ConnectionParameters, EstablishConnection, Ping, decode_packet
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.queue_names import DirectQueueFormatName, PublicQueueFormatName
from waypost.wire.security_header import SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.soap import CompoundMessageHeader, SoapHeader, SrmpEnvelopeHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

RECOVERABLE = 0x20
FLAGS_AT = slice(60, 64)


def message() -> UserMessage:
    return UserMessage(user=UserHeader(destination_queue=DirectQueueFormatName("OS:h\\q")))


def full() -> UserMessage:
    """A message with every header of MS-MQMQ 2.2.20."""
    return UserMessage(
        base=BaseHeader(flags=0x0100),
        user=UserHeader(flags=RECOVERABLE, destination_queue=DirectQueueFormatName("OS:h\\q")),
        transaction=TransactionHeader(tx_sequence_id=0x7777777777777777),
        security=SecurityHeader(signature=b"SIGN"),
        properties=MessagePropertiesHeader(message_body=b"BODY"),
        debug=DebugHeader(queue_identifier=b"D" * 16),
        soap=SoapHeader(header="soap", body="body"),
        multi_queue=MultiQueueFormatHeader(),
        session=SessionHeader(ack_sequence_number=0x5353),
    )


def user_flags(data: bytes) -> int:
    return int.from_bytes(data[FLAGS_AT], "little")


def with_user_flags(data: bytes, flags: int) -> bytes:
    return data[:60] + flags.to_bytes(4, "little") + data[64:]


def with_base_flags(data: bytes, flags: int) -> bytes:
    return data[:2] + flags.to_bytes(2, "little") + data[4:]


@pytest.mark.spec("MQMQ-2.2.20-01", "MQMQ-2.2.19.2-21")
def test_three_headers_are_always_there_and_mp_is_always_set() -> None:
    original = message()
    original.user.flags = 0
    data = original.encode()
    decoded = UserMessage.decode(data)
    assert len(data) == 16 + 48 + 16 + 56
    assert user_flags(data) & 0x00200000
    assert {decoded.transaction, decoded.security, decoded.debug, decoded.soap, decoded.multi_queue} == {None}
    with pytest.raises(DecodeError, match="MP is clear"):
        UserMessage.decode(with_user_flags(data, user_flags(data) & ~0x00200000))
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            UserMessage.decode(data[:length])


@pytest.mark.spec("MQMQ-2.2.20-02", "MQMQ-2.2.19.1-11")
def test_the_headers_stand_in_their_order_and_packet_size_counts_all_but_the_session_header() -> None:
    full_message = full()
    data = full_message.encode()
    multi_queue = full_message.multi_queue
    assert multi_queue is not None
    marks = [
        b"LIOR",
        "OS:h".encode("utf-16-le"),
        b"\x77" * 8,
        b"SIGN",
        b"BODY",
        b"D" * 16,
        "soap".encode("utf-16-le"),
        multi_queue.encode(),
        b"\x53\x53",
    ]
    places = [data.index(mark) for mark in marks]
    assert places == sorted(places)
    assert places[-1] == len(data) - 16
    decoded = UserMessage.decode(data)
    assert decoded.base.packet_size == len(data) - 16
    assert decoded.encode() == data
    for name in ("transaction", "security", "debug", "soap", "multi_queue", "session"):
        assert getattr(decoded, name) is not None


@pytest.mark.spec("MQMQ-2.2.20-03", "MQMQ-2.2.19.1-07")
def test_in_is_clear_in_a_user_message() -> None:
    data = message().encode()
    assert not data[2] & 0x08
    with pytest.raises(DecodeError, match="IN is set"):
        UserMessage.decode(with_base_flags(data, 0x000B))


@pytest.mark.spec("MQMQ-2.2.20-04", "MQMQ-2.2.20-05", "MQMQ-2.2.20-06", "MQMQ-2.2.19.1-08", "MQMQ-2.2.19.2-21")
@pytest.mark.parametrize(
    ("name", "header", "base_bit", "user_bit"),
    [
        ("transaction", TransactionHeader(), 0, 0x00100000),
        ("security", SecurityHeader(signature=b"sign"), 0, 0x00080000),
        ("debug", DebugHeader(), 0x0020, 0),
        ("soap", SoapHeader(header="h", body="b"), 0, 0x10000000),
        ("multi_queue", MultiQueueFormatHeader(), 0, 0x00800000),
        ("session", SessionHeader(), 0x0010, 0),
    ],
)
def test_a_header_is_there_exactly_when_its_bit_is_set(name: str, header: object, base_bit: int, user_bit: int) -> None:
    without = message()
    without.user.flags |= RECOVERABLE
    plain = without.encode()
    setattr(without, name, header)
    data = without.encode()
    assert int.from_bytes(data[2:4], "little") ^ int.from_bytes(plain[2:4], "little") == base_bit
    assert user_flags(data) ^ user_flags(plain) == user_bit
    decoded = UserMessage.decode(data)
    assert getattr(decoded, name) is not None
    assert decoded.encode() == data
    bits_cleared = with_user_flags(with_base_flags(data, 3), user_flags(plain))
    with pytest.raises(DecodeError):
        UserMessage.decode(bits_cleared)
    bits_set = with_user_flags(with_base_flags(plain, 3 | base_bit), user_flags(plain) | user_bit)
    with pytest.raises(DecodeError):
        UserMessage.decode(bits_set)


@pytest.mark.spec("MQMQ-2.2.19.1-09")
def test_tr_implies_dh() -> None:
    data = message().encode()
    with pytest.raises(DecodeError, match="TR is set without DH"):
        UserMessage.decode(with_base_flags(data, 0x0103))
    traced = replace(message(), base=BaseHeader(flags=0x0103), debug=DebugHeader(queue_identifier=b"q" * 16))
    assert UserMessage.decode(traced.encode()).base.is_traced


@pytest.mark.spec("MQMQ-2.2.19.2-11")
def test_th_means_a_transaction_header_and_forbids_express() -> None:
    transactional = replace(message(), transaction=TransactionHeader())
    transactional.user.flags |= RECOVERABLE
    data = transactional.encode()
    decoded = UserMessage.decode(data)
    assert decoded.user.is_transactional
    assert decoded.transaction == TransactionHeader()
    assert not UserMessage.decode(message().encode()).user.is_transactional
    with pytest.raises(DecodeError, match="TH is set in an express message"):
        UserMessage.decode(with_user_flags(data, user_flags(data) & ~RECOVERABLE))
    for delivery in (2, 3):
        with pytest.raises(DecodeError, match=f"DM must be 0 or 1, not {delivery}"):
            UserMessage.decode(with_user_flags(data, user_flags(data) & ~0x60 | delivery << 5))


@pytest.mark.spec("MQMQ-2.2.19.2-24")
def test_reserved_user_flags_are_sent_as_0_and_ignored_when_received() -> None:
    data = message().encode()
    assert not user_flags(data) & 0xED000080
    noisy = with_user_flags(data, user_flags(data) | 0xED000080)
    decoded = UserMessage.decode(noisy)
    quiet = UserMessage.decode(data)
    assert decoded.encode() == noisy
    decoded.user.flags = quiet.user.flags
    assert decoded == quiet


def test_bytes_of_no_header_inside_packet_size_are_refused() -> None:
    data = message().encode()
    for extra in (1, 4, 11, 12):
        grown = data[:8] + (len(data) + extra).to_bytes(4, "little") + data[12:] + bytes(extra)
        with pytest.raises(DecodeError):
            UserMessage.decode(grown)
    with pytest.raises(DecodeError, match="the headers have"):
        UserMessage.decode(data[:8] + (len(data) - 4).to_bytes(4, "little") + data[12:])
    with pytest.raises(DecodeError, match="extra bytes follow"):
        UserMessage.decode(data + b"\0")


def test_an_extension_header_at_the_end_is_kept() -> None:
    extension = bytes.fromhex("0c000000 04000000 00000000") + b"rest"
    data = replace(message(), extension=extension).encode()
    decoded = UserMessage.decode(data)
    assert decoded.extension == extension
    assert decoded.encode() == data
    for at, why in ((0, "HeaderSize"), (4, "RemainingHeadersSize")):
        place = len(data) - len(extension) + at
        with pytest.raises(DecodeError, match=why):
            UserMessage.decode(data[:place] + b"\xff" + data[place + 1 :])


@pytest.mark.spec("MQQB-1.6-01", "MQMQ-2.2.19.1-11")
def test_a_message_above_4_megabytes_is_refused_when_encoding() -> None:
    big = message()
    room = 0x00400000 - len(big.encode())
    big.properties.message_body = bytes(room)
    data = big.encode()
    assert len(data) == 0x00400000
    assert UserMessage.decode(data).properties.message_body == bytes(room)
    big.properties.message_body += b"\0"
    with pytest.raises(EncodeError, match="PacketSize"):
        big.encode()


def test_a_value_that_does_not_fit_its_field_is_refused_when_encoding() -> None:
    big = message()
    big.properties.application_tag = 1 << 32
    with pytest.raises(EncodeError, match="does not fit its field"):
        big.encode()
    for packet in (Ping(cookie=-1), EstablishConnection(time_stamp=1 << 32), ConnectionParameters(window_size=-1)):
        with pytest.raises(EncodeError, match="does not fit its field"):
            packet.encode()


def test_bytes_of_another_length_than_their_field_are_refused_when_encoding() -> None:
    made: list[UserMessage] = [message() for _ in range(5)]
    made[0].user.destination_queue = PublicQueueFormatName(b"abc")
    made[1].user.connector_type = b"abc"
    made[2].debug = DebugHeader(queue_identifier=b"abc")
    made[3].transaction = TransactionHeader(connector_qm_guid=b"abc")
    made[4].srmp_envelope = SrmpEnvelopeHeader()
    for each in made:
        with pytest.raises(EncodeError, match=r"must have 16|must be present if and only if SRMPEnvelopeHeader"):
            each.encode()
    for packet in (Ping(qm_guid=b"abc"), EstablishConnection(client_guid=b"abc"), EstablishConnection(padding=b"")):
        with pytest.raises(EncodeError, match="must have"):
            packet.encode()


def test_the_message_of_the_vulnerability_scanners_is_read_whole() -> None:
    data = vector("srmp-user-message")
    packet = decode_packet(data)
    assert isinstance(packet, UserMessage)
    assert packet.properties.label == "poc"
    assert isinstance(packet.srmp_envelope, SrmpEnvelopeHeader)
    assert packet.srmp_envelope.data.startswith("<se:Envelope")
    assert isinstance(packet.compound_message, CompoundMessageHeader)
    assert packet.compound_message.data.startswith(b"POST /msmq HTTP/1.1")
    assert packet.compound_message.message_body == packet.compound_message.data[0x3E3:0x3EA]
    assert packet.extension == bytes.fromhex("0c000000 00000000 00000000")
    assert packet.encode() == data


def test_the_hostile_message_is_refused_where_its_unknown_header_begins() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_packet(vector("hostile-user-message"))
    assert (caught.value.field, caught.value.offset) == ("HeaderSize", 240)


@pytest.mark.spec("MQMQ-6-01")
def test_padding_of_any_value_changes_nothing_but_itself() -> None:
    data = bytearray(frame(7))
    quiet = decode_packet(bytes(data))
    data[-2:] = b"\xde\xad"
    noisy = decode_packet(bytes(data))
    assert isinstance(quiet, UserMessage)
    assert isinstance(noisy, UserMessage)
    assert noisy.encode() == data
    assert noisy.properties.padding != quiet.properties.padding
    assert noisy == quiet


@settings(max_examples=200)
@given(user_messages())
def test_every_message_survives_the_wire(original: UserMessage) -> None:
    data = original.encode()
    decoded = UserMessage.decode(data)
    assert decoded.encode() == data
    assert decoded.base.packet_size == len(data) - (16 if original.session else 0)
    assert decoded.user.destination_queue == original.user.destination_queue
    assert decoded.properties.message_body == original.properties.message_body
    assert decoded.session == original.session


@settings(max_examples=200)
@given(user_messages(), st.data())
def test_a_damaged_message_gives_a_record_or_an_error(original: UserMessage, data: st.DataObject) -> None:
    packet = bytearray(original.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
    try:
        decoded = decode_packet(bytes(packet))
    except DecodeError as error:
        assert 0 <= error.offset <= len(packet)
    else:
        assert decoded.encode() == packet
