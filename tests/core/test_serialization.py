"""MS-MQDMPR 3.1.7.1.30 and 3.1.7.1.32: messages into packets."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.core.messages import PRIVATE, SID, packet, plain, security, through_a_packet, transactional
from tests.core.strategies import DESTINATION, DIRECT, OTHER, SOURCE, messages, name_lists, queue_names
from tests.wire.strategies import guids, u32, user_messages
from tests.wire.vectors import frame
from waypost.core.message import ENHANCED_PROVIDER, NO_IDENTIFIER, Message
from waypost.core.message_values import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
)
from waypost.core.serialization import (
    construct_user_message_packet,
    deserialize_message_from_buffer,
    message_from_packet,
    packet_of,
    protected_packets,
    serialize_message_to_buffer,
    size_in_bytes,
)
from waypost.errors import EncodeError, LabelTooLong, UnsupportedFormatName
from waypost.guid import NULL_GUID
from waypost.wire import base_header, security_header, user_header
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.base_header import BaseHeader
from waypost.wire.format_names import FormatName, MultipleElementFormatName, PrivateFormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, PublicQueueFormatName
from waypost.wire.security_header import ProviderInfo
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage


@pytest.mark.spec("MQDMPR-3.1.7.1.30-01")
def test_a_transaction_header_is_built_exactly_for_a_transaction_identifier() -> None:
    for identifier in (0, 1, 0xFFFFF):
        message = transactional()
        message.transaction_identifier = identifier
        assert construct_user_message_packet(message).transaction is not None
        assert packet(message).user.flags & user_header.TH
    message.transaction_identifier = None
    assert construct_user_message_packet(message).transaction is None
    assert not packet(message).user.flags & user_header.TH


@pytest.mark.spec("MQDMPR-3.1.7.1.30-02")
@pytest.mark.parametrize("level", [level for level in AuthenticationLevel if level])
def test_a_security_header_is_built_for_a_signed_message(level: AuthenticationLevel) -> None:
    message = plain()
    assert not packet(message).user.flags & user_header.SH
    message.authentication_level = level
    assert construct_user_message_packet(message).security is not None
    message.signature = b"signature"
    assert packet(message).user.flags & user_header.SH


@pytest.mark.parametrize(
    ("attribute", "value"), [("sender_identifier", SID), ("symmetric_key", b"key"), ("sender_certificate", b"x509")]
)
def test_a_security_header_is_built_for_whatever_goes_into_it(attribute: str, value: bytes) -> None:
    message = plain()
    setattr(message, attribute, value)
    assert packet(message).user.flags & user_header.SH
    assert getattr(through_a_packet(message), attribute) == value


def test_a_signed_message_without_anything_that_shows_it_is_refused() -> None:
    message = plain()
    message.authentication_level = AuthenticationLevel.SIG20
    with pytest.raises(EncodeError, match="all five items are empty"):
        serialize_message_to_buffer(message)


@pytest.mark.spec("MQDMPR-3.1.7.1.30-03")
def test_a_properties_header_is_always_built() -> None:
    assert packet(plain()).user.flags & user_header.MP
    for attribute, value in (
        ("correlation_identifier", MessageIdentifier(OTHER, 1)),
        ("body_type", 8),
        ("application_tag", 1),
        ("body", b"body"),
        ("privacy_level", PrivacyLevel.BASE),
        ("hash_algorithm", HashAlgorithm.MD5),
        ("encryption_algorithm", EncryptionAlgorithm.RC2),
        ("extension", b"more"),
        ("label", "label"),
    ):
        message = plain()
        setattr(message, attribute, value)
        assert packet(message).user.flags & user_header.MP
        assert getattr(through_a_packet(message), attribute) == value


@pytest.mark.spec("MQDMPR-3.1.7.1.30-04", "MQDMPR-3.1.7.1.32-02")
@pytest.mark.parametrize("queue", [NULL_GUID, OTHER])
@pytest.mark.parametrize("traced", [0, base_header.TR])
def test_a_debug_header_is_there_for_a_queue_and_for_tracing(queue: bytes, traced: int) -> None:
    message = plain()
    message.tracing_requested = bool(traced)
    message.tracing_queue_identifier = queue
    message.time_to_reach_queue = 4711
    built = packet(message)
    has_header = queue != NULL_GUID or traced != 0
    assert built.base.is_traced == bool(traced)
    assert built.base.has_debug_header == (built.debug is not None) == has_header
    assert built.base.time_to_reach_queue == 4711
    if built.debug is not None:
        assert built.debug.queue_identifier == (None if queue == NULL_GUID else queue)


@pytest.mark.spec("MQDMPR-3.1.7.1.30-05")
def test_a_multi_queue_header_is_built_for_several_destinations() -> None:
    message = plain()
    assert construct_user_message_packet(message).multi_queue is None
    assert not packet(message).user.flags & user_header.MQ
    message.destination_multi_queue_format_name = (DIRECT, PRIVATE)
    assert construct_user_message_packet(message).multi_queue is not None
    assert packet(message).user.flags & user_header.MQ


def test_a_multi_queue_header_is_built_where_nothing_else_holds_the_names() -> None:
    for attribute in ("administration_multi_queue_format_name", "response_multi_queue_format_name"):
        message = plain()
        setattr(message, attribute, (DIRECT, PRIVATE))
        assert getattr(through_a_packet(message), attribute) == (DIRECT, PRIVATE)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-01")
@pytest.mark.parametrize("priority", range(8))
def test_the_priority_is_written_unless_the_message_is_transactional(priority: int) -> None:
    message = plain()
    message.priority = priority
    assert packet(message).base.priority == priority
    message = transactional()
    message.priority = priority
    assert packet(message).base.priority == 0


@pytest.mark.parametrize("priority", [-1, 8])
def test_another_priority_is_refused(priority: int) -> None:
    for message in (plain(), transactional()):
        message.priority = priority
        with pytest.raises(EncodeError, match="must be 0 to 7"):
            serialize_message_to_buffer(message)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-03")
@pytest.mark.parametrize(("label", "length"), [("", 0), ("x", 2), ("mqsender label", 15), ("x" * 249, 250)])
def test_the_lengths_are_computed(label: str, length: int) -> None:
    """readings MQDMPR 3.V: LabelLength counts the null, and is 0 without a label."""
    message = Message(body=b"12345", extension=b"123", label=label)
    data = serialize_message_to_buffer(message)
    properties = base_header.SIZE + user_header.FIXED_SIZE
    assert data[properties + 1] == length
    assert int.from_bytes(data[properties + 32 : properties + 36], "little") == 5
    assert int.from_bytes(data[properties + 52 : properties + 56], "little") == 3


@pytest.mark.spec("MQDMPR-3.1.1.12-32")
@pytest.mark.parametrize("letter", ["x", "é", "\U0001f4ec"])
def test_a_label_of_249_units_is_carried_and_a_longer_one_is_refused(letter: str) -> None:
    units = len(letter.encode("utf-16-le")) // 2
    assert Message().label == ""
    message = plain()
    message.label = letter * (249 // units) + "x" * (249 % units)
    assert through_a_packet(message).label == message.label
    message.label += "x"
    with pytest.raises(LabelTooLong, match="249"):
        serialize_message_to_buffer(message)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-04")
@pytest.mark.parametrize("level", PrivacyLevel)
def test_the_security_flags_claim_nothing_and_tell_of_encryption(level: PrivacyLevel) -> None:
    message = plain()
    message.sender_identifier = SID
    message.authentication_level = AuthenticationLevel.SIG30
    message.privacy_level = level
    flags = security(message).flags
    assert flags & (security_header.AU | security_header.AS) == 0
    assert bool(flags & security_header.EB) == (level != PrivacyLevel.NONE)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-05", "MQDMPR-3.1.7.1.32-06")
def test_the_provider_is_named_unless_it_is_the_one_of_the_messaging_system() -> None:
    message = plain()
    message.sender_identifier = SID
    assert not security(message).flags & security_header.DE
    message.signature = b"signature"
    message.symmetric_key = b"symmetric key"
    message.sender_certificate = b"certificate"
    for name in (message.authentication_provider_name, ENHANCED_PROVIDER):
        message.authentication_provider_name = name
        header = security(message)
        assert header.flags & security_header.DE
        assert header.provider_info == b""
    message.authentication_provider_type = 24
    message.authentication_provider_name = "Other"
    header = security(message)
    assert not header.flags & security_header.DE
    assert header.provider == ProviderInfo(24, "Other")
    assert len(header.provider_info) == 4 + len("Other\0") * 2
    assert header.signature == b"signature"
    assert header.encryption_key == b"symmetric key"
    assert header.security_id == SID
    assert header.sender_cert == b"certificate"
    sizes = security_header.LAYOUT.unpack_from(header.encode())
    assert sizes[4:] == (len(b"certificate"), 4 + len("Other\0") * 2)


@pytest.mark.spec("MQDMPR-3.1.1.12-49")
@given(u32, st.text("abc ", min_size=1, max_size=9), st.binary(min_size=1, max_size=9), st.binary(max_size=9))
def test_what_a_connector_application_supplies_is_passed_through(
    provider_type: int, provider_name: str, signature: bytes, key: bytes
) -> None:
    message = plain()
    message.authentication_provider_type = provider_type
    message.authentication_provider_name = provider_name
    message.signature = signature
    message.symmetric_key = key
    received = through_a_packet(message)
    assert received.authentication_provider_type == provider_type
    assert received.authentication_provider_name == provider_name
    assert (received.signature, received.symmetric_key) == (signature, key)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-07")
@pytest.mark.parametrize("bits", range(8))
def test_the_transaction_header_is_written(bits: int) -> None:
    message = transactional()
    message.final_ack_required = bool(bits & 1)
    message.first_in_transaction = bool(bits & 2)
    message.last_in_transaction = bool(bits & 4)
    message.transactional_message_sequence_identifier = TxSequenceId(6, 5)
    message.transaction_sequence_number = 8
    message.transaction_previous_sequence_number = 7
    assert packet(message).transaction == TransactionHeader(0xABCDE << 4 | bits << 1, 5 << 32 | 6, 8, 7)
    message.connector_queue_manager_identifier = OTHER
    assert packet(message).transaction == TransactionHeader(0xABCDE << 4 | bits << 1 | 1, 5 << 32 | 6, 8, 7, OTHER)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-08")
@pytest.mark.parametrize("bits", range(8))
def test_the_user_header_is_written(bits: int) -> None:
    message = Message(
        identifier=MessageIdentifier(SOURCE, 13),
        destination_queue_format_name=PublicFormatName(OTHER),
        destination_queue_manager_identifier=DESTINATION,
        administration_queue_format_name=PrivateFormatName(SOURCE, 1),
        acknowledgements_requested=Acknowledgements.ACK_FULL_RECEIVE,
        response_queue_format_name=PrivateFormatName(DESTINATION, 2),
        connector_type_identifier=OTHER,
        sent_time=12,
        time_to_be_received=11,
        delivery_guarantee=DeliveryGuarantee(bits & 1),
        positive_journaling_requested=bool(bits & 2),
        negative_journaling_requested=bool(bits & 4),
    )
    connector = user_header.CQ
    flags = (bits & 1) << 5 | (bits >> 2) << 8 | (bits >> 1 & 1) << 9 | 5 << 10 | 2 << 13 | 3 << 16
    assert packet(message).user == UserHeader(
        SOURCE,
        DESTINATION,
        11,
        12,
        13,
        flags | user_header.MP | connector,
        PublicQueueFormatName(OTHER),
        PrivateQueueFormatNameId(1),
        PrivateQueueFormatNameId(2),
        OTHER,
    )


@pytest.mark.spec("MQDMPR-3.1.7.1.32-10")
@given(messages())
def test_packet_size_is_the_size_of_the_packet(message: Message) -> None:
    data = serialize_message_to_buffer(message)
    assert BaseHeader.decode(data, 0)[0].packet_size == len(data)


@pytest.mark.spec("MQDMPR-3.1.7.1.32-11")
@given(messages())
def test_a_message_comes_out_of_its_packet_as_it_went_in(message: Message) -> None:
    assert through_a_packet(message) == message


@pytest.mark.spec("MQDMPR-3.1.7.1.32-11")
def test_every_predefined_value_comes_out_as_it_went_in() -> None:
    for attribute, values in (
        ("message_class", MessageClass),
        ("hash_algorithm", HashAlgorithm),
        ("encryption_algorithm", EncryptionAlgorithm),
        ("privacy_level", PrivacyLevel),
        ("delivery_guarantee", DeliveryGuarantee),
    ):
        for value in values:
            message = plain()
            setattr(message, attribute, value)
            assert getattr(through_a_packet(message), attribute) == value


@given(messages())
def test_a_packet_comes_out_of_its_message_as_it_went_in(message: Message) -> None:
    data = serialize_message_to_buffer(message)
    assert serialize_message_to_buffer(deserialize_message_from_buffer(data)) == data


@given(user_messages())
def test_what_others_sent_loses_nothing_that_the_model_has(received: UserMessage) -> None:
    for queue in ("destination_queue", "admin_queue", "response_queue"):
        if isinstance(getattr(received.user, queue), DirectQueueFormatName):
            setattr(received.user, queue, DirectQueueFormatName("OS:host\\q"))
    if isinstance(received.user.destination_queue, DirectQueueFormatName):
        received.user.queue_manager_address = NULL_GUID
    received.srmp_envelope = received.compound_message = None
    if received.multi_queue is not None:
        received.multi_queue.destination.elements = []
    message = message_from_packet(received)
    assert message_from_packet(construct_user_message_packet(message)) == message


@pytest.mark.spec("MQDMPR-3.1.1.12-23", "MQDMPR-3.1.1.12-25")
@given(u32, u32, st.binary(max_size=300), st.binary(max_size=300), st.sampled_from(PrivacyLevel))
def test_application_data_is_not_touched(
    tag: int, body_type: int, body: bytes, extension: bytes, level: PrivacyLevel
) -> None:
    assert (Message().application_tag, Message().body_type, Message().extension, Message().body) == (0, 0, b"", b"")
    assert Message().correlation_identifier == MessageIdentifier(NULL_GUID, 0) == NO_IDENTIFIER
    message = plain()
    message.application_tag = tag
    message.body_type = body_type
    message.body = body
    message.extension = extension
    message.correlation_identifier = MessageIdentifier(body[:16].ljust(16, b"\0"), tag)
    message.privacy_level = level
    received = through_a_packet(message)
    assert (received.application_tag, received.body_type) == (tag, body_type)
    assert (received.body, received.extension) == (body, extension)
    assert received.correlation_identifier == message.correlation_identifier


@pytest.mark.spec("MQDMPR-3.1.1.12-19")
@given(queue_names, name_lists)
def test_response_queues_are_delivered_unchanged(name: FormatName, names: tuple[FormatName, ...]) -> None:
    message = plain()
    assert message.response_queue_format_name is None
    assert message.response_multi_queue_format_name == ()
    message.response_queue_format_name = name
    message.response_multi_queue_format_name = names
    received = through_a_packet(message)
    assert str(received.response_queue_format_name) == str(name)
    assert list(map(str, received.response_multi_queue_format_name)) == list(map(str, names))


@pytest.mark.spec("MQDMPR-3.1.1.12-20")
def test_the_destination_is_one_queue_and_one_of_the_several() -> None:
    several = MultipleElementFormatName((DIRECT, PRIVATE))
    message = Message(destination_queue_format_name=several)
    with pytest.raises(UnsupportedFormatName):
        serialize_message_to_buffer(message)
    message = plain()
    message.destination_multi_queue_format_name = (PRIVATE,)
    with pytest.raises(EncodeError, match="is not one of the destinations"):
        serialize_message_to_buffer(message)
    message.destination_multi_queue_format_name = (DIRECT, several)
    with pytest.raises(UnsupportedFormatName):
        serialize_message_to_buffer(message)
    message.destination_multi_queue_format_name = (PRIVATE, DIRECT)
    received = through_a_packet(message)
    assert received.destination_queue_format_name in received.destination_multi_queue_format_name


@pytest.mark.spec("MQDMPR-3.1.1.12-45")
@given(guids, guids)
def test_the_guids_of_connectors_are_passed_on(connector_type: bytes, queue_manager: bytes) -> None:
    assert Message().connector_type_identifier == NULL_GUID
    message = transactional()
    message.connector_type_identifier = connector_type
    message.connector_queue_manager_identifier = queue_manager
    received = through_a_packet(message)
    assert received.connector_type_identifier == connector_type
    assert received.connector_queue_manager_identifier == queue_manager


def test_a_private_destination_tells_its_queue_manager() -> None:
    message = Message(destination_queue_format_name=PRIVATE)
    assert packet(message).user.queue_manager_address == DESTINATION
    assert through_a_packet(message).destination_queue_manager_identifier == DESTINATION
    message.destination_queue_manager_identifier = OTHER
    with pytest.raises(EncodeError, match="DestinationQueueManagerIdentifier"):
        serialize_message_to_buffer(message)


def test_a_direct_destination_hides_its_queue_manager() -> None:
    message = plain()
    message.destination_queue_manager_identifier = DESTINATION
    assert packet(message).user.queue_manager_address == NULL_GUID


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("application_tag", 1 << 32),
        ("body_type", -1),
        ("message_class", 1 << 16),
        ("acknowledgements_requested", 0x10),
        ("sent_time", 1 << 32),
        ("transaction_identifier", 1 << 20),
        ("transaction_identifier", -1),
    ],
)
def test_a_number_that_does_not_fit_is_refused(attribute: str, value: int) -> None:
    message = transactional()
    setattr(message, attribute, value)
    with pytest.raises(EncodeError):
        serialize_message_to_buffer(message)


@pytest.mark.parametrize("attribute", ["acknowledgements_requested", "delivery_guarantee"])
def test_what_a_sender_must_not_do_is_refused(attribute: str) -> None:
    """An acknowledgment without a queue for it; a transactional message that is express."""
    message = transactional()
    setattr(message, attribute, 1 - getattr(message, attribute))
    with pytest.raises(EncodeError):
        serialize_message_to_buffer(message)


def test_a_packet_is_made_once_and_a_received_one_is_kept() -> None:
    message = plain()
    made = packet_of(message)
    assert packet_of(message) is made
    noisy = bytearray(made)
    noisy[1] = 0x5A
    received = deserialize_message_from_buffer(bytes(noisy))
    assert packet_of(received) == noisy


def test_the_size_of_a_message_is_that_of_its_headers_and_body() -> None:
    message = plain()
    message.body = bytes(1000)
    assert size_in_bytes(message) == len(serialize_message_to_buffer(message)) > 1000
    assert size_in_bytes(deserialize_message_from_buffer(frame(7))) == 2224


@pytest.mark.parametrize("level", [AuthenticationLevel.SIG20, AuthenticationLevel.SIG30])
@pytest.mark.parametrize("label", ["", "order"])
@pytest.mark.parametrize("first", [b"one", b"\0"])
@pytest.mark.parametrize("extension", [b"", b"one", b"\0"])
def test_packets_of_many_protected_messages_are_those_of_each_message(
    level: AuthenticationLevel, label: str, first: bytes, extension: bytes
) -> None:
    """Messages of a size that came before, of a new size, without a body, and with the same object as the extension."""
    certificate = b"certificate"
    like = replace(plain(), label=label, authentication_level=level, sender_certificate=certificate, soap_body="soap")
    # Equal bytes are one object, which the packet has as the extension and as the first body.
    like.extension = first if extension == first else extension
    bodies = [first, b"x" * len(first), b"four", first, b"x" * len(first), b"", b"", b"two"]
    signatures = [bytes([number]) * (64 if number < 6 else 65) for number in range(1, 1 + len(bodies))]
    ordinals = range(0x01020304, 0x01020304 + len(bodies))

    def of(body: bytes, signature: bytes, ordinal: int) -> Message:
        made = replace(like, body=body, identifier=MessageIdentifier(SOURCE, ordinal))
        if level is AuthenticationLevel.SIG30:
            made.multiple_destination_signature = signature
        else:
            made.signature = signature
        return made

    each = [of(*values) for values in zip(bodies, signatures, ordinals, strict=True)]
    assert list(protected_packets(each[0], bodies, signatures, ordinals)) == [packet_of(message) for message in each]


@given(messages(), st.lists(st.binary(max_size=9), min_size=1, max_size=4))
def test_packets_of_many_unsigned_messages_are_those_of_each_message(like: Message, bodies: list[bytes]) -> None:
    assume(not like.signature and not like.multiple_destination_signature and not like.packet)
    ordinals = range(1, 1 + len(bodies))
    each = [
        replace(like, body=body, identifier=MessageIdentifier(like.identifier.queue_manager_guid, ordinal))
        for body, ordinal in zip(bodies, ordinals, strict=True)
    ]
    found = list(protected_packets(each[0], bodies, [b""] * len(bodies), ordinals))
    assert found == [packet_of(message) for message in each]


def test_an_empty_multi_queue_header_is_no_attribute() -> None:
    message = deserialize_message_from_buffer(UserMessage(multi_queue=MultiQueueFormatHeader()).encode())
    assert construct_user_message_packet(message).multi_queue is None
