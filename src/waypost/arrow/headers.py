"""MS-MQMQ 2.2.20: the places of all fields in many UserMessage packets, and the packets that are malformed.

The headers are walked in their order, each for all packets at once. A packet that breaks a rule is given up, and values
read for it afterwards mean nothing. The rules are those of waypost.wire.user_message, which also decides on packets
with rare headers (SOAP, SRMP, several destinations, a cryptographic provider) and words the errors: both refuse the
same packets.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waypost.arrow.gather import Bytes, Mask, Numbers, Records
from waypost.arrow.packets import Packets
from waypost.arrow.walk import Walk
from waypost.errors import DecodeError
from waypost.limits import MAX_LABEL_LENGTH, MAX_PACKET_SIZE, MAX_SENDER_CERT_SIZE
from waypost.wire import (
    base_header,
    debug_header,
    message_properties,
    security_header,
    session_header,
    transaction_header,
    user_header,
)
from waypost.wire.codec import attribute_name
from waypost.wire.soap import COMPOUND_LAYOUT
from waypost.wire.user_message import UserMessage

_NUMBERS: Final = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8"}
_ITEM: Final = re.compile(r"(\d*)([a-zA-Z])")


def _fields(layout: Struct, names: Iterable[str]) -> list[tuple[str, str]]:
    """The fixed run of a header as the codec has it."""
    items = _ITEM.findall(layout.format)
    return [(name, f"V{size}" if size else _NUMBERS[kind]) for name, (size, kind) in zip(names, items, strict=False)]


# BaseHeader (2.2.19.1) and the fixed part of UserHeader (2.2.19.2), which start every packet.
_BASE: Final = [name.replace("flags", "base_flags") for name in base_header.BaseHeader.__slots__]
HEAD: Final = np.dtype(
    _fields(base_header.LAYOUT, _BASE) + _fields(user_header.LAYOUT, user_header.UserHeader.__slots__)
)
# 2.2.20.5, without ConnectorQMGuid.
TRANSACTION: Final = np.dtype([("flags", "<u4"), ("tx_sequence_id", "<u8"), ("numbers", "<u4", (2,))])
# 2.2.20.6, without SecurityData.
_SECURITY_SIZES: Final = [
    *("sender_id_size", "encryption_key_size", "signature_size", "sender_cert_size", "provider_info_size"),
]
SECURITY: Final = np.dtype(_fields(security_header.LAYOUT, ("flags", *_SECURITY_SIZES)))
# 2.2.19.3, without label, extension and body.
PROPERTIES: Final = np.dtype(_fields(message_properties.LAYOUT, map(attribute_name, message_properties.FIELDS)))
# 2.2.20.8, without QueueIdentifier.
DEBUG: Final = np.dtype([("flags", "<u2"), ("reserved", "<u2")])
# MS-MQRR 2.2.5.2 ExtensionHeader.
EXTENSION: Final = np.dtype([("header_size", "<u4"), ("remaining_headers_size", "<u4"), ("rest", "<u4")])

_U16: Final = np.dtype("<u2")

# Bytes of a queue name by its code in DQ, AQ and RQ; a direct name (7) has its length in the packet.
DIRECT: Final = 7
_UNDEFINED: Final = -1
_DESTINATION_SIZES: Final = np.array([0, _UNDEFINED, _UNDEFINED, 4, _UNDEFINED, 16, _UNDEFINED, 0])
_ADMIN_SIZES: Final = np.array([0, _UNDEFINED, 4, 4, _UNDEFINED, 16, 20, 0])
_RESPONSE_SIZES: Final = np.array([0, 0, 4, 4, 4, 16, 20, 0])

_RECOVERABLE: Final = user_header.RECOVERABLE << user_header.DM_SHIFT
_RARE: Final = user_header.AH | user_header.HH | user_header.MQ
_ALWAYS: Final = np.array(True)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of bytes in each packet."""

    at: Numbers
    size: Numbers


