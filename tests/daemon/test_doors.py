"""The token, the Unix socket and the runtime folder: the account of the daemon types nothing, and TCP wants a token."""

import asyncio
import json
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

import waypost
from tests.crash.daemons import HTTP_PORT, SECONDS, Daemon, loopback
from tests.daemon.commands import check_of, waypost_of
from waypost.api.bulk import ReadRange
from waypost.client.bulk.client import BulkClient
from waypost.drive.local_daemons import LocalDaemon, announce, find, own_account, withdraw
from waypost.errors import AccessDenied, CannotConnect

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no Unix sockets")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("doors"), "alpha", loopback(71)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("orders").send("42 bolts")
        yield daemon
        assert daemon.stop() == 0


def status_of(url: str, path: str = "/api/status", **headers: str) -> int:
    try:
        with urlopen(Request(url + path, headers=headers), timeout=SECONDS) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_token_and_socket_are_for_the_account_alone(daemon: Daemon) -> None:
    assert mode(daemon.folder / "token") == mode(daemon.folder / "http.sock") == 0o600
    found = find(daemon.address, HTTP_PORT, own_account())
    assert found is not None
    assert (found.socket, found.process) == (str(daemon.folder / "http.sock"), daemon.process)
    assert daemon.headers == {"Authorization": f"Bearer {found.token}"}
    assert len(found.token) >= 40


def test_tcp_wants_the_token_and_health_does_not(daemon: Daemon) -> None:
    for path in ("/api/status", "/api/queues", "/metrics", "/schema", "/api/doctor", "/nowhere"):
        assert status_of(daemon.url, path) == 401
        assert status_of(daemon.url, path, Authorization="Bearer wrong") == 401
    assert status_of(daemon.url, "/health/live") == status_of(daemon.url, "/health/ready") == 200
    assert status_of(daemon.url, **daemon.headers) == 200
    assert check_of(daemon, "access")["message"].startswith("access to the HTTP API requires the token")


def test_every_client_of_the_account_finds_it(daemon: Daemon) -> None:
    async def follow() -> str:
        async with waypost.aio.connect(daemon.url) as manager:
            assert (await manager.queue("orders").peek(0)).text == "42 bolts"
            events = await manager.queue("orders").events(timeout=SECONDS)
            await manager.queue("orders").send("43 bolts")
            async for message in events:
                return str(message.text)
        return ""

    assert asyncio.run(follow()) == "43 bolts"
    with waypost.connect(daemon.url) as manager:
        assert manager.queue("orders").peek(0).text == "42 bolts"
        assert manager._transport._idle[0]._socket.family == socket.AF_UNIX  # type: ignore[attr-defined]
    with BulkClient(daemon.url) as client:
        (frame,) = client.read_all(ReadRange(name="orders", up_to=1 << 50))
        assert frame.count == 2
    assert waypost_of(daemon, "peek", "orders").returncode == 0


def test_a_token_that_is_given_wins(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessDenied):
        waypost.connect(daemon.url, token="wrong")
    monkeypatch.setenv("WAYPOST_TOKEN", "wrong")
    with pytest.raises(AccessDenied):
        waypost.connect(daemon.url)
    with pytest.raises(AccessDenied):
        asyncio.run(opened(daemon.url))
    token = daemon.headers["Authorization"].partition(" ")[2]
    waypost.connect(daemon.url, token=token).close()
    monkeypatch.setenv("WAYPOST_TOKEN", token)
    waypost.connect(daemon.url).close()


async def opened(url: str) -> None:
    async with waypost.aio.connect(url):
        pass


def test_without_the_socket_the_token_goes_over_tcp(daemon: Daemon) -> None:
    """The listener is of this account."""
    path = daemon.folder / "http.sock"
    path.rename(daemon.folder / "away")
    try:
        with waypost.connect(daemon.url) as manager:
            assert manager._transport._idle[0]._socket.family == socket.AF_INET  # type: ignore[attr-defined]
        asyncio.run(opened(daemon.url))
        name = daemon.url.replace(daemon.address, "localhost")
        with pytest.raises(CannotConnect):
            waypost.connect(name)
    finally:
        (daemon.folder / "away").rename(path)


def test_the_token_command_prints_it_for_curl(daemon: Daemon) -> None:
    token = waypost_of(daemon, "token").stdout.strip()
    assert status_of(daemon.url, Authorization=f"Bearer {token}") == 200
    assert json.loads(waypost_of(daemon, "token", "--json").stdout) == {"token": token}
    other = daemon.url.replace(str(HTTP_PORT), "9")
    refused = waypost_of(daemon, "--url", other, "token")
    assert (refused.returncode, "does not run a daemon at" in refused.stderr) == (3, True)


