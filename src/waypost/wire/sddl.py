"""MS-DTYP 2.5.1 SDDL: a security descriptor as text, such as O:BAD:(A;;0xf003f;;;WD).

Text is read in one pass. ACEs of the types A, D, AU, OA, OD and OU are understood; conditional ACEs, mandatory labels,
resource attributes and central policies are refused. Written masks are hexadecimal, and SIDs with a fixed meaning are
written as their aliases. Aliases of accounts of a computer (LA, LG) need the SID of the computer, and aliases of a
domain are refused: write the SID.
"""

import re
from dataclasses import dataclass
from typing import Final

from waypost.errors import DecodeError, EncodeError, IllegalSddl
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_ALLOWED_OBJECT_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    ACCESS_DENIED_OBJECT_ACE_TYPE,
    ACL_REVISION,
    ACL_REVISION_DS,
    SE_DACL_AUTO_INHERIT_REQ,
    SE_DACL_AUTO_INHERITED,
    SE_DACL_PROTECTED,
    SE_SACL_AUTO_INHERIT_REQ,
    SE_SACL_AUTO_INHERITED,
    SE_SACL_PROTECTED,
    SE_SELF_RELATIVE,
    SYSTEM_AUDIT_ACE_TYPE,
    SYSTEM_AUDIT_OBJECT_ACE_TYPE,
    AccessAce,
    Ace,
    Acl,
    NullAcl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.sid import Sid

SECTION: Final = "MS-DTYP 2.5.1.1"

# Longer than any descriptor: an ACL has at most 64 KiB.
MAX_TEXT: Final = 1 << 20

# MS-DTYP 2.4.2.4: the aliases whose SIDs are the same everywhere.
ALIASES: Final[dict[str, Sid]] = {
    "WD": Sid(1, (0,)),
    "CO": Sid(3, (0,)),
    "CG": Sid(3, (1,)),
    "OW": Sid(3, (4,)),
    "NU": Sid(5, (2,)),
    "IU": Sid(5, (4,)),
    "SU": Sid(5, (6,)),
    "AN": Sid(5, (7,)),
    "ED": Sid(5, (9,)),
    "PS": Sid(5, (10,)),
    "AU": Sid(5, (11,)),
    "RC": Sid(5, (12,)),
    "SY": Sid(5, (18,)),
    "LS": Sid(5, (19,)),
    "NS": Sid(5, (20,)),
    "WR": Sid(5, (33,)),
    "UD": Sid(5, (84, 0, 0, 0, 0, 0)),
    "BA": Sid(5, (32, 544)),
    "BU": Sid(5, (32, 545)),
    "BG": Sid(5, (32, 546)),
    "PU": Sid(5, (32, 547)),
    "AO": Sid(5, (32, 548)),
    "SO": Sid(5, (32, 549)),
    "PO": Sid(5, (32, 550)),
    "BO": Sid(5, (32, 551)),
    "RE": Sid(5, (32, 552)),
    "RU": Sid(5, (32, 554)),
    "RD": Sid(5, (32, 555)),
    "NO": Sid(5, (32, 556)),
    "MU": Sid(5, (32, 558)),
    "LU": Sid(5, (32, 559)),
    "IS": Sid(5, (32, 568)),
    "CY": Sid(5, (32, 569)),
    "ER": Sid(5, (32, 573)),
    "CD": Sid(5, (32, 574)),
    "RA": Sid(5, (32, 575)),
    "ES": Sid(5, (32, 576)),
    "MS": Sid(5, (32, 577)),
    "HA": Sid(5, (32, 578)),
    "AA": Sid(5, (32, 579)),
    "RM": Sid(5, (32, 580)),
    "AC": Sid(15, (2, 1)),
    "LW": Sid(16, (4096,)),
    "ME": Sid(16, (8192,)),
    "MP": Sid(16, (8448,)),
    "HI": Sid(16, (12288,)),
    "SI": Sid(16, (16384,)),
}
_NAMES: Final = {sid: alias for alias, sid in ALIASES.items()}

