"""Verification: everything is looked at, whoever uses the folder, and every damage is named."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import lmdb
import pytest

import waypost
from tests.damage.cases import Pristine
from tests.damage.folders import anatomy, make_folder
from tests.forks import run
from waypost import aio
from waypost.api.records import record_of
from waypost.api.status import StoreReport
from waypost.client.storage import verifying
from waypost.errors import NotAStore, StoreTooNew
from waypost.store import keys
from waypost.store.page_file import PageFile
from waypost.store.port import Table
from waypost.store.records import CounterRecord, PositionRecord, TotalsRecord
from waypost.store.sealed_tables import seal


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Pristine:
    return Pristine.make(tmp_path_factory.mktemp("pristine"), 100)


@pytest.fixture
def folder(pristine: Pristine, tmp_path: Path) -> Path:
    copy = tmp_path / "data"
    copy.mkdir()
    (copy / "data.mdb").write_bytes(pristine.content)
    return copy


def write(folder: Path, table: Table, key: bytes, value: bytes | None) -> None:
    """Change a record behind the back of the queue manager, as if it had been so."""
    with lmdb.open(str(folder), 1 << 28, max_dbs=20) as env, env.begin(write=True) as transaction:
        database = env.open_db(table.name.lower().encode(), transaction)
        if value is None:
            assert transaction.delete(key, db=database)
        else:
            transaction.put(key, seal(table, key, value), db=database)


def only(report: StoreReport) -> str:
    assert report.damage_count == len(report.damage) == 1, report.damage
    return report.damage[0].reason


def test_a_folder_that_is_whole_is(pristine: Pristine, folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = waypost.verify(folder, progress=lambda done, total: seen.append((done, total)))
    assert report.is_whole
    assert report.damage == ()
    assert report.records["messages"] == len(pristine.keys)
    assert report.records["queues"] > 4
    assert report.free_pages > 0
    assert seen[-1][0] == seen[-1][1] > 0
    assert record_of(json.loads(json.dumps(report.to_dict())), StoreReport) == report


def test_a_new_folder_is_whole(tmp_path: Path) -> None:
    waypost.open(tmp_path / "data").close()
    assert waypost.verify(tmp_path / "data").is_whole


def test_a_message_whose_bytes_have_changed_is_named(folder: Path) -> None:
    with waypost.open(folder, name="here") as manager:
        sent = manager.queue("orders").send(b"a body that nobody else has")
    data = folder / "data.mdb"
    data.write_bytes(data.read_bytes().replace(b"a body that nobody else has", b"a body that nobody else Has"))
    report = waypost.verify(folder)
    (damage,) = {(each.table, each.queue, each.lookup_id) for each in report.damage}
    assert damage[0] == "messages"
    assert str(damage[1]).endswith("private$\\orders")
    assert damage[2] == str(sent.lookup_id)


def test_totals_are_compared_with_the_messages(folder: Path) -> None:
    queue = _queue_with_messages(folder)
    write(folder, Table.COUNTERS, keys.totals_key(queue), TotalsRecord(1, 2).encode())
    assert "but its totals say 1 messages of 2 bytes" in only(waypost.verify(folder))


def test_a_message_that_is_gone_is_missed(folder: Path, pristine: Pristine) -> None:
    key = next(key for key in sorted(pristine.keys) if key[:8] == keys.queue_key(_queue_with_messages(folder)))
    write(folder, Table.MESSAGES, key, None)
    assert "but its totals say" in only(waypost.verify(folder))


def test_a_position_without_a_message_is_found(folder: Path) -> None:
    queue = _queue_with_messages(folder)
    write(folder, Table.POSITIONS, keys.message_key(queue, 99_999), PositionRecord(2, 5).encode())
    assert "message 99999" in only(waypost.verify(folder))


def test_a_counter_that_is_behind_is_found(folder: Path) -> None:
    write(folder, Table.COUNTERS, keys.Counter.SEQUENTIAL_ID.value, CounterRecord(1).encode())
    assert "sequential_id is at 1" in only(waypost.verify(folder))


def test_messages_without_a_queue_are_found(folder: Path) -> None:
    queue = _queue_with_messages(folder)
    write(folder, Table.QUEUES, keys.queue_key(queue), None)
    report = waypost.verify(folder)
    assert any(f"messages belong to queue {queue}, which does not exist" in each.reason for each in report.damage)


def _queue_with_messages(folder: Path) -> int:
    shape = anatomy(folder)
    return min(keys.queue_id_of(key) for found in shape.messages.values() for key in found)


def test_pages_are_named(pristine: Pristine, folder: Path) -> None:
    page = pristine.anatomy.tables["messages"][1]
    with (folder / "data.mdb").open("r+b") as data:
        data.seek(page * 4096)
        data.write(bytes(4096))
    report = waypost.verify(folder)
    assert not report.is_whole
    assert report.damage[0].page == page
    assert report.damage[0].table == "messages"


def test_a_folder_of_something_else_is_not_verified(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        waypost.verify(tmp_path)
    lmdb.open(str(tmp_path)).close()
    with pytest.raises(NotAStore):
        waypost.verify(tmp_path)


def test_a_newer_format_is_not_verified(folder: Path) -> None:
    with lmdb.open(str(folder), 1 << 28, max_dbs=20) as env, env.begin(write=True) as transaction:
        transaction.put(b"format", b"\x63\0\0\0", db=env.open_db(b"store", transaction))
    with pytest.raises(StoreTooNew, match="format 99"):
        waypost.verify(folder)


def test_a_format_that_cannot_be_is_damage(folder: Path) -> None:
    with lmdb.open(str(folder), 1 << 28, max_dbs=20) as env, env.begin(write=True) as transaction:
        transaction.put(b"format", bytes(4), db=env.open_db(b"store", transaction))
    assert "format 0" in only(waypost.verify(folder))
    assert waypost.salvage(folder, folder.with_name("new")).missing == 0


def test_a_queue_manager_verifies_what_it_uses_while_it_goes_on(tmp_path: Path) -> None:
    make_folder(tmp_path / "data", 60)
    with waypost.open(tmp_path / "data", name="here") as manager:
        queue, stop, sent = manager.queue("orders"), Event(), []

        def send() -> None:
            while not stop.is_set():
                sent.append(queue.send(bytes(3000), label="meanwhile"))
                queue.receive(timeout=0)

        sender = Thread(target=send)
        sender.start()
        try:
            reports = [manager.verify_store() for _ in range(3)]
        finally:
            stop.set()
            sender.join()
        assert all(report.is_whole for report in reports), reports
        assert len(sent) > 1


def test_the_asynchronous_side_does_the_same(tmp_path: Path) -> None:
    async def verified() -> StoreReport:
        async with aio.open(tmp_path / "data") as manager:
            await manager.create_queue("orders")
            return await manager.verify_store()

    assert asyncio.run(verified()).is_whole


def test_the_command_says_what_is_wrong_and_what_to_type(pristine: Pristine, folder: Path) -> None:
    command = ("waypost.cli", "store", "verify", "--data", str(folder))
    done = run(*command, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No damage found." in done.stdout
    with (folder / "data.mdb").open("r+b") as data:
        data.seek(pristine.anatomy.roots["messages"] * 4096)
        data.write(bytes(4096))
    done = run(*command, "--json", timeout=120)
    assert done.returncode == 1
    assert json.loads(done.stdout)["is_whole"] is False
    assert f"waypost store salvage {folder} NEW" in done.stderr
    nothing = run(*command[:-1], "/nowhere", timeout=120)
    assert nothing.returncode == 1
    assert "hint: specify the data folder of a queue manager." in nothing.stderr


def test_commits_between_the_reader_and_the_meta_pages_only_mean_another_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    make_folder(folder, 10)
    sends = (
        f"import waypost\nwith waypost.open({str(folder)!r}) as m:\n"
        "    for _ in range(3):\n        m.queue('orders').send(b'x')"
    )
    opened = []

    def page_file(path: Path) -> PageFile:
        opened.append(path)
        if len(opened) == 2:
            # The reader has begun, and the meta pages are not read yet.
            subprocess.run([sys.executable, "-c", sends], check=True)
        return PageFile(path)

    monkeypatch.setattr(verifying, "PageFile", page_file)
    assert verifying.verify(folder).is_whole
    assert len(opened) == 3
