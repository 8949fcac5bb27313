"""Threads wait for messages and for the disk without standing in each other's way."""

import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread

import pytest

import waypost
from tests.client import managers
from tests.client.managers import Beside, opened, run, send_for_ever, until
from waypost.errors import OperationCancelled, QueueDeleted, ServiceNotAvailable, Timeout

manager, orders = managers.manager, managers.orders


def test_a_receive_waits_for_a_message_of_another_thread(orders: waypost.Queue) -> None:
    with Beside(orders.receive, 60) as waiting:
        time.sleep(0.05)
        assert waiting.is_running
        orders.send("x")
    assert waiting.result().text == "x"


def test_a_receive_without_a_timeout_waits_for_ever(orders: waypost.Queue) -> None:
    with Beside(orders.receive) as waiting:
        time.sleep(0.05)
        orders.send("x", recoverable=False)
    assert waiting.result().text == "x"


def test_peeks_share_what_a_receive_takes(orders: waypost.Queue) -> None:
    with Beside(orders.peek, 60) as one, Beside(orders.peek, 60) as two:
        time.sleep(0.05)
        orders.send("x")
    assert one.result().id == two.result().id == orders.receive(0).id


def test_a_batch_wakes_everybody_it_has_something_for(orders: waypost.Queue) -> None:
    with (
        Beside(orders.receive, 60) as one,
        Beside(orders.receive, 60) as two,
        Beside(orders.receive_many, 5, 60) as three,
    ):
        time.sleep(0.05)
        orders.send_many(["a", "b", "c"])
    got = [one.result().text, two.result().text, *(message.text for message in three.result())]
    assert sorted(got) == ["a", "b", "c"]


def test_everybody_keeps_their_own_time(orders: waypost.Queue) -> None:
    """A wait that ends early, late or never does not disturb the others, whoever serves them."""
    started = time.monotonic()
    times = {}

    def wait(timeout: float) -> None:
        with pytest.raises(Timeout):
            orders.receive(timeout)
        times[timeout] = time.monotonic() - started

    with Beside(orders.receive, 60) as last:
        time.sleep(0.02)
        with Beside(wait, 0.3), Beside(wait, 0.1), Beside(wait, 0.2):
            pass
        assert all(timeout <= took for timeout, took in times.items())
        assert last.is_running
        orders.send("x")
    assert last.result().text == "x"


