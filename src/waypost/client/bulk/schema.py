"""The bulk interface of the daemon: every request and answer, for both ends. Paths are under /api/bulk.

    GET    /queues?pattern=&kind=            -> BulkQueues
    GET    /queues/NAME                      -> BulkQueue
    POST   /queues/NAME/plan    PlanRange    -> PlannedRange
    POST   /queues/NAME/read    ReadRange    -> a frame (waypost.client.bulk.frame)
    GET    /queues/NAME/seq?time=            -> SeqAt
    POST   /queues/NAME/remove  RemoveRange  -> Removed
    POST   /queues/NAME/claims  NewClaim     -> Claimed
    POST   /queues/NAME/claims/read ReadClaim -> a frame
    POST   /queues/NAME/claims/return ReturnClaim -> Returned
    GET    /queues/NAME/claims               -> Claims
    POST   /stages              Stage        -> Staged
    POST   /stages/drop         DropStages   -> 204
    POST   /commits             Commit       -> Committed
    GET    /commits?query=                   -> Batches

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

Claims. NewClaim(claim, after) says that everything in the parts up to number `after` was processed, which takes those
messages out of the queue for good, and asks for part `after` + 1: the same as before if there is one, or else the next
messages that nobody holds, which are kept from others until then. A claim survives a restart of the daemon. If nobody
has asked or read under it for `lease_s`, its messages are for others again with `abort_count` raised, and those that
came back `max_aborts` times go to the subqueue `poison`.

Stages. What is staged is on disk and seen by nobody. Commit makes several stages seen in one moment and remembers that
this batch of this query is done for this destination, so that a repetition changes nothing. A repetition has the same
stages, or comes from another `run` of the query; anything else is a second write under the name of the first, and
refused. Other stages of the batch are dropped with the commit. A stage that is neither committed nor dropped within
`lease_s` is gone.
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from waypost.api.forms import BulkName, Count, Guid, GuidOrNothing, Seconds
from waypost.api.properties import MessageProperties, NewMessage
from waypost.client.transports.http.schema import Request

DEFAULT_READ: Final = 10_000
DEFAULT_READ_BYTES: Final = 4 << 20
# How many batches of a query are remembered. A repetition is of the last one.
REMEMBERED_BATCHES: Final = 128

Locked = Literal["wait", "skip"]
# An arrival number has 56 bits.
Seq = Annotated[int, Meta(ge=0, le=(1 << 56) - 1)]


class BulkQueue(Struct, kw_only=True):
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
    # What holds `stable` back, in words, and how many messages behind it would be read otherwise.
    held_by: str = ""
    behind: int = 0


class BulkQueues(Struct):
    queues: list[BulkQueue]


class PlanRange(Request):
    """Ask for the first messages behind `after`, at most so many or so large together by the average of the queue.

    `up_to` is the stable number, or the committed one if locked messages are to be skipped, unless it is given.
    """

    after: Seq = 0
    up_to: Seq | UnsetType = UNSET
    max_messages: Count | UnsetType = UNSET
    max_bytes: Count | UnsetType = UNSET
    # Into how many ranges it is to be divided, of about the same count.
    parts: Count = 1
    locked: Locked = "wait"
    epoch: GuidOrNothing = ""


class PlannedRange(Struct, kw_only=True):
    """Part i is (bounds[i], bounds[i + 1]] and has counts[i] messages now. The last bound is where the plan ends.

    Nothing behind `after` gives one bound, `after` itself, and no counts. A plan without `up_to` that ends short of
    other messages says what holds them back, and how many of them are behind its end.
    """

    epoch: Guid
    bounds: list[int]
    counts: list[int]
    held_by: str = ""
    behind: int = 0


class ReadRange(Request):
    """As many messages of the range as the limits allow, one at least; the frame says how far it has come."""

    up_to: Seq
    after: Seq = 0
    max_messages: Count = DEFAULT_READ
    max_bytes: Count = DEFAULT_READ_BYTES
    locked: Locked = "wait"
    epoch: GuidOrNothing = ""


class SeqAt(Struct):
    """The greatest number of those messages that had arrived before the time, 0 if there are none."""

    seq: int


class RemoveRange(Request):
    """Take the messages of a range out of the queue, as a receive does: at most `max_messages` in one call."""

    up_to: Seq
    after: Seq = 0
    max_messages: Count = DEFAULT_READ
    epoch: GuidOrNothing = ""


class Removed(Struct):
    """How many have gone, and how many of the range are still there: because of the limit, or locked."""

    count: int
    left: int


class NewClaim(Request):
    claim: BulkName
    after: Seq = 0
    # 0 to say what was processed, and to claim nothing.
    max_messages: Annotated[int, Meta(ge=0)] = DEFAULT_READ
    max_bytes: Count | UnsetType = UNSET
    lease_s: Seconds = 3600
    # 0 to let messages come back for ever.
    max_aborts: Annotated[int, Meta(ge=0)] = 5
    epoch: GuidOrNothing = ""


class Claimed(Struct, kw_only=True):
    """The part `number` of a claim; without messages there is none, and `number` is the `after` of the request."""

    number: int
    count: int
    bytes: int
    epoch: Guid


class ReadClaim(Request):
    """Messages of one part, by their places from 0 in the order of arrival: [start, stop) as far as the limits allow.

    In the frame of the answer, `end` is the place behind the last message that it has.
    """

    claim: BulkName
    number: Seq
    start: Seq
    stop: Seq
    max_bytes: Count = DEFAULT_READ_BYTES
    epoch: GuidOrNothing = ""


class ReturnClaim(Request):
    """Give back what is claimed under this id, as the end of its lease does."""

    claim: BulkName


class Returned(Struct):
    count: int


class ClaimObject(Struct, kw_only=True):
    claim: BulkName
    number: int
    count: int
    lease_left_s: float


class Claims(Struct):
    claims: list[ClaimObject]


class StagedMessages(Request):
    """Messages for one queue: bodies that share the properties of `like`, or messages of their own."""

    queue: str
    like: MessageProperties | UnsetType = UNSET
    bodies: list[bytes] = []
    messages: list[NewMessage] = []


class BatchOfQuery(Request, kw_only=True):
    """A batch of a query, as one of its runs writes it.

    `destination` is the queue that all messages are for, or "" if each says where it goes (a column, for Spark). A
    batch without one is committed once, to whatever destination. `run` is a GUID; without one no repetition is known as
    such but by its stages.
    """

    query: BulkName
    batch: Seq
    destination: str | UnsetType = UNSET
    run: GuidOrNothing = ""


class Stage(BatchOfQuery, kw_only=True):
    """Messages in their order, for transactional queues here or anywhere: all of them or none."""

    groups: list[StagedMessages]
    lease_s: Seconds = 3600


class Staged(Struct):
    """`is_committed` if another run has committed the batch: then nothing is kept, and there is no stage."""

    stage: str
    count: int
    is_committed: bool = False


class DropStages(Request):
    """These stages, and all others that the run of a batch has made for it."""

    stages: list[Guid] = []
    batch: BatchOfQuery | UnsetType = UNSET


class Commit(BatchOfQuery, kw_only=True):
    stages: list[Guid]


class Committed(Struct):
    """`is_repeated` if the batch was committed before: then the stages of this request are dropped."""

    count: int
    is_repeated: bool


class Batches(Struct):
    """The last batches of a query that were committed, ascending."""

    batches: list[int]
