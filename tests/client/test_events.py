"""A queue is followed: whoever does so sees what comes, and takes nothing."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import waypost
from tests.client import managers
from tests.client.daemons import Daemon
from tests.client.managers import Beside, opened, until
from waypost.errors import (
    ConnectionLost,
    InvalidParameter,
    LimitReached,
    OperationCancelled,
    QueueNotFound,
    ServiceNotAvailable,
    WaypostError,
)
from waypost.http.settings import HttpSettings

manager, orders, ledger = managers.manager, managers.orders, managers.ledger


def texts(events: Iterator[waypost.Message], count: int) -> list[str | None]:
    return [message.text for message in islice(events, count)]


def test_what_comes_is_seen_in_the_order_of_arrival_and_stays(orders: waypost.Queue) -> None:
    orders.send("old")
    events = orders.events()
    sent = [orders.send("low", priority=0), orders.send("high", priority=7)]
    found = list(islice(events, 2))
    assert [message.text for message in found] == ["low", "high"]
    assert [message.lookup_id for message in found] == [message.lookup_id for message in sent]
    assert (found[0].id, found[0].priority, found[0].body_type) == (sent[0].id, 0, 8)
    orders.send("later")
    assert texts(events, 1) == ["later"]
    assert orders.info().message_count == 4


def test_it_begins_where_it_is_told_to(orders: waypost.Queue) -> None:
    first, *_ = orders.send_many(["1", "2", "3"])
    urgent = orders.send("urgent", priority=7)
    assert texts(orders.events("start"), 4) == ["1", "2", "3", "urgent"]
    assert texts(orders.events(since=first), 3) == ["2", "3", "urgent"]
    assert texts(orders.events(since=first.lookup_id), 3) == ["2", "3", "urgent"]
    assert list(orders.events(urgent, timeout=0)) == []


def test_it_ends_when_nothing_has_come_for_a_while(orders: waypost.Queue) -> None:
    assert list(orders.events(timeout=0)) == []
    assert list(orders.events(timeout=0.05)) == []
    orders.send_many([str(number) for number in range(350)])
    assert [message.text for message in orders.events("start", timeout=0)] == [*map(str, range(350))]


def test_what_a_transaction_sends_comes_with_its_commit(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    events = ledger.events()
    slow, quick = manager.transaction(), manager.transaction()
    ledger.send("first sent", transaction=slow)
    ledger.send("first committed", transaction=quick)
    quick.commit()
    assert texts(events, 1) == ["first committed"]
    slow.commit()
    assert texts(events, 1) == ["first sent"]


def test_a_large_message_comes_whole(orders: waypost.Queue) -> None:
    body = bytes(range(256)) * 8_000
    events = orders.events()
    orders.send(body)
    assert next(iter(events)).body == body


@pytest.mark.parametrize("since", [-1, 1 << 64, 1.5, True, "yesterday", "7", b"start"])
def test_a_place_that_is_none_is_refused(orders: waypost.Queue, since: int) -> None:
    with pytest.raises(InvalidParameter, match="`since` must be a Message, the `lookup_id` of a message"):
        orders.events(since)


def test_a_time_that_is_none_is_refused(orders: waypost.Queue) -> None:
    for timeout in (-1, float("nan")):
        with pytest.raises(InvalidParameter, match="`timeout` must be a number of seconds"):
            orders.events(timeout=timeout)


def test_a_queue_that_is_not_there_is_not_followed(manager: waypost.Manager) -> None:
    with pytest.raises(QueueNotFound):
        manager.queue("nowhere").events()


def test_whoever_follows_hears_that_the_queue_is_gone(orders: waypost.Queue) -> None:
    events = orders.events()
    orders.delete()
    with pytest.raises(QueueNotFound):
        next(iter(events))


def test_closing_the_queue_ends_who_follows_it(orders: waypost.Queue) -> None:
    orders.send("1")
    events = orders.events("start")
    assert texts(events, 1) == ["1"]
    with Beside(next, events) as following:
        orders.close()
    with pytest.raises(OperationCancelled):
        following.result()
    assert texts(orders.events("start"), 1) == ["1"]


def test_closing_the_manager_ends_who_follows(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    events = manager.create_queue("orders").events()
    with Beside(next, events) as following:
        manager.close()
    with pytest.raises(ServiceNotAvailable):
        following.result()


def test_a_host_has_no_events() -> None:
    with waypost.msmq("127.0.0.1", port=9) as host, pytest.raises(InvalidParameter, match="not support 'events of"):
        host.queue("orders").events()


def test_closing_the_connection_ends_who_follows(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data") as daemon:
        manager = waypost.connect(daemon.url)
        events = manager.create_queue("orders").events()
        with Beside(next, events) as following:
            manager.close()
        with pytest.raises(OperationCancelled):
            following.result()
        with pytest.raises(ServiceNotAvailable):
            manager.queue("orders").events()


def test_a_daemon_that_goes_away_is_lost_and_whoever_comes_again_goes_on(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data")
    daemon.start()
    with waypost.connect(daemon.url) as manager:
        orders = manager.create_queue("orders")
        events = orders.events()
        orders.send("1")
        seen = next(iter(events))
        daemon.stop()
        with pytest.raises(WaypostError) as lost:
            next(iter(events))
        assert isinstance(lost.value, ConnectionLost | ServiceNotAvailable)
    daemon.start()
    with waypost.connect(daemon.url) as manager:
        manager.queue("orders").send("2")
        assert texts(manager.queue("orders").events(since=seen), 1) == ["2"]
    daemon.stop()


def test_streams_are_bounded_and_end_with_whoever_follows(tmp_path: Path) -> None:
    with (
        Daemon(tmp_path / "data", HttpSettings(max_streams=1)) as daemon,
        waypost.connect(daemon.url) as manager,
    ):
        orders = manager.create_queue("orders")
        orders.send("1")
        for message in orders.events("start"):
            assert message.text == "1"
            with pytest.raises(LimitReached):
                orders.events()
            break

        def is_free() -> bool:
            try:
                return list(orders.events(timeout=0)) == []
            except LimitReached:
                return False

        until(is_free)
