"""waypost.msmq reads the queues of daemons: over both protocols, from threads and in a loop, with and without users."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import waypost
from tests.client.msmq_reading import OPEN, START, relay, run, without_remote_read
from tests.daemon.recording import until
from tests.daemon.running import Running, loopback, running
from waypost import aio
from waypost.client.aio_host import Host as AioHost
from waypost.client.host import Host
from waypost.client.queue import Queue
from waypost.core.queues import AccessType
from waypost.errors import (
    AccessDenied,
    AuthenticationFailed,
    HostUnreachable,
    IllegalCursorAction,
    InvalidParameter,
    MessageAlreadyReceived,
    MessageNotFound,
    OperationCancelled,
    QueueDeleted,
    QueueNotFound,
    ServiceNotAvailable,
    SessionRefused,
    Timeout,
    TransactionUsage,
    UnsupportedAccessMode,
    UnsupportedFormatName,
    WaypostError,
)
from waypost.node.remote_reading import RemoteReading

HERE = loopback(11)
USERS = "CORP:alice:s3cret\nCORP:bob:pw\n"

BOTH = pytest.mark.parametrize("protocol", ["RemoteRead", "qm2qm"], indirect=True)


@pytest.fixture
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "qm2qm":
        without_remote_read(monkeypatch)
    return str(request.param)


@asynccontextmanager
async def daemon(tmp_path: Path, *settings: str) -> AsyncIterator[Running]:
    async with running(tmp_path / "alpha", HERE, *settings) as found:
        await found.manager.create_queue("orders", journal=True)
        yield found


def blocking(tmp_path: Path, work: Callable[[waypost.Manager, Any], None], *settings: str, **options: Any) -> None:
    """Does `work` in a thread, with a manager for the daemon's thread and a host for it."""

    async def main() -> None:
        async with daemon(tmp_path, *settings) as found:
            loop = asyncio.get_running_loop()

            class Manager:
                """Asks the loop of the daemon."""

                def send(self, *args: Any, **kwargs: Any) -> Any:
                    return asyncio.run_coroutine_threadsafe(found.manager.send(*args, **kwargs), loop).result(60)

                def count(self, name: str) -> int:
                    info = asyncio.run_coroutine_threadsafe(found.manager.queue(name).info(), loop).result(60)
                    return info.message_count

            def in_thread() -> None:
                with waypost.msmq(HERE, **options) as host:
                    work(Manager(), host)  # type: ignore[arg-type]

            await asyncio.to_thread(in_thread)

    run(main())


