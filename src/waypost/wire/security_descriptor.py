"""MS-DTYP 2.4.6 SECURITY_DESCRIPTOR, self-relative, with its ACLs (2.4.5) and ACEs (2.4.4).

The parts of a descriptor may stand in any order, with gaps, even on top of each other. So a decoded descriptor keeps
its bytes and encodes to them. It is frozen, as are its parts: the only way to change one is `dataclasses.replace`, and
that makes a descriptor without kept bytes, which gets a new layout. Bits that say which parts are present, in the
control word and in the flags of an ACE, always agree with the parts.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from struct import Struct
from typing import Final, TypeAlias

from waypost.errors import DecodeError, EncodeError
from waypost.wire.access_masks import SecurityInformation
from waypost.wire.codec import cut_short, padding_for
from waypost.wire.sid import Sid

DESCRIPTOR_SECTION: Final = "MS-DTYP 2.4.6"
ACL_SECTION: Final = "MS-DTYP 2.4.5"
ACE_SECTION: Final = "MS-DTYP 2.4.4"

DESCRIPTOR_REVISION: Final = 1
ACL_REVISION: Final = 2
ACL_REVISION_DS: Final = 4

# The control word.
SE_OWNER_DEFAULTED: Final = 0x0001
SE_GROUP_DEFAULTED: Final = 0x0002
SE_DACL_PRESENT: Final = 0x0004
SE_DACL_DEFAULTED: Final = 0x0008
SE_SACL_PRESENT: Final = 0x0010
SE_SACL_DEFAULTED: Final = 0x0020
SE_DACL_UNTRUSTED: Final = 0x0040
SE_SERVER_SECURITY: Final = 0x0080
SE_DACL_AUTO_INHERIT_REQ: Final = 0x0100
SE_SACL_AUTO_INHERIT_REQ: Final = 0x0200
SE_DACL_AUTO_INHERITED: Final = 0x0400
SE_SACL_AUTO_INHERITED: Final = 0x0800
SE_DACL_PROTECTED: Final = 0x1000
SE_SACL_PROTECTED: Final = 0x2000
SE_RM_CONTROL_VALID: Final = 0x4000
SE_SELF_RELATIVE: Final = 0x8000

# The control bits that describe a part and go with it.
CONTROL_OF_PART: Final = {
    SecurityInformation.OWNER_SECURITY_INFORMATION: SE_OWNER_DEFAULTED,
    SecurityInformation.GROUP_SECURITY_INFORMATION: SE_GROUP_DEFAULTED,
    SecurityInformation.DACL_SECURITY_INFORMATION: SE_DACL_PRESENT
    | SE_DACL_DEFAULTED
    | SE_DACL_UNTRUSTED
    | SE_SERVER_SECURITY
    | SE_DACL_AUTO_INHERIT_REQ
    | SE_DACL_AUTO_INHERITED
    | SE_DACL_PROTECTED,
    SecurityInformation.SACL_SECURITY_INFORMATION: SE_SACL_PRESENT
    | SE_SACL_DEFAULTED
    | SE_SACL_AUTO_INHERIT_REQ
    | SE_SACL_AUTO_INHERITED
    | SE_SACL_PROTECTED,
}

ACCESS_ALLOWED_ACE_TYPE: Final = 0x00
ACCESS_DENIED_ACE_TYPE: Final = 0x01
SYSTEM_AUDIT_ACE_TYPE: Final = 0x02
ACCESS_ALLOWED_OBJECT_ACE_TYPE: Final = 0x05
ACCESS_DENIED_OBJECT_ACE_TYPE: Final = 0x06
SYSTEM_AUDIT_OBJECT_ACE_TYPE: Final = 0x07

ACE_OBJECT_TYPE_PRESENT: Final = 0x1
ACE_INHERITED_OBJECT_TYPE_PRESENT: Final = 0x2

DESCRIPTOR: Final = Struct("<BBHIIII")
ACL: Final = Struct("<BBHHH")
ACE_HEADER: Final = Struct("<BBH")
MASK: Final = Struct("<I")
MASK_AND_FLAGS: Final = Struct("<II")
GUID_SIZE: Final = 16


def _decode_sid(buf: bytes, at: int, end: int) -> tuple[Sid, int]:
    """The SID of an ACE that ends at `end`."""
    if at > end:
        raise cut_short(ACE_SECTION, "Sid", end, end)
    sid, after = Sid.decode(buf, at)
    if after > end:
        raise cut_short(ACE_SECTION, "Sid", at, end)
    return sid, after


def _encode_ace(ace_type: int, ace_flags: int, body: bytes) -> bytes:
    size = ACE_HEADER.size + len(body)
    if size > 0xFFFF:
        raise EncodeError(ACE_SECTION, "AceSize", f"must be at most 65535, not {size}")
    return ACE_HEADER.pack(ace_type, ace_flags, size) + body


@dataclass(frozen=True, slots=True)
class AccessAce:
    """ACE types 0, 1 and 2: rights that a SID is given or denied, or whose use is audited."""

    ace_type: int
    ace_flags: int
    mask: int
    sid: Sid
    rest: bytes = b""

    @classmethod
    def decode(cls, buf: bytes, at: int, end: int) -> "AccessAce":
        ace_type, ace_flags, _ = ACE_HEADER.unpack_from(buf, at)
        at += ACE_HEADER.size
        if end - at < MASK.size:
            raise cut_short(ACE_SECTION, "Mask", at, end)
        (mask,) = MASK.unpack_from(buf, at)
        sid, at = _decode_sid(buf, at + MASK.size, end)
        return cls(ace_type, ace_flags, mask, sid, buf[at:end])

    def encode(self) -> bytes:
        return _encode_ace(self.ace_type, self.ace_flags, MASK.pack(self.mask) + self.sid.encode() + self.rest)


@dataclass(frozen=True, slots=True)
class ObjectAce:
    """ACE types 5, 6 and 7: the same for a property, an extended right or a child class of a directory object."""

    ace_type: int
    ace_flags: int
    mask: int
    flags: int
    object_type: bytes | None
    inherited_object_type: bytes | None
    sid: Sid
    rest: bytes = b""

    def __post_init__(self) -> None:
        flags = self.flags & ~(ACE_OBJECT_TYPE_PRESENT | ACE_INHERITED_OBJECT_TYPE_PRESENT)
        if self.object_type is not None:
            flags |= ACE_OBJECT_TYPE_PRESENT
        if self.inherited_object_type is not None:
            flags |= ACE_INHERITED_OBJECT_TYPE_PRESENT
        object.__setattr__(self, "flags", flags)

    @classmethod
    def decode(cls, buf: bytes, at: int, end: int) -> "ObjectAce":
        ace_type, ace_flags, _ = ACE_HEADER.unpack_from(buf, at)
        at += ACE_HEADER.size
        if end - at < MASK_AND_FLAGS.size:
            raise cut_short(ACE_SECTION, "Flags", at, end)
        mask, flags = MASK_AND_FLAGS.unpack_from(buf, at)
        at += MASK_AND_FLAGS.size
        object_type = inherited_object_type = None
        if flags & ACE_OBJECT_TYPE_PRESENT:
            object_type = buf[at : at + GUID_SIZE]
            at += GUID_SIZE
        if flags & ACE_INHERITED_OBJECT_TYPE_PRESENT:
            inherited_object_type = buf[at : at + GUID_SIZE]
            at += GUID_SIZE
        # A GUID that is cut short leaves no room for the SID.
        sid, at = _decode_sid(buf, at, end)
        return cls(ace_type, ace_flags, mask, flags, object_type, inherited_object_type, sid, buf[at:end])

    def encode(self) -> bytes:
        guids = (self.object_type or b"") + (self.inherited_object_type or b"")
        body = MASK_AND_FLAGS.pack(self.mask, self.flags) + guids + self.sid.encode() + self.rest
        return _encode_ace(self.ace_type, self.ace_flags, body)


@dataclass(frozen=True, slots=True)
class OpaqueAce:
    """An ACE of another type, as it came."""

    ace_type: int
    ace_flags: int
    data: bytes

    @classmethod
    def decode(cls, buf: bytes, at: int, end: int) -> "OpaqueAce":
        ace_type, ace_flags, _ = ACE_HEADER.unpack_from(buf, at)
        return cls(ace_type, ace_flags, buf[at + ACE_HEADER.size : end])

    def encode(self) -> bytes:
        return _encode_ace(self.ace_type, self.ace_flags, self.data)


Ace: TypeAlias = AccessAce | ObjectAce | OpaqueAce

ACE_RECORDS: Final[dict[int, type[AccessAce] | type[ObjectAce]]] = {
    ACCESS_ALLOWED_ACE_TYPE: AccessAce,
    ACCESS_DENIED_ACE_TYPE: AccessAce,
    SYSTEM_AUDIT_ACE_TYPE: AccessAce,
    ACCESS_ALLOWED_OBJECT_ACE_TYPE: ObjectAce,
    ACCESS_DENIED_OBJECT_ACE_TYPE: ObjectAce,
    SYSTEM_AUDIT_OBJECT_ACE_TYPE: ObjectAce,
}


def _decode_ace(buf: bytes, at: int, acl_end: int) -> tuple[Ace, int]:
    if acl_end - at < ACE_HEADER.size:
        raise cut_short(ACE_SECTION, "ACE_HEADER", at, acl_end)
    ace_type, _, ace_size = ACE_HEADER.unpack_from(buf, at)
    if not ACE_HEADER.size <= ace_size <= acl_end - at:
        reason = f"must be {ACE_HEADER.size} to {acl_end - at}, not {ace_size}"
        raise DecodeError(ACE_SECTION, "AceSize", at + 2, reason)
    end = at + ace_size
    return ACE_RECORDS.get(ace_type, OpaqueAce).decode(buf, at, end), end


@dataclass(frozen=True, slots=True)
class Acl:
    """MS-DTYP 2.4.5 ACL. A list with an ObjectAce has revision 4. `unused` is the room behind the last ACE."""

    acl_revision: int = ACL_REVISION
    sbz1: int = 0
    sbz2: int = 0
    aces: tuple[Ace, ...] = ()
    unused: bytes = b""

    @property
    def needs_other_revision(self) -> bool:
        return self.acl_revision != ACL_REVISION_DS and any(isinstance(ace, ObjectAce) for ace in self.aces)

    @classmethod
    def decode(cls, buf: bytes, at: int) -> "tuple[Acl, int]":
        if len(buf) - at < ACL.size:
            raise cut_short(ACL_SECTION, "ACL", at, len(buf))
        revision, sbz1, acl_size, ace_count, sbz2 = ACL.unpack_from(buf, at)
        if revision not in (ACL_REVISION, ACL_REVISION_DS):
            raise DecodeError(ACL_SECTION, "AclRevision", at, f"must be 2 or 4, not {revision}")
        if not ACL.size <= acl_size <= len(buf) - at:
            reason = f"must be {ACL.size} to {len(buf) - at}, not {acl_size}"
            raise DecodeError(ACL_SECTION, "AclSize", at + 2, reason)
        if ace_count * ACE_HEADER.size > acl_size - ACL.size:
            raise DecodeError(ACL_SECTION, "AceCount", at + 4, f"{ace_count} ACEs do not fit into {acl_size} bytes")
        end = at + acl_size
        ace_at = at + ACL.size
        aces = []
        for _ in range(ace_count):
            ace, ace_at = _decode_ace(buf, ace_at, end)
            aces.append(ace)
        acl = cls(revision, sbz1, sbz2, tuple(aces), buf[ace_at:end])
        if acl.needs_other_revision:
            raise DecodeError(ACL_SECTION, "AclRevision", at, f"must be 4 for an object ACE, not {revision}")
        return acl, end

    def encode(self) -> bytes:
        if self.needs_other_revision:
            raise EncodeError(ACL_SECTION, "AclRevision", f"must be 4 for an object ACE, not {self.acl_revision}")
        body = b"".join(ace.encode() for ace in self.aces) + self.unused
        size = ACL.size + len(body)
        if size > 0xFFFF:
            raise EncodeError(ACL_SECTION, "AclSize", f"must be at most 65535, not {size}")
        return ACL.pack(self.acl_revision, self.sbz1, size, len(self.aces), self.sbz2) + body


class NullAcl(Enum):
    """A list that is present and null. A null DACL allows everything to everyone, an empty one allows nothing."""

    NULL_ACL = "null"


@dataclass(frozen=True, slots=True)
class SecurityDescriptor:
    """Owner, rights and audit rules of an object. A missing part is None."""

    sbz1: int = 0
    control: int = SE_SELF_RELATIVE
    owner: Sid | None = None
    group: Sid | None = None
    sacl: Acl | NullAcl | None = None
    dacl: Acl | NullAcl | None = None
    received: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        control = self.control & ~(SE_SACL_PRESENT | SE_DACL_PRESENT) | SE_SELF_RELATIVE
        if self.sacl is not None:
            control |= SE_SACL_PRESENT
        if self.dacl is not None:
            control |= SE_DACL_PRESENT
        object.__setattr__(self, "control", control)

    @classmethod
    def decode(cls, data: bytes) -> "SecurityDescriptor":
        if len(data) < DESCRIPTOR.size:
            raise cut_short(DESCRIPTOR_SECTION, "SECURITY_DESCRIPTOR", 0, len(data))
        revision, sbz1, control, owner, group, sacl, dacl = DESCRIPTOR.unpack_from(data)
        if revision != DESCRIPTOR_REVISION:
            raise DecodeError(DESCRIPTOR_SECTION, "Revision", 0, f"must be 1, not {revision}")
        if not control & SE_SELF_RELATIVE:
            raise DecodeError(DESCRIPTOR_SECTION, "Control", 2, "the descriptor is not self-relative")
        # An offset to a list that Control calls absent is not looked at.
        sacl = sacl if control & SE_SACL_PRESENT else 0
        dacl = dacl if control & SE_DACL_PRESENT else 0
        offsets = {"OffsetOwner": owner, "OffsetGroup": group, "OffsetSacl": sacl, "OffsetDacl": dacl}
        for at, (name, offset) in zip((4, 8, 12, 16), offsets.items(), strict=True):
            if offset and not DESCRIPTOR.size <= offset <= len(data):
                reason = f"{offset} is not between the header and the end of the {len(data)} bytes"
                raise DecodeError(DESCRIPTOR_SECTION, name, at, reason)
        descriptor = cls(
            sbz1,
            control,
            owner=_sid_at(data, owner),
            group=_sid_at(data, group),
            sacl=_acl_at(data, sacl) if control & SE_SACL_PRESENT else None,
            dacl=_acl_at(data, dacl) if control & SE_DACL_PRESENT else None,
        )
        object.__setattr__(descriptor, "received", data)
        return descriptor

    def encode(self) -> bytes:
        if self.received:
            return self.received
        at = DESCRIPTOR.size
        offsets = []
        body = []
        # Any order is legal.
        for part in (self.sacl, self.dacl, self.owner, self.group):
            if part is None or part is NullAcl.NULL_ACL:
                offsets.append(0)
                continue
            encoded = part.encode()
            encoded += padding_for(len(encoded), b"")
            offsets.append(at)
            body.append(encoded)
            at += len(encoded)
        sacl, dacl, owner, group = offsets
        header = DESCRIPTOR.pack(DESCRIPTOR_REVISION, self.sbz1, self.control, owner, group, sacl, dacl)
        return header + b"".join(body)

    def select(self, security_information: int) -> "SecurityDescriptor":
        """A descriptor with only the parts that `security_information` (MS-MQMQ 2.2.3) asks for."""
        control = self.control
        for part, bits in CONTROL_OF_PART.items():
            if not security_information & part:
                control &= ~bits
        return replace(
            self,
            control=control,
            owner=self.owner if security_information & SecurityInformation.OWNER_SECURITY_INFORMATION else None,
            group=self.group if security_information & SecurityInformation.GROUP_SECURITY_INFORMATION else None,
            sacl=self.sacl if security_information & SecurityInformation.SACL_SECURITY_INFORMATION else None,
            dacl=self.dacl if security_information & SecurityInformation.DACL_SECURITY_INFORMATION else None,
        )


def _sid_at(data: bytes, offset: int) -> Sid | None:
    return Sid.decode(data, offset)[0] if offset else None


def _acl_at(data: bytes, offset: int) -> Acl | NullAcl:
    return Acl.decode(data, offset)[0] if offset else NullAcl.NULL_ACL
