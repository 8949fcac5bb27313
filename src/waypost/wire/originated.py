"""What MS-MQMQ demands of whoever makes a UserMessage Packet, beyond what every receiver checks.

Receivers are told to be lenient about most of it, and a relay passes on what it got; a queue manager checks the
messages that it makes itself.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from waypost.errors import EncodeError
from waypost.guid import NULL_GUID
from waypost.wire import base_header, debug_header, message_properties, security_header, transaction_header, user_header
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatNameId, PublicQueueFormatName
from waypost.wire.security_header import NO_SENDER, SENDER_QUEUE_MANAGER, SecurityHeader
from waypost.wire.user_message import UserMessage

MAX_HOP_COUNT: Final = 0x1D

_BASE_DEFINED: Final = base_header.PR | base_header.SH | base_header.DH | base_header.TR
_USER_RESERVED: Final = user_header.X1 | user_header.X2 | user_header.X3 | user_header.X4
_ACKS: Final = message_properties.PA | message_properties.PR | message_properties.NA | message_properties.NR


class Rule(NamedTuple):
    """A message keeps the rule when `holds` says so."""

    section: str
    field: str
    reason: str
    holds: Callable[[UserMessage], bool]


def _address_fits(message: UserMessage) -> bool:
    match message.user.destination_queue:
        case PrivateQueueFormatNameId() | PublicQueueFormatName():
            return message.user.queue_manager_address != NULL_GUID
        case DirectQueueFormatName():
            return message.user.queue_manager_address == NULL_GUID
        case _:
            return True


def _sequence_number_fits(message: UserMessage) -> bool:
    transaction = message.transaction
    return transaction is None or (
        1 <= transaction.tx_sequence_number <= 0xFFFF_FFFF
        and 0 <= transaction.previous_tx_sequence_number <= 0xFFFF_FFFE
    )


def _has_items(header: SecurityHeader) -> bool:
    return bool(
        header.security_id or header.encryption_key or header.signature or header.sender_cert or header.provider_info
    )


def _sender_fits(header: SecurityHeader) -> bool:
    size = len(header.security_id)
    if header.sender_type == NO_SENDER:
        return size == 0
    return size == 16 if header.sender_type == SENDER_QUEUE_MANAGER else size > 0


def _provider_fits(header: SecurityHeader) -> bool:
    if not header.signature:
        # MS-MQQB 3.1.7.1.5 names the provider of an encrypted body here.
        return header.is_body_encrypted or not header.provider_info
    return bool(header.flags & security_header.DE) != bool(header.provider_info)


def _if_secured(holds: Callable[[SecurityHeader], bool]) -> Callable[[UserMessage], bool]:
    return lambda message: message.security is None or holds(message.security)


RULES: Final = (
    Rule(
        user_header.SECTION,
        "UserHeader",
        "SourceQueueManager and QueueManagerAddress have 16 bytes",
        lambda m: len(m.user.source_queue_manager) == len(m.user.queue_manager_address) == 16,
    ),
    Rule(
        message_properties.SECTION,
        "CorrelationID",
        "it has 20 bytes",
        lambda m: len(m.properties.correlation_id) == 20,
    ),
    Rule(base_header.SECTION, "Flags", "IN or a reserved bit is set", lambda m: not m.base.flags & ~_BASE_DEFINED),
    Rule(
        base_header.SECTION,
        "Flags",
        "PR is not 0 although the message is transactional",
        lambda m: m.transaction is None or m.base.priority == 0,
    ),
    Rule(
        base_header.SECTION,
        "Flags",
        "TR is set, but there is no DebugHeader",
        lambda m: not m.base.is_traced or m.debug is not None,
    ),
    Rule(user_header.SECTION, "Flags", "a reserved bit is set", lambda m: not m.user.flags & _USER_RESERVED),
    Rule(
        user_header.SECTION,
        "Flags",
        "AH is for messages that are handed to a remote reader",
        lambda m: not m.user.flags & user_header.AH and m.srmp_envelope is None and m.compound_message is None,
    ),
    Rule(user_header.SECTION, "Flags", "RC is above 29", lambda m: m.user.hop_count <= MAX_HOP_COUNT),
    Rule(user_header.SECTION, "Flags", "DM is not 0 or 1", lambda m: m.user.delivery <= user_header.RECOVERABLE),
    Rule(
        user_header.SECTION,
        "Flags",
        "a transactional message cannot be express",
        lambda m: m.transaction is None or m.user.delivery == user_header.RECOVERABLE,
    ),
    Rule(
        user_header.SECTION,
        "QueueManagerAddress",
        "it is the GUID of the destination for a public or private queue and null for a direct name",
        _address_fits,
    ),
    Rule(
        user_header.SECTION,
        "AdminQueue",
        "it is given exactly when MessagePropertiesHeader.Flags asks for an acknowledgment",
        lambda m: (m.user.admin_queue is not None) == (m.properties.flags & _ACKS != 0),
    ),
    Rule(
        message_properties.SECTION, "Flags", "a reserved bit is set", lambda m: not m.properties.flags & ~_ACKS
    ),
    Rule(
        transaction_header.SECTION,
        "Flags",
        "a reserved bit is set",
        lambda m: m.transaction is None or not m.transaction.flags & transaction_header.X,
    ),
    Rule(
        transaction_header.SECTION,
        "TxSequenceNumber",
        "it starts at 1, and the number before it is at most 0xFFFFFFFE",
        _sequence_number_fits,
    ),
    Rule(
        security_header.SECTION,
        "Flags",
        "AU, AS or a reserved bit is set",
        _if_secured(lambda s: not s.flags & (security_header.AU | security_header.AS | security_header.X)),
    ),
    Rule(security_header.SECTION, "SecurityData", "all five items are empty", _if_secured(_has_items)),
    Rule(security_header.SECTION, "SecurityID", "it is not what ST says", _if_secured(_sender_fits)),
    Rule(
        security_header.SECTION,
        "ProviderInfo",
        "a signature names one provider, in DE or here, and without a signature there is none to name",
        _if_secured(_provider_fits),
    ),
    Rule(
        debug_header.SECTION,
        "Flags",
        "a reserved bit is set",
        lambda m: m.debug is None or not (m.debug.flags & ~debug_header.QT or m.debug.reserved),
    ),
)  # fmt: skip


def check_originated(message: UserMessage) -> None:
    """Raise EncodeError for the first rule that the message breaks."""
    for rule in RULES:
        if not rule.holds(message):
            raise EncodeError(rule.section, rule.field, rule.reason)
