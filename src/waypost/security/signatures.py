"""MS-MQMQ 2.5, 2.2.19.3 HashAlgorithm, 2.2.20.3 and 2.2.20.6 Signature: what is hashed for a signature, and with what.

The sections name the properties and their order, not how names and labels turn into bytes (readings MQMQ 3.8). Here it
is their packet form without padding, a label with its null, and nothing for what is absent: signatures are between
Waypost and Waypost. They cover the clear body: a sender signs, then encrypts; a receiver decrypts, then verifies
(readings MQQB 3.10).
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.errors import AuthenticationFailed
from waypost.wire import message_properties, user_header
from waypost.wire.algorithms import HashAlgorithm, PrivacyLevel
from waypost.wire.codec import encode_text
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.multi_queue import FORMAT_TYPE, MultiQueueFormatHeader
from waypost.wire.queue_names import DirectQueueFormatName, QueueName
from waypost.wire.user_message import UserMessage

_COUNT: Final = Struct("<H")
_TAG: Final = Struct("<I")
_PACKED: Final = Struct("<BBBBHI")
_ACKS: Final = 0x0F
# The place of the body among the properties that are signed.
_BODY: Final = 2


class SignatureVersion(IntEnum):
    """The signature types of 2.5, under the names of MS-MQDMPR 3.1.1.12; the number is what a match writes into AS."""

    SIG10 = 1
    SIG20 = 3
    SIG30 = 5


_HASHLIB_NAMES: Final = {
    HashAlgorithm.MD2: "md2",
    HashAlgorithm.MD4: "md4",
    HashAlgorithm.MD5: "md5",
    HashAlgorithm.SHA_1: "sha1",
    HashAlgorithm.SHA_256: "sha256",
    HashAlgorithm.SHA_512: "sha512",
}
_HASH_ALGORITHMS: Final = frozenset(HashAlgorithm)
_PRIVACY_LEVELS: Final = frozenset(PrivacyLevel)


@dataclass(frozen=True, slots=True)
class ClaimedSignature:
    """The signature of a received message, not verified yet. `versions` are the types to try, in this order."""

    signature: bytes
    versions: tuple[SignatureVersion, ...]


def claimed_signature(message: UserMessage) -> ClaimedSignature | None:
    """MS-MQQB 3.1.5.8.3: None if the message is not signed, AuthenticationFailed if it can never be verified.

    Without a signature HashAlgorithm and PrivacyLevel are not looked at (readings MQMQ 3.19).
    """
    if message.security is None:
        return None
    if message.security.signature:
        claim = ClaimedSignature(message.security.signature, (SignatureVersion.SIG20, SignatureVersion.SIG10))
    elif message.multi_queue is not None and message.multi_queue.signature.signature:
        claim = ClaimedSignature(message.multi_queue.signature.signature, (SignatureVersion.SIG30,))
    else:
        return None
    if message.properties.privacy_level not in _PRIVACY_LEVELS:
        raise AuthenticationFailed(f"PrivacyLevel {message.properties.privacy_level} is not defined (MS-MQMQ 2.2.19.3)")
    _hash_algorithm(message.properties)
    return claim


def digests_to_sign(
    message: UserMessage,
    bodies: Iterable[bytes],
    version: SignatureVersion,
    algorithm: HashAlgorithm = HashAlgorithm.SHA_512,
) -> tuple[bytes, ...]:
    """Name the hash in the message, and compute it for messages that differ only in their bodies."""
    message.properties.hash_algorithm = algorithm
    runs = _signed_properties(message, version)
    start = _new_hash(algorithm, b"".join(runs[:_BODY]))
    end = b"".join(runs[_BODY + 1 :])
    found = []
    for body in bodies:
        each = start.copy()
        each.update(body)
        each.update(end)
        found.append(each.digest())
    return tuple(found)


def signature_digest(message: UserMessage, version: SignatureVersion) -> bytes:
    """The hash that a signature of this type holds, with the algorithm that the message names."""
    return digest(_hash_algorithm(message.properties), signature_input(message, version))


def claimed_digests(message: UserMessage, claim: ClaimedSignature) -> tuple[bytes, ...]:
    """The hash for each type that a received signature may have. Both types of one queue begin with the same input."""
    if claim.versions != (SignatureVersion.SIG20, SignatureVersion.SIG10):
        return tuple(signature_digest(message, version) for version in claim.versions)
    found = _new_hash(_hash_algorithm(message.properties), b"".join(_first_properties(message)))
    first = found.digest()
    found.update(b"".join((*_later_properties(message), _packed_name(message.user.destination_queue))))
    return found.digest(), first


def digest(algorithm: HashAlgorithm, data: bytes) -> bytes:
    """AuthenticationFailed where the platform lacks the algorithm: today's lack MD2 and most of them MD4."""
    return _new_hash(algorithm, data).digest()


