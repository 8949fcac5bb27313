"""Transactions of an outside coordinator over a restart: prepared, in doubt, and brought to their end."""

from collections.abc import Callable

import pytest

from tests.node.rig import EXPRESS, IN_TX, OTHER_TX, RECOVERABLE, TX, Rig, letter, transactions
from waypost.core.external_transactions import (
    AbortRequestDone,
    CommitRequestDone,
    EnlistResourceManager,
    PrepareRequestDone,
    Recovery,
    ReenlistmentFailed,
    ReenlistTransaction,
)
from waypost.core.ports import MessagePositionAvailable, MessagePositionDeleted
from waypost.core.positions import PositionState
from waypost.core.queues import AccessType
from waypost.core.system import QueueManagerState
from waypost.core.transaction_records import OperationType
from waypost.errors import MessageLocked, ServiceNotAvailable, Timeout, TransactionSequence
from waypost.node.effects import ToCoordinator
from waypost.store import records
from waypost.store.port import Batch, Table
from waypost.store.records import OperationRecord, TransactionRecord

LOCKED, AVAILABLE = PositionState.LOCKED, PositionState.AVAILABLE
PART = "DIRECT=OS:host\\private$\\orders;part"

Restart = Callable[[Rig], None]
both_restarts = pytest.mark.parametrize("restart", [Rig.stop, Rig.crash])


@pytest.fixture
def rig() -> Rig:
    """An external transaction has received "received", moved "moved" and sent "sent", in this order."""
    rig = Rig()
    rig.create("ledger", transactional=True)
    for label in ("received", "moved", "left"):
        rig.done(rig.send(label))
    rig.enlist()
    rig.done(rig.receive(options=IN_TX))
    rig.open(PART, AccessType.MOVE)
    with rig.node.kernel.operation(rig.now):
        move = rig.node.manager.writing.move_message
        move(rig.queue(), next(iter(rig.queue().positions)) + 1, rig.queue().subqueues["part"], TX, rig.now)
    rig.done(rig.send("sent", "ledger", TX))
    return rig


def prepared(rig: Rig) -> Rig:
    rig.prepare()
    rig.settle()
    assert rig.told[-1] == PrepareRequestDone(TX)
    return rig


def commit(rig: Rig, tx: bytes = TX) -> None:
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_transaction_commit(tx, rig.now.wall)


def reenlistment_commit(rig: Rig, tx: bytes = TX) -> None:
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_reenlistment_commit(tx, rig.now.wall)
    rig.settle()


def reenlistment_abort(rig: Rig, tx: bytes = TX) -> None:
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_reenlistment_abort(tx)
    rig.settle()


def labels(rig: Rig) -> tuple[list[str], list[str], list[str]]:
    """The messages in `orders`, in its subqueue and in `ledger`, in any state."""
    return rig.labels(), rig.labels(rig.queue().subqueues["part"]), rig.labels(rig.queue("ledger"))


def states(rig: Rig) -> list[PositionState]:
    return [queue.positions.state(i) for queue in (rig.queue(), rig.queue("ledger")) for i in queue.positions]


@both_restarts
@pytest.mark.spec(
    "MQDMPR-3.1.1.1-24", "MQDMPR-3.1.1.13-01", "MQDMPR-3.1.1.14-01", "MQDMPR-3.1.1.14-02", "MQDMPR-3.1.3-17"
)
def test_a_prepared_transaction_is_known_with_its_operations(rig: Rig, restart: Restart) -> None:
    before = transactions(prepared(rig).node)
    first, second, _ = rig.queue().positions
    (third,) = rig.queue("ledger").positions
    restart(rig)
    restart(rig)
    assert transactions(rig.node) == before
    transaction = rig.node.manager.transactions.collection[TX]
    assert not transaction.single_phase
    assert [(each.operation_type, each.lookup_id) for each in transaction.operations.values()] == [
        (OperationType.DEQUEUE, first),
        (OperationType.MOVE, second),
        (OperationType.ENQUEUE, third),
    ]
    assert states(rig) == [LOCKED, LOCKED, AVAILABLE, LOCKED]
    rig.settle()
    manager = EnlistResourceManager(rig.node.manager.identity.identifier)
    assert rig.told == [manager, ReenlistTransaction(TX)]
    assert rig.node.external.recovery is Recovery.RECOVERING


