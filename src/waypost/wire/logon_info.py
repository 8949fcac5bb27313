"""MS-PAC 2.5 KERB_VALIDATION_INFO: the account and the groups that a domain vouches for in a Kerberos ticket.

The record is one serialized type (MS-RPCE 2.2.6): two headers, a pointer to the structure in NDR 2.0, and its pointees.
Everything else of a PAC, with its signatures, is left to the Kerberos library. A decoded record has all that its SIDs
need, so that `user_sid` and `group_sids` do not fail.
"""

from codecs import utf_16_le_decode, utf_16_le_encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from struct import Struct
from typing import Final

from waypost.errors import DecodeError, EncodeError
from waypost.limits import MAX_SUB_AUTHORITIES
from waypost.wire.ndr import CONFORMANT_ARRAY, NdrReader, NdrSyntax, NdrWriter
from waypost.wire.sid import HEADER as SID_HEADER
from waypost.wire.sid import REVISION, Sid

SECTION: Final = "MS-PAC 2.5"
STREAM_HEADER: Final = "MS-RPCE 2.2.6.1"
OBJECT_HEADER: Final = "MS-RPCE 2.2.6.2"
UNICODE_STRING: Final = "MS-DTYP 2.3.10"
RPC_SID: Final = "MS-DTYP 2.4.2.3"

# Version, Endianness, CommonHeaderLength, Filler; then ObjectBufferLength, Filler.
HEADERS: Final = Struct("<BBHIII")
VERSION: Final = 1
LITTLE_ENDIAN: Final = 0x10
COMMON_HEADER_LENGTH: Final = 8
FILLER: Final = 0xCCCC_CCCC
# The object is filled up to a multiple of this.
OBJECT_ALIGNMENT: Final = 8

POINTER_SIZE: Final = 4
GROUP_SIZE: Final = 8
SESSION_KEY_SIZE: Final = 16

# MS-PAC 2.2.1: the bits A, B and C of a group, as domains set them, and the bit C alone.
SE_GROUP_DEFAULT: Final = 0x7
SE_GROUP_ENABLED: Final = 0x4

# FILETIME of something that never happens.
NEVER: Final = 0x7FFF_FFFF_FFFF_FFFF


