"""Answers that name a handle or a cursor, which a client keeps between its requests."""

from msgspec import Struct

from waypost.api.forms import Guid, Time


class Handle(Struct):
    """Of a queue or a cursor. Over HTTP it is closed when it was not used for `lease_s` seconds."""

    id: Guid
    lease_s: float


class TransactionObject(Struct):
    """`expires` is when it will be aborted, in UTC, unless it is used before."""

    id: Guid
    expires: Time
