"""MS-MQMQ 2.2.20.7 and MS-MQRR 2.2.5.1.2: the headers of messages that carry SOAP.

SoapHeader holds two strings of the application. SrmpEnvelopeHeader and CompoundMessageHeader hold a message that came
over HTTP (SRMP); they stand in a packet together, when UserHeader.Flags.AH is set.

Each part is an identifier, reserved bits, a length and data, and ends on a 4-byte boundary. The texts do not say so;
tests/vectors/srmp-user-message.bin shows it. There the envelope's text starts at 0xEC, DataLength 0x21B counts UTF-16
units, including the null and takes it to 0x522, and the CompoundMessageHeader starts at 0x524. Its Data ends at 0x940,
where an ExtensionHeader (MS-MQRR 2.2.5.2) closes the packet.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.wire.codec import cut_short, decode_text, encode_text, padding_for

SOAP_SECTION: Final = "MS-MQMQ 2.2.20.7"
ENVELOPE_SECTION: Final = "MS-MQRR 2.2.5.1.2.1"
COMPOUND_SECTION: Final = "MS-MQRR 2.2.5.1.2.2"

HEADER_SECTION_ID: Final = 0x0320
BODY_SECTION_ID: Final = 0x0384

# MS-MQRR gives its two headers no identifiers; these are the vector's. Any other is read and kept.
ENVELOPE_HEADER_ID: Final = 0x0000
COMPOUND_HEADER_ID: Final = 0x01F4

TEXT_LAYOUT: Final = Struct("<HHI")
COMPOUND_LAYOUT: Final = Struct("<HHIII")


@dataclass(slots=True)
class SoapHeader:
    """2.2.20.7: a header and a body that the application gave. A length of 0 means no text, not even a null: None."""

    reserved: int = 0
    header: str | None = None
    header_padding: bytes = field(default=b"", compare=False)
    reserved1: int = 0
    body: str | None = None
    body_padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SoapHeader, int]":
        header, body_at = _TextPart.decode(buf, at, SOAP_SECTION, "Header")
        if header.identifier != HEADER_SECTION_ID:
            reason = f"must be 0x0320, not 0x{header.identifier:04X}"
            raise DecodeError(SOAP_SECTION, "HeaderSectionID", at, reason)
        body, end = _TextPart.decode(buf, body_at, SOAP_SECTION, "Body")
        if body.identifier != BODY_SECTION_ID:
            reason = f"must be 0x0384, not 0x{body.identifier:04X}"
            raise DecodeError(SOAP_SECTION, "BodySectionID", body_at, reason)
        return cls(header.reserved, header.text, header.padding, body.reserved, body.text, body.padding), end

    def encode(self) -> bytes:
        header = _TextPart(HEADER_SECTION_ID, self.reserved, self.header, self.header_padding)
        body = _TextPart(BODY_SECTION_ID, self.reserved1, self.body, self.body_padding)
        return header.encode(SOAP_SECTION, "Header") + body.encode(SOAP_SECTION, "Body")


@dataclass(slots=True)
class SrmpEnvelopeHeader:
    """MS-MQRR 2.2.5.1.2.1: the SOAP envelope as text."""

    header_id: int = ENVELOPE_HEADER_ID
    reserved: int = 0
    data: str = ""
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SrmpEnvelopeHeader, int]":
        part, end = _TextPart.decode(buf, at, ENVELOPE_SECTION, "Data")
        if part.text is None:
            raise DecodeError(
                ENVELOPE_SECTION, "DataLength", at + 4, "must be at least 1, because Data ends with a null"
            )
        return cls(part.identifier, part.reserved, part.text, part.padding), end

    def encode(self) -> bytes:
        return _TextPart(self.header_id, self.reserved, self.data, self.padding).encode(ENVELOPE_SECTION, "Data")


@dataclass(slots=True)
class CompoundMessageHeader:
    """MS-MQRR 2.2.5.1.2.2: the HTTP POST as it came, and where in it the message body is."""

    header_id: int = COMPOUND_HEADER_ID
    reserved: int = 0
    msg_body_size: int = 0
    msg_body_offset: int = 0
    data: bytes = b""
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[CompoundMessageHeader, int]":
        if len(buf) - at < COMPOUND_LAYOUT.size:
            raise cut_short(COMPOUND_SECTION, "CompoundMessageHeader", at, len(buf))
        header_id, reserved, http_body_size, msg_body_size, msg_body_offset = COMPOUND_LAYOUT.unpack_from(buf, at)
        start = at + COMPOUND_LAYOUT.size
        end = start + http_body_size
        after = end + (-http_body_size & 3)
        if after > len(buf):
            raise cut_short(COMPOUND_SECTION, "Data", start, len(buf))
        if msg_body_offset + msg_body_size > http_body_size:
            raise DecodeError(COMPOUND_SECTION, "MsgBodySize", at + 8, "the message body extends beyond Data")
        return cls(header_id, reserved, msg_body_size, msg_body_offset, buf[start:end], buf[end:after]), after

    def encode(self) -> bytes:
        size = len(self.data)
        if self.msg_body_offset + self.msg_body_size > size:
            raise EncodeError(COMPOUND_SECTION, "MsgBodySize", "the message body extends beyond Data")
        fixed = COMPOUND_LAYOUT.pack(self.header_id, self.reserved, size, self.msg_body_size, self.msg_body_offset)
        return fixed + self.data + padding_for(size, self.padding)

    @property
    def message_body(self) -> bytes:
        return self.data[self.msg_body_offset : self.msg_body_offset + self.msg_body_size]


@dataclass(slots=True)
class _TextPart:
    """A text, twice in SoapHeader and once in SrmpEnvelopeHeader: the length counts UTF-16 units with the null."""

    identifier: int
    reserved: int
    text: str | None
    padding: bytes

    @classmethod
    def decode(cls, buf: bytes, at: int, section: str, field: str) -> "tuple[_TextPart, int]":
        if len(buf) - at < TEXT_LAYOUT.size:
            raise cut_short(section, field, at, len(buf))
        identifier, reserved, units = TEXT_LAYOUT.unpack_from(buf, at)
        start = at + TEXT_LAYOUT.size
        end = start + 2 * units
        after = end + (-2 * units & 3)
        if after > len(buf):
            raise cut_short(section, field, start, len(buf))
        text = decode_text(buf[start:end], section, field, start) if units else None
        return cls(identifier, reserved, text, buf[end:after]), after

    def encode(self, section: str, field: str) -> bytes:
        data = b"" if self.text is None else encode_text(self.text, section, field)
        fixed = TEXT_LAYOUT.pack(self.identifier, self.reserved, len(data) // 2)
        return fixed + data + padding_for(len(data), self.padding)
