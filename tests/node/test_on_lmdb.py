"""The node on the store that it has in earnest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.rig import EXPRESS, IN_TX, SEND, TX, Rig, contents, letter, transactions
from tests.store.engines import LmdbEngine
from waypost.node.node import Node

FAR = "DIRECT=OS:far\\private$\\orders"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    engine = LmdbEngine(tmp_path)
    yield Rig(engine)
    engine.stop()


def fill(rig: Rig) -> None:
    rig.create("ledger", transactional=True)
    rig.modify("orders", journaling=True)
    for number in range(20):
        rig.send(letter(str(number), priority=number % 8, time_to_be_received=60 + number))
    rig.send("on its way", FAR)
    rig.settle()
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.done(rig.send("committed", "ledger", TX))
    rig.done(rig.commit())
    rig.done(rig.receive())


def everything(node: Node) -> object:
    queues = node.manager.collection.by_number.values()
    return [(str(queue), queue.total_bytes, contents(node, queue)) for queue in queues]


def test_everything_recoverable_is_there_after_a_stop(rig: Rig) -> None:
    fill(rig)
    before, identity = everything(rig.node), rig.node.manager.identity
    rig.send(letter("express", delivery_guarantee=EXPRESS))
    rig.stop()
    assert rig.node.manager.identity == identity
    assert everything(rig.node) == before
    journal = rig.queue().journal
    assert journal is not None
    assert rig.labels(journal) == ["7", "15"]
    assert rig.labels(rig.queue("ledger")) == ["committed"]
    rig.advance(100)
    assert rig.labels() == []


def test_what_was_written_and_not_reported_is_there(rig: Rig) -> None:
    """The process ends behind the disk's back: it has the batch, nobody has the answer."""
    rig.open(access=SEND)
    rig.hold_disk()
    request = rig.send("written")
    rig.turn()
    assert not rig.is_answered(request)
    rig.engine.restart()
    rig._start()
    assert rig.labels() == ["written"]


def test_what_was_never_submitted_is_not(rig: Rig) -> None:
    rig.open(access=SEND)
    rig.send("lost")
    rig.engine.restart()
    rig._start()
    assert rig.labels() == []


def test_a_prepared_transaction_is_in_doubt_after_a_restart(rig: Rig) -> None:
    rig.create("ledger", transactional=True)
    rig.enlist()
    rig.send("sent", "ledger", TX)
    rig.prepare()
    rig.settle()
    before = transactions(rig.node)
    rig.stop()
    assert transactions(rig.node) == before
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_reenlistment_commit(TX, rig.now.wall)
    rig.settle()
    assert rig.message(rig.receive("ledger")).label == "sent"
