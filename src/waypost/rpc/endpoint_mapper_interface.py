"""C706 appendix O, MS-RPCE 2.2.1.2: the endpoint mapper's interface, and C706 appendix L: protocol towers.

A tower says how to reach an interface, floor by floor: the interface, the transfer syntax, connection-oriented RPC, a
TCP port and an IPv4 address. A floor is kept as it came; `Tower.endpoint` reads the five that matter here. The numbers
in a floor's right-hand side are big-endian, those in its left-hand side and in the counts little-endian.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from ipaddress import IPv4Address
from struct import Struct
from typing import Annotated, Final

from waypost.errors import DecodeError, EncodeError
from waypost.guid import parse_guid
from waypost.limits import MAX_TOWER_SIZE, MAX_TOWERS
from waypost.rpc.binds import SyntaxId
from waypost.rpc.interface import NULL_HANDLE, Guid, InPlace, Interface, Method, Nullable, Stub, dword
from waypost.wire.codec import cut_short
from waypost.wire.ndr import ContextHandle, NdrReader, NdrWriter

SECTION: Final = "C706 appendix L"
ENTRIES: Final = "C706 appendix O"
ANY_ADDRESS: Final = IPv4Address(0)

COUNT: Final = Struct("<H")
NETWORK_PORT: Final = Struct(">H")
UUID_FLOOR: Final = Struct("<B16sH")

# C706 appendix I: the protocol identifiers that start a floor's left-hand side.
PROTOCOL_UUID: Final = 0x0D
PROTOCOL_RPC_CONNECTION: Final = 0x0B
PROTOCOL_TCP: Final = 0x07
PROTOCOL_IP: Final = 0x09

# C706 appendix O: ept_max_annotation_size, with the null.
MAX_ANNOTATION: Final = 64
TOWER_LENGTH: Final = dword("tower_length", 0, MAX_TOWER_SIZE)


class InquiryType(IntEnum):
    """MS-RPCE 2.2.1.2.4 inquiry_type."""

    RPC_C_EP_ALL_ELTS = 0
    RPC_C_EP_MATCH_BY_IF = 1
    RPC_C_EP_MATCH_BY_OBJ = 2
    RPC_C_EP_MATCH_BY_BOTH = 3


class VersionOption(IntEnum):
    """MS-RPCE 2.2.1.2.4 vers_option."""

    RPC_C_VERS_ALL = 1
    RPC_C_VERS_COMPATIBLE = 2
    RPC_C_VERS_EXACT = 3
    RPC_C_VERS_MAJOR_ONLY = 4
    RPC_C_VERS_UPTO = 5


class MapperStatus(IntEnum):
    """MS-RPCE 2.2.1.2.1, 2.2.1.2.4."""

    OK = 0
    EPT_S_CANT_PERFORM_OP = 0x0000_06D8
    EPT_S_NOT_REGISTERED = 0x16C9_A0D6


@dataclass(frozen=True, slots=True)
class Floor:
    """The protocol identifier with what belongs to it, and the address that the protocol needs."""

    lhs: bytes
    rhs: bytes

    @property
    def protocol(self) -> int:
        """Zero, an unused number, for an empty left-hand side."""
        return self.lhs[0] if self.lhs else 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A tower of RPC over TCP. A tower of a question has the port 0 and the address 0.0.0.0."""

    interface: SyntaxId
    transfer: SyntaxId
    port: int = 0
    address: IPv4Address = ANY_ADDRESS


@dataclass(slots=True)
class Tower:
    """twr_t: the floors from the top."""

    floors: list[Floor]

    @classmethod
    def of(cls, endpoint: Endpoint) -> "Tower":
        return cls(
            [
                _uuid_floor(endpoint.interface),
                _uuid_floor(endpoint.transfer),
                Floor(bytes([PROTOCOL_RPC_CONNECTION]), bytes(2)),
                Floor(bytes([PROTOCOL_TCP]), NETWORK_PORT.pack(endpoint.port)),
                Floor(bytes([PROTOCOL_IP]), endpoint.address.packed),
            ]
        )

    @property
    def endpoint(self) -> Endpoint | None:
        """None for a tower of other protocols."""
        protocols = [floor.protocol for floor in self.floors]
        if protocols != [PROTOCOL_UUID, PROTOCOL_UUID, PROTOCOL_RPC_CONNECTION, PROTOCOL_TCP, PROTOCOL_IP]:
            return None
        try:
            interface, transfer = _syntax_of(self.floors[0]), _syntax_of(self.floors[1])
            (port,) = NETWORK_PORT.unpack(self.floors[3].rhs)
            return Endpoint(interface, transfer, port, IPv4Address(self.floors[4].rhs))
        except (struct.error, ValueError):
            return None

    @classmethod
    def decode(cls, data: bytes) -> "Tower":
        count, at = _count(data, 0)
        floors = []
        for _ in range(count):
            lhs, at = _side(data, at)
            rhs, at = _side(data, at)
            floors.append(Floor(lhs, rhs))
        if at != len(data):
            raise DecodeError(SECTION, "tower_octet_string", at, f"{len(data) - at} extra bytes follow")
        return cls(floors)

    def encode(self) -> bytes:
        parts = [COUNT.pack(len(self.floors))]
        for floor in self.floors:
            parts += [COUNT.pack(len(floor.lhs)), floor.lhs, COUNT.pack(len(floor.rhs)), floor.rhs]
        return b"".join(parts)

    @classmethod
    def read(cls, reader: NdrReader) -> "Tower":
        """A structure with a conformant array, whose count comes first."""
        maximum = reader.integer(reader.syntax.width, "tower_octet_string")
        size = TOWER_LENGTH.read(reader)
        if maximum != size:
            reason = f"the array has {maximum} bytes, but tower_length is {size}"
            raise DecodeError(SECTION, "tower_length", reader.offset - 4, reason)
        return cls.decode(reader.octets(size, "tower_octet_string"))

    def write(self, writer: NdrWriter) -> None:
        data = self.encode()
        writer.max_count(len(data), "tower_octet_string")
        TOWER_LENGTH.write(writer, len(data))
        writer.octets(data)


