"""The operations on thousands of messages at once, and their replies. docs/bulk.md has examples.

Positions. The arrival number of a message, `seq`, is the low 56 bits of its LookupIdentifier (readings MQDMPR 3.A): the
queue manager gives it once and never again, and it only grows, over all queues. Numbers of one queue therefore have
gaps; ranges are counted in messages, not by subtraction. A range is open at its start and closed at its end: (after,
up_to]. `epoch` is the identifier of the queue: another one means that the queue was deleted and created again, and a
request that names the old one is refused with QueueDeleted.

Stability. A number is given when a message is sent, but it is seen when its transaction commits, and one that a reader
has locked may come back. `stable` is the greatest number below which nothing of that kind stands, so that what was read
up to there is complete for good; `committed` disregards what readers have locked. Where nothing stands in the way, both
are the last number that was given to a message of any queue, so that they may be beyond `last`. A message that is moved
keeps its number, and may come to a queue below both.

Claims. Claim(claim, after) says that everything in the parts up to number `after` was processed, which takes those
messages out of the queue for good, and asks for part `after` + 1: the same as before if there is one, or else the next
messages that nobody holds, which are kept from others until then. A claim survives a restart of the daemon. If nobody
has asked or read under it for `lease_s`, its messages are for others again with `abort_count` raised, and those that
came back `max_aborts` times go to the subqueue `poison`.

Stages. What is staged is on disk and seen by nobody. CommitStages makes several stages seen in one moment and remembers
that this batch of this query is done for this destination, so that a repetition changes nothing. A repetition has the
same stages, or comes from another `run` of the query; anything else is a second write under the name of the first, and
refused. Other stages of the batch are dropped with the commit. A stage that is neither committed nor dropped within
`lease_s` is gone.
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
# How long a claim or a stage is kept for one that does not ask again.
DEFAULT_LEASE_S: Final = 3600.0
DEFAULT_MAX_ABORTS: Final = 5

Locked: TypeAlias = Literal["wait", "skip"]
BulkKind: TypeAlias = Literal["", "local", "private", "public", "journal", "subqueue", "system", "outgoing", "all"]
Seq = Annotated[int, Meta(ge=0, le=SEQUENCE_MASK)]


# --- Ranges -----------------------------------------------------------------------------------------------------------


class BulkQueue(Record, frozen=True, kw_only=True):
    """A queue at one moment. `kind` is that of QueueInfo: private, public, system, journal, subqueue or outgoing."""

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
    # Seconds since 1970 at which the oldest message arrived, 0 if it is empty.
    oldest: int
    # How many messages are locked or uncommitted, and for how long `stable` has been held back.
    held: int
    held_s: float
    # The reason why `stable` is held back, in words, and how many messages behind it would be read otherwise.
    held_by: str = ""
    behind: int = 0


class BulkQueues(Record, frozen=True):
    """Those that were asked for."""

    queues: list[BulkQueue]


@operation("GET /api/bulk/queues", asks=Right.READ)
class ListBulkQueues(Operation[BulkQueues], frozen=True, kw_only=True):
    """List the queues that applications have created; with `kind` those of one kind, or all.

    `pattern` has * and ? for any characters, and is compared with names like orders, orders;journal, orders;retry and
    system$;deadletter, and with the format names of outgoing queues. Of many queues each is shown as it is when its
    turn comes: one that is created or deleted meanwhile may be missing.
    """

    kind: BulkKind = ""
    pattern: str = ""


@operation("GET /api/bulk/queues/{name}", asks=Right.READ)
class ShowBulkQueue(Operation[BulkQueue], frozen=True, kw_only=True):
    """Show how far a queue can be read."""

    name: QueueName
    outgoing: Outgoing = False


class PlannedRange(Record, frozen=True, kw_only=True):
    """Part i is (bounds[i], bounds[i + 1]] and has counts[i] messages now. The last bound is where the plan ends.

    Nothing behind `after` gives one bound, `after` itself, and no counts. A plan without `up_to` that ends short of
    other messages says what holds them back, and how many of them are behind its end.
    """

    epoch: Guid
    bounds: list[int]
    counts: list[int]
    held_by: str = ""
    behind: int = 0


@operation("POST /api/bulk/queues/{name}/plan?outgoing", asks=Right.READ, is_repeatable=True)
class PlanRange(Operation[PlannedRange], frozen=True, kw_only=True):
    """Divide the messages behind a number into ranges of about the same count.

    They are the first behind `after`, at most so many or so large together by the average of the queue. The default of
    `up_to` is the stable number, or the committed one if locked messages are skipped.
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

    It has as many as the limits allow, one at least, and says how far it has come.
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
    """The greatest number of those messages that had arrived before the time, 0 if there are none."""

    seq: int


@operation("GET /api/bulk/queues/{name}/seq", asks=Right.READ)
class FindSeq(Operation[SeqAt], frozen=True, kw_only=True):
    """Find the number behind which messages are that arrived at a time, in seconds since 1970, or later."""

    name: QueueName
    time: float
    outgoing: Outgoing = False


class Removed(Record, frozen=True):
    """How many have gone, and how many of the range are still there: because of the limit, or locked."""

    count: int
    left: int


