"""MS-MQMQ 2.2.19.3 PrivacyLevel and EncryptionAlgorithm, MS-MQQB 3.1.7.1.5 and 3.1.5.8.3."""

import pytest
from cryptography.hazmat.decrepit.ciphers.algorithms import RC2
from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.strategies import user_messages
from waypost.errors import DecryptionFailed, InvalidParameter
from waypost.hresult import HResult
from waypost.security.ciphers import (
    BodyEncryption,
    BodySealer,
    body_encryption,
    decrypt_body,
    open_body,
)
from waypost.wire import security_header
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.keys import SessionKeyAlgorithm
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.security_header import SecurityHeader
from waypost.wire.user_message import UserMessage

RC2_ALGORITHM = SessionKeyAlgorithm.RC2
RC4 = SessionKeyAlgorithm.RC4
AES_128 = BodyEncryption(PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_128)
AES_192 = BodyEncryption(PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_192)
AES_256 = BodyEncryption(PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_256)
RC2_40 = BodyEncryption(PrivacyLevel.BASE, RC2_ALGORITHM)
RC2_128 = BodyEncryption(PrivacyLevel.ENHANCED, RC2_ALGORITHM)
RC4_40 = BodyEncryption(PrivacyLevel.BASE, RC4)
RC4_128 = BodyEncryption(PrivacyLevel.ENHANCED, RC4)
OFFERED = [AES_128, AES_192, AES_256, RC2_128, RC4_40, RC4_128]
BLOCK_SIZES = {AES_128: 16, AES_192: 16, AES_256: 16, RC2_128: 8}
BLOB = b"simple blob"

# NIST SP 800-38A F.2, two blocks. Its initialization vector is folded into the first one, so that zero gives the same.
NIST_IV = bytes(range(16))
NIST_PLAIN = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51")
NIST_FOLDED = bytes(a ^ b for a, b in zip(NIST_PLAIN, NIST_IV + bytes(16), strict=True))

encryptions = st.sampled_from(OFFERED)


def key_for(encryption: BodyEncryption) -> bytes:
    return bytes(range(encryption.key_size or 0))


def raw_cipher(encryption: BodyEncryption, key: bytes) -> BlockCipherAlgorithm:
    return RC2(key) if encryption is RC2_128 else AES(key)


def message_with(level: int, algorithm: int, body: bytes, flags: int = security_header.EB) -> UserMessage:
    properties = MessagePropertiesHeader(privacy_level=level, encryption_algorithm=algorithm, message_body=body)
    return UserMessage(properties=properties, security=SecurityHeader(flags, encryption_key=BLOB))


@pytest.mark.parametrize(
    ("encryption", "key", "ciphertext"),
    [
        (
            AES_128,
            "2b7e151628aed2a6abf7158809cf4f3c",
            "7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2",
        ),
        (
            AES_192,
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "4f021db243bc633d7178183a9fa071e8 b4d9ada9ad7dedf4e5e738763f69145a",
        ),
        (
            AES_256,
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f58c4c04d6e5f1ba779eabfb5f7bfbd6 9cfc4e967edb808d679f777bc6702c7d",
        ),
    ],
)
def test_aes_chains_blocks_as_nist_does(encryption: BodyEncryption, key: str, ciphertext: str) -> None:
    sealed = BodySealer(encryption, bytes.fromhex(key), BLOB).encrypt(NIST_FOLDED)
    assert sealed[:32] == bytes.fromhex(ciphertext)
    assert decrypt_body(encryption, bytes.fromhex(key), sealed) == NIST_FOLDED


def test_rc2_of_128_bits_gives_the_block_of_rfc_2268() -> None:
    key = bytes.fromhex("88bca90e90875a7f0f79c384627bafb2")
    assert BodySealer(RC2_128, key, BLOB).encrypt(bytes(8))[:8] == bytes.fromhex("2269552ab0f85ca6")


@pytest.mark.parametrize(
    ("encryption", "key", "stream"),
    [
        (RC4_40, "0102030405", "b2396305f03dc027ccc3524a0a1118a8 6982944f18fc82d589c403a47a0d0919"),
        (
            RC4_128,
            "0102030405060708090a0b0c0d0e0f10",
            "9ac7cc9a609d1ef7b2932899cde41b97 5248c4959014126a6e8a84f11d1a9e1c",
        ),
    ],
)
def test_rc4_of_40_and_128_bits_gives_the_streams_of_rfc_6229(
    encryption: BodyEncryption, key: str, stream: str
) -> None:
    assert BodySealer(encryption, bytes.fromhex(key), BLOB).encrypt(bytes(32)) == bytes.fromhex(stream)
    assert decrypt_body(encryption, bytes.fromhex(key), bytes(32)) == bytes.fromhex(stream)


@pytest.mark.spec("MQMQ-2.2.19.3-20")
@pytest.mark.parametrize("encryption", BLOCK_SIZES)
def test_block_ciphers_use_a_zero_vector_and_pkcs_5_padding(encryption: BodyEncryption) -> None:
    key, block = key_for(encryption), BLOCK_SIZES[encryption]
    raw = raw_cipher(encryption, key)
    for size in range(2 * block + 1):
        body = bytes(range(100, 100 + size))
        sealed = BodySealer(encryption, key, BLOB).encrypt(body)
        fill = block - size % block
        assert Cipher(raw, CBC(bytes(block))).decryptor().update(sealed) == body + bytes([fill]) * fill
        assert decrypt_body(encryption, key, sealed) == body


