"""What travels over HTTP of what a client has open between its requests: handles, cursors and transactions.

waypost.client.remote.schema has the paths, and says what becomes of them.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from waypost.api.forms import Guid, Seconds, Time
from waypost.client.remote.schema import Form, Request
from waypost.limits import MAX_HTTP_BATCH


class NewHandle(Request):
    """An exclusive open, for its first receive on; SharingViolation if others are there."""

    queue: str
    exclusive: Annotated[bool, Meta(extra_json_schema={"const": True})] = True


class NewCursor(Request):
    """`handle` is that of an exclusive open of the same queue, whose cursor it shall be."""

    queue: str
    outgoing: bool = False
    handle: Guid | UnsetType = UNSET


class Handle(Struct):
    """Closed when it was not used for `lease_s` seconds."""

    id: Guid
    lease_s: float


class CursorRead(Request):
    timeout_s: Seconds = 0
    transaction: Guid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    form: Form = "full"


class NewTransaction(Request):
    """`id` is a GUID, made up by the server if not given."""

    id: Guid | UnsetType = UNSET
    timeout_s: Seconds | UnsetType = UNSET


class TransactionObject(Struct):
    """`expires` is when it will be aborted, in UTC, unless it is used before."""

    id: Guid
    expires: Time


class Receipts(Request):
    ids: Annotated[list[Guid], Meta(extra_json_schema={"maxItems": MAX_HTTP_BATCH})]


class Outcomes(Struct):
    """`refused` are those that were over: nobody can tell here how they ended."""

    committed: list[Guid]
    refused: list[Guid] = []
