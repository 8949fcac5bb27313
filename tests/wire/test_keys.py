"""MS-MQMQ 2.2.1, 2.2.2 and MS-MQQB 2.4."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_RSA_MODULUS
from waypost.wire.keys import (
    KeyType,
    MqDsPublicKey,
    MqDsPublicKeys,
    ProviderType,
    PublicKeyBlob,
    SessionKeyAlgorithm,
    SimpleBlob,
)

MODULUS = bytes(range(1, 65))
BLOB = bytes.fromhex("06020000 00a40000 52534131 00020000 01000100") + MODULUS
KEY = PublicKeyBlob(KeyType.CALG_RSA_KEYX, 65537, MODULUS)

NAME = "Contoso".encode("utf-16-le") + b"\0\0"
PUBLIC_KEY_BYTES = bytes.fromhex("54000000 10000000 01000000") + NAME + BLOB
PUBLIC_KEY = MqDsPublicKey(ProviderType.PROV_RSA_FULL, "Contoso", KEY)

SIMPLE = bytes.fromhex("01020000 0e660000 00a40000") + MODULUS

moduli = st.binary(min_size=1, max_size=300)
exponents = st.integers(0, 0xFFFF_FFFF)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
encryption_keys = st.builds(PublicKeyBlob, st.just(KeyType.CALG_RSA_KEYX), exponents, moduli)
public_keys = st.builds(MqDsPublicKey, st.sampled_from(ProviderType), names, encryption_keys)


@pytest.mark.spec("MQQB-2.4.1-01")
def test_a_public_key_blob_is_20_bytes_and_the_modulus() -> None:
    assert PublicKeyBlob.decode(b"\xff" + BLOB + b"\xff", 1) == (KEY, 1 + len(BLOB))
    assert KEY.encode() == BLOB
    for bits in (8, 512, 1024, 2048, 8 * MAX_RSA_MODULUS):
        data = PublicKeyBlob(KeyType.CALG_RSA_KEYX, 3, b"\xff" * (bits // 8)).encode()
        assert data[:12] == bytes.fromhex("06020000 00a40000 52534131")
        assert data[12:20] == bits.to_bytes(4, "little") + b"\x03\0\0\0"
        assert len(data) == 20 + bits // 8


@pytest.mark.spec("MQQB-2.4.1-02")
def test_the_modulus_is_little_endian_and_as_long_as_bit_len_says() -> None:
    modulus = 0x80112233_44556677_8899AABB_CCDDEEFF << 896 | 0x0102_0304_0507
    assert modulus.bit_length() == 1024
    key = PublicKeyBlob.from_numbers(KeyType.CALG_RSA_KEYX, 65537, modulus)
    data = key.encode()
    assert int.from_bytes(data[12:16], "little") == 1024
    assert int.from_bytes(data[16:20], "little") == 65537
    assert data[20:26] == bytes.fromhex("070504030201")
    assert data[-4:] == bytes.fromhex("33221180")
    assert key.modulus_number == modulus
    with pytest.raises(DecodeError, match="modulus at offset 20"):
        PublicKeyBlob.decode(data[:-1], 0)


@pytest.mark.parametrize("bit_len", [0, 7, 511, 8 * MAX_RSA_MODULUS + 8, 0xFFFF_FFF8])
def test_a_modulus_that_is_empty_or_uneven_or_endless_is_refused(bit_len: int) -> None:
    with pytest.raises(DecodeError, match="bitLen at offset 12"):
        PublicKeyBlob.decode(BLOB[:12] + bit_len.to_bytes(4, "little") + BLOB[16:], 0)


@pytest.mark.parametrize(("at", "field"), [(0, "BLOBHEADER"), (1, "BLOBHEADER"), (2, "BLOBHEADER"), (8, "RSAPUBKEY")])
def test_another_kind_of_blob_is_no_public_key(at: int, field: str) -> None:
    with pytest.raises(DecodeError, match=field):
        PublicKeyBlob.decode(BLOB[:at] + b"\x07" + BLOB[at + 1 :], 0)


@pytest.mark.parametrize("algorithm", [0, 0x2200, 0x2401, 0xA400_0000, 0x0001_A400])
def test_a_key_of_another_algorithm_is_refused(algorithm: int) -> None:
    with pytest.raises(DecodeError, match="aiKeyAlg at offset 4"):
        PublicKeyBlob.decode(BLOB[:4] + algorithm.to_bytes(4, "little") + BLOB[8:], 0)


@pytest.mark.parametrize(
    "key",
    [
        PublicKeyBlob(KeyType.CALG_RSA_SIGN, 1 << 32, MODULUS),
        PublicKeyBlob(KeyType.CALG_RSA_SIGN, 3, b""),
        PublicKeyBlob(KeyType.CALG_RSA_SIGN, 3, bytes(MAX_RSA_MODULUS + 1)),
    ],
)
def test_a_key_that_does_not_fit_cannot_be_written(key: PublicKeyBlob) -> None:
    with pytest.raises(EncodeError):
        key.encode()


@given(st.sampled_from(KeyType), exponents, st.integers(1, (1 << 2048) - 1))
def test_a_key_made_of_numbers_comes_back_from_its_bytes(key_type: KeyType, exponent: int, modulus: int) -> None:
    key = PublicKeyBlob.from_numbers(key_type, exponent, modulus)
    data = key.encode()
    decoded, end = PublicKeyBlob.decode(data, 0)
    assert (decoded, end) == (key, len(data))
    assert (decoded.key_type, decoded.pub_exp, decoded.modulus_number) == (key_type, exponent, modulus)


@pytest.mark.spec("MQQB-2.4.2-01")
def test_a_simple_blob_is_12_bytes_and_the_encrypted_key() -> None:
    blob = SimpleBlob(SessionKeyAlgorithm.AES_128, MODULUS)
    assert SimpleBlob.decode(SIMPLE) == blob
    assert blob.encode() == SIMPLE
    for at, field in ((0, "BLOBHEADER"), (1, "BLOBHEADER"), (3, "BLOBHEADER"), (9, "SIMPLEBLOB")):
        with pytest.raises(DecodeError, match=field):
            SimpleBlob.decode(SIMPLE[:at] + b"\x24" + SIMPLE[at + 1 :])


@pytest.mark.spec("MQQB-2.4.2-02")
def test_the_five_session_key_algorithms() -> None:
    numbers = {"AES_128": 0x660E, "AES_192": 0x660F, "AES_256": 0x6610, "RC2": 0x6602, "RC4": 0x6801}
    assert {algorithm.name: algorithm.value for algorithm in SessionKeyAlgorithm} == numbers
    for number in numbers.values():
        data = SIMPLE[:4] + number.to_bytes(4, "little") + SIMPLE[8:]
        assert SimpleBlob.decode(data).session_key_algorithm == number
        assert SimpleBlob.decode(data).encode() == data
    for number in (0, 0x6601, 0x6611, 0xA400, 0x0001_6801):
        with pytest.raises(DecodeError, match="sessionKeyAlgorithm at offset 4"):
            SimpleBlob.decode(SIMPLE[:4] + number.to_bytes(4, "little") + SIMPLE[8:])


def test_the_encrypted_key_is_the_ciphertext_backwards_and_as_long() -> None:
    for length in (64, 128, 256, MAX_RSA_MODULUS):
        ciphertext = bytes(index % 251 for index in range(length))
        blob = SimpleBlob.from_ciphertext(SessionKeyAlgorithm.RC4, ciphertext)
        assert len(blob.encode()) == 12 + length
        assert blob.encode()[12:] == ciphertext[::-1]
        assert SimpleBlob.decode(blob.encode()).ciphertext == ciphertext


@pytest.mark.parametrize("length", [0, MAX_RSA_MODULUS + 1])
def test_an_encrypted_key_that_no_rsa_key_makes_is_refused(length: int) -> None:
    with pytest.raises(DecodeError, match="encryptedKey at offset 12"):
        SimpleBlob.decode(SIMPLE[:12] + bytes(length))
    with pytest.raises(EncodeError, match="encryptedKey"):
        SimpleBlob(SessionKeyAlgorithm.AES_128, bytes(length)).encode()


@pytest.mark.spec("MQMQ-2.2.1-01")
def test_a_directory_key_is_two_lengths_a_provider_and_the_key() -> None:
    assert PUBLIC_KEY.encode() == PUBLIC_KEY_BYTES
    assert MqDsPublicKey.decode(b"\xff" + PUBLIC_KEY_BYTES + b"\xff", 1) == (PUBLIC_KEY, 1 + len(PUBLIC_KEY_BYTES))
    assert int.from_bytes(PUBLIC_KEY_BYTES[:4], "little") == len(BLOB) == 84
    assert int.from_bytes(PUBLIC_KEY_BYTES[4:8], "little") == len("Contoso\0".encode("utf-16-le"))
    for at, wrong in ((0, 83), (0, 85), (4, 14), (4, 18), (4, 0), (4, 15)):
        data = PUBLIC_KEY_BYTES[:at] + wrong.to_bytes(4, "little") + PUBLIC_KEY_BYTES[at + 4 :]
        with pytest.raises(DecodeError):
            MqDsPublicKey.decode(data + bytes(4), 0)


@pytest.mark.spec("MQMQ-2.2.1-02")
def test_the_provider_is_rsa_full_or_rsa_aes() -> None:
    for number, provider in ((1, ProviderType.PROV_RSA_FULL), (0x18, ProviderType.PROV_RSA_AES)):
        data = PUBLIC_KEY_BYTES[:8] + number.to_bytes(4, "little") + PUBLIC_KEY_BYTES[12:]
        key, _ = MqDsPublicKey.decode(data, 0)
        assert key.ul_provider_type is provider
        assert key.encode() == data
    for number in (*(set(range(0x20)) - {1, 0x18}), 0x0100_0000, 0x1800_0000, 0xFFFF_FFFF):
        data = PUBLIC_KEY_BYTES[:8] + number.to_bytes(4, "little") + PUBLIC_KEY_BYTES[12:]
        with pytest.raises(DecodeError, match="ulProviderType at offset 8"):
            MqDsPublicKey.decode(data, 0)


@pytest.mark.spec("MQMQ-2.2.1-03")
def test_the_buffer_of_a_directory_key_is_an_encryption_key_blob() -> None:
    buffer = PUBLIC_KEY.encode()[-84:]
    assert buffer[4:8] == bytes.fromhex("00a40000")
    assert PublicKeyBlob.decode(buffer, 0) == (KEY, 84)
    signing = PublicKeyBlob(KeyType.CALG_RSA_SIGN, 65537, MODULUS)
    with pytest.raises(DecodeError, match="aiKeyAlg at offset 32"):
        MqDsPublicKey.decode(PUBLIC_KEY_BYTES[:28] + signing.encode(), 0)
    with pytest.raises(EncodeError, match="aiKeyAlg"):
        MqDsPublicKey(ProviderType.PROV_RSA_AES, "Contoso", signing).encode()


@pytest.mark.spec("MQMQ-2.2.2-01")
def test_directory_keys_are_the_whole_length_a_count_and_packed_keys() -> None:
    data = bytes.fromhex("e8000000 02000000") + PUBLIC_KEY_BYTES + PUBLIC_KEY_BYTES
    assert len(data) == 0xE8
    keys = MqDsPublicKeys((PUBLIC_KEY, PUBLIC_KEY))
    assert MqDsPublicKeys.decode(b"\xff" + data + b"\xff", 1) == (keys, 1 + 0xE8)
    assert keys.encode() == data
    assert MqDsPublicKeys(()).encode() == bytes.fromhex("08000000 00000000")
    for length in (0, 7, 8, 0xE7, 0xE9, 0xFFFF_FFFF):
        with pytest.raises(DecodeError, match=r"ulLen at offset 0|cNumofKeys at offset 4"):
            MqDsPublicKeys.decode(length.to_bytes(4, "little") + data[4:] + b"\xff", 0)
    for count in (0, 1, 3, 0xFFFF_FFFF):
        with pytest.raises(DecodeError):
            MqDsPublicKeys.decode(data[:4] + count.to_bytes(4, "little") + data[8:], 0)


def test_directory_keys_that_are_cut_anywhere_are_refused() -> None:
    data = MqDsPublicKeys((PUBLIC_KEY, PUBLIC_KEY)).encode()
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            MqDsPublicKeys.decode(data[:length], 0)
        # With a ulLen that counts what is left.
        if length >= 8:
            with pytest.raises(DecodeError):
                MqDsPublicKeys.decode(length.to_bytes(4, "little") + data[4:length], 0)
    for record, blob in ((MqDsPublicKey, PUBLIC_KEY_BYTES), (PublicKeyBlob, BLOB)):
        for length in range(len(blob)):
            with pytest.raises(DecodeError):
                record.decode(blob[:length], 0)
    with pytest.raises(DecodeError, match="sProviderName and aBuf at offset 12"):
        MqDsPublicKey.decode(PUBLIC_KEY_BYTES[:-1], 0)
    with pytest.raises(DecodeError, match="must be 8 to 232, not 7"):
        MqDsPublicKeys.decode(b"\x07" + data[1:], 0)


@given(st.lists(public_keys, max_size=3).map(tuple))
def test_directory_keys_come_back_from_their_bytes(keys: tuple[MqDsPublicKey, ...]) -> None:
    data = MqDsPublicKeys(keys).encode()
    assert MqDsPublicKeys.decode(data, 0) == (MqDsPublicKeys(keys), len(data))


@given(st.lists(public_keys, max_size=2).map(tuple), st.data())
def test_damaged_directory_keys_are_keys_or_a_decode_error(
    keys: tuple[MqDsPublicKey, ...], data: st.DataObject
) -> None:
    damaged = bytearray(MqDsPublicKeys(keys).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded, end = MqDsPublicKeys.decode(bytes(damaged), 0)
    except DecodeError:
        return
    assert decoded.encode() == damaged[:end]


@given(st.binary(max_size=64))
def test_any_bytes_are_a_blob_or_a_decode_error(data: bytes) -> None:
    for hostile in (data, SIMPLE[:8] + data):
        with suppress(DecodeError):
            assert SimpleBlob.decode(hostile).encode() == hostile
    for hostile in (data, BLOB[:12] + data):
        with suppress(DecodeError):
            key, end = PublicKeyBlob.decode(hostile, 0)
            assert key.encode() == hostile[:end]