@operation("POST /api/bulk/queues/{name}/remove?outgoing", asks=Right.RECEIVE, is_repeatable=True)
class RemoveRange(Operation[Removed], frozen=True, kw_only=True):
    """Take the messages of a range out of the queue, as a receive does. To ask twice is as good as to ask once.

    At most `max_messages` go with one request.
    """

    name: QueueName
    up_to: Seq
    after: Seq = 0
    max_messages: Count = DEFAULT_READ
    epoch: GuidOrNothing = ""
    outgoing: Outgoing = False


# --- Claims -----------------------------------------------------------------------------------------------------------


class Claimed(Record, frozen=True, kw_only=True):
    """The part `number` of a claim; without messages there is none, and `number` is the `after` of the request."""

    number: int
    count: int
    bytes: int
    epoch: Guid


@operation("POST /api/bulk/queues/{name}/claims", asks=Right.RECEIVE, is_repeatable=True)
class Claim(Operation[Claimed], frozen=True, kw_only=True):
    """Say which parts of a claim are processed, which takes them out of the queue, and ask for the next part.

    The same question has the same answer until the next one is asked.
    """

    name: QueueName
    claim: BulkName
    after: Seq = 0
    # 0 to say what was processed, and to claim nothing.
    max_messages: Annotated[int, Meta(ge=0)] = DEFAULT_READ
    max_bytes: Count | UnsetType = UNSET
    lease_s: Seconds = DEFAULT_LEASE_S
    # 0 to let messages come back without a limit.
    max_aborts: Annotated[int, Meta(ge=0)] = DEFAULT_MAX_ABORTS
    epoch: GuidOrNothing = ""


@operation("POST /api/bulk/queues/{name}/claims/read", asks=Right.RECEIVE, is_repeatable=True)
class ReadClaim(Operation[Frame], frozen=True, kw_only=True):
    """Read messages of a part in one binary frame, by their places in the order of arrival.

    Places are counted from 0: [start, stop) as far as the limits allow. In the frame, `end` is the place behind the
    last message that it has.
    """

    name: QueueName
    claim: BulkName
    number: Seq
    start: Seq
    stop: Seq
    max_bytes: Count = DEFAULT_READ_BYTES
    epoch: GuidOrNothing = ""


class Returned(Record, frozen=True):
    """How many messages are for others again."""

    count: int


@operation("POST /api/bulk/queues/{name}/claims/return", asks=Right.RECEIVE, is_repeatable=True)
class ReturnClaim(Operation[Returned], frozen=True, kw_only=True):
    """Give back what is claimed, as the end of the lease does."""

    name: QueueName
    claim: BulkName


class ClaimObject(Record, frozen=True, kw_only=True):
    """A part that a reader has."""

    claim: BulkName
    number: int
    count: int
    lease_left_s: float


class Claims(Record, frozen=True):
    """Those of one queue."""

    claims: list[ClaimObject]


@operation("GET /api/bulk/queues/{name}/claims", asks=Right.READ)
class ListClaims(Operation[Claims], frozen=True, kw_only=True):
    """List the parts of the queue that readers have."""

    name: QueueName


# --- Stages -----------------------------------------------------------------------------------------------------------


class StagedMessages(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Messages for one queue: bodies that share the properties of `like`, or messages of their own."""

    queue: str
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    messages: list[NewMessage] = []


class BatchOfQuery(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A batch of a query, as one of its runs writes it.

    `destination` is the queue that all messages are for, or "" if each says where it goes (a column, for Spark). A
    batch without one is committed once, to whatever destination. `run` is a GUID; without one no repetition is known as
    such but by its stages.
    """

    query: BulkName
    batch: Seq
    destination: str | UnsetType = UNSET
    run: GuidOrNothing = ""


class Staged(Record, frozen=True):
    """`is_committed` if another run has committed the batch: then nothing is kept, and there is no stage."""

    stage: str
    count: int
    is_committed: bool = False


@operation("POST /api/bulk/stages", asks=Right.SEND, is_repeatable=True)
class Stage(BatchOfQuery, Operation[Staged], frozen=True, kw_only=True):
    """Write messages to disk that nobody sees before their batch is committed.

    They are in their order, for transactional queues here or anywhere: all of them or none.
    """

    groups: list[StagedMessages]
    lease_s: Seconds = DEFAULT_LEASE_S


@operation("POST /api/bulk/stages/drop", asks=Right.SEND, status=204, is_repeatable=True)
class DropStages(Operation[None], frozen=True, kw_only=True):
    """Let nothing be left of these stages, and of all that a run has staged for a batch. What is gone stays gone."""

    stages: list[Guid] = []
    batch: BatchOfQuery | UnsetType = UNSET


class Committed(Record, frozen=True):
    """`is_repeated` if the batch was committed before: then the stages of this request are dropped."""

    count: int
    is_repeated: bool


@operation("POST /api/bulk/commits", asks=Right.SEND, is_repeatable=True)
class CommitStages(BatchOfQuery, Operation[Committed], frozen=True, kw_only=True):
    """Make what is staged seen in one moment, once: a batch that was committed before changes nothing.

    What else is staged for the batch is dropped.
    """

    stages: list[Guid]


class Batches(Record, frozen=True):
    """The last batches of a query that were committed, ascending."""

    batches: list[int]


@operation("GET /api/bulk/commits", asks=Right.READ)
class ListBatches(Operation[Batches], frozen=True, kw_only=True):
    """List the last batches of a query that were committed."""

    query: Annotated[str, Meta(description="Whose batches they are.", extra_json_schema=BULK_NAME_FORM)]


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
