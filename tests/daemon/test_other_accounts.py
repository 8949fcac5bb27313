"""Another account of the computer gets nothing: not over HTTP, RPC or the Unix socket, however it connects."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import HTTP_PORT, SECONDS, Daemon, loopback, patience
from tests.crash.remote_reader import QM2QM_PORT, RPC_PORT, RemoteReader
from tests.daemon.accounts import NOBODY, Started, as_nobody, as_root, start_as_nobody
from waypost.drive.local_daemons import account_name
from waypost.errors import CannotConnect
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.client import ClientConnection

pytestmark = as_root

# The error if another account listens at the port of a daemon of root.
NOT_ROOT = f"a program under the account {account_name(NOBODY)} uses its port" if os.name != "nt" else ""

# Connects, sends its bytes, and reports those that come back.
TALK = """
address, port, data, way = arguments
peer = socket.create_connection((address, port), 60)
with suppress(OSError):
    peer.sendall(bytes.fromhex(data))
    if way == "half-close":
        peer.shutdown(socket.SHUT_WR)
came = b""
with suppress(ConnectionError):
    while part := peer.recv(1000):
        came += part
tell(came.hex())
"""


def metric(daemon: Daemon, name: str) -> float:
    (line,) = [line for line in daemon.get("/metrics").splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def bind() -> str:
    """The first bytes of a remote reader."""
    client = ClientConnection([REMOTE_READ])
    client.start()
    return client.take_output().hex()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("accounts")
    # The files must be closed by themselves, not by a folder above them.
    for folder in (place, place.parent, place.parent.parent):
        folder.chmod(0o755)
    with Daemon(place, "alpha", loopback(61)) as daemon:
        daemon.start()
        daemon.folder.chmod(0o755)
        with daemon.connect() as manager:
            manager.create_queue("orders").send("42 bolts")
        yield daemon
        with daemon.connect() as manager:
            assert manager.queue("orders").peek(0).text == "42 bolts"
        assert "Traceback" not in daemon.log
        assert daemon.stop() == 0


def test_http_refuses_it_and_names_the_account_and_the_command(daemon: Daemon) -> None:
    told = as_nobody(
        """
connection = http.client.HTTPConnection(arguments[0], arguments[1], timeout=60)
answers = []
for path in ("/api/status", "/api/queues/orders/browse", "/metrics", "/schema", "/health/live"):
    for headers in ({}, {"Authorization": "Bearer x"}, {"Cookie": "waypost_8181=x"}, {"Authorization": "Bearer "}):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answers.append((path, answer.status, answer.read().decode()))
tell(answers)
""",
        daemon.address,
        HTTP_PORT,
    )
    assert metric(daemon, 'waypost_http_unauthorized_total{reason="no_token"}') >= 8
    assert metric(daemon, 'waypost_http_unauthorized_total{reason="wrong_token"}') >= 8
    events = [json.loads(line) for line in daemon.log.splitlines()]
    refused = [line["reason"] for line in events if line["event"] == "request refused"]
    assert "the request has no token and no valid session" in refused
    for path, status, text in told:
        if path == "/health/live":
            assert status == 200
            continue
        assert status == 401, path
        refusal = json.loads(text)
        assert refusal["message"].endswith("; the queue manager runs as the account root")
        assert f"sudo -u root waypost --url {daemon.url} token" in refusal["hint"]


def test_the_client_of_another_account_says_the_same(daemon: Daemon) -> None:
    name, sentence, hint = as_nobody(
        """
try:
    waypost.connect(arguments[0])
except WaypostError as error:
    tell((type(error).__name__, str(error), getattr(error, "__notes__", [""])[0]))
""",
        daemon.url,
    )
    assert (name, "runs as the account root" in sentence) == ("AccessDenied", True)
    assert f"sudo -u root waypost --url {daemon.url} status" in hint


def test_neither_the_socket_nor_the_token_nor_the_runtime_folder_opens(daemon: Daemon) -> None:
    told = as_nobody(
        """
def attempt(do):
    try:
        do()
    except OSError as error:
        return error.strerror
    return "done"
