"""What can be asked of a queue manager: one record an operation, its reply, and one row that says the rest.

Whatever carries operations reads these rows: the HTTP client builds a request from one, the server's route is bound
from the same one, and the queue manager's handlers are found by the type of the record.

To add an operation: its record with @operation here and its name in OPERATIONS, its handler in
waypost.node.operation_handlers, and a method in both facades of waypost.client; a verb in waypost.cli. Its route and
its place in /schema come from the row; waypost.http.operation_routes names those that do more. Operations of the bulk
interface are in waypost.api.bulk, those about the daemon itself in waypost.api.status. tests/api/test_operations.py
says what is left.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType, defstruct, field
from msgspec.structs import fields

from waypost.api.damaged import DamagedPage, Forgotten
from waypost.api.excerpt import excerpt
from waypost.api.explanation import Explanation
from waypost.api.forms import (
    ADDRESS_FORM,
    ADDRESS_OR_NOTHING_FORM,
    GUID_FORM,
    GUID_OR_NOTHING_FORM,
    LOOKUP_ID_FORM,
    LOOKUP_ID_OR_NOTHING_FORM,
    MESSAGE_ID_FORM,
    NEXT_FORM,
    Count,
    LeaseSeconds,
    LookupId,
    LookupIdNumber,
    LookupIdOrNothing,
    Seconds,
)
from waypost.api.forms import Guid as AnyGuid
from waypost.api.messages import Received, Sent
from waypost.api.opened import Handle, TransactionObject
from waypost.api.properties import MessageProperties, NewMessage, QueueInfo, QueueList, QueueProperties
from waypost.api.queues import Kind, MovedObject
from waypost.api.sequences import Admitted, AdmittedAddresses, Direction, SequencePage, SequenceReset
from waypost.errors import DecodeError, InvalidParameter
from waypost.wire.identifiers import MessageIdentifier

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
O = TypeVar("O", bound="Operation[object]")  # noqa: E741, an operation

# To purge, delete or renumber a queue takes as long as it has messages: minutes if they are millions.
LONG_SECONDS: Final = 3600.0

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
# Methods whose operations have no body: what is not in the path is in the query.
_WITHOUT_BODY: Final = frozenset({"GET", "DELETE"})


class Right(Enum):
    """What a caller has to be allowed to do."""

    READ = "read"
    SEND = "send"
    RECEIVE = "receive"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Row:
    """Facts of an operation beside its fields.

    `path_names`, `query_names` and `body_names` say where each field is in a request, and `body` is the structure of
    the last: the record itself if the body has all fields. `reads_only` operations change nothing. To do an
    `is_repeatable` one twice is as good as once. `status` is the HTTP status of success: 204 exactly if there is no
    reply. An answer may take `wait_s` seconds longer than others. An operation that `waits` waits for a message for its
    `timeout_s` and can be cancelled meanwhile.
    """

    name: str
    method: str
    path: str
    path_names: tuple[str, ...]
    query_names: tuple[str, ...]
    body_names: tuple[str, ...]
    body: type[Struct] | None
    reply: type[Any]
    asks: Right
    reads_only: bool
    is_repeatable: bool
    status: int
    wait_s: float
    waits: bool
    help: str

    @property
    def words(self) -> str:
        """Its name, for people."""
        return self.name.replace("_", " ")


class Operation(Struct, Generic[R_co], frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is asked for, with a reply of the type R_co. It is checked where it is done, before anything changes."""

    row: ClassVar[Row]


def checked(operation: Operation[R], reply: object) -> R:
    """The reply of an operation, which is of the type that the record names."""
    assert isinstance(reply, operation.row.reply), f"{operation.row.words} is answered with {type(reply).__name__}"
    found: R = reply
    return found


