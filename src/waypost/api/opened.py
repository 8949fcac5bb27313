"""Answers that name a handle or a cursor, which a client keeps between its requests."""

from msgspec import Struct

from waypost.api.forms import Guid, Time


class Handle(Struct):
    """A handle of a queue or a cursor. Over HTTP it is closed if it is not used for `lease_s` seconds."""

    id: Guid
    lease_s: float


class TransactionObject(Struct):
    """`expires` is the time in UTC at which it is aborted, unless it is used before."""

    id: Guid
    expires: Time
