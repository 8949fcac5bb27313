"""Backups on disks that fill up: that of the backup, that of the queue manager, and one that is both."""

import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

import waypost
from tests.crash.daemons import SECONDS, Daemon, loopback, patience
from tests.daemon.backups import await_no_copier, done, store
from tests.store.disks import MEGABYTE, small_disk
from waypost.errors import BackupDamaged, BackupError

DISK = 64 * MEGABYTE
BODY = b"x" * 100_000
# 15 MB of messages: a backup takes longer than the rest of the disk does.
MESSAGES = 150
SLOW = "store.backup_mb_per_s=0.5"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with (
        small_disk(DISK, tmp_path / "alpha"),
        Daemon(tmp_path, "alpha", loopback(41), SLOW, "rpc.enabled=false") as daemon,
    ):
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("orders").send_many([BODY] * MESSAGES)
            manager.create_queue("news")
        yield daemon


def readers(folder: Path) -> set[int]:
    """The processes that LMDB knows as readers, and that live."""
    with lmdb.open(str(folder), readonly=True, create=False) as env:
        env.reader_check()
        return {int(line.split()[0]) for line in env.readers().splitlines()[1:]}


def await_no_reader(daemon: Daemon) -> None:
    """Until no process but the daemon reads."""
    with patience(SECONDS, "the reader of a backup is left") as turns:
        for _ in turns:
            if readers(daemon.folder) <= {daemon.process}:
                return


def by_command_line(daemon: Daemon, target: Path) -> list[str | Path]:
    return ["--url", daemon.url, "store", "backup", target]


def of_the_folder(daemon: Daemon, target: Path) -> list[str | Path]:
    return ["store", "backup", target, "--data", daemon.folder]


@pytest.mark.parametrize("words", [by_command_line, of_the_folder])
def test_a_target_that_is_full_ends_the_backup_and_leaves_nothing(
    daemon: Daemon, tmp_path: Path, words: Callable[[Daemon, Path], list[str | Path]]
) -> None:
    with small_disk(2 * MEGABYTE, tmp_path / "small"):
        target = tmp_path / "small" / "monday"
        code, told = done(*words(daemon, target))
        assert code == 1
        assert "No space left on device" in told
        assert "Traceback" not in told
        assert not target.exists()
        await_no_copier(daemon.folder)
        await_no_reader(daemon)
        with daemon.connect() as manager, pytest.raises(BackupError, match="No space left on device"):
            manager.backup(target)
        assert not target.exists()


def send_and_receive_until(manager: waypost.Manager, is_over: Callable[[], object]) -> int:
    """A publisher and a reader that leave the queue as long as it was. Nothing of it may be refused."""
    news = manager.queue("news")
    count = 0
    with patience(SECONDS, "the backup does not end") as turns:
        for _ in turns:
            news.send_many([BODY] * 5)
            for _ in range(5):
                news.receive(timeout=0)
            count += 5
            if is_over():
                return count
    raise AssertionError


def test_a_backup_ends_before_it_makes_the_daemon_refuse_senders(daemon: Daemon, tmp_path: Path) -> None:
    target = tmp_path / "monday"
    with daemon.connect() as manager, store(*by_command_line(daemon, target)) as backup:
        send_and_receive_until(manager, lambda: backup.poll() is not None)
        assert backup.stderr is not None
        told = backup.stderr.read().decode()
        assert backup.returncode == 1
        assert "nearly full" in told
        assert "Make more space available on the disk" in told
        assert not target.exists()
        await_no_copier(daemon.folder)
        await_no_reader(daemon)
        # Its space is used again: the same messages find room many times over.
        remaining = iter(range(100))
        send_and_receive_until(manager, lambda: next(remaining, None) is None)
    assert "a backup was interrupted" in daemon.log
    assert '"disk nearly full"' not in daemon.log


def test_a_backup_beside_the_data_folder_ends_before_it_fills_their_disk(daemon: Daemon) -> None:
    daemon.stop()
    daemon.settings.remove(SLOW)
    daemon.start()
    with daemon.connect() as manager:
        manager.queue("orders").send_many([BODY] * MESSAGES)
        code, told = done(*by_command_line(daemon, daemon.folder / "monday"))
        assert code == 1
        assert "nearly full" in told
        assert not (daemon.folder / "monday").exists()
        manager.queue("news").send(BODY)
    assert '"disk nearly full"' not in daemon.log


def test_a_stream_that_was_broken_off_is_not_a_backup(daemon: Daemon, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with daemon.connect() as manager, daemon.connect() as other:
        over = threading.Event()

        def back_up() -> None:
            try:
                with pytest.raises(BackupError, match="nearly full"):
                    other.backup(stream)
            finally:
                over.set()

        thread = threading.Thread(target=back_up)
        thread.start()
        send_and_receive_until(manager, over.is_set)
        thread.join()
    assert stream.tell()
    stream.seek(0)
    with pytest.raises(BackupDamaged, match="is incomplete"):
        waypost.restore(stream, tmp_path / "copy", new_identity=True)
    assert not (tmp_path / "copy").exists()
