"""waypost.msmq reads from hosts that go away, over connections that break at each step, for callers who give up."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

import waypost
from tests.client.msmq_reading import CANCEL, END, OPEN, START, Relay, relay, run, without_remote_read
from tests.daemon.recording import until
from tests.daemon.running import Running, loopback, running
from waypost import aio
from waypost.client.aio_queue import Queue
from waypost.client.transports.msmq.queue_reader import QueueReader
from waypost.client.transports.msmq.reading import Reading
from waypost.client.transports.msmq.transport import AioMsmq
from waypost.errors import (
    HostError,
    LimitReached,
    NotAcknowledged,
    OperationCancelled,
    QueueExists,
    SessionLost,
    SessionRefused,
    SharingViolation,
    Timeout,
)
from waypost.remote.client.reads import Received
from waypost.remote.interfaces.remote_read import RemoteReadAck
from waypost.rpc.pdu import PFC_CONC_MPX

HERE = loopback(12)
ORDERS = rf"DIRECT=TCP:{HERE}\private$\orders"

CREATE_CURSOR, CLOSE_CURSOR = 4, 5

BOTH = pytest.mark.parametrize("protocol", ["RemoteRead", "qm2qm"], indirect=True)


@pytest.fixture
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "qm2qm":
        without_remote_read(monkeypatch)
    return str(request.param)


@asynccontextmanager
async def daemon(tmp_path: Path, *settings: str) -> AsyncIterator[Running]:
    async with running(tmp_path / "alpha", HERE, *settings) as found:
        with suppress(QueueExists):
            await found.manager.create_queue("orders")
        yield found


@asynccontextmanager
async def between(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Running, Relay, Queue]]:
    """A daemon, a relay in front of it, and a queue that is read through the relay."""
    options = {"timeout": 5, **options}
    async with daemon(tmp_path) as found, relay(HERE) as middle, aio.msmq(
        "127.0.0.1", rpc_port=middle.port, **options
    ) as host:  # fmt: skip
        yield found, middle, host.queue(ORDERS)


def transport_of(queue: Queue) -> AioMsmq:
    assert isinstance(queue._transport, AioMsmq)
    return queue._transport


def reader_of(queue: Queue) -> QueueReader:
    return transport_of(queue)._queue(queue.format_name)


async def count(found: Running) -> int:
    return (await found.manager.queue("orders").info()).message_count


# Connections.


@BOTH
def test_waits_go_on_when_the_daemon_starts_again(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with aio.msmq(HERE) as host:
            queue = host.queue("orders")
            async with daemon(tmp_path):
                waiting = [asyncio.create_task(queue.receive()) for _ in range(20)]
                peek = asyncio.create_task(queue.peek(20))
                await asyncio.sleep(0.3)
            await asyncio.sleep(0.3)
            assert not [task for task in (*waiting, peek) if task.done()]
            async with daemon(tmp_path) as found:
                bodies = [str(number) for number in range(21)]
                await found.manager.queue("orders").send_many(bodies)
                received = [(await task).text for task in waiting]
                assert len(set(received)) == 20
                assert (await peek).text in bodies
                assert await count(found) == 1

    run(work())


def test_a_host_that_stays_away_ends_the_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path, timeout=0.4) as (_, middle, queue):
            waiting = asyncio.create_task(queue.receive())
            await middle.seen(START)
            middle.is_down = True
            middle.cut()
            with pytest.raises(SessionRefused):
                await waiting
            # A later read does not wait.
            with pytest.raises(SessionRefused):
                await queue.receive(20)
            middle.is_down = False
            with pytest.raises(Timeout):
                await queue.receive(0)

    run(work())


def test_a_connection_that_breaks_in_a_wait_is_made_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            waiting = asyncio.create_task(queue.receive(20))
            for times in range(1, 4):
                await middle.seen(START, times)
                middle.cut()
            await middle.seen(START, 4)
            await found.manager.send("orders", "42 bolts")
            assert (await waiting).text == "42 bolts"
            assert (middle.connections, await count(found)) == (4, 0)

    run(work())


def test_the_time_of_a_wait_is_not_begun_anew_by_a_break(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (_, middle, queue):
            started = asyncio.get_running_loop().time()
            waiting = asyncio.create_task(queue.receive(0.6))
            await asyncio.sleep(0.4)
            middle.cut()
            with pytest.raises(Timeout):
                await waiting
            assert asyncio.get_running_loop().time() - started < 0.95

    run(work())


def test_a_message_whose_answer_is_lost_is_received_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.queue("orders").send_many(["first", "second"])
            middle.after = {START}
            assert (await queue.receive(5)).text == "first"
            assert (await queue.receive(5)).text == "second"
            assert (middle.opnums.count(START), await count(found)) == (3, 0)

    run(work())


def test_a_message_whose_end_is_lost_on_the_way_back_is_received_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.queue("orders").send_many(["first", "second"])
            middle.after = {END}
            assert (await queue.receive(5)).text == "first"
            assert (await queue.receive(5)).text == "second"
            assert await count(found) == 0

    run(work())


def test_a_message_whose_end_does_not_reach_the_host_comes_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.queue("orders").send_many(["first", "second"])
            middle.before = {END}
            assert (await queue.receive(5)).text == "first"
            again = await queue.receive(5)
            assert again.text == "first"
            assert (await queue.receive(5)).text == "second"
            assert await count(found) == 0

    run(work())


def test_what_may_not_be_done_twice_is_not_repeated(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            await queue.peek(0)
            middle.before = {6}
            with pytest.raises(SessionLost) as lost:
                await queue.purge()
            assert lost.value.is_outcome_unknown
            assert await count(found) == 1
            await queue.purge()
            assert await count(found) == 0

    run(work())


def test_the_place_of_a_cursor_is_lost_with_the_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.queue("orders").send_many(["0", "1", "2"])
            async with queue.cursor() as cursor:
                assert [(await cursor.peek(0)).text, (await cursor.peek_next(0)).text] == ["0", "1"]
                middle.before = {START}
                with pytest.raises(SessionLost):
                    await cursor.peek_next(0)
                assert (await cursor.peek(0)).text == "0"

    run(work())


def test_who_stops_browsing_leaves_no_cursor_at_the_host(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.queue("orders").send_many(["0", "1", "2"])
            browsing = queue.browse()
            assert (await anext(browsing)).text == "0"
            # A message is read when it is asked for.
            assert middle.opnums.count(START) == 1
            await browsing.aclose()  # type: ignore[attr-defined]  # of a generator
            assert (middle.opnums.count(CREATE_CURSOR), middle.opnums.count(CLOSE_CURSOR)) == (1, 1)
            assert [message.text async for message in queue.browse()] == ["0", "1", "2"]
            assert (middle.opnums.count(CREATE_CURSOR), middle.opnums.count(CLOSE_CURSOR)) == (2, 2)
            middle.before = {START}
            with pytest.raises(SessionLost):
                await anext(queue.browse())
            assert not transport_of(queue)._cursors

    run(work())


def test_a_host_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path, timeout=0.3) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            await queue.peek(0)
            middle.held = {6}
            with pytest.raises(NotAcknowledged, match="did not get an answer in time") as late:
                await queue.purge()
            assert late.value.is_outcome_unknown
            middle.held = {START}
            with pytest.raises(NotAcknowledged, match="R_StartReceive"):
                await queue.receive(0.1)

    run(work())


@pytest.mark.parametrize("seed", range(3))
def test_no_message_is_lost_whenever_connections_break_and_callers_give_up(tmp_path: Path, seed: int) -> None:
    messages, readers = 150, 8
    random = Random(seed)
    read: list[str] = []

    async def receive_all(queue: Queue) -> None:
        while len(set(read)) < messages:
            with suppress(TimeoutError, Timeout, HostError):
                async with asyncio.timeout(random.choice([0.005, 0.02, 0.1, 1])):
                    read.append((await queue.receive(random.choice([None, 0.01, 1]))).text)

    async def disturb(middle: Relay) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.01, 0.1))
            where = random.choice([middle.before, middle.after, None])
            if where is None:
                middle.cut()
            else:
                where.add(random.choice([START, END]))

    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            disturbing = asyncio.create_task(disturb(middle))
            reading = [asyncio.create_task(receive_all(queue)) for _ in range(readers)]
            for number in range(messages):
                await found.manager.send("orders", str(number), recoverable=False)
            await asyncio.gather(*reading)
            disturbing.cancel()
            assert set(read) == {str(number) for number in range(messages)}

    run(work())


# Servers that do one call at a time.


def test_a_server_that_does_not_multiplex_gets_a_connection_for_each_call(tmp_path: Path) -> None:
    def plain(bind_ack: bytes) -> bytes:
        return bind_ack[:3] + bytes([bind_ack[3] & ~PFC_CONC_MPX]) + bind_ack[4:]

    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            middle.clears = plain
            waiting = [asyncio.create_task(queue.receive()) for _ in range(5)]
            await middle.seen(START, 5)
            # They are of one association: the handle was opened once.
            assert (middle.connections, middle.opnums.count(OPEN)) == (5, 1)
            waiting.pop().cancel()
            await middle.seen(CANCEL)
            await found.manager.queue("orders").send_many([str(number) for number in range(4)])
            assert sorted([(await task).text for task in waiting]) == ["0", "1", "2", "3"]
            assert await count(found) == 0

    run(work())


def test_many_reads_need_more_than_one_connection(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            waiting = [asyncio.create_task(queue.receive()) for _ in range(300)]
            await middle.seen(START, 300)
            assert (middle.connections, middle.opnums.count(OPEN)) == (3, 1)
            await found.manager.queue("orders").send_many([str(number) for number in range(300)])
            assert sorted([int((await task).text) for task in waiting]) == list(range(300))

    run(work())


def test_there_is_a_limit_for_reads_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.client.transports.msmq.reader.MAX_READS_AT_ONCE", 3)

    async def work() -> None:
        async with between(tmp_path) as (_, middle, queue):
            waiting = [asyncio.create_task(queue.receive(0.5)) for _ in range(3)]
            await middle.seen(START, 3)
            with pytest.raises(LimitReached, match=r"3 reads from .* are in progress, which is the limit"):
                await queue.peek(0)
            for task in waiting:
                with pytest.raises(Timeout):
                    await task

    run(work())


# Callers who give up.


@BOTH
def test_a_cancelled_receive_takes_nothing(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with daemon(tmp_path) as found, aio.msmq(HERE) as host:
            queue = host.queue("orders")
            waiting = [asyncio.create_task(queue.receive()) for _ in range(10)]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await queue.receive()
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            await until(lambda: not host._transport._reader._tasks)
            await found.manager.send("orders", "42 bolts")
            await asyncio.sleep(0.1)
            assert (await found.manager.queue("orders").receive(0)).text == "42 bolts"

    run(work())


def test_a_message_that_comes_for_a_cancelled_receive_goes_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            middle.held = {START}
            receive = asyncio.create_task(queue.receive())
            await middle.has_held()
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            middle.release()
            await until(lambda: middle.acks == [RemoteReadAck.RR_NACK])
            assert (await found.manager.queue("orders").receive(5)).text == "42 bolts"

    run(work())


def test_a_message_that_was_removed_for_a_cancelled_receive_is_for_the_next(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            middle.held = {END}
            receive = asyncio.create_task(queue.receive())
            await middle.has_held()
            assert await count(found) == 0
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            middle.release()
            await until(lambda: len(reader_of(queue)._left) == 1)
            assert (await queue.receive(0)).text == "42 bolts"

    run(work())


def test_what_a_cancelled_receive_of_several_had_taken_is_for_the_next(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.queue("orders").send_many(["0", "1", "2"])
            middle.held = {END}
            receive = asyncio.create_task(queue.receive_many(3))
            await middle.has_held()
            # The first has come then, and the second is on its way.
            middle.release()
            middle.held = {START}
            await middle.has_held()
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            middle.release()
            await until(lambda: not reader_of(queue)._reader._tasks)
            assert [message.text for message in await queue.receive_many(3, 0)] == ["0", "1", "2"]

    run(work())


def test_a_message_that_was_removed_for_a_cancelled_receive_is_for_one_that_waits(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            middle.held = {END}
            receive = asyncio.create_task(queue.receive())
            await middle.has_held()
            other = asyncio.create_task(queue.receive())
            await middle.seen(START, 2)
            receive.cancel()
            middle.release()
            assert (await other).text == "42 bolts"
            # Its own wait is over at the host, too.
            await middle.seen(CANCEL)
            await until(lambda: not reader_of(queue)._reader._tasks)
            await found.manager.send("orders", "7 nuts")
            assert (await found.manager.queue("orders").receive(0)).text == "7 nuts"

    run(work())


def test_a_result_that_nobody_fetches_any_more_is_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receives: list[asyncio.Task[Any]] = []
    original = QueueReader._received

    async def cancelled_at_once(source: QueueReader, reading: Reading) -> Received:
        received = await original(source, reading)
        if receives:
            asyncio.get_running_loop().call_soon(receives.pop().cancel)
        return received

    monkeypatch.setattr(QueueReader, "_received", cancelled_at_once)

    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            receive = asyncio.create_task(queue.receive())
            receives.append(receive)
            await middle.seen(START)
            await found.manager.send("orders", "42 bolts")
            with pytest.raises(asyncio.CancelledError):
                await receive
            assert (await queue.receive(0)).text == "42 bolts"

    run(work())


def test_a_receive_that_is_cancelled_before_the_host_knows_it_leaves_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            middle.held = {OPEN}
            receive = asyncio.create_task(queue.receive())
            await middle.has_held()
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            middle.release()
            await found.manager.send("orders", "42 bolts")
            assert (await queue.receive(0)).text == "42 bolts"
            assert middle.opnums.count(OPEN) == 1

    run(work())


def test_closing_a_queue_ends_its_waits_and_the_next_use_opens_it_anew(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            waiting = [asyncio.create_task(queue.receive()) for _ in range(3)]
            await middle.seen(START, 3)
            await queue.close()
            for task in waiting:
                with pytest.raises(OperationCancelled, match="closed during the read"):
                    await task
            await found.manager.send("orders", "42 bolts")
            assert await count(found) == 1
            assert (await queue.receive(0)).text == "42 bolts"
            await queue.close()
            await queue.close()

    run(work())


def test_closing_does_not_take_a_message_from_who_has_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            middle.held = {END}
            receive = asyncio.create_task(queue.receive())
            await middle.has_held()
            await queue.close()
            middle.release()
            assert (await receive).text == "42 bolts"

    run(work())


def test_a_host_that_is_gone_does_not_hold_up_closing(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path, timeout=0.3) as (_, middle, queue):
            receive = asyncio.create_task(queue.receive())
            await middle.seen(START)
            middle.held = {3, CANCEL}
            await queue.manager.close()
            with pytest.raises(OperationCancelled):
                await receive

    run(work())


# Receiving alone.


@BOTH
def test_two_readers_cannot_both_receive_alone(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with daemon(tmp_path) as found, aio.msmq(HERE) as one, aio.msmq(HERE) as two:
            await found.manager.queue("orders").send_many(["0", "1", "2"])
            first, second = one.queue("orders", exclusive=True), two.queue("orders", exclusive=True)
            assert (await first.receive(0)).text == "0"
            for queue in (second, two.queue("orders"), one.queue("orders")):
                with pytest.raises(SharingViolation):
                    await queue.receive(0)
                # To look is for everybody.
                assert (await queue.peek(0)).text == "1"
            await first.close()
            assert (await second.receive(0)).text == "1"
            with pytest.raises(SharingViolation):
                await first.receive(0)
            # A reader that leaves without closing keeps no lock.
            await two.close()
            await until_received(first, "2")

    async def until_received(queue: Queue, text: str) -> None:
        while True:
            with suppress(SharingViolation):
                assert (await queue.receive(0)).text == text
                return
            await asyncio.sleep(0.01)

    run(work())


def test_who_receives_alone_does_so_when_the_connection_was_made_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            alone = queue.manager.queue(ORDERS, exclusive=True)
            waiting = asyncio.create_task(alone.receive())
            await middle.seen(START)
            middle.cut()
            await middle.seen(START, 2)
            with pytest.raises(SharingViolation):
                await queue.receive(0)
            await found.manager.send("orders", "42 bolts")
            assert (await waiting).text == "42 bolts"

    run(work())


def test_who_gives_up_while_the_queue_is_opened_alone_leaves_it_to_others(tmp_path: Path) -> None:
    async def work() -> None:
        async with between(tmp_path) as (found, middle, queue):
            await found.manager.send("orders", "42 bolts")
            alone = queue.manager.queue(ORDERS, exclusive=True)
            middle.held = {OPEN}
            receive = asyncio.create_task(alone.receive())
            await middle.has_held()
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            middle.release()
            await until(lambda: not transport_of(queue)._reader._tasks)
            async with aio.msmq(HERE) as other:
                assert (await other.queue("orders").receive(0)).text == "42 bolts"

    run(work())


# A daemon in a separate process.


@contextmanager
def process(folder: Path, address: str) -> Iterator[tuple["subprocess.Popen[bytes]", waypost.Manager]]:
    command = [sys.executable, "-P", "-m", "waypost.cli", "serve", "--data", str(folder), "--bind", address]
    command += ["--http-port=0", "--ping-port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as found:
        assert found.stdout is not None
        try:
            ready = json.loads(found.stdout.readline())
            with waypost.connect(f"http://{ready['http']}") as manager:
                yield found, manager
        finally:
            found.kill()


def test_a_thread_that_is_interrupted_takes_nothing_and_one_that_waits_outlives_a_crash(tmp_path: Path) -> None:
    here = loopback(14)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    with ThreadPoolExecutor(1) as pool, waypost.msmq(here) as host:
        queue = host.queue("orders")
        try:
            with process(tmp_path, here) as (daemon, manager):
                manager.create_queue("orders")
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                with pytest.raises(KeyboardInterrupt):
                    queue.receive()
                manager.send("orders", "42 bolts")
                assert manager.queue("orders").receive(5).text == "42 bolts"
                waiting = pool.submit(queue.receive)
                with pytest.raises(Timeout):
                    queue.peek(0.3)
                daemon.kill()
            with process(tmp_path, here) as (_, manager):
                manager.send("orders", "7 nuts")
                assert waiting.result(60).text == "7 nuts"
                assert manager.queue("orders").info().message_count == 0
        finally:
            signal.signal(signal.SIGALRM, before)
