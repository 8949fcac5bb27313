"""Handles, cursors and transactions that a client keeps between its requests."""

from msgspec import Struct

from waypost.api.forms import Guid, Time


class Handle(Struct):
    """An open queue or cursor. Over HTTP, it closes if it is unused for `lease_s` seconds."""

    id: Guid
    lease_s: float


class TransactionObject(Struct):
    """An open transaction. It aborts at the time `expires`, in UTC, if it is not used before."""

    id: Guid
    expires: Time
