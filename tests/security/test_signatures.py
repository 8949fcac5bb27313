"""MS-MQMQ 2.5, 2.2.19.3 HashAlgorithm, 2.2.20.3 and 2.2.20.6 Signature."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.strategies import user_messages
from waypost.errors import AuthenticationFailed
from waypost.hresult import HResult
from waypost.security.signatures import (
    ClaimedSignature,
    SignatureVersion,
    claimed_digests,
    claimed_signature,
    digest,
    digests_to_sign,
    signature_digest,
    signature_input,
)
from waypost.wire import message_properties, user_header
from waypost.wire.algorithms import HashAlgorithm
from waypost.wire.base_header import BaseHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import (
    MqfAddressHeader,
    MqfDirectQueueFormatName,
    MqfFormatNameElement,
    MqfSignatureHeader,
    MultiQueueFormatHeader,
)
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
)
from waypost.wire.security_header import SecurityHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

SIG10, SIG20, SIG30 = SignatureVersion
SOURCE = bytes(range(0x10, 0x20))
CONNECTOR = bytes(range(0x30, 0x40))
PUBLIC = bytes(range(0x40, 0x50))
LISTED = bytes(range(0x50, 0x60))

FIRST = (
    b"correlation-20-bytes"
    + bytes.fromhex("44332211")
    + b"the body"
    + bytes.fromhex("4c00 6200 0000")  # Label with its null
    + bytes.fromhex("0a00 4f00 5300 3a00 6100 0000")  # ResponseQueue: Count, "OS:a", null, no padding
    + PUBLIC  # AdminQueue
)
LATER = (
    SOURCE
    + bytes.fromhex("01 05 02 0d")  # DM, PR, JP << 1 | JN, Flags & 0x0F
    + bytes.fromhex("cdab 08000000")  # MessageClass, BodyType
    + CONNECTOR
)
LISTS = (
    bytes.fromhex("0100") + LISTED  # destinations
    + bytes.fromhex("0300 4f00 0000")
    + bytes.fromhex("0200") + SOURCE + bytes.fromhex("07000000")  # administration
    + bytes.fromhex("0100") + PUBLIC  # response
)  # fmt: skip


def signed_message() -> UserMessage:
    """Every property differs, and every padding has bytes that would show."""
    return UserMessage(
        base=BaseHeader(flags=5),
        user=UserHeader(
            source_queue_manager=SOURCE,
            flags=user_header.MP | user_header.RECOVERABLE << user_header.DM_SHIFT | user_header.JP,
            destination_queue=PrivateQueueFormatNameId(0x99),
            admin_queue=PublicQueueFormatName(PUBLIC),
            response_queue=DirectQueueFormatName("OS:a", b"\xee"),
            connector_type=CONNECTOR,
        ),
        properties=MessagePropertiesHeader(
            flags=0xFD,
            message_class=0xABCD,
            correlation_id=b"correlation-20-bytes",
            body_type=8,
            application_tag=0x11223344,
            hash_algorithm=HashAlgorithm.SHA_256,
            label="Lb",
            extension_data=b"extension",
            message_body=b"the body",
            padding=b"\xee",
        ),
        security=SecurityHeader(sender_cert=b"cert"),
        multi_queue=MultiQueueFormatHeader(
            MqfAddressHeader(
                elements=[
                    MqfFormatNameElement(PublicQueueFormatName(LISTED), b"\xee\xee"),
                    MqfFormatNameElement(MqfDirectQueueFormatName("O")),
                ],
                padding=b"\xee\xee",
            ),
            MqfAddressHeader(elements=[MqfFormatNameElement(PrivateQueueFormatName(SOURCE, 7), b"\xee\xee")]),
            MqfAddressHeader(elements=[MqfFormatNameElement(PublicQueueFormatName(PUBLIC), b"\xee\xee")]),
        ),
    )


def signed_with(security: bytes, multi_queue: bytes) -> UserMessage:
    message = signed_message()
    assert message.security is not None
    assert message.multi_queue is not None
    message.security.signature = security
    message.multi_queue.signature = MqfSignatureHeader(signature=multi_queue)
    return message


@pytest.mark.spec("MQMQ-2.5.1-01", "MQMQ-6-01")
def test_msmq_1_0_hashes_six_properties_in_order() -> None:
    assert signature_input(signed_message(), SIG10) == FIRST


@pytest.mark.spec("MQMQ-2.5.2-01", "MQMQ-6-01")
def test_msmq_2_0_adds_nine_properties_and_ends_with_the_destination() -> None:
    assert signature_input(signed_message(), SIG20) == FIRST + LATER + bytes.fromhex("99000000")


@pytest.mark.spec("MQMQ-2.5.3-01", "MQMQ-6-01")
def test_msmq_3_0_has_the_extension_and_the_lists_and_no_destination() -> None:
    message = signed_message()
    assert signature_input(message, SIG30) == FIRST + b"extension" + LISTS + LATER
    message.user.destination_queue = None
    assert signature_input(message, SIG30) == FIRST + b"extension" + LISTS + LATER


@pytest.mark.spec("MQMQ-2.5.2-01", "MQMQ-2.5.3-01")
@pytest.mark.parametrize(
    ("flags", "journal"),
    [(0, 0), (user_header.JN, 1), (user_header.JP, 2), (user_header.JP | user_header.JN, 3)],
)
def test_the_two_journal_bits_make_one_byte(flags: int, journal: int) -> None:
    message = signed_message()
    message.user.flags = user_header.MP | flags
    packed = LATER[:16] + bytes([0, 5, journal, 0x0D]) + LATER[20:]
    assert signature_input(message, SIG20) == FIRST + packed + bytes.fromhex("99000000")
    assert signature_input(message, SIG30) == FIRST + b"extension" + LISTS + packed


def test_what_is_absent_gives_no_bytes() -> None:
    message = UserMessage()
    first = bytes(20) + bytes(4)
    later = bytes(16) + bytes.fromhex("00 03 00 00 0000 00000000")
    assert signature_input(message, SIG10) == first
    assert signature_input(message, SIG20) == signature_input(message, SIG30) == first + later


def test_a_destination_by_direct_name_is_hashed_without_padding() -> None:
    message = signed_message()
    message.user.destination_queue = DirectQueueFormatName("TCP:1", b"\xee\xee")
    name = bytes.fromhex("0c00 5400 4300 5000 3a00 3100 0000")
    assert signature_input(message, SIG20) == FIRST + LATER + name


@settings(max_examples=50)
@given(user_messages(), st.sampled_from(SignatureVersion))
def test_a_message_has_the_same_input_when_it_arrives(message: UserMessage, version: SignatureVersion) -> None:
    assert signature_input(UserMessage.decode(message.encode()), version) == signature_input(message, version)


@pytest.mark.parametrize(
    ("algorithm", "hexadecimal"),
    [
        (HashAlgorithm.MD5, "900150983cd24fb0d6963f7d28e17f72"),
        (HashAlgorithm.SHA_1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (HashAlgorithm.SHA_256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            HashAlgorithm.SHA_512,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
    ],
)
def test_the_hashes_give_the_published_values(algorithm: HashAlgorithm, hexadecimal: str) -> None:
    assert digest(algorithm, b"abc").hex() == hexadecimal


@pytest.mark.parametrize(
    ("algorithm", "hexadecimal"),
    [(HashAlgorithm.MD2, "da853b0d3f88d99b30283a69e6ded6bb"), (HashAlgorithm.MD4, "a448017aaf21d8525fc10ae87aa6729d")],
)
def test_a_hash_that_the_platform_lacks_fails_the_authentication(algorithm: HashAlgorithm, hexadecimal: str) -> None:
    try:
        found = digest(algorithm, b"abc").hex()
    except AuthenticationFailed as error:
        assert str(error) == f"this computer does not support {algorithm.name}, which the signature uses"
        assert error.hresult is HResult.MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX
    else:
        assert found == hexadecimal


@pytest.mark.spec("MQMQ-2.2.19.3-16")
def test_an_undefined_hash_fails_only_a_signed_message() -> None:
    defined = {0x8001: "MD2", 0x8002: "MD4", 0x8003: "MD5", 0x8004: "SHA_1", 0x800C: "SHA_256", 0x800E: "SHA_512"}
    assert {algorithm.value: algorithm.name for algorithm in HashAlgorithm} == defined
    signed, unsigned = signed_with(b"signature", b""), signed_with(b"", b"")
    for number in (*range(0x7FF0, 0x8020), 0, 0xFFFF_FFFF):
        signed.properties.hash_algorithm = unsigned.properties.hash_algorithm = number
        assert claimed_signature(unsigned) is None
        assert claimed_signature(replace(signed, security=None)) is None
        if number in defined:
            assert claimed_signature(signed) is not None
        else:
            with pytest.raises(AuthenticationFailed, match="HashAlgorithm"):
                claimed_signature(signed)


# readings MQMQ 3.19: the field is looked at when the message is signed. That of an encrypted body is in test_ciphers.
@pytest.mark.spec("MQMQ-2.2.19.3-15")
def test_an_undefined_privacy_level_is_an_authentication_failure() -> None:
    signed, unsigned = signed_with(b"signature", b""), signed_with(b"", b"")
    for number in (*range(16), 0xFFFF_FFFF):
        signed.properties.privacy_level = unsigned.properties.privacy_level = number
        assert claimed_signature(unsigned) is None
        if number in (0, 1, 3, 5):
            assert claimed_signature(signed) is not None
        else:
            with pytest.raises(AuthenticationFailed, match=f"PrivacyLevel {number} "):
                claimed_signature(signed)


@pytest.mark.spec("MQMQ-2.2.19.3-17")
@pytest.mark.parametrize("version", SignatureVersion)
def test_a_signature_is_made_with_sha_512(version: SignatureVersion) -> None:
    message = signed_message()
    bodies = [message.properties.message_body, b"", b"another"]
    made = digests_to_sign(message, bodies, version)
    assert message.properties.hash_algorithm == 0x0000_800E
    for body, found in zip(bodies, made, strict=True):
        message.properties.message_body = body
        assert found == hashlib.sha512(signature_input(message, version)).digest()


def test_a_signature_holds_the_hash_that_the_message_names_over_the_properties_of_its_type() -> None:
    message = signed_message()
    inputs = {SIG10: FIRST, SIG20: FIRST + LATER + b"\x99\0\0\0", SIG30: FIRST + b"extension" + LISTS + LATER}
    names = {0x8003: "md5", 0x8004: "sha1", 0x800C: "sha256", 0x800E: "sha512"}
    for version, data in inputs.items():
        for number, name in names.items():
            message.properties.hash_algorithm = number
            assert signature_digest(message, version) == hashlib.new(name, data).digest()


@pytest.mark.spec("MQMQ-6-02")
@pytest.mark.parametrize(("default", "name"), [(0x8003, "md5"), (0x8004, "sha1"), (0x800E, "sha512")])
def test_the_default_hash_of_every_windows_can_be_verified(default: int, name: str) -> None:
    received = signed_with(b"signature", b"")
    (made,) = digests_to_sign(received, [received.properties.message_body], SIG20, HashAlgorithm(default))
    assert made == hashlib.new(name, FIRST + LATER + b"\x99\0\0\0").digest()
    assert received.properties.hash_algorithm == default
    assert claimed_signature(received) is not None
    assert signature_digest(UserMessage.decode(received.encode()), SIG20) == made


def test_the_signature_of_a_single_destination_is_tried_as_2_0_and_then_as_1_0() -> None:
    assert claimed_signature(signed_with(b"one", b"")) == ClaimedSignature(b"one", (SIG20, SIG10))
    assert claimed_signature(signed_with(b"one", b"many")) == ClaimedSignature(b"one", (SIG20, SIG10))


@pytest.mark.spec("MQMQ-2.2.20.3-02")
def test_the_signature_of_several_destinations_is_one_of_3_0() -> None:
    message = signed_with(b"", b"many")
    claim = claimed_signature(message)
    assert claim == ClaimedSignature(b"many", (SIG30,))
    (version,) = claim.versions
    expected = hashlib.sha256(FIRST + b"extension" + LISTS + LATER).digest()
    assert signature_digest(message, version) == expected
    message.properties.hash_algorithm = 0
    with pytest.raises(AuthenticationFailed, match="HashAlgorithm"):
        claimed_signature(message)


@settings(max_examples=50)
@given(user_messages(), st.sampled_from(HashAlgorithm) | st.integers(0, 0xFFFF_FFFF))
def test_any_message_is_unsigned_or_claims_a_signature_or_fails(message: UserMessage, number: int) -> None:
    message.properties.hash_algorithm = number
    try:
        claim = claimed_signature(message)
        digests = claimed_digests(message, claim) if claim else ()
    except AuthenticationFailed:
        return
    assert all(len(found) >= 16 for found in digests)
    assert claim is None or digests == tuple(signature_digest(message, version) for version in claim.versions)


def test_the_mask_of_the_flags_covers_all_acknowledgments() -> None:
    message = signed_message()
    for bit in (message_properties.PA, message_properties.PR, message_properties.NA, message_properties.NR):
        message.properties.flags = 0xF0 | bit
        assert signature_input(message, SIG20)[len(FIRST) + 19] == bit
