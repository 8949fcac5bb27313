"""What travels between a client and the daemon over HTTP, for both ends, but for waypost.api.operations.

The same structures are JSON or MessagePack, as Content-Type and Accept say. `bytes` are base64 text in JSON and binary
in MessagePack. A key that a request does not have is refused; answers may grow keys, which an older client ignores.

Paths (NAME is percent-encoded, any name that a person may type; `?outgoing=true` means the outgoing queue with this
format name, where messages are read, moved or removed; a query parameter that a path does not know is refused):

    GET    /api/status                           -> Status
    POST   /api/queues               NewQueue    -> QueueInfo, 201
    PATCH  /api/queues/NAME      QueueProperties -> QueueInfo
    POST   /api/queues/NAME/purge                -> 204
    POST   /api/queues/NAME/messages Send        -> Sent (answer "full") or SentIds (answer "ids")
    POST   /api/queues/NAME/receive  Read        -> Messages (form "full") or Packets (form "packet")
    POST   /api/queues/NAME/peek     Read        -> the same
    GET    /api/queues/NAME/browse?after=&limit=&form=   -> the same; `next` is the `after` of the next page, or none
    DELETE /api/queues/NAME/messages/LOOKUP_ID   -> 204
    POST   /api/queues/NAME/move     Move        -> 204
    POST   /api/queues/NAME/move-all MoveAll     -> MovedObject; to go on, ask again with its `next` and `up_to`
    POST   /api/queues/NAME/resend   Resend      -> Messages (form "full") or Packets (form "packet", one row a queue)
    POST   /api/handles              NewHandle   -> Handle;  DELETE /api/handles/ID -> 204
    POST   /api/cursors              NewCursor   -> Handle;  DELETE /api/cursors/ID -> 204
    POST   /api/cursors/ID/peek|next|receive CursorRead  -> Messages or Packets
    POST   /api/transactions         NewTransaction      -> TransactionObject
    POST   /api/transactions/ID/commit|abort     -> 204
    POST   /api/transactions/commit  Receipts    -> Outcomes: many at once, each by itself

The paths of the others are in the rows of waypost.api.operations.

Waits. A read waits for `timeout_s`, at most `Status.max_wait_s`, and answers 200 without messages when the time is
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

Handles. An exclusive open (`NewHandle`) is an id that reads name in `handle`; it is closed when nobody has used it for
`Handle.lease_s`, and so is a cursor. An id that is not open any more is InvalidHandle, 404.

Errors are 4xx or 5xx with an ErrorObject.
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from waypost.api.forms import Count, Guid, LookupIdOrNothing, LookupIdText, Seconds
from waypost.api.properties import CopyObject, MessageObject, MessageProperties, QueueProperties
from waypost.client.calls import Seek
from waypost.core.positions import END

MESSAGEPACK: Final = "application/x-msgpack"
JSON: Final = "application/json"

Answer = Literal["full", "ids"]
Form = Literal["full", "packet"]
# The full 64 bits: a decimal string in JSON answers; both are taken in requests.
LookupIdNumber = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": END - 1})]
LookupId = LookupIdNumber | LookupIdText


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


class Status(Struct, kw_only=True):
    """The queue manager. The daemon's own status has more keys."""

    name: str
    guid: str
    version: str
    max_wait_s: float
    max_batch: int


# --- Queues -----------------------------------------------------------------------------------------------------------


class NewQueue(QueueProperties, frozen=True, kw_only=True):
    name: str
    transactional: bool = False


# --- Sending ----------------------------------------------------------------------------------------------------------


class NewMessage(MessageProperties, frozen=True):
    """One of the three has the body; text is what `Queue.send` makes of a str."""

    body: bytes | UnsetType = UNSET
    body_base64: bytes | UnsetType = UNSET
    body_text: str | UnsetType = UNSET


class Send(Request):
    """Messages of their own, each sent by itself in order; or bodies that share the properties of `like`: all or none.

    The quick form, that of waypost.connect, is `like` and `bodies` in MessagePack with the answer "ids", for one
    message as for many; it always has `like.body_type`. Only one body can go to several queues (format names joined
    with commas).
    """

    messages: list[NewMessage] = []
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    transaction: Guid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    answer: Answer = "full"


class SentIds(Struct, omit_defaults=True, kw_only=True):
    """What a client does not know of messages that it has sent: the id of the first is {source}\\first_ordinal.

    The ordinals count up from there. A message that was sent to several queues has `copies`, and the lookup id 0.
    waypost.client.remote.packing.sent_ids makes it.
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


class Read(Request):
    """A receive or a peek, in the words of `Queue.receive`; `count` is for what is not looked up."""

    count: Count = 1
    timeout_s: Seconds = 0
    transaction: Guid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    lookup_id: LookupId | UnsetType = UNSET
    seek: Seek | UnsetType = UNSET
    handle: Guid | UnsetType = UNSET
    lease_s: Seconds | UnsetType = UNSET
    acknowledge: list[Guid] = []
    form: Form = "full"


class Sent(Struct):
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

    waypost.client.remote.packing.packet_row makes it.
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


class Move(Request):
    lookup_id: LookupId
    to: str
    transaction: Guid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET


class MoveAll(Request):
    """`after` and `up_to` are nothing at the beginning, and then what the last answer said."""

    to: str
    after: LookupIdNumber | LookupIdOrNothing = ""
    up_to: LookupIdNumber | LookupIdOrNothing = ""


class MovedObject(Struct):
    """How many messages were moved with this request. `next` is "" when all are."""

    moved: int
    next: str
    up_to: str


class Resend(Request):
    """Take a message and send it to the queue `to`, or to where it was sent to."""

    lookup_id: LookupId
    to: str | UnsetType = UNSET
    form: Form = "full"
