"""MS-MQMQ 2.2.6, 2.2.7: QUEUE_FORMAT, the form in which RPC calls name a queue, in NDR and NDR64.

The record holds what was on the wire; a suffix that does not fit, or a text that is not a direct name, is an error
when the record becomes a FormatName. The arm follows from `m_qft`: 16 bytes for PUBLIC, MACHINE and CONNECTOR, a str
without DIRECT= for DIRECT and SUBQUEUE (None for the NULL pointer), ObjectId, DlId or MulticastId for PRIVATE, DL and
MULTICAST, None for UNKNOWN. An empty domain of a DL_ID is the NULL pointer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from ipaddress import IPv4Address
from typing import Final, TypeAlias

from waypost.errors import DecodeError, EncodeError, IllegalFormatName, InvalidParameter
from waypost.wire.format_names import (
    ConnectorFormatName,
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PrivateFormatName,
    Protocol,
    PublicFormatName,
    Suffix,
)
from waypost.wire.identifiers import DlId, MulticastId, ObjectId
from waypost.wire.ndr import U8, NdrReader, NdrWriter

SECTION: Final = "MS-MQMQ 2.2.7"

SUFFIX_TYPE: Final = 0x0F
FLAGS: Final = 0xF0
FLAG_NOT_SYSTEM: Final = 0x00
FLAG_SYSTEM: Final = 0x80


class QueueFormatType(IntEnum):
    """MS-MQMQ 2.2.6 QUEUE_FORMAT_TYPE: which arm the union has."""

    UNKNOWN = 0
    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7
    SUBQUEUE = 8


_TYPES: Final = frozenset(QueueFormatType)
_NO_SYSTEM_QUEUE: Final = {QueueFormatType.CONNECTOR, QueueFormatType.DL, QueueFormatType.MULTICAST}
_ONE_QUEUE: Final = {QueueFormatType.PUBLIC, QueueFormatType.PRIVATE}

# MS-MQMQ 2.2.7, table of suffix types: the flags and the types that each may stand with.
SUFFIX_RULES: Final[dict[int, tuple[frozenset[int], frozenset[QueueFormatType]]]] = {
    Suffix.NONE: (frozenset({FLAG_NOT_SYSTEM}), _TYPES - {QueueFormatType.MACHINE}),
    Suffix.JOURNAL: (frozenset({FLAG_SYSTEM}), _TYPES - _NO_SYSTEM_QUEUE),
    Suffix.DEADLETTER: (frozenset({FLAG_SYSTEM}), _TYPES - _NO_SYSTEM_QUEUE - _ONE_QUEUE),
    Suffix.DEADXACT: (frozenset({FLAG_SYSTEM}), frozenset({QueueFormatType.DIRECT, QueueFormatType.MACHINE})),
    Suffix.XACTONLY: (frozenset({FLAG_NOT_SYSTEM, FLAG_SYSTEM}), frozenset({QueueFormatType.CONNECTOR})),
    Suffix.SUBQUEUE: (frozenset({FLAG_NOT_SYSTEM}), frozenset({QueueFormatType.SUBQUEUE})),
}

_GUID_NAMES: Final[dict[QueueFormatType, Callable[[bytes, Suffix], FormatName]]] = {
    QueueFormatType.PUBLIC: PublicFormatName,
    QueueFormatType.MACHINE: MachineFormatName,
    QueueFormatType.CONNECTOR: ConnectorFormatName,
}
_DIRECT_NAMES: Final = (QueueFormatType.DIRECT, QueueFormatType.SUBQUEUE)

# MS-MQRR 2.2.3. UNKNOWN is of the protocol, but names no queue that could be opened.
REMOTE_READ_TYPES: Final = _TYPES - {QueueFormatType.CONNECTOR, QueueFormatType.DL, QueueFormatType.MULTICAST}
REMOTE_READ_PROTOCOLS: Final = frozenset({Protocol.TCP, Protocol.OS})

Arm: TypeAlias = bytes | ObjectId | str | DlId | MulticastId | None


@dataclass(slots=True)
class QueueFormat:
    """A kind of name and the name."""

    m_qft: QueueFormatType = QueueFormatType.UNKNOWN
    m_suffix_and_flags: int = 0
    m_reserved: int = 0
    arm: Arm = None

    @property
    def suffix_type(self) -> int:
        return self.m_suffix_and_flags & SUFFIX_TYPE

    @property
    def flags(self) -> int:
        return self.m_suffix_and_flags & FLAGS

    @classmethod
    def read(cls, reader: NdrReader) -> "QueueFormat":
        """The record is whole after the reader's flush."""
        # A GUID aligns to 4, a pointer to the width of the syntax; the union has both.
        alignment = reader.syntax
        with reader.structure(alignment):
            qft = reader.u8("m_qft")
            if qft not in _TYPES:
                raise DecodeError(SECTION, "m_qft", reader.offset - 1, f"must be 0 to 8, not {qft}")
            record = cls(QueueFormatType(qft), reader.u8("m_SuffixAndFlags"), reader.u16("m_reserved"))
            reader.union_tag(U8, qft, alignment)
            record._read_arm(reader)
        return record

    def write(self, writer: NdrWriter) -> None:
        alignment = writer.syntax
        with writer.structure(alignment):
            writer.u8(self.m_qft, "m_qft")
            writer.u8(self.m_suffix_and_flags, "m_SuffixAndFlags")
            writer.u16(self.m_reserved, "m_reserved")
            writer.union_tag(U8, self.m_qft, alignment)
            self._write_arm(writer)

    def _read_arm(self, reader: NdrReader) -> None:
        if self.m_qft in _GUID_NAMES:
            self.arm = reader.guid("GUID")
        elif self.m_qft in _DIRECT_NAMES:
            reader.pointer("m_pDirectID", partial(self._read_direct, reader))
        elif self.m_qft == QueueFormatType.PRIVATE:
            self.arm = ObjectId(reader.guid("Lineage"), reader.u32("Uniquifier"))
        elif self.m_qft == QueueFormatType.MULTICAST:
            self.arm = MulticastId(reader.u32("m_address"), reader.u32("m_port"))
        elif self.m_qft == QueueFormatType.DL:
            guid = reader.guid("m_DlGuid")
            self.arm = DlId(guid, "")
            reader.pointer("m_pwzDomain", partial(self._read_domain, reader, guid))

    def _read_direct(self, reader: NdrReader) -> None:
        self.arm = reader.wide_string("m_pDirectID")

    def _read_domain(self, reader: NdrReader, guid: bytes) -> None:
        self.arm = DlId(guid, reader.wide_string("m_pwzDomain"))

    def _write_arm(self, writer: NdrWriter) -> None:
        match self.m_qft, self.arm:
            case QueueFormatType.UNKNOWN, None:
                pass
            case qft, bytes(guid) if qft in _GUID_NAMES:
                writer.guid(guid, "GUID")
            case QueueFormatType.PRIVATE, ObjectId(lineage=lineage, uniquifier=uniquifier):
                writer.guid(lineage, "Lineage")
                writer.u32(uniquifier, "Uniquifier")
            case qft, None if qft in _DIRECT_NAMES:
                writer.pointer(None)
            case qft, str(text) if qft in _DIRECT_NAMES:
                writer.pointer(partial(writer.wide_string, text, "m_pDirectID"))
            case QueueFormatType.DL, DlId(guid=guid, domain=domain):
                writer.guid(guid, "m_DlGuid")
                writer.pointer(partial(writer.wide_string, domain, "m_pwzDomain") if domain else None)
            case QueueFormatType.MULTICAST, MulticastId(address=address, port=port):
                writer.u32(address, "m_address")
                writer.u32(port, "m_port")
            case _:
                raise EncodeError(SECTION, "m_qft", f"{self.m_qft!r} cannot hold a {type(self.arm).__name__}")

    @classmethod
    def from_format_name(cls, name: FormatName) -> "QueueFormat":
        """A multiple-element name has no QUEUE_FORMAT, and a machine name needs a suffix: both are EncodeErrors."""
        qft, arm = _type_and_arm(name)
        flags = FLAG_SYSTEM if name.is_read_only else FLAG_NOT_SYSTEM
        record = cls(qft, flags | name.suffix, arm=arm)
        if not record.suffix_fits:
            raise EncodeError(SECTION, "m_SuffixAndFlags", f"0x{record.m_suffix_and_flags:02X} does not fit {name}")
        return record

    def to_format_name(self) -> FormatName:
        """IllegalFormatName if it names no queue."""
        if not self.suffix_fits:
            reason = f"0x{self.m_suffix_and_flags:02X} does not fit {self.m_qft!r}"
            raise IllegalFormatName(SECTION, "m_SuffixAndFlags", 1, reason)
        suffix = Suffix(self.suffix_type)
        match self.m_qft, self.arm:
            case qft, bytes(guid) if qft in _GUID_NAMES:
                return _GUID_NAMES[qft](guid, suffix)
            case QueueFormatType.PRIVATE, ObjectId(lineage=lineage, uniquifier=uniquifier):
                return PrivateFormatName(lineage, uniquifier, suffix)
            case qft, str(text) if qft in _DIRECT_NAMES:
                return _direct_name(qft, DirectFormatName.parse_direct(text), suffix)
            case QueueFormatType.DL, DlId(guid=guid, domain=domain):
                return _checked(DistributionListFormatName(guid, domain))
            case QueueFormatType.MULTICAST, MulticastId() as multicast:
                return _checked(MulticastFormatName(str(multicast.ip_address), multicast.port))
        raise IllegalFormatName(SECTION, "m_qft", 0, f"{self.m_qft!r} with {self.arm!r} does not name a queue")

    @property
    def suffix_fits(self) -> bool:
        """MS-MQMQ 2.2.7: the suffix is defined and may stand with these flags and this type."""
        flags, types = SUFFIX_RULES.get(self.suffix_type, (frozenset(), frozenset()))
        return self.flags in flags and self.m_qft in types


