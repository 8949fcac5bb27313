"""Requests to sign and to encrypt a message, checked, and the words for them."""

from dataclasses import dataclass
from typing import Final, TypeVar

from waypost.api.excerpt import excerpt
from waypost.api.properties import MessageProperties
from waypost.core.message_values import AuthenticationLevel
from waypost.errors import InvalidParameter
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.keys import SessionKeyAlgorithm

V = TypeVar("V")

HASHES: Final = {
    "sha512": HashAlgorithm.SHA_512,
    "sha256": HashAlgorithm.SHA_256,
    "sha1": HashAlgorithm.SHA_1,
    "md5": HashAlgorithm.MD5,
}
# Level 1, with 40 bits, is never sent.
ALGORITHMS: Final = {
    "aes256": (PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_256),
    "aes192": (PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_192),
    "aes128": (PrivacyLevel.ADVANCED, SessionKeyAlgorithm.AES_128),
    "rc2": (PrivacyLevel.ENHANCED, SessionKeyAlgorithm.RC2),
    "rc4": (PrivacyLevel.ENHANCED, SessionKeyAlgorithm.RC4),
}
ALGORITHM_WORDS: Final[dict[int, str]] = {int(algorithm): word for word, (_, algorithm) in ALGORITHMS.items()}
SIGNATURE_WORDS: Final = {
    AuthenticationLevel.NONE: "none",
    AuthenticationLevel.SIG10: "msmq10",
    AuthenticationLevel.SIG20: "msmq20",
    AuthenticationLevel.SIG30: "msmq30",
}
_SIGNATURES: Final = {1: AuthenticationLevel.SIG10, 2: AuthenticationLevel.SIG20, 3: AuthenticationLevel.SIG30}


@dataclass(frozen=True, slots=True)
class ProtectionRequest:
    """`level` is NONE for a message without a signature. `privacy` is NONE for a message without encryption."""

    level: AuthenticationLevel = AuthenticationLevel.NONE
    certificate: str = ""
    hash: HashAlgorithm = HashAlgorithm.SHA_512
    privacy: PrivacyLevel = PrivacyLevel.NONE
    algorithm: SessionKeyAlgorithm = SessionKeyAlgorithm.AES_256


def protection_of(properties: MessageProperties, *, has_several: bool) -> ProtectionRequest | None:
    """The request of these properties, or None. Raises InvalidParameter for an impossible request.

    `has_several` is true for a message to several queues, which always has a signature of version 3.
    """
    if not properties.sign:
        for name in ("certificate", "signature", "hash"):
            if getattr(properties, name) is not None:
                raise InvalidParameter(f"`{name}` requires `sign`")
    if not properties.encrypt and properties.algorithm is not None:
        raise InvalidParameter("`algorithm` requires `encrypt`")
    if not properties.sign and not properties.encrypt:
        return None
    level = AuthenticationLevel.NONE
    if properties.sign:
        default = 3 if has_several else 2
        wanted = default if properties.signature is None else properties.signature
        if wanted not in _SIGNATURES:
            raise InvalidParameter(f"`signature` must be 1 or 2, not {excerpt(wanted)}")
        if has_several and wanted != 3:
            raise InvalidParameter(f"a message to several queues requires signature version 3, not {wanted}")
        if wanted == 3 and not has_several:
            raise InvalidParameter("signature version 3 is only for a message to several queues; use 1 or 2")
        level = _SIGNATURES[wanted]
    privacy, algorithm = PrivacyLevel.NONE, SessionKeyAlgorithm.AES_256
    if properties.encrypt:
        privacy, algorithm = _word("algorithm", properties.algorithm or "aes256", ALGORITHMS)
    hashed = _word("hash", properties.hash or "sha512", HASHES)
    return ProtectionRequest(level, properties.certificate or "", hashed, privacy, algorithm)


def refuse_protection(properties: MessageProperties, why: str) -> None:
    """Raise InvalidParameter if the properties ask to sign or to encrypt, where that is impossible."""
    if protection_of(properties, has_several=False) is not None:
        raise InvalidParameter(f"cannot {'sign' if properties.sign else 'encrypt'}: {why}")


def _word(name: str, value: str, words: dict[str, V]) -> V:
    if value not in words:
        raise InvalidParameter(f"`{name}` must be one of {', '.join(words)}, not {excerpt(value)}")
    return words[value]
