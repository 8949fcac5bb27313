"""Transactional sequences as the daemon and its clients write them: /api/sequences."""

from msgspec import Struct

from waypost.client.remote.forms import Address, Age, Guid, Place, Time
from waypost.client.remote.schema import Request


class SequenceObject(Struct, kw_only=True):
    """A sequence at one moment: the keys of SequenceInfo.to_dict."""

    direction: str
    queue: str
    source: Guid
    addresses: list[Address]
    time_stamp: Time
    ordinal: int
    number: int
    last_time: Time | None
    rejected: int
    unacknowledged: int
    reason: str = ""


class SequencesObject(Struct, kw_only=True):
    """Some sequences, and where to go on with `after`; "" at the end."""

    sequences: list[SequenceObject]
    next: str = ""


class ResetSequences(Request):
    """Which sequences to begin again: those that fit all that is given.

    The name of an outgoing queue means the sequence that is sent from here. `trial` says what would be done.
    """

    queue: str | None = None
    source: Guid | None = None
    address: Address | None = None
    older_than_s: Age | None = None
    after: Place = ""
    trial: bool = False


class SequenceResetObject(Struct, kw_only=True):
    """What was done, or would be: the keys of SequenceReset.to_dict, and where to go on with `after`."""

    sequences: int
    warning: str
    renumbered: int
    may_come_twice: int
    identifiers: list[str]
    next: str = ""
