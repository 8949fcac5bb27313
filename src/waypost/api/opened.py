"""Handles, cursors and transactions that a client keeps between its requests."""

from msgspec import Struct

from waypost.api.forms import Guid, Time


class Handle(Struct):
    """An open queue or cursor. Over HTTP, an open queue or cursor closes after `lease_s` seconds without use."""

    id: Guid
    lease_s: float


class TransactionObject(Struct):
    """An open transaction, which aborts if it is not used before the time `expires` (in UTC)."""

    id: Guid
    expires: Time