# Accounts of this computer, by the last number of their SIDs.
_OF_COMPUTER: Final = {"LA": 500, "LG": 501}
_OF_DOMAIN: Final = frozenset({"DA", "DG", "DU", "DD", "DC", "SA", "CA", "RS", "EA", "PA", "RO", "CN"})

ACE_TYPES: Final = {
    "A": ACCESS_ALLOWED_ACE_TYPE,
    "D": ACCESS_DENIED_ACE_TYPE,
    "AU": SYSTEM_AUDIT_ACE_TYPE,
    "OA": ACCESS_ALLOWED_OBJECT_ACE_TYPE,
    "OD": ACCESS_DENIED_OBJECT_ACE_TYPE,
    "OU": SYSTEM_AUDIT_OBJECT_ACE_TYPE,
}
_TYPE_NAMES: Final = {number: name for name, number in ACE_TYPES.items()}
_OBJECT_TYPES: Final = frozenset({"OA", "OD", "OU"})
_UNSUPPORTED_TYPES: Final = frozenset({"ML", "SP", "XA", "XD", "XU", "ZA", "RA"})

ACE_FLAGS: Final = {"OI": 0x01, "CI": 0x02, "NP": 0x04, "IO": 0x08, "ID": 0x10, "SA": 0x40, "FA": 0x80}

RIGHTS: Final = {
    "GR": 0x8000_0000,
    "GW": 0x4000_0000,
    "GX": 0x2000_0000,
    "GA": 0x1000_0000,
    "WO": 0x0008_0000,
    "WD": 0x0004_0000,
    "RC": 0x0002_0000,
    "SD": 0x0001_0000,
    "FA": 0x001F_01FF,
    "FX": 0x0012_00A0,
    "FW": 0x0012_0116,
    "FR": 0x0012_0089,
    "KA": 0x000F_003F,
    "KR": 0x0002_0019,
    "KX": 0x0002_0019,
    "KW": 0x0002_0006,
    "CR": 0x0000_0100,
    "LO": 0x0000_0080,
    "DT": 0x0000_0040,
    "WP": 0x0000_0020,
    "RP": 0x0000_0010,
    "SW": 0x0000_0008,
    "LC": 0x0000_0004,
    "DC": 0x0000_0002,
    "CC": 0x0000_0001,
}

# Flags of the whole list, in the order in which they are written.
_DACL_FLAGS: Final = {"P": SE_DACL_PROTECTED, "AR": SE_DACL_AUTO_INHERIT_REQ, "AI": SE_DACL_AUTO_INHERITED}
_SACL_FLAGS: Final = {"P": SE_SACL_PROTECTED, "AR": SE_SACL_AUTO_INHERIT_REQ, "AI": SE_SACL_AUTO_INHERITED}

_NO_ACCESS_CONTROL: Final = "NO_ACCESS_CONTROL"

_SID: Final = re.compile(r"[sS]-[0-9xXa-fA-F-]{1,200}|[A-Za-z]{2}")
_LIST_FLAGS: Final = re.compile(r"(?:AR|AI|P)*", re.IGNORECASE)
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,11}")


def parse_sddl(text: str, computer: Sid | None = None) -> SecurityDescriptor:
    """The descriptor of a text. `computer` is the SID to which LA and LG belong. Raises IllegalSddl."""
    if len(text) > MAX_TEXT:
        raise IllegalSddl(SECTION, "SDDL", MAX_TEXT, f"must have at most {MAX_TEXT} characters, not {len(text)}")
    return _Reader(text, computer).descriptor()


def sddl(descriptor: SecurityDescriptor) -> str:
    """The reverse of `parse_sddl`. Raises EncodeError for an ACE that has no text."""
    parts = []
    if descriptor.owner is not None:
        parts.append(f"O:{_sid_text(descriptor.owner)}")
    if descriptor.group is not None:
        parts.append(f"G:{_sid_text(descriptor.group)}")
    for letter, acl, flags in (("D", descriptor.dacl, _DACL_FLAGS), ("S", descriptor.sacl, _SACL_FLAGS)):
        if acl is not None:
            said = "".join(word for word, bit in flags.items() if descriptor.control & bit)
            parts.append(f"{letter}:{said}{_acl_text(acl)}")
    return "".join(parts)