@dataclass(frozen=True, slots=True)
class Name:
    """DestinationQueue, AdminQueue or ResponseQueue: its code, its place, and the text of direct names."""

    code: Numbers
    at: Numbers
    # UTF-16 without the null, b"" for other kinds; None if no packet has a direct name here.
    text: pa.BinaryArray | None


@dataclass(frozen=True, slots=True)
class Headers:
    """The fields found in each packet. They are valid where `ok`."""

    data: Bytes
    starts: Numbers
    ok: Mask
    head: Records
    destination: Name
    admin: Name
    response: Name
    # Zeros in a message that is not transactional.
    transaction: Records
    sender: Run
    is_encrypted: Mask
    properties: Records
    # UTF-16 without the null.
    label: pa.BinaryArray
    extension: Run
    body: Run

    @property
    def is_transactional(self) -> Mask:
        found: Mask = self.head["flags"] & user_header.TH != 0
        return found


def locate(packets: Packets) -> Headers:
    """Walk all packets: at least one, with offsets that were checked before."""
    walk = Walk(packets)
    head = walk.read(HEAD, _ALWAYS)
    flags = head["flags"]
    _check_head(walk, head)
    destination = _read_name(walk, flags >> user_header.DQ_SHIFT & 7, _DESTINATION_SIZES)
    admin = _read_name(walk, flags >> user_header.AQ_SHIFT & 7, _ADMIN_SIZES)
    response = _read_name(walk, flags >> user_header.RQ_SHIFT & 7, _RESPONSE_SIZES)
    walk.skip(np.where(flags & user_header.CQ, 16, 0))
    transaction = walk.read(TRANSACTION, flags & user_header.TH != 0)
    walk.skip(np.where(transaction["flags"] & transaction_header.CG, 16, 0))
    security, sender = _read_security(walk, flags & user_header.SH != 0)
    is_encrypted = security["flags"] & security_header.EB != 0
    properties, label, extension, body = _read_properties(walk, is_encrypted)
    debug = walk.read(DEBUG, head["base_flags"] & base_header.DH != 0)
    queue_type = debug["flags"] & debug_header.QT
    walk.require(queue_type <= debug_header.PUBLIC_QUEUE)
    walk.skip(np.where(queue_type, 16, 0))
    is_rare = (flags & _RARE != 0) | (security["provider_info_size"] != 0)
    _check_end(walk, head, is_rare)
    _ask_the_codec(walk, np.flatnonzero(walk.ok & is_rare), body)
    return Headers(
        walk.data, walk.starts, walk.ok, head, destination, admin, response, transaction, sender, is_encrypted,
        properties, label, extension, body,
    )  # fmt: skip


def why_refused(packet: bytes) -> DecodeError | None:
    """The error with which the codec refuses a packet; None if it accepts the packet."""
    try:
        base, _ = base_header.BaseHeader.decode(packet, 0)
        if base.is_internal:
            reason = "the flag IN is set: this is a packet between queue managers, not a user message"
            return DecodeError(base_header.SECTION, "Flags", 2, reason)
        UserMessage.decode(packet)
    except DecodeError as error:
        return error
    return None


def _check_head(walk: Walk, head: Records) -> None:
    base_flags, flags, packet_size = head["base_flags"], head["flags"], head["packet_size"].astype(np.int64)
    session = np.where(base_flags & base_header.SH, session_header.SIZE, 0)
    delivery = flags & user_header.DM
    walk.require(
        (head["version_number"] == base_header.VERSION)
        & (head["signature"] == base_header.SIGNATURE)
        & (packet_size <= MAX_PACKET_SIZE)
        & (packet_size + session == walk.ends - walk.starts)
    )
    walk.require(base_flags & base_header.IN == 0)
    walk.require((base_flags & base_header.TR == 0) | (base_flags & base_header.DH != 0))
    walk.require((flags & user_header.MP != 0) & (delivery <= _RECOVERABLE))
    walk.require((flags & user_header.TH == 0) | (delivery == _RECOVERABLE))


