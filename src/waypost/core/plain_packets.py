"""The packet of a plain message in one go: MS-MQDMPR 3.1.7.1.32 for most messages of applications.

A message is plain if its packet has only BaseHeader, UserHeader, MessagePropertiesHeader and perhaps TransactionHeader,
and names no connector. plain_packet gives the bytes that waypost.core.serialization makes of the headers as records, in
a third of the time. It refuses nothing: a message that is not plain, that does not fit or that breaks a rule is left
to the general code, which finds the reason.
"""

import struct
from codecs import utf_16_le_encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from waypost.core.message import BASE_PROVIDER, PACKED_PROPERTIES, Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee, QueueType
from waypost.core.packet_names import packed_name
from waypost.errors import WaypostError
from waypost.guid import NULL_GUID
from waypost.limits import MAX_LABEL_LENGTH, MAX_PACKET_SIZE
from waypost.wire import base_header, message_properties, transaction_header, user_header
from waypost.wire.codec import PADDING
from waypost.wire.format_names import DirectFormatName
from waypost.wire.keys import ProviderType
from waypost.wire.queue_names import DirectQueueFormatName

_BASE_AND_USER: Final = Struct(base_header.LAYOUT.format + user_header.LAYOUT.format.removeprefix("<"))
# UserHeader.MessageID: its QueueManagerGuid is SourceQueueManager, so only the Ordinal is here.
ORDINAL_AT: Final = _BASE_AND_USER.size - 8
_FIXED_SIZE: Final = _BASE_AND_USER.size + message_properties.FIXED_SIZE
_ACKS: Final = message_properties.PA | message_properties.PR | message_properties.NA | message_properties.NR
_MAX_TRANSACTION_IDENTIFIER: Final = transaction_header.ID >> transaction_header.ID_SHIFT
_MAX_LABEL_SIZE: Final = 2 * MAX_LABEL_LENGTH

# Bound once: to look a member of an enumeration up costs more than to compare with it.
_UNSIGNED: Final = AuthenticationLevel.NONE
_EXPRESS: Final = DeliveryGuarantee.EXPRESS
_RECOVERABLE: Final = DeliveryGuarantee.RECOVERABLE
_RSA: Final = int(ProviderType.PROV_RSA_FULL)
_DIRECT_DESTINATION: Final = QueueType.DIRECT_QUEUE << user_header.DQ_SHIFT


class _NotPlain(Exception):
    """The general code has to make or refuse the packet."""


def plain_packet(message: Message) -> bytes | None:
    """The packet, or None if the general code has to make or refuse it."""
    parts = _parts(message)
    return None if parts is None else b"".join(parts)


def plain_packets(message: Message, bodies: Sequence[bytes], first_ordinal: int) -> list[bytes] | None:
    """The packets of messages that differ only in their bodies and ordinals; the ordinals count up from the first.

    None if the general code has to make or refuse one. The message gets other bodies meanwhile. A packet takes a
    fifth of the time that plain_packet needs.
    """
    packets = []
    forms: dict[int, tuple[bytes, bytes, bytes]] = {}
    for ordinal, body in enumerate(bodies, first_ordinal):
        form = forms.get(len(body))
        if form is None:
            message.body = body
            parts = _parts(message)
            if parts is None:
                return None
            headers = b"".join(parts[:-2])
            form = forms[len(body)] = headers[:ORDINAL_AT], headers[ORDINAL_AT + 4 :], parts[-1]
        start, middle, padding = form
        packets.append(b"".join((start, ordinal.to_bytes(4, "little"), middle, body, padding)))
    return packets


