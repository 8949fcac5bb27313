"""The doctor names queues that are nearly full, and dead-letter, aborted and old messages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import waypost
from tests.client.managers import driver_of
from waypost.api.status import Check
from waypost.client.doctor_queues import look_at, queue_checks, queues_to_look_at

NAMES = ("queue quotas", "dead-letter messages", "aborted messages", "old messages")
DAY = 86_400


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[waypost.Manager]:
    with waypost.open(tmp_path / "data", name="HOST") as found:
        yield found


def checks(manager: waypost.Manager) -> dict[str, Check]:
    return {each.check: each for each in manager.doctor() if each.check in NAMES}


def test_empty_queues_are_well(manager: waypost.Manager) -> None:
    manager.create_queue("orders", quota_kb=1)
    found = checks(manager)
    assert tuple(found) == NAMES
    assert all(each.ok and not each.hint for each in found.values())


def test_a_queue_above_80_percent_of_its_quota_is_named(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders", quota_kb=10)
    orders.send(bytes(7000))
    assert checks(manager)["queue quotas"].ok
    orders.send(bytes(1500))
    found = checks(manager)["queue quotas"]
    part = orders.info().bytes / 10_240
    assert (found.ok, found.message) == (
        False,
        f"queues hold more than 80 % of their quota: orders ({part:.0%} of 10 KB)",
    )
    assert "--quota-kb" in found.hint


def test_a_journal_above_80_percent_of_its_quota_is_named(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders", journal=True, journal_quota_kb=2)
    orders.send(bytes(1600))
    orders.receive(0)
    assert "orders;journal (" in checks(manager)["queue quotas"].message


def test_dead_letter_messages_are_counted(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders")
    orders.send("late", dead_letter=True, time_to_be_received=0)
    manager.queue("system$;deadletter").peek(10)
    found = checks(manager)["dead-letter messages"]
    assert not found.ok
    assert found.message.endswith(": 1 in system$;deadletter")
    assert "waypost message resend 'system$;deadletter'" in found.hint


def test_a_message_that_is_given_back_again_and_again_is_named(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders")
    sent = orders.send("poison")
    for _ in range(5):
        assert checks(manager)["aborted messages"].ok
        transaction = manager.transaction()
        orders.receive(0, transaction=transaction)
        transaction.abort()
    found = checks(manager)["aborted messages"]
    assert not found.ok
    assert f"orders, lookup_id {sent.lookup_id} (5 times)" in found.message


def test_old_messages_are_named_and_journals_are_left_alone(manager: waypost.Manager) -> None:
    for number in range(5):
        queue = manager.create_queue(f"queue-{number}", journal=True)
        queue.send("a")
        queue.send("b")
        queue.receive(0)
    node = driver_of(manager).node
    arrived = manager.queue("queue-0").peek(0).arrived_time.timestamp()
    queues = queues_to_look_at(node)
    assert list(look_at(node, arrived + 6 * DAY, queues)) == []
    found = list(queue_checks(node, list(look_at(node, arrived + 9.5 * DAY, queues))))[-1]
    assert (found.check, found.ok) == ("old messages", False)
    assert found.message.endswith("queue-0 (9 days), queue-1 (9 days), queue-2 (9 days) and 2 more")


def test_the_machine_quota_is_in_the_check_and_in_the_status(manager: waypost.Manager) -> None:
    manager.create_queue("orders").send("a")
    held, quota = manager.status().bytes, manager.status().quota_bytes
    assert quota == 1 << 30
    found = next(each for each in manager.doctor() if each.check == "quota")
    assert found.message == f"all queues together hold {held} bytes, 0% of the machine quota of {quota} bytes"


def test_queues_are_listed_with_one_request_and_the_time_of_their_oldest_message(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders")
    manager.create_queue("empty")
    orders.send("a")
    empty, found = manager.list_queues()
    assert (empty.oldest_time, found.oldest_time) == (None, orders.peek(0).arrived_time)
    assert found == orders.info()
    assert [info.path for info in manager.list_queues(pattern="e*")] == ["HOST\\private$\\empty"]
    assert len(manager.list_queues("system")) == 3
