"""Key blobs: MQDSPUBLICKEY and MQDSPUBLICKEYS (MS-MQMQ 2.2.1, 2.2.2), PUBLICKEYBLOB and SIMPLEBLOB (MS-MQQB 2.4).

CryptoAPI writes the numbers of RSA with the least significant byte first, everyone else with the most significant. The
records hold the bytes of the blob, and offer the usual form beside them.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_RSA_MODULUS
from waypost.wire.codec import cut_short, decode_text, encode_text

PUBLIC_KEY_BLOB_SECTION: Final = "MS-MQQB 2.4.1"
SIMPLE_BLOB_SECTION: Final = "MS-MQQB 2.4.2"
PUBLIC_KEY_SECTION: Final = "MS-MQMQ 2.2.1"
PUBLIC_KEYS_SECTION: Final = "MS-MQMQ 2.2.2"

# BLOBHEADER: bType, bVersion, reserved.
PUBLIC_KEY_BLOB_HEADER: Final = b"\x06\x02\x00\x00"
SIMPLE_BLOB_HEADER: Final = b"\x01\x02\x00\x00"
RSA1: Final = b"RSA1"

PUBLIC_KEY_BLOB: Final = Struct("<4sI4sII")
SIMPLE_BLOB: Final = Struct("<4sII")
PUBLIC_KEY: Final = Struct("<III")
PUBLIC_KEYS: Final = Struct("<II")

# An MQDSPUBLICKEY with an empty provider name and a modulus of one byte.
SMALLEST_PUBLIC_KEY: Final = PUBLIC_KEY.size + 2 + PUBLIC_KEY_BLOB.size + 1


class KeyType(IntEnum):
    """MS-MQMQ 2.2.20.6 Key Type: what an RSA key is for."""

    CALG_RSA_SIGN = 0x0000_2400
    CALG_RSA_KEYX = 0x0000_A400


class ProviderType(IntEnum):
    """MS-MQMQ 2.2.1 ulProviderType."""

    PROV_RSA_FULL = 0x0000_0001
    PROV_RSA_AES = 0x0000_0018


class SessionKeyAlgorithm(IntEnum):
    """MS-MQQB 2.4.2 sessionKeyAlgorithm."""

    AES_128 = 0x0000_660E
    AES_192 = 0x0000_660F
    AES_256 = 0x0000_6610
    RC2 = 0x0000_6602
    RC4 = 0x0000_6801


@dataclass(frozen=True, slots=True)
class PublicKeyBlob:
    """MS-MQQB 2.4.1 PUBLICKEYBLOB, also the key layout of MS-MQMQ 2.2.20.6. bitLen follows from the modulus."""

    key_type: KeyType
    pub_exp: int
    modulus: bytes

    @classmethod
    def from_numbers(cls, key_type: KeyType, exponent: int, modulus: int) -> "PublicKeyBlob":
        """The e and n of RFC 8017. The modulus gets zero bits above it up to a whole byte."""
        return cls(key_type, exponent, modulus.to_bytes((modulus.bit_length() + 7) // 8, "little"))

    @property
    def modulus_number(self) -> int:
        """The n of RFC 8017."""
        return int.from_bytes(self.modulus, "little")

    @property
    def numbers(self) -> tuple[int, int]:
        """The e and n of RFC 8017: two blobs with the same are the same key, whatever it is for."""
        return self.pub_exp, self.modulus_number

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[PublicKeyBlob, int]":
        start = at + PUBLIC_KEY_BLOB.size
        if len(buf) < start:
            raise cut_short(PUBLIC_KEY_BLOB_SECTION, "PUBLICKEYBLOB", at, len(buf))
        blob_header, algorithm, magic, bit_len, pub_exp = PUBLIC_KEY_BLOB.unpack_from(buf, at)
        if blob_header != PUBLIC_KEY_BLOB_HEADER:
            raise DecodeError(PUBLIC_KEY_BLOB_SECTION, "BLOBHEADER", at, "must start with 06 02 00 00")
        try:
            key_type = KeyType(algorithm)
        except ValueError:
            reason = f"0x{algorithm:08X} is not an RSA key"
            raise DecodeError(PUBLIC_KEY_BLOB_SECTION, "aiKeyAlg", at + 4, reason) from None
        if magic != RSA1:
            raise DecodeError(PUBLIC_KEY_BLOB_SECTION, "RSAPUBKEY", at + 8, "must start with RSA1")
        length, odd_bits = divmod(bit_len, 8)
        if odd_bits or not 1 <= length <= MAX_RSA_MODULUS:
            reason = f"must be a whole number of bytes from 1 to {MAX_RSA_MODULUS}, not {bit_len} bits"
            raise DecodeError(PUBLIC_KEY_BLOB_SECTION, "bitLen", at + 12, reason)
        end = start + length
        if len(buf) < end:
            raise cut_short(PUBLIC_KEY_BLOB_SECTION, "modulus", start, len(buf))
        return cls(key_type, pub_exp, buf[start:end]), end

    def encode(self) -> bytes:
        if not 1 <= len(self.modulus) <= MAX_RSA_MODULUS:
            reason = f"must have 1 to {MAX_RSA_MODULUS} bytes, not {len(self.modulus)}"
            raise EncodeError(PUBLIC_KEY_BLOB_SECTION, "modulus", reason)
        if self.pub_exp >> 32:
            raise EncodeError(PUBLIC_KEY_BLOB_SECTION, "pubExp", "must have at most 32 bits")
        bit_len = 8 * len(self.modulus)
        fixed = PUBLIC_KEY_BLOB.pack(PUBLIC_KEY_BLOB_HEADER, self.key_type, RSA1, bit_len, self.pub_exp)
        return fixed + self.modulus


@dataclass(frozen=True, slots=True)
class SimpleBlob:
    """MS-MQQB 2.4.2 SIMPLEBLOB: a session key, encrypted. It fills its field and has no length field.

    `encrypted_key` is as long as the modulus of the receiver's key (readings MQQB 3.23; the figure shows 256 bytes).
    """

    session_key_algorithm: SessionKeyAlgorithm
    encrypted_key: bytes

    @classmethod
    def from_ciphertext(cls, session_key_algorithm: SessionKeyAlgorithm, ciphertext: bytes) -> "SimpleBlob":
        """From the octet string of RFC 8017 7.2.1."""
        return cls(session_key_algorithm, ciphertext[::-1])

    @property
    def ciphertext(self) -> bytes:
        """The octet string of RFC 8017 7.2.2."""
        return self.encrypted_key[::-1]

    @classmethod
    def decode(cls, data: bytes) -> "SimpleBlob":
        if len(data) < SIMPLE_BLOB.size:
            raise cut_short(SIMPLE_BLOB_SECTION, "SIMPLEBLOB", 0, len(data))
        blob_header, number, key_algorithm = SIMPLE_BLOB.unpack_from(data)
        if blob_header != SIMPLE_BLOB_HEADER:
            raise DecodeError(SIMPLE_BLOB_SECTION, "BLOBHEADER", 0, "must start with 01 02 00 00")
        try:
            session_key_algorithm = SessionKeyAlgorithm(number)
        except ValueError:
            reason = f"0x{number:08X} is not an algorithm"
            raise DecodeError(SIMPLE_BLOB_SECTION, "sessionKeyAlgorithm", 4, reason) from None
        if key_algorithm != KeyType.CALG_RSA_KEYX:
            reason = f"the key must be encrypted with algorithm 0x0000A400, not 0x{key_algorithm:08X}"
            raise DecodeError(SIMPLE_BLOB_SECTION, "SIMPLEBLOB", 8, reason)
        length = len(data) - SIMPLE_BLOB.size
        if not 1 <= length <= MAX_RSA_MODULUS:
            reason = f"must have 1 to {MAX_RSA_MODULUS} bytes, not {length}"
            raise DecodeError(SIMPLE_BLOB_SECTION, "encryptedKey", SIMPLE_BLOB.size, reason)
        return cls(session_key_algorithm, data[SIMPLE_BLOB.size :])

    def encode(self) -> bytes:
        if not 1 <= len(self.encrypted_key) <= MAX_RSA_MODULUS:
            reason = f"must have 1 to {MAX_RSA_MODULUS} bytes, not {len(self.encrypted_key)}"
            raise EncodeError(SIMPLE_BLOB_SECTION, "encryptedKey", reason)
        fixed = SIMPLE_BLOB.pack(SIMPLE_BLOB_HEADER, self.session_key_algorithm, KeyType.CALG_RSA_KEYX)
        return fixed + self.encrypted_key


@dataclass(frozen=True, slots=True)
class MqDsPublicKey:
    """MS-MQMQ 2.2.1 MQDSPUBLICKEY: a key for encryption and the cryptographic provider that made it."""

    ul_provider_type: ProviderType
    s_provider_name: str
    a_buf: PublicKeyBlob

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqDsPublicKey, int]":
        name_at = at + PUBLIC_KEY.size
        if len(buf) < name_at:
            raise cut_short(PUBLIC_KEY_SECTION, "MQDSPUBLICKEY", at, len(buf))
        key_len, provider_len, number = PUBLIC_KEY.unpack_from(buf, at)
        try:
            provider_type = ProviderType(number)
        except ValueError:
            reason = f"{number} is neither PROV_RSA_FULL nor PROV_RSA_AES"
            raise DecodeError(PUBLIC_KEY_SECTION, "ulProviderType", at + 8, reason) from None
        key_at = name_at + provider_len
        end = key_at + key_len
        if len(buf) < end:
            raise cut_short(PUBLIC_KEY_SECTION, "sProviderName and aBuf", name_at, len(buf))
        provider_name = decode_text(buf[name_at:key_at], PUBLIC_KEY_SECTION, "sProviderName", name_at)
        key, after = PublicKeyBlob.decode(buf, key_at)
        if after != end:
            raise DecodeError(
                PUBLIC_KEY_SECTION, "ulKeyLen", at, f"the value is {key_len}, but the key has {after - key_at} bytes"
            )
        if key.key_type is not KeyType.CALG_RSA_KEYX:
            raise DecodeError(PUBLIC_KEY_SECTION, "aiKeyAlg", key_at + 4, "the key is not an encryption key")
        return cls(provider_type, provider_name, key), end

    def encode(self) -> bytes:
        if self.a_buf.key_type is not KeyType.CALG_RSA_KEYX:
            raise EncodeError(PUBLIC_KEY_SECTION, "aiKeyAlg", "the key is not an encryption key")
        name = encode_text(self.s_provider_name, PUBLIC_KEY_SECTION, "sProviderName")
        key = self.a_buf.encode()
        return PUBLIC_KEY.pack(len(key), len(name), self.ul_provider_type) + name + key


@dataclass(frozen=True, slots=True)
class MqDsPublicKeys:
    """MS-MQMQ 2.2.2 MQDSPUBLICKEYS: the keys of a queue manager, as the directory keeps them."""

    a_public_keys: tuple[MqDsPublicKey, ...]

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MqDsPublicKeys, int]":
        if len(buf) - at < PUBLIC_KEYS.size:
            raise cut_short(PUBLIC_KEYS_SECTION, "MQDSPUBLICKEYS", at, len(buf))
        length, count = PUBLIC_KEYS.unpack_from(buf, at)
        if not PUBLIC_KEYS.size <= length <= len(buf) - at:
            reason = f"must be {PUBLIC_KEYS.size} to {len(buf) - at}, not {length}"
            raise DecodeError(PUBLIC_KEYS_SECTION, "ulLen", at, reason)
        if count * SMALLEST_PUBLIC_KEY > length - PUBLIC_KEYS.size:
            raise DecodeError(PUBLIC_KEYS_SECTION, "cNumofKeys", at + 4, f"{count} keys do not fit into {length} bytes")
        end = at + length
        key_at = at + PUBLIC_KEYS.size
        keys = []
        for _ in range(count):
            key, key_at = MqDsPublicKey.decode(buf, key_at)
            keys.append(key)
        if key_at != end:
            raise DecodeError(
                PUBLIC_KEYS_SECTION, "ulLen", at, f"must be {key_at - at}, the end of the keys, not {length}"
            )
        return cls(tuple(keys)), end

    def encode(self) -> bytes:
        keys = b"".join(key.encode() for key in self.a_public_keys)
        return PUBLIC_KEYS.pack(PUBLIC_KEYS.size + len(keys), len(self.a_public_keys)) + keys
