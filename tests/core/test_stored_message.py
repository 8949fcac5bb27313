"""A message out of the store is decoded when somebody looks, and nobody can tell."""

import contextlib
import copy
import pickle
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.messages import PRIVATE, plain, transactional
from tests.core.strategies import DESTINATION, DIRECT, OTHER, messages
from tests.wire.strategies import user_messages
from tests.wire.vectors import frame, vector
from waypost.core.message import LOCAL_ATTRIBUTES, Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee
from waypost.core.serialization import (
    deserialize_message_from_buffer,
    message_from_packet,
    packet_of,
    serialize_message_to_buffer,
    size_in_bytes,
)
from waypost.core.stored_message import (
    check_packet,
    copied,
    is_transactional,
    mark_in_transaction,
    quiet_message,
    security_flags,
    sequence_of,
    set_sequence,
    stored_message,
    with_previous,
    with_security_flags,
)
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.wire import user_header
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import PublicFormatName
from waypost.wire.identifiers import TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.security_header import SecurityHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_message import UserMessage

PROPERTIES = [name for name, value in vars(Message).items() if isinstance(value, property)]
CARRIED = [field.name for field in fields(Message) if field.name not in (*LOCAL_ATTRIBUTES, "packet")]


def decoded(packet: bytes) -> Message:
    return deserialize_message_from_buffer(packet)


packets = messages().map(serialize_message_to_buffer)


@given(packets)
def test_it_equals_the_message_that_the_packet_decodes_to(packet: bytes) -> None:
    assert stored_message(packet) == decoded(packet)
    assert decoded(packet) == stored_message(packet)
    assert stored_message(packet) == stored_message(packet)
    other = replace(decoded(packet), body=b"another body that no strategy makes, which is longer than 40 bytes")
    assert stored_message(packet) != other
    assert other != stored_message(packet)


@given(packets)
def test_it_looks_like_that_message(packet: bytes) -> None:
    assert repr(stored_message(packet)) == repr(decoded(packet))
    assert asdict(stored_message(packet)) == asdict(decoded(packet))
    assert isinstance(stored_message(packet), Message)


@given(packets)
def test_every_attribute_and_property_is_that_of_the_message(packet: bytes) -> None:
    message = decoded(packet)
    for name in (*PROPERTIES, *CARRIED, *LOCAL_ATTRIBUTES, "packet"):
        assert getattr(stored_message(packet), name) == getattr(message, name), name


def pickled(message: Message) -> Message:
    result = pickle.loads(pickle.dumps(message))
    assert isinstance(result, Message)
    return result


@given(packets)
def test_copies_are_copies_of_the_message(packet: bytes) -> None:
    for make in (replace, copy.copy, copy.deepcopy, pickled, copied):
        message = stored_message(packet)
        message.abort_count = 4
        result = make(message)
        assert result == message == replace(decoded(packet), abort_count=4)
        assert result.packet == packet
        result.label = "changed"
        assert message.label == decoded(packet).label


def test_replacing_an_attribute_keeps_the_others() -> None:
    packet = packet_of(transactional())
    copied = replace(stored_message(packet), label="other", move_count=3, packet=b"")
    assert copied == replace(decoded(packet), label="other", move_count=3)
    assert copied.packet == b""


@pytest.mark.parametrize("name", CARRIED)
def test_an_attribute_that_is_set_first_stays_set_and_the_others_are_those_of_the_packet(name: str) -> None:
    packet = packet_of(transactional())
    value: Any = object()
    message, expected = stored_message(packet), decoded(packet)
    for each in (message, expected):
        setattr(each, name, value)
    assert message == expected
    assert getattr(message, name) is value


def test_a_packet_that_is_taken_away_leaves_the_attributes() -> None:
    packet = packet_of(transactional())
    message = stored_message(packet)
    message.packet = b""
    assert message == decoded(packet)
    assert message.packet == b""
    message.label = "other"
    assert packet_of(message) != packet


def test_the_local_attributes_are_those_of_a_new_message_until_they_are_set() -> None:
    values = (7, True, "host\\dead", 99, AuthenticationLevel.SIG20, DIRECT, OTHER, 1, 2, 3, "sub", None)
    message = stored_message(packet_of(plain()))
    for name, value in zip(LOCAL_ATTRIBUTES, values, strict=True):
        assert getattr(message, name) == getattr(Message(), name)
        setattr(message, name, value)
    assert message.label == plain().label
    assert [getattr(message, name) for name in LOCAL_ATTRIBUTES] == list(values)


