"""Every header of a packet: its fixed run, its record's decoder, and the fields of varying size that follow the run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from waypost.guid import guid_text
from waypost.wire import (
    base_header,
    debug_header,
    internal_packets,
    message_properties,
    multi_queue,
    ping,
    remote_trailers,
    security_header,
    session_header,
    soap,
    transaction_header,
    user_header,
)
from waypost.wire.codec import cut_short
from waypost.wire.describe import tables
from waypost.wire.describe.bodies import body_text
from waypost.wire.describe.model import Run, Walk
from waypost.wire.describe.values import queue_text, sender_text
from waypost.wire.packet_names import admin_format_name, destination_format_name, response_format_name
from waypost.wire.queue_names import PrivateQueueFormatNameId
from waypost.wire.unknown_names import UnknownFormatName


@dataclass(slots=True, frozen=True)
class Header:
    """`decode` checks the header at an offset and returns its record and its end.

    `rest` adds what follows the run of a sound header to the walk; `salvage` adds what can be read of a malformed one.
    """

    name: str
    section: str
    run: Run
    decode: Callable[[bytes, int], tuple[Any, int]]
    rest: Callable[[Any, Walk], None] | None = None
    salvage: Callable[[Walk], None] | None = None


def _fixed(name: str, section: str, run: Run) -> Header:
    """A header that is its run and has nothing to check."""

    def decode(data: bytes, at: int) -> tuple[None, int]:
        if len(data) - at < run.layout.size:
            raise cut_short(section, name, at, len(data))
        return None, at + run.layout.size

    return Header(name, section, run, decode)


def _text_size(text: str | None) -> int:
    return 0 if text is None else len(text.encode("utf-16-le", "surrogatepass")) + 2


def _user_rest(user: user_header.UserHeader, walk: Walk) -> None:
    for name, queue, shift, whole_name in (
        ("DestinationQueue", user.destination_queue, user_header.DQ_SHIFT, destination_format_name),
        ("AdminQueue", user.admin_queue, user_header.AQ_SHIFT, admin_format_name),
        ("ResponseQueue", user.response_queue, user_header.RQ_SHIFT, response_format_name),
    ):
        if queue is None:
            continue
        whole = whole_name(user)
        text = str(whole) if isinstance(queue, PrivateQueueFormatNameId) else queue_text(queue)
        meaning = tables.QUEUE_KINDS[user.flags >> shift & 7]
        if isinstance(whole, UnknownFormatName):
            meaning += ", not understood"
        walk.add(name, len(queue.encode()), text, meaning)
    if user.connector_type is not None:
        walk.add("ConnectorType", 16, guid_text(user.connector_type))


def _transaction_rest(transaction: transaction_header.TransactionHeader, walk: Walk) -> None:
    if transaction.connector_qm_guid is not None:
        walk.add("ConnectorQMGuid", 16, guid_text(transaction.connector_qm_guid))


def _security_rest(security: security_header.SecurityHeader, walk: Walk) -> None:
    is_guid = security.sender_type == security_header.SENDER_QUEUE_MANAGER
    sender = guid_text(security.security_id) if is_guid else sender_text(security.security_id)
    provider = security.provider
    for name, item, meaning in (
        ("SecurityID", security.security_id, sender),
        ("EncryptionKey", security.encryption_key, ""),
        ("Signature", security.signature, ""),
        ("SenderCert", security.sender_cert, "X.509 certificate"),
        (
            "ProviderInfo",
            security.provider_info,
            f"{provider.provider_name}, {provider.provider_type}" if provider else "",
        ),
    ):
        walk.add(name, len(item), item, meaning)
        walk.at += -len(item) & 3


def _properties_texts(walk: Walk) -> None:
    """Read from the sizes alone, so that a message which was cut still shows its label and how its body begins."""
    layout = message_properties.LAYOUT
    if len(walk.data) - walk.start < layout.size:
        return
    _, label_length, _, _, body_type, _, size, allocation, *_, extension_size = layout.unpack_from(
        walk.data, walk.start
    )
    label = walk.take(2 * label_length)
    text = label[: len(label) & ~1].decode("utf-16-le", "surrogatepass")
    walk.add("Label", len(label), text.rstrip("\0"))
    extension = walk.take(extension_size)
    walk.add("ExtensionData", len(extension), extension)
    body = walk.take(size)
    walk.add("MessageBody", len(body), body, body_text(body, body_type))
    remainder = walk.take(max(allocation - size, 0))
    walk.add("MessageBody (allocated)", len(remainder), remainder, "beyond MessageSize")


def _properties_rest(properties: message_properties.MessagePropertiesHeader, walk: Walk) -> None:
    _properties_texts(walk)
    walk.add("Padding", len(properties.padding), properties.padding)


def _debug_rest(debug: debug_header.DebugHeader, walk: Walk) -> None:
    if debug.queue_identifier is not None:
        walk.add("QueueIdentifier", 16, guid_text(debug.queue_identifier), "queue for reports")


def _soap_rest(header: soap.SoapHeader, walk: Walk) -> None:
    walk.add("Header", _text_size(header.header), header.header or "")
    walk.add("Padding", len(header.header_padding), header.header_padding)
    walk.run(tables.SOAP_BODY_PART)
    walk.add("Body", _text_size(header.body), header.body or "")
    walk.add("Padding", len(header.body_padding), header.body_padding)


def _envelope_rest(envelope: soap.SrmpEnvelopeHeader, walk: Walk) -> None:
    walk.add("Data", _text_size(envelope.data), envelope.data, "SOAP envelope")
    walk.add("Padding", len(envelope.padding), envelope.padding)


def _compound_rest(compound: soap.CompoundMessageHeader, walk: Walk) -> None:
    walk.add("Data", len(compound.data), compound.data, body_text(compound.data, 0))
    walk.add("Padding", len(compound.padding), compound.padding)


def _address_rest(address: multi_queue.MqfAddressHeader, walk: Walk) -> None:
    for index, element in enumerate(address.elements):
        size = len(element.encode(walk.at - walk.start))
        kind = tables.FORMAT_TYPES[multi_queue.FORMAT_TYPES[type(element.format_name)]]
        walk.add(f"FormatNameList[{index}]", size, queue_text(element.format_name), kind)
    walk.add("Padding", len(address.padding), address.padding)


def _mqf_signature_rest(header: multi_queue.MqfSignatureHeader, walk: Walk) -> None:
    walk.add("Signature", len(header.signature), header.signature)
    walk.add("Padding", len(header.padding), header.padding)


def _dead_letter_rest(header: remote_trailers.DeadLetterHeader, walk: Walk) -> None:
    walk.add("DeadLetterPathName", _text_size(header.dead_letter_path_name), header.dead_letter_path_name)
    walk.add("Padding", len(header.padding), header.padding)


def _mqf_address(part: str, header_id: multi_queue.MqfHeaderId) -> Header:
    return Header(
        f"MultiQueueFormatHeader.{part}",
        multi_queue.HEADER_SECTION,
        tables.MQF_ADDRESS,
        lambda data, at: multi_queue.MqfAddressHeader.decode(data, at, header_id),
        _address_rest,
    )


BASE: Final = Header("BaseHeader", base_header.SECTION, tables.BASE, base_header.BaseHeader.decode)
INTERNAL: Final = Header("InternalHeader", "MS-MQQB 2.2.1", tables.INTERNAL, internal_packets.InternalHeader.decode)
ESTABLISH_CONNECTION: Final = _fixed("EstablishConnectionHeader", "MS-MQQB 2.2.3.1", tables.ESTABLISH_CONNECTION)
CONNECTION_PARAMETERS: Final = _fixed("ConnectionParametersHeader", "MS-MQQB 2.2.2.1", tables.CONNECTION_PARAMETERS)
SESSION: Final = Header("SessionHeader", session_header.SECTION, tables.SESSION, session_header.SessionHeader.decode)
PING: Final = Header("Ping", ping.SECTION, tables.PING, lambda data, at: (ping.Ping.decode(data[at:]), len(data)))
USER: Final = Header("UserHeader", user_header.SECTION, tables.USER, user_header.UserHeader.decode, _user_rest)
TRANSACTION: Final = Header(
    "TransactionHeader",
    transaction_header.SECTION,
    tables.TRANSACTION,
    transaction_header.TransactionHeader.decode,
    _transaction_rest,
)
SECURITY: Final = Header(
    "SecurityHeader", security_header.SECTION, tables.SECURITY, security_header.SecurityHeader.decode, _security_rest
)
PROPERTIES: Final = Header(
    "MessagePropertiesHeader",
    message_properties.SECTION,
    tables.PROPERTIES,
    message_properties.MessagePropertiesHeader.decode,
    _properties_rest,
    _properties_texts,
)
DEBUG: Final = Header("DebugHeader", debug_header.SECTION, tables.DEBUG, debug_header.DebugHeader.decode, _debug_rest)
SRMP_ENVELOPE: Final = Header(
    "SRMPEnvelopeHeader", soap.ENVELOPE_SECTION, tables.SRMP_ENVELOPE, soap.SrmpEnvelopeHeader.decode, _envelope_rest
)
COMPOUND_MESSAGE: Final = Header(
    "CompoundMessageHeader",
    soap.COMPOUND_SECTION,
    tables.COMPOUND_MESSAGE,
    soap.CompoundMessageHeader.decode,
    _compound_rest,
)
SOAP: Final = Header("SoapHeader", soap.SOAP_SECTION, tables.SOAP_HEADER_PART, soap.SoapHeader.decode, _soap_rest)
MULTI_QUEUE: Final = (
    _mqf_address("Destination", multi_queue.MqfHeaderId.DESTINATION),
    _mqf_address("Administration", multi_queue.MqfHeaderId.ADMIN),
    _mqf_address("Response", multi_queue.MqfHeaderId.RESPONSE),
    Header(
        "MultiQueueFormatHeader.Signature",
        multi_queue.SIGNATURE_SECTION,
        tables.MQF_SIGNATURE,
        multi_queue.MqfSignatureHeader.decode,
        _mqf_signature_rest,
    ),
)
EXTENSION: Final = Header(
    "ExtensionHeader",
    remote_trailers.EXTENSION_SECTION,
    tables.EXTENSION,
    remote_trailers.ExtensionHeader.decode,
)
# By the bit of ExtensionHeader.Flags that announces it.
TRAILERS: Final = {
    remote_trailers.SQ: Header(
        "SubqueueHeader",
        remote_trailers.SUBQUEUE_SECTION,
        tables.SUBQUEUE,
        remote_trailers.SubqueueHeader.decode,
    ),
    remote_trailers.DL: Header(
        "DeadLetterHeader",
        remote_trailers.DEAD_LETTER_SECTION,
        tables.DEAD_LETTER,
        remote_trailers.DeadLetterHeader.decode,
        _dead_letter_rest,
    ),
    remote_trailers.EA: Header(
        "ExtendedAddressHeader",
        remote_trailers.ADDRESS_SECTION,
        tables.EXTENDED_ADDRESS,
        remote_trailers.ExtendedAddressHeader.decode,
    ),
}
