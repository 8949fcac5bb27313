"""What travels between a client and the daemon over HTTP, for both ends, but for waypost.api.operations.

The same structures are JSON or MessagePack, as Content-Type and Accept say. `bytes` are base64 text in JSON and binary
in MessagePack. A key that a request does not have is refused; answers may grow keys, which an older client ignores.

Paths (NAME is percent-encoded, any name that a person may type; `?outgoing=true` means the outgoing queue with this
format name, where messages are read, moved or removed; a query parameter that a path does not know is refused):

    POST   /api/transactions/commit  Receipts    -> Outcomes: many at once, each by itself

The paths of the others are in the rows of waypost.api.operations. A Send is answered with SentMessages (answer "full")
or SentIds (answer "ids"); what reads, with Messages (form "full") or Packets (form "packet").

Waits. A read waits for `timeout_s`, at most `StatusInfo.max_wait_s`, and answers 200 without messages when the time is
over; the client asks again. A read whose connection closes while it waits is cancelled and takes nothing: the server
waits with a peek, looks whether the client is still there, and only then takes the message without waiting.

Loss. A plain receive is one round trip, and the message is gone when the server answers. If the connection breaks in
the very moment between, the message is lost, as it is in an embedded queue manager whose process ends then: who cannot
afford that receives in a transaction, or with a lease. A receive with `lease_s` is a receive in a transaction of its
own that the server begins and whose time limit is the lease; `receipt` in the answer is its id. To acknowledge is to
commit it: POST /api/transactions/commit for many, or in `acknowledge` of the next read, which commits them first and
names in `refused` those that were over already. A lease that ends gives the messages back with `abort_count` raised.

Retries. A client repeats a request on another connection only if it is a GET, a peek, a PATCH or a commit, or if it
could not be handed to the kernel whole, so that the server cannot have read its end. Otherwise nobody knows whether it
was done, and the caller hears so (ConnectionLost). The server remembers no requests but how transactions have ended, so
that a commit can be asked for again.

Transactions. Their ids are GUIDs that the client may choose. Whatever takes a `transaction` takes `begin_s` with it: if
there is no transaction with this id, begin it with this time limit, so that to begin one costs no round trip. One that
nobody uses for that long is aborted; to use it afterwards is TransactionSequence.

Handles. An exclusive open (`OpenQueue`) is an id that reads name in `handle`; it is closed when nobody has used it for
`Handle.lease_s`, and so is a cursor. An id that is not open any more is InvalidHandle, 404.

Errors are 4xx or 5xx with an ErrorObject.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from waypost.api.forms import Guid
from waypost.api.properties import CopyObject, MessageObject
from waypost.limits import MAX_HTTP_BATCH

MESSAGEPACK: Final = "application/x-msgpack"
JSON: Final = "application/json"


class Request(Struct, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What a client says."""


class ErrorObject(Struct, omit_defaults=True, kw_only=True):
    """A WaypostError: the name of its class, its HRESULT as 0x and eight digits, and its sentence.

    `arguments` are those of a DecodeError or EncodeError, which have more than a sentence.
    """

    error: str
    hresult: str
    message: str
    hint: str = ""
    arguments: list[str | int] = []


class Greeting(Struct, kw_only=True):
    """The part of the status of a daemon, of whatever version, that a client needs before it asks for anything."""

    name: str
    guid: str
    max_wait_s: float


# --- Sending ----------------------------------------------------------------------------------------------------------


class SentIds(Struct, omit_defaults=True, kw_only=True):
    """What a client does not know of messages that it has sent: the id of the first is {source}\\first_ordinal.

    The ordinals count up from there. A message that was sent to several queues has `copies`, and the lookup id 0.
    waypost.client.transports.http.packing.sent_ids makes it.
    """

    source: str
    sent_time: int
    arrival_time: int
    # The longest of the queue manager, if the sender asked for more.
    time_to_reach_queue: int
    first_ordinal: int
    lookup_ids: list[int]
    copies: list[CopyObject] = []


# --- Reading ----------------------------------------------------------------------------------------------------------


class SentMessages(Struct):
    messages: list[MessageObject]


class Messages(Struct, omit_defaults=True, kw_only=True):
    messages: list[MessageObject]
    # Of a page of `browse`; none on the last.
    next: str = ""
    # Of a receive with a lease, if there are messages.
    receipt: str = ""
    refused: list[str] = []


class PacketRow(Struct, array_like=True, frozen=True):
    """A message as the packet that MSMQ would transfer, and what the queue manager knows of it beside.

    waypost.client.transports.http.packing.packet_row makes it.
    """

    lookup_id: int
    arrival_time: int
    abort_count: int
    move_count: int
    packet: bytes


class Packets(Struct, omit_defaults=True, kw_only=True):
    """Messages that the reader decodes, if it looks at them. MessagePack only."""

    rows: list[PacketRow]
    next: str = ""
    receipt: str = ""
    refused: list[str] = []


# --- Transactions -----------------------------------------------------------------------------------------------------


class Receipts(Request):
    ids: Annotated[list[Guid], Meta(extra_json_schema={"maxItems": MAX_HTTP_BATCH})]


class Outcomes(Struct):
    """`refused` are those that were over: nobody can tell here how they ended."""

    committed: list[Guid]
    refused: list[Guid] = []