folder = arguments[0]
tell([
    attempt(lambda: socket.socket(socket.AF_UNIX).connect(folder + "/http.sock")),
    attempt(lambda: open(folder + "/token")),
    attempt(lambda: open(folder + "/token", "w")),
    attempt(lambda: os.unlink(folder + "/http.sock")),
    attempt(lambda: os.listdir("/tmp/waypost-0")),
])
""",
        str(daemon.folder),
    )
    assert set(told) == {"Permission denied"}


@pytest.mark.parametrize("port", [RPC_PORT, QM2QM_PORT])
@pytest.mark.parametrize("way", ["", "half-close"])
def test_rpc_answers_it_with_no_byte(daemon: Daemon, port: int, way: str) -> None:
    before = metric(daemon, "waypost_rpc_connections_refused_total")
    assert as_nobody(TALK, daemon.address, port, bind(), way) == ""
    assert metric(daemon, "waypost_rpc_connections_refused_total") == before + 1
    assert "a program under the account" in daemon.log or "a program under an unknown account" in daemon.log


def test_rpc_answers_its_own_account_all_the_while(daemon: Daemon) -> None:
    """Refusals of another account are not counted against the address that both have."""
    for _ in range(3):
        assert as_nobody(TALK, daemon.address, RPC_PORT, bind(), "") == ""
    with start_as_nobody(
        """
for _ in range(200):
    with suppress(OSError):
        socket.create_connection((arguments[0], arguments[1]), 60).close()
tell("done")
""",
        daemon.address,
        RPC_PORT,
    ) as flood:
        assert flood.communicate(timeout=SECONDS)[0] == '"done"\n'
    with RemoteReader(daemon.address) as reader:
        assert reader.bind().connection.is_bound


@pytest.mark.parametrize("way", ["close", "reset", "half-close"])
def test_a_connection_that_ends_before_it_is_accepted_gets_nothing(daemon: Daemon, way: str) -> None:
    """The system says that a socket that nobody has open any more is of root."""
    before = calls(daemon)
    os.kill(daemon.process, signal.SIGSTOP)
    try:
        with start_as_nobody(
            """
import struct
address, port, data, way = arguments
peers = []
for _ in range(5):
    peer = socket.create_connection((address, port), 60)
    peer.sendall(bytes.fromhex(data))
    if way == "half-close":
        peer.shutdown(socket.SHUT_WR)
        peers.append(peer)
    else:
        if way == "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
tell("sent")
sys.stdin.readline()
came = b""
for peer in peers:
    with suppress(ConnectionError):
        while part := peer.recv(1000):
            came += part
tell(came.hex())
""",
            daemon.address,
            RPC_PORT,
            bind(),
            way,
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == '"sent"\n'
            os.kill(daemon.process, signal.SIGCONT)
            told, _ = other.communicate("\n", timeout=SECONDS)
            assert json.loads(told) == ""
    finally:
        os.kill(daemon.process, signal.SIGCONT)
    with patience(SECONDS, "connections stay") as turns:
        for _ in turns:
            if "waypost_rpc_connections 0.0" in daemon.get("/metrics"):
                break
    assert calls(daemon) == before


def calls(daemon: Daemon) -> list[str]:
    """The calls of remote readers so far."""
    lines = daemon.get("/metrics").splitlines()
    return sorted(line for line in lines if line.startswith(("waypost_rpc_calls_total", "waypost_rpc_binds")))


@pytest.mark.parametrize("access", ["token", "open"])
def test_a_listener_of_another_account_gets_neither_token_nor_request(tmp_path: Path, access: str) -> None:
    listening = """
with socket.create_server((arguments[0], arguments[1])) as server:
    server.settimeout(60)
    tell("listens")
    came = []
    with suppress(TimeoutError):
        while True:
            peer, _ = server.accept()
            with peer:
                peer.settimeout(60)
                came.append(peer.recv(1000).decode())
                if came[-1] == "end":
                    break
    tell(came)
"""
    with Daemon(tmp_path, "beta", loopback(62), f"http.access={access}") as daemon:
        daemon.start()
        # Its file in the runtime folder stays.
        daemon.kill()
        with start_as_nobody(listening, daemon.address, HTTP_PORT) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == '"listens"\n'
            with pytest.raises(CannotConnect, match=f"the daemon is not running, and {NOT_ROOT}"):
                waypost.connect(daemon.url)
            with socket.create_connection((daemon.address, HTTP_PORT), SECONDS) as peer:
                peer.sendall(b"end")
            assert json.loads(other.stdout.readline()) == ["end"]
        daemon.start()
        with daemon.connect() as manager:
            assert manager.status().name.casefold() == "beta"
        daemon.stop()


# A listener of another account, with a file that names a socket, or without a file.
LISTEN = """
address, path = arguments
os.umask(0o077)
runtime = "/tmp/waypost-%d" % os.getuid()
with suppress(FileExistsError):
    os.mkdir(runtime, 0o700)
server = socket.create_server((address, 8181))
file = runtime + "/" + address + ":8181"
if path is not None:
    with open(file, "w") as entry:
        json.dump({"socket": path, "token": "theirs", "process": os.getpid(), "data": runtime}, entry)
