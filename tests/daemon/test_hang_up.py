"""Clients that hang up in the middle of what they ask for: none of it is a traceback, or an error, in the log."""

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.daemons import HTTP_PORT, SECONDS, TRANSFER_PORT, Daemon, loopback, patience
from waypost.guid import NULL_GUID
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection

RPC_PORT: Final = 2103
QM2QM_PORT: Final = 2105
# A bind PDU of RPC, without its end.
BIND: Final = bytes.fromhex("05000b03100000004800000001000000b810b810") + bytes(20)
# A client without it gets no further than the head.
TOKEN: Final = "hang-up"
BODY: Final = json.dumps({"messages": [{"body_text": "x" * 400}]}).encode()


def http(method: str, path: str, *headers: str, body: bytes = b"", length: int | None = None) -> bytes:
    """A request; with `length` its head promises a body of so many bytes."""
    size = len(body) if length is None else length
    lines = [f"{method} {path} HTTP/1.1", f"Host: {loopback(21)}:{HTTP_PORT}", f"Authorization: Bearer {TOKEN}"]
    lines += headers
    if size:
        lines += ["Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


HALF: Final = BODY[:200]
# Ports, what is sent, and how much is read before the client goes.
ATTACKS: Final[dict[str, tuple[int, bytes, int]]] = {
    "half a head": (HTTP_PORT, b"POST /api/queues HTTP/1.1\r\nHost: x\r\nConte", 0),
    "half a body of a send": (
        HTTP_PORT,
        http("POST", "/api/queues/q/messages", body=HALF, length=len(BODY)),
        0,
    ),
    "half a body of a new queue": (HTTP_PORT, http("POST", "/api/queues", body=b'{"name": "n', length=400), 0),
    "half a body of a change": (HTTP_PORT, http("PATCH", "/api/queues/q", body=b'{"label": "n', length=400), 0),
    "half a body of a stage": (HTTP_PORT, http("POST", "/api/bulk/stages", body=b'{"query": "n', length=400), 0),
    "half a receive": (HTTP_PORT, http("POST", "/api/queues/q/receive", body=b'{"timeout_s"', length=400), 0),
    "half a cursor": (HTTP_PORT, http("POST", "/api/queues/q/cursors", body=b"{", length=400), 0),
    "half a chunk": (
        HTTP_PORT,
        http("POST", "/api/queues", "Content-Type: application/json", "Transfer-Encoding: chunked") + b"40\r\n{",
        0,
    ),
    "a body that is to be asked for": (
        HTTP_PORT,
        http("POST", "/api/queues", "Expect: 100-continue", length=400),
        10,
    ),
    "a receive that waits": (HTTP_PORT, http("POST", "/api/queues/empty/receive", body=b'{"timeout_s": 30}'), 0),
    "a peek that waits": (HTTP_PORT, http("POST", "/api/queues/empty/peek", body=b'{"timeout_s": 30}'), 0),
    "a stream of events": (HTTP_PORT, http("GET", "/api/queues/q/events?since=start"), 300),
    "a stream of nothing": (HTTP_PORT, http("GET", "/api/queues/empty/events"), 100),
    "half a list of messages": (HTTP_PORT, http("GET", "/api/queues/q/browse?limit=1000"), 100),
    "half of many frames": (
        HTTP_PORT,
        http("POST", "/api/bulk/queues/q/read", body=b'{"start": 0, "stop": 1000000000}') * 20,
        100,
    ),
    "answers that nobody reads": (HTTP_PORT, http("GET", "/metrics") * 20 + http("GET", "/schema") * 20, 0),
    "a WebSocket": (
        HTTP_PORT,
        http(
            "GET",
            "/api/queues/q/events",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ),
        10,
    ),
    "no HTTP at all": (HTTP_PORT, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20, 0),
    "an explanation": (HTTP_PORT, http("GET", f"/api/explain?message={{{'0' * 8}-0000-0000-0000-{'0' * 12}}}%5C7"), 0),
    "half a session": (TRANSFER_PORT, EstablishConnection.request(b"\x05" * 16, NULL_GUID, 1, 0).encode()[:90], 0),
    "a session and no more": (
        TRANSFER_PORT,
        EstablishConnection.request(b"\x05" * 16, NULL_GUID, 1, 0).encode() + ConnectionParameters().encode(),
        200,
    ),
    "half a packet": (
        TRANSFER_PORT,
        EstablishConnection.request(b"\x05" * 16, NULL_GUID, 1, 0).encode()
        + ConnectionParameters().encode()
        + bytes.fromhex("10c00003") + b"LIOR" + b"\x00\x10\x00\x00" + bytes(300),
        0,
    ),
    "no packet at all": (TRANSFER_PORT, b"GET / HTTP/1.1\r\n\r\n" * 30, 0),
    "half a call": (RPC_PORT, BIND, 0),
    "half a call of the old kind": (QM2QM_PORT, BIND, 0),
    "no call at all": (RPC_PORT, b"GET / HTTP/1.1\r\n\r\n" * 30, 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = (
        f"http.token={TOKEN}",
        "log.level=debug",
        "transfer.refusals_per_minute=10000",
        "rpc.refusals_per_minute=10000",
    )
    with Daemon(tmp_path_factory.mktemp("daemon"), "victim", loopback(21), *settings) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("empty")
            manager.create_queue("q").send_many(["x" * 4000] * 1000)
        yield daemon


def hang_up(daemon: Daemon, port: int, data: bytes, read: int, *, is_sudden: bool) -> None:
    """Sudden: the other side gets a reset, and no end of the stream."""
    with socket.create_connection((daemon.address, port), SECONDS) as client:
        client.sendall(data)
        while read > 0 and (piece := client.recv(min(read, 4096))):
            read -= len(piece)
        if is_sudden:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def lines(daemon: Daemon, start: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in daemon.log[start:].splitlines()]


def settle(daemon: Daemon) -> None:
    """Until all of the clients are gone for the daemon too, which still works."""
    with daemon.connect() as manager, patience(SECONDS, "clients are left") as turns:
        for _ in turns:
            status = manager.status()
            assert manager.doctor()
            if not status.sessions and not status.rpc_connections:
                break
        manager.queue("q").send("still there")


@pytest.mark.parametrize("is_sudden", [False, True], ids=["end", "reset"])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_client_that_hangs_up_is_no_traceback(daemon: Daemon, name: str, *, is_sudden: bool) -> None:
    start = len(daemon.log)
    port, data, read = ATTACKS[name]
    for _ in range(3):
        hang_up(daemon, port, data, read, is_sudden=is_sudden)
    settle(daemon)
    written = lines(daemon, start)
    assert [line for line in written if "traceback" in line or line["level"] == "error"] == []
    assert len(written) <= 12, written


def test_a_request_that_is_not_whole_is_one_quiet_line(daemon: Daemon) -> None:
    start = len(daemon.log)
    port, data, _ = ATTACKS["half a body of a new queue"]
    hang_up(daemon, port, data, 0, is_sudden=False)
    with patience(SECONDS, "nothing is written") as turns:
        for _ in turns:
            written = [line for line in lines(daemon, start) if "closed the connection" in str(line.get("message"))]
            if written:
                break
    (line,) = written
    assert line["level"] == "info"
    assert "POST /api/queues" in line["message"]
    assert "127." in line["message"]


def test_the_daemon_ends_well_after_all_of_them(tmp_path: Path) -> None:
    with Daemon(tmp_path, "victim", loopback(22), f"http.token={TOKEN}") as daemon:
        daemon.start()
        for port, data, _ in ATTACKS.values():
            hang_up(daemon, port, data, 0, is_sudden=True)
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.log
