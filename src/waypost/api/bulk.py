"""Operations on thousands of messages at once, and their replies. docs/bulk.md has examples.

Positions. The arrival number of a message, `seq`, is the low 56 bits of its LookupIdentifier (readings MQDMPR 3.A). The
queue manager uses each number once, in ascending order over all queues. The numbers of one queue therefore have gaps;
to get the size of a range, count its messages. A range is open at its start and closed at its end: (after, up_to].
`epoch` is the identifier of the queue. A different epoch means that the queue was deleted and created again. A request
with an old epoch is refused with QueueDeleted.

Stability. A message gets its number when it is sent, but readers see it only when its transaction commits. A message
that a reader has locked may become visible again. `stable` is the greatest number for which no message at or below it
is locked or uncommitted, so a read up to `stable` is complete. `committed` is the same, but ignores locked messages. If
no message is locked or uncommitted, both are the last number of any queue, so they may be greater than `last`. A moved
message keeps its number, so it may enter a queue below both numbers.

Stages. Staged messages are on disk, and no reader sees them. CommitStages commits several stages in one step, and
records for a year that this batch of this query is done for this destination. A repetition changes nothing. It names
the same stages, or comes from another `run` of the query. Any other commit of the batch is a second write with the same
name, and is refused, unless the writes have names (`write`). Messages enter their queues in the order of partition,
serial number of the stage, and row; `left` is the number of messages that wait for their turn, or for room. A commit
may also remove messages from queues of this computer (`removes`), in the same transaction.
"""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from waypost.api.forms import BulkName, Count, Guid, GuidOrNothing, LookupIdNumber, Query, Seconds
from waypost.api.frames import Frame
from waypost.api.operation_rows import Owned, QueueRight
from waypost.api.operations import Operation, Outgoing, QueueName, operation
from waypost.api.properties import MessageProperties, NewMessage
from waypost.api.records import Record
from waypost.core.positions import SEQUENCE_MASK
from waypost.limits import MAX_BULK_NAME, MAX_HTTP_WAIT_SECONDS
from waypost.roles import Role

DEFAULT_READ: Final = 10_000
DEFAULT_READ_BYTES: Final = 4 << 20
# Time that an unused stage is kept.
DEFAULT_LEASE_S: Final = 3600.0
# Smallest number of messages for which a plan makes a part by itself.
WORTH_A_PART: Final = 10_000

# Longest wait of one request for the delivery of a commit.
DEFAULT_COMMIT_WAIT_S: Final = 10.0

Locked: TypeAlias = Literal["wait", "skip"]
BulkKind: TypeAlias = Literal["", "local", "private", "public", "journal", "subqueue", "system", "outgoing", "all"]
Seq = Annotated[int, Meta(ge=0, le=SEQUENCE_MASK)]
Second = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
StagePlace = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
WriteName = Annotated[str, Meta(max_length=MAX_BULK_NAME)]
CommitWait = Annotated[float, Meta(ge=0, le=MAX_HTTP_WAIT_SECONDS)]


# --- Ranges -----------------------------------------------------------------------------------------------------------


class BulkQueue(Record, frozen=True, kw_only=True):
    """The state of a queue. `kind` is private, public, system, journal, subqueue or outgoing, as in QueueInfo."""

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
    # Number of locked or uncommitted messages, and the time for which they have held back `stable`.
    held: int
    held_s: float
    # The reason why `stable` is held back, in words, and the number of readable messages after it.
    held_by: str = ""
    behind: int = 0
    # Number of messages that are staged for the queue, and number of committed messages that wait for room in the queue
    # or for their turn. A stage or commit for several queues counts for each of them.
    staged: int = 0
    arriving: int = 0


class BulkQueues(Record, frozen=True):
    """A list of queues."""

    queues: list[BulkQueue]


@operation("GET /api/bulk/queues", asks=Role.READ)
class ListBulkQueues(Operation[BulkQueues], frozen=True, kw_only=True):
    """List the queues that applications have created. `kind` selects queues of other kinds instead.

    In `pattern`, * matches any number of characters, and ? matches one character. The pattern is compared with names
    such as orders, orders;journal, orders;retry and system$;deadletter, and with the format names of outgoing queues.
    The daemon builds a long list in several steps. A queue that is created or deleted during these steps might be
    missing from the list.
    """

    kind: BulkKind = ""
    pattern: str = ""


