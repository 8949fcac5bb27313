"""The rights on a queue, as people and programs see them."""

from waypost.api.records import Record


class AclEntry(Record, frozen=True, kw_only=True):
    """The rights of one user or group. `who` is the name of the user or group, or the SID if the name is unknown.

    `allow` is false if the entry denies the rights. Entries that deny rights come first in the list, and take
    precedence. `rights` are words such as send, receive and full.
    """

    who: str
    sid: str
    allow: bool
    rights: list[str]


class Acl(Record, frozen=True, kw_only=True):
    """The rights on a queue. `owner` is the name of the owner, or the SID if the name is unknown.

    `sddl` contains the owner and the rights in SDDL form. `sddl` is empty if SDDL cannot express the security
    descriptor.
    """

    owner: str
    sddl: str
    entries: list[AclEntry]