def test_a_packet_that_cannot_be_decoded_is_an_error_only_for_who_looks_inside() -> None:
    message = stored_message(b"junk")
    message.lookup_identifier, message.abort_count = 7, 2
    assert (message.lookup_identifier, message.abort_count, message.arrival_time) == (7, 2, 0)
    assert (message.packet, size_in_bytes(message)) == (b"junk", 4)
    assert not hasattr(message, "no_attribute")
    for look in (
        lambda: message.body,
        lambda: message.source_machine_identifier,
        lambda: message.asks_for_attention,
        lambda: message == Message(),
        lambda: repr(message),
        lambda: replace(message),
        lambda: setattr(message, "label", "label"),
        lambda: setattr(message, "packet", b""),
    ):
        for _again in range(2):
            with pytest.raises(DecodeError):
                look()
    assert message.packet == b"junk"


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("positive_journaling_requested", True),
        ("negative_journaling_requested", True),
        ("tracing_requested", True),
        ("final_ack_required", True),
        ("acknowledgements_requested", 1),
    ],
)
def test_a_message_asks_for_attention_by_any_of_five_attributes(attribute: str, value: object) -> None:
    quiet, message = transactional(), transactional()
    assert not quiet.asks_for_attention
    assert not stored_message(packet_of(quiet)).asks_for_attention
    setattr(message, attribute, value)
    if attribute == "acknowledgements_requested":
        message.administration_queue_format_name = DIRECT
    assert message.asks_for_attention
    assert stored_message(packet_of(message)).asks_for_attention


def test_an_acknowledgment_without_a_queue_to_send_it_to_takes_no_attention() -> None:
    """MS-MQQB 3.1.7.15. Frame 7 asks for one so."""
    message = deserialize_message_from_buffer(frame(7))
    assert message.acknowledgements_requested
    assert not message.asks_for_attention
    assert not stored_message(message.packet).asks_for_attention


@given(packets | user_messages().map(UserMessage.encode))
def test_a_stored_message_asks_for_attention_if_the_decoded_one_does(buffer: bytes) -> None:
    try:
        message = decoded(buffer)
    except DecodeError:
        return
    assert stored_message(message.packet).asks_for_attention is message.asks_for_attention


@pytest.mark.parametrize("make", [plain, transactional])
@pytest.mark.parametrize("name", [DIRECT, PRIVATE, PublicFormatName(OTHER)])
def test_that_a_message_asks_for_nothing_is_seen_without_decoding_it(make: Callable[[], Message], name: Any) -> None:
    message = make()
    message.destination_queue_format_name = name
    message.destination_queue_manager_identifier = NULL_GUID if name is DIRECT else DESTINATION
    cut_short = stored_message(packet_of(message)[:-1])
    assert cut_short.asks_for_attention is False
    with pytest.raises(DecodeError):
        assert cut_short.message_class == MessageClass.MQMSG_CLASS_NORMAL


@given(st.binary(max_size=90), st.binary(max_size=20))
def test_any_bytes_ask_for_attention_or_not_or_are_an_error(start: bytes, flags: bytes) -> None:
    for packet in (start, bytes(60) + flags):
        try:
            assert stored_message(packet).asks_for_attention is False
        except DecodeError:
            assert stored_message(packet).packet == packet


marks = st.tuples(st.booleans(), st.booleans())
sent_in_transactions = messages().filter(lambda message: message.is_transactional) | st.builds(transactional)


@given(sent_in_transactions, marks, st.sampled_from((stored_message, quiet_message)))
def test_marks_are_set_in_a_packet_as_in_the_attributes(
    message: Message, marked_as: tuple[bool, bool], form: Callable[[bytes], Message]
) -> None:
    is_first, is_last = marked_as
    packet = serialize_message_to_buffer(message)
    marked = form(packet)
    mark_in_transaction(marked, is_first=is_first, is_last=is_last)
    expected = decoded(packet)
    expected.first_in_transaction, expected.last_in_transaction, expected.packet = is_first, is_last, b""
    assert packet_of(marked) == packet_of(expected)
    assert marked == expected


def test_a_mark_needs_no_decoding() -> None:
    message = stored_message(packet_of(transactional()))
    mark_in_transaction(message, is_first=True, is_last=False)
    assert type(message) is not Message
    assert (message.first_in_transaction, message.last_in_transaction) == (True, False)


def test_a_mark_that_was_set_is_taken_away_again() -> None:
    message = stored_message(packet_of(transactional()))
    for mark in (True, False):
        mark_in_transaction(message, is_first=mark, is_last=mark)
    assert not decoded(message.packet).first_in_transaction
    assert not decoded(message.packet).last_in_transaction


numbers = st.integers(0, 0xFFFF_FFFF)
transactional_packets = sent_in_transactions.map(packet_of)
places = st.tuples(st.builds(TxSequenceId, numbers, numbers), st.integers(1, 0xFFFF_FFFF), st.integers(0, 0xFFFF_FFFE))


@given(transactional_packets, places, st.sampled_from((stored_message, quiet_message, decoded)))
def test_a_place_in_a_sequence_is_set_in_a_packet_as_in_the_attributes(
    packet: bytes, place: tuple[TxSequenceId, int, int], form: Callable[[bytes], Message]
) -> None:
    message, expected = form(packet), decoded(packet)
    set_sequence(message, *place)
    (
        expected.transactional_message_sequence_identifier,
        expected.transaction_sequence_number,
        expected.transaction_previous_sequence_number,
    ) = place
    expected.packet = b""
    assert sequence_of(packet_of(message)) == place
    assert len(packet_of(message)) == len(packet)
    assert packet_of(message) == packet_of(expected)
    assert message == expected