def _uuid_floor(syntax: SyntaxId) -> Floor:
    return Floor(UUID_FLOOR.pack(PROTOCOL_UUID, syntax.uuid, syntax.major), COUNT.pack(syntax.minor))


def _syntax_of(floor: Floor) -> SyntaxId:
    _, uuid, major = UUID_FLOOR.unpack(floor.lhs)
    (minor,) = COUNT.unpack(floor.rhs)
    return SyntaxId(uuid, minor << 16 | major)


def _count(data: bytes, at: int) -> tuple[int, int]:
    if len(data) - at < COUNT.size:
        raise cut_short(SECTION, "tower_octet_string", at, len(data))
    return COUNT.unpack_from(data, at)[0], at + COUNT.size


def _side(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _count(data, at)
    if len(data) - at < size:
        raise cut_short(SECTION, "tower_octet_string", at, len(data))
    return data[at : at + size], at + size


@dataclass(slots=True)
class InterfaceId:
    """RPC_IF_ID."""

    uuid: bytes
    vers_major: int
    vers_minor: int

    @classmethod
    def read(cls, reader: NdrReader) -> "InterfaceId":
        return cls(reader.guid("Uuid"), reader.u16("VersMajor"), reader.u16("VersMinor"))

    def write(self, writer: NdrWriter) -> None:
        writer.guid(self.uuid, "Uuid")
        writer.u16(self.vers_major, "VersMajor")
        writer.u16(self.vers_minor, "VersMinor")


@dataclass(slots=True)
class EndpointEntry:
    """ept_entry_t. The annotation is text for people, without its null."""

    object: bytes
    tower: Tower
    annotation: bytes = b""

    @classmethod
    def read(cls, reader: NdrReader) -> "EndpointEntry":
        """The tower is there after the reader's flush."""
        with reader.structure(reader.syntax):
            record = cls(reader.guid("object"), Tower([]))
            _read_tower(reader, record.tower)
            at = reader.offset
            first, actual = (reader.integer(reader.syntax.width, "annotation") for _ in range(2))
            if first or not 0 < actual <= MAX_ANNOTATION:
                raise DecodeError(ENTRIES, "annotation", at, f"the counts {first} and {actual} are invalid")
            record.annotation, null, rest = reader.octets(actual, "annotation").partition(b"\0")
            if rest or not null:
                raise DecodeError(ENTRIES, "annotation", at, "the null must be at the end")
        return record

    def write(self, writer: NdrWriter) -> None:
        if len(self.annotation) >= MAX_ANNOTATION or b"\0" in self.annotation:
            raise EncodeError(ENTRIES, "annotation", f"{self.annotation!r} must be a string of at most 63 bytes")
        with writer.structure(writer.syntax):
            writer.guid(self.object, "object")
            writer.pointer(partial(self.tower.write, writer))
            for count in (0, len(self.annotation) + 1):
                writer.integer(writer.syntax.width, count, "annotation")
            writer.octets(self.annotation + b"\0")


def _read_tower(reader: NdrReader, tower: Tower) -> None:
    """A pointer, behind which are the floors of `tower`."""

    def fill() -> None:
        tower.floors = Tower.read(reader).floors

    if not reader.pointer("tower", fill):
        raise DecodeError(ENTRIES, "tower", reader.offset - reader.syntax, "must not be NULL")


def _read_counts(reader: NdrReader, field: str) -> tuple[int, int]:
    """The number of elements, and the most that were wanted: a number and the counts of the array."""
    count = dword(field, 0, MAX_TOWERS).read(reader)
    at = reader.offset
    maximum, first, actual = (reader.integer(reader.syntax.width, field) for _ in range(3))
    if first or actual != count or not count <= maximum <= MAX_TOWERS:
        raise DecodeError(
            ENTRIES, field, at, f"the counts {maximum}, {first} and {actual} do not match {count} elements"
        )
    return count, maximum


def _write_counts(writer: NdrWriter, count: int, maximum: int, field: str) -> None:
    if count > maximum:
        raise EncodeError(ENTRIES, field, f"must have at most {maximum} elements as requested, not {count}")
    writer.u32(count, field)
    for number in (maximum, 0, count):
        writer.integer(writer.syntax.width, number, field)


Handle = Annotated[ContextHandle, InPlace("entry_handle", ContextHandle)]


@dataclass(slots=True)
class EptLookupRequest(Stub):
    inquiry_type: Annotated[int, dword("inquiry_type")] = InquiryType.RPC_C_EP_ALL_ELTS
    object: Annotated[bytes | None, Nullable("object", Guid("object"))] = None
    if_id: Annotated[InterfaceId | None, Nullable("Ifid", InPlace("Ifid", InterfaceId))] = None
    vers_option: Annotated[int, dword("vers_option")] = VersionOption.RPC_C_VERS_ALL
    entry_handle: Handle = NULL_HANDLE
    max_ents: Annotated[int, dword("max_ents", 0, MAX_TOWERS)] = MAX_TOWERS


@dataclass(slots=True)
class EptLookupReply:
    """`max_ents` is that of the request."""

    entry_handle: ContextHandle
    entries: list[EndpointEntry]
    max_ents: int
    status: int

    @classmethod
    def read(cls, reader: NdrReader) -> "EptLookupReply":
        handle = ContextHandle.read(reader)
        count, maximum = _read_counts(reader, "entries")
        entries = [EndpointEntry.read(reader) for _ in range(count)]
        reader.flush()
        return cls(handle, entries, maximum, reader.u32("status"))

    def write(self, writer: NdrWriter) -> None:
        self.entry_handle.write(writer)
        _write_counts(writer, len(self.entries), self.max_ents, "entries")
        for entry in self.entries:
            entry.write(writer)
        writer.flush()
        writer.u32(self.status, "status")


@dataclass(slots=True)
class EptMapRequest(Stub):
    obj: Annotated[bytes | None, Nullable("obj", Guid("obj"))]
    map_tower: Annotated[Tower | None, Nullable("map_tower", InPlace("map_tower", Tower))]
    entry_handle: Handle = NULL_HANDLE
    max_towers: Annotated[int, dword("max_towers", 0, MAX_TOWERS)] = MAX_TOWERS


@dataclass(slots=True)
class EptMapReply:
    """`max_towers` is that of the request."""

    entry_handle: ContextHandle
    towers: list[Tower]
    max_towers: int
    status: int

    @classmethod
    def read(cls, reader: NdrReader) -> "EptMapReply":
        handle = ContextHandle.read(reader)
        count, maximum = _read_counts(reader, "ITowers")
        towers = [Tower([]) for _ in range(count)]
        for tower in towers:
            _read_tower(reader, tower)
        reader.flush()
        return cls(handle, towers, maximum, reader.u32("status"))

    def write(self, writer: NdrWriter) -> None:
        self.entry_handle.write(writer)
        _write_counts(writer, len(self.towers), self.max_towers, "ITowers")
        for tower in self.towers:
            writer.pointer(partial(tower.write, writer))
        writer.flush()
        writer.u32(self.status, "status")


@dataclass(slots=True)
class EptLookupHandleFreeRequest(Stub):
    entry_handle: Handle


@dataclass(slots=True)
class EptLookupHandleFreeReply(Stub):
    entry_handle: Handle = NULL_HANDLE
    status: Annotated[int, dword("status")] = MapperStatus.OK


EPMAPPER: Final = Interface.of(
    "epmapper",
    parse_guid("e1af8308-5d1f-11c9-91a4-08002b14a0fa"),
    (3, 0),
    Method(
        2,
        "ept_lookup",
        EptLookupRequest,
        EptLookupReply,
        """void ([in] handle_t hEpMapper, [in] unsigned long inquiry_type, [in, ptr] UUID* object,
        [in, ptr] RPC_IF_ID* Ifid, [in] unsigned long vers_option, [in, out] ept_lookup_handle_t* entry_handle,
        [in, range(0,500)] unsigned long max_ents, [out] unsigned long* num_ents,
        [out, length_is(*num_ents), size_is(max_ents)] ept_entry_t entries[], [out] error_status* status)""",
    ),
    Method(
        3,
        "ept_map",
        EptMapRequest,
        EptMapReply,
        """void ([in] handle_t hEpMapper, [in, ptr] UUID* obj, [in, ptr] twr_p_t map_tower,
        [in, out] ept_lookup_handle_t* entry_handle, [in, range(0,500)] unsigned long max_towers,
        [out] unsigned long* num_towers, [out, ptr, size_is(max_towers), length_is(*num_towers)] twr_p_t* ITowers,
        [out] error_status* status)""",
    ),
    Method(
        4,
        "ept_lookup_handle_free",
        EptLookupHandleFreeRequest,
        EptLookupHandleFreeReply,
        "void ([in] handle_t hEpMapper, [in, out] ept_lookup_handle_t* entry_handle, [out] error_status* status)",
    ),
)
