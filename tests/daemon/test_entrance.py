"""HTTP clients that have not shown the token: they take turns, and do not keep others out."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.daemon.recording import loops, run, soon, until
from tests.daemon.running import Running, loopback, running
from waypost.daemon import entrance as module
from waypost.daemon import http_connection, seats, web
from waypost.daemon.entrance import Entrance

UVLOOP = loops()[-1]
TOKEN = b"Authorization: Bearer secret"
REFUSED = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
KNOWN = b"GET /known HTTP/1.1\r\nHost: x\r\n" + TOKEN + b"\r\n\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


class App:
    """Notes what was asked for, and answers when it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        if scope["path"] == "/x":
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})


async def connect(daemon: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*daemon.ready["http"].split(":"))


async def ask(daemon: Running, request: bytes) -> bytes:
    reader, writer = await connect(daemon)
    try:
        writer.write(request)
        return await soon(reader.readuntil(b"hello"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("data", "is_health"),
    [
        (LIVE, True),
        (LIVE.replace(b"live", b"ready"), True),
        (LIVE[:-2], False),
        (LIVE + LIVE, False),
        (LIVE + b"G", False),
        (REFUSED, False),
        (b"GET /health/live?" + bytes(0x1000) + b" HTTP/1.1\r\n\r\n", False),
        (b"GET /health/livestock HTTP/1.1\r\n\r\n", False),
    ],
)
def test_what_asks_for_the_health_of_the_daemon(data: bytes, *, is_health: bool) -> None:
    assert Entrance.asks_for_health(data) is is_health


def test_strangers_take_turns_and_neither_a_known_client_nor_a_health_check_waits(tmp_path: Path) -> None:
    async def work() -> None:
        app = App()
        async with running(tmp_path / "alpha", loopback(2), app=app, token=TOKEN) as alpha:
            app.may_answer.clear()
            strangers = [await connect(alpha) for _ in range(4)]
            for _, writer in strangers:
                writer.write(REFUSED * 1000)
            await until(lambda: app.asked.count("/x") == 4)
            assert b"hello" in await ask(alpha, KNOWN)
            assert b"hello" in await ask(alpha, LIVE)
            # No stranger has a second request under way, however many it has sent.
            assert app.asked.count("/x") == 4
            app.may_answer.set()
            await until(lambda: app.asked.count("/x") == 4000)
            for _, writer in strangers:
                writer.close()

    run(UVLOOP, work)


def test_what_a_stranger_sends_is_looked_at_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        app = App()
        async with running(tmp_path / "alpha", loopback(2), app=app, token=TOKEN) as alpha:
            monkeypatch.setattr("waypost.daemon.http_connection.PIECE", 40)
            answer = await ask(alpha, REFUSED * 20)
            assert answer.startswith(b"HTTP/1.1 200")
            await until(lambda: app.asked.count("/x") > 1)
            # A head in pieces, and a token that is behind the first of them.
            long = b"GET /known HTTP/1.1\r\nHost: x\r\nX-Filler: " + bytes(b"x" * 100) + b"\r\n" + TOKEN + b"\r\n\r\n"
            reader, writer = await connect(alpha)
            writer.write(long[:60])
            await asyncio.sleep(0)
            writer.write(long[60:])
            assert (await soon(reader.readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            writer.close()

    run(UVLOOP, work)


def test_idle_strangers_of_an_address_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        settings = ("http.max_connections_per_peer=3",)
        app = App()
        async with running(tmp_path / "alpha", loopback(2), *settings, app=app, token=TOKEN) as alpha:
            app.may_answer.clear()
            idle = [await connect(alpha) for _ in range(3)]
            await asyncio.sleep(0)
            # Nobody has been idle for long: the new one is closed, token or not.
            assert await ask(alpha, KNOWN) == b""
            assert "this peer has too many connections" in alpha.stream.getvalue()
            monkeypatch.setattr(seats, "_IDLE_SECONDS", 0.0)
            idle[0][1].write(REFUSED)
            await until(lambda: app.asked.count("/x") == 1)
            assert b"hello" in await ask(alpha, KNOWN)
            # The one with a request under way has stayed.
            app.may_answer.set()
            assert (await soon(idle[0][0].readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            ends = [asyncio.create_task(reader.read()) for reader, _ in idle[1:]]
            await soon(asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED))
            assert [end.done() for end in ends].count(True) == 1
            for end in ends:
                end.cancel()
            for _, writer in idle:
                writer.close()

    run(UVLOOP, work)


async def read_all(scope: Any, receive: Any, send: Any) -> None:
    while (event := await receive()).get("more_body"):
        pass
    if event["type"] == "http.request":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})


@pytest.mark.parametrize("sent", [b"", b"x"])
def test_a_stranger_whose_body_stalls_is_cut_off(sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_PACE_SECONDS", 0.2)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=read_all, token=TOKEN) as alpha:
            reader, writer = await connect(alpha)
            writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
            await asyncio.sleep(0)
            writer.write(sent)
            assert await soon(reader.read()) == b""
            writer.close()

    run(UVLOOP, work)


def test_a_stranger_whose_body_stalls_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "_IDLE_SECONDS", 0.0)

    async def work() -> None:
        settings = ("http.max_connections_per_peer=1",)
        async with running(tmp_path / "alpha", loopback(2), *settings, app=read_all, token=TOKEN) as alpha:
            reader, writer = await connect(alpha)
            writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")
            # The request waits for its body now.
            await soon(reader.readuntil(b"100 Continue\r\n\r\n"))
            assert b"hello" in await ask(alpha, KNOWN)
            assert await soon(reader.read()) == b""
            writer.close()

    run(UVLOOP, work)


class Listed(http_connection.HttpConnection):
    open: ClassVar[list["Listed"]] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.open.append(self)


def test_a_large_body_of_a_stranger_is_kept_only_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application reads nothing yet: most of the body stays with the client."""
    monkeypatch.setattr(web, "HttpConnection", Listed)
    may_read = asyncio.Event()
    kept: list[int] = []

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await may_read.wait()
        size, more = 0, True
        while more:
            event = await receive()
            kept.append(len(event["body"]))
            size, more = size + kept[-1], event["more_body"]
        assert size == 1 << 24
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=late, token=TOKEN) as alpha:
            reader, writer = await connect(alpha)
            writer.write(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (1 << 24))
            body = asyncio.ensure_future(_write(writer, bytes(1 << 24)))
            await until(lambda: Listed.open and Listed.open[-1].cycle)
            connection = Listed.open[-1]
            await until(lambda: len(connection.cycle.body) > 0x1_0000)
            await until(lambda: connection.flow.read_paused)
            assert not body.done()
            assert len(connection._backlog) < 1 << 20
            may_read.set()
            assert (await soon(reader.readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            await body
            assert max(kept) <= 0x1_0000 + module.PIECE
            writer.close()

    run(UVLOOP, work)


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def test_who_has_shown_the_token_is_not_counted(tmp_path: Path) -> None:
    async def work() -> None:
        settings = ("http.max_connections_per_peer=2",)
        async with running(tmp_path / "alpha", loopback(2), *settings, app=App(), token=TOKEN) as alpha:
            clients = []
            for _ in range(6):
                reader, writer = await connect(alpha)
                writer.write(KNOWN)
                await soon(reader.readuntil(b"hello"))
                clients.append(writer)
            for writer in clients:
                writer.close()

    run(UVLOOP, work)


def test_without_a_token_nobody_is_a_stranger(tmp_path: Path) -> None:
    async def work() -> None:
        settings = ("http.max_connections_per_peer=1",)
        async with running(tmp_path / "alpha", loopback(2), *settings, app=App()) as alpha:
            first, second = await connect(alpha), await connect(alpha)
            for reader, writer in (first, second):
                writer.write(REFUSED)
                await soon(reader.readuntil(b"hello"))
                writer.close()

    run(UVLOOP, work)


def test_the_piece_of_a_stranger_is_small() -> None:
    assert module.PIECE <= 0x1000