def varied_packets(
    message: Message, bodies: Sequence[bytes], varied: Mapping[str, Sequence[object]], first_ordinal: int
) -> list[bytes] | None:
    """The packets of plain_packets if these attributes differ too, each with a value for each body.

    None if the general code has to make or refuse one. The message gets other attributes meanwhile.
    """
    if not varied.keys() <= _VARIED or (message.transaction_identifier is None and "priority" in varied):
        return None
    names = list(varied)
    packets = []
    forms: dict[tuple[int, int], tuple[bytes, bytes, bytes, bytes]] = {}
    for ordinal, (body, *values) in enumerate(zip(bodies, *varied.values(), strict=True), first_ordinal):
        for name, value in zip(names, values, strict=True):
            setattr(message, name, value)
        label = message.label
        units = utf_16_le_encode(label + "\0", "surrogatepass")[0] if label else b""
        form = forms.get((len(units), len(body)))
        if form is None:
            message.body = body
            parts = _parts(message)
            if parts is None:
                return None
            base, names_of_queues, transaction, _, _, extension, _, padding = parts
            headers = b"".join((base, names_of_queues, transaction))
            form = headers[:ORDINAL_AT], headers[ORDINAL_AT + 4 :], extension, padding
            forms[len(units), len(body)] = form
        start, middle, extension, padding = form
        try:
            properties = message.packed_properties(len(units) // 2, len(body))
        except struct.error:
            return None
        if "\0" in label:
            return None
        number = ordinal.to_bytes(4, "little")
        packets.append(b"".join((start, number, middle, properties, units, extension, body, padding)))
    return packets


# Attributes that may differ there: no other header has them. That of a transactional message has no priority.
_VARIED: Final = PACKED_PROPERTIES | {"label", "priority"}


def _parts(message: Message) -> tuple[bytes, ...] | None:
    """The parts of the packet; the last two are the body and its padding."""
    if not _is_plain(message):
        return None
    try:
        return _pack(message)
    except (_NotPlain, WaypostError, struct.error):
        return None


def _is_plain(message: Message) -> bool:
    return (
        message.authentication_level is _UNSIGNED
        and not message.sender_identifier
        and not message.symmetric_key
        and not message.signature
        and not message.sender_certificate
        and message.authentication_provider_name == BASE_PROVIDER
        and message.authentication_provider_type == _RSA
        and not message.tracing_requested
        and message.tracing_queue_identifier == NULL_GUID
        and not message.soap_header
        and not message.soap_body
        and not message.destination_multi_queue_format_name
        and not message.administration_multi_queue_format_name
        and not message.response_multi_queue_format_name
        and not message.multiple_destination_signature
        and message.connector_type_identifier == NULL_GUID
    )


def _pack(message: Message) -> tuple[bytes, ...]:
    priority = message.priority
    identifier = message.identifier
    acknowledgements = message.acknowledgements_requested
    label = message.label
    units = utf_16_le_encode(label + "\0", "surrogatepass")[0] if label else b""
    extension = message.extension
    body = message.body
    user_flags, address, names = _queues(message)
    transaction = b""
    if message.delivery_guarantee is _RECOVERABLE:
        user_flags |= user_header.RECOVERABLE << user_header.DM_SHIFT
        if message.transaction_identifier is not None:
            user_flags |= user_header.TH
            transaction = _transaction_header(message, message.transaction_identifier)
    elif message.delivery_guarantee is not _EXPRESS or message.transaction_identifier is not None:
        raise _NotPlain
    if message.positive_journaling_requested:
        user_flags |= user_header.JP
    if message.negative_journaling_requested:
        user_flags |= user_header.JN
    size = _FIXED_SIZE + len(names) + len(transaction) + len(units) + len(extension) + len(body)
    padding = PADDING[-size & 3]
    size += len(padding)
    if (
        not 0 <= priority <= base_header.PR
        or not 0 <= acknowledgements <= _ACKS
        or (acknowledgements == 0) != (message.administration_queue_format_name is None)
        or not len(identifier.queue_manager_guid) == len(address) == 16
        or len(units) > _MAX_LABEL_SIZE
        or "\0" in label
        or size > MAX_PACKET_SIZE
    ):
        raise _NotPlain
    return (
        _BASE_AND_USER.pack(
            base_header.VERSION,
            0,
            0 if transaction else priority,
            base_header.SIGNATURE,
            size,
            message.time_to_reach_queue,
            identifier.queue_manager_guid,
            address,
            message.time_to_be_received,
            message.sent_time,
            identifier.ordinal,
            user_flags | user_header.MP,
        ),
        names,
        transaction,
        message.packed_properties(len(units) // 2, len(body)),
        units,
        extension,
        body,
        padding,
    )


def _queues(message: Message) -> tuple[int, bytes, bytes]:
    """DQ, AQ and RQ; QueueManagerAddress; DestinationQueue, AdminQueue and ResponseQueue."""
    destination = message.destination_queue_format_name
    administration = message.administration_queue_format_name
    response = message.response_queue_format_name
    if type(destination) is DirectFormatName:
        address = NULL_GUID
        if administration is None and response is None:
            return _DIRECT_DESTINATION, address, _direct_name(destination.direct_text)
    else:
        host = message.destination_queue_manager_identifier
        address = message.queue_manager_address
        if (destination is not None and address == NULL_GUID) or (host != address and host != NULL_GUID):
            raise _NotPlain
    flags = 0
    names = b""
    for name, queue_type, shift in (
        (destination, message.destination_queue_type, user_header.DQ_SHIFT),
        (administration, message.administration_queue_type, user_header.AQ_SHIFT),
        (response, message.response_queue_type, user_header.RQ_SHIFT),
    ):
        flags |= queue_type << shift
        packed = packed_name(name, queue_type)
        if packed is not None:
            names += packed.encode()
    return flags, address, names


# Most messages go to few queues, and to pack a name takes 0.7 us. By its text: equal names may differ in case.
@lru_cache(maxsize=128)
def _direct_name(text: str) -> bytes:
    return DirectQueueFormatName(text).encode()


def _transaction_header(message: Message, identifier: int) -> bytes:
    sequence = message.transactional_message_sequence_identifier
    number = message.transaction_sequence_number
    previous_number = message.transaction_previous_sequence_number
    if (
        not 0 <= identifier <= _MAX_TRANSACTION_IDENTIFIER
        or number == 0
        or previous_number == 0xFFFF_FFFF
        or message.connector_queue_manager_identifier != NULL_GUID
    ):
        raise _NotPlain
    flags = identifier << transaction_header.ID_SHIFT
    if message.final_ack_required:
        flags |= transaction_header.FA
    if message.first_in_transaction:
        flags |= transaction_header.FM
    if message.last_in_transaction:
        flags |= transaction_header.LM
    return transaction_header.LAYOUT.pack(flags, 0 if sequence is None else sequence.value, number, previous_number)
