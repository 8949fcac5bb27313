"""Backups of daemons that run, and what is left of them when something goes wrong."""

import json
import os
import resource
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

import waypost
from tests.crash.daemons import Daemon, loopback, patience
from tests.daemon.backups import (
    BODY,
    SECONDS,
    SLOW,
    await_no_copier,
    back_up,
    copiers,
    done,
    fill,
    one_daemon,
    store,
    texts,
)
from waypost.errors import BackupError, BackupUnderWay

PART = "waypost.backup.part"
WHOLE = "waypost.backup"


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[Daemon, waypost.Manager]]:
    """A daemon whose backup takes many seconds."""
    with one_daemon(tmp_path, loopback(21), SLOW) as (daemon, manager):
        manager.create_queue("orders")
        fill(manager, "orders", 5000)
        yield daemon, manager


def await_part(target: Path) -> None:
    """Until a backup is being written there."""
    with patience(SECONDS, "no backup is being made") as turns:
        for _ in turns:
            if (target / PART).exists() and (target / PART).stat().st_size:
                break


def whole(backup: Path, folder: Path) -> list[str | None]:
    """The content of the queue `orders` in a backup."""
    waypost.restore(backup, folder, new_identity=True)
    with waypost.open(folder) as manager:
        return texts(manager.queue("orders"))


def test_a_backup_under_load_has_everything_that_was_acknowledged_before(tmp_path: Path) -> None:
    with one_daemon(tmp_path, loopback(22)) as (daemon, manager):
        orders = manager.create_queue("orders")
        acknowledged: list[str] = []
        is_over = threading.Event()

        def send() -> None:
            with daemon.connect() as sender:
                queue = sender.queue("orders")
                while not is_over.is_set():
                    bodies = [f"{len(acknowledged) + number}" for number in range(20)]
                    queue.send_many(bodies)
                    acknowledged.extend(bodies)

        def receive() -> None:
            with daemon.connect() as receiver:
                queue = receiver.create_queue("others")
                while not is_over.is_set():
                    queue.send("there and back")
                    queue.receive(timeout=SECONDS)

        threads = [threading.Thread(target=each) for each in (send, receive)]
        for thread in threads:
            thread.start()
        try:
            with patience(SECONDS, "nothing was sent") as turns:
                for _ in turns:
                    if len(acknowledged) > 200:
                        break
            before = list(acknowledged)
            info = manager.backup(tmp_path / "backup")
        finally:
            is_over.set()
            for thread in threads:
                thread.join(SECONDS)
        assert orders.info().message_count == len(acknowledged)
        assert (info.name, info.guid) == ("alpha", manager.guid)
    found = whole(tmp_path / "backup", tmp_path / "copy")
    # And nothing of a part: what is there beyond is what was sent next, without a gap.
    assert len(found) >= len(before)
    assert found == [f"{number}" for number in range(len(found))]


def test_the_folder_and_the_stream_are_the_same_backup_for_its_owner_alone(tmp_path: Path) -> None:
    with one_daemon(tmp_path, loopback(23)) as (daemon, manager):
        manager.create_queue("orders").send("42 bolts")
        back_up(daemon, tmp_path / "folder")
        with (tmp_path / "stream").open("wb") as file:
            code, told = done("--url", daemon.url, "store", "backup", "-", stdout=file)
        assert code == 0, told
        asked = urllib.request.Request(f"{daemon.url}/api/store/backup", headers=daemon.headers)
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            assert answer.headers["content-type"] == "application/vnd.waypost.backup"
            (tmp_path / "http").write_bytes(answer.read())
        # Of a folder in use, without asking its daemon.
        code, told = done("store", "backup", tmp_path / "offline", "--data", daemon.folder)
        assert code == 0, told
        with patience(SECONDS, "the log does not say that backups were made") as turns:
            for _ in turns:
                if daemon.log.count("a backup was completed") == 3:
                    break
        assert "was interrupted" not in daemon.log
    for name in ("folder", "stream", "http", "offline"):
        assert whole(tmp_path / name, tmp_path / f"copy of {name}") == ["42 bolts"]
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "folder" / WHOLE).stat().st_mode & 0o777 == 0o600


def test_a_second_backup_at_the_same_time_is_refused_in_words(
    slow: tuple[Daemon, waypost.Manager], tmp_path: Path
) -> None:
    daemon, manager = slow
    first = store("--url", daemon.url, "store", "backup", tmp_path / "first")
    try:
        await_part(tmp_path / "first")
        with pytest.raises(BackupUnderWay, match=f"a backup of {daemon.folder} is in progress in process"):
            manager.backup(tmp_path / "second")
        with pytest.raises(HTTPError) as refused:
            daemon.get("/api/store/backup")
        assert refused.value.code == 409
        assert json.load(refused.value)["error"] == "BackupUnderWay"
        code, told = done("store", "backup", tmp_path / "third", "--data", daemon.folder)
        assert (code, "hint: wait until the other backup is finished." in told) == (1, True), told
        assert not (tmp_path / "second").exists()
        assert not (tmp_path / "third").exists()
    finally:
        first.kill()
        first.communicate()


