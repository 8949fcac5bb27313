"""MS-MQDMPR 3.1.1.12: the attributes of a message, their defaults and their closed sets."""

from dataclasses import fields

import pytest
from hypothesis import given

from tests.core.strategies import DESTINATION, DIRECT, OTHER, SOURCE, messages
from tests.wire.strategies import guids
from waypost.core.message import BASE_PROVIDER, ENHANCED_PROVIDER, LOCAL_ATTRIBUTES, Message
from waypost.core.message_values import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    QueueType,
    SenderIdentifierType,
)
from waypost.core.serialization import deserialize_message_from_buffer, serialize_message_to_buffer
from waypost.errors import UnsupportedFormatName
from waypost.guid import NULL_GUID, braced_guid_text, guid_text, parse_guid
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.format_names import (
    DistributionListFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
    Suffix,
)
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass
from waypost.wire.remote_packet import Origin
from waypost.wire.sid import Sid

PUBLIC = PublicFormatName(OTHER)

ATTRIBUTES = (
    "LookupIdentifier", "Identifier", "AllowPeekWhenLocked", "ApplicationDeadletterQueue", "ArrivalTime",
    "MessageClass", "PrivacyLevel", "AuthenticationLevel", "DeliveryGuarantee", "TracingRequested",
    "TracingQueueIdentifier", "Priority", "PositiveJournalingRequested", "NegativeJournalingRequested",
    "ResponseQueueFormatName", "ResponseMultiQueueFormatName", "DestinationQueueFormatName",
    "DestinationMultiQueueFormatName", "AdministrationQueueFormatName", "AdministrationMultiQueueFormatName",
    "MultipleDestinationSignature", "ApplicationTag", "SourceMachineIdentifier", "Body", "BodyType",
    "CorrelationIdentifier", "AcknowledgementsRequested", "Label", "SentTime", "TimeToReachQueue", "TimeToBeReceived",
    "HashAlgorithm", "EncryptionAlgorithm", "DestinationQueueManagerIdentifier", "DestinationQueueType",
    "AdministrationQueueType", "ResponseQueueType", "SenderIdentifier", "SenderCertificate", "SenderIdentifierType",
    "Extension", "ConnectorTypeIdentifier", "ConnectorQueueManagerIdentifier", "TransactionStatusQueueFormatName",
    "SymmetricKey", "Signature", "AuthenticationProviderType", "AuthenticationProviderName",
    "TransactionalMessageSequenceIdentifier", "TransactionSequenceNumber", "TransactionPreviousSequenceNumber",
    "TransactionIdentifier", "FinalAckRequired", "FirstInTransaction", "LastInTransaction", "SoapEnvelope",
    "SoapCompoundMessage", "SoapBody", "SoapHeader",
)  # fmt: skip


def addressed(**names: FormatName | None) -> Message:
    """From SOURCE to a public queue on DESTINATION."""
    message = Message(
        identifier=MessageIdentifier(SOURCE, 1),
        destination_queue_format_name=PUBLIC,
        destination_queue_manager_identifier=DESTINATION,
    )
    for name, value in names.items():
        setattr(message, name, value)
    return message


def test_every_attribute_of_the_model_is_there() -> None:
    message = Message()
    for attribute in ATTRIBUTES:
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in attribute)[1:]
        assert hasattr(message, name), attribute


def test_the_defaults() -> None:
    message = Message()
    assert message.application_deadletter_queue == ""
    assert not message.allow_peek_when_locked
    assert message.privacy_level == PrivacyLevel.NONE
    assert message.authentication_level is AuthenticationLevel.NONE
    assert message.delivery_guarantee is DeliveryGuarantee.EXPRESS
    assert message.priority == 3
    assert not message.positive_journaling_requested
    assert not message.negative_journaling_requested
    assert message.acknowledgements_requested == Acknowledgements.NONE
    assert message.time_to_reach_queue == 0x54600
    assert message.time_to_be_received == 0xFFFFFFFF
    assert message.sender_identifier_type is SenderIdentifierType.SID
    assert not message.is_transactional
    assert message.transactional_message_sequence_identifier is None


