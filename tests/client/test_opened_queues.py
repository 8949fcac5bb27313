"""The number of queues that stay open for senders."""

import pytest

import waypost
from tests.client import managers
from waypost.errors import Timeout, TransactionUsage
from waypost.limits import MAX_OPENED_NAME
from waypost.node import opened_queues
from waypost.wire.format_names import FormatName

manager, orders = managers.manager, managers.orders


def handles(manager: waypost.Manager) -> int:
    return len(managers.handles_of(managers.driver_of(manager)))


def test_a_send_that_is_refused_leaves_nothing_open(manager: waypost.Manager) -> None:
    ledger = manager.create_queue("ledger", transactional=True)
    with pytest.raises(TransactionUsage):
        ledger.send("42 bolts")
    assert handles(manager) == 0
    with manager.transaction() as transaction:
        ledger.send("42 bolts", transaction=transaction)
    assert handles(manager) == 1


def test_queues_that_were_sent_to_long_ago_are_closed(
    manager: waypost.Manager, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(opened_queues, "MAX_OPENED_NAMES", 3)
    queues = [manager.create_queue(f"queue{number}") for number in range(7)]
    for _ in range(2):
        for queue in queues:
            queue.send("42 bolts")
    assert handles(manager) == 3
    assert [queue.info().message_count for queue in queues] == [2] * 7


def test_a_long_list_of_queues_is_opened_for_each_send(manager: waypost.Manager) -> None:
    queues = [manager.create_queue(f"queue{number}-{'x' * 40}") for number in range(30)]
    names = ",".join(queue.format_name for queue in queues)
    assert len(names) > MAX_OPENED_NAME
    for count in (1, 2):
        manager.queue(names).send("42 bolts")
        assert handles(manager) == 0
        assert {queue.info().message_count for queue in queues} == {count}


def test_nothing_stays_open_of_a_queue_that_was_deleted(manager: waypost.Manager, orders: waypost.Queue) -> None:
    """Neither of its subqueues and its journal, nor under another name."""
    for name in ("orders", "orders;retry", "orders;journal", orders.info().private_format_name or ""):
        _look(manager.queue(name))
    opened = managers.driver_of(manager).handlers.opened
    assert len(_shared(opened)) == 4
    manager.delete_queue("orders")
    _look(manager.create_queue("invoices"))
    assert [str(name).rpartition("\\")[2] for name in _shared(opened)] == ["invoices"]


def _look(queue: waypost.Queue) -> None:
    with pytest.raises(Timeout):
        queue.receive(0)


def _shared(opened: opened_queues.OpenedQueues) -> list[FormatName]:
    return [name for name, queue in opened._queues.items() if queue.handles]
