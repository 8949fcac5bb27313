"""MS-MQDMPR 3.1.7.1.30 to 3.1.7.1.32: a message as a UserMessage Packet and back.

The specification builds empty headers first and fills them afterwards; here a header is built with its fields. All
fields that are read are also written, readings MQDMPR 2.7, except for those that may vary or belong to others:
- the hop count, reserved bits, padding and the headers behind PacketSize belong to the packet alone, and only the
  packet that came keeps them;
- AU and AS are zero on the wire and never believed (readings MQDMPR 3.U): a message comes out unauthenticated, and
  code that verifies its signature sets its AuthenticationLevel;
- the headers of a message that came over HTTP are read, but a packet that is sent has none (MS-MQMQ 2.2.19.2 AH).

The size of a message, which TotalBytes counts and quotas bound, is that of its headers and body, so of its packet
(MS-MQDMPR 3.1.7.2.1, 3.1.7.2.2). readings MQDMPR 3.F, MQDMPR 3.G: a queue adds it once when the message goes in and
subtracts it once when it leaves, and takes 1024 of these bytes for one of a quota.
"""

from codecs import utf_16_le_encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from waypost.core.message import BASE_PROVIDER, ENHANCED_PROVIDER, SECTION, Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee, SenderIdentifierType
from waypost.core.packet_names import packed_name
from waypost.core.plain_packets import ORDINAL_AT, plain_packet
from waypost.errors import EncodeError, LabelTooLong
from waypost.guid import NULL_GUID
from waypost.limits import MAX_LABEL_LENGTH
from waypost.wire import base_header, multi_queue, security_header, transaction_header, user_header
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.base_header import BaseHeader
from waypost.wire.debug_header import DebugHeader
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.keys import ProviderType
from waypost.wire.multi_queue import MqfAddressHeader, MqfSignatureHeader, MultiQueueFormatHeader
from waypost.wire.originated import check_originated
from waypost.wire.packet_names import (
    admin_format_name,
    destination_format_name,
    direct_format_name,
    response_format_name,
)
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.security_header import ProviderInfo, SecurityHeader
from waypost.wire.soap import SoapHeader
from waypost.wire.transaction_header import TransactionHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

_SYSTEM_PROVIDERS: Final = frozenset({BASE_PROVIDER, ENHANCED_PROVIDER})
# Facts that only the queue manager of the queue knows: on the wire they are zero, or a claim.
_OURS: Final = security_header.AU | security_header.AS | security_header.PRIVATE | security_header.UNSENT
_MAX_TRANSACTION_IDENTIFIER: Final = transaction_header.ID >> transaction_header.ID_SHIFT

# Indexed by the value in the packet, which its decoder has checked: cheaper than a call of the enumeration.
_DELIVERY_GUARANTEES: Final = tuple(DeliveryGuarantee)
_SENDER_TYPES: Final = tuple(SenderIdentifierType)
_AUTHENTICATION_LEVELS: Final = {int(level): level for level in AuthenticationLevel}

# To parse a direct name takes as long as all other reading, and most messages go to few queues.
_parse_direct: Final = lru_cache(maxsize=128)(direct_format_name)


def construct_user_message_packet(message: Message) -> UserMessage:
    """3.1.7.1.30 and 3.1.7.1.32: the headers that the attributes ask for, with their fields.

    The result may still break a rule of MS-MQMQ; serialize_message_to_buffer finds that.
    """
    _check_destination(message)
    _check_label(message.label)
    return UserMessage(
        base=_base_header(message),
        user=_user_header(message),
        transaction=_transaction_header(message),
        security=_security_header(message),
        # readings MQDMPR 3.V: always there.
        properties=message.properties_header(),
        debug=_debug_header(message),
        soap=_soap_header(message),
        multi_queue=_multi_queue_header(message),
    )


def serialize_message_to_buffer(message: Message) -> bytes:
    """3.1.7.1.32: a new packet. EncodeError or LabelTooLong for attributes that no packet can carry."""
    plain = plain_packet(message)
    if plain is not None:
        return plain
    packet = construct_user_message_packet(message)
    check_originated(packet)
    return packet.encode()


def _packet_in_queue(message: Message) -> bytes:
    """A new packet as it is kept in a queue."""
    plain = plain_packet(message)
    return _headers_in_queue(message).encode() if plain is None else plain


def _headers_in_queue(message: Message) -> UserMessage:
    packet = construct_user_message_packet(message)
    check_originated(packet)
    if packet.security is not None:
        _set_local_flags(message, packet.security)
    return packet


