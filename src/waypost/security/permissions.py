"""Rights on a queue in words, and changes of them: MS-MQMQ 2.2.24.

A list of rights is a list of entries: who, allowed or denied, and words. Denied rights come first and win. The word
`receive` includes peek, as the mask does, so `peek` is shown only without it. Bits that no word has are shown as a
hexadecimal number. Changes are made in the order revoke, owner, deny, grant; deny and grant add.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from waypost.errors import IllegalSecurityDescriptor, InvalidParameter
from waypost.security.access import Sender, allows, is_idle
from waypost.security.callers import may_be_account
from waypost.wire.access_masks import MachineAccess, QueueAccess
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_ALLOWED_OBJECT_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    ACCESS_DENIED_OBJECT_ACE_TYPE,
    AccessAce,
    Ace,
    Acl,
    NullAcl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

_Generic: TypeAlias = tuple[tuple[int, QueueAccess | MachineAccess], ...]

FULL: Final = QueueAccess.MQSEC_QUEUE_GENERIC_ALL

WORDS: Final[dict[str, QueueAccess]] = {
    "receive": QueueAccess.MQSEC_RECEIVE_MESSAGE,
    "peek": QueueAccess.MQSEC_PEEK_MESSAGE,
    "send": QueueAccess.MQSEC_WRITE_MESSAGE,
    "receive-journal": QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE,
    "set-properties": QueueAccess.MQSEC_SET_QUEUE_PROPERTIES,
    "get-properties": QueueAccess.MQSEC_GET_QUEUE_PROPERTIES,
    "delete": QueueAccess.MQSEC_DELETE_QUEUE,
    "get-permissions": QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS,
    "set-permissions": QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS,
    "take-ownership": QueueAccess.MQSEC_TAKE_QUEUE_OWNERSHIP,
    "full": FULL,
}
# `peek` last: others include it.
_SHOWN: Final = tuple(sorted(WORDS.items(), key=lambda word: (-word[1].bit_count(), word[0] == "peek")))

# MS-DTYP 2.4.3: the generic rights, and their meaning for a queue and a computer (MS-MQMQ 2.2.24, 2.2.23).
_QUEUE: Final[_Generic] = (
    (0x8000_0000, QueueAccess.MQSEC_QUEUE_GENERIC_READ),
    (0x4000_0000, QueueAccess.MQSEC_QUEUE_GENERIC_WRITE),
    (0x1000_0000, QueueAccess.MQSEC_QUEUE_GENERIC_ALL),
)
_MACHINE: Final[_Generic] = (
    (0x8000_0000, MachineAccess.MQSEC_MACHINE_GENERIC_READ),
    (0x4000_0000, MachineAccess.MQSEC_MACHINE_GENERIC_WRITE),
    (0x1000_0000, MachineAccess.MQSEC_MACHINE_GENERIC_ALL),
)
_DENYING: Final = (ACCESS_DENIED_ACE_TYPE, ACCESS_DENIED_OBJECT_ACE_TYPE)
_ALLOWING: Final = (ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_OBJECT_ACE_TYPE)
_HEX: Final = re.compile(r"0[xX][0-9a-fA-F]{1,8}")


@dataclass(frozen=True, slots=True)
class Entry:
    """Rights that somebody has, or does not have."""

    sid: Sid
    mask: int
    allow: bool = True


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the rights on a queue, with all names as SIDs."""

    revoke: tuple[Sid, ...] = ()
    owner: Sid | None = None
    deny: tuple[tuple[Sid, int], ...] = ()
    grant: tuple[tuple[Sid, int], ...] = ()


def mask_of(words: Iterable[str]) -> int:
    """The mask of words. Raises InvalidParameter for an unknown word, or without any."""
    mask = 0
    for word in words:
        known = WORDS.get(word.lower())
        if known is not None:
            mask |= known
        elif _HEX.fullmatch(word) and not int(word, 16) & ~int(FULL) and int(word, 16):
            mask |= int(word, 16)
        else:
            raise InvalidParameter(f"{word[:60]!r} is not a right; use {', '.join(WORDS)}")
    if not mask:
        raise InvalidParameter(f"specify at least one right: {', '.join(WORDS)}")
    return mask


def words_of(mask: int) -> list[str]:
    """The words of a mask, and the bits without words as a number."""
    found = set()
    shown = 0
    for word, bits in _SHOWN:
        # The complement of an IntFlag has only the bits that it names.
        if mask & bits == bits and bits & ~shown:
            found.add(word)
            shown |= int(bits)
    rest = mask & ~shown
    words = [word for word in WORDS if word in found]
    return [*words, f"0x{rest:x}"] if rest else words


def entries(descriptor: SecurityDescriptor) -> list[Entry]:
    """The rights on a queue, in the order in which they are checked. Without a list everyone has all rights.

    ACEs that give and deny nothing are not among them.
    """
    if not isinstance(descriptor.dacl, Acl):
        return [Entry(EVERYONE, FULL)]
    return [
        Entry(ace.sid, ace.mask, allow=ace.ace_type in _ALLOWING)
        for ace in descriptor.dacl.aces
        if not isinstance(ace, OpaqueAce) and not is_idle(ace)
    ]


