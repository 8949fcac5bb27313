"""Whole daemons in the loop of the test."""

import asyncio
import errno
import json
import socket
from pathlib import Path
from typing import Any

import lmdb
import pytest

from tests.daemon.recording import loops, run, soon, until
from tests.daemon.running import hello, loopback, running
from waypost.api.properties import QueueInfo
from waypost.api.records import plain, record_of
from waypost.daemon.loading import ConfigError
from waypost.daemon.sockets import CannotListen
from waypost.drive.loop import Loop
from waypost.errors import StoreInUse, Timeout, WaypostError
from waypost.store.lmdb import LmdbStore

each_loop = pytest.mark.parametrize("loop", loops(), ids=["asyncio", "uvloop"])
UVLOOP = loops()[-1]


def remote(address: str) -> str:
    return rf"DIRECT=TCP:{address}\private$\orders"


@each_loop
def test_a_daemon_says_where_it_is_and_stops(loop: Any, tmp_path: Path) -> None:
    async def work() -> None:
        here = loopback(2)
        async with running(tmp_path / "alpha", here, "transfer.ping=true") as alpha:
            assert alpha.ready["event"] == "ready"
            assert alpha.ready["name"] == "alpha"
            assert alpha.ready["guid"] == alpha.manager.guid
            assert alpha.ready["transfer"] == f"{here}:1801"
            assert alpha.ready["ping"] == f"{here}:3527"
            address, port = alpha.ready["http"].split(":")
            assert address == here
            assert int(port) > 0
            assert await alpha.stop() == 0
            events = [json.loads(line)["event"] for line in alpha.stream.getvalue().splitlines()]
            assert events == ["ready", "stopped"]
            with pytest.raises(WaypostError):
                await alpha.manager.queues()

    run(loop, work)