def _acl_text(acl: Acl | NullAcl) -> str:
    return "".join(map(_ace_text, acl.aces)) if isinstance(acl, Acl) else _NO_ACCESS_CONTROL


def _ace_text(ace: Ace) -> str:
    if isinstance(ace, OpaqueAce):
        raise EncodeError(SECTION, "ace-type", f"SDDL cannot express an ACE of type {ace.ace_type}")
    flags = "".join(word for word, bit in ACE_FLAGS.items() if ace.ace_flags & bit)
    kind = inherited = ""
    if isinstance(ace, ObjectAce):
        kind = "" if ace.object_type is None else guid_text(ace.object_type)
        inherited = "" if ace.inherited_object_type is None else guid_text(ace.inherited_object_type)
    return f"({_TYPE_NAMES[ace.ace_type]};{flags};0x{ace.mask:x};{kind};{inherited};{_sid_text(ace.sid)})"


def _sid_text(sid: Sid) -> str:
    return _NAMES.get(sid) or str(sid)


@dataclass(slots=True)
class _Reader:
    """One pass over a text."""

    text: str
    computer: Sid | None
    at: int = 0

    def descriptor(self) -> SecurityDescriptor:
        parts: dict[str, tuple[int, Sid | Acl | NullAcl]] = {}
        while self.at < len(self.text):
            letter = self.text[self.at].upper()
            if letter not in "OGDS" or self.text[self.at + 1 : self.at + 2] != ":":
                found = self.text[self.at : self.at + 2]
                raise self._error("SDDL", f"`O:`, `G:`, `D:` or `S:` is expected, not {found!r}")
            if letter in parts:
                raise self._error("SDDL", f"{letter}: occurs twice")
            self.at += 2
            parts[letter] = (0, self._sid()) if letter in "OG" else self._acl(letter)
        control = SE_SELF_RELATIVE
        for bits, _ in parts.values():
            control |= bits
        owner, group = (part[1] if (part := parts.get(letter)) else None for letter in "OG")
        dacl, sacl = (part[1] if (part := parts.get(letter)) else None for letter in "DS")
        assert owner is None or isinstance(owner, Sid)
        assert group is None or isinstance(group, Sid)
        assert not isinstance(dacl, Sid)
        assert not isinstance(sacl, Sid)
        return SecurityDescriptor(control=control, owner=owner, group=group, dacl=dacl, sacl=sacl)

    def _acl(self, letter: str) -> tuple[int, Acl | NullAcl]:
        bits_of = _DACL_FLAGS if letter == "D" else _SACL_FLAGS
        found = _LIST_FLAGS.match(self.text, self.at)
        assert found is not None
        flags = re.findall("AR|AI|P", found[0].upper())
        self.at = found.end()
        bits = 0
        for flag in flags:
            bits |= bits_of[flag]
        if self.text[self.at : self.at + len(_NO_ACCESS_CONTROL)].upper() == _NO_ACCESS_CONTROL:
            self.at += len(_NO_ACCESS_CONTROL)
            return bits, NullAcl.NULL_ACL
        aces: list[Ace] = []
        while self.text[self.at : self.at + 1] == "(":
            aces.append(self._ace())
        has_object = any(isinstance(ace, ObjectAce) for ace in aces)
        acl = Acl(acl_revision=ACL_REVISION_DS if has_object else ACL_REVISION, aces=tuple(aces))
        start = self.at
        try:
            acl.encode()
        except EncodeError as error:
            raise self._error("aces", error.reason, start) from error
        return bits, acl

    def _ace(self) -> Ace:
        self.at += 1
        start = self.at
        kind = self._field("ace-type").upper()
        if kind in _UNSUPPORTED_TYPES:
            raise self._error("ace-type", f"{kind} is not supported; use `A` or `D`", start)
        ace_type = ACE_TYPES.get(kind)
        if ace_type is None:
            raise self._error("ace-type", f"must be `A` or `D`, not {kind[:20]!r}", start)
        flags = self._words("ace-flag-string", ACE_FLAGS)
        mask = self._mask()
        object_type = self._guid("object-guid", kind)
        inherited = self._guid("inherit-object-guid", kind)
        sid = self._sid()
        if self.text[self.at : self.at + 1] != ")":
            raise self._error("ace", "the ACE must end with `)` after its SID")
        self.at += 1
        if kind in _OBJECT_TYPES:
            return ObjectAce(ace_type, flags, mask, 0, object_type, inherited, sid)
        return AccessAce(ace_type, flags, mask, sid)

    def _field(self, field: str) -> str:
        """The text before the next semicolon."""
        end = self.text.find(";", self.at, self.at + 400)
        if end < 0:
            raise self._error(field, "a semicolon is expected after the field")
        value = self.text[self.at : end]
        self.at = end + 1
        return value

    def _words(self, field: str, words: dict[str, int]) -> int:
        start = self.at
        value = self._field(field).upper()
        bits = 0
        for at in range(0, len(value), 2):
            bit = words.get(value[at : at + 2])
            if bit is None:
                raise self._error(field, f"{value[at : at + 2]!r} is unknown", start + at)
            bits |= bit
        return bits

    def _mask(self) -> int:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            return self._words("ace-rights", RIGHTS)
        start = self.at
        text = self._field("ace-rights")
        if text != found[0]:
            raise self._error("ace-rights", f"{text[:40]!r} is not a number", start)
        is_octal = len(text) > 1 and text[0] == "0" and text[1] not in "xX"
        try:
            mask = int(text, 8) if is_octal else int(text, 0)
        except ValueError:
            raise self._error("ace-rights", f"{text[:40]!r} is not a number", start) from None
        if mask >> 32:
            raise self._error("ace-rights", f"{text} does not fit into 32 bits", start)
        return mask

    def _guid(self, field: str, kind: str) -> bytes | None:
        start = self.at
        text = self._field(field)
        if not text:
            return None
        if kind not in _OBJECT_TYPES:
            raise self._error(field, f"an ACE of type {kind} must not have a GUID", start)
        try:
            guid = parse_guid(text)
        except DecodeError as error:
            raise self._error(field, error.reason, start) from error
        return guid if guid != NULL_GUID else None

    def _sid(self) -> Sid:
        start = self.at
        found = _SID.match(self.text, self.at)
        if found is None:
            raise self._error("sid-string", "a SID or an alias such as BA is expected")
        text = found[0]
        self.at = found.end()
        if text[1] != "-":
            return self._alias(text.upper(), start)
        # D: may follow the SID of an owner at once; d is a hexadecimal digit too.
        if text[-1] in "dD" and self.text[self.at : self.at + 1] == ":":
            text = text[:-1]
            self.at -= 1
        try:
            return Sid.parse(text)
        except DecodeError as error:
            raise self._error("sid-string", error.reason, start) from error

    def _alias(self, alias: str, start: int) -> Sid:
        sid = ALIASES.get(alias)
        if sid is not None:
            return sid
        if alias in _OF_COMPUTER and self.computer is not None:
            return Sid(self.computer.identifier_authority, (*self.computer.sub_authority, _OF_COMPUTER[alias]))
        if alias in _OF_COMPUTER or alias in _OF_DOMAIN:
            raise self._error("sid-string", f"{alias} depends on a domain or computer; write the SID", start)
        raise self._error("sid-string", f"{alias!r} is not an alias of a SID", start)

    def _error(self, field: str, reason: str, at: int | None = None) -> IllegalSddl:
        return IllegalSddl(SECTION, field, self.at if at is None else at, reason)
