"""The same queue manager in an event loop."""

import asyncio
import inspect
import resource
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import waypost
from waypost import aio
from waypost.api.bulk import PlanRange, ReadRange
from waypost.errors import (
    InvalidParameter,
    MessageNotFound,
    OperationCancelled,
    OutcomeUnknown,
    QueueDeleted,
    QueueExists,
    QueueNotFound,
    ServiceNotAvailable,
    SharingViolation,
    StoreFull,
    StoreInUse,
    Timeout,
    TransactionSequence,
)

Test = Callable[[aio.Manager], Awaitable[None]]


def in_loop(test: Test) -> Callable[[Path], None]:
    """Runs a test in an event loop, with a manager on a fresh folder."""

    @wraps(test)
    def run(tmp_path: Path) -> None:
        async def main() -> None:
            async with aio.open(tmp_path, name="HOST") as manager:
                await test(manager)

        asyncio.run(main())

    # pytest gives what the signature asks for.
    run.__signature__ = inspect.signature(lambda tmp_path: None)  # type: ignore[attr-defined]
    return run


async def soon(coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Starts a task, and lets it come to where it waits."""
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(0.05)
    assert not task.done()
    return task


@in_loop
async def test_a_message_goes_through_a_queue(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders", label="incoming")
    sent = await orders.send("42 bolts", label="order", app_tag=7)
    assert (await orders.peek(0)).id == sent.id
    message = await orders.receive()
    assert isinstance(message, waypost.Message)
    assert (message.text, message.label, message.app_tag) == ("42 bolts", "order", 7)
    info = await orders.info()
    assert (info.label, info.message_count) == ("incoming", 0)
    with pytest.raises(Timeout):
        await orders.receive(0)


@in_loop
async def test_queues_are_managed(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    assert await manager.queues() == [orders]
    with pytest.raises(QueueExists):
        await manager.create_queue("orders")
    await orders.set(quota_kb=5, journal=True)
    assert (await orders.info()).quota_kb == 5
    await orders.send_many(["a", "b", "c"])
    assert [message.text async for message in orders.browse()] == ["a", "b", "c"]
    assert [message.text for message in await orders.receive_many(2)] == ["a", "b"]
    assert (await orders.journal.receive(0)).text == "a"
    await orders.move(await orders.peek(0), "orders;retry")
    assert (await orders.subqueue("retry").receive(seek="last")).text == "c"
    with pytest.raises(MessageNotFound):
        await orders.receive(lookup_id=5)
    await orders.send("x")
    await orders.purge()
    assert (await orders.info()).message_count == 0
    await manager.delete_queue("orders")
    with pytest.raises(QueueNotFound):
        await orders.send("x")
    await manager.send(r"winserver01\private$\x", "far")
    (outgoing,) = await manager.outgoing_queues()
    assert (await outgoing.receive(0)).text == "far"


@in_loop
async def test_a_cursor_goes_through_the_queue(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    await orders.send_many(["a", "b", "c"])
    async with orders.cursor() as cursor:
        assert (await cursor.peek(0)).text == "a"
        assert (await cursor.peek_next(0)).text == "b"
        async with manager.transaction() as transaction:
            assert (await cursor.receive(0, transaction=transaction)).text == "b"
    assert [message.text async for message in orders.browse()] == ["a", "c"]


@in_loop
async def test_transactions_commit_and_abort(manager: aio.Manager) -> None:
    ledger = await manager.create_queue("ledger", transactional=True)
    async with manager.transaction() as transaction:
        await ledger.send("kept", transaction=transaction)
        await ledger.send_many(["too"], transaction=transaction)
    with pytest.raises(TransactionSequence, match="is committed"):
        await ledger.send("x", transaction=transaction)

    async def work() -> None:
        async with manager.transaction() as transaction:
            await ledger.receive(0, transaction=transaction)
            raise LookupError

    with pytest.raises(LookupError):
        await work()
    first, second = await ledger.receive_many(5)
    assert (first.text, first.abort_count, second.text) == ("kept", 1, "too")


@in_loop
async def test_a_task_waits_for_a_message_of_another(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    receiving = await soon(orders.receive(10))
    peeking = await soon(orders.peek(10))
    sent = await orders.send("x")
    assert (await receiving).id == sent.id
    peeking.cancel()


@in_loop
async def test_following_ends_when_nothing_comes(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")

    async def send() -> None:
        for number in range(5):
            await orders.send(f"{number}", recoverable=number % 2 == 0)
            await asyncio.sleep(0.01)

    sending = asyncio.create_task(send())
    assert [message.text async for message in orders.follow(0.5)] == ["0", "1", "2", "3", "4"]
    await sending


@in_loop
async def test_everybody_keeps_their_own_time(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    loop = asyncio.get_running_loop()
    started = loop.time()
    ends = []

    async def wait(timeout: float) -> None:
        with pytest.raises(Timeout):
            await orders.receive(timeout)
        ends.append((timeout, loop.time() - started))

    last = await soon(orders.receive(20))
    await asyncio.gather(wait(0.3), wait(0.1), wait(0.2))
    assert [timeout for timeout, _ in ends] == [0.1, 0.2, 0.3]
    assert all(timeout <= took for timeout, took in ends)
    await orders.send("x")
    assert (await last).text == "x"


@in_loop
async def test_a_cancelled_receive_leaves_nothing_behind(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    receiving = await soon(orders.receive())
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(orders.receive(), 0.05)
    await orders.send("x")
    assert (await orders.receive(0)).text == "x"


@in_loop
async def test_many_tasks_lose_and_double_nothing(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    received: list[str] = []

    async def receive() -> None:
        received.extend([message.text async for message in orders.follow(1)])

    receivers = [asyncio.create_task(receive()) for _ in range(5)]
    sends = [orders.send(f"{number}", recoverable=number % 3 != 0) for number in range(300)]
    await asyncio.gather(*sends)
    await asyncio.gather(*receivers)
    assert sorted(received) == sorted(f"{number}" for number in range(300))


@in_loop
async def test_what_is_sent_in_one_turn_is_durable_together(manager: aio.Manager) -> None:
    """No thread is made for it but the one that writes."""
    orders = await manager.create_queue("orders")
    threads = threading.active_count()
    done: list[int] = []

    async def send(number: int) -> None:
        await orders.send(f"{number}")
        done.append(number)

    await asyncio.gather(*(send(number) for number in range(50)))
    assert done == list(range(50))
    assert threading.active_count() == threads


@in_loop
async def test_deleting_and_closing_end_reads(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    receiving = await soon(orders.receive())
    await orders.close()
    with pytest.raises(OperationCancelled):
        await receiving
    receiving = await soon(orders.receive())
    await orders.delete()
    with pytest.raises(QueueDeleted):
        await receiving


@in_loop
async def test_an_exclusive_reader_keeps_others_from_receiving(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    async with manager.queue("orders", exclusive=True) as mine:
        tasks = [asyncio.create_task(mine.receive(1)) for _ in range(2)]
        await asyncio.sleep(0.02)
        with pytest.raises(SharingViolation):
            await orders.receive(0)
        await orders.send_many(["a", "b"])
        assert {(await task).text for task in tasks} == {"a", "b"}


@in_loop
async def test_wrong_values_are_refused(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    with pytest.raises(InvalidParameter):
        await orders.send("x", priority=9)
    with pytest.raises(InvalidParameter):
        await orders.receive(-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'quota'"):
        await manager.create_queue("x", quota=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidParameter, match=r"manager\.transaction"):
        await orders.send("x", transaction=5)  # type: ignore[arg-type]
    await orders.send("x")


def test_a_restart_keeps_what_was_sent_and_both_sides_share_the_folder(tmp_path: Path) -> None:
    async def send() -> str:
        manager = await aio.open(tmp_path, name="HOST")
        orders = await manager.create_queue("orders")
        with pytest.raises(StoreInUse):
            await aio.open(tmp_path)
        message = await orders.send("x")
        await manager.close()
        await manager.close()
        with pytest.raises(ServiceNotAvailable, match="the queue manager is closed"):
            await orders.send("y")
        return message.id

    sent = asyncio.run(send())
    with waypost.open(tmp_path, name="HOST") as manager:
        assert manager.queue("orders").receive(0).id == sent


def test_closing_ends_reads_and_writes_what_is_pending(tmp_path: Path) -> None:
    async def main() -> None:
        manager = await aio.open(tmp_path)
        orders = await manager.create_queue("orders")
        other = await manager.create_queue("other")
        receiving = await soon(other.receive())
        sends = [asyncio.create_task(orders.send(f"{number}")) for number in range(10)]
        await asyncio.sleep(0)
        await manager.close()
        with pytest.raises(OperationCancelled):
            await receiving
        assert len(await asyncio.gather(*sends)) == 10

    asyncio.run(main())
    with waypost.open(tmp_path) as manager:
        assert manager.queue("orders").info().message_count == 10


def test_a_manager_belongs_to_its_loop(tmp_path: Path) -> None:
    async def opened() -> aio.Manager:
        manager = await aio.open(tmp_path)
        await manager.create_queue("orders")
        return manager

    async def misuse(manager: aio.Manager) -> None:
        with pytest.raises(InvalidParameter, match="another event loop"):
            await manager.queue("orders").send("x")

    loop = asyncio.new_event_loop()
    manager = loop.run_until_complete(opened())
    asyncio.run(misuse(manager))
    with pytest.raises(InvalidParameter, match="another event loop"):
        manager.transaction()
    loop.run_until_complete(manager.close())
    loop.close()


def test_when_a_full_disk_has_room_again_everything_goes_on(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def main() -> None:
        async with aio.open(tmp_path) as manager:
            orders = await manager.create_queue("orders")
            receiving = await soon(manager.queue("orders").receive(30))
            resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "data.mdb").stat().st_size, hard))
            with pytest.raises(OutcomeUnknown, match="check the effect of the operation before you repeat it"):
                await asyncio.gather(*(orders.send(bytes(100_000)) for _ in range(20)))
            with pytest.raises(StoreFull):
                await orders.send("x")
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert len((await receiving).body) == 100_000
            await orders.send("after")
            assert (await orders.info()).message_count == 20

    try:
        asyncio.run(main())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@in_loop
async def test_operations_in_bulk_are_asked_for_as_such(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    await orders.send_many([b"a", b"b"])
    plan = await manager.call(PlanRange(name="orders"))
    frame = await manager.call(ReadRange(name="orders", up_to=plan.bounds[-1], epoch=plan.epoch))
    assert (plan.counts, frame.count, frame.is_last) == ([2], 2, True)


@in_loop
async def test_messages_are_leased(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    await orders.send_many(["a", "b", "c"])
    async with await orders.lease(1, lease_s=30) as lease:
        assert [message.text for message in lease] == ["a"]
    released = await orders.lease(1, lease_s=30)
    await released.release()
    with pytest.raises(TransactionSequence, match="the lease is released"):
        await released.acknowledge()
    ended = await orders.lease(2, lease_s=0.1)
    while len([message async for message in orders.browse()]) != 2:
        await asyncio.sleep(0.01)
    with pytest.raises(TransactionSequence, match="the lease of 2 messages has expired"):
        await ended.acknowledge()
    assert [message.abort_count for message in await orders.receive_many(5)] == [2, 1]


@in_loop
async def test_a_lease_that_is_cancelled_while_it_waits_takes_nothing(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    waiting = await soon(orders.lease(1, lease_s=30))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await orders.send("a")
    assert (await orders.receive(0)).abort_count == 0


@in_loop
async def test_a_queue_is_followed(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    events = await orders.events()
    sent = await orders.send("1")
    assert (await anext(events)).id == sent.id
    waiting = await soon(anext(events))  # type: ignore[arg-type]  # it is awaited like one
    await orders.send("2", priority=7)
    assert (await waiting).text == "2"
    assert [message.text async for message in await orders.events("start", timeout=0)] == ["1", "2"]
    assert [message.text async for message in await orders.events(sent, timeout=0.05)] == ["2"]
    assert (await orders.info()).message_count == 2


@in_loop
async def test_following_ends_with_the_queue_or_its_object(manager: aio.Manager) -> None:
    orders = await manager.create_queue("orders")
    closed = await orders.events()
    await orders.close()
    with pytest.raises(OperationCancelled):
        await anext(closed)
    deleted = await orders.events()
    await orders.delete()
    with pytest.raises(QueueNotFound):
        await anext(deleted)
    with pytest.raises(QueueNotFound):
        await orders.events()
