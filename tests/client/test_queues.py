"""Queues are created, looked at, changed and deleted, and messages read in every way there is."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import waypost
from tests.client import managers
from tests.client.managers import Beside, handles_of, opened
from waypost.errors import (
    AccessDenied,
    DirectoryNotConnected,
    IllegalCursorAction,
    InsufficientResources,
    InvalidParameter,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueExists,
    QueueNotFound,
    SharingViolation,
    Timeout,
    TransactionUsage,
    UnsupportedFormatName,
)

manager, orders = managers.manager, managers.orders

QUEUE_KEYS = ("path", "format_name", "private_format_name", "transactional", "message_count", "bytes", "journal_count")


def texts(messages: list[waypost.Message]) -> list[str]:
    return [message.text for message in messages]


def test_a_queue_has_the_properties_it_was_created_with(manager: waypost.Manager) -> None:
    queue = manager.create_queue(
        "orders",
        transactional=True,
        label="incoming",
        journal=True,
        quota_kb=100,
        journal_quota_kb=50,
        authenticate=True,
        privacy="body",
        type_id="{12345678-9abc-def0-1234-56789abcdef0}",
        multicast="",
    )
    info = queue.info()
    assert (info.path, info.kind, info.label) == (r"HOST\private$\orders", "private", "incoming")
    assert info.transactional
    assert info.journal
    assert info.authenticate
    assert (info.quota_kb, info.journal_quota_kb, info.privacy) == (100, 50, "body")
    assert (info.type_id, info.multicast) == ("12345678-9abc-def0-1234-56789abcdef0", "")
    assert info.created == info.modified


def test_a_queue_without_properties_has_the_defaults(orders: waypost.Queue) -> None:
    info = orders.info()
    assert (info.transactional, info.journal, info.authenticate, info.privacy) == (False, False, False, "optional")
    assert (info.quota_kb, info.journal_quota_kb, info.base_priority, info.label) == (None, None, 0, "")
    assert (info.message_count, info.bytes, info.journal_count, info.subqueues) == (0, 0, 0, ())


def test_a_queue_object_is_json_with_the_keys_of_the_command_line(orders: waypost.Queue) -> None:
    sent = orders.send("x")
    found = json.loads(json.dumps(orders.info().to_dict()))
    assert set(QUEUE_KEYS) <= set(found)
    assert (found["message_count"], found["bytes"]) == (1, sent.size)
    assert "state" not in found


def test_a_queue_is_there_once(manager: waypost.Manager, orders: waypost.Queue) -> None:
    with pytest.raises(QueueExists, match=r"the queue HOST\\private\$\\Orders already exists"):
        manager.create_queue("Orders")


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"label": "x" * 125}, "at most 124 characters"),
        ({"quota_kb": -1}, "`quota_kb` must be a number of kilobytes"),
        ({"journal_quota_kb": "much"}, "`journal_quota_kb` must be a number of kilobytes"),
        ({"privacy": []}, "`privacy` must be none, optional or body"),
        ({"privacy": "full"}, "none, optional or body"),
        ({"base_priority": 1 << 15}, "`base_priority` must be a number from"),
        ({"type_id": "5"}, "`type_id` must be a GUID"),
    ],
)
def test_a_property_that_cannot_be_is_refused(
    manager: waypost.Manager, orders: waypost.Queue, properties: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        manager.create_queue("other", **properties)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=sentence):
        orders.set(**properties)  # type: ignore[arg-type]
    assert manager.queues() == [orders]


def test_multicast_is_refused_until_it_is_offered(manager: waypost.Manager, orders: waypost.Queue) -> None:
    for refused in (
        lambda: manager.create_queue("other", multicast="234.1.1.1:8001"),
        lambda: orders.set(multicast="234.1.1.1:8001"),
    ):
        with pytest.raises(UnsupportedFormatName, match="multicast is not supported yet"):
            refused()
    assert manager.queues() == [orders]


def test_a_property_that_does_not_exist_is_refused_and_the_manager_goes_on(manager: waypost.Manager) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'quota'"):
        manager.create_queue("other", quota=5)  # type: ignore[call-arg]
    manager.create_queue("other").send("x")


@pytest.mark.parametrize(
    "name", ["orders;journal", "system$;deadletter", "PUBLIC=12345678-9abc-def0-1234-56789abcdef0"]
)
def test_some_names_are_not_for_creating(manager: waypost.Manager, name: str) -> None:
    with pytest.raises(InvalidParameter, match="is not a valid name for a new queue"):
        manager.create_queue(name)


def test_public_queues_and_those_of_others_cannot_be_created_here(manager: waypost.Manager) -> None:
    with pytest.raises(DirectoryNotConnected, match="create a private queue"):
        manager.create_queue(r".\orders")
    with pytest.raises(InvalidParameter, match="on another computer"):
        manager.create_queue(r"winserver01\private$\orders")


def test_properties_can_be_changed_but_for_transactional(orders: waypost.Queue) -> None:
    orders.set(label="new", journal=True, quota_kb=7)
    info = orders.info()
    assert (info.label, info.journal, info.quota_kb, info.privacy) == ("new", True, 7, "optional")
    orders.set(quota_kb=None)
    assert orders.info().quota_kb is None
    with pytest.raises(TypeError, match="unexpected keyword argument 'transactional'"):
        orders.set(transactional=True)  # type: ignore[call-arg]


def test_queues_are_listed_by_name_without_those_of_the_manager_itself(manager: waypost.Manager) -> None:
    for name in ("b", "C", "a"):
        manager.create_queue(name)
    assert [queue.name for queue in manager.queues()] == ["a", "b", "C"]


def test_a_deleted_queue_is_gone_and_another_can_take_its_name(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send("lost")
    assert orders.peek(0).text == "lost"
    manager.delete_queue("orders")
    assert manager.queues() == []
    for use in (
        lambda: orders.send("x"),
        lambda: orders.receive(0),
        lambda: orders.peek(0),
        lambda: list(orders.browse()),
    ):
        with pytest.raises(QueueNotFound):
            use()
    again = manager.create_queue("orders")
    orders.send("kept")
    assert again.receive(0).text == "kept"


def test_queues_of_the_manager_itself_cannot_be_deleted_or_sent_to(manager: waypost.Manager) -> None:
    with pytest.raises(InvalidParameter, match="is a journal or a system queue, which applications cannot delete"):
        manager.delete_queue("system$;deadletter")
    with pytest.raises(UnsupportedFormatName, match="supports only reading"):
        manager.send("system$;deadletter", "x")
    with pytest.raises(AccessDenied, match="reserved for the queue manager"):
        manager.send("order_queue$", "x")


def test_receive_takes_messages_by_priority_and_then_in_order(orders: waypost.Queue) -> None:
    for text, priority in (("a", 3), ("b", 7), ("c", 3), ("d", 0)):
        orders.send(text, priority=priority)
    assert texts(list(orders.browse())) == ["b", "a", "c", "d"]
    assert texts(list(orders.follow(0))) == ["b", "a", "c", "d"]


def test_an_empty_queue_raises_timeout(orders: waypost.Queue) -> None:
    for read in (orders.receive, orders.peek, lambda timeout: orders.receive_many(5, timeout)):
        with pytest.raises(Timeout, match="no message arrived in time"):
            read(0)
        started = time.monotonic()
        with pytest.raises(Timeout):
            read(0.05)
        assert time.monotonic() - started >= 0.05
    assert list(orders.browse()) == []


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_a_timeout_is_a_number_of_seconds(orders: waypost.Queue, timeout: float) -> None:
    for read in (orders.receive, orders.peek, orders.cursor().peek, lambda timeout: orders.receive_many(5, timeout)):
        with pytest.raises(InvalidParameter, match="`timeout` must be a number of seconds"):
            read(timeout)


@pytest.mark.parametrize("timeout", [10**400, 1e308, float("inf")])
def test_a_timeout_beyond_all_clocks_waits_for_ever(orders: waypost.Queue, timeout: float) -> None:
    with Beside(orders.receive, timeout) as waiting:
        time.sleep(0.05)
        assert waiting.is_running
        orders.send("x")
    assert waiting.result().text == "x"


@pytest.mark.parametrize("count", [0, -1, 1.0, "2", None, 10**400 * -1])
def test_a_count_is_a_number_from_one(orders: waypost.Queue, count: int) -> None:
    with pytest.raises(InvalidParameter, match="`count` must be a number of messages"):
        orders.receive_many(count, 0)


def test_a_count_may_be_larger_than_any_queue(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    assert texts(orders.receive_many(2**63, 0)) == ["a", "b"]
    orders.send("the manager goes on")


def test_many_messages_are_received_in_order_whatever_their_delivery(orders: waypost.Queue) -> None:
    for number in range(6):
        orders.send(f"{number}", recoverable=number % 2 == 0)
    assert texts(orders.receive_many(4)) == ["0", "1", "2", "3"]
    assert texts(orders.receive_many(4)) == ["4", "5"]
    with pytest.raises(InvalidParameter, match="`count` must be a number of"):
        orders.receive_many(0)


def test_a_peek_leaves_the_message(orders: waypost.Queue) -> None:
    orders.send("x")
    assert orders.peek(0).id == orders.peek(0).id == orders.receive(0).id


def test_messages_are_found_by_their_lookup_ids(orders: waypost.Queue) -> None:
    a, b, c = orders.send_many(["a", "b", "c"])
    assert orders.peek(seek="first").id == a.id
    assert orders.peek(seek="last").id == c.id
    assert orders.peek(lookup_id=b.lookup_id).id == b.id
    assert orders.peek(lookup_id=b.lookup_id, seek="next").id == c.id
    assert orders.peek(lookup_id=b.lookup_id, seek="previous").id == a.id
    assert orders.receive(lookup_id=b.lookup_id).text == "b"
    assert orders.receive(seek="last").text == "c"
    with pytest.raises(MessageNotFound, match="the message does not exist"):
        orders.receive(lookup_id=b.lookup_id)
    with pytest.raises(MessageNotFound):
        orders.peek(lookup_id=a.lookup_id, seek="next")


def test_a_search_needs_something_to_start_from(orders: waypost.Queue) -> None:
    with pytest.raises(InvalidParameter, match="requires the `lookup_id` of the message to start from"):
        orders.peek(seek="next")
    with pytest.raises(InvalidParameter, match="`seek` must be one of first"):
        orders.receive(seek="any")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="`lookup_id` must be a number"):
        orders.receive(lookup_id="5")  # type: ignore[arg-type]


def test_a_message_that_a_cursor_is_on_was_already_received(orders: waypost.Queue) -> None:
    sent = orders.send("a")
    with orders.cursor() as cursor:
        cursor.peek(0)
        orders.receive(0)
        with pytest.raises(MessageAlreadyReceived):
            orders.receive(lookup_id=sent.lookup_id)


def delete_and_miss(manager: waypost.Manager) -> None:
    """Queues that were used, and then are not there."""
    for number in range(5):
        name = f"queue{number}"
        manager.create_queue(name).send("x")
        manager.queue(name).receive(0)
        manager.delete_queue(name)
        for use in (manager.queue(name).info, manager.queue(name).delete, lambda name=name: manager.send(name, "x")):
            with pytest.raises(QueueNotFound):
                use()
        with pytest.raises(QueueNotFound):
            manager.queue(name).set(label="x")


def test_the_manager_keeps_no_objects_of_queues_that_are_not_there(manager: waypost.Manager) -> None:
    queue = manager.queue("a")
    delete_and_miss(manager)
    assert [str(name) for name in manager._queues] == [queue.format_name]


def test_no_queue_that_is_not_there_stays_open(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        delete_and_miss(manager)
        transport: Any = manager._transport
        assert handles_of(transport.driver) == []


def test_a_queue_can_be_closed_after_its_manager(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        orders = manager.create_queue("orders")
        orders.send("x")
    orders.close()


def test_a_cursor_goes_through_the_queue_and_receives_on_the_way(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b", "c"])
    with orders.cursor() as cursor:
        with pytest.raises(IllegalCursorAction):
            cursor.peek_next(0)
        assert cursor.peek(0).text == cursor.peek(0).text == "a"
        assert cursor.peek_next(0).text == "b"
        assert cursor.receive(0).text == "b"
        assert cursor.peek(0).text == "c"
        with pytest.raises(Timeout):
            cursor.peek_next(0)
    assert texts(list(orders.browse())) == ["a", "c"]
    assert cursor.peek(0).text == "a", "it starts again after it was closed"


def test_a_cursor_notices_that_its_message_is_gone(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    with orders.cursor() as cursor:
        cursor.peek(0)
        orders.receive(0)
        with pytest.raises(MessageAlreadyReceived):
            cursor.peek(0)
        assert cursor.peek_next(0).text == "b"


def test_browsing_is_not_disturbed_by_receiving(orders: waypost.Queue) -> None:
    orders.send_many([f"{number}" for number in range(10)])
    seen = []
    for message in orders.browse():
        seen.append(message.text)
        orders.receive(lookup_id=message.lookup_id)
    assert seen == [f"{number}" for number in range(10)]


def test_browsing_can_stop_anywhere_and_outlive_the_manager(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        orders = manager.create_queue("orders")
        orders.send_many(["a", "b"])
        half = orders.browse()
        next(half)
    del half


def test_messages_move_to_subqueues_and_back(manager: waypost.Manager, orders: waypost.Queue) -> None:
    message = orders.send("x")
    retry = orders.subqueue("retry")
    orders.move(message, retry)
    assert orders.info().message_count == 0
    assert orders.info().subqueues == ("retry",)
    moved = manager.queue("orders;retry").peek(0)
    assert (moved.id, moved.move_count) == (message.id, 1)
    retry.move(moved.lookup_id, "orders")
    assert orders.receive(0).move_count == 2
    with pytest.raises(MessageNotFound):
        orders.move(message, retry)
    with pytest.raises(InvalidParameter, match="a Message or the `lookup_id` of a message"):
        orders.move("x", retry)  # type: ignore[arg-type]
    with pytest.raises(QueueNotFound):
        orders.move(message, "nowhere")


def test_a_purge_empties_the_queue(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    orders.purge()
    assert orders.info().message_count == 0


def test_the_journal_keeps_what_was_received(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders", journal=True)
    orders.send("x")
    orders.receive(0)
    assert orders.info().journal_count == 1
    info = orders.journal.info()
    assert (info.path, info.kind) == (r"HOST\private$\orders;journal", "journal")
    assert manager.queue("orders;journal") is orders.journal
    assert orders.journal.receive(0).text == "x"
    with pytest.raises(InvalidParameter, match="has no journal"):
        print(orders.journal.journal)
    with pytest.raises(InvalidParameter, match="has no subqueue"):
        orders.journal.subqueue("x")


def test_an_exclusive_reader_keeps_others_from_receiving(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    with manager.queue("orders", exclusive=True) as mine:
        assert mine.receive(0).text == "a"
        with pytest.raises(SharingViolation):
            orders.receive(0)
        assert orders.peek(0).text == "b"
    assert orders.receive(0).text == "b"
    with pytest.raises(SharingViolation):
        manager.queue("orders", exclusive=True).receive(0)


def test_a_closed_queue_opens_again_when_it_is_used(orders: waypost.Queue) -> None:
    orders.send("x")
    orders.close()
    orders.close()
    assert orders.receive(0).text == "x"


def test_a_message_that_a_transaction_holds_cannot_be_looked_up(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:  # fmt: skip
    sent = orders.send("x")
    with manager.transaction() as transaction:
        orders.receive(0, transaction=transaction)
        with pytest.raises(MessageNotFound):
            orders.receive(lookup_id=sent.lookup_id)
        with pytest.raises(TransactionUsage):
            orders.peek(lookup_id=sent.lookup_id)


def test_things_say_what_they_are(manager: waypost.Manager, orders: waypost.Queue, tmp_path: Path) -> None:
    message = orders.send("x", label="order")
    assert repr(manager) == f"<Manager HOST in {tmp_path / 'data'}>"
    assert repr(orders) == "<Queue orders>"
    assert repr(message) == f"<Message {message.id} 'order', 2 bytes>"
    transaction = manager.transaction()
    assert repr(transaction) == f"<Transaction {transaction.id}, open>"
    transaction.abort()
    assert "aborted" in repr(transaction)


def test_a_message_moves_within_its_queue_only(manager: waypost.Manager, orders: waypost.Queue) -> None:
    """MS-MQRR 3.1.4.10."""
    manager.create_queue("others")
    manager.create_queue("ledger", transactional=True)
    message = orders.send("x")
    for target in ("others", "others;retry", "ledger", "orders"):
        with pytest.raises(InvalidParameter, match="are neither a queue and its subqueue") as refused:
            orders.move(message, target)
        assert "`waypost message resend NAME MESSAGE --to QUEUE`" in refused.value.__notes__[0]
    assert orders.peek(0).id == message.id
    orders.move(message, "orders;one")
    orders.subqueue("one").move(message, "orders;two")
    assert orders.subqueue("two").peek(0).id == message.id


def test_a_message_is_taken_and_sent_to_another_queue(manager: waypost.Manager, orders: waypost.Queue) -> None:
    others = manager.create_queue("others")
    properties = {"label": "order", "priority": 6, "app_tag": 7, "extension": b"e", "time_to_be_received": 900}
    message = orders.send("x", response_queue=["a", "b"], acknowledge="neg-receive", admin_queue="c", **properties)  # type: ignore[arg-type]
    sent = orders.resend(message, "others")
    assert orders.info().message_count == 0
    found = others.peek(0)
    assert found.id == sent.id != message.id
    assert found.to_dict() == sent.to_dict()
    for name in ("body", "body_type", *properties, "response_queues", "admin_queues", "acknowledge", "delivery"):
        assert getattr(found, name) == getattr(message, name), name
    assert (found.destination_queue, found.transactional) == (others.format_name, False)
    again = others.resend(found.lookup_id)
    assert again.destination_queue == others.format_name
    with pytest.raises(MessageNotFound):
        others.resend(found, "orders")
    with pytest.raises(QueueNotFound):
        others.resend(again, "nowhere")
    with pytest.raises(
        InvalidParameter, match="the message to resend must be a Message or the `lookup_id` of a message"
    ):
        others.resend("x")  # type: ignore[arg-type]
    assert [each.id for each in others.browse()] == [again.id]


def test_a_message_is_taken_and_sent_to_several_queues(manager: waypost.Manager, orders: waypost.Queue) -> None:
    others = [manager.create_queue(name) for name in ("one", "two")]
    sent = orders.resend(orders.send("x"), ",".join(queue.format_name for queue in others))
    assert [copy.destination_queue for copy in sent.copies] == [queue.format_name for queue in others]
    for queue, copy in zip(others, sent.copies, strict=True):
        assert queue.receive(lookup_id=copy.lookup_id).id == sent.id
    assert orders.info().message_count == 0


def test_a_message_is_sent_again_as_the_kind_that_it_is(manager: waypost.Manager, orders: waypost.Queue) -> None:
    ledger, books = (manager.create_queue(name, transactional=True) for name in ("ledger", "books"))
    plain = orders.send("plain")
    with manager.transaction() as transaction:
        booked = ledger.send("booked", transaction=transaction)
    with pytest.raises(TransactionUsage, match="ledger is transactional, but the message was not sent"):
        orders.resend(plain, "ledger")
    with pytest.raises(TransactionUsage, match="orders is not transactional, but the message was sent"):
        ledger.resend(booked, "orders")
    assert [queue.info().message_count for queue in (orders, ledger, books)] == [1, 1, 0]
    sent = ledger.resend(booked, "books")
    found = books.receive(0)
    assert (found.id, found.transactional, found.first_in_transaction, found.last_in_transaction) == (
        sent.id,
        *[True] * 3,
    )
    assert ledger.info().message_count == 0


def test_what_is_too_large_for_the_other_queue_stays(manager: waypost.Manager) -> None:
    ledger = manager.create_queue("ledger", transactional=True)
    manager.create_queue("small", transactional=True, quota_kb=1)
    with manager.transaction() as transaction:
        booked = ledger.send(b"x" * 2000, transaction=transaction)
    with pytest.raises(InsufficientResources):
        ledger.resend(booked, "small")
    assert ledger.receive(0).id == booked.id


def test_the_base_priority_of_a_private_queue_stays_0_and_setting_it_says_so(manager: waypost.Manager) -> None:
    """MS-MQMQ 2.3.1.6."""
    sentence = "`base_priority` has no effect, because it is always 0 for a private queue"
    with pytest.warns(UserWarning, match=sentence):
        orders = manager.create_queue("orders", label="incoming", base_priority=-3)
    assert (orders.info().label, orders.info().base_priority) == ("incoming", 0)
    with pytest.warns(UserWarning, match=sentence):
        orders.set(label="changed", base_priority=7)
    assert (orders.info().label, orders.info().base_priority) == ("changed", 0)
    orders.set(base_priority=0)


def test_to_look_into_a_subqueue_does_not_make_it(manager: waypost.Manager, orders: waypost.Queue) -> None:
    retry = orders.subqueue("retry")
    with pytest.raises(Timeout):
        retry.peek(0)
    assert list(retry.browse()) == []
    assert orders.info().subqueues == ()
    retry.close()
    with pytest.raises(QueueNotFound):
        retry.info()
    orders.move(orders.send("x"), retry)
    assert orders.info().subqueues == ("retry",)
    assert retry.peek(0).text == "x"


def test_queues_are_listed_by_kind_and_pattern(manager: waypost.Manager, orders: waypost.Queue) -> None:
    manager.create_queue("offers")
    manager.send(r"DIRECT=TCP:192.0.2.1\private$\far", "x")
    outgoing = manager.queues(kind="outgoing")
    assert [queue.info().kind for queue in outgoing] == ["outgoing"]
    assert outgoing[0].receive(0).text == "x"
    assert [queue.name for queue in manager.queues(pattern="ord*")] == ["orders"]
    assert {queue.name for queue in manager.queues(kind="system")} >= {"system$;deadletter", "system$;deadxact"}
    everything = [queue.format_name for queue in manager.queues(kind="all")]
    assert {*everything} > {queue.format_name for queue in (orders, *outgoing, *manager.queues(kind="system"))}
    with pytest.raises(InvalidParameter, match=r"kind.*'foreign'"):
        manager.queues(kind="foreign")  # type: ignore[arg-type]  # on purpose