tell("listens")
peer, _ = server.accept()
request = peer.recv(1000).decode()
peer.close()
if path is not None:
    os.unlink(file)
tell(request)
"""

# A daemon of another account, as far as its files and listeners go.
SERVE = """
import threading
address, folder = arguments
os.umask(0o077)
runtime = "/tmp/waypost-%d" % os.getuid()
with suppress(FileExistsError):
    os.mkdir(runtime, 0o700)
server = socket.create_server((address, 8181))
local = socket.socket(socket.AF_UNIX)
path = runtime + "/test.sock"
with suppress(FileNotFoundError):
    os.unlink(path)
local.bind(path)
local.listen()
file = runtime + "/" + address + ":8181"
with open(file, "w") as entry:
    json.dump({"socket": path, "token": "theirs", "process": os.getpid(), "data": runtime}, entry)
tell("listens")
peer, _ = local.accept()
request = peer.recv(1000).decode()
peer.close()
os.unlink(file)
os.unlink(path)
tell(request)
"""


def end_of(other: Started) -> None:
    """Let SERVE end, which removes its files."""
    assert other.stdout is not None
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(f"/tmp/waypost-{NOBODY}/test.sock")
        peer.sendall(b"end")
        assert json.loads(other.stdout.readline()) == "end"


def test_a_file_of_another_account_does_not_replace_that_of_root(tmp_path: Path) -> None:
    with Daemon(tmp_path, "gamma", loopback(64)) as daemon:
        daemon.start()
        # Its file in the runtime folder stays.
        daemon.kill()
        with start_as_nobody(SERVE, daemon.address, str(tmp_path)) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == '"listens"\n'
            with pytest.raises(CannotConnect, match=NOT_ROOT):
                waypost.connect(daemon.url)
            end_of(other)
        daemon.start()
        daemon.stop()


def test_a_client_keeps_to_the_account_of_its_daemon(tmp_path: Path) -> None:
    """A stop removes the file, so nothing else shows that the listener is not the daemon."""

    async def reconnect(daemon: Daemon) -> None:
        async with waypost.aio.connect(daemon.url) as manager:
            manager._transport._close_idle()  # type: ignore[attr-defined]
            daemon.stop()
            with start_as_nobody(SERVE, daemon.address, str(tmp_path)) as other:
                assert other.stdout is not None
                assert other.stdout.readline() == '"listens"\n'
                with pytest.raises(CannotConnect, match=NOT_ROOT):
                    await manager.queue("orders").send("secret")
                end_of(other)
            daemon.start()
            assert await manager.queues() == []

    with Daemon(tmp_path, "delta", loopback(66)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            daemon.stop()
            with start_as_nobody(SERVE, daemon.address, str(tmp_path)) as other:
                assert other.stdout is not None
                assert other.stdout.readline() == '"listens"\n'
                with pytest.raises(CannotConnect, match=NOT_ROOT):
                    manager.queue("orders").send("secret")
                end_of(other)
            daemon.start()
            assert manager.queues() == []
        asyncio.run(reconnect(daemon))
        daemon.stop()


def test_a_file_of_another_account_does_not_lead_root_to_a_socket_of_root(daemon: Daemon) -> None:
    address = loopback(67)
    with start_as_nobody(LISTEN, address, str(daemon.folder / "http.sock")) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == '"listens"\n'
        with pytest.raises(CannotConnect):
            waypost.connect(f"http://{address}:8181")
        assert json.loads(other.stdout.readline()).startswith("GET /api/identity")


@pytest.mark.parametrize(("program", "argument"), [(SERVE, ""), (LISTEN, None)], ids=["with-file", "without-file"])
def test_the_command_line_says_to_root_whose_daemon_it_is(program: str, argument: str | None) -> None:
    url = f"http://{loopback(65)}:8181"
    with start_as_nobody(program, loopback(65), argument) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == '"listens"\n'
        command = [sys.executable, "-m", "waypost.cli", "--url", url, "status"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        assert other.stdout.readline()
    note = f"note: the daemon at {url} runs as the account {account_name(NOBODY)}, not as root."
    assert note in done.stderr


def test_root_finds_the_daemon_of_another_account(tmp_path: Path) -> None:
    """Here root plays both: the files are given to the other account, and so is the listener."""
    address = loopback(63)
    with start_as_nobody(SERVE, address, str(tmp_path)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == '"listens"\n'
        with pytest.raises(CannotConnect):
            waypost.connect(f"http://{address}:8181")
        request = json.loads(other.stdout.readline())
    assert request.startswith("GET /api/identity")
    # Over the socket no token is needed.
    assert "theirs" not in request
