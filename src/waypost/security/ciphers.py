"""MS-MQMQ 2.2.19.3 PrivacyLevel and EncryptionAlgorithm, MS-MQQB 3.1.7.1.5 and 3.1.5.8.3: the body as ciphertext.

Keys are handed in. EB is set exactly while the body is ciphertext: `BodySealer` sets it, `open_body` clears it. The two
fields are looked at only while it is set, because Windows fills them in clear messages too (readings MQMQ 3.19).

The effective key bits of RC2 are taken to be all bits of the key (readings MQMQ 7.5). RC2 of PrivacyLevel 1, with 40
bits, is not offered: the library has only 128 bits, and a cipher written here in Python would let a stranger's message
of 4 MB stop the queue manager for seconds.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, RC2
from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from waypost.errors import DecryptionFailed, InvalidParameter
from waypost.wire import security_header
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.keys import ProviderType, SessionKeyAlgorithm
from waypost.wire.security_header import SecurityHeader
from waypost.wire.user_message import UserMessage


class CryptoServiceProvider(StrEnum):
    """MS-MQQB 3.1.5.8.3: whose keys a privacy level uses."""

    BASE = "Microsoft Base Cryptographic Provider v1.0"
    ENHANCED = "Microsoft Enhanced Cryptographic Provider v1.0"
    ENHANCED_RSA_AND_AES = "Microsoft Enhanced RSA and AES Cryptographic Provider"


PROVIDERS: Final = {
    PrivacyLevel.BASE: CryptoServiceProvider.BASE,
    PrivacyLevel.ENHANCED: CryptoServiceProvider.ENHANCED,
    PrivacyLevel.ADVANCED: CryptoServiceProvider.ENHANCED_RSA_AND_AES,
}

# The types of the providers (MS-MQMQ 2.2.1).
PROVIDER_TYPES: Final = {
    CryptoServiceProvider.BASE: ProviderType.PROV_RSA_FULL,
    CryptoServiceProvider.ENHANCED: ProviderType.PROV_RSA_FULL,
    CryptoServiceProvider.ENHANCED_RSA_AND_AES: ProviderType.PROV_RSA_AES,
}

# The algorithms of each level (MS-MQMQ 2.2.19.3) and the bytes of their keys (MS-MQQB 3.1.7.1.5).
KEY_SIZES: Final[dict[PrivacyLevel, dict[SessionKeyAlgorithm, int]]] = {
    PrivacyLevel.NONE: {},
    PrivacyLevel.BASE: {SessionKeyAlgorithm.RC2: 5, SessionKeyAlgorithm.RC4: 5},
    PrivacyLevel.ENHANCED: {SessionKeyAlgorithm.RC2: 16, SessionKeyAlgorithm.RC4: 16},
    PrivacyLevel.ADVANCED: {
        SessionKeyAlgorithm.AES_128: 16,
        SessionKeyAlgorithm.AES_192: 24,
        SessionKeyAlgorithm.AES_256: 32,
    },
}

# Senders of level 1 may have the longer keys of level 3. The library has no RC2 with 40 bits.
_LONG: Final = 16
_ALGORITHMS: Final = frozenset(SessionKeyAlgorithm)


@dataclass(frozen=True, slots=True)
class BodyEncryption:
    """The encryption of a body, without the key."""

    privacy_level: PrivacyLevel
    algorithm: SessionKeyAlgorithm

    @property
    def provider(self) -> CryptoServiceProvider:
        return PROVIDERS[self.privacy_level]

    @property
    def key_size(self) -> int | None:
        """In bytes; None if the privacy level does not allow the algorithm."""
        return KEY_SIZES[self.privacy_level].get(self.algorithm)


def body_encryption(message: UserMessage) -> BodyEncryption | None:
    """The encryption of a received body: None if it is clear, DecryptionFailed if the fields break the rules."""
    if message.security is None or not message.security.is_body_encrypted:
        return None
    return _received_encryption(message.properties.privacy_level, message.properties.encryption_algorithm)


# Every message asks twice, and few pairs are legal. Errors are not kept.
@lru_cache(maxsize=16)
def _received_encryption(level: int, algorithm: int) -> BodyEncryption:
    # MS-MQQB 3.1.5.8.3 makes this a failed decryption where MS-MQMQ 2.2.19.3 speaks of authentication.
    if level not in PROVIDERS:
        raise DecryptionFailed(f"PrivacyLevel {level} is not valid for an encrypted body (MS-MQQB 3.1.5.8.3)")
    if algorithm not in _ALGORITHMS:
        raise DecryptionFailed(f"EncryptionAlgorithm 0x{algorithm:08X} is not defined (MS-MQMQ 2.2.19.3)")
    encryption = BodyEncryption(PrivacyLevel(level), SessionKeyAlgorithm(algorithm))
    if encryption.key_size is None:
        raise DecryptionFailed(f"PrivacyLevel {level} does not allow {encryption.algorithm.name} (MS-MQMQ 2.2.19.3)")
    return encryption


def received_key_sizes(encryption: BodyEncryption) -> tuple[int, ...]:
    """The sizes of keys that decrypt, in bytes."""
    size = encryption.key_size
    if encryption.privacy_level is not PrivacyLevel.BASE or size is None:
        return () if size is None else (size,)
    return (_LONG,) if encryption.algorithm is SessionKeyAlgorithm.RC2 else (size, _LONG)


class BodySealer:
    """MS-MQQB 3.1.7.1.5: encrypts bodies with one key. `encrypted_key` is the key in a SIMPLEBLOB.

    Raises InvalidParameter for a key that the encryption cannot have.
    """

    __slots__ = ("_cipher", "_encrypted_key", "_encryption", "_padding")

    def __init__(self, encryption: BodyEncryption, key: bytes, encrypted_key: bytes) -> None:
        try:
            self._cipher, self._padding = _cipher(encryption, key)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InvalidParameter(f"cannot encrypt the body: {error}") from error
        self._encryption: Final = encryption
        self._encrypted_key: Final = encrypted_key

    def encrypt(self, body: bytes) -> bytes:
        try:
            if self._padding is not None:
                padder = self._padding.padder()
                body = padder.update(body) + padder.finalize()
            encryptor = self._cipher.encryptor()
            return encryptor.update(body) + encryptor.finalize()
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InvalidParameter(f"cannot encrypt the body: {error}") from error

    def seal(self, message: UserMessage) -> None:
        """Replace the body by its ciphertext."""
        properties = message.properties
        # MessageSize and AllocationBodySize are both those of the ciphertext.
        properties.message_body, properties.allocation_remainder = self.encrypt(properties.message_body), b""
        properties.privacy_level = self._encryption.privacy_level
        properties.encryption_algorithm = self._encryption.algorithm
        if message.security is None:
            message.security = SecurityHeader()
        message.security.encryption_key = self._encrypted_key
        message.security.flags |= security_header.EB


def open_body(message: UserMessage, key: bytes) -> None:
    """MS-MQQB 3.1.5.8.3: replace the ciphertext by the body. A clear message stays as it is."""
    encryption = body_encryption(message)
    if encryption is None or message.security is None:
        return
    properties = message.properties
    body = decrypt_body(encryption, key, properties.allocated_body)
    # A sender may have put the size of the ciphertext into MessageSize; the padding then gives that of the body.
    properties.message_body, properties.allocation_remainder = body[: len(properties.message_body)], b""
    message.security.flags &= ~security_header.EB


def decrypt_body(encryption: BodyEncryption, key: bytes, body: bytes) -> bytes:
    """Decrypt. A wrong key of RC4 goes unnoticed; the padding of a block cipher shows most wrong keys."""
    try:
        cipher, padding = _cipher(encryption, key, received_key_sizes(encryption))
        decryptor = cipher.decryptor()
        body = decryptor.update(body) + decryptor.finalize()
        if padding is None:
            return body
        unpadder = padding.unpadder()
        return unpadder.update(body) + unpadder.finalize()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise DecryptionFailed(f"cannot decrypt the body: {error}") from error


def _provider_key(encryption: BodyEncryption, key: bytes) -> bytes:
    """MS-MQQB 3.1.7.1.5: the enhanced provider makes an RC2 key of 128 bits of one of 40 bits."""
    if encryption == BodyEncryption(PrivacyLevel.ENHANCED, SessionKeyAlgorithm.RC2) and len(key) == 5:
        return key + bytes(11)
    return key


def _cipher(
    encryption: BodyEncryption, key: bytes, sizes: tuple[int, ...] = ()
) -> tuple[Cipher[CBC] | Cipher[None], PKCS7 | None]:
    """The cipher and its padding. ValueError for a key that it cannot have."""
    level, algorithm, size = encryption.privacy_level, encryption.algorithm, encryption.key_size
    key = _provider_key(encryption, key)
    if size is None:
        raise ValueError(f"{level.name} does not allow {algorithm.name}")
    if len(key) != size and len(key) not in sizes:
        raise ValueError(f"{algorithm.name} of {level.name} requires a key of {size} bytes, not {len(key)}")
    if algorithm is SessionKeyAlgorithm.RC4:
        return Cipher(ARC4(key), None), None
    block_cipher: BlockCipherAlgorithm = RC2(key) if algorithm is SessionKeyAlgorithm.RC2 else AES(key)
    # 2.2.19.3: a zero initialization vector. PKCS #7 is PKCS #5 for blocks of any size.
    return Cipher(block_cipher, CBC(bytes(block_cipher.block_size // 8))), PKCS7(block_cipher.block_size)