@BOTH
def test_a_message_comes_with_all_that_was_said_of_it(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with daemon(tmp_path) as found, aio.msmq(HERE) as host:
            sent = await found.manager.send(
                "orders",
                "42 bolts",
                label="order",
                priority=6,
                app_tag=7,
                extension=b"ext",
                response_queue="answers",
                time_to_be_received=3600,
                time_to_reach_queue=1800,
            )
            there = await found.manager.queue("orders").peek(0)
            queue = host.queue(r"private$\orders")
            for message in (await queue.peek(0), await queue.receive(0)):
                assert (message.id, message.lookup_id) == (sent.id, there.lookup_id)
                ours, theirs = message.to_dict(), there.to_dict()
                assert ours == theirs
                assert message.packet == there.packet
                assert (message.time_to_reach_queue, message.time_to_be_received) == (1800, 3600)
            assert (await found.manager.queue("orders").info()).message_count == 0
            with pytest.raises(Timeout, match="orders received no message in time"):
                await queue.receive(0)

    run(work())


@BOTH
def test_queues_are_browsed_and_messages_looked_up(tmp_path: Path, protocol: str) -> None:
    def work(manager: Any, host: Any) -> None:
        queue = host.queue("orders")
        assert list(queue.browse()) == []
        with pytest.raises(MessageNotFound):
            queue.peek(seek="first")
        for number in range(5):
            manager.send("orders", str(number))
        found = list(queue.browse())
        assert [message.text for message in found] == ["0", "1", "2", "3", "4"]
        middle = found[2].lookup_id
        assert queue.peek(lookup_id=middle).text == "2"
        assert queue.peek(lookup_id=middle, seek="next").text == "3"
        assert queue.peek(lookup_id=middle, seek="previous").text == "1"
        assert (queue.peek(seek="first").text, queue.peek(seek="last").text) == ("0", "4")
        assert queue.receive(lookup_id=middle, seek="next").text == "3"
        assert queue.receive(lookup_id=middle).text == "2"
        with pytest.raises(MessageNotFound):
            queue.receive(lookup_id=middle)
        for wrong in (0, -1, 1 << 64):
            with pytest.raises(MessageNotFound):
                queue.receive(lookup_id=wrong)
        assert (queue.receive(seek="last").text, queue.receive(seek="first").text) == ("4", "0")
        assert [message.text for message in queue.follow(0)] == ["1"]
        with pytest.raises(InvalidParameter):
            queue.peek(seek="next")
        with pytest.raises(InvalidParameter):
            queue.receive(-1)

    blocking(tmp_path, work)


@BOTH
def test_a_cursor_goes_through_a_queue_and_receives_on_the_way(tmp_path: Path, protocol: str) -> None:
    def work(manager: Any, host: Any) -> None:
        for number in range(4):
            manager.send("orders", str(number))
        queue = host.queue("orders")
        with queue.cursor() as cursor, queue.cursor() as other:
            with pytest.raises(IllegalCursorAction):
                other.peek_next(0)
            assert (cursor.peek(0).text, cursor.peek_next(0).text) == ("0", "1")
            assert other.peek(0).text == "0"
            assert cursor.receive(0).text == "1"
            assert cursor.peek(0).text == "2"
            queue.receive(0)
            with pytest.raises(MessageAlreadyReceived):
                other.peek(0)
            assert other.peek_next(0).text == "2"
            assert cursor.peek_next(0).text == "3"
            for read in (cursor.peek_next, other.close, cursor.receive, cursor.receive, cursor.close):
                try:
                    read(0) if "close" not in read.__name__ else read()
                except Timeout:
                    continue
            assert other.peek(0).text == "2"

    blocking(tmp_path, work)


@BOTH
def test_several_messages_are_received_with_one_call(tmp_path: Path, protocol: str) -> None:
    def work(manager: Any, host: Any) -> None:
        for number in range(5):
            manager.send("orders", str(number))
        queue = host.queue("orders")
        assert [message.text for message in queue.receive_many(3, 0)] == ["0", "1", "2"]
        queue.delete_message(queue.peek(0))
        assert [message.text for message in queue.receive_many(3, 0)] == ["4"]
        with pytest.raises(Timeout):
            queue.receive_many(3, 0)

    blocking(tmp_path, work)


@BOTH
def test_a_queue_is_purged_and_its_journal_read(tmp_path: Path, protocol: str) -> None:
    def work(manager: Any, host: Any) -> None:
        queue = host.queue("orders")
        for number in range(5):
            manager.send("orders", str(number))
        assert queue.receive(0).text == "0"
        queue.purge()
        assert manager.count("orders") == 0
        assert queue.journal.format_name == rf"DIRECT=TCP:{HERE}\PRIVATE$\orders;JOURNAL"
        assert [message.text for message in queue.journal.browse()][:1] == ["0"]
        assert host.queue("orders;journal").receive(0).text == "0"
        assert list(host.queue("system$;deadletter").browse()) == []

    blocking(tmp_path, work)


def test_messages_are_moved_to_subqueues_and_back(tmp_path: Path) -> None:
    def work(manager: Any, host: Any) -> None:
        queue = host.queue("orders")
        later = queue.subqueue("later")
        for number in range(3):
            manager.send("orders", str(number))
        queue.move(queue.peek(0), "orders;later")
        queue.move(queue.peek(0).lookup_id, later)
        moved = list(later.browse())
        assert [(message.text, message.move_count) for message in moved] == [("0", 1), ("1", 1)]
        later.move(moved[0], queue)
        assert sorted(message.text for message in queue.browse()) == ["0", "2"]
        with pytest.raises(MessageNotFound):
            queue.move(moved[1], later)
        with pytest.raises(InvalidParameter, match="messages move only between a queue and its subqueues"):
            queue.move(queue.peek(0), "orders")
        with pytest.raises(InvalidParameter, match="not 'x'"):
            queue.move("x", later)

    blocking(tmp_path, work)


def test_a_host_with_qm2qm_alone_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_remote_read(monkeypatch)

    def work(manager: Any, host: Any) -> None:
        manager.send("orders", "0")
        with pytest.raises(UnsupportedAccessMode, match="qm2qm"):
            host.queue("orders").move(host.queue("orders").peek(0), "orders;later")

    blocking(tmp_path, work)


@BOTH
def test_a_message_of_four_megabytes_is_read(tmp_path: Path, protocol: str) -> None:
    body = bytes(range(256)) * 16_000

    def work(manager: Any, host: Any) -> None:
        manager.send("orders", body)
        assert host.queue("orders").peek(0).body == body
        assert host.queue("orders").receive(0).body == body

    blocking(tmp_path, work, "rpc.users_file=")


@BOTH
def test_many_threads_wait_at_the_same_time(tmp_path: Path, protocol: str) -> None:
    def work(manager: Any, host: Any) -> None:
        queue = host.queue("orders")
        with ThreadPoolExecutor(101) as pool:
            peek = pool.submit(queue.peek, 20)
            waiting = [pool.submit(queue.receive, 20) for _ in range(100)]
            with pytest.raises(Timeout):
                queue.peek(0.5)
            for number in range(100):
                manager.send("orders", str(number), recoverable=False)
            received = sorted(int(future.result(60).text) for future in waiting)
            assert received == list(range(100))
            assert manager.count("orders") == 0
            manager.send("orders", "one more")
            assert peek.result(60).text

    blocking(tmp_path, work)


def test_closing_the_host_ends_the_waits_of_all_threads(tmp_path: Path) -> None:
    def work(manager: Any, host: Any) -> None:
        queue = host.queue("orders")
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(queue.receive) for _ in range(7)]
            with pytest.raises(Timeout):
                queue.peek(0.2)
            host.close()
            errors = [type(future.exception(10)) for future in waiting]
        assert errors == [OperationCancelled] * 7
        with pytest.raises(ServiceNotAvailable):
            queue.receive(0)
        queue.close()
        host.close()
        manager.send("orders", "nobody has taken it")
        assert manager.count("orders") == 1

    blocking(tmp_path, work)