@pytest.mark.spec("MQDMPR-3.1.1.1-24", "MQDMPR-3.1.1.14-02", "MQDMPR-3.1.3-18")
def test_only_what_was_prepared_for_two_phases_outlives_the_process(rig: Rig) -> None:
    """An internal transaction, and an external one that has promised nothing yet, are aborted by a restart."""
    rig.done(rig.begin(OTHER_TX))
    rig.done(rig.send("internal", "ledger", OTHER_TX))
    assert rig.node.manager.transactions.collection[OTHER_TX].single_phase
    rig.crash()
    assert not rig.node.manager.transactions.collection
    assert labels(rig) == (["received", "moved", "left"], [], [])
    assert states(rig) == [AVAILABLE, AVAILABLE, AVAILABLE]
    rig.settle()
    assert rig.node.external.recovery is Recovery.RECOVERED


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.4.9-01", "MQDMPR-3.1.3-17")
def test_an_outcome_of_committed_commits_what_was_in_doubt(rig: Rig, restart: Restart) -> None:
    restart(prepared(rig))
    assert labels(rig) == (["received", "moved", "left"], [], ["sent"])
    reenlistment_commit(rig)
    for _ in range(2):
        assert labels(rig) == (["left"], ["moved"], ["sent"])
        assert states(rig) == [AVAILABLE, AVAILABLE]
        assert not rig.node.manager.transactions.collection
        assert not rig.store.keys(Table.TRANSACTIONS)
        assert rig.node.external.recovery is Recovery.RECOVERED
        restart(rig)
    (sent,) = rig.contents(rig.queue("ledger"))
    assert sent.first_in_transaction
    assert sent.last_in_transaction
    assert sent.delivery_guarantee is RECOVERABLE


@both_restarts
@pytest.mark.spec("MQDMPR-3.1.4.10-01", "MQDMPR-3.1.3-17")
def test_an_outcome_of_aborted_aborts_what_was_in_doubt(rig: Rig, restart: Restart) -> None:
    restart(prepared(rig))
    reenlistment_abort(rig)
    for _ in range(2):
        assert labels(rig) == (["received", "moved", "left"], [], [])
        assert states(rig) == [AVAILABLE, AVAILABLE, AVAILABLE]
        assert [message.abort_count for message in rig.contents()] == [1, 1, 0]
        assert not rig.node.manager.transactions.collection
        assert not rig.store.keys(Table.TRANSACTIONS)
        restart(rig)


@pytest.mark.spec("MQDMPR-3.1.1.14-01")
def test_commit_applies_the_operations_in_the_order_that_was_kept(rig: Rig) -> None:
    """The order of recording, which is not that of queues or LookupIdentifiers."""
    rig.done(rig.receive(options=IN_TX))
    prepared(rig).crash()
    manager = rig.node.manager
    first, second, third = rig.queue().positions
    (fourth,) = rig.queue("ledger").positions
    with rig.node.kernel.operation(rig.now):
        manager.transactions.transaction_commit(TX, rig.now.wall)
        order = [
            event.lookup_id if isinstance(event, MessagePositionAvailable) else event.message.lookup_identifier
            for event in manager.positions.events
            if isinstance(event, MessagePositionAvailable | MessagePositionDeleted)
        ]
    assert order == [first, second, fourth, third]


@both_restarts
def test_nobody_reads_what_is_in_doubt_and_nobody_adds_to_it(rig: Rig, restart: Restart) -> None:
    restart(prepared(rig))
    first, *_ = rig.queue().positions
    assert rig.message(rig.peek()).label == "left"
    with pytest.raises(Timeout):
        rig.receive("ledger")
    with pytest.raises(MessageLocked):
        rig.move(first, PART)
    with pytest.raises(TransactionSequence):
        rig.send("more", "ledger", TX)


def test_what_is_promised_to_the_coordinator_is_durable(rig: Rig) -> None:
    rig.hold_disk()
    rig.told.clear()
    rig.prepare()
    rig.settle()
    assert rig.told == []
    rig.write()
    assert rig.told == [PrepareRequestDone(TX)]
    commit(rig)
    rig.settle()
    assert rig.told == [PrepareRequestDone(TX)]
    rig.write()
    assert rig.told == [PrepareRequestDone(TX), CommitRequestDone(TX)]


def test_a_promise_that_was_lost_with_its_batch_was_never_given(rig: Rig) -> None:
    rig.hold_disk()
    rig.prepare()
    rig.turn()
    rig.crash()
    assert not rig.node.manager.transactions.collection
    assert labels(rig) == (["received", "moved", "left"], [], [])


@pytest.mark.parametrize(("written", "after"), [(0, "in doubt"), (1, "committed")])
def test_a_commit_is_there_or_not(rig: Rig, written: int, after: str) -> None:
    prepared(rig).hold_disk()
    commit(rig)
    rig.turn()
    rig.crash(written=written)
    assert (TX in rig.node.manager.transactions.collection) == (after == "in doubt")
    assert labels(rig) == (
        (["received", "moved", "left"], [], ["sent"]) if after == "in doubt" else (["left"], ["moved"], ["sent"])
    )


def test_an_external_transaction_in_one_phase_leaves_nothing_behind(rig: Rig) -> None:
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_transaction_prepare(TX, 1, rig.now.wall)
    rig.settle()
    assert rig.told[-1] == CommitRequestDone(TX)
    rig.crash()
    assert labels(rig) == (["left"], ["moved"], ["sent"])
    assert not rig.store.keys(Table.TRANSACTIONS)


