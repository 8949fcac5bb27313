"""The rules of MS-MQMQ for the maker of a UserMessage Packet, beyond those that every receiver checks.

Receivers are told to be lenient about most of it, and a relay passes on what it got; a queue manager checks the
messages that it makes itself.
"""

from typing import Final

from waypost.errors import EncodeError
from waypost.guid import NULL_GUID
from waypost.wire import base_header, debug_header, message_properties, security_header, transaction_header, user_header
from waypost.wire.debug_header import DebugHeader
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, PublicQueueFormatName
from waypost.wire.security_header import NO_SENDER, SENDER_QUEUE_MANAGER, SecurityHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

MAX_HOP_COUNT: Final = 0x1D

_BASE_DEFINED: Final = base_header.PR | base_header.SH | base_header.DH | base_header.TR
_USER_RESERVED: Final = user_header.X1 | user_header.X2 | user_header.X3 | user_header.X4
_ACKS: Final = message_properties.PA | message_properties.PR | message_properties.NA | message_properties.NR


def check_originated(message: UserMessage) -> None:
    """Raise EncodeError for the first rule that the message breaks."""
    user, properties = message.user, message.properties
    if not len(user.source_queue_manager) == len(user.queue_manager_address) == 16:
        reason = "SourceQueueManager and QueueManagerAddress must have 16 bytes"
        raise EncodeError(user_header.SECTION, "UserHeader", reason)
    if len(properties.correlation_id) != 20:
        raise EncodeError(message_properties.SECTION, "CorrelationID", "must have 20 bytes")
    _check_base(message)
    _check_user(message)
    if properties.flags & ~_ACKS:
        raise EncodeError(message_properties.SECTION, "Flags", "a reserved bit is set")
    if message.transaction is not None:
        _check_transaction(message.transaction)
    if message.security is not None:
        _check_security(message.security)
    if message.debug is not None:
        _check_debug(message.debug)


def _check_base(message: UserMessage) -> None:
    flags = message.base.flags
    if flags & ~_BASE_DEFINED:
        raise _base_flags("the IN bit or a reserved bit is set")
    if flags & base_header.PR and message.transaction is not None:
        raise _base_flags("PR must be 0, because the message is transactional")
    if flags & base_header.TR and message.debug is None:
        raise _base_flags("TR is set, but the DebugHeader is missing")


def _check_user(message: UserMessage) -> None:
    user = message.user
    flags = user.flags
    if flags & _USER_RESERVED:
        raise _user_flags("a reserved bit is set")
    if flags & user_header.AH or message.srmp_envelope is not None or message.compound_message is not None:
        raise _user_flags("AH is allowed only in messages to a remote reader")
    if user.hop_count > MAX_HOP_COUNT:
        raise _user_flags("RC must be at most 29")
    if user.delivery > user_header.RECOVERABLE:
        raise _user_flags("DM must be 0 or 1")
    if user.delivery != user_header.RECOVERABLE and message.transaction is not None:
        raise _user_flags("a transactional message must be recoverable, not express")
    if not _address_fits(user):
        reason = "must be the GUID of the destination for a public or private queue, and null for a direct name"
        raise EncodeError(user_header.SECTION, "QueueManagerAddress", reason)
    if (user.admin_queue is None) != (message.properties.flags & _ACKS == 0):
        reason = "must be present if and only if MessagePropertiesHeader.Flags requests an acknowledgment"
        raise EncodeError(user_header.SECTION, "AdminQueue", reason)


def _address_fits(user: UserHeader) -> bool:
    match user.destination_queue:
        case PrivateQueueFormatNameId() | PublicQueueFormatName():
            return user.queue_manager_address != NULL_GUID
        case DirectQueueFormatName():
            return user.queue_manager_address == NULL_GUID
        case _:
            return True


def _check_transaction(transaction: TransactionHeader) -> None:
    if transaction.flags & transaction_header.X:
        raise EncodeError(transaction_header.SECTION, "Flags", "a reserved bit is set")
    if not (
        1 <= transaction.tx_sequence_number <= 0xFFFF_FFFF
        and 0 <= transaction.previous_tx_sequence_number <= 0xFFFF_FFFE
    ):
        reason = "must be at least 1, and PreviousTxSequenceNumber must be at most 0xFFFFFFFE"
        raise EncodeError(transaction_header.SECTION, "TxSequenceNumber", reason)


def _check_security(security: SecurityHeader) -> None:
    if security.flags & (security_header.AU | security_header.AS | security_header.X):
        raise EncodeError(security_header.SECTION, "Flags", "the bit AU, the bit AS or a reserved bit is set")
    if not (
        security.security_id
        or security.encryption_key
        or security.signature
        or security.sender_cert
        or security.provider_info
    ):
        raise EncodeError(security_header.SECTION, "SecurityData", "all five items are empty")
    if not _sender_fits(security):
        raise EncodeError(security_header.SECTION, "SecurityID", "does not match ST")
    if not _provider_fits(security):
        reason = "a signature requires one provider, in DE or ProviderInfo; without a signature, no provider is allowed"
        raise EncodeError(security_header.SECTION, "ProviderInfo", reason)


def _sender_fits(security: SecurityHeader) -> bool:
    size = len(security.security_id)
    if security.sender_type == NO_SENDER:
        return size == 0
    return size == 16 if security.sender_type == SENDER_QUEUE_MANAGER else size > 0


def _provider_fits(security: SecurityHeader) -> bool:
    if not security.signature:
        # MS-MQQB 3.1.7.1.5 names the provider of an encrypted body here.
        return security.is_body_encrypted or not security.provider_info
    return bool(security.flags & security_header.DE) != bool(security.provider_info)


def _check_debug(debug: DebugHeader) -> None:
    if debug.flags & ~debug_header.QT or debug.reserved:
        raise EncodeError(debug_header.SECTION, "Flags", "a reserved bit is set")


def _base_flags(reason: str) -> EncodeError:
    return EncodeError(base_header.SECTION, "Flags", reason)


def _user_flags(reason: str) -> EncodeError:
    return EncodeError(user_header.SECTION, "Flags", reason)
