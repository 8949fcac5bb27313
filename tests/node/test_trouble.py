"""While the store cannot write, what would have to be durable is refused, and the rest goes on."""

from collections.abc import Callable

import pytest

from tests.node.rig import EXPRESS, IN_TX, OTHER_TX, RECEIVE, SEND, TX, Rig, letter
from waypost.api.operations import CreateQueue, Receive
from waypost.core.queues import AccessType
from waypost.errors import StoreFull

PART = "DIRECT=OS:host\\private$\\orders;part"
PAID = "DIRECT=OS:host\\private$\\books;paid"


@pytest.fixture
def rig() -> Rig:
    """With two messages in `orders`, of which the first is locked for end_receive, and a transaction that has sent."""
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.create("books", transactional=True)
    for name in ("orders", "ledger", "books"):
        rig.open(name, SEND)
        rig.open(name)
    rig.open(PART, AccessType.MOVE)
    rig.open(PAID, AccessType.MOVE)
    rig.done(rig.send("first"))
    rig.done(rig.send("second"))
    rig.done(rig.begin_receive())
    rig.done(rig.begin())
    rig.done(rig.send("booked", "books", TX))
    rig.done(rig.commit())
    rig.done(rig.begin())
    rig.done(rig.send("third", "ledger", TX))
    # The disk is full, and a batch waits: so the shell learns of it.
    rig.send(letter("waiting", priority=0))
    rig.turn()
    rig.disk_is_held = rig.memory.full = True
    rig.memory.poll()
    rig.node.kernel.trouble = rig.memory.trouble
    return rig


def last(rig: Rig) -> int:
    return list(rig.queue().positions)[1]


REFUSED: dict[str, Callable[[Rig], object]] = {
    "send": lambda rig: rig.send("x"),
    "send_many": lambda rig: rig.send_many([b"x"]),
    "receive": Rig.receive,
    "receive_many": lambda rig: rig.receive_many(2),
    "receive_by_lookup_id": lambda rig: rig.do(Receive(name="orders", lookup_id=str(last(rig)))),
    "end_receive": lambda rig: rig.end_receive(next(iter(rig.queue().positions)), delete=True),
    "purge": Rig.purge,
    "move": lambda rig: rig.move(last(rig), PART),
    "send in a transaction": lambda rig: rig.send("x", "ledger", TX),
    "move in a transaction": lambda rig: rig.move(next(iter(rig.queue("books").positions)), PAID, TX, "books"),
    "commit": Rig.commit,
    "create": lambda rig: rig.create("new"),
    "modify": lambda rig: rig.modify("orders", label="x"),
    "delete": lambda rig: rig.delete(),
}


@pytest.mark.parametrize("operation", REFUSED.values(), ids=REFUSED)
def test_what_has_to_be_durable_is_refused_and_changes_nothing(rig: Rig, operation: Callable[[Rig], object]) -> None:
    labels = rig.labels()
    with pytest.raises(StoreFull):
        operation(rig)
    assert not rig.node.kernel.take_effects()
    assert rig.labels() == labels
    assert TX in rig.node.manager.transactions.collection


GOES_ON: dict[str, Callable[[Rig], int]] = {
    "send express": lambda rig: rig.send(letter("x", delivery_guarantee=EXPRESS)),
    "receive in a transaction": lambda rig: rig.receive(options=IN_TX),
    "begin_receive": Rig.begin_receive,
    "peek": Rig.peek,
    "begin": lambda rig: rig.begin(OTHER_TX),
    "abort": Rig.abort,
    "open": lambda rig: rig.ask("orders", RECEIVE),
}


@pytest.mark.parametrize("operation", GOES_ON.values(), ids=GOES_ON)
def test_the_rest_goes_on(rig: Rig, operation: Callable[[Rig], int]) -> None:
    assert rig.is_answered(operation(rig))


def test_when_there_is_room_again_what_waited_is_answered_and_everything_works(rig: Rig) -> None:
    assert rig.pending == 1
    rig.memory.full = False
    rig.release_disk()
    rig.node.kernel.trouble = rig.memory.trouble
    assert rig.node.kernel.trouble is None
    assert rig.labels() == ["first", "second", "waiting"]
    rig.done(rig.commit())
    rig.done(rig.do(CreateQueue(name="new")))
    rig.crash()
    assert rig.labels(rig.queue("ledger")) == ["third"]
