"""A client may not keep a connection for itself, before it has sent a token or after."""

import asyncio
import socket
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.daemon.recording import loops, run, soon, until
from tests.daemon.running import Running, hello, loopback, running
from waypost.daemon import http_connection, web
from waypost.limits import MAX_HTTP_HEAD

UVLOOP = loops()[-1]
# More than any buffer on the way holds.
MUCH = 1 << 25
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def connect(daemon: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*daemon.ready["http"].split(":"))


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\nX: ", b"GET /", b"GET / HTTP/1.1\r\n"])
def test_a_head_without_end_is_refused(begin: bytes, tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as alpha:
            reader, writer = await connect(alpha)
            writer.write(begin)
            line = b"a: b\r\n" if begin.endswith(b"\n") else b"aaaaaa"
            sent = 0
            while not reader.at_eof() and sent < 100 * MAX_HTTP_HEAD:
                writer.write(line * 1000)
                sent += len(line) * 1000
                await asyncio.sleep(0.001)
                if writer.is_closing():
                    break
            assert sent < 40 * MAX_HTTP_HEAD
            writer.close()
            # Others are served.
            reader, writer = await connect(alpha)
            writer.write(REQUEST)
            assert (await soon(reader.readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            writer.close()

    run(UVLOOP, work)


def test_a_large_body_in_one_piece_with_its_head_is_taken(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as alpha:
            reader, writer = await connect(alpha)
            body = bytes(3 * MAX_HTTP_HEAD)
            request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            # The second one may begin in the last piece of the first one.
            writer.write((request + body) * 2)
            for _ in range(2):
                assert (await soon(reader.readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            writer.close()

    run(UVLOOP, work)


@pytest.mark.parametrize("data", [b"", b"\r\n", b"GET / HTTP/1.1\r\n", REQUEST + b"\r\n", REQUEST + b"GET"])
def test_a_silent_connection_is_closed(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_HEAD_SECONDS", 0.2)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2)) as alpha:
            reader, writer = await connect(alpha)
            for at in range(len(data)):
                writer.write(data[at : at + 1])
                await asyncio.sleep(0.002)
            answer = await soon(reader.read())
            assert answer.endswith(b"hello") is data.startswith(REQUEST)
            writer.close()

    run(UVLOOP, work)


def test_a_client_that_waits_for_its_answer_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_HEAD_SECONDS", 0.1)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.5)
        await hello(scope, receive, send)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=slow) as alpha:
            reader, writer = await connect(alpha)
            # The head of another request, which is not read as long as this one is not answered.
            writer.write(REQUEST + b"GET")
            assert (await soon(reader.readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            writer.close()

    run(UVLOOP, work)


async def much(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % MUCH)]})
    await send({"type": "http.response.body", "body": bytes(MUCH)})


async def read_all(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await hello(scope, receive, send)


def test_a_body_that_trickles_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_PACE_SECONDS", 0.3)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=read_all) as alpha:
            reader, writer = await connect(alpha)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            ended = asyncio.ensure_future(reader.read())
            sent = 0
            while not ended.done() and sent < 500:
                writer.write(b"x")
                sent += 1
                await asyncio.sleep(0.01)
            assert await soon(ended) == b""
            writer.close()

    run(UVLOOP, work)


def test_a_slow_body_that_goes_on_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_PACE_SECONDS", 0.2)
    monkeypatch.setattr(http_connection, "_PACE_BYTES", 2)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=read_all) as alpha:
            reader, writer = await connect(alpha)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n")
            for _ in range(30):
                writer.write(b"x")
                await asyncio.sleep(0.02)
            assert (await soon(reader.readuntil(b"hello"))).startswith(b"HTTP/1.1 200")
            writer.close()

    run(UVLOOP, work)


class Listed(http_connection.HttpConnection):
    open: ClassVar[set["Listed"]] = set()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.open.remove(self)


def test_a_client_that_reads_its_answer_slowly_gets_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_PACE_SECONDS", 0.3)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=much) as alpha:
            reader, writer = await connect(alpha)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            received = 0
            while piece := await soon(reader.read(1 << 20)):
                received += len(piece)
                await asyncio.sleep(0.003)
            assert received > MUCH
            writer.close()

    run(UVLOOP, work)


@pytest.mark.parametrize("end", ["keep-alive", "close"])
def test_a_client_that_does_not_read_its_answer_is_cut_off(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "_PACE_SECONDS", 0.3)
    monkeypatch.setattr(web, "HttpConnection", Listed)

    async def work() -> None:
        async with running(tmp_path / "alpha", loopback(2), app=much) as alpha:
            host, port = alpha.ready["http"].split(":")
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: %b\r\n\r\n" % end.encode())
            await until(lambda: Listed.open)
            await until(lambda: not Listed.open)
            client.close()

    run(UVLOOP, work)
