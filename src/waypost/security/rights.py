"""The rights that the ACEs of an object's security descriptor may hold: MS-MQMQ 2.2.23 to 2.2.27."""

from waypost.errors import IllegalSecurityDescriptor
from waypost.wire.security_descriptor import Acl, OpaqueAce, SecurityDescriptor


def check_rights(descriptor: SecurityDescriptor | None, rights: int) -> None:
    """Raises IllegalSecurityDescriptor if an ACE has a right that is not among `rights`, or none that can be read."""
    if descriptor is None:
        return
    for acl in (descriptor.dacl, descriptor.sacl):
        for ace in acl.aces if isinstance(acl, Acl) else ():
            if isinstance(ace, OpaqueAce):
                raise IllegalSecurityDescriptor(f"the rights of an ACE of type {ace.ace_type} are unknown")
            # The complement of an IntFlag has only the bits that it names.
            foreign = ace.mask & ~int(rights)
            if foreign:
                raise IllegalSecurityDescriptor(f"0x{foreign:08X} is not a right on an object of this type")
