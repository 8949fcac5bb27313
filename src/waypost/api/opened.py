"""Handles, cursors and transactions that a client keeps between its requests."""

from msgspec import Struct

from waypost.api.forms import Guid, Time


class Handle(Struct):
    """An open queue or cursor. The daemon closes an open queue or cursor that is not used for `lease_s` seconds."""

    id: Guid
    lease_s: float


class TransactionObject(Struct):
    """An open transaction. The transaction aborts if it is not used before the time `expires` (in UTC)."""

    id: Guid
    expires: Time
