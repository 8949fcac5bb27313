"""MS-MQDMPR 3.1.7.1.3.1: the security descriptor that a new queue gets.

The caller's descriptor wins: its DACL or SACL is kept with its control bits, and the default DACL is only for a queue
without one. readings MQDMPR 3.AA: the owner, which the text computes and then forgets, is part of the
result. A group is not. No queue gets an ACE with other rights than those of a queue.

Whether a SID is that of a domain user is for the directory to say. Without one nobody is, so a default DACL is open to
everyone. The owner stays the creator all the same if it is an account (readings MQDMPR 7.1). Where users are known, a
closed default DACL is the rule: all rights for the creator and administrators, and everyone may send.

The descriptor of the computer has no default in the text. Waypost's is closed for dead-letter messages and journals.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from waypost.errors import DecodeError, IllegalSecurityDescriptor
from waypost.security.rights import check_rights
from waypost.wire.access_masks import MachineAccess, QueueAccess, SecurityInformation
from waypost.wire.path_names import PathName
from waypost.wire.security_descriptor import ACCESS_ALLOWED_ACE_TYPE, AccessAce, Acl, SecurityDescriptor
from waypost.wire.sid import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

LOOK: Final = QueueAccess.MQSEC_GET_QUEUE_PROPERTIES | QueueAccess.MQSEC_GET_QUEUE_PERMISSIONS

# MS-SAMR 2.2.1.14.
DOMAIN_USER_RID_GUEST: Final = 0x1F5


def _never(_sid: Sid) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class QueueCreation:
    """The facts about a queue to create. `supplied` is Queue.Security as the caller gave it, empty for none."""

    caller: Sid
    is_domain_user: Callable[[Sid], bool]
    supplied: bytes = b""
    machine_sid: Sid | None = None
    receives_srmp: bool = False
    # Whether an owner that is not a domain user stays the owner.
    keeps_owner: Callable[[Sid], bool] = _never
    is_closed: bool = False


def machine_sid(pathname: PathName, object_sid: Callable[[str], Sid | None] | None) -> Sid | None:
    """The SID of the computer that a queue is on.

    `object_sid` looks up the objectSid of a computer in the directory, and has None if that fails. Workgroup
    mode has no directory to ask.
    """
    return None if object_sid is None else object_sid(pathname.computer)


def create_default_queue_security_descriptor(creation: QueueCreation) -> bytes:
    """MS-MQDMPR 3.1.7.1.3.1, self-relative. Raises IllegalSecurityDescriptor if a queue cannot have `supplied`."""
    supplied = _supplied(creation.supplied)
    owner = supplied.owner or creation.caller
    is_domain_user = creation.is_domain_user(owner)
    if not is_domain_user and not creation.keeps_owner(owner):
        owner = ANONYMOUS
    lists = SecurityInformation.DACL_SECURITY_INFORMATION | SecurityInformation.SACL_SECURITY_INFORMATION
    final = replace(supplied.select(lists), owner=owner)
    if final.dacl is None:
        dacl = (
            _closed_dacl(owner)
            if creation.is_closed
            else _default_dacl(creation, owner if is_domain_user else ANONYMOUS)
        )
        final = replace(final, dacl=dacl)
    return final.encode()


def _supplied(data: bytes) -> SecurityDescriptor:
    if not data:
        return SecurityDescriptor()
    try:
        supplied = SecurityDescriptor.decode(data)
    except DecodeError as error:
        raise IllegalSecurityDescriptor(str(error)) from error
    check_rights(supplied, QueueAccess.MQSEC_QUEUE_GENERIC_ALL)
    return supplied


def _default_dacl(creation: QueueCreation, owner: Sid) -> Acl:
    is_nobody = owner == ANONYMOUS or _is_guest(owner)
    world = QueueAccess.MQSEC_QUEUE_GENERIC_ALL if is_nobody else LOOK
    if creation.receives_srmp:
        world |= QueueAccess.MQSEC_WRITE_MESSAGE
    aces = [_allow(EVERYONE, world)]
    if creation.receives_srmp:
        aces.append(_allow(ANONYMOUS, QueueAccess.MQSEC_WRITE_MESSAGE))
    if creation.machine_sid is not None:
        aces.append(_allow(creation.machine_sid, LOOK))
    if not is_nobody:
        aces.append(_allow(owner, QueueAccess.MQSEC_QUEUE_GENERIC_ALL))
    return Acl(aces=tuple(aces))


def _closed_dacl(owner: Sid) -> Acl:
    """The creator and administrators have all rights, and everyone may send."""
    full = QueueAccess.MQSEC_QUEUE_GENERIC_ALL
    aces = [_allow(ADMINISTRATORS, full), _allow(EVERYONE, QueueAccess.MQSEC_WRITE_MESSAGE)]
    if owner not in (ANONYMOUS, EVERYONE, ADMINISTRATORS):
        aces.insert(0, _allow(owner, full))
    return Acl(aces=tuple(aces))


@lru_cache(maxsize=2)
def default_queue_descriptor(*, is_closed: bool) -> bytes:
    """The descriptor of a queue that has lost its own, and whose creator is unknown."""
    everyone = Acl(aces=(_allow(EVERYONE, QueueAccess.MQSEC_QUEUE_GENERIC_ALL),))
    return SecurityDescriptor(dacl=_closed_dacl(ANONYMOUS) if is_closed else everyone).encode()


def default_machine_descriptor() -> bytes:
    """The descriptor of a computer that has no other: users may create queues, and administrators read all messages."""
    everyone, users = MachineAccess.MQSEC_MACHINE_WORLD_RIGHTS, MachineAccess.MQSEC_MACHINE_GENERIC_WRITE
    aces = (
        _allow(ADMINISTRATORS, MachineAccess.MQSEC_MACHINE_GENERIC_ALL),
        _allow(AUTHENTICATED_USERS, users),
        _allow(EVERYONE, everyone),
    )
    return SecurityDescriptor(owner=ADMINISTRATORS, dacl=Acl(aces=aces)).encode()


def _allow(sid: Sid, access: QueueAccess | MachineAccess) -> AccessAce:
    return AccessAce(ACCESS_ALLOWED_ACE_TYPE, 0, int(access), sid)


def _is_guest(sid: Sid) -> bool:
    """The accounts of a domain are S-1-5-21, its three numbers, and their own."""
    match sid:
        case Sid(5, (21, _, _, _, relative_identifier)):
            return relative_identifier == DOMAIN_USER_RID_GUEST
    return False
