"""MS-MQMQ 2.2.20.6: what the fields of a SecurityHeader mean to its sender and its receiver.

AU and AS are zero on the wire. A receiver clears them on arrival, else a sender could claim to be authenticated, and
writes its own result into AS; AU stays zero (readings MQMQ 3.6).
"""

from waypost.errors import AuthenticationFailed, DecodeError
from waypost.security.signatures import SignatureVersion
from waypost.wire.security_header import (
    AS,
    AS_SHIFT,
    AU,
    DE,
    NO_SENDER,
    SECTION,
    SENDER_QUEUE_MANAGER,
    SENDER_SID,
    ST,
    ProviderInfo,
    SecurityHeader,
)
from waypost.wire.sid import Sid


def clear_authentication(header: SecurityHeader) -> None:
    header.flags &= ~(AU | AS)


def record_authentication(header: SecurityHeader, version: SignatureVersion) -> None:
    """The receiver has verified a signature of this type."""
    clear_authentication(header)
    header.flags |= version << AS_SHIFT


def name_sender(header: SecurityHeader, sender: Sid | bytes | None) -> None:
    """Write a user, the GUID of a queue manager, or nobody as the sender."""
    header.flags &= ~ST
    match sender:
        case None:
            header.flags |= NO_SENDER
            header.security_id = b""
        case Sid():
            header.flags |= SENDER_SID
            header.security_id = sender.encode()
        case bytes():
            header.flags |= SENDER_QUEUE_MANAGER
            header.security_id = sender


def sender_of(header: SecurityHeader) -> Sid | bytes | None:
    """A user, the GUID of a queue manager, or nobody. DecodeError if SecurityID is not a SID where ST says so."""
    if header.sender_type == NO_SENDER:
        return None
    if header.sender_type == SENDER_QUEUE_MANAGER:
        return header.security_id
    sid, end = Sid.decode(header.security_id, 0)
    if end != len(header.security_id):
        raise DecodeError(SECTION, "SecurityID", end, f"{len(header.security_id) - end} extra bytes follow the SID")
    return sid


def signing_provider(header: SecurityHeader) -> ProviderInfo | None:
    """The cryptographic provider that made the signature; None is the default one."""
    if header.flags & DE or not header.signature:
        return None
    if not header.provider_info:
        raise AuthenticationFailed(
            f"DE is clear, but ProviderInfo does not name the provider of the signature ({SECTION})"
        )
    return header.provider