# Readers and their users.


LEVELS = pytest.mark.parametrize("level", ["privacy", "integrity", "connect"])


@BOTH
@LEVELS
def test_a_user_reads_at_every_level(tmp_path: Path, protocol: str, level: Any) -> None:
    users = tmp_path / "users"
    users.write_text(USERS)

    async def work() -> None:
        async with daemon(tmp_path, f"rpc.users_file={users}", f"rpc.min_auth_level={level}") as found:
            await found.manager.queue("orders").set_acl(grant="CORP\\alice:receive")
            await found.manager.send("orders", b"x" * 100_000)
            await found.manager.send("orders", "second")
            options: dict[str, Any] = {"user": "CORP\\alice", "password": "s3cret"}
            async with aio.msmq(HERE, **options, level=level) as host:
                queue = host.queue("orders")
                assert (await queue.receive(0)).body == b"x" * 100_000
                assert [message.text async for message in queue.browse()] == ["second"]
                assert (await queue.receive(0)).text == "second"
                waiting = asyncio.create_task(queue.receive(10))
                await asyncio.sleep(0.05)
                await found.manager.send("orders", "third")
                assert (await waiting).text == "third"

    run(work())


@BOTH
def test_whoever_shows_too_little_is_not_let_in(tmp_path: Path, protocol: str) -> None:
    users = tmp_path / "users"
    users.write_text(USERS)

    async def failure(**options: Any) -> str:
        async with aio.msmq(HERE, **options) as host:
            with pytest.raises((AuthenticationFailed, AccessDenied)) as caught:
                await host.queue("orders").receive(0)
            return str(caught.value)

    async def work() -> None:
        async with daemon(tmp_path, f"rpc.users_file={users}"):
            wrong = await failure(user="CORP\\alice", password="wrong")
            assert wrong.startswith(f"{HERE} refuses the user CORP\\alice: check the name")
            assert "refuses the user CORP\\eve: " in await failure(user="CORP\\eve", password="x")
            # Whom Kerberos knows, and here it knows nobody.
            ticketless = "has no password and no Kerberos ticket: pass"
            assert await failure(level="privacy") == (
                f"the user of this process {ticketless} user= and password=, or run kinit"
            )
            assert await failure(user="alice") == f"alice {ticketless} password=, or run kinit"
            if protocol == "RemoteRead":
                assert await failure() == f"{HERE} refuses anonymous readers: pass `user` and `password`"
                low = await failure(user="CORP\\alice", password="s3cret", level="integrity")
                assert "or pass level='privacy'" in low
            else:
                assert "denies access to anonymous readers" in await failure()

    run(work())