def operation(
    binding: str, *, asks: Right, status: int = 200, wait_s: float = 0.0, is_repeatable: bool = False
) -> Callable[[type[O]], type[O]]:
    """Give a record its row. `binding` is like "POST /api/queues/{name}/purge?outgoing".

    Fields that it names with ? are in the query of a request; the others are in the path, if it has them there, or in
    the query of a GET or DELETE, or else in the body.
    """
    method, _, target = binding.partition(" ")
    path, _, query = target.partition("?")

    def add_row(kind: type[O]) -> type[O]:
        names = [each.name for each in fields(kind)]
        in_path = tuple(_PATH_PARAMETER.findall(path))
        rest = [name for name in names if name not in in_path]
        in_query = tuple(rest) if method in _WITHOUT_BODY else tuple(query.split("&") if query else ())
        assert set(in_path) | set(in_query) <= set(names), f"{binding} names what {kind.__name__} does not have"
        in_body = tuple(name for name in rest if name not in in_query)
        reply = _reply(kind)
        assert (status == 204) is (reply is type(None)), f"the status of {kind.__name__} does not fit its reply"
        assert kind.__doc__
        kind.row = Row(
            name=_CAPITAL.sub("_", kind.__name__).lower(),
            method=method,
            path=path,
            path_names=in_path,
            query_names=in_query,
            body_names=in_body,
            body=_body(kind, in_body) if in_body else None,
            reply=reply,
            asks=asks,
            reads_only=method == "GET",
            is_repeatable=is_repeatable or method in ("GET", "PATCH"),
            status=status,
            wait_s=wait_s,
            waits=reply is Received and "timeout_s" in names,
            help=kind.__doc__.partition("\n")[0],
        )
        return kind

    return add_row


def _body(kind: type[Operation[object]], names: tuple[str, ...]) -> type[Struct]:
    if len(names) == len(kind.__struct_fields__):
        return kind
    given = []
    for each in fields(kind):
        if each.name in names:
            default = each.default if each.default is not NODEFAULT else field(default_factory=each.default_factory)
            given.append((each.name, each.type) if each.required else (each.name, each.type, default))
    return defstruct(
        f"{kind.__name__}Body",
        given,
        namespace={"__doc__": kind.__doc__},
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=True,
    )


def _reply(kind: type[Operation[object]]) -> type[object]:
    """The R of the Operation[R] that it is a subclass of."""
    bases: tuple[object, ...] = kind.__orig_bases__  # type: ignore[attr-defined]  # of a subclass of a generic class
    (reply,) = next(get_args(base) for base in bases if get_origin(base) is Operation)
    assert isinstance(reply, type)
    return reply


# In a path it is percent-encoded.
QueueName = Annotated[str, Meta(description="A queue: orders, orders;retry, DIRECT=..., any NAME.")]
# Where it is checked, the sentence says more than a decoder could.
Age = Annotated[float, Meta(description="Seconds, 0 or more.", extra_json_schema={"minimum": 0})]
Guid = Annotated[str, Meta(description="The GUID of a queue manager.", extra_json_schema=GUID_FORM)]
Address = Annotated[str, Meta(description="An IP address.", extra_json_schema=ADDRESS_FORM)]
After = Annotated[str, Meta(description="The `next` of the page before.", extra_json_schema=NEXT_FORM)]
Outgoing = Annotated[bool, Meta(description="Whether the outgoing queue with this format name is meant.")]
Identifier = Annotated[str, Meta(description="The id that opened it, or began it.", extra_json_schema=GUID_FORM)]
Seek: TypeAlias = Literal["first", "previous", "current", "next", "last"]
# Of the messages in an answer over HTTP.
Form: TypeAlias = Literal["full", "packet"]
Answer: TypeAlias = Literal["full", "ids"]


# --- Queues -----------------------------------------------------------------------------------------------------------


@operation("GET /api/queues", asks=Right.READ)
class ListQueues(Operation[QueueList], frozen=True, kw_only=True):
    """List the queues that applications have created; with `kind` others: outgoing, system or all.

    Of many queues each is shown as it is when its turn comes: one that is created or deleted meanwhile may be missing.
    """

    kind: Kind = ""
    pattern: Annotated[str, Meta(description="Compared with names of queues: * and ? are any characters.")] = ""


@operation("GET /api/queues/{name}", asks=Right.READ)
class ShowQueue(Operation[QueueInfo], frozen=True, kw_only=True):
    """Show a queue as it is at this moment."""

    name: QueueName


@operation("DELETE /api/queues/{name}", asks=Right.ADMIN, status=204, wait_s=LONG_SECONDS)
class DeleteQueue(Operation[None], frozen=True, kw_only=True):
    """Delete a queue with all that is in it."""

    name: QueueName


