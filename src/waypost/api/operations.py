"""Operations of a queue manager: one record each, with its reply, and a row with its other facts.

Every carrier of operations reads these rows: the HTTP client builds a request from a row, the route of the server is
bound from the same one, and the type of the record finds the handler of the queue manager.

To add an operation: its record with @operation here and its name in OPERATIONS, its handler in
waypost.node.operation_handlers, and a method in both facades of waypost.client; a verb in waypost.cli. Its route and
its place in /schema come from the row; waypost.http.operation_routes names those that do more. Operations of the bulk
interface are in waypost.api.bulk, those about the daemon itself in waypost.api.status. tests/api/test_operations.py
reports missing steps.
"""

import re
from collections.abc import Callable
from typing import Annotated, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin

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
from waypost.api.operation_rows import NOTED, Asks, Owned, QueueRight, Row
from waypost.api.permissions import Acl
from waypost.api.properties import MessageProperties, NewMessage, QueueInfo, QueueList, QueueProperties
from waypost.api.queues import Kind, MovedObject
from waypost.api.sequences import Admitted, AdmittedAddresses, Direction, SequencePage, SequenceReset
from waypost.errors import DecodeError, InvalidParameter
from waypost.roles import Role
from waypost.wire.identifiers import MessageIdentifier

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
O = TypeVar("O", bound="Operation[object]")  # noqa: E741, an operation

# Purging, deleting or renumbering a queue takes time in proportion to its messages: minutes for millions.
LONG_SECONDS: Final = 3600.0

_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
# Methods without a body: fields that are not in the path are in the query.
_WITHOUT_BODY: Final = frozenset({"GET", "DELETE"})


