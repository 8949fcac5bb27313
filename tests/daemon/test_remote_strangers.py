"""Hostile or broken clients at the ports of remote reading: the daemon goes on for the others."""

import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import Final

import pytest

import waypost
from tests.crash.daemons import Daemon, loopback, patience
from tests.crash.remote_reader import INFINITE, MAX_BODY, QM2QM_PORT, RPC_PORT, RemoteReader, body_of
from tests.daemon.commands import metric
from waypost.remote.interfaces.remote_read import REMOTE_READ, ReceiveAction, StartReceiveRequest
from waypost.rpc.client import ClientConnection
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Empty
from waypost.wire.ndr import ContextHandle

SECONDS: Final = 60.0
MAX_CONNECTIONS: Final = 300
MAX_GROWTH: Final = 64 << 20
LARGE: Final = 3_000_000
PORTS: Final = (RPC_PORT, QM2QM_PORT)


class Place:
    def __init__(self, daemon: Daemon, manager: waypost.Manager) -> None:
        self.daemon = daemon
        self.queue = manager.create_queue("orders")
        self.memory = daemon.memory

    def connect(self, port: int = RPC_PORT) -> socket.socket:
        return socket.create_connection((self.daemon.address, port), SECONDS)

    def open(self, reader: RemoteReader) -> ContextHandle:
        return reader.open(self.daemon.direct("orders"))

    def serves(self, body: bytes = b"hello") -> None:
        """A message goes through it, and it has not grown out of bounds."""
        self.queue.send(body)
        started = time.monotonic()
        with RemoteReader(self.daemon.address) as reader:
            assert reader.receive(self.open(reader)) == body
        assert time.monotonic() - started < SECONDS
        assert self.daemon.memory - self.memory < MAX_GROWTH


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    limits = (f"rpc.max_connections={MAX_CONNECTIONS}", "rpc.refusals_per_minute=100000")
    with Daemon(tmp_path, "alpha", loopback(41), *limits) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            place = Place(daemon, manager)
            place.serves(bytes(LARGE))
            place.memory = daemon.memory
            files = daemon.files
            yield place
            place.serves()
            with patience(SECONDS, "files are left open") as turns:
                for _ in turns:
                    if daemon.files <= files:
                        break
        assert daemon.stop() == 0
        assert "unexpected error" not in daemon.log


def conversation() -> list[bytes]:
    """The first data of a well-behaved client: a bind and a request."""
    client = ClientConnection([REMOTE_READ])
    client.start()
    bind = client.take_output()
    return [bind, bytes.fromhex("05000003100000001800000002000000") + bytes(8)]


def mutated(data: bytes, dice: random.Random) -> bytes:
    mutant = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5))):
        mutant[dice.randrange(len(mutant))] = dice.randrange(256)
    return bytes(mutant)


def test_garbage_and_half_pdus_are_answered_or_refused_and_nobody_else_notices(place: Place) -> None:
    dice = random.Random(5)
    bind, request = conversation()
    huge = bind[:8] + (0xFFFF).to_bytes(2, "little") + bind[10:16]
    openings = [
        b"", b"\0", bind[:15], bind[:-1], bind * 3, request, bind + request[:10], bind + request * 200,
        huge, huge + bytes(0xFFF0), b"GET / HTTP/1.1\r\n\r\n", bytes(100_000), b"\xff" * 100_000,
        dice.randbytes(100_000),
        *(mutated(bind, dice) + request for _ in range(100)),
        *(bind + mutated(request, dice) for _ in range(100)),
    ]  # fmt: skip
    with ExitStack() as stack:
        for port in PORTS:
            for opening in openings:
                peer = stack.enter_context(place.connect(port))
                with suppress(ConnectionError):
                    peer.sendall(opening)
                if dice.randrange(4):
                    # Else it stays, until all have come.
                    peer.close()
        place.serves()


def test_a_connection_too_many_is_refused_and_those_that_are_there_go_on(place: Place) -> None:
    with ExitStack() as stack:
        reader = stack.enter_context(RemoteReader(place.daemon.address))
        context = place.open(reader)
        waiting = stack.enter_context(DefaultSelector())
        for _ in range(1000):
            waiting.register(stack.enter_context(place.connect()), EVENT_READ)
        with patience(SECONDS, "more connections are there than may be") as turns:
            for _ in turns:
                # A silent connection is readable only at its end.
                for key, _ in waiting.select(0):
                    waiting.unregister(key.fileobj)
                if len(waiting.get_map()) < MAX_CONNECTIONS:
                    break
        place.queue.send(b"hello")
        assert reader.receive(context) == b"hello"
        assert place.daemon.memory - place.memory < MAX_GROWTH