def protected_packets(
    like: Message, bodies: Sequence[bytes], signatures: Sequence[bytes], ordinals: Sequence[int]
) -> Iterator[bytes]:
    """Packets as they are kept in a queue, of messages that differ from `like` only in these values.

    `like` has a signature if the others have one. To make each message for itself takes five times as long. Packets of
    one size that follow each other are cheaper still, if their signatures are in the SecurityHeader.
    """
    packet = _headers_in_queue(like)
    security, lists = packet.security, packet.multi_queue
    sizes, form = (-1, -1), (b"", b"", b"", b"")
    for body, signature, ordinal in zip(bodies, signatures, ordinals, strict=True):
        if sizes != (len(body), len(signature)):
            packet.properties.message_body = body
            packet.user.message_id = ordinal
            if security is None or not security.signature:
                if lists is not None and lists.signature.signature:
                    lists.signature.signature = signature
                yield packet.encode()
                continue
            security.signature = signature
            sizes, form = (len(body), len(signature)), _around(packet, signature)
        start, names, middle, end = form
        yield b"".join((start, ordinal.to_bytes(4, "little"), names, signature, middle, body, end))


def _around(packet: UserMessage, signature: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """The parts before the ordinal, before the signature of the SecurityHeader, before the body, and after it."""
    parts, body_at = packet.encode_parts()
    head, end = b"".join(parts[:body_at]), b"".join(parts[body_at + 1 :])
    names = ORDINAL_AT + 4
    signed = head.index(signature, names)
    return head[:ORDINAL_AT], head[names:signed], head[signed + len(signature) :], end


def _set_local_flags(message: Message, security: SecurityHeader) -> None:
    """Set the facts that only this queue manager knows: the verified signature, and that the body is clear."""
    security.flags |= message.authentication_level << security_header.AS_SHIFT
    if security.is_body_encrypted and not message.symmetric_key:
        security.flags += security_header.PRIVATE - security_header.EB


def deserialize_message_from_buffer(buffer: bytes) -> Message:
    """3.1.7.1.31: a message with its packet, as it came except for the parts that must not outlive its arrival.

    These are a SessionHeader, which served the transport, and a claim of the sender to be authenticated.
    """
    packet = UserMessage.decode(buffer)
    if packet.session is not None:
        packet.session = None
        buffer = packet.encode()
    return received_message(packet, buffer)


def received_message(packet: UserMessage, data: bytes) -> Message:
    """The message of a packet that is decoded already, and its bytes without a SessionHeader."""
    message = message_from_packet(packet)
    security = packet.security
    if security is not None and security.flags & _OURS:
        security = replace(security, flags=security.flags & ~_OURS)
        data = replace(packet, session=None, security=security).encode()
    message.packet = data
    return message


def packet_of(message: Message) -> bytes:
    """The packet of a message, made now if it has none yet."""
    if not message.packet:
        message.packet = _packet_in_queue(message)
    return message.packet


def size_in_bytes(message: Message) -> int:
    """The size that TotalBytes and quotas count."""
    return len(packet_of(message))


def verified_authentication_level(packet: UserMessage) -> AuthenticationLevel:
    """The signature that the writer of AS has verified: for a remote reader, who trusts the host of the queue."""
    if packet.security is None:
        return AuthenticationLevel.NONE
    signature_type = (packet.security.flags & security_header.AS) >> security_header.AS_SHIFT
    return _AUTHENTICATION_LEVELS.get(signature_type, AuthenticationLevel.NONE)


def message_from_packet(packet: UserMessage) -> Message:
    """3.1.7.1.31 for a packet that is decoded already. Attributes of a missing header keep their defaults."""
    message = Message()
    _read_user_header(message, packet.user)
    message.read_properties(packet.properties)
    message.priority = packet.base.priority
    message.tracing_requested = packet.base.is_traced
    message.time_to_reach_queue = packet.base.time_to_reach_queue
    if packet.transaction is not None:
        _read_transaction_header(message, packet.transaction)
    if packet.security is not None:
        _read_security_header(message, packet.security)
        if packet.security.is_body_encrypted:
            message.body = packet.properties.allocated_body
    if packet.debug is not None and packet.debug.queue_identifier is not None:
        message.tracing_queue_identifier = packet.debug.queue_identifier
    if packet.srmp_envelope is not None:
        message.soap_envelope = packet.srmp_envelope.data
    if packet.compound_message is not None:
        message.soap_compound_message = packet.compound_message.data
        message.body = packet.compound_message.message_body
    if packet.soap is not None:
        message.soap_header = packet.soap.header or ""
        message.soap_body = packet.soap.body or ""
    if packet.multi_queue is not None:
        _read_multi_queue_header(message, packet.multi_queue)
    return message


def _check_destination(message: Message) -> None:
    """Check the destination: a packet has the host of a private queue once, and one queue of several."""
    name = message.destination_queue_format_name
    host = message.destination_queue_manager_identifier
    if type(name) is PrivateFormatName and host not in (NULL_GUID, name.computer_guid):
        raise EncodeError(SECTION, "DestinationQueueManagerIdentifier", f"{name} belongs to another queue manager")
    names = message.destination_multi_queue_format_name
    if names and name not in names:
        raise EncodeError(SECTION, "DestinationQueueFormatName", f"{name} is not one of the destinations")


def _check_label(label: str) -> None:
    # Only characters outside the basic plane take two units, so a short label needs no look.
    if 2 * len(label) >= MAX_LABEL_LENGTH and len(utf_16_le_encode(label, "surrogatepass")[0]) // 2 >= MAX_LABEL_LENGTH:
        raise LabelTooLong(f"the label must have at most {MAX_LABEL_LENGTH - 1} UTF-16 units (MS-MQDMPR 3.1.1.12)")


def _base_header(message: Message) -> BaseHeader:
    if not 0 <= message.priority <= base_header.PR:
        raise EncodeError(base_header.SECTION, "Flags", f"the priority must be 0 to 7, not {message.priority}")
    flags = message.effective_priority
    if message.tracing_requested:
        flags |= base_header.TR
    return BaseHeader(flags=flags, time_to_reach_queue=message.time_to_reach_queue)


def _user_header(message: Message) -> UserHeader:
    destination_type = message.destination_queue_type
    administration_type = message.administration_queue_type
    response_type = message.response_queue_type
    flags = (
        message.delivery_guarantee << user_header.DM_SHIFT
        | destination_type << user_header.DQ_SHIFT
        | administration_type << user_header.AQ_SHIFT
        | response_type << user_header.RQ_SHIFT
    )
    if message.positive_journaling_requested:
        flags |= user_header.JP
    if message.negative_journaling_requested:
        flags |= user_header.JN
    connector = message.connector_type_identifier
    return UserHeader(
        source_queue_manager=message.source_machine_identifier,
        queue_manager_address=message.queue_manager_address,
        time_to_be_received=message.time_to_be_received,
        sent_time=message.sent_time,
        message_id=message.identifier.ordinal,
        flags=flags,
        destination_queue=packed_name(message.destination_queue_format_name, destination_type),
        admin_queue=packed_name(message.administration_queue_format_name, administration_type),
        response_queue=packed_name(message.response_queue_format_name, response_type),
        connector_type=None if connector == NULL_GUID else connector,
    )


def _read_user_header(message: Message, header: UserHeader) -> None:
    flags = header.flags
    message.identifier = MessageIdentifier(header.source_queue_manager, header.message_id)
    message.destination_queue_manager_identifier = header.queue_manager_address
    message.time_to_be_received = header.time_to_be_received
    message.sent_time = header.sent_time
    message.delivery_guarantee = _DELIVERY_GUARANTEES[header.delivery]
    message.positive_journaling_requested = flags & user_header.JP != 0
    message.negative_journaling_requested = flags & user_header.JN != 0
    destination = header.destination_queue
    if type(destination) is DirectQueueFormatName:
        message.destination_queue_format_name = _parse_direct(destination.direct_format_name)
    else:
        message.destination_queue_format_name = destination_format_name(header)
    message.administration_queue_format_name = admin_format_name(header)
    message.response_queue_format_name = response_format_name(header)
    if header.connector_type is not None:
        message.connector_type_identifier = header.connector_type


def _transaction_header(message: Message) -> TransactionHeader | None:
    identifier = message.transaction_identifier
    if identifier is None:
        return None
    if not 0 <= identifier <= _MAX_TRANSACTION_IDENTIFIER:
        raise EncodeError(transaction_header.SECTION, "Flags", f"{identifier} does not fit into ID, which has 20 bits")
    flags = identifier << transaction_header.ID_SHIFT
    if message.final_ack_required:
        flags |= transaction_header.FA
    if message.first_in_transaction:
        flags |= transaction_header.FM
    if message.last_in_transaction:
        flags |= transaction_header.LM
    sequence = message.transactional_message_sequence_identifier
    connector = message.connector_queue_manager_identifier
    return TransactionHeader(
        flags,
        0 if sequence is None else sequence.value,
        message.transaction_sequence_number,
        message.transaction_previous_sequence_number,
        None if connector == NULL_GUID else connector,
    )


def _read_transaction_header(message: Message, header: TransactionHeader) -> None:
    # MS-MQMQ 2.2.19.1: PR has no meaning in a transactional message.
    message.priority = 0
    message.transaction_identifier = header.transaction_id
    message.final_ack_required = header.wants_final_ack
    message.first_in_transaction = header.is_first
    message.last_in_transaction = header.is_last
    message.transactional_message_sequence_identifier = TxSequenceId.of(header.tx_sequence_id)
    message.transaction_sequence_number = header.tx_sequence_number
    message.transaction_previous_sequence_number = header.previous_tx_sequence_number
    if header.connector_qm_guid is not None:
        message.connector_queue_manager_identifier = header.connector_qm_guid


def _security_header(message: Message) -> SecurityHeader | None:
    """readings MQDMPR 3.T: also for a message that is not signed, if it has something to put there."""
    provider_info = _provider_info(message)
    if message.authentication_level is AuthenticationLevel.NONE and not (
        message.sender_identifier
        or message.symmetric_key
        or message.signature
        or message.sender_certificate
        or provider_info
    ):
        return None
    flags = int(message.sender_identifier_type) if message.sender_identifier else security_header.NO_SENDER
    if message.privacy_level != PrivacyLevel.NONE:
        flags |= security_header.EB
    is_signed = message.signature or message.multiple_destination_signature
    if is_signed and not provider_info:
        flags |= security_header.DE
    if is_signed or message.symmetric_key or provider_info:
        flags |= security_header.AI
    return SecurityHeader(
        flags,
        message.sender_identifier,
        message.symmetric_key,
        message.signature,
        message.sender_certificate,
        provider_info,
    )


def _provider_info(message: Message) -> bytes:
    """Empty if the messaging system signs: DE says that."""
    provider_type, provider_name = message.authentication_provider_type, message.authentication_provider_name
    if provider_type == ProviderType.PROV_RSA_FULL and provider_name in _SYSTEM_PROVIDERS:
        return b""
    return ProviderInfo(provider_type, provider_name).encode()


def _read_security_header(message: Message, header: SecurityHeader) -> None:
    message.sender_identifier_type = _SENDER_TYPES[header.sender_type]
    message.sender_identifier = header.security_id
    message.symmetric_key = header.encryption_key
    message.signature = header.signature
    message.sender_certificate = header.sender_cert
    provider = header.provider
    if provider is not None:
        message.authentication_provider_type = provider.provider_type
        message.authentication_provider_name = provider.provider_name


def _debug_header(message: Message) -> DebugHeader | None:
    """readings MQDMPR 3.V: a traced message without a queue for reports has the header too: TR demands it."""
    identifier = message.tracing_queue_identifier
    if identifier != NULL_GUID:
        return DebugHeader(queue_identifier=identifier)
    return DebugHeader() if message.tracing_requested else None


def _soap_header(message: Message) -> SoapHeader | None:
    if not (message.soap_header or message.soap_body):
        return None
    return SoapHeader(header=message.soap_header or None, body=message.soap_body or None)


def _multi_queue_header(message: Message) -> MultiQueueFormatHeader | None:
    """The header for several destinations, and the only place for several administration or response queues."""
    destination = message.destination_multi_queue_format_name
    administration = message.administration_multi_queue_format_name
    response = message.response_multi_queue_format_name
    signature = message.multiple_destination_signature
    if not (destination or administration or response or signature):
        return None
    return MultiQueueFormatHeader(
        _address_header(destination),
        _address_header(administration),
        _address_header(response),
        MqfSignatureHeader(signature=signature),
    )


def _read_multi_queue_header(message: Message, header: MultiQueueFormatHeader) -> None:
    message.destination_multi_queue_format_name = _format_names(header.destination)
    message.administration_multi_queue_format_name = _format_names(header.administration)
    message.response_multi_queue_format_name = _format_names(header.response)
    message.multiple_destination_signature = header.signature.signature


def _address_header(names: tuple[FormatName, ...]) -> MqfAddressHeader:
    return MqfAddressHeader(elements=[multi_queue.from_format_name(name) for name in names])


def _format_names(header: MqfAddressHeader) -> tuple[FormatName, ...]:
    return tuple(map(multi_queue.to_format_name, header.elements))
