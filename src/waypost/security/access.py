"""Access checks on a queue, by its security descriptor and the rules of MS-DTYP 2.5.3.2.

MS-MQQB 3.1.5.8.3 asks that of the sender of a message, MS-MQRR 3.1.4.2 and MS-MQQP 5 of a remote reader. A message that
names no sender comes from Everyone and from the anonymous user (readings MQQB 3.26), so that leaving the SecurityHeader
out opens no queue; and so does a caller that has not authenticated. A SID in a message that nobody has verified is a
claim: it is granted nothing, and denied what the SID is denied. The account of another caller has a name without a
known SID: it is one of the authenticated users of the network, and an ACE that denies an account or a group of a domain
denies it, because it may be that account or in that group. A descriptor, an identity or a kind of ACE that is not
understood denies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from waypost.errors import DecodeError, IllegalSecurityDescriptor
from waypost.security.rights import check_rights
from waypost.wire.access_masks import MachineAccess, QueueAccess
from waypost.wire.security_descriptor import (
    ACCESS_ALLOWED_ACE_TYPE,
    ACCESS_ALLOWED_OBJECT_ACE_TYPE,
    ACCESS_DENIED_ACE_TYPE,
    ACCESS_DENIED_OBJECT_ACE_TYPE,
    Ace,
    Acl,
    ObjectAce,
    OpaqueAce,
    SecurityDescriptor,
)
from waypost.wire.security_header import NO_SENDER, SENDER_QUEUE_MANAGER, SENDER_SID, SecurityHeader
from waypost.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, NETWORK, OWNER_RIGHTS, Sid

# MS-DTYP 2.4.4.1: the ACE is for what is below the object, and not for the object.
INHERIT_ONLY_ACE: Final = 0x08

# MS-DTYP 2.4.3: MQSEC_GET_QUEUE_PERMISSIONS and MQSEC_CHANGE_QUEUE_PERMISSIONS have the same bits.
READ_CONTROL: Final = 0x20000
WRITE_DAC: Final = 0x40000

_ALLOWING: Final = (ACCESS_ALLOWED_ACE_TYPE, ACCESS_ALLOWED_OBJECT_ACE_TYPE)
_DENYING: Final = (ACCESS_DENIED_ACE_TYPE, ACCESS_DENIED_OBJECT_ACE_TYPE)

# MS-DTYP 2.4.2.4: S-1-5-21 begins the SIDs of the accounts and groups of a domain or a computer.
_NT_AUTHORITY: Final = 5
_ACCOUNTS: Final = 21

# The SIDs of the groups that an account is in, or None if the account does not exist or the lookup failed.
GroupsOf: TypeAlias = Callable[[Sid], frozenset[Sid] | None]


@dataclass(frozen=True, slots=True)
class Sender:
    """The token that stands for a sender: all SIDs that it goes by. Without one nothing is allowed to it.

    `may_be_any_account` says that it has an account whose SID is not among them. The SIDs that it only claims can deny
    and cannot allow.
    """

    sids: frozenset[Sid]
    may_be_any_account: bool = False
    claimed: frozenset[Sid] = frozenset()


UNNAMED: Final = Sender(frozenset({EVERYONE, ANONYMOUS}))
QUEUE_MANAGER: Final = Sender(frozenset({EVERYONE}))
# MS-MQQB 3.1.5.8.3 checks it as Everyone. Anybody can say so, and gets around nothing by it.
CLAIMED_QUEUE_MANAGER: Final = Sender(frozenset({EVERYONE}), claimed=frozenset({ANONYMOUS}))
AUTHENTICATED: Final = Sender(frozenset({EVERYONE, AUTHENTICATED_USERS, NETWORK}), may_be_any_account=True)
UNKNOWN: Final = Sender(frozenset())


def sender_of(header: SecurityHeader | None, groups_of: GroupsOf | None) -> Sender:
    """The sender that a message names. Without `groups_of` it is not verified, and everybody is anonymous."""
    sender_type = NO_SENDER if header is None else header.sender_type
    if header is None or sender_type == NO_SENDER:
        return UNNAMED
    if sender_type == SENDER_QUEUE_MANAGER:
        return CLAIMED_QUEUE_MANAGER if groups_of is None else QUEUE_MANAGER
    sid = sid_of(header.security_id) if sender_type == SENDER_SID else None
    if sid is None:
        return UNKNOWN
    if groups_of is None:
        return Sender(UNNAMED.sids, claimed=frozenset({sid}))
    groups = groups_of(sid)
    return UNKNOWN if groups is None else Sender(groups | {sid, EVERYONE})


def user_sender(sid: bytes) -> Sender:
    """The sender whose certificate is registered for this SID (packet form)."""
    found = sid_of(sid)
    return UNKNOWN if found is None else Sender(frozenset({found, EVERYONE, AUTHENTICATED_USERS}))


def caller_of(name: str | None) -> Sender:
    """The caller over RPC; None has not authenticated."""
    return UNNAMED if name is None else AUTHENTICATED


# Few senders write to queues with few descriptors, and each message asks.
@lru_cache(maxsize=256)
def may_write(descriptor: bytes, sender: Sender) -> bool:
    """Whether a sender has MQSEC_WRITE_MESSAGE on the queue with this security descriptor."""
    return allows(descriptor, sender, QueueAccess.MQSEC_WRITE_MESSAGE)


def allows(descriptor: bytes, sender: Sender, rights: QueueAccess | MachineAccess) -> bool:
    """Whether somebody has all of these rights on the queue, or on the computer, with this security descriptor."""
    is_queue = isinstance(rights, QueueAccess)
    every = QueueAccess.MQSEC_QUEUE_GENERIC_ALL if is_queue else MachineAccess.MQSEC_MACHINE_GENERIC_ALL
    decoded = _decoded(descriptor, int(every))
    if decoded is None or not sender.sids:
        return False
    if not isinstance(decoded.dacl, Acl):
        return True
    missing = int(rights) & ~_rights_of_owner(decoded, sender)
    if not missing:
        return True
    for ace in decoded.dacl.aces:
        mask = _mask(ace, sender) & missing
        if mask and ace.ace_type in _DENYING:
            return False
        if ace.ace_type in _ALLOWING:
            missing &= ~mask
        if not missing:
            return True
    return False


@lru_cache(maxsize=256)
def owner_of(descriptor: bytes) -> Sid | None:
    """The owner in a security descriptor. None if it has none, or is unreadable."""
    try:
        return SecurityDescriptor.decode(descriptor).owner
    except DecodeError:
        return None


# Queues have few descriptors among them, and to decode one takes longer than to look into it.
@lru_cache(maxsize=256)
def _decoded(descriptor: bytes, rights: int) -> SecurityDescriptor | None:
    try:
        decoded = SecurityDescriptor.decode(descriptor)
        check_rights(decoded, rights)
    except (DecodeError, IllegalSecurityDescriptor):
        return None
    return decoded


def _rights_of_owner(descriptor: SecurityDescriptor, sender: Sender) -> int:
    """MS-DTYP 2.5.3.2: the owner may read and change the rights, unless an ACE is for the owner."""
    owner = descriptor.owner
    if owner is None or owner not in sender.sids or owner in (ANONYMOUS, EVERYONE):
        return 0
    assert isinstance(descriptor.dacl, Acl)
    if any(not isinstance(ace, OpaqueAce) and ace.sid == OWNER_RIGHTS for ace in descriptor.dacl.aces):
        return 0
    return READ_CONTROL | WRITE_DAC


def is_idle(ace: Ace) -> bool:
    """Whether an ACE neither gives nor denies anybody rights to the queue itself.

    An ObjectAce for a part of an object gives nothing, because the whole is asked for, and denies what it denies.
    """
    if isinstance(ace, OpaqueAce) or ace.ace_flags & INHERIT_ONLY_ACE:
        return True
    if ace.ace_type in _DENYING:
        return False
    return ace.ace_type not in _ALLOWING or (isinstance(ace, ObjectAce) and ace.object_type is not None)


def _mask(ace: Ace, sender: Sender) -> int:
    """The rights to the queue itself that the ACE gives or denies the sender."""
    if isinstance(ace, OpaqueAce) or is_idle(ace):
        return 0
    may_be_meant = ace.sid in sender.claimed or (sender.may_be_any_account and _is_of_accounts(ace.sid))
    if ace.sid not in sender.sids and not (may_be_meant and ace.ace_type in _DENYING):
        return 0
    return ace.mask


def _is_of_accounts(sid: Sid) -> bool:
    return sid.identifier_authority == _NT_AUTHORITY and sid.sub_authority[:1] == (_ACCOUNTS,)


def sid_of(data: bytes) -> Sid | None:
    """The SID that the bytes (packet form) are, or None."""
    try:
        sid, end = Sid.decode(data, 0)
    except DecodeError:
        return None
    return sid if end == len(data) else None
