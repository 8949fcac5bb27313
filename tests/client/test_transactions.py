"""The operations of a transaction happen together or not at all."""

from pathlib import Path

import pytest

import waypost
from tests.client import managers
from tests.client.managers import opened, until
from waypost.errors import InvalidParameter, MessageLocked, Timeout, TransactionSequence, TransactionUsage

manager, orders, ledger = managers.manager, managers.orders, managers.ledger


class Trouble(Exception):
    """An error that a program raises in the middle of its work."""


def test_a_commit_shows_what_was_sent_to_all_queues(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    other = manager.create_queue("other", transactional=True)
    with manager.transaction() as transaction:
        ledger.send("a", transaction=transaction)
        ledger.send_many(["b", "c"], transaction=transaction)
        other.send("d", transaction=transaction)
        with pytest.raises(Timeout):
            ledger.receive(0)
    received = ledger.receive_many(5)
    assert [message.text for message in received] == ["a", "b", "c"]
    assert [message.first_in_transaction for message in received] == [True, False, False]
    assert [message.last_in_transaction for message in received] == [False, False, True]
    assert all(message.transactional and message.priority == 0 for message in received)
    assert other.receive(0).text == "d"


def test_an_exception_takes_everything_back(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    with manager.transaction() as transaction:
        ledger.send("kept", transaction=transaction)

    def work() -> None:
        with manager.transaction() as transaction:
            assert ledger.receive(0, transaction=transaction).text == "kept"
            ledger.send("lost", transaction=transaction)
            raise Trouble

    with pytest.raises(Trouble):
        work()
    message = ledger.receive(0)
    assert (message.text, message.abort_count) == ("kept", 1)
    assert ledger.info().message_count == 0


def test_a_received_message_is_locked_until_the_outcome(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    transaction = manager.transaction()
    assert [message.text for message in orders.receive_many(1, transaction=transaction)] == ["a"]
    assert [message.text for message in orders.browse()] == ["b"]
    assert orders.info().message_count == 2
    transaction.commit()
    assert not transaction.is_open
    assert orders.info().message_count == 1


def test_a_cursor_receives_in_a_transaction(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    with orders.cursor() as cursor:
        cursor.peek(0)
        assert cursor.peek_next(0).text == "b"
        with manager.transaction() as transaction:
            cursor.receive(0, transaction=transaction)
    assert [message.text for message in orders.browse()] == ["a"]


def test_a_move_in_a_transaction_happens_with_its_commit(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    with manager.transaction() as transaction:
        message = ledger.send("x", transaction=transaction)
    with manager.transaction() as transaction:
        ledger.move(message, "ledger;retry", transaction=transaction)
        assert ledger.subqueue("retry").info().message_count == 0
        with pytest.raises(MessageLocked):
            ledger.move(message, "ledger;other")
    assert ledger.subqueue("retry").receive(0).text == "x"


def test_a_move_in_a_transaction_needs_a_transactional_queue(manager: waypost.Manager, orders: waypost.Queue) -> None:
    message = orders.send("x")
    with manager.transaction() as transaction:
        with pytest.raises(TransactionUsage, match="is not transactional: move without a transaction"):
            orders.move(message, "orders;retry", transaction=transaction)
        assert orders.receive(0).text == "x"


def test_a_transactional_queue_takes_no_other_messages(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    with pytest.raises(TransactionUsage, match="is transactional: send in a transaction"):
        ledger.send("x")
    with pytest.raises(TransactionUsage, match="is transactional: send in a transaction"):
        ledger.send_many(["x"])


def test_other_queues_take_no_transactional_messages(manager: waypost.Manager, orders: waypost.Queue) -> None:
    with manager.transaction() as transaction, pytest.raises(TransactionUsage, match="send without a transaction"):
        orders.send("x", transaction=transaction)


def test_an_ended_transaction_cannot_be_used(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    with manager.transaction() as transaction:
        pass
    uses = (
        transaction.commit,
        transaction.abort,
        lambda: ledger.send("x", transaction=transaction),
        lambda: ledger.receive(0, transaction=transaction),
    )
    for use in uses:
        with pytest.raises(TransactionSequence, match=r"is committed; begin a new one with manager.transaction\(\)"):
            use()


def test_a_transaction_can_be_ended_by_hand_inside_its_block(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    with manager.transaction() as transaction:
        ledger.send("x", transaction=transaction)
        transaction.abort()
    assert ledger.info().message_count == 0


def test_a_transaction_that_rests_too_long_is_aborted(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send("x")
    transaction = manager.transaction(timeout=0.2)
    orders.receive(0, transaction=transaction)
    until(lambda: list(orders.browse()))
    with pytest.raises(TransactionSequence):
        transaction.commit()
    assert not transaction.is_open
    assert orders.receive(0).abort_count == 1


def test_a_read_that_waits_keeps_its_transaction(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send("x")
    transaction = manager.transaction(timeout=0.5)
    orders.receive(0, transaction=transaction)
    with pytest.raises(Timeout):
        orders.receive(1.2, transaction=transaction)
    transaction.commit()
    assert orders.info().message_count == 0


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 3601, "60", True])
def test_the_time_limit_of_a_transaction_is_a_sensible_number(manager: waypost.Manager, timeout: float) -> None:
    with pytest.raises(InvalidParameter, match="the timeout of a transaction must be more than 0 and"):
        manager.transaction(timeout)


def test_a_transaction_of_another_manager_is_refused(manager: waypost.Manager, tmp_path: Path) -> None:
    with opened(tmp_path / "other") as other:
        queue = other.create_queue("ledger", transactional=True)
        with pytest.raises(InvalidParameter, match="belongs to another queue manager"):
            queue.send("x", transaction=manager.transaction())


def test_closing_aborts_what_is_under_way(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        orders = manager.create_queue("orders")
        ledger = manager.create_queue("ledger", transactional=True)
        orders.send("x")
        transaction = manager.transaction()
        orders.receive(0, transaction=transaction)
        ledger.send("y", transaction=transaction)
    with opened(tmp_path) as manager:
        message = manager.queue("orders").receive(0)
        assert (message.text, message.abort_count) == ("x", 1)
        assert manager.queue("ledger").info().message_count == 0