def test_a_host_without_users_knows_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        async with daemon(tmp_path), aio.msmq(HERE, user="CORP\\alice", password="s3cret") as host:
            with pytest.raises(AuthenticationFailed) as caught:
                await host.queue("orders").receive(0)
            assert type(caught.value) is AuthenticationFailed
            assert str(caught.value) == f"{HERE} has no user accounts; omit the user, or add users on that host"

    run(work())


# Where it is read.


@BOTH
def test_ports_are_asked_for_at_the_endpoint_mapper(tmp_path: Path, protocol: str) -> None:
    ports = ("rpc.port=22103", "rpc.qm2qm_port=22105", "rpc.epm=true", "rpc.epm_port=10135")

    async def work() -> None:
        async with daemon(tmp_path, *ports) as found:
            await found.manager.send("orders", "42 bolts")
            asking = aio.msmq(HERE, epm_port=10135)
            knowing = aio.msmq(HERE, rpc_port=22103, qm2qm_port=22105, epm_port=None)
            for host in (asking, knowing):
                async with host:
                    assert (await host.queue("orders").peek(0)).text == "42 bolts"
            # Nobody is at the usual ports.
            async with aio.msmq(HERE, epm_port=None) as host:
                with pytest.raises(HostUnreachable, match=rf"{HERE} is unreachable: .* \(port 2103\)"):
                    await host.queue("orders").peek(0)

    run(work())


def test_a_mapper_that_is_none_is_passed_over(tmp_path: Path) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n" * 10)
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(talk, HERE, 10135)
        async with server, daemon(tmp_path) as found, aio.msmq(HERE, epm_port=10135) as host:
            await found.manager.send("orders", "42 bolts")
            assert (await host.queue("orders").peek(0)).text == "42 bolts"

    run(work())


def test_a_mapper_that_does_not_answer_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.client.transports.msmq.reading_session._MAPPER_S", 0.1)
    without_remote_read(monkeypatch)
    asked: list[object] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)
        await reader.read()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(silent, HERE, 10135)
        async with server, daemon(tmp_path), aio.msmq(HERE, epm_port=10135) as host:
            # It connects for RemoteRead, for qmcomm and for qm2qm.
            with pytest.raises(Timeout):
                await host.queue("orders").receive(0)
            assert len(asked) == 1

    run(work())


def test_a_host_that_serves_no_readers_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        # The mapper is neither RemoteRead nor qmcomm.
        mapper = aio.msmq(HERE, rpc_port=10135)
        async with daemon(tmp_path, "rpc.epm=true", "rpc.epm_port=10135"), mapper as host:
            with pytest.raises(
                SessionRefused,
                match="does not serve remote readers: MSMQ is not running there, or uses another rpc_port",
            ):
                await host.queue("orders").peek(0)

    run(work())


def test_hosts_that_are_not_there_are_one_sentence(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.msmq("127.0.0.1", rpc_port=1) as host:
            with pytest.raises(HostUnreachable, match=r"^127\.0\.0\.1 is unreachable: Connection refused \(port 1\)$"):
                await host.queue("orders").receive()
        async with aio.msmq("no.such.host.invalid", rpc_port=1) as host:
            with pytest.raises(HostUnreachable, match=r"^no\.such\.host\.invalid is an unknown host name$"):
                await host.queue("orders").receive()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, HERE, 22103)
        async with server, aio.msmq(HERE, rpc_port=22103, timeout=0.2) as host:
            with pytest.raises(HostUnreachable, match=r"did not answer on port 22103 within 0\.2 s"):
                await host.queue("orders").receive(0)

    run(work())