def changed(descriptor: SecurityDescriptor, changes: Changes) -> SecurityDescriptor:
    """The descriptor after changes."""
    acl = descriptor.dacl
    if not isinstance(acl, Acl):
        acl = Acl(aces=(AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, int(FULL), EVERYONE),))
    aces = [ace for ace in acl.aces if isinstance(ace, OpaqueAce) or ace.sid not in changes.revoke]
    for sid, mask in changes.deny:
        _add(aces, ACCESS_DENIED_ACE_TYPE, sid, mask)
    for sid, mask in changes.grant:
        _add(aces, ACCESS_ALLOWED_ACE_TYPE, sid, mask)
    owner = descriptor.owner if changes.owner is None else changes.owner
    return with_denied_first(replace(descriptor, owner=owner, dacl=replace(acl, aces=tuple(aces), unused=b"")))


def with_denied_first(descriptor: SecurityDescriptor) -> SecurityDescriptor:
    """The descriptor with the ACEs that deny before all others, so that they win; else the order stays."""
    acl = descriptor.dacl
    if not isinstance(acl, Acl):
        return descriptor
    aces = tuple(sorted(acl.aces, key=lambda ace: ace.ace_type not in _DENYING))
    return descriptor if aces == acl.aces else replace(descriptor, dacl=replace(acl, aces=aces))


def check_given(descriptor: SecurityDescriptor) -> None:
    """Raise IllegalSecurityDescriptor for parts of a written descriptor that a queue would not keep or use."""
    if descriptor.group is not None:
        raise _unused("a primary group (G:), which a queue does not have", "G: and its SID")
    if descriptor.sacl is not None:
        raise _unused("audit rules (S:), which Waypost does not use", "S: and its entries")
    for ace in descriptor.dacl.aces if isinstance(descriptor.dacl, Acl) else ():
        if isinstance(ace, ObjectAce):
            raise _unused("an entry for a part of an object (OA or OD)", "the entry, or use the types A and D")
        if is_idle(ace):
            raise _unused("an entry that neither grants nor denies a right on the queue (IO or AU)", "the entry")


def _unused(part: str, what: str) -> IllegalSecurityDescriptor:
    error = IllegalSecurityDescriptor(f"the SDDL contains {part}")
    error.add_note(f"remove {what} from the SDDL")
    return error


def _add(aces: list[Ace], ace_type: int, sid: Sid, mask: int) -> None:
    for at, ace in enumerate(aces):
        if isinstance(ace, AccessAce) and (ace.ace_type, ace.ace_flags, ace.sid) == (ace_type, 0, sid):
            aces[at] = replace(ace, mask=ace.mask | mask)
            return
    aces.append(AccessAce(ace_type, 0, mask, sid))


def with_queue_rights(descriptor: SecurityDescriptor) -> SecurityDescriptor:
    """The descriptor with the generic rights of its ACEs as rights on a queue."""
    return replace(descriptor, dacl=_mapped(descriptor.dacl, _QUEUE), sacl=_mapped(descriptor.sacl, _QUEUE))


def with_machine_rights(descriptor: SecurityDescriptor) -> SecurityDescriptor:
    """The descriptor with the generic rights of its ACEs as rights on a computer."""
    return replace(descriptor, dacl=_mapped(descriptor.dacl, _MACHINE), sacl=_mapped(descriptor.sacl, _MACHINE))


def _mapped(acl: Acl | NullAcl | None, meanings: _Generic) -> Acl | NullAcl | None:
    if not isinstance(acl, Acl):
        return acl
    return replace(acl, aces=tuple(_map_ace(ace, meanings) for ace in acl.aces))


def _map_ace(ace: Ace, meanings: _Generic) -> Ace:
    if isinstance(ace, OpaqueAce):
        return ace
    mask = ace.mask
    for generic, rights in meanings:
        if mask & generic:
            mask = mask & ~generic | int(rights)
    return replace(ace, mask=mask)


def changers(descriptor: SecurityDescriptor) -> list[Sid]:
    """The SIDs that are enough to change the rights on the queue, the owner first, without the anonymous user.

    The owner may always (MS-DTYP 2.5.3.2).
    """
    data = descriptor.encode()
    right = QueueAccess.MQSEC_CHANGE_QUEUE_PERMISSIONS
    owner = () if descriptor.owner is None else (descriptor.owner,)
    sids = dict.fromkeys((*owner, *(entry.sid for entry in entries(descriptor) if entry.allow)))
    many = frozenset({EVERYONE, AUTHENTICATED_USERS})
    return [sid for sid in sids if sid != ANONYMOUS and allows(data, Sender(many | {sid}), right)]


def is_changeable(descriptor: SecurityDescriptor, is_known: Callable[[Sid], bool]) -> bool:
    """Whether somebody who is known can change the rights on the queue. An account that is not known may be gone."""
    return any(map(is_known, changers(descriptor)))


def denying(descriptor: SecurityDescriptor, sids: Iterable[Sid], right: int) -> list[Sid]:
    """Those of the SIDs that entries deny a part of a right."""
    denied = dict.fromkeys(entry.sid for entry in entries(descriptor) if not entry.allow and entry.mask & right)
    found = frozenset(sids)
    return [sid for sid in denied if sid in found]


def may_own(sid: Sid) -> bool:
    """Whether a SID can be that of an owner: an account, a group of accounts, or the administrators.

    Callers without a name belong to groups such as Everyone, so a queue of such a group belongs to them too. Nobody
    logs on with the SID of a service of Windows, such as S-1-5-18.
    """
    return sid == ADMINISTRATORS or may_be_account(sid)
