"""Operations on thousands of messages at once, and their replies. docs/bulk.md has examples.

Positions. The arrival number of a message, `seq`, is the low 56 bits of its LookupIdentifier (readings MQDMPR 3.A): the
queue manager gives each number once, in ascending order over all queues. Numbers of one queue therefore have gaps;
ranges are counted in messages, not by subtraction. A range is open at its start and closed at its end: (after, up_to].
`epoch` is the identifier of the queue: another one means that the queue was deleted and created again, and a request
with the old one is refused with QueueDeleted.

Stability. A message gets its number when it is sent, but readers see it when its transaction commits, and a message
that a reader has locked may come back. `stable` is the greatest number without such messages at or below it, so that a
read up to there is complete for good; `committed` ignores locked messages. Without such messages, both are the last
number of any queue, so they may be beyond `last`. A moved message keeps its number, and may come to a queue below both.

Claims. Claim(claim, after) says that all parts up to number `after` are processed, which removes their messages from
the queue for good, and asks for part `after` + 1: the same part as before if it exists, or else the next messages that
no reader holds; other readers do not get them meanwhile. A claim survives a restart of the daemon. Without a request or
a read under it for `lease_s`, its messages become available again with `abort_count` raised, and messages that came
back `max_aborts` times go to the subqueue `poison`.

Stages. Staged messages are on disk, and no reader sees them. CommitStages makes several stages visible at one moment
and remembers that this batch of this query is done for this destination, so that a repetition changes nothing. A
repetition has the same stages, or comes from another `run` of the query; anything else is a second write under the same
name, and refused. The commit drops other stages of the batch. A stage that is neither committed nor dropped within
`lease_s` is deleted.
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from waypost.api.forms import BULK_NAME_FORM, BulkName, Count, Guid, GuidOrNothing, Seconds
from waypost.api.frames import Frame
from waypost.api.operations import Operation, Outgoing, QueueName, Right, operation
from waypost.api.properties import MessageProperties, NewMessage
from waypost.api.records import Record
from waypost.core.positions import SEQUENCE_MASK

DEFAULT_READ: Final = 10_000
DEFAULT_READ_BYTES: Final = 4 << 20
# Time that an unused claim or stage is kept.
DEFAULT_LEASE_S: Final = 3600.0
DEFAULT_MAX_ABORTS: Final = 5

Locked: TypeAlias = Literal["wait", "skip"]
BulkKind: TypeAlias = Literal["", "local", "private", "public", "journal", "subqueue", "system", "outgoing", "all"]
Seq = Annotated[int, Meta(ge=0, le=SEQUENCE_MASK)]


# --- Ranges -----------------------------------------------------------------------------------------------------------


class BulkQueue(Record, frozen=True, kw_only=True):
    """A queue at one moment. `kind` is private, public, system, journal, subqueue or outgoing, as in QueueInfo."""

    format_name: str
    path: str
    kind: str
    transactional: bool
    epoch: Guid
    count: int
    bytes: int
    # The smallest and the greatest number in the queue, 0 if it is empty.
    first: int
    last: int
    stable: int
    committed: int
    # Arrival time of the oldest message in seconds since 1970, 0 if the queue is empty.
    oldest: int
    # Number of locked or uncommitted messages, and the time for which they hold `stable` back.
    held: int
    held_s: float
    # The reason why `stable` is held back, in words, and the number of readable messages after it.
    held_by: str = ""
    behind: int = 0


class BulkQueues(Record, frozen=True):
    """The queues of a list."""

    queues: list[BulkQueue]


@operation("GET /api/bulk/queues", asks=Right.READ)
class ListBulkQueues(Operation[BulkQueues], frozen=True, kw_only=True):
    """List the queues that applications have created; `kind` selects queues of one kind, or all.

    `pattern` has * and ? for any characters. It is compared with names like orders, orders;journal, orders;retry and
    system$;deadletter, and with the format names of outgoing queues. A long list is built in parts: a queue created or
    deleted meanwhile may be missing.
    """

    kind: BulkKind = ""
    pattern: str = ""


@operation("GET /api/bulk/queues/{name}", asks=Right.READ)
class ShowBulkQueue(Operation[BulkQueue], frozen=True, kw_only=True):
    """Show the positions of a queue for reading in bulk."""

    name: QueueName
    outgoing: Outgoing = False


class PlannedRange(Record, frozen=True, kw_only=True):
    """Ranges of a plan: part i is (bounds[i], bounds[i + 1]] and has counts[i] messages now. It ends at the last bound.

    Without messages after `after` it has one bound, `after` itself, and no counts. If messages after the end of a plan
    without `up_to` are held back, `held_by` says why, and `behind` is their number.
    """

    epoch: Guid
    bounds: list[int]
    counts: list[int]
    held_by: str = ""
    behind: int = 0


@operation("POST /api/bulk/queues/{name}/plan?outgoing", asks=Right.READ, is_repeatable=True)
class PlanRange(Operation[PlannedRange], frozen=True, kw_only=True):
    """Divide the messages after a number into ranges of about the same count.

    The plan has the first messages after `after`, at most `max_messages`, and at most `max_bytes` by their average size
    in the queue. `up_to` (default: the stable number, or the committed one if locked messages are skipped) ends it.
    """

    name: QueueName
    after: Seq = 0
    up_to: Seq | UnsetType = UNSET
    max_messages: Count | UnsetType = UNSET
    max_bytes: Count | UnsetType = UNSET
    parts: Count = 1
    locked: Locked = "wait"
    epoch: GuidOrNothing = ""
    outgoing: Outgoing = False


@operation("POST /api/bulk/queues/{name}/read?outgoing", asks=Right.READ, is_repeatable=True)
class ReadRange(Operation[Frame], frozen=True, kw_only=True):
    """Read messages of a range in one binary frame, in the order of arrival.

    The frame has as many messages as the limits allow, at least one, and the number up to which it is complete.
    """

    name: QueueName
    up_to: Seq
    after: Seq = 0
    max_messages: Count = DEFAULT_READ
    max_bytes: Count = DEFAULT_READ_BYTES
    locked: Locked = "wait"
    epoch: GuidOrNothing = ""
    outgoing: Outgoing = False


class SeqAt(Record, frozen=True):
    """The greatest number of a message that arrived before the time; 0 without such messages."""

    seq: int


@operation("GET /api/bulk/queues/{name}/seq", asks=Right.READ)
class FindSeq(Operation[SeqAt], frozen=True, kw_only=True):
    """Find the number after which messages arrived at a time or later. The time is in seconds since 1970."""

    name: QueueName
    time: float
    outgoing: Outgoing = False


class Removed(Record, frozen=True):
    """Number of messages removed, and of those of the range that are left: locked, or beyond the limit."""

    count: int
    left: int


@operation("POST /api/bulk/queues/{name}/remove?outgoing", asks=Right.RECEIVE, is_repeatable=True)
class RemoveRange(Operation[Removed], frozen=True, kw_only=True):
    """Remove the messages of a range from the queue, as a receive does. Repeating the request does no harm.

    One request removes at most `max_messages`.
    """

    name: QueueName
    up_to: Seq
    after: Seq = 0
    max_messages: Count = DEFAULT_READ
    epoch: GuidOrNothing = ""
    outgoing: Outgoing = False


# --- Claims -----------------------------------------------------------------------------------------------------------


class Claimed(Record, frozen=True, kw_only=True):
    """The part `number` of a claim. Without messages, `number` is the `after` of the request."""

    number: int
    count: int
    bytes: int
    epoch: Guid


@operation("POST /api/bulk/queues/{name}/claims", asks=Right.RECEIVE, is_repeatable=True)
class Claim(Operation[Claimed], frozen=True, kw_only=True):
    """Report parts of a claim as processed, which removes their messages from the queue, and ask for the next part.

    Until the next part is asked for, the same request gets the same answer.
    """

    name: QueueName
    claim: BulkName
    after: Seq = 0
    # 0 to report processed parts, and claim nothing.
    max_messages: Annotated[int, Meta(ge=0)] = DEFAULT_READ
    max_bytes: Count | UnsetType = UNSET
    lease_s: Seconds = DEFAULT_LEASE_S
    # 0 for no limit.
    max_aborts: Annotated[int, Meta(ge=0)] = DEFAULT_MAX_ABORTS
    epoch: GuidOrNothing = ""


@operation("POST /api/bulk/queues/{name}/claims/read", asks=Right.RECEIVE, is_repeatable=True)
class ReadClaim(Operation[Frame], frozen=True, kw_only=True):
    """Read messages of a part in one binary frame, by their places in the order of arrival.

    Places count from 0: [start, stop) as far as the limits allow. In the frame, `end` is the place after its last
    message.
    """

    name: QueueName
    claim: BulkName
    number: Seq
    start: Seq
    stop: Seq
    max_bytes: Count = DEFAULT_READ_BYTES
    epoch: GuidOrNothing = ""


class Returned(Record, frozen=True):
    """Number of messages that are available to other readers again."""

    count: int


@operation("POST /api/bulk/queues/{name}/claims/return", asks=Right.RECEIVE, is_repeatable=True)
class ReturnClaim(Operation[Returned], frozen=True, kw_only=True):
    """Return the messages of a claim to the queue, as the end of the lease does."""

    name: QueueName
    claim: BulkName


class ClaimObject(Record, frozen=True, kw_only=True):
    """A part that a reader has claimed."""

    claim: BulkName
    number: int
    count: int
    lease_left_s: float


class Claims(Record, frozen=True):
    """The claims of one queue."""

    claims: list[ClaimObject]


@operation("GET /api/bulk/queues/{name}/claims", asks=Right.READ)
class ListClaims(Operation[Claims], frozen=True, kw_only=True):
    """List the parts of the queue that readers have claimed."""

    name: QueueName


# --- Stages -----------------------------------------------------------------------------------------------------------


class StagedMessages(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Messages for one queue: bodies that share the properties of `like`, or single messages."""

    queue: str
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    messages: list[NewMessage] = []


class BatchOfQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A batch of a query, as one of its runs writes it.

    `destination` is the queue of all messages, or "" if each message names its queue (a column, for Spark). A batch
    without a destination is committed once, for all destinations. `run` is a GUID; without it, only the same stages
    make a request a repetition.
    """

    query: BulkName
    batch: Seq
    destination: str | UnsetType = UNSET
    run: GuidOrNothing = ""


class Staged(Record, frozen=True):
    """A stage. `is_committed`: another run has committed the batch, so nothing was staged."""

    stage: str
    count: int
    is_committed: bool = False


@operation("POST /api/bulk/stages", asks=Right.SEND, is_repeatable=True)
class Stage(BatchOfQuery, Operation[Staged], frozen=True, kw_only=True):
    """Write messages to disk that no reader sees before the commit of their batch.

    Their order is kept, and all of them are written or none. Their queues are transactional, here or elsewhere.
    """

    groups: list[StagedMessages]
    lease_s: Seconds = DEFAULT_LEASE_S


@operation("POST /api/bulk/stages/drop", asks=Right.SEND, status=204, is_repeatable=True)
class DropStages(Operation[None], frozen=True, kw_only=True):
    """Delete these stages, and all stages of a run for a batch. Stages that do not exist are ignored."""

    stages: list[Guid] = []
    batch: BatchOfQuery | UnsetType = UNSET


class Committed(Record, frozen=True):
    """Number of messages. `is_repeated`: the batch was committed before, so the stages of this request are dropped."""

    count: int
    is_repeated: bool


@operation("POST /api/bulk/commits", asks=Right.SEND, is_repeatable=True)
class CommitStages(BatchOfQuery, Operation[Committed], frozen=True, kw_only=True):
    """Make staged messages visible at one moment, once: a batch that was committed before changes nothing.

    Other stages of the batch are dropped.
    """

    stages: list[Guid]


class Batches(Record, frozen=True):
    """The last committed batches of a query, ascending."""

    batches: list[int]


@operation("GET /api/bulk/commits", asks=Right.READ)
class ListBatches(Operation[Batches], frozen=True, kw_only=True):
    """List the last committed batches of a query."""

    query: Annotated[str, Meta(description="The query of the batches.", extra_json_schema=BULK_NAME_FORM)]


BULK_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    ListBulkQueues,
    ShowBulkQueue,
    PlanRange,
    ReadRange,
    FindSeq,
    RemoveRange,
    Claim,
    ReadClaim,
    ReturnClaim,
    ListClaims,
    Stage,
    DropStages,
    CommitStages,
    ListBatches,
)