@operation("POST /api/queues/{name}/pause", asks=Right.ADMIN, status=204)
class PauseQueue(Operation[None], frozen=True, kw_only=True):
    """Let no message leave an outgoing queue."""

    name: QueueName


@operation("POST /api/queues/{name}/resume", asks=Right.ADMIN, status=204)
class ResumeQueue(Operation[None], frozen=True, kw_only=True):
    """Let messages leave an outgoing queue again."""

    name: QueueName


@operation("POST /api/queues", asks=Right.ADMIN, status=201)
class CreateQueue(QueueProperties, Operation[QueueInfo], frozen=True, kw_only=True):
    """Create a queue."""

    name: str
    transactional: bool = False


@operation("PATCH /api/queues/{name}", asks=Right.ADMIN)
class SetQueue(QueueProperties, Operation[QueueInfo], frozen=True, kw_only=True):
    """Change properties of a queue; the others stay."""

    name: QueueName


@operation("POST /api/queues/{name}/purge?outgoing", asks=Right.RECEIVE, status=204, wait_s=LONG_SECONDS)
class PurgeQueue(Operation[None], frozen=True, kw_only=True):
    """Remove all messages that are in the queue now."""

    name: QueueName
    outgoing: Outgoing = False


# --- Messages ---------------------------------------------------------------------------------------------------------


@operation("POST /api/queues/{name}/messages", asks=Right.SEND)
class Send(Operation[Sent], frozen=True, kw_only=True):
    """Send messages, and answer when they are safe: recoverable ones on disk, those of a transaction at its commit.

    Messages of their own, each sent by itself in order; or bodies that share the properties of `like`: all or none.
    The quick form, that of waypost.connect, is `like` and `bodies` in MessagePack with the answer "ids", for one
    message as for many; it always has `like.body_type`. Only one body can go to several queues (format names joined
    with commas).
    """

    name: QueueName
    messages: list[NewMessage] = []
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    answer: Answer = "full"


class Read(Operation[Received], frozen=True, kw_only=True):
    """Of a receive or a peek; `count` is for what is not looked up."""

    name: QueueName
    outgoing: Outgoing = False
    count: Count = 1
    timeout_s: Seconds = 0
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    lookup_id: LookupId | UnsetType = UNSET
    seek: Seek | UnsetType = UNSET
    handle: AnyGuid | UnsetType = UNSET
    lease_s: LeaseSeconds | UnsetType = UNSET
    acknowledge: list[AnyGuid] = []
    form: Form = "full"


@operation("POST /api/queues/{name}/receive?outgoing", asks=Right.RECEIVE)
class Receive(Read, frozen=True, kw_only=True):
    """Take messages out of the queue: those that are there, up to `count`, or the first that comes in time."""


@operation("POST /api/queues/{name}/peek?outgoing", asks=Right.READ, is_repeatable=True)
class Peek(Read, frozen=True, kw_only=True):
    """Look at messages and leave them there."""


@operation("GET /api/queues/{name}/browse", asks=Right.READ)
class Browse(Operation[Received], frozen=True, kw_only=True):
    """Look at all messages, page by page: `after` is what the page before calls `next`."""

    name: QueueName
    after: Annotated[str, Meta(extra_json_schema=LOOKUP_ID_OR_NOTHING_FORM)] = ""
    limit: Count = 100
    form: Form = "full"
    outgoing: Outgoing = False


@operation("DELETE /api/queues/{name}/messages/{number}", asks=Right.RECEIVE, status=204)
class DeleteMessage(Operation[None], frozen=True, kw_only=True):
    """Remove one message, as a receive does."""

    name: QueueName
    number: Annotated[
        str, Meta(description="The lookup_id of a message in the queue.", extra_json_schema=LOOKUP_ID_FORM)
    ]
    outgoing: Outgoing = False


@operation("POST /api/queues/{name}/move?outgoing", asks=Right.RECEIVE, status=204)
class MoveMessage(Operation[None], frozen=True, kw_only=True):
    """Move a message between a queue and its subqueues."""

    name: QueueName
    lookup_id: LookupId
    to: str
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    outgoing: Outgoing = False


