"""Requests of strangers over HTTP that come in pieces, or only half: logins, Basic, and what has no token."""

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.daemons import HTTP_PORT, SECONDS, Daemon, loopback, patience
from waypost.limits import MAX_HTTP_HEAD

PASSWORD: Final = "s3cret"
LOGIN: Final = json.dumps({"name": "ada", "password": PASSWORD}).encode()
BASIC: Final = f"Authorization: Basic {b64encode(f'ada:{PASSWORD}'.encode()).decode()}"
# More than the half of them from one address.
MANY: Final = 300


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon"), "victim", loopback(31)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.users.add("ada", role="operate", password=PASSWORD)
            manager.create_queue("orders").set_acl(grant="ada:full")
        yield daemon


def head(path: str, size: int, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {loopback(31)}:{HTTP_PORT}", *headers]
    lines += ["Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*lines, "", ""]).encode()


def connect(daemon: Daemon) -> socket.socket:
    client = socket.create_connection((daemon.address, HTTP_PORT), timeout=SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def has_read(daemon: Daemon, client: socket.socket) -> bool:
    """Whether the daemon has read everything that this client has sent."""
    port = client.getsockname()[1]
    own = f"{_hex(daemon.address)}:{HTTP_PORT:04X}"
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines():
        words = line.split()
        if words[1] == own and words[2].endswith(f":{port:04X}"):
            return words[4].endswith(":00000000")
    return False


def _hex(address: str) -> str:
    return f"{int.from_bytes(socket.inet_aton(address), 'little'):08X}"


def ask(daemon: Daemon, *pieces: bytes) -> bytes:
    """The answer to a request whose pieces come one after the other."""
    with connect(daemon) as client:
        for number, piece in enumerate(pieces):
            if number:
                with patience(SECONDS, "the daemon does not read") as turns:
                    for _ in turns:
                        if has_read(daemon, client):
                            break
            client.sendall(piece)
        return client.recv(65536)


def cut(data: bytes, *places: int) -> list[bytes]:
    ends = [*places, len(data)]
    return [data[begin:end] for begin, end in zip([0, *places], ends, strict=True)]


def cuts(begin: bytes, body: bytes) -> list[list[bytes]]:
    data, end = begin + body, len(begin)
    places = [(end,), (end + 5,), (20, end), (end - 2, end), (end, end + 1, end + 2), (20, end - 1, end + 7)]
    return [cut(data, *each) for each in places]


@pytest.mark.parametrize("number", range(6))
def test_a_login_in_pieces_is_answered(number: int, daemon: Daemon) -> None:
    answer = ask(daemon, *cuts(head("/api/login", len(LOGIN)), LOGIN)[number])
    assert answer.startswith(b"HTTP/1.1 204")
    assert b"set-cookie" in answer


@pytest.mark.parametrize("number", range(6))
def test_a_request_with_a_password_in_pieces_is_answered(number: int, daemon: Daemon) -> None:
    body = json.dumps({"messages": [{"body_text": "x" * 300}]}).encode()
    answer = ask(daemon, *cuts(head("/api/queues/orders/messages", len(body), BASIC), body)[number])
    assert answer.startswith(b"HTTP/1.1 200"), answer


def test_a_large_body_of_a_request_with_a_password_arrives(daemon: Daemon) -> None:
    text = "x" * 1_000_000
    body = json.dumps({"messages": [{"body_text": text}]}).encode()
    begin = head("/api/queues/orders/messages", len(body), BASIC)
    answer = ask(daemon, begin, body[:100_000], body[100_000:])
    assert answer.startswith(b"HTTP/1.1 200"), answer
    with daemon.connect() as manager:
        assert manager.queue("orders").receive_many(100, timeout=0)[-1].text == text


def test_a_second_request_behind_a_body_in_pieces_is_answered(daemon: Daemon) -> None:
    request = head("/api/login", len(LOGIN)) + LOGIN
    with connect(daemon) as client:
        client.sendall(request[:-5])
        with patience(SECONDS, "the daemon does not read") as turns:
            for _ in turns:
                if has_read(daemon, client):
                    break
        client.sendall(request[-5:] + request)
        answers = b""
        while answers.count(b"HTTP/1.1 204") < 2:
            answers += client.recv(65536)


def test_the_body_of_a_login_is_limited(daemon: Daemon) -> None:
    answer = ask(daemon, head("/api/login", MAX_HTTP_HEAD + 1), b"{")
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_flood_of_half_logins_leaves_nothing_behind(daemon: Daemon) -> None:
    files = daemon.files
    for piece in (LOGIN[:5], LOGIN[:0], LOGIN):
        clients = []
        for _ in range(MANY):
            client = connect(daemon)
            try:
                client.sendall(head("/api/login", len(LOGIN)))
                client.sendall(piece[:-1])
            except ConnectionError:
                client.close()
                continue
            clients.append(client)
        for client in clients:
            client.close()
        with patience(SECONDS, "the daemon keeps connections of clients that are gone") as turns:
            for _ in turns:
                if daemon.files <= files + 5:
                    break
    assert ask(daemon, head("/api/login", len(LOGIN)), LOGIN).startswith(b"HTTP/1.1 204")
    with daemon.connect() as manager:
        assert [queue.name for queue in manager.queues()] == ["orders"]


def test_half_a_login_ends_with_the_client(daemon: Daemon) -> None:
    """The client says that it sends no more, and keeps its side open."""
    with connect(daemon) as client:
        client.sendall(head("/api/login", len(LOGIN)) + LOGIN[:5])
        client.shutdown(socket.SHUT_WR)
        assert client.recv(65536) == b""