@each_loop
def test_nobody_can_connect_before_the_queue_manager_has_recovered(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loopback(2)
    with socket.socket() as free:
        free.bind((here, 0))
        ports = (1801, 2103, 2105, free.getsockname()[1])
    refused: list[bool] = []

    class Recovering(Loop):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            refused.extend(not is_open(here, port) for port in ports)
            super().__init__(*arguments, **options)
            refused.extend(not is_open(here, port) for port in ports)

    async def work() -> None:
        async with running(tmp_path / "alpha", here, f"http.port={ports[-1]}") as alpha:
            assert alpha.ready["transfer"] == f"{here}:1801"
            assert [is_open(here, port) for port in ports] == [True] * 4

    monkeypatch.setattr("waypost.daemon.service.Loop", Recovering)
    run(loop, work)
    assert refused == [True] * 8


def is_open(address: str, port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((address, port)) == 0


@each_loop
def test_a_message_goes_from_one_to_the_other(loop: Any, tmp_path: Path) -> None:
    async def work() -> None:
        one, two = loopback(2), loopback(3)
        async with running(tmp_path / "alpha", one) as alpha, running(tmp_path / "beta", two) as beta:
            orders = await beta.manager.create_queue("orders")
            await alpha.manager.send(remote(two), "42 bolts", label="order")
            message = await soon(orders.receive(timeout=60))
            assert (message.text, message.label) == ("42 bolts", "order")

    run(loop, work)


def test_a_message_waits_for_a_daemon_that_is_not_there_yet_even_over_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        one, two = loopback(2), loopback(3)
        async with running(tmp_path / "alpha", one) as alpha:
            await alpha.manager.send(remote(two), "42 bolts")
            await until(lambda: "Connection refused" in alpha.stream.getvalue())
        async with running(tmp_path / "beta", two) as beta:
            orders = await beta.manager.create_queue("orders")
            with pytest.raises(Timeout):
                await orders.receive(timeout=0)
            async with running(tmp_path / "alpha", one):
                assert (await soon(orders.receive(timeout=60))).text == "42 bolts"

    run(UVLOOP, work)


def test_an_outgoing_queue_tells_why_it_is_not_connected(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as alpha:
            await alpha.manager.send(remote(loopback(3)), "anybody there?")
            (queue,) = await alpha.manager.outgoing_queues()
            async with asyncio.timeout(60):
                while not (info := await queue.info()).last_error:
                    await asyncio.sleep(0.05)
            assert info.last_error == "Connection refused"
            assert info.connections is not None
            assert info.connections[-1].status == "connect_socket_failure"
            assert info.connections[-1].addresses == info.next_hops == (f"IP={loopback(3)}",)
            assert (info.unacknowledged, info.unread) == (0, 0)
            # The same at the other end of HTTP, and in JSON.
            assert record_of(plain(info), QueueInfo) == info
            assert json.loads(json.dumps(info.to_dict()))["connections"][-1]["time"].endswith("Z")

    run(UVLOOP, work)


def test_a_message_of_four_megabytes_passes(tmp_path: Path) -> None:
    async def work() -> None:
        one, two = loopback(2), loopback(3)
        body = bytes(range(256)) * 15_000
        async with running(tmp_path / "alpha", one) as alpha, running(tmp_path / "beta", two) as beta:
            orders = await beta.manager.create_queue("orders")
            for _ in range(5):
                await alpha.manager.send(remote(two), body)
            for _ in range(5):
                assert (await soon(orders.receive(timeout=60))).body == body

    run(UVLOOP, work)


def test_http_is_served_beside_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as alpha:
            reader, writer = await asyncio.open_connection(*alpha.ready["http"].split(":"))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await soon(reader.readuntil(b"hello"))
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"server:" not in answer.lower()
            writer.close()

    run(UVLOOP, work)


def test_requests_that_wait_end_when_the_daemon_stops(tmp_path: Path) -> None:
    async def work() -> None:
        ended: list[str] = []

        async def waiting(scope: Any, receive: Any, send: Any) -> None:
            try:
                await (await alpha.manager.create_queue("orders")).receive()
            except WaypostError as error:
                assert alpha.app.is_stopped
                ended.append(type(error).__name__)
            await hello(scope, receive, send)

        async with running(tmp_path / "alpha", loopback(2), app=waiting) as alpha:
            reader, writer = await asyncio.open_connection(*alpha.ready["http"].split(":"))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(0.1)
            async with asyncio.timeout(60):
                assert await alpha.stop() == 0
            assert ended == ["OperationCancelled"]
            assert alpha.app.is_stopped
            assert (await soon(reader.read())).endswith(b"hello")
            writer.close()

    run(UVLOOP, work)


def test_what_prevents_a_start_is_raised_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def work() -> None:
        here = loopback(2)
        async with running(tmp_path / "alpha", here):
            with pytest.raises(CannotListen, match=f"TCP port 1801 of {here} is in use"):
                async with running(tmp_path / "beta", here):
                    pass
            with pytest.raises(StoreInUse):
                async with running(tmp_path / "alpha", loopback(3)):
                    pass
            key = tmp_path / "key.pem"
            key.write_text("nonsense", encoding="utf-8")
            with pytest.raises(ConfigError, match="Cannot set up TLS for HTTP"):
                async with running(tmp_path / "beta", loopback(3), f"http.tls_cert={key}", f"http.tls_key={key}"):
                    pass
            async with running(tmp_path / "beta", loopback(3)):
                pass

    run(UVLOOP, work)


def test_a_mistake_behind_http_ends_the_daemon_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async def asking(scope: Any, receive: Any, send: Any) -> None:
            await alpha.manager.create_queue("orders")
            await hello(scope, receive, send)

        async with running(tmp_path / "alpha", loopback(2), app=asking) as alpha:
            monkeypatch.setattr("waypost.node.queue_calls.path_name", lambda *_: 1 / 0)
            reader, writer = await asyncio.open_connection(*alpha.ready["http"].split(":"))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(60):
                assert await alpha.task == 1
            assert (await soon(reader.read())).startswith(b"HTTP/1.1 500")
            writer.close()
            assert "queue manager broken" in alpha.stream.getvalue()

    run(UVLOOP, work)


def test_what_should_never_happen_is_written_down_and_ends_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        here = loopback(2)
        async with running(tmp_path / "alpha", here) as alpha:
            orders = await alpha.manager.create_queue("orders")
            await orders.send("kept")

            def bug(*_: object, **__: object) -> None:
                raise ZeroDivisionError("never thought of")

            monkeypatch.setattr("waypost.node.network.network.Network.data_received", bug)
            with socket.create_connection((here, 1801)) as peer:
                peer.send(b"anything")
                async with asyncio.timeout(60):
                    assert await alpha.task == 1
            monkeypatch.undo()
            log = alpha.stream.getvalue()
            assert "never thought of" in log
            assert "Traceback" in log
        async with running(tmp_path / "alpha", here) as alpha:
            assert (await alpha.manager.queue("orders").receive(timeout=0)).text == "kept"

    run(UVLOOP, work)


def test_a_full_disk_does_not_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        one, two = loopback(2), loopback(3)
        async with running(tmp_path / "alpha", one) as alpha, running(tmp_path / "beta", two) as beta:
            orders = await beta.manager.create_queue("orders")
            apply = LmdbStore._apply
            full = [True]

            def applied(store: LmdbStore, operations: Any, size: int) -> None:
                if full[0] and store._folder == tmp_path / "beta":
                    error = lmdb.Error("no room")
                    setattr(error, "code", errno.ENOSPC)  # noqa: B010, as LMDB does
                    raise error
                apply(store, operations, size)

            monkeypatch.setattr(LmdbStore, "_apply", applied)
            await alpha.manager.send(remote(two), "42 bolts")
            await until(lambda: "store cannot write" in beta.stream.getvalue())
            full[0] = False
            await until(lambda: "store writes again" in beta.stream.getvalue())
            assert (await soon(orders.receive(timeout=60))).text == "42 bolts"

    run(UVLOOP, work)