@given(transactional_packets, numbers)
def test_only_the_previous_number_changes_with_it(packet: bytes, previous: int) -> None:
    changed = with_previous(packet, previous)
    assert sequence_of(changed) == (*sequence_of(packet)[:2], previous)
    assert with_previous(changed, sequence_of(packet)[2]) == packet


@given(user_messages(), st.integers(0, 0xFFFF).map(lambda flags: flags & ~0x000F))
def test_only_the_flags_of_the_security_header_change_with_them(message: UserMessage, flags: int) -> None:
    changed = with_security_flags(message.encode(), flags)
    if changed is None:
        return
    assert message.security is not None
    assert security_flags(message.encode()) == message.security.flags
    message.security.flags = flags
    assert changed == message.encode()


def test_the_flags_of_the_security_header_of_a_signed_message_are_found() -> None:
    message = UserMessage(security=SecurityHeader(signature=b"signature"))
    message.user.destination_queue = DirectQueueFormatName(r"OS:a\private$\q")
    for message.transaction in (None, TransactionHeader()):
        message.user.flags |= user_header.RECOVERABLE << user_header.DM_SHIFT
        changed = with_security_flags(message.encode(), 0x0300)
        assert changed is not None
        assert UserMessage.decode(changed).security == SecurityHeader(0x0300, signature=b"signature")


def test_a_place_in_a_sequence_needs_no_decoding() -> None:
    message = stored_message(packet_of(transactional()))
    set_sequence(message, TxSequenceId(1, 2), 3, 2)
    assert type(message) is not Message


def test_a_message_without_a_packet_gets_its_place_with_it() -> None:
    message = transactional()
    set_sequence(message, TxSequenceId(1, 2), 3, 2)
    assert message.packet == b""
    assert sequence_of(packet_of(message)) == (TxSequenceId(1, 2), 3, 2)


@given(packets)
def test_the_packet_of_a_transactional_message_says_so(packet: bytes) -> None:
    assert is_transactional(packet) is decoded(packet).is_transactional


@given(st.binary(max_size=90))
def test_any_bytes_have_a_place_in_a_sequence_or_are_an_error(start: bytes) -> None:
    with contextlib.suppress(DecodeError):
        sequence_of(with_previous(start, 1))


@pytest.mark.parametrize("guarantee", DeliveryGuarantee)
@pytest.mark.parametrize("seconds", [0, 1, 0x0102_0304, INFINITE])
def test_some_attributes_are_read_without_decoding(guarantee: DeliveryGuarantee, seconds: int) -> None:
    sent = replace(plain(), delivery_guarantee=guarantee, time_to_be_received=seconds, packet=b"")
    sent = replace(sent, sent_time=0x1122_3344, time_to_reach_queue=seconds)
    sent = replace(sent, label="odd", extension=b"12345", body=b"abcdefg", body_type=8)
    if guarantee is DeliveryGuarantee.RECOVERABLE:
        sent.transaction_identifier = 7
    message = quiet_message(packet_of(sent))
    assert message.delivery_guarantee is guarantee
    assert message.time_to_be_received == message.time_to_reach_queue == seconds
    assert message.sent_time == 0x1122_3344
    assert (message.identifier, message.body_type, message.body) == (sent.identifier, 8, b"abcdefg")
    assert type(message) is not Message


def test_a_body_that_takes_a_decoder_is_decoded() -> None:
    compound = stored_message(vector("srmp-user-message"))
    assert compound.body == decoded(compound.packet).body
    assert type(compound) is Message


@given(packets)
def test_a_quiet_message_is_a_stored_message_that_asks_for_nothing(packet: bytes) -> None:
    assert not quiet_message(packet).asks_for_attention
    for name in (*CARRIED, *LOCAL_ATTRIBUTES, "packet"):
        assert getattr(quiet_message(packet), name) == getattr(decoded(packet), name), name


def test_a_copy_of_what_was_not_decoded_is_not_decoded_either() -> None:
    for form in (stored_message, quiet_message):
        message = form(packet_of(plain()))
        assert type(copied(message)) is type(message) is not Message


@given(st.lists(st.tuples(st.integers(0, 159), st.integers(0, 255)), max_size=3), st.integers(0, 3))
def test_a_packet_that_passes_the_check_decodes(changes: list[tuple[int, int]], cut: int) -> None:
    """The check looks at little of a plain packet, and what it lets through never raises later."""
    packet = bytearray(packet_of(replace(plain(), label="a label", body=b"body" * 20, packet=b"")))
    for at, value in changes:
        packet[at % len(packet)] = value
    data = bytes(packet[: len(packet) - cut])
    try:
        check_packet(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            message_from_packet(UserMessage.decode(data))
    else:
        message_from_packet(UserMessage.decode(data))
