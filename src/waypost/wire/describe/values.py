"""How single values are shown: numbers, codes, GUIDs, times, texts, names of queues."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.codec import INFINITE
from waypost.wire.describe.model import Show, Value
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import MessageClass, meaning
from waypost.wire.multi_queue import MqfDirectQueueFormatName, MqfDistributionQueueFormatName, MqfName
from waypost.wire.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueName,
)
from waypost.wire.sid import Sid
from waypost.wire.variant_types import VarType

# BodyType uses the whole space of variant types; these are not among those of MS-MQMQ 2.2.12.
_OTHER_VARIANTS: Final = {
    4: "VT_R4", 5: "VT_R8", 6: "VT_CY", 7: "VT_DATE", 8: "VT_BSTR", 9: "VT_DISPATCH", 10: "VT_ERROR", 13: "VT_UNKNOWN",
    14: "VT_DECIMAL", 22: "VT_INT", 23: "VT_UINT", 30: "VT_LPSTR", 64: "VT_FILETIME", 66: "VT_STREAM",
    68: "VT_STREAMED_OBJECT", 69: "VT_STORED_OBJECT",
}  # fmt: skip
_VARIANTS: Final = {**_OTHER_VARIANTS, **{member.value: member.name for member in VarType}}
_WIDE_VARIANTS: Final = frozenset((8, VarType.VT_LPWSTR))

# How the meaning of bytes that are text begins.
TEXT_MARK: Final = "text ("

_LINE_BREAKS: Final = str.maketrans("", "", "\t\r\n")


def constant(meaning_of_all: str) -> Show:
    """The same words for every value: a unit, or what the field counts."""
    return lambda raw: (raw, meaning_of_all)


def named(names: Mapping[int, str]) -> Show:
    return lambda raw: (raw, names.get(raw, "not defined"))


def guid(raw: bytes) -> tuple[Value, str]:
    return guid_text(raw), "no GUID (all zero)" if raw == NULL_GUID else ""


def utc(raw: int) -> tuple[Value, str]:
    return raw, datetime.fromtimestamp(raw, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def lifetime(raw: int) -> tuple[Value, str]:
    return raw, "infinite" if raw == INFINITE else "seconds from SentTime"


def message_class(raw: int) -> tuple[Value, str]:
    try:
        return raw, f"{MessageClass(raw).name}: {meaning(raw)}"
    except ValueError:
        return raw, meaning(raw)


def correlation(raw: bytes) -> tuple[Value, str]:
    return raw, f"as a message id: {MessageIdentifier.decode(raw, 0)[0]}" if any(raw) else "none (all zero)"


def variant(raw: int) -> tuple[Value, str]:
    return raw, _VARIANTS.get(raw, "not a known variant type")


def sequence_id(raw: int) -> tuple[Value, str]:
    return raw, f"TimeStamp {raw >> 32}, Ordinal {raw & 0xFFFF_FFFF}"


def ack_bits(raw: int) -> tuple[Value, str]:
    stored = ", ".join(f"+{bit}" for bit in range(32) if raw >> bit & 1)
    return raw, f"stored: RecoverableMsgAckSeqNumber {stored}" if stored else "none stored"


def sender_text(security_id: bytes) -> str:
    """A SID in its text form."""
    try:
        return str(Sid.decode(security_id, 0)[0])
    except DecodeError:
        return "not a SID"


def body_text(body: bytes, body_type: int) -> str:
    """The body as text, if it is text; the type says which encoding to try first."""
    encodings = ("utf-16-le", "utf-8") if body_type in _WIDE_VARIANTS else ("utf-8", "utf-16-le")
    for encoding in encodings:
        try:
            text = body.decode(encoding).removeprefix("\ufeff").rstrip("\0")
        except UnicodeDecodeError:
            continue
        if text and text.translate(_LINE_BREAKS).isprintable():
            return f"{TEXT_MARK}{encoding}): {text}"
    return ""


def queue_text(name: QueueName | MqfName, host: bytes) -> str:
    """The format name of a queue. `host` is the queue manager of one that is named by a number alone."""
    match name:
        case DirectQueueFormatName() | MqfDirectQueueFormatName():
            return f"DIRECT={name.direct_format_name}"
        case PublicQueueFormatName():
            return f"PUBLIC={guid_text(name.public_queue_identifier)}"
        case PrivateQueueFormatName():
            return f"PRIVATE={guid_text(name.source_queue_manager)}\\{name.private_queue_identifier:08x}"
        case PrivateQueueFormatNameId():
            return f"PRIVATE={guid_text(host)}\\{name.private_queue_identifier:08x}"
        case MqfDistributionQueueFormatName():
            return f"DL={guid_text(name.distribution_list_identifier)}"
