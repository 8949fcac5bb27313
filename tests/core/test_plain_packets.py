"""The short way to the packet of a plain message gives what the general way gives, and refuses nothing by itself."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.messages import PRIVATE, SID, plain, transactional
from tests.core.strategies import DESTINATION, DIRECT, OTHER, messages, queue_names
from waypost.core.message import ENHANCED_PROVIDER, Message
from waypost.core.message_values import AuthenticationLevel
from waypost.core.plain_packets import plain_packet, plain_packets, varied_packets
from waypost.core.serialization import construct_user_message_packet, serialize_message_to_buffer
from waypost.errors import EncodeError, LabelTooLong, WaypostError
from waypost.guid import NULL_GUID
from waypost.limits import MAX_LABEL_LENGTH, MAX_PACKET_SIZE
from waypost.wire.format_names import DirectFormatName, FormatName, PrivateFormatName, Protocol, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.originated import check_originated
from waypost.wire.path_names import QueueKind

# Values that take another header, or a field that plain messages do not have.
MORE = {
    "authentication_level": AuthenticationLevel.SIG20,
    "sender_identifier": SID,
    "symmetric_key": b"key",
    "signature": b"signature",
    "sender_certificate": b"x509",
    "authentication_provider_type": 24,
    "authentication_provider_name": ENHANCED_PROVIDER,
    "tracing_requested": True,
    "tracing_queue_identifier": OTHER,
    "soap_header": "<header/>",
    "soap_body": "<body/>",
    "destination_multi_queue_format_name": (DIRECT,),
    "administration_multi_queue_format_name": (DIRECT,),
    "response_multi_queue_format_name": (DIRECT,),
    "multiple_destination_signature": b"signature",
    "connector_type_identifier": OTHER,
    "connector_queue_manager_identifier": OTHER,
}
DEFAULTS = Message()


def without_more(message: Message) -> Message:
    for name in MORE:
        setattr(message, name, getattr(DEFAULTS, name))
    return message


plain_messages = messages().map(without_more)


def general_packet(message: Message) -> bytes:
    packet = construct_user_message_packet(message)
    check_originated(packet)
    return packet.encode()


def outcome(serialize: Callable[[Message], bytes], message: Message) -> object:
    """The packet, or the error with all that it says."""
    try:
        return serialize(message)
    except WaypostError as error:
        return type(error), error.args


@given(plain_messages)
def test_a_plain_message_has_the_packet_that_its_headers_make(message: Message) -> None:
    assert plain_packet(message) == construct_user_message_packet(message).encode()


@given(messages())
def test_any_other_message_is_left_to_the_general_way(message: Message) -> None:
    assert plain_packet(message) in (None, general_packet(message))
    assert serialize_message_to_buffer(message) == general_packet(message)


@pytest.mark.parametrize(("attribute", "value"), MORE.items())
def test_a_message_that_takes_more_is_not_plain(attribute: str, value: object) -> None:
    message = transactional()
    assert plain_packet(message) is not None
    setattr(message, attribute, value)
    assert plain_packet(message) is None
    assert outcome(serialize_message_to_buffer, message) == outcome(general_packet, message)


def odd_name(text: str) -> FormatName:
    """A direct name that `parse` would not make."""
    return DirectFormatName(Protocol.OS, "host", QueueKind.PUBLIC, text)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("have 16 bytes", {"identifier": MessageIdentifier(OTHER[:15], 1)}),
    (
        "have 16 bytes",
        {"destination_queue_format_name": PublicFormatName(OTHER), "destination_queue_manager_identifier": OTHER[:15]},
    ),
    ("must be 0 to 7", {"priority": 8}),
    ("must be 0 to 7", {"priority": -1}),
    ("a reserved bit is set", {"delivery_guarantee": 4}),
    ("DM must be 0 or 1", {"delivery_guarantee": 2}),
    ("must be recoverable, not express", {"delivery_guarantee": DEFAULTS.delivery_guarantee}),
    ("QueueManagerAddress", {"destination_queue_format_name": PublicFormatName(OTHER)}),
    ("QueueManagerAddress", {"destination_queue_format_name": PrivateFormatName(NULL_GUID, 1)}),
    (
        "DestinationQueueManagerIdentifier",
        {"destination_queue_format_name": PRIVATE, "destination_queue_manager_identifier": OTHER},
    ),
    ("AdminQueue", {"acknowledgements_requested": 1}),
    ("AdminQueue", {"administration_queue_format_name": DIRECT}),
    ("a reserved bit is set", {"acknowledgements_requested": 0x11, "administration_queue_format_name": DIRECT}),
    ("does not fit into ID, which has 20 bits", {"transaction_identifier": 1 << 20}),
    ("does not fit into ID, which has 20 bits", {"transaction_identifier": -1}),
    ("TxSequenceNumber", {"transaction_sequence_number": 0}),
    ("TxSequenceNumber", {"transaction_sequence_number": 1 << 32}),
    ("TxSequenceNumber", {"transaction_sequence_number": -1}),
    ("TxSequenceNumber", {"transaction_previous_sequence_number": 0xFFFF_FFFF}),
    ("TxSequenceNumber", {"transaction_previous_sequence_number": -1}),
    ("does not fit", {"transactional_message_sequence_identifier": TxSequenceId(0, 1 << 32)}),
    ("does not fit", {"correlation_identifier": MessageIdentifier(OTHER, 1 << 32)}),
    ("does not fit", {"message_class": 1 << 16}),
    ("at most 249", {"label": "x" * 250}),
    ("a null before the end", {"label": "a\0b"}),
    ("a null before the end", {"destination_queue_format_name": odd_name("a\0b")}),
    ("does not fit into 16 bits", {"destination_queue_format_name": odd_name("q" * 0x8000)}),
    ("PacketSize", {"body": bytes(MAX_PACKET_SIZE)}),
]


@pytest.mark.parametrize(("why", "attributes"), REFUSED)
def test_every_rule_that_attributes_can_break_is_kept(why: str, attributes: dict[str, Any]) -> None:
    message = transactional()
    for name, value in attributes.items():
        setattr(message, name, value)
    assert plain_packet(message) is None
    with pytest.raises((EncodeError, LabelTooLong), match=why):
        serialize_message_to_buffer(message)
    assert outcome(serialize_message_to_buffer, message) == outcome(general_packet, message)


odd_numbers = st.sampled_from((-1, 0, 1, 2, 7, 8, 15, 16, 0xFFFF, 0xFFFFF, 1 << 20, 0xFFFF_FFFF, 1 << 32))
odd_guids = st.sampled_from((NULL_GUID, DESTINATION, OTHER, OTHER[:15], OTHER + b"\0", b""))
odd_identifiers = st.builds(MessageIdentifier, odd_guids, odd_numbers)
odd_names = (
    st.none() | queue_names | st.builds(PrivateFormatName, odd_guids, odd_numbers) | st.text(max_size=3).map(odd_name)
)
ODD_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        (
            *("priority", "delivery_guarantee", "acknowledgements_requested", "message_class", "privacy_level"),
            *("application_tag", "body_type", "hash_algorithm", "encryption_algorithm", "sent_time"),
            *("time_to_reach_queue", "time_to_be_received", "transaction_identifier", "transaction_sequence_number"),
            "transaction_previous_sequence_number",
        ),
        odd_numbers,
    ),
    **dict.fromkeys(("identifier", "correlation_identifier"), odd_identifiers),
    **dict.fromkeys(("destination_queue_manager_identifier", "connector_queue_manager_identifier"), odd_guids),
    **dict.fromkeys(
        ("destination_queue_format_name", "administration_queue_format_name", "response_queue_format_name"), odd_names
    ),
    "transactional_message_sequence_identifier": st.builds(TxSequenceId, odd_numbers, odd_numbers),
    "label": st.text(max_size=3) | st.sampled_from(("x" * 249, "x" * 250, "\U0001f4ec" * 125)),
}


@given(plain_messages, st.data())
def test_whatever_the_attributes_are_the_outcome_is_that_of_the_general_way(
    message: Message, data: st.DataObject
) -> None:
    for name in data.draw(st.lists(st.sampled_from(sorted(ODD_VALUES)), min_size=1, max_size=3)):
        setattr(message, name, data.draw(ODD_VALUES[name]))
    assert outcome(serialize_message_to_buffer, message) == outcome(general_packet, message)


@given(st.sampled_from(("host", "HOST", "hOSt")))
def test_the_letters_of_a_name_are_those_that_were_given(host: str) -> None:
    """Names that differ only in case are equal, and still two names in two packets."""
    message = plain()
    message.destination_queue_format_name = FormatName.parse(f"DIRECT=OS:{host}\\q")
    assert f"OS:{host}\\q".encode("utf-16-le") in serialize_message_to_buffer(message)


@given(
    plain_messages | messages(), st.lists(st.binary(max_size=9), min_size=1, max_size=6), st.integers(1, 0xFFFF_0000)
)
def test_many_packets_are_those_that_are_made_one_by_one(message: Message, bodies: list[bytes], first: int) -> None:
    alike = [
        replace(message, identifier=MessageIdentifier(message.source_machine_identifier, number), body=body)
        for number, body in enumerate(bodies, first)
    ]
    expected = [plain_packet(each) for each in alike]
    found = plain_packets(replace(message, identifier=alike[0].identifier), bodies, first)
    assert found == (None if None in expected else expected)


@given(plain_messages | messages(), st.data())
def test_packets_that_vary_are_those_that_are_made_one_by_one(message: Message, data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.binary(max_size=9), min_size=1, max_size=6))
    values: dict[str, st.SearchStrategy[object]] = {
        "label": st.text(max_size=5) | st.just("x" * MAX_LABEL_LENGTH),
        "application_tag": st.integers(-1, 1 << 32),
        "correlation_identifier": st.builds(MessageIdentifier, st.binary(min_size=16, max_size=16), st.integers(0, 9)),
        "priority": st.integers(0, 7),
    }
    names = data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, unique=True))
    varied = {name: [data.draw(values[name]) for _ in bodies] for name in names}
    first = data.draw(st.integers(1, 0xFFFF_0000))
    each = []
    for at, body in enumerate(bodies):
        changes: dict[str, Any] = {name: varied[name][at] for name in names}
        identifier = MessageIdentifier(message.source_machine_identifier, first + at)
        each.append(replace(message, identifier=identifier, body=body, packet=b"", **changes))
    expected = [plain_packet(one) for one in each]
    found = varied_packets(replace(message, identifier=each[0].identifier), bodies, varied, first)
    if message.transaction_identifier is None and "priority" in names:
        assert found is None
    else:
        assert found == (None if None in expected else expected)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_body_that_is_too_large_leaves_all_of_them_to_the_general_way(place: int) -> None:
    bodies = [b"1", b"22", b"333"]
    assert plain_packets(plain(), bodies, 1) is not None
    bodies[place] = bytes(MAX_PACKET_SIZE)
    assert plain_packets(plain(), bodies, 1) is None


@pytest.mark.parametrize("make", [plain, transactional])
def test_bodies_of_different_lengths_have_packets_of_different_lengths(make: Callable[[], Message]) -> None:
    bodies = [b"", b"12345", b"", b"123", b"12345"]
    packets = plain_packets(make(), bodies, 7)
    assert packets == [
        general_packet(
            replace(make(), body=body, identifier=MessageIdentifier(make().source_machine_identifier, number))
        )
        for number, body in enumerate(bodies, 7)
    ]
