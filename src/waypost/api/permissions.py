"""The rights on a queue, as people and programs see them."""

from waypost.api.records import Record


class AclEntry(Record, frozen=True, kw_only=True):
    """Rights of somebody. `who` is the name of a user or group, or the SID of an unknown one.

    `allow` is false for rights that are denied: they come first and win. `rights` are words such as send, receive and
    full.
    """

    who: str
    sid: str
    allow: bool
    rights: list[str]


class Acl(Record, frozen=True, kw_only=True):
    """The rights on a queue. `owner` is the name of a user, or the SID of an unknown one. `sddl` has the same as SDDL.

    `sddl` is empty for a descriptor that SDDL cannot express.
    """

    owner: str
    sddl: str
    entries: list[AclEntry]