@operation("POST /api/queues/{name}/move-all?outgoing", asks=Right.RECEIVE)
class MoveAll(Operation[MovedObject], frozen=True, kw_only=True):
    """Move the messages of a queue to one of its subqueues, or back, some thousand with one request.

    To go on, ask again with `after` and `up_to` as the answer has them in `next` and `up_to`, until `next` is empty.
    Messages that come meanwhile stay, and so do those that a reader holds. Each message is in one of the two queues,
    whenever this ends.
    """

    name: QueueName
    to: str
    after: LookupIdNumber | LookupIdOrNothing = ""
    up_to: LookupIdNumber | LookupIdOrNothing = ""
    outgoing: Outgoing = False


@operation("POST /api/queues/{name}/resend?outgoing", asks=Right.RECEIVE)
class Resend(Operation[Sent], frozen=True, kw_only=True):
    """Take a message and send it once more, to another queue or to where it was sent to: both are done or neither."""

    name: QueueName
    lookup_id: LookupId
    to: str | UnsetType = UNSET
    form: Form = "full"
    outgoing: Outgoing = False


# --- What is open between two requests --------------------------------------------------------------------------------


@operation("POST /api/handles", asks=Right.RECEIVE, status=201)
class OpenQueue(Operation[Handle], frozen=True, kw_only=True):
    """Open a queue for this client alone, so that nobody else receives from it."""

    queue: str
    exclusive: Annotated[bool, Meta(extra_json_schema={"const": True})] = True


@operation("DELETE /api/handles/{identifier}", asks=Right.RECEIVE, status=204)
class CloseQueue(Operation[None], frozen=True, kw_only=True):
    """Close it: what waits on it ends."""

    identifier: Identifier


@operation("POST /api/cursors", asks=Right.RECEIVE, status=201)
class OpenCursor(Operation[Handle], frozen=True, kw_only=True):
    """A place in a queue, before its first message.

    `handle` is that of an exclusive open of the same queue, whose cursor it shall be.
    """

    queue: str
    outgoing: bool = False
    handle: AnyGuid | UnsetType = UNSET


@operation("DELETE /api/cursors/{identifier}", asks=Right.RECEIVE, status=204)
class CloseCursor(Operation[None], frozen=True, kw_only=True):
    """Forget the place."""

    identifier: Identifier


class CursorRead(Operation[Received], frozen=True, kw_only=True):
    """Of a read at a cursor."""

    identifier: Identifier
    timeout_s: Seconds = 0
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    form: Form = "full"


@operation("POST /api/cursors/{identifier}/peek", asks=Right.READ, is_repeatable=True)
class CursorPeek(CursorRead, frozen=True, kw_only=True):
    """Look at the message where the cursor is."""


@operation("POST /api/cursors/{identifier}/next", asks=Right.READ)
class CursorNext(CursorRead, frozen=True, kw_only=True):
    """Go on to the next message, and look at it."""


@operation("POST /api/cursors/{identifier}/receive", asks=Right.RECEIVE)
class CursorReceive(CursorRead, frozen=True, kw_only=True):
    """Receive the message where the cursor is."""


@operation("POST /api/transactions", asks=Right.SEND, status=201)
class BeginTransaction(Operation[TransactionObject], frozen=True, kw_only=True):
    """Begin a transaction, which is aborted when it was not used for `timeout_s`.

    `id` is a GUID, made up by the server if not given.
    """

    id: AnyGuid | UnsetType = UNSET
    timeout_s: Seconds | UnsetType = UNSET


@operation("POST /api/transactions/{identifier}/commit", asks=Right.SEND, status=204, is_repeatable=True)
class CommitTransaction(Operation[None], frozen=True, kw_only=True):
    """Commit, and answer when all is on disk. One that is committed already stays so."""

    identifier: Identifier


@operation("POST /api/transactions/{identifier}/abort", asks=Right.SEND, status=204)
class AbortTransaction(Operation[None], frozen=True, kw_only=True):
    """Undo all that was done in it."""

    identifier: Identifier


# --- Transactional sequences ------------------------------------------------------------------------------------------


