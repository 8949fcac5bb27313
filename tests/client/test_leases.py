"""Messages under a lease are acknowledged, released, or come back when its time is over."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import waypost
from tests.client import managers
from tests.client.daemons import Daemon
from tests.client.managers import Beside, opened, until
from waypost.api.operations import Receive
from waypost.errors import InvalidParameter, QueueNotFound, Timeout, TransactionSequence, TransactionUsage

manager, orders, ledger = managers.manager, managers.orders, managers.ledger


class Trouble(Exception):
    """An error that a program raises in the middle of its work."""


def test_what_is_acknowledged_is_gone(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b", "c"])
    lease = orders.lease(2, lease_s=30)
    assert [message.text for message in lease] == ["a", "b"]
    assert (len(lease), len(lease.messages), lease.is_open) == (2, 2, True)
    assert [message.text for message in orders.browse()] == ["c"]
    lease.acknowledge()
    assert not lease.is_open
    assert orders.info().message_count == 1


def test_what_is_released_comes_back_at_once(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    orders.lease(2, lease_s=30).release()
    assert [(message.text, message.abort_count) for message in orders.receive_many(5)] == [("a", 1), ("b", 1)]


def test_the_end_of_the_block_acknowledges_and_an_exception_releases(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    with orders.lease(1, lease_s=30):
        pass

    def work() -> None:
        with orders.lease(1, lease_s=30):
            raise Trouble

    with pytest.raises(Trouble):
        work()
    assert [(message.text, message.abort_count) for message in orders.receive_many(5)] == [("b", 1)]
    orders.send("c")
    with orders.lease(1, lease_s=30) as lease:
        lease.release()
    assert orders.info().message_count == 1


def test_a_lease_that_is_over_gives_its_messages_to_others(orders: waypost.Queue) -> None:
    orders.send("a")
    lease = orders.lease(1, lease_s=0.1)
    until(lambda: list(orders.browse()))
    with pytest.raises(TransactionSequence, match="the lease of 1 messages has expired"):
        lease.acknowledge()
    for end in (lease.acknowledge, lease.release):
        with pytest.raises(TransactionSequence, match="the lease is over"):
            end()
    assert orders.receive(0).abort_count == 1


def test_a_lease_ends_once(orders: waypost.Queue) -> None:
    orders.send_many(["a", "b"])
    lease = orders.lease(1, lease_s=30)
    lease.acknowledge()
    with pytest.raises(TransactionSequence, match="the lease is acknowledged"):
        lease.release()
    other = orders.lease(1, lease_s=30)
    other.release()
    with pytest.raises(TransactionSequence, match="the lease is released"):
        other.acknowledge()


def test_the_time_of_a_lease_counts_from_when_its_message_has_come(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:
    with Beside(orders.lease, 1, lease_s=1.0) as leased:
        with pytest.raises(Timeout):
            # The lease would be over if it counted from the beginning of the wait.
            manager.create_queue("nothing").receive(1.2)
        orders.send("a")
    leased.result().acknowledge()
    assert orders.info().message_count == 0


def test_a_lease_waits_as_a_receive_does(orders: waypost.Queue) -> None:
    for timeout in (0, 0.05):
        with pytest.raises(Timeout):
            orders.lease(1, timeout, lease_s=30)
    with Beside(orders.lease, 5, lease_s=30) as leased:
        orders.send("a")
    assert [message.text for message in leased.result()] == ["a"]


def test_what_is_sent_in_the_transaction_of_a_lease_is_sent_when_it_is_acknowledged(
    orders: waypost.Queue, ledger: waypost.Queue
) -> None:
    orders.send_many(["a", "b"])
    for is_kept in (False, True):
        lease = orders.lease(1, lease_s=30)
        assert lease.receipt == lease.transaction.id
        ledger.send("done", transaction=lease.transaction)
        assert not list(ledger.browse())
        if is_kept:
            lease.acknowledge()
        else:
            lease.release()
        assert len(list(ledger.browse())) == is_kept


@pytest.mark.parametrize("lease_s", [0, -1, float("nan"), float("inf"), 3601, "30", None, True])
def test_a_lease_is_a_sensible_number_of_seconds(orders: waypost.Queue, lease_s: float) -> None:
    orders.send("a")
    with pytest.raises(InvalidParameter, match="`lease_s` must be more than 0 and at most 3600 seconds, not"):
        orders.lease(1, 0, lease_s=lease_s)
    for count in (0, -1, 1.5):
        with pytest.raises(InvalidParameter, match="`count` must be a number of messages"):
            orders.lease(count, lease_s=30)  # type: ignore[arg-type]  # on purpose
    assert orders.receive(0).abort_count == 0


def test_a_lease_on_a_queue_that_is_not_there_is_refused(manager: waypost.Manager) -> None:
    with pytest.raises(QueueNotFound):
        manager.queue("nowhere").lease(1, 0, lease_s=30)


def test_closing_the_manager_releases_its_leases(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        manager.create_queue("orders").send("a")
        manager.queue("orders").lease(1, lease_s=30)
    with opened(tmp_path) as manager:
        assert manager.queue("orders").receive(0).abort_count == 1


def test_inside_a_process_the_words_of_http_are_refused_with_a_hint(
    manager: waypost.Manager, orders: waypost.Queue, tmp_path: Path
) -> None:
    """A daemon knows them. The folder keeps this one to itself."""
    assert tmp_path
    orders.send("a")
    for operation in (Receive(name="orders", lease_s=30.0), Receive(name="orders", acknowledge=["x"])):
        with pytest.raises(InvalidParameter, match=r"queue\.lease\(\)"):
            manager.call(operation)
    assert orders.receive(0).abort_count == 0


def test_a_host_without_transactions_has_no_leases() -> None:
    with (
        waypost.msmq("127.0.0.1", port=9) as host,
        pytest.raises(TransactionUsage, match="require a local queue manager"),
    ):
        host.queue("orders").lease(1, lease_s=30)


WORKER = """
import sys, waypost
with waypost.connect(sys.argv[1]) as manager:
    lease = manager.queue("orders").lease(2, lease_s=float(sys.argv[2]))
    print(lease.receipt, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("seconds", ["0.2", "30"])
def test_the_messages_of_a_client_that_was_killed_come_back(tmp_path: Path, seconds: str) -> None:
    with Daemon(tmp_path / "data") as daemon, waypost.connect(daemon.url) as manager:
        orders = manager.create_queue("orders")
        orders.send_many(["a", "b"])
        command = [sys.executable, "-c", WORKER, daemon.url, seconds]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            assert worker.stdin is not None
            assert worker.stdout.readline()
            if seconds == "30":
                # One that ends as it should gives them back at once.
                worker.stdin.close()
                assert worker.wait(60) == 0
            else:
                worker.send_signal(signal.SIGKILL)
        until(lambda: len(list(orders.browse())) == 2)
        assert [(message.text, message.abort_count) for message in orders.receive_many(5)] == [("a", 1), ("b", 1)]
