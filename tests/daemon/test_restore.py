"""Daemons that go on from a backup, beside peers that were not restored; and restores that break off."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import SHORT_TIMERS, Daemon, loopback, patience, start_all
from tests.daemon.backups import SECONDS, back_up, done, fill, move_to, send_all, settle, store, texts
from waypost.errors import NotAStore

T = "t"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """Alpha, which sends, and beta, which has a transactional queue."""
    with ExitStack() as stack:
        daemons = [
            stack.enter_context(Daemon(tmp_path, name, loopback(number), *SHORT_TIMERS))
            for number, name in enumerate(("alpha", "beta"), 31)
        ]
        start_all(daemons)
        for daemon in daemons:
            with daemon.connect() as manager:
                manager.create_queue(T, transactional=True)
        yield daemons[0], daemons[1]


def restore(daemon: Daemon, backup: Path, folder: Path) -> None:
    """The daemon, which is gone, starts again on what a backup has."""
    code, told = done("store", "restore", backup, folder, "--same-identity")
    assert code == 0, told
    move_to(daemon, folder)
    daemon.start()


def await_texts(daemon: Daemon, expected: list[str]) -> None:
    """Until the last one is there; then these and no others are."""
    with daemon.connect() as manager:
        with patience(SECONDS, f"{expected[-1]} does not come") as turns:
            for _ in turns:
                if expected[-1] in texts(manager.queue(T)):
                    break
        assert texts(manager.queue(T)) == expected


def test_what_a_restored_sender_sends_arrives_once(pair: tuple[Daemon, Daemon], tmp_path: Path) -> None:
    alpha, beta = pair
    name = beta.direct(T)
    with alpha.connect() as manager:
        guid = manager.guid
        send_all(manager, name, "t0", "t1")
        settle(manager)
        with beta.down():
            # These wait in the backup.
            send_all(manager, name, "t2", "t3")
            back_up(alpha, tmp_path / "backup")
            alpha.kill()
    restore(alpha, tmp_path / "backup", tmp_path / "again")
    with alpha.connect() as manager:
        assert manager.guid == guid
        send_all(manager, name, "t4")
        settle(manager)
        # Now the original goes on after the backup, and beta remembers numbers that the backup does not know.
        back_up(alpha, tmp_path / "second")
        send_all(manager, name, "t5", "t6", "t7")
        settle(manager)
    alpha.kill()
    restore(alpha, tmp_path / "second", tmp_path / "third")
    with alpha.connect() as manager:
        send_all(manager, name, "t8", "t9")
        settle(manager)
    await_texts(beta, [f"t{number}" for number in range(10)])
    assert '"event":"restored"' in alpha.log.replace(" ", "") or "restored" in alpha.log


def test_what_is_sent_to_a_restored_receiver_arrives_once(pair: tuple[Daemon, Daemon], tmp_path: Path) -> None:
    alpha, beta = pair
    name = beta.direct(T)
    with alpha.connect() as manager:
        send_all(manager, name, "t0", "t1")
        settle(manager)
        back_up(beta, tmp_path / "backup")
        # Beta has taken and acknowledged them, and loses them.
        send_all(manager, name, "t2", "t3")
        settle(manager)
        beta.kill()
        # And these wait at alpha.
        send_all(manager, name, "t4")
        restore(beta, tmp_path / "backup", tmp_path / "again")
        send_all(manager, name, "t5", "t6")
        settle(manager)
    await_texts(beta, ["t0", "t1", "t4", "t5", "t6"])
    # And the other way.
    with beta.connect() as manager:
        send_all(manager, alpha.direct(T), "b0", "b1")
        settle(manager)
    await_texts(alpha, ["b0", "b1"])


def test_a_clone_does_not_send_what_the_original_sends(pair: tuple[Daemon, Daemon], tmp_path: Path) -> None:
    alpha, beta = pair
    with alpha.connect() as manager:
        guid = manager.guid
        manager.create_queue("plain").send("mine")
        with beta.down():
            send_all(manager, beta.direct(T), "t0")
            manager.send(beta.direct("nothing"), "q0")
            back_up(alpha, tmp_path / "backup")
    code, told = done("store", "restore", tmp_path / "backup", tmp_path / "copy", "--new-identity")
    assert code == 0, told
    assert "moved from outgoing queues to the dead-letter queues: 2." in told
    with Daemon(tmp_path, "copy", loopback(33), *SHORT_TIMERS) as clone:
        clone.start()
        assert clone.guid != guid
        with clone.connect() as manager:
            assert texts(manager.queue("plain")) == ["mine"]
            assert texts(manager.queue("system$;deadletter")) == ["q0"]
            (letter,) = manager.queue("system$;deadxact").browse()
            assert (letter.text, letter.message_class) == ("t0", 0x800C)
            assert not any(queue.info().message_count for queue in manager.outgoing_queues())
            # It is a queue manager like any other.
            send_all(manager, beta.direct(T), "c0", "c1")
            settle(manager)
    with beta.connect() as manager, patience(SECONDS, "something does not come") as turns:
        for _ in turns:
            if len(texts(manager.queue(T))) >= 3:
                break
        assert sorted(map(str, texts(manager.queue(T)))) == ["c0", "c1", "t0"]


# Restores that come to nothing


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a backup of 3000 messages."""
    place = tmp_path_factory.mktemp("backup")
    with waypost.open(place / "data", name="HOST") as manager:
        manager.create_queue("orders")
        fill(manager, "orders", 3000)
        manager.backup(place / "backup")
    return place / "backup" / "waypost.backup"