def _new_hash(algorithm: HashAlgorithm, data: bytes) -> "hashlib._Hash":
    try:
        return hashlib.new(_HASHLIB_NAMES[algorithm], data, usedforsecurity=False)
    except ValueError:
        raise AuthenticationFailed(
            f"this computer does not support {algorithm.name}, which the signature uses"
        ) from None


def signature_input(message: UserMessage, version: SignatureVersion) -> bytes:
    """MS-MQMQ 2.5.1 to 2.5.3: the properties in their order."""
    return b"".join(_signed_properties(message, version))


def _signed_properties(message: UserMessage, version: SignatureVersion) -> list[bytes]:
    runs = _first_properties(message)
    if version is SignatureVersion.SIG30:
        runs.append(message.properties.extension_data)
        runs += _format_name_lists(message.multi_queue)
    if version is not SignatureVersion.SIG10:
        runs += _later_properties(message)
    if version is SignatureVersion.SIG20:
        runs.append(_packed_name(message.user.destination_queue))
    return runs


def _first_properties(message: UserMessage) -> list[bytes]:
    """Those of 2.5.1, with which the other two begin."""
    properties = message.properties
    label = properties.label
    return [
        properties.correlation_id,
        _TAG.pack(properties.application_tag),
        properties.message_body,
        b"" if label is None else encode_text(label, message_properties.SECTION, "Label"),
        _packed_name(message.user.response_queue),
        _packed_name(message.user.admin_queue),
    ]


def _later_properties(message: UserMessage) -> list[bytes]:
    """From SourceQueueManager to ConnectorType, the same in 2.5.2 and 2.5.3."""
    user, properties = message.user, message.properties
    journal = (user.flags & user_header.JP != 0) << 1 | (user.flags & user_header.JN != 0)
    packed = _PACKED.pack(
        user.delivery,
        message.base.priority,
        journal,
        properties.flags & _ACKS,
        properties.message_class,
        properties.body_type,
    )
    return [user.source_queue_manager, packed, user.connector_type or b""]


def _format_name_lists(header: MultiQueueFormatHeader | None) -> list[bytes]:
    """2.5.3 does not say which of the three lists it means: all, so that no response queue can be slipped in."""
    if header is None:
        return []
    elements = header.destination.elements + header.administration.elements + header.response.elements
    # At this offset the name behind FormatType is aligned, so the element has no padding.
    return [element.encode(-FORMAT_TYPE.size) for element in elements]


def _packed_name(name: QueueName | None) -> bytes:
    if name is None:
        return b""
    packed = name.encode()
    if isinstance(name, DirectQueueFormatName):
        return packed[: _COUNT.size + _COUNT.unpack_from(packed)[0]]
    return packed


def _hash_algorithm(properties: MessagePropertiesHeader) -> HashAlgorithm:
    if properties.hash_algorithm not in _HASH_ALGORITHMS:
        raise AuthenticationFailed(f"HashAlgorithm 0x{properties.hash_algorithm:08X} is not defined (MS-MQMQ 2.2.19.3)")
    return HashAlgorithm(properties.hash_algorithm)