@operation("GET /api/bulk/queues/{name}", asks=QueueRight.GET_PROPERTIES)
class ShowBulkQueue(Operation[BulkQueue], frozen=True, kw_only=True):
    """Show the positions of a queue for bulk reads."""

    name: QueueName
    outgoing: Outgoing = False


class Rest(Record, frozen=True, kw_only=True):
    """The messages that follow a plan, up to `up_to`. The default of `up_to` is the end of a plan without limits.

    `count` is the number of these messages, and `bytes` is their total size. `last` is the arrival number of the last
    message, and `oldest` is the arrival time of the first message in seconds since 1970. If no message follows the
    plan, `last` and `oldest` are 0. `held_by` and `behind` have the same values as in a plan without limits and without
    `up_to`.
    """

    count: int = 0
    bytes: int = 0
    last: int = 0
    oldest: int = 0
    held_by: str = ""
    behind: int = 0


class PlannedRange(Record, frozen=True, kw_only=True):
    """The ranges of a plan. Part i is the range (bounds[i], bounds[i + 1]], which contains counts[i] messages.

    sizes[i] is the size of part i in bytes. If no message follows `after`, `bounds` contains only `after`, and `counts`
    is empty. A plan without `up_to` ends before the first message that is locked or not committed. `held_by` is the
    reason why this message is not available, and `behind` is the number of visible messages that follow it. If no
    visible message follows it, or the plan ends earlier, `held_by` is "" and `behind` is 0. `oldest` is the arrival
    time of the first message in seconds since 1970 (0 if no message follows `after`). `rest` describes the messages
    that follow the plan. If `is_gone` is true, the queue does not exist, or was deleted and created again. If the
    request contains `marks_moves`, `as_of` is the time when the plan was made, in whole seconds since 1970. In this
    case, `fresh` contains the arrival numbers of the planned messages that were moved to the queue during this second.
    """

    # The format name and the kind of the queue, as in BulkQueue; "" if it is gone.
    name: str = ""
    kind: str = ""
    epoch: GuidOrNothing
    bounds: list[int]
    counts: list[int]
    sizes: list[int] = []
    oldest: int = 0
    rest: Rest = Rest()
    # As in BulkQueue.
    held: int = 0
    held_s: float = 0.0
    held_by: str = ""
    behind: int = 0
    is_gone: bool = False
    as_of: int = 0
    fresh: list[int] = []