def _type_and_arm(name: FormatName) -> tuple[QueueFormatType, Arm]:
    match name:
        case PublicFormatName():
            return QueueFormatType.PUBLIC, name.guid
        case PrivateFormatName():
            return QueueFormatType.PRIVATE, ObjectId(name.computer_guid, name.number)
        case DirectFormatName():
            return QueueFormatType.SUBQUEUE if name.subqueue else QueueFormatType.DIRECT, name.direct_text
        case MachineFormatName():
            return QueueFormatType.MACHINE, name.guid
        case ConnectorFormatName():
            return QueueFormatType.CONNECTOR, name.guid
        case DistributionListFormatName():
            return QueueFormatType.DL, DlId(name.guid, name.domain)
        case MulticastFormatName():
            _checked(name)
            return QueueFormatType.MULTICAST, MulticastId.of(IPv4Address(name.address), name.port)
    raise EncodeError(SECTION, "m_qft", f"QUEUE_FORMAT does not support {name}")


def _direct_name(qft: QueueFormatType, name: DirectFormatName, suffix: Suffix) -> DirectFormatName:
    """The text may carry the suffix, the suffix field may, or both; they must not contradict each other."""
    if qft == QueueFormatType.SUBQUEUE and not name.subqueue:
        raise IllegalFormatName(SECTION, "m_pDirectSubqueueID", 0, f"{name} has no subqueue part")
    if suffix in (Suffix.NONE, name.suffix):
        return name
    if suffix is Suffix.JOURNAL and not name.is_read_only:
        return replace(name, suffix=suffix)
    raise IllegalFormatName(SECTION, "m_SuffixAndFlags", 1, f"{suffix.name} does not match {name}")


def _checked(name: FormatName) -> FormatName:
    """A name out of parts that nobody has looked at yet, through the gate of the grammar."""
    parsed = FormatName.parse(str(name))
    if type(parsed) is not type(name):
        raise IllegalFormatName(SECTION, "m_DlID", 0, f"{name} does not name exactly one object")
    return parsed


def remote_read_name(queue_format: QueueFormat | None) -> FormatName:
    """MS-MQRR 3.1.4.2: the queue that a remote reader asks to open. InvalidParameter if there can be none."""
    if queue_format is None or queue_format.m_qft not in REMOTE_READ_TYPES:
        raise InvalidParameter("pQueueFormat is NULL or of a type that this protocol does not support (MS-MQRR 2.2.3)")
    try:
        name = queue_format.to_format_name()
    except IllegalFormatName as error:
        raise InvalidParameter(f"pQueueFormat: {error}") from error
    if isinstance(name, DirectFormatName) and name.protocol not in REMOTE_READ_PROTOCOLS:
        raise InvalidParameter(f"pQueueFormat: {name} does not use TCP or OS (MS-MQRR 2.2.3)")
    return name