@pytest.mark.spec("MQDMPR-3.1.1.12-14")
def test_no_message_is_traced_unless_it_is_asked_for() -> None:
    assert Message().tracing_requested is False
    assert Message().tracing_queue_identifier == NULL_GUID


@pytest.mark.spec("MQDMPR-3.1.1.12-36", "MQDMPR-3.1.1.12-37")
def test_the_hash_algorithms_and_their_default() -> None:
    assert {algorithm.name for algorithm in HashAlgorithm} == {"MD2", "MD4", "MD5", "SHA_1", "SHA_256", "SHA_512"}
    assert HashAlgorithm["SHA"] is HashAlgorithm.SHA_1
    assert Message().hash_algorithm == HashAlgorithm.SHA_1


@pytest.mark.spec("MQDMPR-3.1.1.12-38")
def test_the_encryption_algorithms_and_their_default() -> None:
    names = {"RC2", "RC4", "DES", "SEAL", "AES128", "AES192", "AES256", "RSA", "DSS", "RSA_KEYS"}
    assert {algorithm.name for algorithm in EncryptionAlgorithm} == names
    assert Message().encryption_algorithm == EncryptionAlgorithm.RC4


def test_named_acknowledgements_are_unions_of_bits() -> None:
    assert Acknowledgements["ACK_NACK_REACH_QUEUE"] is Acknowledgements.ACK_NEG_ARRIVAL
    assert (
        Acknowledgements.ACK_FULL_REACH_QUEUE,
        Acknowledgements.ACK_NACK_RECEIVE,
        Acknowledgements.ACK_FULL_RECEIVE,
    ) == (0x05, 0x0C, 0x0E)


@pytest.mark.spec("MQDMPR-3.1.1.12-40")
def test_the_destination_queue_type_follows_from_the_form_of_its_name() -> None:
    assert addressed().destination_queue_type is QueueType.PUBLIC_QUEUE
    private = PrivateFormatName(DESTINATION, 7)
    assert addressed(destination_queue_format_name=private).destination_queue_type is QueueType.PRIVATE_QUEUE
    assert addressed(destination_queue_format_name=DIRECT).destination_queue_type is QueueType.DIRECT_QUEUE


@pytest.mark.spec("MQDMPR-3.1.1.12-41")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, QueueType.NONE),
        (PrivateFormatName(SOURCE, 7), QueueType.PRIVATE_QUEUE_ON_SOURCE),
        (PrivateFormatName(DESTINATION, 7), QueueType.PRIVATE_QUEUE_ON_DESTINATION),
        (PUBLIC, QueueType.PUBLIC_QUEUE),
        (PrivateFormatName(OTHER, 7), QueueType.PRIVATE_QUEUE_ON_OTHER),
        (DIRECT, QueueType.DIRECT_QUEUE),
    ],
)
def test_the_administration_queue_type_follows_from_where_it_lives(
    name: FormatName | None, expected: QueueType
) -> None:
    assert addressed(administration_queue_format_name=name).administration_queue_type is expected


@pytest.mark.spec("MQDMPR-3.1.1.12-42")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, QueueType.NONE),
        (PrivateFormatName(OTHER, 9), QueueType.SAME_AS_ADMINISTRATION_QUEUE),
        (PrivateFormatName(DESTINATION, 7), QueueType.PRIVATE_QUEUE_ON_DESTINATION),
        (PrivateFormatName(SOURCE, 7), QueueType.PRIVATE_QUEUE_ON_SOURCE),
        (PrivateFormatName(OTHER, 7), QueueType.PRIVATE_QUEUE_ON_ADMIN),
        (PUBLIC, QueueType.PUBLIC_QUEUE),
        (PrivateFormatName(bytes(15) + b"\x04", 7), QueueType.PRIVATE_QUEUE_ON_OTHER),
        (DIRECT, QueueType.DIRECT_QUEUE),
    ],
)
def test_the_response_queue_type_follows_from_where_it_lives(name: FormatName | None, expected: QueueType) -> None:
    message = addressed(administration_queue_format_name=PrivateFormatName(OTHER, 9), response_queue_format_name=name)
    assert message.response_queue_type is expected
    message.acknowledgements_requested = Acknowledgements.ACK_POS_ARRIVAL
    received = deserialize_message_from_buffer(serialize_message_to_buffer(message))
    assert received.response_queue_format_name == name
    assert received.response_queue_type is expected