class PlanLimits(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of a plan, and of its parts. A message larger than a limit in bytes gets its own plan or part."""

    max_messages: Count | UnsetType = UNSET
    max_bytes: Count | UnsetType = UNSET
    # Number of parts, if the plan has as many messages. The limits of a part may require more parts.
    parts: Count = 1
    # Like `parts`, but each part has at least 10,000 messages.
    spread: Count = 1
    part_messages: Count | UnsetType = UNSET
    part_bytes: Count | UnsetType = UNSET
    locked: Locked = "wait"
    # Report `as_of` and `fresh`, for RemoveRange. A plan ends before its 1001st message in `fresh`.
    marks_moves: bool = False


@operation("POST /api/bulk/queues/{name}/plan?outgoing", asks=QueueRight.PEEK, is_repeatable=True)
class PlanRange(PlanLimits, Operation[PlannedRange], frozen=True, kw_only=True):
    """Divide the messages after a given arrival number (`after`) into ranges of about the same size in bytes.

    The plan begins with the first message after `after`, and covers at most `max_messages` messages and at most
    `max_bytes` bytes. `up_to` is the end of the plan (default: the stable number, or the committed number if locked
    messages are skipped). The plan consists of `parts` ranges, or of more ranges if the limits `part_messages` or
    `part_bytes` require more ranges.
    """

    name: QueueName
    after: Seq = 0
    up_to: Seq | UnsetType = UNSET
    epoch: GuidOrNothing = ""
    outgoing: Outgoing = False


class RangeOfQueue(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The messages of a queue that follow an arrival number (as in PlanRange), or that arrived since a time.

    `since` and `before` are times in seconds since 1970, as in FindSeq. `since` replaces `after`, and selects messages
    that arrived at the time `since` or later. `before` replaces `up_to`, and selects messages that arrived before the
    time `before`.
    """

    name: str
    after: Seq = 0
    up_to: Seq | UnsetType = UNSET
    since: float | UnsetType = UNSET
    before: float | UnsetType = UNSET
    epoch: GuidOrNothing = ""


class PlannedRanges(Record, frozen=True):
    """A plan for each queue, in the order of the request."""

    plans: list[PlannedRange]


@operation("POST /api/bulk/plan", asks=QueueRight.PEEK, is_repeatable=True)
class PlanRanges(PlanLimits, Operation[PlannedRanges], frozen=True, kw_only=True):
    """Divide the messages of several queues into ranges. PlanRange does the same for one queue.

    `max_messages` is divided among the queues in proportion to their message counts. `max_bytes` and `parts` are
    divided in proportion to the sizes of the queues in bytes. If a queue does not exist, the answer still contains
    plans for the other queues.
    """

    ranges: list[RangeOfQueue]


@operation("POST /api/bulk/queues/{name}/read?outgoing", asks=QueueRight.PEEK, is_repeatable=True)
class ReadRange(Operation[Frame], frozen=True, kw_only=True):
    """Read messages of a range in one binary frame, in the order of arrival.

    The frame contains as many messages as the limits allow, but at least one message. The frame also contains the
    arrival number up to which the frame is complete.
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
    """The highest arrival number before the requested time, or 0 if no message arrived before that time."""

    seq: int


@operation("GET /api/bulk/queues/{name}/seq", asks=QueueRight.PEEK)
class FindSeq(Operation[SeqAt], frozen=True, kw_only=True):
    """Find the last arrival number before a time. `time` is in seconds since 1970.

    Messages with a higher arrival number arrived at this time or later.
    """

    name: QueueName
    time: float
    outgoing: Outgoing = False


class Removed(Record, frozen=True):
    """The result of a removal. `count` is the number of removed messages.

    `left` is the number of messages that remain because of a lock, `max_messages` or `as_of`. If the request contains
    `as_of`, `first_moved` is the arrival number of the first message that was moved to the queue after the plan was
    made (0 if no message was moved). To continue, set `after` to `end` in the next request.
    """

    count: int
    left: int
    first_moved: int = 0
    end: int = 0


@operation("POST /api/bulk/queues/{name}/remove?outgoing", asks=QueueRight.RECEIVE, is_repeatable=True)
class RemoveRange(Operation[Removed], frozen=True, kw_only=True):
    """Receive and discard at most `max_messages` messages of a range. You can safely repeat the request.

    If the request contains the `as_of` and the `fresh` of a plan with `marks_moves`, the request does not remove
    messages that were moved to the queue after the plan was made.
    """

    name: QueueName
    up_to: Seq
    after: Seq = 0
    max_messages: Count = DEFAULT_READ
    epoch: GuidOrNothing = ""
    as_of: Second | UnsetType = UNSET
    fresh: list[Seq] = []
    outgoing: Outgoing = False


# --- Stages -----------------------------------------------------------------------------------------------------------


class StagedMessages(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Messages for one queue: bodies that share the properties of `like`, or single messages.

    `varied` contains the properties that are different for each body. `varied` maps the name of a property to a list
    with one value for each body. Each value is a text, a number or an id. The value null means the default of the
    property.
    """

    queue: str
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    varied: dict[str, list[str | int | None]] = {}
    messages: list[NewMessage] = []


class RejectedRow(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A row that is not a valid message. `queue` is "" if the row does not specify a queue."""

    reason: str
    queue: str = ""
    label: str = ""
    body: bytes = b""


class BatchRead(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A batch of a query that reads a claim. The keys have the same meaning as in ReadClaim."""

    query: BulkName
    batch: Seq
    run: GuidOrNothing = ""


class BatchOfQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A batch of a query, written by one run of the query.

    `destination` is the queue of all messages in the batch, or "" if each message specifies its queue. (With Spark, a
    column specifies the queue of each message.) A batch without `destination` is committed in one step for all
    destinations. `run` is the GUID of the run. A commit request without `run` is a repetition of an earlier request
    only if both requests contain the same stages. If a run divides the batch into several writes, each write has a
    name (`write`). Every run must commit the writes of a batch one by one, in the same order. With `is_version`,
    the batch is treated as committed if a batch with the same or a higher number is committed. With `is_anonymous`, the
    commit is remembered for only a day. The `query` of the batch can differ from the query that reads the messages. For
    example, `query` can be the name of an application. If the two queries differ, `within` is the batch that reads the
    messages. A request with `within` is refused if the run of the batch in `within` has lost a claim. The commit is
    also recorded as a commit of the batch in `within`.
    """

    query: BulkName
    batch: Seq
    destination: str | UnsetType = UNSET
    run: GuidOrNothing = ""
    write: WriteName = ""
    is_version: bool = False
    is_anonymous: bool = False
    within: BatchRead | UnsetType = UNSET


class Staged(Record, frozen=True):
    """The result of staging. If `is_committed` is true, nothing was staged, because another run has committed the
    batch."""

    stage: str
    count: int
    is_committed: bool = False


@operation("POST /api/bulk/stages", asks=QueueRight.SEND, is_repeatable=True)
class Stage(BatchOfQuery, Operation[Staged], frozen=True, kw_only=True):
    """Write messages to disk. Readers see these messages only after their batch is committed.

    The order of the messages is kept. Either all messages are written or no message is written. The destination queues
    must be transactional, but can be local or remote. A commit orders the stages by `partition`, then by `serial`, then
    by the time of staging.
    """

    groups: list[StagedMessages]
    # At the commit, these rows become dead-letter messages (system$;deadxact) with the reason as extension.
    rejected: list[RejectedRow] = []
    partition: StagePlace = 0
    serial: StagePlace = 0
    lease_s: Seconds = DEFAULT_LEASE_S


@operation("POST /api/bulk/stages/drop", asks=Owned.BY_CALLER, status=204, is_repeatable=True)
class DropStages(Operation[None], frozen=True, kw_only=True):
    """Delete the listed `stages`, and all stages of the run in `batch`. Stages that do not exist are ignored."""

    stages: list[Guid] = []
    batch: BatchOfQuery | UnsetType = UNSET


class Committed(Record, frozen=True):
    """The result of a commit. If `is_repeated` is true, the batch was already committed, and new stages are dropped.

    `count` is the number of committed messages. `left` is the number of committed messages that are not in their queues
    yet. When the queues have space, these messages enter their queues in order.
    """

    count: int
    is_repeated: bool
    left: int = 0


class MessagesToRemove(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Messages of one queue of this computer. `lookup_ids` contains the LookupIdentifiers of the messages."""

    queue: QueueName
    lookup_ids: list[LookupIdNumber]
    epoch: GuidOrNothing = ""


@operation("POST /api/bulk/commits", asks=Owned.BY_CALLER, is_repeatable=True)
class CommitStages(BatchOfQuery, Operation[Committed], frozen=True, kw_only=True):
    """Commit the stages of a batch. A repetition of the commit changes nothing.

    Stages of the batch that are not in `stages` are dropped. In the same step, the messages in `removes` are removed
    from their queues, like received messages. If a message in `removes` is gone or locked, the commit is refused. One
    commit removes at most 5,000 messages. `is_whole` means that the batch has no other commit. The answer is sent when
    all messages are in their queues, but at the latest after `wait_s` seconds. If `left` in the answer is not 0, repeat
    the request.
    """

    stages: list[Guid]
    removes: list[MessagesToRemove] = []
    is_whole: bool = False
    wait_s: CommitWait = DEFAULT_COMMIT_WAIT_S


class Batches(Record, frozen=True):
    """The last committed batches of a query, in ascending order.

    `whole` lists the batches that were committed without a `write` name, and therefore in a single commit for their
    destination. For each of the other batches, more writes can follow.
    """

    batches: list[int]
    whole: list[int] = []


@operation("GET /api/bulk/commits", asks=Owned.BY_CALLER)
class ListBatches(Operation[Batches], frozen=True, kw_only=True):
    """List the last committed batches of a query."""

    query: Query


BULK_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    *(ListBulkQueues, ShowBulkQueue, PlanRange, PlanRanges, ReadRange, FindSeq, RemoveRange),
    *(Stage, DropStages, CommitStages, ListBatches),
)
