"""Records about queues, besides the properties in waypost.api.properties."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from waypost.api.records import Record

# The queues to list; "" for those that applications have created.
Kind: TypeAlias = Literal["", "local", "outgoing", "system", "all"]


class ConnectionInfo(Record, frozen=True, kw_only=True):
    """A connection event of an outgoing queue (see MS-MQMQ 2.3.12.25).

    `status` is a word such as ready or connect_socket_failure. `error` is an HRESULT, written as 0x and eight
    hexadecimal digits, or zero.
    """

    status: str
    time: datetime
    error: str
    addresses: tuple[str, ...]


class MovedObject(Struct):
    """The result of a move. `moved` is the number of messages that the request moved. If all messages are moved, `next`
    is ""."""

    moved: int
    next: str
    up_to: str
