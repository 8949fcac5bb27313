"""The tests of an embedded queue manager, run on a daemon: `connect` is the same as `open` to whoever uses it."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType

import pytest

import waypost
from tests.client import (
    managers,
    test_aio,
    test_bulk_calls,
    test_events,
    test_leases,
    test_queues,
    test_sending,
    test_sequences,
    test_transactions,
    test_waiting,
)
from tests.client.daemons import Daemon
from waypost import aio

orders, ledger = managers.orders, managers.ledger

FIXTURES = {"manager", "orders", "ledger"}

# These look at the engine, which is in another process here.
EMBEDDED = {"test_what_is_sent_in_one_turn_is_durable_together"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon") / "data") as daemon:
        yield daemon


@pytest.fixture
def empty_daemon(daemon: Daemon) -> Iterator[Daemon]:
    yield daemon
    with waypost.connect(daemon.url) as manager:
        for queue in (*manager.queues(), *manager.outgoing_queues()):
            queue.delete()
        for name in ("deadletter", "deadxact", "journal"):
            manager.queue(f"system$;{name}").purge()


@pytest.fixture
def manager(empty_daemon: Daemon) -> Iterator[waypost.Manager]:
    with waypost.connect(empty_daemon.url) as manager:
        yield manager


def needs_only_a_manager(test: object) -> bool:
    if not isinstance(test, FunctionType) or not test.__name__.startswith("test_"):
        return False
    values: set[str] = set()
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names = mark.args[0]
            values.update([names] if isinstance(names, str) else names)
    needs = inspect.signature(test).parameters.keys()
    return bool(FIXTURES & needs) and needs <= FIXTURES | values


def in_loop(test: test_aio.Test) -> Callable[[Daemon], None]:
    """What test_aio.in_loop does, on a daemon."""

    def run(empty_daemon: Daemon) -> None:
        async def main() -> None:
            async with aio.connect(empty_daemon.url) as manager:
                await test(manager)

        asyncio.run(main())

    return run


TESTS = {
    name: test
    for module in (
        *(test_bulk_calls, test_events, test_leases, test_queues, test_sending),
        *(test_sequences, test_transactions, test_waiting),
    )
    for name, test in vars(module).items()
    if needs_only_a_manager(test)
}
AIO_TESTS = {
    f"{name}_in_a_loop": in_loop(test.__wrapped__)
    for name, test in vars(test_aio).items()
    if hasattr(test, "__wrapped__") and name not in EMBEDDED
}

globals().update(TESTS | AIO_TESTS)


def test_there_is_something_to_compare() -> None:
    assert len(TESTS) > 70
    assert len(AIO_TESTS) > 10