class Operation(Struct, Generic[R_co], frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An operation with a reply of the type R_co. Its performer checks it before anything changes."""

    row: ClassVar[Row]


def checked(operation: Operation[R], reply: object) -> R:
    """The reply of an operation, with the type that its record declares."""
    assert isinstance(reply, operation.row.reply), f"{operation.row.words} got the wrong reply {type(reply).__name__}"
    found: R = reply
    return found


def operation(
    binding: str,
    *,
    asks: Asks,
    status: int = 200,
    wait_s: float = 0.0,
    is_repeatable: bool = False,
    is_audited: bool | None = None,
) -> Callable[[type[O]], type[O]]:
    """Give a record its row. `binding` is like "POST /api/queues/{name}/purge?outgoing".

    By default, changes that need a role and changes of queues themselves are audited.
    Fields after ? are in the query of a request. The others are in the path if it names them, or in the query of a GET
    or DELETE, or else in the body.
    """
    method, _, target = binding.partition(" ")
    path, _, query = target.partition("?")

    def add_row(kind: type[O]) -> type[O]:
        names = [each.name for each in fields(kind)]
        in_path = tuple(_PATH_PARAMETER.findall(path))
        rest = [name for name in names if name not in in_path]
        in_query = tuple(rest) if method in _WITHOUT_BODY else tuple(query.split("&") if query else ())
        assert set(in_path) | set(in_query) <= set(names), f"{binding} names a field that {kind.__name__} does not have"
        in_body = tuple(name for name in rest if name not in in_query)
        reply = _reply(kind)
        assert (status == 204) is (reply is type(None)), f"the status of {kind.__name__} does not fit its reply"
        assert kind.__doc__
        is_changing = bool(method) and method != "GET"
        kind.row = Row(
            name=_CAPITAL.sub("_", kind.__name__).lower(),
            method=method,
            path=path,
            path_names=in_path,
            query_names=in_query,
            body_names=in_body,
            body=_body(kind, in_body) if in_body else None,
            reply=reply,
            role=asks if isinstance(asks, Role) else None,
            queue_right=asks if isinstance(asks, QueueRight) else None,
            is_owned=isinstance(asks, Owned),
            is_audited=is_changing and (isinstance(asks, Role) or asks in NOTED) if is_audited is None else is_audited,
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


# Percent-encoded in a path.
QueueName = Annotated[str, Meta(description="Name of a queue, such as orders or orders;retry, or a format name.")]
# The performer checks it, with a better error than a decoder could give.
Age = Annotated[float, Meta(description="Number of seconds, 0 or more.", extra_json_schema={"minimum": 0})]
Guid = Annotated[str, Meta(description="GUID of a queue manager.", extra_json_schema=GUID_FORM)]
Address = Annotated[str, Meta(description="An IP address.", extra_json_schema=ADDRESS_FORM)]
After = Annotated[str, Meta(description="Value of `next` in the previous answer.", extra_json_schema=NEXT_FORM)]
Outgoing = Annotated[
    bool, Meta(description="Use the local outgoing queue for this format name instead of the remote queue.")
]
Identifier = Annotated[str, Meta(description="Id of the cursor, handle or transaction.", extra_json_schema=GUID_FORM)]
Seek: TypeAlias = Literal["first", "previous", "current", "next", "last"]
# Form of the messages in an answer over HTTP.
Form: TypeAlias = Literal["full", "packet"]
Answer: TypeAlias = Literal["full", "ids"]


# --- Queues -----------------------------------------------------------------------------------------------------------


@operation("GET /api/queues", asks=Role.READ)
class ListQueues(Operation[QueueList], frozen=True, kw_only=True):
    """List the queues that applications have created. `kind` selects queues of other kinds instead.

    In `pattern`, * matches any characters, and ? one character. A queue that is created or deleted while the daemon
    builds a long list might be missing.
    """

    kind: Kind = ""
    pattern: Annotated[str, Meta(description="Pattern for queue names (* and ? are wildcards).")] = ""


@operation("GET /api/queues/{name}", asks=QueueRight.GET_PROPERTIES)
class ShowQueue(Operation[QueueInfo], frozen=True, kw_only=True):
    """Show the properties and the current state of a queue."""

    name: QueueName


@operation("DELETE /api/queues/{name}", asks=QueueRight.DELETE, status=204, wait_s=LONG_SECONDS)
class DeleteQueue(Operation[None], frozen=True, kw_only=True):
    """Delete a queue with all its messages."""

    name: QueueName


@operation("POST /api/queues/{name}/pause", asks=Role.OPERATE, status=204)
class PauseQueue(Operation[None], frozen=True, kw_only=True):
    """Pause an outgoing queue. The daemon sends no messages from the queue until the queue is resumed."""

    name: QueueName


@operation("POST /api/queues/{name}/resume", asks=Role.OPERATE, status=204)
class ResumeQueue(Operation[None], frozen=True, kw_only=True):
    """Resume an outgoing queue that was paused."""

    name: QueueName


@operation("POST /api/queues", asks=Role.OPERATE, status=201)
class CreateQueue(QueueProperties, Operation[QueueInfo], frozen=True, kw_only=True):
    """Create a queue."""

    name: str
    transactional: bool = False


@operation("PATCH /api/queues/{name}", asks=QueueRight.SET_PROPERTIES)
class SetQueue(QueueProperties, Operation[QueueInfo], frozen=True, kw_only=True):
    """Change properties of a queue. Properties that are not in the request stay unchanged."""

    name: QueueName


@operation("GET /api/queues/{name}/acl", asks=QueueRight.GET_PERMISSIONS)
class ShowAcl(Operation[Acl], frozen=True, kw_only=True):
    """Show the owner of a queue and the rights on the queue."""

    name: QueueName


@operation("PATCH /api/queues/{name}/acl", asks=QueueRight.SET_PERMISSIONS)
class SetAcl(Operation[Acl], frozen=True, kw_only=True):
    """Change the owner of a queue and the rights on the queue.

    The order is `revoke`, `owner`, `deny`, `grant`. `grant` and `deny` add entries in the form WHO:RIGHT,RIGHT, and
    `revoke` removes all entries of each WHO. WHO is a user, a group, a SID, everyone, anonymous or administrators. The
    rights are receive, peek, send, receive-journal, set-properties, get-properties, delete, get-permissions,
    set-permissions, take-ownership and full. `sddl` replaces all entries, and the owner if the text names one. `sddl`
    is not allowed with other changes. `force` allows a change after which nobody can change the rights.
    """

    name: QueueName
    grant: list[str] = []
    deny: list[str] = []
    revoke: list[str] = []
    owner: str = ""
    sddl: str | UnsetType = UNSET
    force: bool = False


@operation(
    "POST /api/queues/{name}/purge?outgoing", asks=QueueRight.RECEIVE, is_audited=True, status=204, wait_s=LONG_SECONDS
)
class PurgeQueue(Operation[None], frozen=True, kw_only=True):
    """Delete all messages that are in the queue now."""

    name: QueueName
    outgoing: Outgoing = False


# --- Messages ---------------------------------------------------------------------------------------------------------


@operation("POST /api/queues/{name}/messages", asks=QueueRight.SEND)
class Send(Operation[Sent], frozen=True, kw_only=True):
    """Send messages. The answer is sent when the recoverable messages are on disk.

    In a transaction, the commit writes the messages to disk. The messages in `messages` are sent one by one, in order.
    The bodies in `bodies` share the properties in `like`, and either all bodies are sent or no body is sent. The
    fastest request is a MessagePack request with `bodies`, with a `body_type` in `like`, and with the `answer` "ids". A
    request to several queues (format names separated by commas) can have only one body.
    """

    name: QueueName
    messages: list[NewMessage] = []
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    answer: Answer = "full"


class Read(Operation[Received], frozen=True, kw_only=True):
    """Base of receive and peek. `count` applies only to reads without `lookup_id` and `seek`."""

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


@operation("POST /api/queues/{name}/receive?outgoing", asks=QueueRight.RECEIVE)
class Receive(Read, frozen=True, kw_only=True):
    """Receive up to `count` messages. If the queue is empty, wait up to `timeout_s` seconds for the first message."""


@operation("POST /api/queues/{name}/peek?outgoing", asks=QueueRight.PEEK, is_repeatable=True)
class Peek(Read, frozen=True, kw_only=True):
    """Peek at messages. The messages stay in the queue."""


@operation("GET /api/queues/{name}/browse", asks=QueueRight.PEEK)
class Browse(Operation[Received], frozen=True, kw_only=True):
    """Peek at all messages, page by page. `after` is the value of `next` in the previous answer."""

    name: QueueName
    after: Annotated[str, Meta(extra_json_schema=LOOKUP_ID_OR_NOTHING_FORM)] = ""
    limit: Count = 100
    form: Form = "full"
    outgoing: Outgoing = False


@operation("DELETE /api/queues/{name}/messages/{number}", asks=QueueRight.RECEIVE, is_audited=True, status=204)
class DeleteMessage(Operation[None], frozen=True, kw_only=True):
    """Receive and discard one message."""

    name: QueueName
    number: Annotated[
        str, Meta(description="The lookup_id of a message in the queue.", extra_json_schema=LOOKUP_ID_FORM)
    ]
    outgoing: Outgoing = False


@operation("POST /api/queues/{name}/move?outgoing", asks=QueueRight.RECEIVE, is_audited=True, status=204)
class MoveMessage(Operation[None], frozen=True, kw_only=True):
    """Move a message between a queue and its subqueues."""

    name: QueueName
    lookup_id: LookupId
    to: str
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    outgoing: Outgoing = False


@operation("POST /api/queues/{name}/move-all?outgoing", asks=QueueRight.RECEIVE, is_audited=True)
class MoveAll(Operation[MovedObject], frozen=True, kw_only=True):
    """Move all messages between a queue and one of its subqueues. One request moves at most a few thousand messages.

    To continue, repeat the request with the `up_to` of the answer, and with `after` set to its `next`, until `next` is
    empty. Messages that arrive during the move, and messages that a reader has locked, stay in their queue. If the move
    is interrupted, each message is in exactly one of the two queues.
    """

    name: QueueName
    to: str
    after: LookupIdNumber | LookupIdOrNothing = ""
    up_to: LookupIdNumber | LookupIdOrNothing = ""
    outgoing: Outgoing = False


@operation("POST /api/queues/{name}/resend?outgoing", asks=QueueRight.RECEIVE, is_audited=True)
class Resend(Operation[Sent], frozen=True, kw_only=True):
    """Receive a message and send it to another queue, or to its original destination again, in one atomic step."""

    name: QueueName
    lookup_id: LookupId
    to: str | UnsetType = UNSET
    form: Form = "full"
    outgoing: Outgoing = False


# --- Handles, cursors and transactions --------------------------------------------------------------------------------


@operation("POST /api/handles", asks=QueueRight.RECEIVE, status=201)
class OpenQueue(Operation[Handle], frozen=True, kw_only=True):
    """Open a queue exclusively, so that no other client can receive from the queue."""

    queue: str
    exclusive: Annotated[bool, Meta(extra_json_schema={"const": True})] = True


@operation("DELETE /api/handles/{identifier}", asks=Owned.BY_CALLER, status=204)
class CloseQueue(Operation[None], frozen=True, kw_only=True):
    """Close a handle. The request also cancels all reads that use the handle and wait for a message."""

    identifier: Identifier


@operation("POST /api/cursors", asks=QueueRight.PEEK, status=201)
class OpenCursor(Operation[Handle], frozen=True, kw_only=True):
    """Open a cursor at the start of a queue.

    If `handle` is the id of an exclusive handle of the same queue, the cursor belongs to this handle.
    """

    queue: str
    outgoing: bool = False
    handle: AnyGuid | UnsetType = UNSET


@operation("DELETE /api/cursors/{identifier}", asks=Owned.BY_CALLER, status=204)
class CloseCursor(Operation[None], frozen=True, kw_only=True):
    """Close a cursor."""

    identifier: Identifier


class CursorRead(Operation[Received], frozen=True, kw_only=True):
    """Base of the reads at a cursor."""

    identifier: Identifier
    timeout_s: Seconds = 0
    transaction: AnyGuid | UnsetType = UNSET
    begin_s: Seconds | UnsetType = UNSET
    form: Form = "full"


@operation("POST /api/cursors/{identifier}/peek", asks=QueueRight.PEEK, is_repeatable=True)
class CursorPeek(CursorRead, frozen=True, kw_only=True):
    """Peek at the message at the cursor."""


@operation("POST /api/cursors/{identifier}/next", asks=QueueRight.PEEK)
class CursorNext(CursorRead, frozen=True, kw_only=True):
    """Move the cursor to the next message, and peek at this message."""


@operation("POST /api/cursors/{identifier}/receive", asks=QueueRight.RECEIVE)
class CursorReceive(CursorRead, frozen=True, kw_only=True):
    """Receive the message at the cursor."""


@operation("POST /api/transactions", asks=Owned.BY_CALLER, status=201)
class BeginTransaction(Operation[TransactionObject], frozen=True, kw_only=True):
    """Begin a transaction. The transaction aborts if it is not used for `timeout_s` seconds.

    `id` is a GUID (default: a new GUID).
    """

    id: AnyGuid | UnsetType = UNSET
    timeout_s: Seconds | UnsetType = UNSET


@operation("POST /api/transactions/{identifier}/commit", asks=Owned.BY_CALLER, status=204, is_repeatable=True)
class CommitTransaction(Operation[None], frozen=True, kw_only=True):
    """Commit a transaction. The answer is sent when everything is on disk. You can safely repeat the request."""

    identifier: Identifier


@operation("POST /api/transactions/{identifier}/abort", asks=Owned.BY_CALLER, status=204)
class AbortTransaction(Operation[None], frozen=True, kw_only=True):
    """Abort a transaction, and undo its sends and receives."""

    identifier: Identifier


# --- Transactional sequences ------------------------------------------------------------------------------------------


@operation("GET /api/sequences", asks=Role.READ)
class ListSequences(Operation[SequencePage], frozen=True, kw_only=True):
    """List transactional sequences, at most a thousand per request.

    `direction` is `in` for incoming, `out` for outgoing and `refused` for refused sequences. `queue`, `source` (a GUID)
    and `address` filter the list of sequences. `after` is the value of `next` in the previous answer.
    """

    direction: Direction = "in"
    queue: str = ""
    source: Annotated[str, Meta(extra_json_schema=GUID_OR_NOTHING_FORM)] = ""
    address: Annotated[str, Meta(extra_json_schema=ADDRESS_OR_NOTHING_FORM)] = ""
    after: After = ""


@operation("POST /api/sequences/reset", asks=Role.OPERATE, wait_s=LONG_SECONDS)
class ResetSequences(Operation[SequenceReset], frozen=True, kw_only=True):
    """Restart transactional sequences. In the answer, `warning` describes the messages that can arrive twice.

    The request resets the sequences that match all given fields. An outgoing queue as `queue` selects its outgoing
    sequence: the answer is then sent when all waiting messages have new numbers, and no other reset starts before. With
    `trial`, the request is a dry run. A request covers at most 10,000 sequences: `after` is the previous `next`.
    """

    queue: str | None = None
    source: Guid | None = None
    address: Address | None = None
    older_than_s: Age | None = None
    after: After = ""
    trial: bool = False


@operation("POST /api/sequences/admit", asks=Role.OPERATE)
class AdmitAddress(Operation[Admitted], frozen=True, kw_only=True):
    """Accept acknowledgments that a queue manager sends from this address, including stored acknowledgments."""

    guid: Guid
    address: Address


@operation("POST /api/sequences/revoke", asks=Role.OPERATE, status=204)
class RevokeAddress(Operation[None], frozen=True, kw_only=True):
    """Revoke an admitted address. The request does not revert acknowledgments that were already applied."""

    guid: Guid
    address: Address


@operation("GET /api/sequences/admitted", asks=Role.READ)
class ListAdmitted(Operation[AdmittedAddresses], frozen=True, kw_only=True):
    """List the addresses that operators have admitted, with the GUIDs of their queue managers."""


# --- Diagnosis --------------------------------------------------------------------------------------------------------


@operation("GET /api/explain", asks=Role.READ)
class Explain(Operation[Explanation], frozen=True, kw_only=True):
    """Explain why a message, or the messages in a queue, are not delivered or received.

    `message` and `queue` are mutually exclusive.
    """

    message: Annotated[str, Meta(description="The id of a message.", extra_json_schema=MESSAGE_ID_FORM)] = ""
    queue: Annotated[str, Meta(description="The name of a queue.")] = ""

    @classmethod
    def of(cls, subject: object) -> "Explain":
        """The operation for the id of a message or the name of a queue. Raises InvalidParameter for other values."""
        if not isinstance(subject, str):
            raise InvalidParameter(f"explain requires a message id or a queue name, not {excerpt(subject)}")
        try:
            MessageIdentifier.parse(subject)
        except DecodeError:
            return cls(queue=subject)
        return cls(message=subject)


@operation("GET /api/store/damaged", asks=Role.READ)
class ListDamaged(Operation[DamagedPage], frozen=True, kw_only=True):
    """List messages that were damaged on disk and removed from their queues, at most a thousand per request.

    With `with_bytes`, the answer also contains the damaged bytes. `after` is the `next` of the previous answer.
    """

    after: After = ""
    with_bytes: bool = False


@operation("DELETE /api/store/damaged", asks=Role.ADMIN)
class ForgetDamaged(Operation[Forgotten], frozen=True, kw_only=True):
    """Delete the records of messages that were damaged on disk. Also delete damaged frames of committed stages."""


OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    ListQueues,
    ShowQueue,
    DeleteQueue,
    PauseQueue,
    ResumeQueue,
    CreateQueue,
    SetQueue,
    ShowAcl,
    SetAcl,
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