def test_a_daemon_that_is_killed_leaves_no_backup_and_loses_nothing(
    slow: tuple[Daemon, waypost.Manager], tmp_path: Path
) -> None:
    daemon, _ = slow
    process = store("--url", daemon.url, "store", "backup", tmp_path / "backup")
    await_part(tmp_path / "backup")
    daemon.kill()
    _, told = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, told
    assert not (tmp_path / "backup").exists()
    await_no_copier(daemon.folder)
    daemon.start()
    with daemon.connect() as manager:
        assert manager.queue("orders").info().message_count == 5000


def test_a_command_that_is_killed_leaves_nothing_that_looks_like_a_backup(
    slow: tuple[Daemon, waypost.Manager], tmp_path: Path
) -> None:
    daemon, manager = slow
    process = store("--url", daemon.url, "store", "backup", tmp_path / "backup")
    await_part(tmp_path / "backup")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=SECONDS)
    assert os.listdir(tmp_path / "backup") == [PART]
    with pytest.raises(BackupError, match="is not a backup"):
        waypost.restore(tmp_path / "backup", tmp_path / "copy", new_identity=True)
    with pytest.raises(
        BackupError, match=r"contains an unfinished backup, .*; if it was interrupted, delete the unfinished backup"
    ):
        manager.backup(tmp_path / "backup")
    # The daemon notices that nobody listens any more, and is free for the next.
    await_no_copier(daemon.folder)
    assert manager.queue("orders").receive(timeout=0).text == BODY
    assert "Traceback" not in daemon.log


def test_a_client_that_hangs_up_ends_the_backup_and_nothing_else(
    slow: tuple[Daemon, waypost.Manager], tmp_path: Path
) -> None:
    daemon, manager = slow
    with socket.create_connection((daemon.address, 8181), SECONDS) as client:
        token = f"Authorization: {daemon.headers['Authorization']}\r\n".encode("ascii")
        client.sendall(b"GET /api/store/backup HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n" % token)
        assert b"200" in client.recv(1000)
        assert copiers(daemon.folder)
    await_no_copier(daemon.folder)
    with patience(SECONDS, "the log does not say that the client is gone") as turns:
        for _ in turns:
            if "a backup was interrupted: the client closed the connection" in daemon.log:
                break
    assert "a backup was completed" not in daemon.log
    assert manager.queue("orders").info().message_count == 5000
    assert "Traceback" not in daemon.log
    # The next one is not in its way.
    process = store("--url", daemon.url, "store", "backup", tmp_path / "backup")
    await_part(tmp_path / "backup")
    process.kill()
    process.communicate()


def test_a_copier_that_is_killed_is_said_and_its_pages_are_free_again(
    slow: tuple[Daemon, waypost.Manager], tmp_path: Path
) -> None:
    daemon, manager = slow
    process = store("--url", daemon.url, "store", "backup", tmp_path / "backup")
    await_part(tmp_path / "backup")
    for copier in copiers(daemon.folder):
        os.kill(copier, signal.SIGKILL)
    _, told = process.communicate(timeout=SECONDS)
    assert process.returncode == 1, told
    assert b"The backup failed" in told
    assert not (tmp_path / "backup").exists()
    with patience(SECONDS, "the log does not say it") as turns:
        for _ in turns:
            if "a backup was interrupted: the process for the backup has ended" in daemon.log:
                break
    assert "Traceback" not in daemon.log
    assert manager.queue("orders").info().message_count == 5000


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    with one_daemon(tmp_path, loopback(24)) as (daemon, manager):
        manager.create_queue("orders")
        fill(manager, "orders", 2000)

        def little_room() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

        code, told = done("--url", daemon.url, "store", "backup", tmp_path / "backup", preexec_fn=little_room)
        assert code == 1
        assert "Cannot write the backup: File too large" in told
        assert not (tmp_path / "backup").exists()
        with Path("/dev/full").open("wb") as full:
            code, told = done("--url", daemon.url, "store", "backup", "-", stdout=full)
        assert code == 1
        assert "Cannot write the backup: No space left on device" in told
        await_no_copier(daemon.folder)
        back_up(daemon, tmp_path / "backup")
        assert manager.queue("orders").info().message_count == 2000


def test_a_daemon_that_stops_breaks_off_its_backup(slow: tuple[Daemon, waypost.Manager], tmp_path: Path) -> None:
    daemon, _ = slow
    process = store("--url", daemon.url, "store", "backup", tmp_path / "backup")
    await_part(tmp_path / "backup")
    assert daemon.stop() == 0
    process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert not (tmp_path / "backup").exists()
    await_no_copier(daemon.folder)


def test_a_backup_that_takes_too_long_is_ended_in_words(tmp_path: Path) -> None:
    with one_daemon(tmp_path, loopback(25), SLOW, "store.backup_limit_s=0.5") as (daemon, manager):
        manager.create_queue("orders")
        fill(manager, "orders", 1000)
        code, told = done("--url", daemon.url, "store", "backup", tmp_path / "backup")
        assert (code, "The backup failed: " in told) == (1, True), told
        assert not (tmp_path / "backup").exists()
        with patience(SECONDS, "the log does not say it") as turns:
            for _ in turns:
                if "longer than 0.5 seconds (store.backup_limit_s)" in daemon.log:
                    break
