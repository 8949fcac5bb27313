"""Records about queues that are not those of their properties, which are in waypost.api.properties."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from waypost.api.records import Record

# Which queues to list; "" for those that applications have created.
Kind: TypeAlias = Literal["", "local", "outgoing", "system", "all"]


class ConnectionInfo(Record, frozen=True, kw_only=True):
    """Something that happened to the connection of an outgoing queue: MS-MQMQ 2.3.12.25.

    `status` is such as ready or connect_socket_failure. `error` is an HRESULT as 0x and eight digits, zero for none.
    """

    status: str
    time: datetime
    error: str
    addresses: tuple[str, ...]


class MovedObject(Struct):
    """The number of messages that this request moved. `next` is "" when all are moved."""

    moved: int
    next: str
    up_to: str