def test_connections_that_come_and_go_leave_nothing(place: Place) -> None:
    for number in range(3000):
        with place.connect(PORTS[number % 2]) as peer:
            peer.sendall(conversation()[0][: number % 100])


def test_a_reader_that_never_takes_its_answers_gets_no_more_of_them(place: Place) -> None:
    place.queue.send(bytes(LARGE))
    with RemoteReader(place.daemon.address) as deaf:
        context = place.open(deaf)
        # 3 GB of answers.
        for number in range(1, 1001):
            action = ReceiveAction.MQ_ACTION_PEEK_CURRENT
            request = StartReceiveRequest(context, 0, 0, action, 0, number, MAX_BODY, MAX_BODY)
            deaf.connection.call(REMOTE_READ, 7, request)
        deaf.flush()
        most = 0
        for _ in range(10):
            time.sleep(0.1)
            most = max(most, place.daemon.memory)
        assert most - place.memory < MAX_GROWTH
        with RemoteReader(place.daemon.address) as reader:
            assert reader.receive(place.open(reader)) == bytes(LARGE)
        place.serves()


def test_a_reader_that_is_slow_to_take_its_answers_gets_all_of_them(place: Place) -> None:
    place.queue.send(bytes(LARGE))
    with RemoteReader(place.daemon.address) as slow:
        context = place.open(slow)
        calls = []
        for number in range(1, 31):
            action = ReceiveAction.MQ_ACTION_PEEK_CURRENT
            calls.append(slow.begin(7, StartReceiveRequest(context, 0, 0, action, 0, number, MAX_BODY, MAX_BODY)))
        last = slow.begin(0, Empty())
        time.sleep(0.5)
        assert all(body_of(slow.result(call)) == bytes(LARGE) for call in calls)
        assert slow.result(last).port == RPC_PORT
        assert slow.receive(context) == bytes(LARGE)


def test_an_address_with_very_many_open_calls_gets_no_more_and_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    text = "import waypost.rpc.server_connection as calls\ncalls.MAX_RPC_OPEN_CALLS_OF_PEER = 20\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    with Daemon(tmp_path, "alpha", loopback(41)) as daemon, ExitStack() as stack:
        daemon.start()
        manager = stack.enter_context(daemon.connect())
        queue, *_ = (manager.create_queue(name) for name in ("orders", "one", "two"))
        flooders = [stack.enter_context(RemoteReader(daemon.address)) for _ in range(2)]
        contexts = [reader.open(daemon.direct(name)) for reader, name in zip(flooders, ("one", "two"), strict=True)]
        for reader, context in zip(flooders, contexts, strict=True):
            for _ in range(10):
                reader.start(context, INFINITE)
        with patience(60, "the calls do not wait") as turns:
            for _ in turns:
                if metric(daemon, "waypost_rpc_open_calls") == 20:
                    break
        with pytest.raises(RpcFault, match="0x1C010014"):
            flooders[0].take(contexts[0])
        queue.send(b"hello")
        here = socket.create_connection
        elsewhere = (loopback(42), 0)
        monkeypatch.setattr(socket, "create_connection", lambda place, seconds: here(place, seconds, elsewhere))
        with RemoteReader(daemon.address) as reader:
            assert reader.receive(reader.open(daemon.direct("orders"))) == b"hello"


def _received(peer: socket.socket) -> bytes:
    try:
        return peer.recv(100)
    except ConnectionError:
        return b""


def test_a_host_that_breaks_the_protocol_again_and_again_has_to_wait(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(41), "rpc.refusals_per_minute=5") as daemon:
        daemon.start()
        for _ in range(5):
            with socket.create_connection((daemon.address, RPC_PORT), SECONDS) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert _received(peer)
        with socket.create_connection((daemon.address, RPC_PORT), SECONDS) as peer, suppress(ConnectionError):
            assert not _received(peer)