def test_a_message_expires_while_somebody_waits_for_its_dead_letter(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:  # fmt: skip
    with Beside(manager.queue("system$;deadletter").receive, 60) as waiting:
        time.sleep(0.05)
        orders.send("late", time_to_be_received=1, dead_letter=True)
    assert waiting.result().text == "late"


def test_a_message_that_expired_is_not_received(orders: waypost.Queue) -> None:
    orders.send("late", time_to_be_received=1)
    time.sleep(2.05)
    with pytest.raises(Timeout):
        orders.receive(0)


def test_many_threads_send_and_receive_and_nothing_is_lost_or_doubled(manager: waypost.Manager) -> None:
    orders = manager.create_queue("orders")
    senders, receivers, each = 6, 4, 50
    received: list[str] = []

    def send(number: int) -> None:
        for index in range(each):
            orders.send(f"{number}.{index}", recoverable=index % 3 != 0)

    def receive() -> None:
        while len(received) < senders * each:
            with suppress(Timeout):
                received.append(orders.receive(0.1).text)

    threads = [Thread(target=send, args=(number,)) for number in range(senders)]
    threads += [Thread(target=receive) for _ in range(receivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(received) == sorted(f"{number}.{index}" for number in range(senders) for index in range(each))


def test_threads_that_send_together_are_done_sooner_than_one_after_the_other(orders: waypost.Queue) -> None:
    """They share flushes to disk: all of them return, whoever serves whom."""
    barrier = Barrier(8)

    def send() -> None:
        barrier.wait()
        for _ in range(20):
            orders.send("x")

    threads = [Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert orders.info().message_count == 160


def test_a_long_purge_ends_while_others_wait(manager: waypost.Manager, orders: waypost.Queue) -> None:
    other = manager.create_queue("other")
    orders.send_many([b"x"] * 5000)
    with Beside(other.receive, 60) as waiting:
        time.sleep(0.05)
        orders.purge()
        assert orders.info().message_count == 0
        other.send("x")
    assert waiting.result().text == "x"


def test_deleting_a_queue_ends_the_reads_that_wait_on_it(orders: waypost.Queue) -> None:
    with Beside(orders.receive, 60) as waiting:
        time.sleep(0.05)
        orders.delete()
    with pytest.raises(QueueDeleted):
        waiting.result()


def test_closing_a_queue_object_ends_its_reads(orders: waypost.Queue) -> None:
    with Beside(orders.receive, 60) as waiting:
        time.sleep(0.05)
        orders.close()
    with pytest.raises(OperationCancelled):
        waiting.result()


def test_closing_the_manager_ends_what_waits(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    orders = manager.create_queue("orders")
    with Beside(orders.receive, 60) as waiting:
        time.sleep(0.05)
        manager.close()
    with pytest.raises(OperationCancelled):
        waiting.result()


def test_what_is_being_sent_while_the_manager_closes_is_sent_or_refused(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    orders = manager.create_queue("orders")
    sent: list[str] = []
    with Beside(send_for_ever, orders, "x", sent) as one, Beside(send_for_ever, orders, "y", sent) as two:
        until(lambda: len(sent) > 20)
        manager.close()
    for each in (one, two):
        with pytest.raises(ServiceNotAvailable):
            each.result()
    with opened(tmp_path) as manager:
        assert set(sent) <= {message.id for message in manager.queue("orders").browse()}


def test_a_closed_manager_says_so(tmp_path: Path) -> None:
    manager = opened(tmp_path)
    orders = manager.create_queue("orders")
    transaction = manager.transaction()
    browsing = orders.browse()
    manager.close()
    manager.close()
    uses = (
        lambda: orders.send("x"),
        lambda: orders.receive(0),
        lambda: manager.create_queue("other"),
        lambda: next(browsing),
        orders.info,
        manager.queues,
        manager.transaction,
        transaction.commit,
    )
    for use in uses:
        with pytest.raises(ServiceNotAvailable, match="the queue manager is closed"):
            use()


INTERRUPTED = """
import os, signal, sys, threading, waypost
with waypost.open(sys.argv[1]) as manager:
    orders = manager.create_queue("orders")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        orders.receive()
    except KeyboardInterrupt:
        print("interrupted")
    orders.send("x")
    print(orders.info().message_count, orders.receive(0).text)
"""


def test_ctrl_c_ends_a_wait_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """A read that was still there would take the message that is sent afterwards."""
    done = run(INTERRUPTED, str(tmp_path))
    assert done.stdout.split() == ["interrupted", "1", "x"], done.stderr


FORKED = """
import os, sys, waypost
with waypost.open(sys.argv[1]) as manager:
    orders = manager.create_queue("orders")
    orders.send("x")
    child = os.fork()
    if child == 0:
        try:
            orders.receive(0)
        except waypost.errors.WaypostError as error:
            print(error, flush=True)
    else:
        os.waitpid(child, 0)
        print(orders.receive(0).text)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_child_cannot_use_the_manager_and_does_no_harm(tmp_path: Path) -> None:
    done = run(FORKED, str(tmp_path))
    child, parent = done.stdout.splitlines()
    assert child.startswith("the queue manager belongs to the parent process ")
    assert child.endswith("; open another folder in this process")
    assert parent == "x"


FORGOTTEN = """
import sys, threading, waypost
manager = waypost.open(sys.argv[1])
orders = manager.create_queue("orders")
orders.send("kept")
manager.transaction()
threading.Thread(target=orders.subqueue("other").receive, daemon=True).start()
"""


def test_a_manager_that_nobody_closed_does_not_keep_the_process(tmp_path: Path) -> None:
    done = run(FORGOTTEN, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    with waypost.open(tmp_path) as manager:
        assert manager.queue("orders").receive(0).text == "kept"


BROKEN = """
import signal, sys, waypost
from waypost.core.positions import PositionList
with waypost.open(sys.argv[1]) as manager:
    orders = manager.create_queue("orders")
    orders.send_many(["a", "b"])
    insert = PositionList.insert

    def interrupted(*args):
        insert(*args)
        raise KeyboardInterrupt
    PositionList.insert = interrupted
    try:
        orders.send("half")
    except KeyboardInterrupt:
        pass
    PositionList.insert = insert
    try:
        orders.send("x")
    except waypost.errors.WaypostError as error:
        print(error)
with waypost.open(sys.argv[1]) as manager:
    print(*(message.text for message in manager.queue("orders").browse()))
"""


def test_an_interruption_in_the_middle_of_the_work_stops_it_and_nothing_half_done_is_written(tmp_path: Path) -> None:
    done = run(BROKEN, str(tmp_path))
    assert done.stdout.splitlines() == [
        "the queue manager was interrupted during an operation; close it and open it again",
        "a b",
    ], done.stderr
