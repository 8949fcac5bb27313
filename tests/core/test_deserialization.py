"""MS-MQDMPR 3.1.7.1.31: messages out of packets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.messages import PRIVATE, SID, packet, plain, security, through_a_packet
from tests.core.strategies import DESTINATION, DIRECT, OTHER, SOURCE
from tests.wire.strategies import user_messages
from tests.wire.vectors import frame, vector
from waypost.core.message import Message
from waypost.core.message_values import (
    Acknowledgements,
    AuthenticationLevel,
    DeliveryGuarantee,
    EncryptionAlgorithm,
    QueueType,
    SenderIdentifierType,
)
from waypost.core.serialization import (
    deserialize_message_from_buffer,
    message_from_packet,
    serialize_message_to_buffer,
    verified_authentication_level,
)
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.wire import base_header, security_header, transaction_header, user_header
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.format_names import FormatName, PrivateFormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import PrivateQueueFormatNameId, PublicQueueFormatName
from waypost.wire.security_header import ProviderInfo, SecurityHeader
from waypost.wire.session_header import SessionHeader
from waypost.wire.sid import Sid
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage


@pytest.mark.spec("MQDMPR-3.1.7.1.31-01")
def test_an_absent_header_leaves_its_attributes_at_their_defaults() -> None:
    bare = UserMessage(
        base=BaseHeader(time_to_reach_queue=Message().time_to_reach_queue),
        properties=MessagePropertiesHeader(
            hash_algorithm=HashAlgorithm.SHA_1, encryption_algorithm=EncryptionAlgorithm.RC4
        ),
    )
    assert deserialize_message_from_buffer(bare.encode()) == Message()


@pytest.mark.spec("MQDMPR-3.1.7.1.31-02")
@pytest.mark.parametrize("priority", range(8))
def test_the_base_header_tells_priority_tracing_and_time(priority: int) -> None:
    traced = UserMessage(base=BaseHeader(flags=priority | base_header.TR, time_to_reach_queue=77), debug=DebugHeader())
    message = deserialize_message_from_buffer(traced.encode())
    assert (message.priority, message.tracing_requested, message.time_to_reach_queue) == (priority, True, 77)
    quiet = UserMessage(base=BaseHeader(flags=priority), debug=DebugHeader())
    assert not deserialize_message_from_buffer(quiet.encode()).tracing_requested


@pytest.mark.spec("MQDMPR-3.1.7.1.31-03")
def test_the_properties_header_tells_what_the_application_said() -> None:
    header = MessagePropertiesHeader(0x0F, 0x4000, OTHER + b"\7\0\0\0", 8, 9, 5, 0x8003, 0x6610, "la", b"ext", b"body")
    message = deserialize_message_from_buffer(UserMessage(properties=header).encode())
    assert message.acknowledgements_requested == 0x0F
    assert message.message_class == MessageClass.MQMSG_CLASS_ACK_RECEIVE
    assert message.correlation_identifier == MessageIdentifier(OTHER, 7)
    assert message.body_type == 8
    assert message.application_tag == 9
    assert message.privacy_level == PrivacyLevel.ADVANCED
    assert message.hash_algorithm == HashAlgorithm.MD5
    assert message.encryption_algorithm == EncryptionAlgorithm.AES256
    assert message.label == "la"
    assert message.extension == b"ext"
    assert message.body == b"body"


@pytest.mark.spec("MQDMPR-3.1.7.1.31-04")
def test_the_security_header_tells_the_sender() -> None:
    header = SecurityHeader(1, SID, b"key", b"sign", b"x509", ProviderInfo(9, "Other").encode())
    message = deserialize_message_from_buffer(UserMessage(security=header).encode())
    assert message.authentication_provider_type == 9
    assert message.authentication_provider_name == "Other"
    assert message.sender_identifier_type is SenderIdentifierType.SID
    assert message.symmetric_key == b"key"
    assert message.sender_identifier == SID
    assert message.sender_certificate == b"x509"
    assert message.signature == b"sign"


@pytest.mark.spec("MQDMPR-3.1.7.1.31-13")
@pytest.mark.parametrize(
    ("number", "identifier", "expected"),
    [
        (0, b"", SenderIdentifierType.NONE),
        (1, SID, SenderIdentifierType.SID),
        (2, SOURCE, SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER),
    ],
)
def test_the_types_of_sender_identifiers(number: int, identifier: bytes, expected: SenderIdentifierType) -> None:
    header = SecurityHeader(number, identifier, signature=b"sign")
    message = deserialize_message_from_buffer(UserMessage(security=header).encode())
    assert message.sender_identifier_type is expected
    message.destination_queue_format_name = DIRECT
    assert security(message).sender_type == number


@pytest.mark.spec("MQDMPR-3.1.7.1.31-05")
@pytest.mark.parametrize(
    ("flag", "attribute"),
    [
        (transaction_header.FA, "final_ack_required"),
        (transaction_header.FM, "first_in_transaction"),
        (transaction_header.LM, "last_in_transaction"),
    ],
)
def test_the_transaction_header_tells_the_place_in_the_sequence(flag: int, attribute: str) -> None:
    header = TransactionHeader(0xABCDE << 4 | flag, 5 << 32 | 6, 8, 7, OTHER)
    message = deserialize_message_from_buffer(
        UserMessage(user=UserHeader(flags=1 << user_header.DM_SHIFT), transaction=header).encode()
    )
    attributes = ("final_ack_required", "first_in_transaction", "last_in_transaction")
    assert {name: getattr(message, name) for name in attributes} == {name: name == attribute for name in attributes}
    assert message.transaction_identifier == 0xABCDE
    assert message.transaction_sequence_number == 8
    assert message.transaction_previous_sequence_number == 7
    assert message.transactional_message_sequence_identifier == TxSequenceId(6, 5)
    assert message.connector_queue_manager_identifier == OTHER


@pytest.mark.spec("MQDMPR-3.1.7.1.31-06")
@pytest.mark.parametrize("delivery", DeliveryGuarantee)
@pytest.mark.parametrize(("positive", "negative"), [(True, False), (False, True)])
def test_the_user_header_tells_whence_and_whither(
    delivery: DeliveryGuarantee,
    positive: bool,  # noqa: FBT001
    negative: bool,  # noqa: FBT001
) -> None:
    flags = delivery << 5 | negative << 8 | positive << 9 | 5 << 10 | 2 << 13 | 3 << 16
    header = UserHeader(
        SOURCE,
        DESTINATION,
        11,
        12,
        13,
        flags,
        PublicQueueFormatName(OTHER),
        PrivateQueueFormatNameId(1),
        PrivateQueueFormatNameId(2),
        OTHER,
    )
    message = deserialize_message_from_buffer(UserMessage(user=header).encode())
    assert message.source_machine_identifier == SOURCE
    assert message.destination_queue_manager_identifier == DESTINATION
    assert message.time_to_be_received == 11
    assert message.sent_time == 12
    assert message.identifier == MessageIdentifier(SOURCE, 13)
    assert message.destination_queue_type is QueueType.PUBLIC_QUEUE
    assert message.administration_queue_type is QueueType.PRIVATE_QUEUE_ON_SOURCE
    assert message.response_queue_type is QueueType.PRIVATE_QUEUE_ON_DESTINATION
    assert message.destination_queue_format_name == PublicFormatName(OTHER)
    assert message.administration_queue_format_name == PrivateFormatName(SOURCE, 1)
    assert message.response_queue_format_name == PrivateFormatName(DESTINATION, 2)
    assert message.delivery_guarantee is delivery
    assert message.positive_journaling_requested is positive
    assert message.negative_journaling_requested is negative
    assert message.connector_type_identifier == OTHER


@pytest.mark.spec("MQDMPR-3.1.7.1.31-07", "MQDMPR-3.1.7.1.32-09")
def test_the_lists_of_several_queues_and_the_report_queue_go_both_ways() -> None:
    message = plain()
    message.destination_multi_queue_format_name = (DIRECT, PRIVATE)
    message.administration_multi_queue_format_name = (PublicFormatName(OTHER),)
    message.response_multi_queue_format_name = (PRIVATE, DIRECT, PublicFormatName(SOURCE))
    message.multiple_destination_signature = b"sig3"
    message.tracing_queue_identifier = OTHER
    built = packet(message)
    assert built.multi_queue is not None
    lists = (built.multi_queue.destination, built.multi_queue.administration, built.multi_queue.response)
    assert [len(names.elements) for names in lists] == [2, 1, 3]
    assert built.multi_queue.signature.signature == b"sig3"
    assert built.debug == DebugHeader(flags=1, queue_identifier=OTHER)
    received = through_a_packet(message)
    assert received.destination_multi_queue_format_name == (DIRECT, PRIVATE)
    assert received.administration_multi_queue_format_name == (PublicFormatName(OTHER),)
    assert received.response_multi_queue_format_name == (PRIVATE, DIRECT, PublicFormatName(SOURCE))
    assert received.multiple_destination_signature == b"sig3"
    assert received.tracing_queue_identifier == OTHER
    message.tracing_queue_identifier = NULL_GUID
    message.tracing_requested = True
    assert packet(message).debug == DebugHeader()


@pytest.mark.spec("MQDMPR-3.1.7.1.31-08")
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, AuthenticationLevel.NONE),
        (1, AuthenticationLevel.SIG10),
        (2, AuthenticationLevel.NONE),
        (3, AuthenticationLevel.SIG20),
        (5, AuthenticationLevel.SIG30),
    ],
)
def test_only_who_trusts_the_writer_believes_the_authentication_level(
    number: int, expected: AuthenticationLevel
) -> None:
    claim = UserMessage(security=SecurityHeader(1 | number << 8 | security_header.AU, SID))
    assert verified_authentication_level(claim) is expected
    message = deserialize_message_from_buffer(claim.encode())
    assert message.authentication_level is AuthenticationLevel.NONE
    assert UserMessage.decode(message.packet).security == SecurityHeader(1, SID)
    assert verified_authentication_level(UserMessage()) is AuthenticationLevel.NONE


CLASSES = {
    0x0000: "NORMAL", 0x0001: "REPORT", 0x0002: "ACK_REACH_QUEUE", 0x4000: "ACK_RECEIVE", 0x8000: "NACK_BAD_DST_Q",
    0x8001: "NACK_DELETED", 0x8002: "NACK_REACH_QUEUE_TIMEOUT", 0x8003: "NACK_Q_EXCEED_QUOTA",
    0x8004: "NACK_ACCESS_DENIED", 0x8005: "NACK_HOP_COUNT_EXCEEDED", 0x8006: "NACK_BAD_SIGNATURE",
    0x8007: "NACK_BAD_ENCRYPTION", 0x8009: "NACK_NOT_TRANSACTIONAL_Q", 0x800A: "NACK_NOT_TRANSACTIONAL_MSG",
    0x800B: "NACK_UNSUPPORTED_CRYPTO_PROVIDER", 0xC000: "NACK_Q_DELETED", 0xC001: "NACK_Q_PURGED",
    0xC002: "NACK_RECEIVE_TIMEOUT", 0xC004: "NACK_RECEIVE_REJECTED",
}  # fmt: skip


@pytest.mark.spec("MQDMPR-3.1.7.1.31-09")
def test_the_numbers_of_the_classes() -> None:
    for number, name in CLASSES.items():
        received = message_from_packet(UserMessage(properties=MessagePropertiesHeader(message_class=number)))
        assert received.message_class == MessageClass[f"MQMSG_CLASS_{name}"]


@pytest.mark.spec("MQDMPR-3.1.7.1.31-10")
def test_the_numbers_of_the_privacy_levels_and_the_journaling_bits() -> None:
    levels = {0: PrivacyLevel.NONE, 1: PrivacyLevel.BASE, 3: PrivacyLevel.ENHANCED, 5: PrivacyLevel.ADVANCED}
    for number, level in levels.items():
        received = message_from_packet(UserMessage(properties=MessagePropertiesHeader(privacy_level=number)))
        assert received.privacy_level == level
    for bits in range(4):
        received = message_from_packet(UserMessage(user=UserHeader(flags=bits << 8)))
        assert received.negative_journaling_requested is bool(bits & 1)
        assert received.positive_journaling_requested is bool(bits & 2)


@pytest.mark.spec("MQDMPR-3.1.7.1.31-11")
def test_the_numbers_of_the_algorithms() -> None:
    ciphers = {0x6602: "RC2", 0x6801: "RC4", 0x6610: "AES256", 0x660E: "AES128", 0x660F: "AES192"}
    for number, name in ciphers.items():
        received = message_from_packet(UserMessage(properties=MessagePropertiesHeader(encryption_algorithm=number)))
        assert received.encryption_algorithm == EncryptionAlgorithm[name]
    hashes = {0x8001: "MD2", 0x8002: "MD4", 0x8003: "MD5", 0x8004: "SHA_1", 0x800C: "SHA_256", 0x800E: "SHA_512"}
    for number, name in hashes.items():
        received = message_from_packet(UserMessage(properties=MessagePropertiesHeader(hash_algorithm=number)))
        assert received.hash_algorithm == HashAlgorithm[name]


@pytest.mark.spec("MQDMPR-3.1.7.1.31-12")
def test_the_numbers_of_the_queue_types() -> None:
    public, elsewhere = PublicFormatName(OTHER), PrivateFormatName(OTHER, 1)
    on_source, on_destination = PrivateFormatName(SOURCE, 2), PrivateFormatName(DESTINATION, 3)
    beside_admin = PrivateFormatName(OTHER, 4)
    by_code: dict[str, dict[int, FormatName | None]] = {
        "destination": {3: on_destination, 5: public, 7: DIRECT},
        "administration": {0: None, 2: on_source, 3: on_destination, 5: public, 6: elsewhere, 7: DIRECT},
        "response": {0: None, 1: elsewhere, 2: on_source, 3: on_destination, 4: beside_admin, 5: public, 7: DIRECT},
    }
    by_code["response"][6] = PrivateFormatName(b"\x09" * 16, 5)
    shifts = {"destination": 10, "administration": 13, "response": 16}
    for queue, names in by_code.items():
        for code, name in names.items():
            message = Message(
                identifier=MessageIdentifier(SOURCE, 1),
                destination_queue_format_name=on_destination,
                administration_queue_format_name=elsewhere,
                acknowledgements_requested=Acknowledgements.ACK_NEG_ARRIVAL,
            )
            setattr(message, f"{queue}_queue_format_name", name)
            if queue == "destination" and code == 5:
                message.destination_queue_manager_identifier = DESTINATION
            if message.administration_queue_format_name is None:
                message.acknowledgements_requested = 0
            assert packet(message).user.flags >> shifts[queue] & 7 == code
            received = through_a_packet(message)
            assert getattr(received, f"{queue}_queue_type") == QueueType(code)
            assert getattr(received, f"{queue}_queue_format_name") == name


def test_the_priority_of_a_transactional_packet_is_ignored() -> None:
    loud = UserMessage(
        base=BaseHeader(flags=7), user=UserHeader(flags=1 << user_header.DM_SHIFT), transaction=TransactionHeader()
    )
    assert deserialize_message_from_buffer(loud.encode()).priority == 0


def test_a_session_header_does_not_stay_with_the_message() -> None:
    message = plain()
    message.body = b"body"
    alone = serialize_message_to_buffer(message)
    carried = UserMessage.decode(alone)
    carried.session = SessionHeader()
    received = deserialize_message_from_buffer(carried.encode())
    assert received == deserialize_message_from_buffer(alone)
    assert received.packet == alone


def test_the_ciphertext_of_a_body_is_kept_whole() -> None:
    sealed = UserMessage(
        security=SecurityHeader(security_header.EB, encryption_key=b"key!"),
        properties=MessagePropertiesHeader(privacy_level=5, message_body=b"cipher", allocation_remainder=b"text"),
    )
    assert deserialize_message_from_buffer(sealed.encode()).body == b"ciphertext"


def test_a_message_that_came_over_http_has_its_soap_parts_and_its_body() -> None:
    data = vector("srmp-user-message")
    message = deserialize_message_from_buffer(data)
    assert message.soap_envelope.startswith("<se:Envelope")
    assert len(message.soap_compound_message) == 1036
    assert message.body == b"Message"
    assert message.packet == data
    assert not packet(message).user.flags & user_header.AH


def test_frame_7_is_a_message() -> None:
    message = deserialize_message_from_buffer(frame(7))
    assert message.destination_queue_format_name == FormatName.parse("DIRECT=OS:a04bm02\\q")
    assert message.label == "mqsender label"
    assert message.priority == 3
    assert message.time_to_reach_queue == 0x54600
    assert message.sender_identifier_type is SenderIdentifierType.SID
    assert str(Sid.decode(message.sender_identifier, 0)[0]).startswith("S-1-5-21-")
    assert len(message.body) == 2000


@given(st.binary(max_size=200) | user_messages().map(UserMessage.encode))
def test_any_buffer_gives_a_message_with_its_packet_or_an_error(buffer: bytes) -> None:
    try:
        message = deserialize_message_from_buffer(buffer)
    except DecodeError:
        return
    assert message.authentication_level is AuthenticationLevel.NONE
    assert deserialize_message_from_buffer(message.packet) == message