@pytest.mark.parametrize("host", ["127.0.0.9:2103", "winserver01:2103", "[::1]:2103"])
def test_a_port_is_no_part_of_the_host(host: str) -> None:
    with pytest.raises(InvalidParameter, match="contains a port: pass only the host, with rpc_port=2103 to read"):
        waypost.msmq(host)


def test_whoever_was_refused_too_often_is_told_so(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(USERS)

    async def work() -> None:
        async with daemon(tmp_path, f"rpc.users_file={users}", "rpc.refusals_per_minute=1"):
            for _ in range(3):
                async with aio.msmq(HERE, user="CORP\\alice", password="wrong") as host:
                    with pytest.raises(WaypostError) as caught:
                        await host.queue("orders").receive(0)
            assert type(caught.value) is SessionRefused
            assert str(caught.value) == (
                f"{HERE} closed the connection to port 2103 without an answer: the host might have blocked this "
                "computer after too many errors, or it does not serve RPC on this port"
            )

    run(work())


def test_the_port_of_messages_serves_no_readers(tmp_path: Path) -> None:
    async def work() -> None:
        async with daemon(tmp_path), aio.msmq(HERE, rpc_port=1801, timeout=60) as host:
            with pytest.raises(
                SessionRefused, match=f"{HERE} closed .* to port 1801 .* does not serve RPC on this port"
            ):
                await host.queue("orders").receive(0)

    run(work())


def test_nothing_is_received_in_a_transaction() -> None:
    with (
        waypost.msmq(HERE) as host,
        pytest.raises(TransactionUsage, match=r"waypost\.msmq does not support transactions"),
    ):
        host.queue("orders").receive(0, transaction=object())  # type: ignore[arg-type]

    async def work() -> None:
        async with aio.msmq(HERE) as host:
            with pytest.raises(TransactionUsage):
                await host.queue("orders").receive(0, transaction=object())  # type: ignore[arg-type]

    run(work())


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (Queue.info, "show queue"),
        (Queue.delete, "delete queue"),
        (Queue.pause, "pause queue"),
        (partial(Queue.set, label="x"), "set queue"),
        (partial(Queue.resend, message=7), "resend"),
        (partial(Queue.move_all, to="orders;later"), "move all"),
    ],
)
def test_what_no_host_does_for_others_is_refused_with_a_sentence(ask: Callable[[Queue], object], words: str) -> None:
    sentence = f"does not support '{words}' at winserver01; use a queue manager, with waypost.open or waypost.connect"
    with waypost.msmq("winserver01") as host, pytest.raises(InvalidParameter, match=sentence):
        ask(host.queue("orders"))


def test_a_message_is_moved_within_its_host() -> None:
    async def work() -> None:
        async with aio.msmq("winserver01") as host:
            for to in (r"DIRECT=OS:other\private$\orders;retry", r"DIRECT=TCP:192.0.2.1\private$\orders;retry"):
                with pytest.raises(InvalidParameter) as caught:
                    await host.queue("orders").move(7, to)
                assert str(caught.value).casefold().startswith(f"{to} is a queue of ".casefold())
                assert str(caught.value).casefold().endswith(r"the name direct=os:winserver01\private$\orders;retry")

    run(work())