@dataclass(slots=True)
class UnicodeString:
    """MS-DTYP 2.3.10 RPC_UNICODE_STRING. Without a buffer it is the NULL pointer; `maximum_length` counts bytes.

    typedef struct _RPC_UNICODE_STRING {
        unsigned short Length;
        unsigned short MaximumLength;
        [size_is(MaximumLength/2), length_is(Length/2)] WCHAR* Buffer;
    } RPC_UNICODE_STRING;
    """

    buffer: str | None = None
    maximum_length: int = 0

    @classmethod
    def of(cls, text: str) -> "UnicodeString":
        return cls(text, len(utf_16_le_encode(text, "surrogatepass")[0]))

    @classmethod
    def read(cls, reader: NdrReader, field: str) -> "UnicodeString":
        """The buffer is there after the reader's flush."""
        at = reader.offset
        length, maximum = reader.u16(field), reader.u16(field)
        if length % 2 or length > maximum:
            raise DecodeError(UNICODE_STRING, field, at, f"the lengths {length} and {maximum} do not match")
        record = cls(None, maximum)
        if not reader.pointer(field, partial(record._read_buffer, reader, length // 2, field)) and length:
            raise DecodeError(UNICODE_STRING, field, at, f"must not be NULL if the length is {length} bytes")
        return record

    def write(self, writer: NdrWriter, field: str) -> None:
        data = b"" if self.buffer is None else utf_16_le_encode(self.buffer, "surrogatepass")[0]
        if len(data) > self.maximum_length:
            raise EncodeError(UNICODE_STRING, field, f"{len(data)} bytes do not fit into {self.maximum_length} bytes")
        writer.u16(len(data), field)
        writer.u16(self.maximum_length, field)
        writer.pointer(None if self.buffer is None else partial(self._write_buffer, writer, data, field))

    def _read_buffer(self, reader: NdrReader, units: int, field: str) -> None:
        # An odd MaximumLength counts as one less. The room behind the text is not transferred.
        reader.max_count(self.maximum_length // 2, 0, field)
        first, actual = reader.u32(field), reader.u32(field)
        if first != 0 or actual != units:
            reason = f"must have {units} characters from offset 0, not {actual} characters from offset {first}"
            raise DecodeError(UNICODE_STRING, field, reader.offset - 8, reason)
        self.buffer = utf_16_le_decode(reader.octets(2 * units, field), "surrogatepass")[0]

    def _write_buffer(self, writer: NdrWriter, data: bytes, field: str) -> None:
        writer.max_count(self.maximum_length // 2, field)
        writer.u32(0, field)
        writer.u32(len(data) // 2, field)
        writer.octets(data)


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """MS-PAC 2.2.2 GROUP_MEMBERSHIP: a group of a domain that the context names."""

    relative_id: int
    attributes: int = SE_GROUP_DEFAULT


@dataclass(frozen=True, slots=True)
class SidAndAttributes:
    """MS-PAC 2.2.1 KERB_SID_AND_ATTRIBUTES: a group of any domain."""

    sid: Sid
    attributes: int = SE_GROUP_DEFAULT


@dataclass(slots=True)
class KerbValidationInfo:
    """typedef struct _KERB_VALIDATION_INFO {
        FILETIME LogonTime, LogoffTime, KickOffTime, PasswordLastSet, PasswordCanChange, PasswordMustChange;
        RPC_UNICODE_STRING EffectiveName, FullName, LogonScript, ProfilePath, HomeDirectory, HomeDirectoryDrive;
        USHORT LogonCount, BadPasswordCount;
        ULONG UserId, PrimaryGroupId, GroupCount;
        [size_is(GroupCount)] PGROUP_MEMBERSHIP GroupIds;
        ULONG UserFlags;
        USER_SESSION_KEY UserSessionKey;
        RPC_UNICODE_STRING LogonServer, LogonDomainName;
        PISID LogonDomainId;
        ULONG Reserved1[2], UserAccountControl, SubAuthStatus;
        FILETIME LastSuccessfulILogon, LastFailedILogon;
        ULONG FailedILogonCount, Reserved3, SidCount;
        [size_is(SidCount)] PKERB_SID_AND_ATTRIBUTES ExtraSids;
        PISID ResourceGroupDomainSid;
        ULONG ResourceGroupCount;
        [size_is(ResourceGroupCount)] PGROUP_MEMBERSHIP ResourceGroupIds;
    } KERB_VALIDATION_INFO;
    """

    logon_time: int = 0
    logoff_time: int = NEVER
    kick_off_time: int = NEVER
    password_last_set: int = 0
    password_can_change: int = 0
    password_must_change: int = NEVER
    effective_name: UnicodeString = field(default_factory=UnicodeString)
    full_name: UnicodeString = field(default_factory=UnicodeString)
    logon_script: UnicodeString = field(default_factory=UnicodeString)
    profile_path: UnicodeString = field(default_factory=UnicodeString)
    home_directory: UnicodeString = field(default_factory=UnicodeString)
    home_directory_drive: UnicodeString = field(default_factory=UnicodeString)
    logon_count: int = 0
    bad_password_count: int = 0
    user_id: int = 0
    primary_group_id: int = 0
    group_ids: Sequence[GroupMembership] = ()
    user_flags: int = 0
    user_session_key: bytes = bytes(SESSION_KEY_SIZE)
    logon_server: UnicodeString = field(default_factory=UnicodeString)
    logon_domain_name: UnicodeString = field(default_factory=UnicodeString)
    logon_domain_id: Sid | None = None
    reserved1: tuple[int, int] = (0, 0)
    user_account_control: int = 0
    sub_auth_status: int = 0
    last_successful_i_logon: int = 0
    last_failed_i_logon: int = 0
    failed_i_logon_count: int = 0
    reserved3: int = 0
    extra_sids: Sequence[SidAndAttributes] = ()
    resource_group_domain_sid: Sid | None = None
    resource_group_ids: Sequence[GroupMembership] = ()

    @property
    def user_sid(self) -> Sid:
        """The SID of the account. With a UserId of 0 it is the first of ExtraSids."""
        if self.user_id == 0:
            return self.extra_sids[0].sid
        assert self.logon_domain_id is not None
        return _below(self.logon_domain_id, self.user_id)

    @property
    def group_sids(self) -> frozenset[Sid]:
        """The SIDs of all groups that are enabled, with the primary group."""
        return frozenset(self._group_sids())

    def _group_sids(self) -> Iterator[Sid]:
        if self.primary_group_id and self.logon_domain_id is not None:
            yield _below(self.logon_domain_id, self.primary_group_id)
        of_domains = ((self.logon_domain_id, self.group_ids), (self.resource_group_domain_sid, self.resource_group_ids))
        for domain, groups in of_domains:
            for group in groups:
                assert domain is not None
                if group.attributes & SE_GROUP_ENABLED:
                    yield _below(domain, group.relative_id)
        for extra in self.extra_sids[1 if self.user_id == 0 else 0 :]:
            if extra.attributes & SE_GROUP_ENABLED:
                yield extra.sid

    @classmethod
    def decode(cls, data: bytes) -> "KerbValidationInfo":
        """Read the whole buffer of a PAC."""
        end = _object_end(data)
        reader = NdrReader(data[:end], NdrSyntax.NDR20)
        reader.octets(HEADERS.size, "headers")
        if reader.u32("KERB_VALIDATION_INFO") == 0:
            raise DecodeError(SECTION, "KERB_VALIDATION_INFO", HEADERS.size, "must not be NULL")
        record = cls._read(reader)
        if end - reader.offset >= OBJECT_ALIGNMENT:
            reason = f"{end - reader.offset} extra bytes follow"
            raise DecodeError(SECTION, "KERB_VALIDATION_INFO", reader.offset, reason)
        if fault := _fault_of(record):
            raise DecodeError(SECTION, fault[0], HEADERS.size, fault[1])
        return record

    def encode(self) -> bytes:
        if fault := _fault_of(self):
            raise EncodeError(SECTION, *fault)
        writer = NdrWriter(NdrSyntax.NDR20)
        writer.pointer(partial(self._write, writer))
        body = writer.finish()
        body += bytes(-len(body) % OBJECT_ALIGNMENT)
        return HEADERS.pack(VERSION, LITTLE_ENDIAN, COMMON_HEADER_LENGTH, FILLER, len(body), 0) + body

    @classmethod
    def _read(cls, reader: NdrReader) -> "KerbValidationInfo":
        domain: list[Sid] = []
        resource_domain: list[Sid] = []
        extra: list[Sid] = []
        extra_attributes: list[int] = []
        # Python evaluates the arguments in the order in which they are written, which is that of the structure.
        with reader.structure(POINTER_SIZE):
            record = cls(
                logon_time=_read_filetime(reader, "LogonTime"),
                logoff_time=_read_filetime(reader, "LogoffTime"),
                kick_off_time=_read_filetime(reader, "KickOffTime"),
                password_last_set=_read_filetime(reader, "PasswordLastSet"),
                password_can_change=_read_filetime(reader, "PasswordCanChange"),
                password_must_change=_read_filetime(reader, "PasswordMustChange"),
                effective_name=UnicodeString.read(reader, "EffectiveName"),
                full_name=UnicodeString.read(reader, "FullName"),
                logon_script=UnicodeString.read(reader, "LogonScript"),
                profile_path=UnicodeString.read(reader, "ProfilePath"),
                home_directory=UnicodeString.read(reader, "HomeDirectory"),
                home_directory_drive=UnicodeString.read(reader, "HomeDirectoryDrive"),
                logon_count=reader.u16("LogonCount"),
                bad_password_count=reader.u16("BadPasswordCount"),
                user_id=reader.u32("UserId"),
                primary_group_id=reader.u32("PrimaryGroupId"),
                group_ids=_read_groups(reader, "GroupIds"),
                user_flags=reader.u32("UserFlags"),
                user_session_key=reader.octets(SESSION_KEY_SIZE, "UserSessionKey"),
                logon_server=UnicodeString.read(reader, "LogonServer"),
                logon_domain_name=UnicodeString.read(reader, "LogonDomainName"),
                logon_domain_id=_point_to_sid(reader, domain, "LogonDomainId"),
                reserved1=(reader.u32("Reserved1"), reader.u32("Reserved1")),
                user_account_control=reader.u32("UserAccountControl"),
                sub_auth_status=reader.u32("SubAuthStatus"),
                last_successful_i_logon=_read_filetime(reader, "LastSuccessfulILogon"),
                last_failed_i_logon=_read_filetime(reader, "LastFailedILogon"),
                failed_i_logon_count=reader.u32("FailedILogonCount"),
                reserved3=reader.u32("Reserved3"),
                extra_sids=_read_extra_sids(reader, extra, extra_attributes),
                resource_group_domain_sid=_point_to_sid(reader, resource_domain, "ResourceGroupDomainSid"),
                resource_group_ids=_read_groups(reader, "ResourceGroupIds"),
            )
        reader.flush()
        record.logon_domain_id = next(iter(domain), None)
        record.resource_group_domain_sid = next(iter(resource_domain), None)
        record.extra_sids = list(map(SidAndAttributes, extra, extra_attributes))
        return record

    def _write(self, writer: NdrWriter) -> None:
        with writer.structure(POINTER_SIZE):
            _write_filetime(writer, self.logon_time, "LogonTime")
            _write_filetime(writer, self.logoff_time, "LogoffTime")
            _write_filetime(writer, self.kick_off_time, "KickOffTime")
            _write_filetime(writer, self.password_last_set, "PasswordLastSet")
            _write_filetime(writer, self.password_can_change, "PasswordCanChange")
            _write_filetime(writer, self.password_must_change, "PasswordMustChange")
            self.effective_name.write(writer, "EffectiveName")
            self.full_name.write(writer, "FullName")
            self.logon_script.write(writer, "LogonScript")
            self.profile_path.write(writer, "ProfilePath")
            self.home_directory.write(writer, "HomeDirectory")
            self.home_directory_drive.write(writer, "HomeDirectoryDrive")
            writer.u16(self.logon_count, "LogonCount")
            writer.u16(self.bad_password_count, "BadPasswordCount")
            writer.u32(self.user_id, "UserId")
            writer.u32(self.primary_group_id, "PrimaryGroupId")
            _write_groups(writer, self.group_ids, "GroupIds")
            writer.u32(self.user_flags, "UserFlags")
            if len(self.user_session_key) != SESSION_KEY_SIZE:
                raise EncodeError(SECTION, "UserSessionKey", f"must have {SESSION_KEY_SIZE} bytes")
            writer.octets(self.user_session_key)
            self.logon_server.write(writer, "LogonServer")
            self.logon_domain_name.write(writer, "LogonDomainName")
            _write_sid_pointer(writer, self.logon_domain_id)
            for number in self.reserved1:
                writer.u32(number, "Reserved1")
            writer.u32(self.user_account_control, "UserAccountControl")
            writer.u32(self.sub_auth_status, "SubAuthStatus")
            _write_filetime(writer, self.last_successful_i_logon, "LastSuccessfulILogon")
            _write_filetime(writer, self.last_failed_i_logon, "LastFailedILogon")
            writer.u32(self.failed_i_logon_count, "FailedILogonCount")
            writer.u32(self.reserved3, "Reserved3")
            writer.u32(len(self.extra_sids), "SidCount")
            writer.pointer(partial(_write_extra_sids, writer, self.extra_sids) if self.extra_sids else None)
            _write_sid_pointer(writer, self.resource_group_domain_sid)
            _write_groups(writer, self.resource_group_ids, "ResourceGroupIds")


def _fault_of(record: KerbValidationInfo) -> tuple[str, str] | None:
    """A field that the SIDs need and that is not there, with the reason."""
    if record.user_id == 0 and not record.extra_sids:
        return "UserId", "must not be 0 without ExtraSids"
    needs_domain = record.user_id or record.primary_group_id or record.group_ids
    for name, domain, is_needed in (
        ("LogonDomainId", record.logon_domain_id, needs_domain),
        ("ResourceGroupDomainSid", record.resource_group_domain_sid, record.resource_group_ids),
    ):
        if is_needed and domain is None:
            return name, "must not be NULL if the record contains accounts of this domain"
        if is_needed and domain is not None and len(domain.sub_authority) >= MAX_SUB_AUTHORITIES:
            return name, f"must have fewer than {MAX_SUB_AUTHORITIES} numbers to be the SID of a domain"
    return None


def _below(domain: Sid, relative_id: int) -> Sid:
    return Sid(domain.identifier_authority, (*domain.sub_authority, relative_id))


def _object_end(data: bytes) -> int:
    """The offset behind the object, from the headers of the stream."""
    if len(data) < HEADERS.size:
        raise DecodeError(STREAM_HEADER, "Version", 0, f"the headers must have {HEADERS.size} bytes, not {len(data)}")
    version, endianness, header_length, _, length, _ = HEADERS.unpack_from(data)
    end: int = HEADERS.size + length
    if version != VERSION or header_length != COMMON_HEADER_LENGTH:
        reason = f"Version and CommonHeaderLength must be 1 and 8, not {version} and {header_length}"
        raise DecodeError(STREAM_HEADER, "Version", 0, reason)
    if endianness != LITTLE_ENDIAN:
        raise DecodeError(STREAM_HEADER, "Endianness", 1, f"must be little-endian, 0x10, not 0x{endianness:02X}")
    left = len(data) - HEADERS.size
    if not length <= left < length + OBJECT_ALIGNMENT:
        raise DecodeError(OBJECT_HEADER, "ObjectBufferLength", 8, f"is {length}, but {left} bytes follow")
    return end


def _read_filetime(reader: NdrReader, field: str) -> int:
    """MS-DTYP 2.3.3: two 32-bit numbers, so that it has their alignment."""
    return reader.u32(field) | reader.u32(field) << 32


def _write_filetime(writer: NdrWriter, value: int, field: str) -> None:
    writer.u32(value & 0xFFFF_FFFF, field)
    writer.u32(value >> 32, field)


def _read_groups(reader: NdrReader, field: str) -> list[GroupMembership]:
    """A count and a pointer to as many groups, which are in the list after the reader's flush."""
    groups: list[GroupMembership] = []
    count = reader.u32(field)
    if not reader.pointer(field, partial(_read_group_array, reader, count, groups, field)) and count:
        raise DecodeError(SECTION, field, reader.offset - POINTER_SIZE, f"must not be NULL if the count is {count}")
    return groups


def _read_group_array(reader: NdrReader, count: int, groups: list[GroupMembership], field: str) -> None:
    reader.max_count(count, GROUP_SIZE, field)
    groups.extend(GroupMembership(reader.u32(field), reader.u32(field)) for _ in range(count))


def _write_groups(writer: NdrWriter, groups: Sequence[GroupMembership], field: str) -> None:
    writer.u32(len(groups), field)
    writer.pointer(partial(_write_group_array, writer, groups, field) if groups else None)


def _write_group_array(writer: NdrWriter, groups: Sequence[GroupMembership], field: str) -> None:
    writer.max_count(len(groups), field)
    for number in chain.from_iterable((group.relative_id, group.attributes) for group in groups):
        writer.u32(number, field)


def _read_extra_sids(reader: NdrReader, sids: list[Sid], attributes: list[int]) -> Sequence[SidAndAttributes]:
    """A count and a pointer to as many groups, whose parts are in the two lists after the reader's flush."""
    count = reader.u32("SidCount")
    if not reader.pointer("ExtraSids", partial(_read_extra_array, reader, count, sids, attributes)) and count:
        raise DecodeError(
            SECTION, "ExtraSids", reader.offset - POINTER_SIZE, f"must not be NULL if the count is {count}"
        )
    return ()


def _read_extra_array(reader: NdrReader, count: int, sids: list[Sid], attributes: list[int]) -> None:
    reader.max_count(count, GROUP_SIZE, "ExtraSids")
    for _ in range(count):
        if not reader.pointer("Sid", partial(_read_sid, reader, sids, "Sid")):
            raise DecodeError("MS-PAC 2.2.1", "Sid", reader.offset - POINTER_SIZE, "must not be NULL")
        attributes.append(reader.u32("Attributes"))


def _write_extra_sids(writer: NdrWriter, groups: Sequence[SidAndAttributes]) -> None:
    writer.max_count(len(groups), "ExtraSids")
    for group in groups:
        writer.pointer(partial(_write_sid, writer, group.sid))
        writer.u32(group.attributes, "Attributes")


def _point_to_sid(reader: NdrReader, found: list[Sid], field: str) -> Sid | None:
    """A pointer to a SID, which is in the list after the reader's flush; None until then."""
    reader.pointer(field, partial(_read_sid, reader, found, field))
    return None


def _write_sid_pointer(writer: NdrWriter, sid: Sid | None) -> None:
    writer.pointer(None if sid is None else partial(_write_sid, writer, sid))


def _read_sid(reader: NdrReader, found: list[Sid], field: str) -> None:
    """RPC_SID: a packet of MS-DTYP 2.4.2.2 behind the number of its sub-authorities (C706 14.3.7.1)."""
    count = reader.u32(field)
    at = reader.offset
    if count > MAX_SUB_AUTHORITIES:
        raise DecodeError(CONFORMANT_ARRAY, field, at - 4, f"must have at most {MAX_SUB_AUTHORITIES}, not {count}")
    packet = reader.octets(SID_HEADER.size + 4 * count, field)
    if packet[:2] != bytes((REVISION, count)):
        reason = f"Revision and SubAuthorityCount must be 1 and {count}, not {packet[0]} and {packet[1]}"
        raise DecodeError(RPC_SID, field, at, reason)
    found.append(Sid.decode(packet, 0)[0])


def _write_sid(writer: NdrWriter, sid: Sid) -> None:
    writer.max_count(len(sid.sub_authority), "SubAuthority")
    writer.octets(sid.encode())
