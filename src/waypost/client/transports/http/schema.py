"""Structures that a client and the daemon exchange over HTTP, besides waypost.api.operations.

The same structures are JSON or MessagePack, as Content-Type and Accept say. `bytes` are base64 text in JSON and binary
in MessagePack. The daemon refuses requests with unknown keys; answers may get new keys, which an older client ignores.

Paths (NAME is any name of a queue, percent-encoded; `?outgoing=true` means the outgoing queue with this format name, to
read, move or remove messages; the daemon refuses a query parameter that the path does not have):

    POST   /api/transactions/commit  Receipts    -> Outcomes: many at once, each on its own

The other paths are in the rows of waypost.api.operations. The answer to a Send is SentMessages (answer "full") or
SentIds (answer "ids"); to a read it is Messages (form "full") or Packets (form "packet").

Waits. A read waits for `timeout_s`, at most `StatusInfo.max_wait_s`, and answers 200 without messages when the time is
over; the client asks again. If the connection closes during the wait, the read is cancelled and takes nothing: the
server waits with a peek, checks that the client is still there, and only then takes the message without waiting.

Loss. A plain receive is one round trip, and the message is gone when the server answers. If the connection breaks
before the answer arrives, the message is lost, as in an embedded queue manager when its process ends then. To prevent
that, receive in a transaction or with a lease. A receive with `lease_s` is a receive in a separate transaction that the
server begins, with the lease as its time limit; `receipt` in the answer is its id. An acknowledgment commits it: with
POST /api/transactions/commit for many, or with `acknowledge` of the next read, which commits them first and names in
`refused` those that were over already. A lease that ends gives the messages back with `abort_count` raised.

Retries. A client repeats a request on another connection only if it is a GET, a peek, a PATCH or a commit, or if the
kernel did not take all of it, so that the server has not read its end. Otherwise the outcome is unknown, and the caller
gets ConnectionLost. The server remembers no requests, but it remembers the outcomes of transactions, so that a client
can repeat a commit.

Transactions. Their ids are GUIDs that the client may choose. Every operation with a `transaction` has `begin_s` too: it
begins the transaction with this time limit if the id is unknown, so that beginning one costs no round trip. A
transaction that is idle for that long is aborted; a later use raises TransactionSequence.

Handles. An exclusive open (`OpenQueue`) is an id that reads name in `handle`; the server closes it after
`Handle.lease_s` without use, and so it does with a cursor. A closed id raises InvalidHandle, 404.

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
    """Base of the requests of a client."""


class ErrorObject(Struct, omit_defaults=True, kw_only=True):
    """A WaypostError. `error` is the class name, `hresult` is 0x and eight digits, and `message` is the text of the
    error.

    `arguments` are the arguments of a DecodeError or EncodeError.
    """

    error: str
    hresult: str
    message: str
    hint: str = ""
    arguments: list[str | int] = []


class Greeting(Struct, kw_only=True):
    """The part of the status of a daemon, of any version, that a client needs before its first operation."""

    name: str
    guid: str
    max_wait_s: float


# --- Sending ----------------------------------------------------------------------------------------------------------


class SentIds(Struct, omit_defaults=True, kw_only=True):
    """The ids of sent messages, in short form. The id of the first message is {source}\\first_ordinal.

    The other messages have the next ordinals. For a message that was sent to several queues, `copies` lists the copies,
    and the lookup id of the message is 0. The function waypost.client.transports.http.packing.sent_ids creates this
    object.
    """

    source: str
    sent_time: int
    arrival_time: int
    # The longest time of the queue manager, if the sender requested a longer one.
    time_to_reach_queue: int
    first_ordinal: int
    lookup_ids: list[int]
    copies: list[CopyObject] = []


# --- Reading ----------------------------------------------------------------------------------------------------------


class SentMessages(Struct):
    messages: list[MessageObject]


class Messages(Struct, omit_defaults=True, kw_only=True):
    messages: list[MessageObject]
    # In a page of `browse`, except the last.
    next: str = ""
    # In the answer to a receive with a lease, with messages.
    receipt: str = ""
    refused: list[str] = []


class PacketRow(Struct, array_like=True, frozen=True):
    """A message as an MSMQ packet, with additional information from the queue manager.

    The function waypost.client.transports.http.packing.packet_row creates this object.
    """

    lookup_id: int
    arrival_time: int
    abort_count: int
    move_count: int
    packet: bytes
    authentication_level: int = 0


class Packets(Struct, omit_defaults=True, kw_only=True):
    """Messages as packets. The client decodes a packet when a program uses the message. For MessagePack only."""

    rows: list[PacketRow]
    next: str = ""
    receipt: str = ""
    refused: list[str] = []


# --- Transactions -----------------------------------------------------------------------------------------------------


class Receipts(Request):
    ids: Annotated[list[Guid], Meta(extra_json_schema={"maxItems": MAX_HTTP_BATCH})]


class Outcomes(Struct):
    """The outcomes of several commits. `refused` lists the transactions that are neither open nor known to be
    committed."""

    committed: list[Guid]
    refused: list[Guid] = []
