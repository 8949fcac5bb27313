"""The baseline for the codec of the package: one function each way, written by hand for one shape of packet.

The shape is a UserMessage Packet with a direct destination and perhaps a SecurityHeader with a sender SID. Decoding
makes the same records as the package and checks the same bounds, but all in line, with one `struct` call for
BaseHeader, UserHeader and the length of the name together. Encoding looks at the fields of that shape only and
computes no flags but SH. Neither knows another header or another error than ValueError, and neither could be kept up
for the whole protocol: they show what the package pays for being in order.
"""

from codecs import utf_16_le_decode, utf_16_le_encode
from struct import Struct

from waypost.wire.base_header import BaseHeader
from waypost.wire.message_properties import MessagePropertiesHeader
from waypost.wire.queue_names import DirectQueueFormatName
from waypost.wire.security_header import SecurityHeader
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

_HEAD = Struct("<BBHIII16s16sIIIIH")
_SECURITY = Struct("<HHHHII")
_PROPERTIES = Struct("<BBH20sIIIIIIII")


def decode(data: bytes) -> UserMessage:
    have = len(data)
    if not 66 <= have <= 0x0040_0000:
        raise ValueError("size")
    (
        version,
        reserved,
        base_flags,
        signature,
        packet_size,
        time_to_reach_queue,
        source_queue_manager,
        queue_manager_address,
        time_to_be_received,
        sent_time,
        message_id,
        user_flags,
        count,
    ) = _HEAD.unpack_from(data)
    if version != 0x10 or signature != 0x524F494C or packet_size != have or base_flags & 0x0138:
        raise ValueError("base")
    if user_flags & 0x12F7_FC40 != 0x0020_1C00:
        raise ValueError("flags")
    at = 66 + count
    if at + (-at & 3) > have:
        raise ValueError("destination")
    units, used = utf_16_le_decode(data[66:at], "surrogatepass")
    text, null, rest = units.partition("\0")
    if rest or not null or used != count:
        raise ValueError("destination")
    destination = DirectQueueFormatName(text)
    if at & 3:
        destination.padding = data[at : at + (-at & 3)]
        at += -at & 3
    security = None
    if user_flags & 0x0008_0000:
        if have - at < 16:
            raise ValueError("security")
        flags, id_size, key_size, signature_size, cert_size, provider_size = _SECURITY.unpack_from(data, at)
        at += 16
        if flags & 15 != 1 or not id_size or key_size or signature_size or cert_size or provider_size:
            raise ValueError("security")
        if at + id_size > have:
            raise ValueError("security")
        security = SecurityHeader(flags, data[at : at + id_size])
        at += id_size
        if at & 3:
            security.padding = data[at : at + (-at & 3)]
            at += -at & 3
    if have - at < 56:
        raise ValueError("properties")
    (
        flags,
        label_length,
        message_class,
        correlation_id,
        body_type,
        application_tag,
        message_size,
        allocation_body_size,
        privacy_level,
        hash_algorithm,
        encryption_algorithm,
        extension_size,
    ) = _PROPERTIES.unpack_from(data, at)
    label_at = at + 56
    extension_at = label_at + label_length * 2
    body_at = extension_at + extension_size
    end = body_at + message_size
    if label_length > 250 or allocation_body_size != message_size or end + (-end & 3) != have:
        raise ValueError("properties")
    properties = MessagePropertiesHeader(
        flags,
        message_class,
        correlation_id,
        body_type,
        application_tag,
        privacy_level,
        hash_algorithm,
        encryption_algorithm,
    )
    if label_length:
        units, used = utf_16_le_decode(data[label_at:extension_at], "surrogatepass")
        text, null, rest = units.partition("\0")
        if rest or not null or used != extension_at - label_at:
            raise ValueError("label")
        properties.label = text
    if extension_size:
        properties.extension_data = data[extension_at:body_at]
    properties.message_body = data[body_at:end]
    if end != have:
        properties.padding = data[end:]
    return UserMessage(
        BaseHeader(version, reserved, base_flags, signature, packet_size, time_to_reach_queue),
        UserHeader(
            source_queue_manager,
            queue_manager_address,
            time_to_be_received,
            sent_time,
            message_id,
            user_flags,
            destination,
        ),
        None,
        security,
        properties,
    )


def encode(message: UserMessage) -> bytes:
    base = message.base
    user = message.user
    destination = user.destination_queue
    if not isinstance(destination, DirectQueueFormatName):
        raise ValueError("destination")
    if "\0" in destination.direct_format_name:
        raise ValueError("destination")
    text = utf_16_le_encode(destination.direct_format_name + "\0", "surrogatepass")[0]
    count = len(text)
    if count > 0xFFFF:
        raise ValueError("destination")
    parts = [b"", text]
    size = 66 + count
    if size & 3:
        fill = -size & 3
        parts.append(destination.padding if len(destination.padding) == fill else bytes(fill))
        size += fill
    user_flags = user.flags & ~0x0008_0000
    security = message.security
    if security is not None:
        id_size = len(security.security_id)
        if id_size > 0xFFFF or security.encryption_key or security.signature or security.sender_cert:
            raise ValueError("security")
        user_flags |= 0x0008_0000
        parts.append(_SECURITY.pack(security.flags, id_size, 0, 0, 0, 0))
        parts.append(security.security_id)
        size += 16 + id_size
        if size & 3:
            fill = -size & 3
            parts.append(security.padding if len(security.padding) == fill else bytes(fill))
            size += fill
    properties = message.properties
    label = b""
    if properties.label is not None:
        if "\0" in properties.label:
            raise ValueError("label")
        label = utf_16_le_encode(properties.label + "\0", "surrogatepass")[0]
        if len(label) > 500:
            raise ValueError("label")
    extension = properties.extension_data
    body = properties.message_body
    parts.append(
        _PROPERTIES.pack(
            properties.flags,
            len(label) >> 1,
            properties.message_class,
            properties.correlation_id,
            properties.body_type,
            properties.application_tag,
            len(body),
            len(body),
            properties.privacy_level,
            properties.hash_algorithm,
            properties.encryption_algorithm,
            len(extension),
        )
    )
    parts += (label, extension, body)
    size += 56 + len(label) + len(extension) + len(body)
    if size & 3:
        fill = -size & 3
        parts.append(properties.padding if len(properties.padding) == fill else bytes(fill))
        size += fill
    if size > 0x0040_0000:
        raise ValueError("size")
    parts[0] = _HEAD.pack(
        base.version_number,
        base.reserved,
        base.flags,
        base.signature,
        size,
        base.time_to_reach_queue,
        user.source_queue_manager,
        user.queue_manager_address,
        user.time_to_be_received,
        user.sent_time,
        user.message_id,
        user_flags,
        count,
    )
    return b"".join(parts)