def test_a_stop_removes_socket_and_file_and_a_kill_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    with Daemon(tmp_path, "beta", loopback(72)) as daemon:
        daemon.start()
        token = daemon.headers
        daemon.kill()
        assert (daemon.folder / "http.sock").exists()
        with pytest.raises(CannotConnect, match="Connection refused"):
            waypost.connect(daemon.url)
        daemon.start()
        assert daemon.headers == token
        daemon.connect().close()
        assert daemon.stop() == 0
        assert not (daemon.folder / "http.sock").exists()
        assert find(daemon.address, HTTP_PORT, own_account()) is None


def test_what_is_not_a_dead_socket_is_left_alone(tmp_path: Path) -> None:
    with Daemon(tmp_path, "gamma", loopback(73)) as daemon:
        daemon.prepare()
        path = daemon.folder / "http.sock"
        path.write_text("mine")
        daemon.start()
        assert "File exists. Programs of this account use TCP instead" in daemon.log
        daemon.connect().close()
        daemon.stop()
        assert path.read_text() == "mine"
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            other.listen()
            daemon.start()
            assert "Address already in use. Programs of this account use TCP instead" in daemon.log
            # The socket is served by this account, too, but not by the daemon: the daemon has named none.
            daemon.connect().close()
            daemon.stop()
            assert path.exists()


def test_a_path_that_is_too_long_for_a_socket_is_said_and_tcp_is_used(tmp_path: Path) -> None:
    place = tmp_path / ("long" * 30)
    place.mkdir()
    with Daemon(place, "delta", loopback(74)) as daemon:
        daemon.start()
        assert "the path is too long for a socket. Programs of this account use TCP instead." in daemon.log
        with daemon.connect() as manager:
            assert manager._transport._idle[0]._socket.family == socket.AF_INET  # type: ignore[attr-defined]
        assert daemon.stop() == 0


