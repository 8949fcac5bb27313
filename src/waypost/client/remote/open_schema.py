"""What travels over HTTP of what a client has open between its requests: handles, cursors and transactions.

waypost.client.remote.schema has the paths, and says what becomes of them.
"""

from msgspec import UNSET, Struct, UnsetType

from waypost.client.remote.schema import Form, Request, Seconds


class NewHandle(Request):
    """An exclusive open, for its first receive on; SharingViolation if others are there."""

    queue: str
    exclusive: bool = True


class NewCursor(Request):
    """`handle` is that of an exclusive open of the same queue, whose cursor it shall be."""

    queue: str
    outgoing: bool = False
    handle: str | UnsetType = UNSET


class Handle(Struct):
    """Closed when it was not used for `lease_s` seconds."""

    id: str
    lease_s: float


class CursorRead(Request):
    timeout_s: Seconds = 0
    transaction: str | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    form: Form = "full"


class NewTransaction(Request):
    """`id` is a GUID, made up by the server if not given."""

    id: str | UnsetType = UNSET
    timeout_s: Seconds | UnsetType = UNSET


class TransactionObject(Struct):
    """`expires` is when it will be aborted, in UTC, unless it is used before."""

    id: str
    expires: str


class Receipts(Request):
    ids: list[str]


class Outcomes(Struct):
    """`refused` are those that were over: nobody can tell here how they ended."""

    committed: list[str]
    refused: list[str] = []
