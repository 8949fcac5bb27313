"""Every operation that the descriptor of a queue or an owner decides about: who is refused, and who is not.

A case prepares an operation with all rights. The operation is then refused without the right of the case, and works
with it alone. An operation on an object without a descriptor works for the owner of the object, and for everybody else
the object does not exist. The doors run the same table: a queue manager in this process, and a daemon.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from waypost.api.bulk import (
    BatchOfQuery,
    CommitStages,
    DropStages,
    FindSeq,
    ListBatches,
    MessagesToRemove,
    PlanRange,
    PlanRanges,
    RangeOfQueue,
    ReadRange,
    RemoveRange,
    ShowBulkQueue,
    Stage,
    StagedMessages,
)
from waypost.api.claims import Claim, KeepClaim, ListClaims, ReadClaim, ReturnClaim, TakeClaim
from waypost.api.keys import (
    CreateCertificate,
    ImportCertificate,
    ListCertificates,
    RegisterCertificate,
    RemoveCertificate,
)
from waypost.api.operations import (
    AbortTransaction,
    BeginTransaction,
    Browse,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CursorNext,
    CursorPeek,
    CursorReceive,
    DeleteMessage,
    DeleteQueue,
    MoveAll,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Operation,
    Peek,
    PurgeQueue,
    Receive,
    Resend,
    Send,
    SetAcl,
    SetQueue,
    ShowAcl,
    ShowQueue,
)
from waypost.api.properties import MessageProperties
from waypost.api.status import ShowIdentity
from waypost.api.users import SetPassword

R = TypeVar("R")

QUEUE = "orders"
LEDGER = "ledger"
LIKE = MessageProperties(label="one", body_type=8)


class Door(Protocol):
    """A queue manager with the queues orders and ledger, the administrator, and the users alice and bob."""

    def call(self, who: str, operation: Operation[R]) -> R:
        """Call an operation as a user."""

    def queue(self) -> str:
        """The name of the queue of the present case."""


@dataclass(frozen=True)
class Case:
    """`make` prepares the operation for bob, who has all rights meanwhile. `right` is the one that it needs."""

    right: str
    make: Callable[[Door], Operation[Any]]


@dataclass(frozen=True)
class Owned:
    """`make` prepares the operation on an object of alice. `is_silent`: the answer says nothing about the object."""

    make: Callable[[Door], Operation[Any]]
    is_silent: bool = False


def put(door: Door) -> str:
    """The LookupIdentifier of a new message in the queue."""
    door.call("administrator", Send(name=door.queue(), like=LIKE, bodies=[b"a"], answer="ids"))
    found = door.call("administrator", Browse(name=door.queue(), form="packet"))
    return str(lookup_id_of(found.messages[-1]))


def lookup_id_of(message: Any) -> int:
    number: int = message.lookup_identifier
    return number


def opened_cursor(door: Door, who: str = "bob") -> str:
    return door.call(who, OpenCursor(queue=door.queue())).id


def _claimed(door: Door) -> str:
    """A part that bob has claimed."""
    put(door)
    door.call("bob", Claim(name=door.queue(), claim="mine", lease_s=600))
    return "mine"


def _staged(door: Door, who: str = "alice") -> str:
    return door.call(who, _stage()).stage


def _stage() -> Stage:
    return Stage(query="query", batch=0, groups=[StagedMessages(queue=LEDGER, like=LIKE, bodies=[b"a"])])


def _after(prepare: Callable[[Door], Any], make: Callable[[Door], Operation[Any]]) -> Callable[[Door], Operation[Any]]:
    def both(door: Door) -> Operation[Any]:
        prepare(door)
        return make(door)

    return both


def _with_claim(make: Callable[[Door], Operation[Any]]) -> Callable[[Door], Operation[Any]]:
    return _after(_claimed, make)


def _moved(door: Door) -> MoveMessage:
    return MoveMessage(name=door.queue(), lookup_id=int(put(door)), to=f"{door.queue()};retry")


def _resent(door: Door) -> Resend:
    return Resend(name=door.queue(), lookup_id=int(put(door)), to=door.queue(), form="packet")


def begun(door: Door, who: str = "alice") -> str:
    return door.call(who, BeginTransaction(timeout_s=600)).id


def _moved_on(door: Door) -> CursorNext:
    put(door)
    put(door)
    cursor = opened_cursor(door)
    door.call("bob", CursorPeek(identifier=cursor, form="packet"))
    return CursorNext(identifier=cursor, form="packet")


CASES: dict[type[Operation[Any]], Case] = {
    ShowQueue: Case("get-properties", lambda door: ShowQueue(name=door.queue())),
    DeleteQueue: Case("delete", lambda door: DeleteQueue(name=door.queue())),
    SetQueue: Case("set-properties", lambda door: SetQueue(name=door.queue(), label="new")),
    ShowAcl: Case("get-permissions", lambda door: ShowAcl(name=door.queue())),
    SetAcl: Case("set-permissions", lambda door: SetAcl(name=door.queue(), grant=["everyone:send"])),
    PurgeQueue: Case("receive", lambda door: PurgeQueue(name=door.queue())),
    Send: Case("send", lambda door: Send(name=door.queue(), like=LIKE, bodies=[b"a"], answer="ids")),
    Receive: Case("receive", _after(put, lambda door: Receive(name=door.queue(), form="packet"))),
    Peek: Case("peek", _after(put, lambda door: Peek(name=door.queue(), form="packet"))),
    Browse: Case("peek", lambda door: Browse(name=door.queue(), form="packet")),
    DeleteMessage: Case("receive", lambda door: DeleteMessage(name=door.queue(), number=put(door))),
    MoveMessage: Case("receive", _moved),
    MoveAll: Case("receive", lambda door: MoveAll(name=door.queue(), to=f"{door.queue()};retry")),
    Resend: Case("receive,send", _resent),
    OpenQueue: Case("receive", lambda door: OpenQueue(queue=door.queue())),
    OpenCursor: Case("peek", lambda door: OpenCursor(queue=door.queue())),
    CursorPeek: Case("peek", _after(put, lambda door: CursorPeek(identifier=opened_cursor(door), form="packet"))),
    CursorNext: Case("peek", _moved_on),
    CursorReceive: Case(
        "receive", _after(put, lambda door: CursorReceive(identifier=opened_cursor(door), form="packet"))
    ),
    ShowBulkQueue: Case("get-properties", lambda door: ShowBulkQueue(name=door.queue())),
    PlanRange: Case("peek", lambda door: PlanRange(name=door.queue())),
    PlanRanges: Case("peek", lambda door: PlanRanges(ranges=[RangeOfQueue(name=door.queue())])),
    ReadRange: Case("peek", lambda door: ReadRange(name=door.queue(), up_to=9)),
    FindSeq: Case("peek", lambda door: FindSeq(name=door.queue(), time=0)),
    RemoveRange: Case("receive", lambda door: RemoveRange(name=door.queue(), up_to=9)),
    Claim: Case("receive", _after(put, lambda door: Claim(name=door.queue(), claim="new"))),
    TakeClaim: Case(
        "receive", lambda door: TakeClaim(name=door.queue(), claim="c", driver="d", started=1.0, asked=2.0)
    ),
    KeepClaim: Case("receive", _with_claim(lambda door: KeepClaim(name=door.queue(), claim="mine"))),
    ReadClaim: Case(
        "receive", _with_claim(lambda door: ReadClaim(name=door.queue(), claim="mine", number=1, start=0, stop=1))
    ),
    ReturnClaim: Case("receive", _with_claim(lambda door: ReturnClaim(name=door.queue(), claim="mine"))),
    ListClaims: Case("get-properties", lambda door: ListClaims(name=door.queue())),
    Stage: Case("send", lambda _: _stage()),
}

OWNED: dict[type[Operation[Any]], Owned] = {
    CloseQueue: Owned(
        lambda door: CloseQueue(identifier=door.call("alice", OpenQueue(queue=door.queue())).id),
    ),
    CloseCursor: Owned(lambda door: CloseCursor(identifier=opened_cursor(door, "alice"))),
    CommitTransaction: Owned(lambda door: CommitTransaction(identifier=begun(door))),
    AbortTransaction: Owned(lambda door: AbortTransaction(identifier=begun(door))),
    BeginTransaction: Owned(lambda door: BeginTransaction(timeout_s=600), is_silent=True),
    DropStages: Owned(
        lambda door: DropStages(stages=[_staged(door)], batch=BatchOfQuery(query="query", batch=0)), is_silent=True
    ),
    CommitStages: Owned(lambda door: CommitStages(query="query", batch=0, stages=[_staged(door)])),
    ListBatches: Owned(lambda door: ListBatches(query="query"), is_silent=True),
}

# The queue that a case asks about, if it is not that of the door.
QUEUES: dict[type[Operation[Any]], str] = {Stage: LEDGER}


def removing(door: Door) -> CommitStages:
    """A commit that removes a message: it takes the right to receive."""
    lookup_id = int(put(door))
    return CommitStages(
        query="removing", batch=0, stages=[], removes=[MessagesToRemove(queue=door.queue(), lookup_ids=[lookup_id])]
    )


# Operations of every user about itself: tests/http/test_users.py and test_daemon.py have them.
OF_EVERY_USER = frozenset(
    {
        *(SetPassword, ShowIdentity),
        *(ListCertificates, CreateCertificate, RegisterCertificate, ImportCertificate, RemoveCertificate),
    }
)


def decided() -> set[type[Operation[Any]]]:
    """The operations of the record table whose callers are not decided by a role."""
    return {kind for kind in _all(Operation) if "row" in vars(kind) and kind.row.path and kind.row.role is None}


def _all(kind: type[Operation[Any]]) -> Iterator[type[Operation[Any]]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("waypost."):
            yield each
            yield from _all(each)
