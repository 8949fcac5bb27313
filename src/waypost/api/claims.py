"""Claims: messages of a queue that one reader takes in parts, and their terms.

waypost.api.bulk defines positions, parts and stages.

Claims. Claim(claim, after) reports that all parts up to number `after` are processed. This removes their messages from
the queue. It also requests part `after` + 1. If that part exists, the answer is the same part as before. Otherwise the
part gets the next messages that no reader has locked. Other readers do not get these messages meanwhile. A claim
survives a restart of the daemon. If a part is neither requested nor read for `lease_s`, its messages are released with
a higher `abort_count`. Messages that were released `max_aborts` times move to the subqueue `poison`.

Terms. A reader with a checkpoint, such as a query of Spark, takes its claim at each start with TakeClaim, and gets a
term. Requests with an earlier term are refused, and so are stages and commits of the runs that read in earlier terms.
Several readers of one program run share a term and get the same parts. If the lease expires, the term loses its claim,
and the next start continues after the released part. There are two exceptions. If the query has committed the whole
batch that reads the part, the messages are removed. If the query has committed only some writes of this batch, the
messages stay claimed for the query.
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from waypost.api.bulk import DEFAULT_READ, DEFAULT_READ_BYTES, Seq
from waypost.api.forms import BulkName, BulkNameOrNothing, Count, Guid, GuidOrNothing, Seconds
from waypost.api.frames import Frame
from waypost.api.operation_rows import QueueRight
from waypost.api.operations import Operation, QueueName, operation
from waypost.api.records import Record
from waypost.roles import Role

# Time that an unused claim is kept.
DEFAULT_CLAIM_LEASE_S: Final = 60.0
DEFAULT_MAX_ABORTS: Final = 5


class Claimed(Record, frozen=True, kw_only=True):
    """A part of a claim, with its `number`. If no message is available, `number` is equal to `after` in the request.

    If the request contains `part_bytes`, `places` divides the part into pieces. Piece i contains the messages at the
    positions from places[i] up to, but not including, places[i + 1]. A piece contains at most `part_bytes` bytes, or a
    single larger message.
    """

    number: int
    count: int
    bytes: int
    epoch: Guid
    places: list[int] = []


@operation("POST /api/bulk/queues/{name}/claims", asks=QueueRight.RECEIVE, is_repeatable=True)
class Claim(Operation[Claimed], frozen=True, kw_only=True):
    """Report parts of a claim as processed, and request the next part. The messages of processed parts are removed.

    Until the next part is requested, a repetition of the request gets the same answer.
    """

    name: QueueName
    claim: BulkName
    after: Seq = 0
    # 0: report processed parts without claiming more messages.
    max_messages: Annotated[int, Meta(ge=0)] = DEFAULT_READ
    max_bytes: Count | UnsetType = UNSET
    part_bytes: Count | UnsetType = UNSET
    lease_s: Seconds = DEFAULT_CLAIM_LEASE_S
    # 0 for no limit.
    max_aborts: Annotated[int, Meta(ge=0)] = DEFAULT_MAX_ABORTS
    epoch: GuidOrNothing = ""
    # The term from TakeClaim (0 without a term), and the name of the reader if several readers share the term.
    term: Seq = 0
    reader: BulkNameOrNothing = ""


class Taken(Record, frozen=True, kw_only=True):
    """The term that the reader received when it started.

    Part `given` is the last part that exists, and part `settled` is the last processed part. If `is_held` is true, the
    messages of part `given` are claimed. If `is_held` is false, the parts after `settled` were released. `places`
    divides part `given` into pieces, as in Claimed.
    """

    term: int
    settled: int
    given: int
    is_held: bool
    places: list[int] = []


@operation("POST /api/bulk/queues/{name}/claims/take", asks=QueueRight.RECEIVE, is_repeatable=True)
class TakeClaim(Operation[Taken], frozen=True, kw_only=True):
    """Take a claim when a reader starts. The request ends the current term and begins the next term.

    If two conditions are true, the reader joins the current term, and no new term begins. First, `driver` must be the
    same as in the request that began the current term. Second, the time `started` of the reader must be before the time
    `asked` of that request. Both times are in seconds, measured by the same clock. `is_new` means that the reader has
    no checkpoint. A reader without a checkpoint is refused if the claim belongs to a query.
    """

    name: QueueName
    claim: BulkName
    driver: BulkName
    started: float
    asked: float
    is_new: bool = False
    part_bytes: Count | UnsetType = UNSET
    epoch: GuidOrNothing = ""


@operation("POST /api/bulk/queues/{name}/claims/keep", asks=QueueRight.RECEIVE, status=204, is_repeatable=True)
class KeepClaim(Operation[None], frozen=True, kw_only=True):
    """Renew the lease of a claim while a reader works on a part of the claim."""

    name: QueueName
    claim: BulkName
    term: Seq = 0
    epoch: GuidOrNothing = ""


@operation("POST /api/bulk/queues/{name}/claims/read", asks=QueueRight.RECEIVE, is_repeatable=True)
class ReadClaim(Operation[Frame], frozen=True, kw_only=True):
    """Read messages of a claimed part in one binary frame. `start` and `stop` are positions in the order of arrival.

    The first message has the position 0. The frame contains the messages from `start` up to, but not including, `stop`.
    If these messages have more than `max_bytes` bytes, the frame contains fewer messages. In the frame, `end` is the
    position after the last message of the frame.
    """

    name: QueueName
    claim: BulkName
    number: Seq
    start: Seq
    stop: Seq
    max_bytes: Count = DEFAULT_READ_BYTES
    epoch: GuidOrNothing = ""
    # The term from TakeClaim; and the query, batch and run that read the part, if known.
    term: Seq = 0
    query: BulkNameOrNothing = ""
    batch: Seq | UnsetType = UNSET
    run: GuidOrNothing = ""


class Returned(Record, frozen=True):
    """Number of messages that were returned to the queue, so that other readers can get them."""

    count: int


@operation("POST /api/bulk/queues/{name}/claims/return", asks=QueueRight.RECEIVE, is_repeatable=True)
class ReturnClaim(Operation[Returned], frozen=True, kw_only=True):
    """Return the messages of a claim to the queue before the lease expires.

    By default, the claim still exists after the request. Further requests of the previous reader are refused until this
    reader takes the claim again with a new term. With `forget`, the request also deletes the claim. Use `forget` if the
    reader will not come back. A request with `forget` is refused while a reader uses the claim.
    """

    name: QueueName
    claim: BulkName
    forget: bool = False


class ClaimObject(Record, frozen=True, kw_only=True):
    """A part that a reader has claimed, or a claim without messages (`count` is 0).

    If the reader of the part is known, `query` and `batch` identify the reader. `term` is the term of the reader (0 if
    the reader has no term). If the part stays claimed after its lease has expired, `held_by` is the reason, otherwise
    `held_by` is empty. `unused_s` is the time in seconds since the last request for the claim. If no request has
    arrived since the start of the daemon, `unused_s` is the time since this start.
    """

    claim: BulkName
    number: int
    count: int
    lease_left_s: float
    queue: str
    bytes: int
    term: int
    query: str
    batch: int | None
    held_by: str
    unused_s: float


Idle = Annotated[bool, Meta(description="Also list claims without messages.")]


class Claims(Record, frozen=True):
    """Claims of one queue, or of all queues."""

    claims: list[ClaimObject]


@operation("GET /api/bulk/queues/{name}/claims", asks=QueueRight.GET_PROPERTIES)
class ListClaims(Operation[Claims], frozen=True, kw_only=True):
    """List the claimed parts of a queue. With `idle`, also list claims without messages."""

    name: QueueName
    idle: Idle = False


@operation("GET /api/bulk/claims", asks=Role.READ)
class ListAllClaims(Operation[Claims], frozen=True, kw_only=True):
    """List the claimed parts of all queues. With `idle`, also list claims without messages."""

    idle: Idle = False


CLAIM_OPERATIONS: Final[tuple[type[Operation[object]], ...]] = (
    *(Claim, TakeClaim, KeepClaim, ReadClaim, ReturnClaim, ListClaims, ListAllClaims),
)
