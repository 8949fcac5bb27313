"""MS-MQMQ 2.2.19.3 MessagePropertiesHeader: label, extension and body, with what the application says about them.

MessageSize bytes are the body; AllocationBodySize bytes are what it takes in the packet (readings MQMQ 3.18). The two
differ when a body is encrypted: the first MessageSize bytes are then in `message_body` and the rest in
`allocation_remainder`. BodyType and the algorithms are carried whatever they are (readings MQMQ 3.9, MQMQ 3.19);
waypost.security looks at the algorithms of a message that is signed or encrypted.
"""

import struct
from codecs import utf_16_le_decode, utf_16_le_encode
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_LABEL_LENGTH
from waypost.wire.codec import PADDING, bad_text, cut_short, encodes

SECTION: Final = "MS-MQMQ 2.2.19.3"

PA: Final = 0x01
PR: Final = 0x02
NA: Final = 0x04
NR: Final = 0x08

LAYOUT: Final = Struct("<BBH20sIIIIIIII")
FIXED_SIZE: Final = 56
# The fields of the layout.
FIELDS: Final = (
    *("Flags", "LabelLength", "MessageClass", "CorrelationID", "BodyType", "ApplicationTag", "MessageSize"),
    *("AllocationBodySize", "PrivacyLevel", "HashAlgorithm", "EncryptionAlgorithm", "ExtensionSize"),
)

_MAX_LABEL_SIZE: Final = 2 * MAX_LABEL_LENGTH
_NO_CORRELATION: Final = bytes(20)


@dataclass(slots=True)
class MessagePropertiesHeader:
    """LabelLength, MessageSize, AllocationBodySize and ExtensionSize are computed.

    No label and a label of a lone null differ on the wire.
    """

    flags: int = 0
    message_class: int = 0
    correlation_id: bytes = _NO_CORRELATION
    body_type: int = 0
    application_tag: int = 0
    privacy_level: int = 0
    hash_algorithm: int = 0
    encryption_algorithm: int = 0
    label: str | None = None
    extension_data: bytes = b""
    message_body: bytes = b""
    allocation_remainder: bytes = b""
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[MessagePropertiesHeader, int]":
        try:
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
            ) = LAYOUT.unpack_from(buf, at)
        except struct.error:
            raise cut_short(SECTION, "MessagePropertiesHeader", at, len(buf)) from None
        if label_length > MAX_LABEL_LENGTH:
            raise DecodeError(SECTION, "LabelLength", at + 1, f"must be at most 250, not {label_length}")
        label_at = at + FIXED_SIZE
        extension_at = label_at + label_length * 2
        body_at = extension_at + extension_size
        end = body_end = body_at + message_size
        if allocation_body_size != message_size:
            if allocation_body_size < message_size:
                reason = f"{allocation_body_size} bytes are not enough for the {message_size} bytes of the body"
                raise DecodeError(SECTION, "AllocationBodySize", at + 36, reason)
            end = body_at + allocation_body_size
        after = end + (at - end & 3)
        if after > len(buf):
            raise _overrun(buf, label_at, extension_at, body_at)
        header = cls(
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
            # decode_text, in line: most messages have a label.
            units, used = utf_16_le_decode(buf[label_at:extension_at], "surrogatepass")
            header.label, null, rest = units.partition("\0")
            if rest or not null or used != label_length * 2:
                raise bad_text(units, SECTION, "Label", label_at)
        if extension_size:
            header.extension_data = buf[extension_at:body_at]
        header.message_body = buf[body_at:body_end]
        if end != body_end:
            header.allocation_remainder = buf[body_end:end]
        if after != end:
            header.padding = buf[end:after]
        return header, after

    @encodes(SECTION, "MessagePropertiesHeader")
    def encode(self) -> bytes:
        parts: list[bytes] = []
        self.encode_into(parts)
        return b"".join(parts)

    def encode_into(self, parts: list[bytes]) -> int:
        label = b""
        if self.label is not None:
            # encode_text, in line: most messages have a label.
            if "\0" in self.label:
                raise EncodeError(SECTION, "Label", "contains a null before the end")
            label = utf_16_le_encode(self.label + "\0", "surrogatepass")[0]
            if len(label) > _MAX_LABEL_SIZE:
                units = len(label) // 2 - 1
                raise EncodeError(SECTION, "Label", f"must have at most 249 UTF-16 units, not {units}")
        extension = self.extension_data
        body = self.message_body
        remainder = self.allocation_remainder
        label_size = len(label)
        extension_size = len(extension)
        body_size = len(body)
        allocation_body_size = body_size + len(remainder)
        parts.append(
            LAYOUT.pack(
                self.flags,
                label_size // 2,
                self.message_class,
                self.correlation_id,
                self.body_type,
                self.application_tag,
                body_size,
                allocation_body_size,
                self.privacy_level,
                self.hash_algorithm,
                self.encryption_algorithm,
                extension_size,
            )
        )
        if label:
            parts.append(label)
        if extension:
            parts.append(extension)
        parts.append(body)
        if remainder:
            parts.append(remainder)
        size = FIXED_SIZE + label_size + extension_size + allocation_body_size
        fill = -size & 3
        if fill:
            parts.append(self.padding if len(self.padding) == fill else PADDING[fill])
        return size + fill

    @property
    def allocated_body(self) -> bytes:
        """The bytes in the packet at the place of the body: the ciphertext of an encrypted message."""
        return self.message_body + self.allocation_remainder


def _overrun(buf: bytes, label_at: int, extension_at: int, body_at: int) -> DecodeError:
    if extension_at > len(buf):
        return cut_short(SECTION, "Label", label_at, len(buf))
    if body_at > len(buf):
        return cut_short(SECTION, "ExtensionData", extension_at, len(buf))
    return cut_short(SECTION, "MessageBody", body_at, len(buf))