def _read_name(walk: Walk, code: Numbers, sizes: Numbers) -> Name:
    size = sizes[code]
    walk.require(size != _UNDEFINED)
    is_direct = code == DIRECT
    if not is_direct.any():
        name = Name(code, walk.at, None)
        walk.skip(size)
        return name
    count = walk.read(_U16, is_direct).astype(np.int64)
    at = walk.at
    walk.skip(np.where(is_direct, _padded(2 + count) - 2, size))
    return Name(code, at, walk.read_text(at, count, is_direct))


def _read_security(walk: Walk, present: Mask) -> tuple[Records, Run]:
    """2.2.20.6, and the SID of the sender. The text of ProviderInfo is left to the codec."""
    header = walk.read(SECURITY, present)
    sizes = [header[name].astype(np.int64) for name in _SECURITY_SIZES]
    at = walk.at
    if not present.any():
        return header, Run(at, sizes[0])
    walk.skip(sum(map(_padded, sizes[1:]), _padded(sizes[0])))
    sender_type = header["flags"] & security_header.ST
    has_sender = sizes[0] != 0
    walk.require(sender_type <= security_header.SENDER_QUEUE_MANAGER)
    walk.require((sender_type != security_header.NO_SENDER) | ~has_sender)
    walk.require((sender_type != security_header.SENDER_QUEUE_MANAGER) | (sizes[0] == 16))
    walk.require(sizes[3] <= MAX_SENDER_CERT_SIZE)
    walk.require(~present | (sum(sizes) != 0))
    return header, Run(at, np.where(sender_type == security_header.SENDER_SID, sizes[0], 0))


def _read_properties(walk: Walk, is_encrypted: Mask) -> tuple[Records, pa.BinaryArray, Run, Run]:
    """2.2.19.3 with label, extension and body; the body of an encrypted message is all of its ciphertext."""
    start = walk.at
    header = walk.read(PROPERTIES, _ALWAYS)
    label_size = 2 * header["label_length"].astype(np.int64)
    message_size = header["message_size"].astype(np.int64)
    allocated = header["allocation_body_size"].astype(np.int64)
    label_at = start + PROPERTIES.itemsize
    extension = Run(label_at + label_size, header["extension_size"].astype(np.int64))
    body_at = extension.at + extension.size
    walk.require((label_size <= 2 * MAX_LABEL_LENGTH) & (allocated >= message_size))
    walk.skip(_padded(body_at + allocated - start) - PROPERTIES.itemsize)
    label = walk.read_text(label_at, label_size, label_size != 0)
    return header, label, extension, Run(body_at, np.where(is_encrypted, allocated, message_size))


def _check_end(walk: Walk, head: Records, is_rare: Mask) -> None:
    """Check that PacketSize ends after the last header, or that an ExtensionHeader covers the rest."""
    left = walk.starts + head["packet_size"] - walk.at
    has_extension = ~is_rare & (left != 0)
    if has_extension.any():
        extension = walk.read(EXTENSION, has_extension)
        walk.require(
            ~has_extension
            | (extension["header_size"] == EXTENSION.itemsize)
            & (extension["remaining_headers_size"] == left - EXTENSION.itemsize)
        )


def _ask_the_codec(walk: Walk, rows: npt.NDArray[np.intp], body: Run) -> None:
    """Decide on these packets, one by one. A message that came over HTTP has its body in the HTTP request."""
    for row in rows.tolist():
        start = int(walk.starts[row])
        try:
            message = UserMessage.decode(walk.data[start : walk.ends[row]].tobytes())
        except DecodeError:
            walk.ok[row] = False
            continue
        if message.srmp_envelope is not None and message.compound_message is not None:
            posted_at = walk.at[row] + len(message.srmp_envelope.encode()) + COMPOUND_LAYOUT.size
            body.at[row] = posted_at + message.compound_message.msg_body_offset
            body.size[row] = message.compound_message.msg_body_size


def _padded(size: Numbers) -> Numbers:
    return size + 3 & ~3