def test_an_abort_leaves_nothing_of_what_was_prepared(rig: Rig) -> None:
    prepared(rig)
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_transaction_abort(TX)
    rig.settle()
    assert rig.told[-1] == AbortRequestDone(TX)
    rig.crash()
    assert labels(rig) == (["received", "moved", "left"], [], [])
    assert not rig.store.keys(Table.TRANSACTIONS)


@pytest.mark.parametrize(("end", "left"), [(reenlistment_commit, ["moved"]), (reenlistment_abort, [])])
def test_a_message_that_was_purged_while_in_doubt_waits_for_the_outcome(
    rig: Rig, end: Callable[[Rig], None], left: list[str]
) -> None:
    prepared(rig)
    rig.done(rig.purge())
    rig.crash()
    assert [rig.queue().positions.state(i) for i in rig.queue().positions] == [PositionState.PURGE_PENDING] * 2
    end(rig)
    assert labels(rig)[:2] == ([], left)
    rig.crash()
    assert labels(rig)[:2] == ([], left)


def test_a_move_to_a_queue_that_was_deleted_while_in_doubt_ends_with_the_message(rig: Rig) -> None:
    prepared(rig)
    rig.done(rig.delete("orders;part"))
    rig.crash()
    reenlistment_commit(rig)
    assert rig.labels() == ["left"]


def test_an_express_message_in_doubt_is_lost_and_the_rest_is_not(rig: Rig) -> None:
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS, priority=7)))
    rig.done(rig.receive(options=IN_TX))
    prepared(rig).crash()
    reenlistment_commit(rig)
    assert labels(rig) == (["left"], ["moved"], ["sent"])


def sent(*labels: str) -> Rig:
    """An external transaction has sent these to `ledger` and is prepared."""
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.enlist()
    for label in labels:
        rig.send(label, "ledger", TX)
    return prepared(rig)


def test_a_committed_send_outlives_the_purge_that_came_between_prepare_and_commit() -> None:
    rig = sent("a")
    rig.done(rig.purge("ledger"))
    commit(rig)
    rig.settle()
    assert rig.labels(rig.queue("ledger")) == ["a"]
    rig.crash()
    assert rig.labels(rig.queue("ledger")) == ["a"]


def test_a_commit_request_that_comes_again_is_answered_only_when_the_commit_is_durable() -> None:
    rig = sent("a")
    rig.hold_disk()
    commit(rig)
    commit(rig)
    rig.settle()
    assert CommitRequestDone(TX) not in rig.told
    rig.release_disk()
    assert rig.told.count(CommitRequestDone(TX)) == 2


def test_nothing_is_left_in_memory_of_messages_that_a_prepared_transaction_sent() -> None:
    rig = Rig()
    rig.create("ledger", transactional=True)
    rig.enlist()
    rig.send_many([b"1", b"2"], "ledger", TX)
    rig.prepare()
    commit(rig)
    rig.settle()
    rig.done(rig.receive_many(2, "ledger"))
    messages = rig.node.messages
    assert not messages._heads
    assert not messages._volatile
    assert not messages._pending


@pytest.mark.spec("MQDMPR-3.1.3-18")
def test_a_single_phase_transaction_in_the_store_is_aborted_at_the_start() -> None:
    rig = Rig()
    lookup_id = rig.message(rig.send("a")).lookup_identifier
    operation = OperationRecord(records.OperationType.DEQUEUE, rig.queue().number, lookup_id, 0, 0x4000)
    batch = Batch()
    batch.put(Table.TRANSACTIONS, TX, TransactionRecord(single_phase=True, operations=[operation]).encode())
    rig.memory.commit(batch, 1_000)
    rig.crash()
    assert not rig.node.manager.transactions.collection
    assert rig.queue().positions.state(lookup_id) is AVAILABLE
    rig.settle()
    assert not rig.store.keys(Table.TRANSACTIONS)


@pytest.mark.spec("MQDMPR-3.1.4.11-01")
def test_a_coordinator_that_cannot_be_asked_stops_the_start_and_nothing_is_decided() -> None:
    rig = Rig()
    rig.enlist()
    rig.done(rig.send("a"))
    rig.done(rig.receive(options=IN_TX))
    rig.prepare()
    rig.settle()
    rig.crash()
    rig.settle()
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_reenlistment_timeout(TX)
    told = [effect.message for effect in rig.node.kernel.take_effects() if isinstance(effect, ToCoordinator)]
    assert [type(message) for message in told] == [ReenlistmentFailed]
    states = [rig.node.manager.state]
    with pytest.raises(ServiceNotAvailable):
        rig.create("another")
    rig.crash()
    assert TX in rig.node.manager.transactions.collection
    states.append(rig.node.manager.state)
    assert states == [QueueManagerState.STOPPED, QueueManagerState.READY]
