"""What a client may do before it has shown a token: say what it wants, shortly and soon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.recording import loops, run, soon
from tests.daemon.running import Running, hello, loopback, running
from waypost.daemon import http_connection
from waypost.limits import MAX_HTTP_HEAD

UVLOOP = loops()[-1]
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
