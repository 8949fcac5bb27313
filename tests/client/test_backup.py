"""Backups of queue managers in this process, in threads and in a loop; their bounds, and what restore makes of them."""

import asyncio
import inspect
import io
from pathlib import Path

import lmdb
import pytest

import waypost
from waypost import aio
from waypost.client.backups import restoring, source
from waypost.client.backups.making import backup_of_folder
from waypost.client.backups.source import BackupLimits, BackupSource
from waypost.errors import BackupDamaged, BackupError, InvalidParameter, NotAStore, StoreFull
from waypost.store.lmdb import LmdbStore
from waypost.store.restored import read_mark

ORDERS = ["42 bolts", "7 nuts"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with waypost.open(tmp_path / "data", name="HOST") as manager:
        manager.create_queue("orders").send_many(ORDERS)
    return tmp_path / "data"


def orders(folder: Path) -> list[str | None]:
    with waypost.open(folder) as manager:
        return [message.text for message in manager.queue("orders").browse()]


def test_a_backup_of_a_manager_in_this_process(tmp_path: Path, data: Path) -> None:
    told: list[tuple[int, int]] = []
    with waypost.open(data, name="HOST") as manager:
        manager.queue("orders").send("express", recoverable=False)
        info = manager.backup(tmp_path / "backup", progress=lambda come, about: told.append((come, about)))
        manager.queue("orders").send("later")
        guid = manager.guid
    assert (info.name, info.guid) == ("HOST", guid)
    assert told[-1][0] == (tmp_path / "backup/waypost.backup").stat().st_size
    # About so many bytes as were expected.
    assert abs(info.bytes - info.about_bytes) <= 16 * 4096
    made = waypost.restore(tmp_path / "backup", tmp_path / "copy", same_identity=True)
    assert (made.guid, made.backup_guid, made.bytes, made.time) == (guid, guid, info.bytes, info.time)
    assert orders(tmp_path / "copy") == ORDERS


def test_the_same_in_a_loop(tmp_path: Path, data: Path) -> None:
    async def run() -> None:
        async with aio.open(data, name="HOST") as manager:
            info = await manager.backup(tmp_path / "backup")
            assert info.guid == manager.guid
            made = await aio.restore(tmp_path / "backup", tmp_path / "copy", new_identity=True)
            assert made.guid != manager.guid

    asyncio.run(run())
    assert orders(tmp_path / "copy") == ORDERS


def test_both_sides_restore_with_the_same_arguments() -> None:
    assert inspect.signature(waypost.restore).parameters == inspect.signature(aio.restore).parameters
    assert waypost.restore.__doc__ == aio.restore.__doc__


def test_a_backup_goes_to_an_open_file_and_comes_from_one(tmp_path: Path, data: Path) -> None:
    stream = io.BytesIO()
    with waypost.open(data) as manager:
        manager.backup(stream)
        for wrong in (7, None):
            with pytest.raises(InvalidParameter, match="`target` must be a folder or an open file, not"):
                manager.backup(wrong)  # type: ignore[arg-type]
    stream.seek(0)
    waypost.restore(stream, tmp_path / "copy", same_identity=True)
    assert orders(tmp_path / "copy") == ORDERS


def test_a_closed_manager_makes_no_backup(tmp_path: Path, data: Path) -> None:
    manager = waypost.open(data)
    manager.close()
    with pytest.raises(waypost.errors.ServiceNotAvailable):
        manager.backup(tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_folder_that_holds_something_is_refused_before_anything_is_copied(tmp_path: Path, data: Path) -> None:
    with waypost.open(data) as manager:
        manager.backup(tmp_path / "backup")
        with pytest.raises(BackupError, match="backup is not empty; specify a new folder"):
            manager.backup(tmp_path / "backup")
        with pytest.raises(BackupError, match=r"cannot use .*/backup/waypost\.backup: Not a directory"):
            manager.backup(tmp_path / "backup/waypost.backup")
        with pytest.raises(BackupError, match=r"cannot write to .*/nowhere/backup: No such file or directory"):
            manager.backup(tmp_path / "nowhere/backup")


def test_what_is_no_store_is_not_backed_up(tmp_path: Path) -> None:
    with BackupSource(tmp_path) as empty, pytest.raises(NotAStore, match="does not contain a store"):
        empty.read()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """More than pipes hold."""
    with waypost.open(tmp_path / "data") as manager:
        manager.create_queue("orders").send_many(["x" * 1000] * 2000)
    return tmp_path / "data"


def test_a_reader_that_takes_nothing_ends_the_backup(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BACKUP_STALL_SECONDS", 0.2)
    with BackupSource(large) as backup:
        assert backup.read()
        backup._process.wait(60)
        with pytest.raises(BackupError, match=r"the reader of the backup has read nothing for 0\.2 seconds"):
            list(backup)
    # And its readers are gone, and so is the lock.
    with BackupSource(large) as backup:
        assert len(b"".join(backup)) > 2_000_000


def test_a_backup_is_made_at_a_rate(large: Path) -> None:
    limits = BackupLimits(seconds=0.3, bytes_per_second=500_000)
    with (
        BackupSource(large, limits) as backup,
        pytest.raises(BackupError, match=r"longer than 0\.3 seconds \(store\.backup_limit_s\)"),
    ):
        list(backup)


def test_a_source_that_is_closed_gives_nothing_more(large: Path) -> None:
    backup = BackupSource(large)
    assert backup.read()
    backup.close()
    assert backup.read() == b""
    backup.close()


def test_a_copier_that_is_killed_holds_nothing_any_more(large: Path) -> None:
    with LmdbStore(large) as store, BackupSource(large) as backup:
        assert backup.read()
        assert len(store._env.readers().splitlines()) == 3
        backup._process.kill()
        backup._process.wait(60)
        store.forget_lost_readers()
        # The heading, and the store's own.
        assert len(store._env.readers().splitlines()) == 2
        with pytest.raises(BackupError, match="the process for the backup has ended"):
            list(backup)


def test_a_restore_that_fails_at_any_step_leaves_nothing(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waypost.open(data) as manager:
        manager.backup(tmp_path / "backup")

    def fail(*_: object) -> None:
        raise StoreFull("no room")

    before = sorted(each.name for each in tmp_path.iterdir())
    for step in ("change_identity", "mark_restored"):
        with monkeypatch.context() as patch:
            patch.setattr(restoring, step, fail)
            with pytest.raises(StoreFull):
                waypost.restore(tmp_path / "backup", tmp_path / "copy", new_identity=True)
        assert sorted(each.name for each in tmp_path.iterdir()) == before
    with pytest.raises(InvalidParameter, match="exactly one of `same_identity` and `new_identity` must be True"):
        waypost.restore(tmp_path / "backup", tmp_path / "copy")
    with pytest.raises(BackupError, match=r"cannot read .*/nothing: No such file or directory"):
        waypost.restore(tmp_path / "nothing", tmp_path / "copy", same_identity=True)
    with pytest.raises(BackupError, match=r"cannot create .*/nowhere/copy: No such file or directory"):
        waypost.restore(tmp_path / "backup", tmp_path / "nowhere/copy", same_identity=True)
    (tmp_path / "short").write_bytes(b"Waypost backup\n")
    with pytest.raises(BackupDamaged):
        waypost.restore(tmp_path / "short", tmp_path / "copy", same_identity=True)


def test_the_mark_stays_until_the_first_start(tmp_path: Path, data: Path) -> None:
    with waypost.open(data) as manager:
        manager.backup(tmp_path / "backup")
    waypost.restore(tmp_path / "backup", tmp_path / "copy", same_identity=True)
    with LmdbStore(tmp_path / "copy") as store:
        assert read_mark(store) is not None
    with waypost.open(tmp_path / "copy") as manager:
        sent = manager.queue("orders").send("later")
        old, *_, last = (int(message.id.rpartition("\\")[2]) for message in manager.queue("orders").browse())
        assert last - old >= 1 << 30
        assert sent.id.endswith(f"\\{last}")
    with LmdbStore(tmp_path / "copy") as store:
        assert read_mark(store) is None


def damage(folder: Path, text: bytes) -> None:
    """Change a byte of the message that has this text."""
    with (
        lmdb.open(str(folder), max_dbs=20) as environment,
        environment.begin(write=True, db=environment.open_db(b"messages")) as transaction,
    ):
        (key, value) = next((key, value) for key, value in transaction.cursor() if text in value)
        transaction.put(key, value.replace(text, text[:-1] + b"?"))


def test_a_backup_of_a_damaged_store_is_restored_and_says_so(tmp_path: Path, data: Path) -> None:
    damage(data, "42 bolts".encode("utf-16-le"))
    # Before a start sets it aside.
    backup_of_folder(data, tmp_path / "backup")
    made = waypost.restore(tmp_path / "backup", tmp_path / "copy", same_identity=True)
    assert made.damaged == 1
    assert orders(tmp_path / "copy") == ["7 nuts"]


def test_a_damaged_message_does_not_stop_a_restore(tmp_path: Path) -> None:
    """In outgoing queues, which the first start renumbers, or a new identity empties."""
    far = "DIRECT=TCP:192.0.2.1\\private$\\ledger"
    with waypost.open(tmp_path / "data") as manager:
        for body in ORDERS:
            with manager.transaction() as transaction:
                manager.send(far, body, transaction=transaction)
    damage(tmp_path / "data", "42 bolts".encode("utf-16-le"))
    # Before a start sets it aside.
    backup_of_folder(tmp_path / "data", tmp_path / "backup")
    for is_new in (False, True):
        folder = tmp_path / f"is_new={is_new}"
        made = waypost.restore(tmp_path / "backup", folder, same_identity=not is_new, new_identity=is_new)
        assert (made.damaged, made.set_aside) == (1, int(is_new))
        with waypost.open(folder) as manager:
            found = [manager.queue("system$;deadxact"), *manager.outgoing_queues()]
            assert [message.text for queue in found for message in queue.browse()] == ["7 nuts"]