def test_a_response_queue_with_other_letters_is_not_the_same_as_the_administration_queue() -> None:
    shouted = FormatName.parse("DIRECT=OS:HOST\\private$\\orders")
    message = addressed(administration_queue_format_name=DIRECT, response_queue_format_name=shouted)
    assert message.response_queue_type is QueueType.DIRECT_QUEUE


@pytest.mark.parametrize(
    "name",
    [
        FormatName.parse("DIRECT=OS:a\\q,DIRECT=OS:b\\q"),
        FormatName.parse("MULTICAST=234.1.1.1:8001"),
        DistributionListFormatName(OTHER),
        PublicFormatName(OTHER, Suffix.JOURNAL),
        PrivateFormatName(DESTINATION, 7, Suffix.JOURNAL),
    ],
)
@pytest.mark.parametrize("queue", ["destination", "administration", "response"])
def test_a_name_without_a_packet_form_is_refused(queue: str, name: FormatName) -> None:
    with pytest.raises(UnsupportedFormatName):
        serialize_message_to_buffer(addressed(**{f"{queue}_queue_format_name": name}))


def test_a_transactional_message_counts_as_one_of_priority_0() -> None:
    assert Message(priority=7).effective_priority == 7
    assert Message(priority=7, transaction_identifier=0).effective_priority == 0


@pytest.mark.spec("MQDMPR-3.1.1.12-50")
def test_the_messaging_system_signs_under_one_of_two_names() -> None:
    assert BASE_PROVIDER == "Microsoft Base Cryptographic Provider, v1.0"
    assert ENHANCED_PROVIDER == "Microsoft Enhanced Cryptographic Provider, v1.0"
    assert Message().authentication_provider_type == 0x1
    assert Message().authentication_provider_name == BASE_PROVIDER


@pytest.mark.spec("MQDMPR-3.1.1.12-06")
def test_a_message_is_normal_or_of_any_class_that_is_set() -> None:
    assert Message().message_class == MessageClass.MQMSG_CLASS_NORMAL
    for number in (*MessageClass, 0x0100, 0xE1FF):
        message = addressed()
        message.message_class = number
        assert deserialize_message_from_buffer(serialize_message_to_buffer(message)).message_class == number


@given(guids)
@pytest.mark.spec("MQDMPR-2-01")
def test_guids_and_sids_keep_their_value_as_text_and_in_packets(guid: bytes) -> None:
    assert parse_guid(guid_text(guid)) == parse_guid(braced_guid_text(guid)) == guid
    assert guid_text(bytes(range(16))) == "03020100-0504-0706-0809-0a0b0c0d0e0f"
    sid = Sid(5, (21, *guid[:4]))
    assert Sid.parse(str(sid)) == sid
    message = addressed(destination_queue_format_name=PublicFormatName(guid))
    message.identifier = MessageIdentifier(guid, 1)
    message.connector_type_identifier = guid
    message.sender_identifier = sid.encode()
    received = deserialize_message_from_buffer(serialize_message_to_buffer(message))
    assert received.source_machine_identifier == received.connector_type_identifier == guid
    assert received.destination_queue_format_name == PublicFormatName(guid)
    assert Sid.decode(received.sender_identifier, 0) == (sid, len(received.sender_identifier))


@given(messages())
def test_the_packet_and_the_local_attributes_are_the_whole_message(message: Message) -> None:
    values = (7, True, "host\\dead", 99, AuthenticationLevel.SIG20, DIRECT, OTHER, 1, 2, 3, "sub", Origin(SOURCE))
    for name, value in zip(LOCAL_ATTRIBUTES, values, strict=True):
        setattr(message, name, value)
    if not (message.signature or message.sender_identifier):
        message.authentication_level = AuthenticationLevel.NONE
    restored = deserialize_message_from_buffer(serialize_message_to_buffer(message))
    for name in LOCAL_ATTRIBUTES:
        setattr(restored, name, getattr(message, name))
    assert restored == message
    assert set(LOCAL_ATTRIBUTES) < {field.name for field in fields(Message)}