def test_a_backup_that_is_not_whole_is_refused(backup: Path, tmp_path: Path) -> None:
    content = backup.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0x10
    for name, damaged, sentence in (
        ("cut", content[: len(content) // 2], "The backup is incomplete: its end is missing."),
        ("flipped", bytes(flipped), "The backup is damaged: its checksum does not match its content."),
        ("other", b"\0" * 10_000, "The input is not a Waypost backup, because its first bytes are wrong."),
        ("empty", b"", "The backup is incomplete: its end is missing."),
    ):
        (tmp_path / name).write_bytes(damaged)
        code, told = done("store", "restore", tmp_path / name, tmp_path / "data", "--same-identity")
        assert code == 1
        assert sentence in told
        assert "hint: " in told
        assert [each.name for each in tmp_path.iterdir() if each.name.startswith("data")] == []
        (tmp_path / name).unlink()


def test_nothing_is_overwritten(backup: Path, tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data") as manager:
        guid = manager.guid
    (tmp_path / "file").write_text("something")
    for name in ("data", "file"):
        code, told = done("store", "restore", backup, tmp_path / name, "--same-identity")
        assert code == 1, told
        assert "hint: specify a new folder for DATA." in told
    with waypost.open(tmp_path / "data") as manager:
        assert manager.guid == guid
    (tmp_path / "empty").mkdir()
    assert done("store", "restore", backup, tmp_path / "empty", "--same-identity")[0] == 0


def test_the_operator_says_which_queue_manager_it_is(backup: Path, tmp_path: Path) -> None:
    for options in ((), ("--same-identity", "--new-identity")):
        code, told = done("store", "restore", backup, tmp_path / "data", *options)
        assert code == 2
        wanted = "--same-identity if the original queue manager will never start again"
        assert f"exactly one of two options is required: {wanted}" in told
        assert not (tmp_path / "data").exists()


def test_a_restore_that_is_killed_leaves_nothing_that_opens(backup: Path, tmp_path: Path) -> None:
    content = backup.read_bytes()
    process = store("store", "restore", "-", tmp_path / "data", "--same-identity", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(content[: len(content) - 1_000_000])
    process.stdin.flush()
    left = tmp_path / "data.restoring"
    with patience(SECONDS, "nothing is being restored") as turns:
        for _ in turns:
            if (left / "data.mdb").exists() and (left / "data.mdb").stat().st_size:
                break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=SECONDS)
    assert not (tmp_path / "data").exists()
    with pytest.raises(NotAStore, match="is incomplete: a restore or a salvage was interrupted there"):
        waypost.open(left)
    code, told = done("store", "restore", backup, tmp_path / "data", "--same-identity")
    assert code == 1
    assert "another restore is running or was interrupted; if it was interrupted, delete the folder" in told


def test_whenever_a_restore_is_killed_the_folder_is_whole_or_not_there(backup: Path, tmp_path: Path) -> None:
    """It is killed a little later each time, until it is done before that."""
    is_done = False
    for round_ in range(30):
        folder = tmp_path / f"{round_}"
        process = store("store", "restore", backup, folder, "--same-identity")
        try:
            process.wait(0.4 * 1.2**round_)
            is_done = process.returncode == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=SECONDS)
        left = folder.with_name(f"{folder.name}.restoring")
        if left.exists() and (left / "waypost.unfinished").exists():
            with pytest.raises(NotAStore, match="is incomplete: a restore or a salvage was interrupted there"):
                waypost.open(left)
        if folder.exists():
            with waypost.open(folder) as manager:
                assert manager.queue("orders").info().message_count == 3000
        if is_done:
            break
    assert is_done
