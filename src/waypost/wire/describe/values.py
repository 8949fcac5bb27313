"""Display of single values: numbers, codes, GUIDs, times, texts, names of queues."""

from collections.abc import Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.base_header import SIGNATURE
from waypost.wire.codec import INFINITE
from waypost.wire.describe.model import Show, Value
from waypost.wire.format_names import DistributionListFormatName, PrivateFormatName, PublicFormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass, meaning
from waypost.wire.multi_queue import MqfDirectQueueFormatName, MqfDistributionQueueFormatName, MqfName
from waypost.wire.queue_names import DirectQueueFormatName, PrivateQueueFormatName, PublicQueueFormatName
from waypost.wire.sid import Sid

WholeName = DirectQueueFormatName | MqfName

# The unit of a lifetime that ends.
FROM_SENT_TIME: Final = "seconds from SentTime"


def constant(meaning_of_all: str) -> Show:
    """The same words for every value: a unit, or what the field counts."""
    return lambda raw: (raw, meaning_of_all)


def named(names: Mapping[int, str]) -> Show:
    return lambda raw: (raw, names.get(raw, "not defined"))


def guid(raw: bytes) -> tuple[Value, str]:
    return guid_text(raw), "no GUID (all zero)" if raw == NULL_GUID else ""


def utc_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def utc(raw: int) -> tuple[Value, str]:
    return raw, utc_text(raw)


def lifetime(raw: int) -> tuple[Value, str]:
    return raw, "infinite" if raw == INFINITE else FROM_SENT_TIME


def message_class(raw: int) -> tuple[Value, str]:
    try:
        return raw, f"{MessageClass(raw).name}: {meaning(raw)}"
    except ValueError:
        return raw, meaning(raw)


def correlation(raw: bytes) -> tuple[Value, str]:
    return raw, f"as a message id: {MessageIdentifier.decode(raw, 0)[0]}" if any(raw) else "none (all zero)"


def signature(raw: int) -> tuple[Value, str]:
    return raw, "LIOR" if raw == SIGNATURE else ""


def sequence_id(raw: int) -> tuple[Value, str]:
    identifier = TxSequenceId.of(raw)
    return raw, f"TimeStamp {identifier.time_stamp}, Ordinal {identifier.ordinal}"


def ack_bits(raw: int) -> tuple[Value, str]:
    stored = ", ".join(f"+{bit}" for bit in range(32) if raw >> bit & 1)
    return raw, f"stored: RecoverableMsgAckSeqNumber {stored}" if stored else "none stored"


def sender_text(security_id: bytes) -> str:
    """A SID in its text form."""
    try:
        return str(Sid.decode(security_id, 0)[0])
    except DecodeError:
        return "not a SID"


def name_text(raw: bytes) -> tuple[Value, str]:
    """UTF-16 text that fills a field with zeros."""
    return raw.decode("utf-16-le", "surrogatepass").partition("\0")[0], ""


def address(raw: bytes) -> tuple[Value, str]:
    """An IPv6 address, or an IPv4 address that fills the field with zeros."""
    return raw, str(ip_address(raw if any(raw[4:]) else raw[:4])) if any(raw) else ""


def queue_text(name: WholeName) -> str:
    """The format name of a queue that stands in the packet as a whole; a direct one as it was written."""
    match name:
        case DirectQueueFormatName() | MqfDirectQueueFormatName():
            return f"DIRECT={name.direct_format_name}"
        case PublicQueueFormatName():
            return str(PublicFormatName(name.public_queue_identifier))
        case PrivateQueueFormatName():
            return str(PrivateFormatName(name.source_queue_manager, name.private_queue_identifier))
        case MqfDistributionQueueFormatName():
            return str(DistributionListFormatName(name.distribution_list_identifier))