def test_a_browser_gets_the_link_in_a_file_that_other_accounts_cannot_read(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$*" > {tmp_path}/opened\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    link = waypost_of(daemon, "open", "--browser").stdout.strip()
    opened = (tmp_path / "opened").read_text()
    assert link.partition("code=")[2]
    assert "code=" not in opened
    page = Path(urlsplit(opened).path)
    assert f"url={link}" in page.read_text()
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert status_of(link, "") == 200


def test_access_can_be_open_and_doctor_says_so(tmp_path: Path) -> None:
    with Daemon(tmp_path, "open", loopback(75), "http.access=open") as daemon:
        daemon.start()
        assert not (daemon.folder / "token").exists()
        assert status_of(daemon.url) == 200
        assert "has full control" in check_of(daemon, "access")["message"]
        assert waypost_of(daemon, "token").stdout == "\n"
        daemon.stop()


def test_a_configured_token_wins_and_metrics_can_be_open(tmp_path: Path) -> None:
    with Daemon(tmp_path, "mine", loopback(76), "http.token=mine", "http.metrics=open") as daemon:
        daemon.start()
        assert not (daemon.folder / "token").exists()
        assert status_of(daemon.url, Authorization="Bearer mine") == 200
        assert (status_of(daemon.url), status_of(daemon.url, "/metrics")) == (401, 200)
        assert status_of(daemon.url, "/metrics", Host="evil.example") == 421
        assert waypost_of(daemon, "token").stdout == "mine\n"
        daemon.connect().close()
        daemon.stop()


@pytest.mark.parametrize(
    ("text", "bits", "sentence", "hint"),
    [
        ("t0ken", 0o644, "has the mode 0644, so other accounts might know the token", "chmod 600"),
        ("t0ken", 0o620, "has the mode 0620", "chmod 600"),
        ("", 0o600, "does not contain a token", "run rm "),
        ("t\0ken", 0o600, "does not contain a token", "run rm "),
        ("tökén", 0o600, "does not contain a token", "run rm "),
    ],
)
def test_a_token_file_that_is_not_safe_stops_the_start(
    tmp_path: Path, text: str, bits: int, sentence: str, hint: str
) -> None:
    with Daemon(tmp_path, "loose", loopback(77)) as daemon:
        daemon.prepare()
        path = daemon.folder / "token"
        path.write_text(text, encoding="utf-8")
        path.chmod(bits)
        daemon.launch()
        assert daemon.await_end() == 1
        assert sentence in daemon.log
        assert f"hint: {hint}" in daemon.log or hint in daemon.log
        assert path.read_text(encoding="utf-8") == text


def test_a_socket_is_found_by_address_and_port_and_not_by_a_folder(tmp_path: Path) -> None:
    with (
        Daemon(tmp_path, "one", loopback(78)) as one,
        Daemon(tmp_path, "two", loopback(79)) as two,
    ):
        one.start()
        two.start()
        for each in (one, two):
            with each.connect() as manager:
                assert manager.status().path == str(each.folder)
        one.stop()
        with pytest.raises(CannotConnect):
            waypost.connect(one.url)
        two.stop()


# The runtime folder.


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder / "waypost"


def entry(tmp_path: Path) -> LocalDaemon:
    return LocalDaemon(str(tmp_path / "http.sock"), "token", os.getpid(), str(tmp_path))


def test_a_file_is_for_the_account_alone_and_is_removed_by_its_daemon_only(runtime: Path, tmp_path: Path) -> None:
    daemon = entry(tmp_path)
    path = announce("127.0.0.1", 1, daemon)
    assert path == runtime / "127.0.0.1:1"
    assert (mode(runtime), mode(path)) == (0o700, 0o600)
    assert find("127.0.0.1", 1, own_account()) == daemon
    assert find("127.0.0.1", 2, own_account()) is find("127.0.0.2", 1, own_account()) is None
    withdraw(path, LocalDaemon("", "other", 1, ""))
    assert path.exists()
    withdraw(path, daemon)
    assert not path.exists()


def test_a_daemon_on_all_addresses_is_found_at_each(runtime: Path, tmp_path: Path) -> None:
    announce("0.0.0.0", 1, entry(tmp_path))
    assert find("127.0.0.5", 1, own_account()) == entry(tmp_path)
    assert find("::1", 1, own_account()) is None
    announce("::", 1, entry(tmp_path))
    assert find("::1", 1, own_account()) == entry(tmp_path)


def test_what_others_can_write_or_read_is_ignored(runtime: Path, tmp_path: Path) -> None:
    path = announce("127.0.0.1", 1, entry(tmp_path))
    assert path is not None
    for changed, bits in ((path, 0o640), (runtime, 0o770), (runtime.parent, 0o711)):
        before = mode(changed)
        changed.chmod(bits)
        assert find("127.0.0.1", 1, own_account()) is None, changed
        changed.chmod(before)
    assert find("127.0.0.1", 1, own_account()) == entry(tmp_path)
    texts = ["", "{", "[]", "null", '{"socket": 1, "token": 2, "process": "", "data": 4}', "{}", "x" * 100_000]
    texts += ["[" * 16_000, '{"socket": "\\ud800", "token": "", "process": 1, "data": ""}']
    for text in texts:
        path.write_text(text)
        assert find("127.0.0.1", 1, own_account()) is None, text
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("{}")
    assert find("127.0.0.1", 1, own_account()) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert find("127.0.0.1", 1, own_account()) is None


def test_files_of_daemons_whose_folder_is_gone_are_swept(runtime: Path, tmp_path: Path) -> None:
    gone = LocalDaemon("", "token", 1, str(tmp_path / "gone"))
    first = announce("127.0.0.1", 1, gone)
    assert first is not None
    announce("127.0.0.1", 2, entry(tmp_path))
    assert not first.exists()


def test_only_the_last_file_with_a_data_folder_stays(runtime: Path, tmp_path: Path) -> None:
    """A daemon that was killed, and started at another port, is not found at the first one."""
    announce("127.0.0.1", 1, entry(tmp_path))
    announce("127.0.0.1", 2, entry(tmp_path))
    announce("127.0.0.1", 2, entry(tmp_path))
    assert [each.name for each in runtime.iterdir()] == ["127.0.0.1:2"]


def test_a_runtime_folder_of_the_environment_is_used_by_daemon_and_client(runtime: Path, tmp_path: Path) -> None:
    with Daemon(tmp_path, "xdg", loopback(80)) as daemon:
        daemon.start()
        assert [each.name for each in runtime.iterdir()] == [f"{daemon.address}:{HTTP_PORT}"]
        daemon.connect().close()
        daemon.stop()
        assert list(runtime.iterdir()) == []


def test_the_log_and_the_processes_show_no_token(daemon: Daemon) -> None:
    token = daemon.headers["Authorization"].partition(" ")[2]
    assert token not in daemon.log
    shown = subprocess.run(["ps", "-ef"], capture_output=True, text=True, check=False).stdout
    assert token not in shown