@pytest.mark.parametrize("encryption", BLOCK_SIZES)
def test_bad_padding_and_broken_blocks_fail_to_decrypt(encryption: BodyEncryption) -> None:
    key, block = key_for(encryption), BLOCK_SIZES[encryption]
    raw = raw_cipher(encryption, key)
    for end in (b"\x00", b"\x03\x02", bytes([block + 1]), b"\xff"):
        clear = bytes(block - len(end)) + end
        sealed = Cipher(raw, CBC(bytes(block))).encryptor().update(clear)
        with pytest.raises(DecryptionFailed):
            decrypt_body(encryption, key, sealed)
    for size in (0, 1, block - 1, block + 1):
        with pytest.raises(DecryptionFailed):
            decrypt_body(encryption, key, bytes(size))


@pytest.mark.spec("MQMQ-2.2.19.3-15")
@pytest.mark.parametrize(
    ("level", "algorithm", "bits"),
    [
        (1, 0x6602, 40),
        (1, 0x6801, 40),
        (3, 0x6602, 128),
        (3, 0x6801, 128),
        (5, 0x660E, 128),
        (5, 0x660F, 192),
        (5, 0x6610, 256),
    ],
)
def test_level_1_has_keys_of_40_bits_level_3_of_128_and_level_5_those_of_aes(
    level: int, algorithm: int, bits: int
) -> None:
    encryption = body_encryption(message_with(level, algorithm, b""))
    assert encryption is not None
    assert encryption.key_size == bits // 8
    short_keys = {5} if encryption == RC2_128 else set()
    for size in set(range(40)) - {bits // 8} - short_keys:
        with pytest.raises(InvalidParameter, match=f"requires a key of {bits // 8} bytes, not {size}$"):
            BodySealer(encryption, bytes(size), BLOB).seal(UserMessage())
        if level == 1 and size == 16:
            # Of level 1 the longer keys of level 3 are understood, too.
            continue
        with pytest.raises(DecryptionFailed, match=f"requires a key of {bits // 8} bytes, not {size}$"):
            open_body(message_with(level, algorithm, bytes(16)), bytes(size))
    if encryption in OFFERED:
        BodySealer(encryption, bytes(bits // 8), BLOB).seal(UserMessage())


def test_rc2_of_40_bits_is_not_offered() -> None:
    with pytest.raises(InvalidParameter, match="RC2"):
        BodySealer(RC2_40, bytes(5), BLOB).seal(UserMessage())
    with pytest.raises(DecryptionFailed, match="RC2"):
        open_body(message_with(1, RC2_ALGORITHM, bytes(16)), bytes(5))


@given(
    st.builds(BodyEncryption, st.sampled_from(PrivacyLevel), st.sampled_from(SessionKeyAlgorithm)),
    st.binary(max_size=40),
    st.binary(max_size=64),
)
def test_any_key_and_body_decrypt_or_fail(encryption: BodyEncryption, key: bytes, body: bytes) -> None:
    try:
        assert len(decrypt_body(encryption, key, body)) <= len(body)
    except DecryptionFailed as error:
        assert error.hresult is HResult.MQ_ERROR_CORRUPTED_SECURITY_DATA


@pytest.mark.spec("MQMQ-2.2.19.3-18")
def test_an_undefined_algorithm_fails_only_an_encrypted_body() -> None:
    defined = {0x6602: 3, 0x6801: 3, 0x660E: 5, 0x660F: 5, 0x6610: 5}
    for algorithm, level in defined.items():
        found = body_encryption(message_with(level, algorithm, b""))
        assert found == BodyEncryption(PrivacyLevel(level), SessionKeyAlgorithm(algorithm))
    for algorithm in (*range(0x6600, 0x6900), 0, 1, 0xFFFF_FFFF):
        if algorithm not in defined:
            with pytest.raises(DecryptionFailed, match="EncryptionAlgorithm"):
                body_encryption(message_with(PrivacyLevel.ENHANCED, algorithm, b""))
            assert body_encryption(message_with(PrivacyLevel.ENHANCED, algorithm, b"", flags=0)) is None


@pytest.mark.spec("MQMQ-2.2.19.3-19")
def test_each_privacy_level_allows_its_own_algorithms() -> None:
    allowed = {1: {0x6602, 0x6801}, 3: {0x6602, 0x6801}, 5: {0x660E, 0x660F, 0x6610}}
    for level, algorithms in allowed.items():
        for algorithm in SessionKeyAlgorithm:
            message = message_with(level, algorithm, b"")
            encryption = BodyEncryption(PrivacyLevel(level), algorithm)
            if algorithm in algorithms:
                assert body_encryption(message) == encryption
                continue
            with pytest.raises(DecryptionFailed, match=f"does not allow {algorithm.name}"):
                body_encryption(message)
            with pytest.raises(InvalidParameter, match=f"does not allow {algorithm.name}"):
                BodySealer(encryption, bytes(16), BLOB).seal(UserMessage())
    for encryption in OFFERED:
        BodySealer(encryption, key_for(encryption), BLOB).seal(UserMessage())


@pytest.mark.spec("MQQB-3.1.5.8.3-10")
def test_the_privacy_level_of_an_encrypted_body_selects_the_provider() -> None:
    names = {
        (0x1, RC4): "Microsoft Base Cryptographic Provider v1.0",
        (0x3, RC4): "Microsoft Enhanced Cryptographic Provider v1.0",
        (0x5, SessionKeyAlgorithm.AES_256): "Microsoft Enhanced RSA and AES Cryptographic Provider",
    }
    for (level, algorithm), name in names.items():
        encryption = body_encryption(message_with(level, algorithm, b""))
        assert encryption is not None
        assert encryption.provider == name


@pytest.mark.parametrize("level", [0, 2, 4, 6, 0xFFFF_FFFF])
def test_no_other_privacy_level_goes_with_an_encrypted_body(level: int) -> None:
    with pytest.raises(DecryptionFailed, match="PrivacyLevel"):
        body_encryption(message_with(level, RC4, b""))
    assert body_encryption(message_with(level, RC4, b"", flags=0)) is None


def test_a_body_is_not_sealed_at_level_none() -> None:
    with pytest.raises(InvalidParameter, match="NONE does not allow RC4"):
        BodySealer(BodyEncryption(PrivacyLevel.NONE, RC4), bytes(16), BLOB).seal(UserMessage())


@pytest.mark.spec("MQMQ-2.2.20.6-05")
@given(encryptions, st.binary(max_size=40))
def test_eb_tells_that_the_body_travels_as_ciphertext(encryption: BodyEncryption, body: bytes) -> None:
    key = key_for(encryption)
    message = UserMessage(properties=MessagePropertiesHeader(message_body=body))
    BodySealer(encryption, key, BLOB).seal(message)
    arrived = UserMessage.decode(message.encode())
    assert arrived.security == SecurityHeader(security_header.EB, encryption_key=BLOB, padding=b"\0")
    assert arrived.properties.allocated_body == BodySealer(encryption, key, BLOB).encrypt(body)
    assert arrived.properties.privacy_level == encryption.privacy_level
    assert arrived.properties.encryption_algorithm == encryption.algorithm
    open_body(arrived, key)
    assert arrived.properties.message_body == arrived.properties.allocated_body == body
    assert not arrived.security.is_body_encrypted
    open_body(arrived, key)
    assert arrived.properties.message_body == body


@pytest.mark.spec("MQQB-3.1.5.8.3-16")
@given(encryptions, st.binary(max_size=40))
def test_a_body_is_decrypted_with_the_algorithm_that_the_message_names(encryption: BodyEncryption, body: bytes) -> None:
    key = key_for(encryption)
    sealed = BodySealer(encryption, key, BLOB).encrypt(body)
    if encryption.privacy_level is PrivacyLevel.ADVANCED:
        chained = Cipher(AES(key), CBC(bytes(16))).decryptor().update(sealed)
        assert chained[: len(body)] == body
    message = message_with(encryption.privacy_level, encryption.algorithm, sealed)
    open_body(message, key)
    assert message.properties.message_body == body


@pytest.mark.parametrize("encryption", [RC4_128, AES_128])
def test_the_body_ends_at_message_size(encryption: BodyEncryption) -> None:
    sealed = BodySealer(encryption, bytes(16), BLOB).encrypt(b"body and what was allocated behind it")
    message = message_with(encryption.privacy_level, encryption.algorithm, sealed[:4])
    message.properties.allocation_remainder = sealed[4:]
    open_body(message, bytes(16))
    assert message.properties.allocated_body == b"body"


def test_a_message_that_does_not_decrypt_stays_as_it_came() -> None:
    message = message_with(PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_256, bytes(32))
    before = message.encode()
    with pytest.raises(DecryptionFailed):
        open_body(message, bytes(32))
    assert message.encode() == before


@settings(max_examples=50)
@given(user_messages())
def test_any_message_opens_or_fails_to_decrypt(message: UserMessage) -> None:
    before = message.encode()
    clear = message.security is None or not message.security.is_body_encrypted
    try:
        open_body(message, bytes(16))
        assert not clear or message.encode() == before
    except DecryptionFailed:
        assert not clear


@pytest.mark.spec("MQQB-3.1.7.1.5-08")
def test_a_40_bit_rc2_key_of_the_enhanced_provider_gets_88_zero_bits() -> None:
    key = b"\x01\x02\x03\x04\x05"
    message = UserMessage(properties=MessagePropertiesHeader(message_body=b"body"))
    BodySealer(RC2_128, key, b"blob").seal(message)
    assert message.properties.allocated_body == BodySealer(RC2_128, key + bytes(11), BLOB).encrypt(b"body")
    open_body(message, key)
    assert message.properties.message_body == b"body"
    with pytest.raises(InvalidParameter):
        BodySealer(RC2_40, key, b"blob").seal(message)
