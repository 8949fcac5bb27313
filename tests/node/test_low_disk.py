"""While only the reserve of the disk is left, nothing new is stored, and all that makes room goes on."""

from collections.abc import Callable

import pytest

from tests.node.rig import EXPRESS, IN_TX, RECEIVE, SEND, TX, Rig, direct, letter
from waypost.api.operations import Receive, Resend
from waypost.core.queues import AccessType
from waypost.errors import InsufficientResources, StoreFull
from waypost.hresult import HResult
from waypost.node.bulk_writing import BulkWriting
from waypost.node.shortages import shortages
from waypost.node.stages import Batch, Group
from waypost.store.port import Room

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
    rig.memory.low = True
    rig.memory.poll()
    rig.node.kernel.room = rig.memory.room
    return rig


def last(rig: Rig) -> int:
    return list(rig.queue().positions)[1]


REFUSED: dict[str, Callable[[Rig], object]] = {
    "send": lambda rig: rig.send("x"),
    "send_many": lambda rig: rig.send_many([b"x"]),
    "send in a transaction": lambda rig: rig.send("x", "ledger", TX),
    "move": lambda rig: rig.move(last(rig), PART),
    "move in a transaction": lambda rig: rig.move(next(iter(rig.queue("books").positions)), PAID, TX, "books"),
    "resend": lambda rig: rig.do(Resend(name="orders", lookup_id=str(last(rig)))),
    "create": lambda rig: rig.create("new"),
    "stage": lambda rig: BulkWriting(rig.node).stage_groups(
        rig.call(), Batch("query", 1, direct("ledger")), [Group(direct("ledger"), letter("like"), [b"x"])], 60
    ),
}


@pytest.mark.parametrize("operation", REFUSED.values(), ids=REFUSED)
def test_what_stores_something_is_refused_and_is_never_there(rig: Rig, operation: Callable[[Rig], object]) -> None:
    labels = {name: rig.labels(rig.queue(name)) for name in ("orders", "ledger", "books")}
    with pytest.raises(StoreFull, match="nothing was stored") as refused:
        operation(rig)
    assert refused.value.hresult is HResult.MQ_ERROR_INSUFFICIENT_RESOURCES
    assert not rig.node.kernel.take_effects()
    rig.memory.low = False
    rig.memory.poll()
    rig.node.kernel.room = rig.memory.room
    rig.settle()
    rig.crash()
    del labels["orders"]
    assert {name: rig.labels(rig.queue(name)) for name in labels} == labels | {"ledger": []}
    assert rig.labels() == ["first", "second"]


GOES_ON: dict[str, Callable[[Rig], int]] = {
    "receive": Rig.receive,
    "receive_many": lambda rig: rig.receive_many(2),
    "receive in a transaction": lambda rig: rig.receive(options=IN_TX),
    "commit": Rig.commit,
    "abort": Rig.abort,
    "purge": Rig.purge,
    "begin_receive": Rig.begin_receive,
    "end_receive": lambda rig: rig.end_receive(next(iter(rig.queue().positions)), delete=True),
    "peek": Rig.peek,
    "send express": lambda rig: rig.send(letter("x", delivery_guarantee=EXPRESS)),
    "open": lambda rig: rig.ask("orders", RECEIVE),
}


@pytest.mark.parametrize("operation", GOES_ON.values(), ids=GOES_ON)
def test_what_makes_room_and_what_needs_none_goes_on(rig: Rig, operation: Callable[[Rig], int]) -> None:
    request = operation(rig)
    rig.settle()
    assert rig.is_answered(request)
    assert not isinstance(rig.answers[request], Exception)


def test_a_message_by_its_number_and_a_queue_go_on(rig: Rig) -> None:
    rig.done(rig.do(Receive(name="orders", lookup_id=str(last(rig)))))
    rig.done(rig.delete("books"))
    rig.modify("orders", label="x")
    assert rig.queue().attributes.label == "x"


def test_a_receive_leaves_its_copy_in_the_journal(rig: Rig) -> None:
    rig.modify("orders", journaling=True)
    rig.done(rig.receive())
    journal = rig.queue().journal
    assert journal is not None
    assert rig.labels(journal) == ["second"]


def test_what_was_admitted_counts_until_it_is_durable() -> None:
    rig = Rig()
    rig.open("orders", SEND)
    rig.create("ledger", transactional=True)
    rig.hold_disk()
    rig.node.kernel.room = Room("the disk", 20_000, 20_000, 1000)
    rig.send_many([bytes(3000)])
    with pytest.raises(StoreFull):
        rig.send_many([bytes(6000)])
    rig.turn()
    with pytest.raises(StoreFull):
        rig.send_many([bytes(6000)])
    rig.release_disk()
    rig.send_many([bytes(6000)])
    rig.settle()
    rig.done(rig.begin())
    rig.done(rig.send(letter("x", body=bytes(6000)), "ledger", TX))
    with pytest.raises(StoreFull):
        rig.send_many([bytes(6000)])
    rig.done(rig.abort())
    rig.send_many([bytes(6000)])
    rig.settle()
    assert len(rig.queue().positions) == 3


def test_the_machine_quota_refuses_in_words_until_there_is_room() -> None:
    rig = Rig()
    rig.node.manager.positions.quota = 8
    while not shortages(rig.node):
        try:
            rig.done(rig.send(letter("x", body=bytes(1500))))
        except InsufficientResources as error:
            assert "quotas.machine_kb" in str(error)
            assert "nothing was stored" in str(error)
    count = len(rig.queue().positions)
    (sentence,) = shortages(rig.node)
    assert "of the machine quota of 8 KB (quotas.machine_kb)" in sentence
    rig.done(rig.receive())
    assert shortages(rig.node) == []
    rig.done(rig.send(letter("x", body=bytes(1500))))
    rig.crash()
    assert len(rig.queue().positions) == count
