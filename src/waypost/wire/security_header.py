"""MS-MQMQ 2.2.20.6 SecurityHeader: who sent the message, its signature, its key.

The five sizes say what SecurityData holds; AI does not (readings MQMQ 3.3: Windows leaves it clear beside a plain SID).
"""

import struct
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_SENDER_CERT_SIZE
from waypost.wire.codec import cut_short, decode_text, encode_text, encodes

SECTION: Final = "MS-MQMQ 2.2.20.6"

ST: Final = 0x000F
AU: Final = 0x0010
EB: Final = 0x0020
DE: Final = 0x0040
AI: Final = 0x0080
AS: Final = 0x0F00
X: Final = 0xF000
# A bit of X, which is unused on the wire: this queue manager sets it in the packet of a message that is in a queue, if
# the body was encrypted on its way here, or is to be encrypted on its way to another computer.
PRIVATE: Final = 0x1000
# Another one, in the packet of a dead-letter message: this queue manager did not send it, because it has no key.
UNSENT: Final = 0x2000

AS_SHIFT: Final = 8

# ST: what SecurityID holds.
NO_SENDER: Final = 0
SENDER_SID: Final = 1
SENDER_QUEUE_MANAGER: Final = 2

LAYOUT: Final = Struct("<HHHHII")
FIXED_SIZE: Final = 16

_U32: Final = Struct("<I")


@dataclass(slots=True)
class SecurityHeader:
    """The sizes are computed. `padding` holds the fill bytes behind the items, in the order of the items."""

    flags: int = 0
    security_id: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    sender_cert: bytes = b""
    provider_info: bytes = b""
    padding: bytes = field(default=b"", compare=False)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[SecurityHeader, int]":
        try:
            flags, id_size, key_size, signature_size, cert_size, provider_size = LAYOUT.unpack_from(buf, at)
        except struct.error:
            raise cut_short(SECTION, "SecurityHeader", at, len(buf)) from None
        start = at + FIXED_SIZE
        end = start + id_size
        header = cls(flags, buf[start:end])
        if id_size & 3 or key_size or signature_size or cert_size or provider_size:
            header.security_id, end = header._item(buf, start, id_size)
            if key_size:
                header.encryption_key, end = header._item(buf, end, key_size)
            if signature_size:
                header.signature, end = header._item(buf, end, signature_size)
            if cert_size:
                header.sender_cert, end = header._item(buf, end, cert_size)
            if provider_size:
                header.provider_info, end = header._item(buf, end, provider_size)
        if end > len(buf):
            raise cut_short(SECTION, "SecurityData", start, len(buf))
        if flags & ST != SENDER_SID or not id_size or cert_size or provider_size:
            _check(header, at)
        return header, end

    def _item(self, buf: bytes, at: int, size: int) -> tuple[bytes, int]:
        """An item of SecurityData and the offset behind its padding, which is kept."""
        end = at + size
        after = end + (-size & 3)
        if after != end:
            self.padding += buf[end:after]
        return buf[at:end], after

    @encodes(SECTION, "SecurityHeader")
    def encode(self) -> bytes:
        id_size = len(self.security_id)
        if (
            id_size & 3
            or id_size > 0xFFFF
            or self.encryption_key
            or self.signature
            or self.sender_cert
            or self.provider_info
        ):
            return self._encode_items()
        return LAYOUT.pack(self.flags, id_size, 0, 0, 0, 0) + self.security_id

    def _encode_items(self) -> bytes:
        """The header when it has more than a sender whose identity needs no padding, as a SID and a GUID do not."""
        items = (self.security_id, self.encryption_key, self.signature, self.sender_cert, self.provider_info)
        sizes = tuple(map(len, items))
        if max(sizes[:4]) > 0xFFFF:
            raise EncodeError(SECTION, "SecurityData", "an item is longer than 65535 bytes")
        fills = [-size & 3 for size in sizes]
        missing = sum(fills)
        padding = self.padding if len(self.padding) == missing else bytes(missing)
        parts = [LAYOUT.pack(self.flags, *sizes)]
        for item, fill in zip(items, fills, strict=True):
            if item:
                parts.append(item)
            if fill:
                parts.append(padding[:fill])
                padding = padding[fill:]
        return b"".join(parts)

    @property
    def sender_type(self) -> int:
        """ST: NO_SENDER, SENDER_SID or SENDER_QUEUE_MANAGER."""
        return self.flags & ST

    @property
    def is_body_encrypted(self) -> bool:
        return self.flags & EB != 0

    @property
    def provider(self) -> "ProviderInfo | None":
        return ProviderInfo.decode(self.provider_info) if self.provider_info else None


@dataclass(slots=True)
class ProviderInfo:
    """The cryptographic provider that signed the message when it was not the default one."""

    provider_type: int
    provider_name: str

    @classmethod
    def decode(cls, data: bytes) -> "ProviderInfo":
        if len(data) < 4:
            raise cut_short(SECTION, "ProviderType", 0, len(data))
        (provider_type,) = _U32.unpack_from(data)
        return cls(provider_type, decode_text(data[4:], SECTION, "ProviderName", 4))

    @encodes(SECTION, "ProviderInfo")
    def encode(self) -> bytes:
        return _U32.pack(self.provider_type) + encode_text(self.provider_name, SECTION, "ProviderName")


def _check(header: SecurityHeader, at: int) -> None:
    sender_type = header.flags & ST
    id_size = len(header.security_id)
    if sender_type > SENDER_QUEUE_MANAGER:
        raise DecodeError(SECTION, "Flags", at, f"ST must be 0, 1 or 2, not {sender_type}")
    if sender_type == NO_SENDER and id_size:
        raise DecodeError(
            SECTION, "SenderIdSize", at + 2, f"must be 0, not {id_size}, because ST says that SecurityID is missing"
        )
    if sender_type == SENDER_QUEUE_MANAGER and id_size != 16:
        raise DecodeError(
            SECTION, "SenderIdSize", at + 2, f"must be 16, the size of a queue manager GUID, not {id_size}"
        )
    if len(header.sender_cert) > MAX_SENDER_CERT_SIZE:
        raise DecodeError(SECTION, "SenderCertSize", at + 8, f"must be at most 65535, not {len(header.sender_cert)}")
    if header.provider_info:
        _check_provider_info(header, at)
    elif not (id_size or header.encryption_key or header.signature or header.sender_cert):
        raise DecodeError(SECTION, "SecurityHeader", at, "all five sizes are 0")


def _check_provider_info(header: SecurityHeader, at: int) -> None:
    if header.flags & DE:
        raise DecodeError(SECTION, "ProviderInfoSize", at + 12, "must be 0, because DE names the default provider")
    before = (header.security_id, header.encryption_key, header.signature, header.sender_cert)
    start = at + FIXED_SIZE + sum(len(item) + 3 & ~3 for item in before)
    try:
        ProviderInfo.decode(header.provider_info)
    except DecodeError as error:
        raise DecodeError(SECTION, error.field, start + error.offset, error.reason) from None