@operation("GET /api/sequences", asks=Right.READ)
class ListSequences(Operation[SequencePage], frozen=True, kw_only=True):
    """List transactional sequences, a thousand at most with each request.

    `direction` is `in` for what comes from others, `out` for what is sent from here, `refused` for what is not taken.
    `queue`, `source` (a GUID) and `address` leave the others out. `after` goes on where `next` of a page says.
    """

    direction: Direction = "in"
    queue: str = ""
    source: Annotated[str, Meta(extra_json_schema=GUID_OR_NOTHING_FORM)] = ""
    address: Annotated[str, Meta(extra_json_schema=ADDRESS_OR_NOTHING_FORM)] = ""
    after: After = ""


@operation("POST /api/sequences/reset", asks=Right.ADMIN, wait_s=LONG_SECONDS)
class ResetSequences(Operation[SequenceReset], frozen=True, kw_only=True):
    """Begin transactional sequences again, which may let messages come twice: `warning` says which.

    They are those that fit all that is given. The name of an outgoing queue means the sequence that is sent from here;
    it is answered when all waiting messages have their new numbers, and a second reset meanwhile is refused.
    `trial` changes nothing, and says what would be done. A request looks at ten thousand sequences at most; `after`
    goes on where its `next` says.
    """

    queue: str | None = None
    source: Guid | None = None
    address: Address | None = None
    older_than_s: Age | None = None
    after: After = ""
    trial: bool = False


@operation("POST /api/sequences/admit", asks=Right.ADMIN)
class AdmitAddress(Operation[Admitted], frozen=True, kw_only=True):
    """Believe what a queue manager acknowledges from this address, now and from now on (ADR 22)."""

    guid: Guid
    address: Address


@operation("POST /api/sequences/revoke", asks=Right.ADMIN, status=204)
class RevokeAddress(Operation[None], frozen=True, kw_only=True):
    """Take back that an address was admitted. What was applied stays applied."""

    guid: Guid
    address: Address


@operation("GET /api/sequences/admitted", asks=Right.READ)
class ListAdmitted(Operation[AdmittedAddresses], frozen=True, kw_only=True):
    """List the addresses that operators have admitted, with their queue managers."""


# --- What is wrong ----------------------------------------------------------------------------------------------------


@operation("GET /api/explain", asks=Right.READ)
class Explain(Operation[Explanation], frozen=True, kw_only=True):
    """Say why a message, or the messages of a queue, are where they are. Only one of `message` and `queue` is given."""

    message: Annotated[str, Meta(description="The id of a message.", extra_json_schema=MESSAGE_ID_FORM)] = ""
    queue: Annotated[str, Meta(description="Any name of a queue.")] = ""

    @classmethod
    def of(cls, subject: object) -> "Explain":
        """Of a message by its id, or a queue by its name. Raises InvalidParameter for what is neither."""
        if not isinstance(subject, str):
            raise InvalidParameter(f"what to explain is the id of a message or a queue, not {excerpt(subject)}")
        try:
            MessageIdentifier.parse(subject)
        except DecodeError:
            return cls(queue=subject)
        return cls(message=subject)


@operation("GET /api/store/damaged", asks=Right.READ)
class ListDamaged(Operation[DamagedPage], frozen=True, kw_only=True):
    """List messages that were damaged on disk and set aside, a thousand at most with each request.

    `with_bytes` adds what was found in their place. `after` goes on where `next` of a page says.
    """

    after: After = ""
    with_bytes: bool = False


@operation("DELETE /api/store/damaged", asks=Right.ADMIN)
class ForgetDamaged(Operation[Forgotten], frozen=True, kw_only=True):
    """Let go what is kept of messages that were damaged on disk."""


OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    ListQueues,
    ShowQueue,
    DeleteQueue,
    PauseQueue,
    ResumeQueue,
    CreateQueue,
    SetQueue,
    PurgeQueue,
    Send,
    Receive,
    Peek,
    Browse,
    DeleteMessage,
    MoveMessage,
    MoveAll,
    Resend,
    OpenQueue,
    CloseQueue,
    OpenCursor,
    CloseCursor,
    CursorPeek,
    CursorNext,
    CursorReceive,
    BeginTransaction,
    CommitTransaction,
    AbortTransaction,
    ListSequences,
    ResetSequences,
    AdmitAddress,
    RevokeAddress,
    ListAdmitted,
    Explain,
    ListDamaged,
    ForgetDamaged,
)