@BOTH
def test_queues_that_are_not_there_and_names_that_are_none(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with daemon(tmp_path), aio.msmq(HERE) as host:
            with pytest.raises(QueueNotFound, match="nosuch does not exist on the host; check the name"):
                await host.queue("nosuch").receive()
            with pytest.raises(QueueNotFound):
                await host.queue("nosuch").purge()
            for name in ("MULTICAST=234.1.1.1:8001", "DIRECT=HTTP://h/msmq/q", r"DIRECT=OS:a\q,DIRECT=OS:b\q"):
                with pytest.raises(UnsupportedFormatName):
                    host.queue(name)

    run(work())


@BOTH
def test_a_queue_that_is_not_for_the_reader(tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteReading, "may", lambda _self, _caller, _queue, access: access is AccessType.PEEK)

    async def work() -> None:
        async with daemon(tmp_path) as found, aio.msmq(HERE) as host:
            await found.manager.send("orders", "42 bolts")
            queue = host.queue("orders")
            assert (await queue.peek(0)).text == "42 bolts"
            for refused in (queue.receive(), queue.purge()):
                with pytest.raises(
                    AccessDenied, match="orders denies access to anonymous readers; grant the permission"
                ):
                    await refused

    run(work())


@BOTH
def test_a_queue_that_was_made_anew_is_opened_anew(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with daemon(tmp_path) as found, aio.msmq(HERE) as host:
            queue = host.queue("orders")
            with pytest.raises(Timeout):
                await queue.receive(0)
            await found.manager.delete_queue("orders")
            await found.manager.create_queue("orders")
            await found.manager.send("orders", "42 bolts")
            assert (await queue.peek(0)).text == "42 bolts"
            assert (await queue.receive(0)).text == "42 bolts"

    run(work())


@BOTH
def test_who_waits_is_told_that_the_queue_is_deleted(tmp_path: Path, protocol: str) -> None:
    async def work() -> None:
        async with daemon(tmp_path) as found, aio.msmq(HERE) as host:
            waiting = [asyncio.create_task(host.queue("orders").receive()) for _ in range(3)]
            await asyncio.sleep(0.2)
            await found.manager.delete_queue("orders")
            for task in waiting:
                with pytest.raises((QueueDeleted, QueueNotFound)):
                    await task

    run(work())


def test_connections_are_few_and_closed_when_nothing_is_open(tmp_path: Path) -> None:
    async def work() -> None:
        async with daemon(tmp_path), relay(HERE) as between, aio.msmq("127.0.0.1", rpc_port=between.port) as host:
            queues = [host.queue(rf"DIRECT=TCP:{HERE}\private$\orders") for _ in range(3)]
            waiting = [asyncio.create_task(queue.receive()) for queue in queues for _ in range(30)]
            await between.seen(START, 90)
            # All of them share one handle, on one connection.
            assert (between.connections, between.opnums.count(OPEN)) == (1, 1)
            await queues[0].close()
            for task in waiting:
                with pytest.raises(OperationCancelled):
                    await task
            await until(lambda: not between.is_used)

    run(work())


# The two sides.


def test_both_sides_have_the_same_members_arguments_and_words() -> None:
    members = {member for member in dir(Host) if not member.startswith("_")}
    assert members == {member for member in dir(AioHost) if not member.startswith("_")}
    words = inspect.getdoc(AioHost) or ""
    assert inspect.getdoc(Host) == words.replace("waypost.aio.msmq", "waypost.msmq").replace(
        "an `async with`", "a `with`"
    )
    for member in members:
        one, other = inspect.getattr_static(Host, member), inspect.getattr_static(AioHost, member)
        assert inspect.getdoc(one) == inspect.getdoc(other)
        assert inspect.getdoc(one)
        if not isinstance(one, property):
            assert inspect.signature(one).parameters == inspect.signature(other).parameters
            waits = inspect.iscoroutinefunction(other) or inspect.isasyncgenfunction(other)
            assert waits == (member != "queue")
    assert inspect.signature(waypost.msmq).parameters == inspect.signature(aio.msmq).parameters


@pytest.mark.parametrize(
    "options",
    [
        {"user": 5},
        {"user": ""},
        {"user": "a", "password": 5},
        {"password": "x"},
        {"level": "secret"},
        {"level": 6},
        {"user": "a", "level": "none"},
        {"rpc_port": 0},
        {"qm2qm_port": 70000},
        {"epm_port": "135"},
    ],
)
def test_what_can_be_no_reader_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        waypost.msmq("winserver01", **options)


def test_a_password_is_not_shown() -> None:
    host: Any = waypost.msmq("winserver01", user="CORP\\alice", password="s3cret")
    assert "s3cret" not in repr(host._transport._aio._reader._access)
