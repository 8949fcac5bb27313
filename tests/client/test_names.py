"""Queues are named everywhere in the same way."""

import pytest

import waypost
from tests.client import managers
from waypost.errors import IllegalFormatName, InvalidParameter, QueueNotFound

manager, orders = managers.manager, managers.orders


@pytest.mark.parametrize(
    ("name", "format_name", "short"),
    [
        ("orders", r"DIRECT=OS:HOST\PRIVATE$\orders", "orders"),
        (r"private$\orders", r"DIRECT=OS:HOST\PRIVATE$\orders", "orders"),
        (r"Private$\Orders", r"DIRECT=OS:HOST\PRIVATE$\Orders", "Orders"),
        (r".\private$\orders", r"DIRECT=OS:HOST\PRIVATE$\orders", "orders"),
        (r"HOST\private$\orders", r"DIRECT=OS:HOST\PRIVATE$\orders", "orders"),
        (r"host\private$\orders", r"DIRECT=OS:host\PRIVATE$\orders", "orders"),
        ("orders;retry", r"DIRECT=OS:HOST\PRIVATE$\orders;retry", "orders;retry"),
        ("orders;journal", r"DIRECT=OS:HOST\PRIVATE$\orders;JOURNAL", "orders;JOURNAL"),
        ("system$;deadletter", r"DIRECT=OS:HOST\SYSTEM$;DEADLETTER", "system$;deadletter"),
        ("SYSTEM$;DeadXact", r"DIRECT=OS:HOST\SYSTEM$;DEADXACT", "system$;deadxact"),
        ("system$;journal", r"DIRECT=OS:HOST\SYSTEM$;JOURNAL", "system$;journal"),
        (r".\orders", r"DIRECT=OS:HOST\orders", r".\orders"),
        (r"other\private$\orders", r"DIRECT=OS:other\PRIVATE$\orders", r"DIRECT=OS:other\PRIVATE$\orders"),
        (r"direct=tcp:10.0.0.1\private$\x", r"DIRECT=TCP:10.0.0.1\PRIVATE$\x", r"DIRECT=TCP:10.0.0.1\PRIVATE$\x"),
        ("a=b", r"DIRECT=OS:HOST\PRIVATE$\a=b", "a=b"),
    ],
)
def test_a_name_means_a_queue(manager: waypost.Manager, name: str, format_name: str, short: str) -> None:
    queue = manager.queue(name)
    assert queue.format_name == format_name
    assert queue.name == short
    assert manager.queue(short) is manager.queue(queue) is queue


def test_what_a_queue_is_told_of_names_it_too(manager: waypost.Manager, orders: waypost.Queue) -> None:
    assert manager.queue(orders.info()) is orders
    private = orders.info().private_format_name
    assert private is not None
    manager.send(private, "by number")
    assert orders.receive(0).text == "by number"


def test_names_do_not_depend_on_case(manager: waypost.Manager, orders: waypost.Queue) -> None:
    manager.send("ORDERS", "x")
    assert orders.receive(0).text == "x"


@pytest.mark.parametrize(
    "name", ["", "two words", "a,b", r"HOST\private$", "orders;", "system$;lost", "direct=ipx:1", "x" * 200]
)
def test_a_name_that_cannot_be_is_refused_with_its_place(manager: waypost.Manager, name: str) -> None:
    with pytest.raises(IllegalFormatName, match="offset"):
        manager.queue(name)


def test_the_offset_counts_in_what_was_given(manager: waypost.Manager) -> None:
    with pytest.raises(IllegalFormatName) as refused:
        manager.queue("two words")
    assert refused.value.offset == 3
    assert "'two words'" in str(refused.value)


def test_something_else_than_text_is_no_name(manager: waypost.Manager) -> None:
    with pytest.raises(InvalidParameter, match="not int"):
        manager.queue(5)  # type: ignore[arg-type]


def test_a_queue_that_does_not_exist_is_found_out_when_it_is_used(manager: waypost.Manager) -> None:
    queue = manager.queue("nowhere")
    for use in (queue.receive, queue.peek, queue.info, queue.purge, queue.delete, lambda: queue.send("x")):
        with pytest.raises(QueueNotFound, match="nowhere is not a queue of this computer"):
            use()
