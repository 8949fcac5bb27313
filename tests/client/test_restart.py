"""Folders over restarts, and their failures."""

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import waypost
from tests.client import managers
from tests.client.managers import Beside, opened, run, send_for_ever, until
from waypost import aio
from waypost.errors import (
    IllegalPathName,
    InvalidParameter,
    NotAStore,
    OutcomeUnknown,
    StoreDamaged,
    StoreFull,
    StoreInUse,
)
from waypost.store.lmdb import LmdbStore
from waypost.store.port import Batch, Table

manager = managers.manager


def test_a_restart_keeps_recoverable_messages_in_their_order_and_drops_express_ones(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        guid = manager.guid
        orders = manager.create_queue("orders", label="incoming", quota_kb=500)
        orders.send("second", app_tag=5, extension=b"more", response_queue="orders")
        orders.send("express", recoverable=False)
        orders.send("first", priority=7)
        orders.send("third")
        orders.move(orders.send("moved"), "orders;retry")
        ids = [message.id for message in orders.browse() if message.delivery == "recoverable"]
    with opened(tmp_path) as manager:
        assert manager.guid == guid
        orders = manager.queue("orders")
        found = list(orders.browse())
        assert [message.text for message in found] == ["first", "second", "third"]
        assert [message.id for message in found] == ids
        assert (found[1].app_tag, found[1].extension, found[1].response_queue) == (5, b"more", orders.format_name)
        info = orders.info()
        assert (info.label, info.quota_kb, info.subqueues, info.message_count) == ("incoming", 500, ("retry",), 3)
        assert info.bytes == sum(message.size for message in found)
        assert orders.subqueue("retry").receive(0).move_count == 1
        assert orders.send("new").lookup_id > found[-1].lookup_id


def test_ids_are_never_given_twice(tmp_path: Path) -> None:
    seen: set[str] = set()
    for _ in range(3):
        with opened(tmp_path) as manager:
            orders = manager.queues()[0] if manager.queues() else manager.create_queue("orders")
            new = {message.id for message in orders.send_many(["x"] * 5)}
            assert not new & seen
            seen |= new


def test_a_deleted_queue_and_received_messages_stay_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        manager.create_queue("gone").send("x")
        manager.delete_queue("gone")
        orders = manager.create_queue("orders")
        orders.send_many(["a", "b", "c"])
        orders.receive_many(2)
    with opened(tmp_path) as manager:
        assert [queue.name for queue in manager.queues()] == ["orders"]
        assert [message.text for message in manager.queue("orders").browse()] == ["c"]


def test_what_waits_for_other_computers_waits_on(tmp_path: Path) -> None:
    with opened(tmp_path) as manager:
        manager.send(r"winserver01\private$\orders", "far")
    with opened(tmp_path) as manager:
        (outgoing,) = manager.outgoing_queues()
        assert outgoing.peek(0).text == "far"


def test_the_folder_is_made_and_remembers_no_name(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with waypost.open(str(folder), name="one.example.org") as manager:
        assert (manager.name, manager.path) == ("one", folder)
        manager.create_queue("orders").send("x")
    with waypost.open(folder, name="two") as manager:
        assert manager.queue("orders").format_name == r"DIRECT=OS:two\PRIVATE$\orders"
        assert manager.queue("orders").receive(0).destination_queue == r"DIRECT=OS:one\PRIVATE$\orders"


def test_the_name_is_that_of_the_host_unless_given(tmp_path: Path) -> None:
    with waypost.open(tmp_path) as manager:
        assert manager.name
        manager.create_queue("orders").send("x")


@pytest.mark.parametrize("name", ["", "two words"])
def test_a_name_that_no_computer_has_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(IllegalPathName):
        waypost.open(tmp_path / "x", name=name)
    assert not (tmp_path / "x").exists()


def test_a_quota_bounds_all_queues_and_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path, quota_kb=10) as manager:
        manager.create_queue("a").send_many([bytes(1000)] * 4)
        manager.create_queue("b").send_many([bytes(1000)] * 4)
    with (
        opened(tmp_path) as manager,
        pytest.raises(waypost.errors.InsufficientResources, match="this queue manager has reached its quota"),
    ):
        manager.send("a", bytes(2000))
    with opened(tmp_path, quota_kb=20) as manager:
        manager.send("a", bytes(2000))
    with pytest.raises(InvalidParameter, match="`quota_kb` must be 0 to 4294967295 kilobytes"):
        opened(tmp_path, quota_kb=-1)


def test_a_folder_belongs_to_one_manager_at_a_time(manager: waypost.Manager) -> None:
    with pytest.raises(StoreInUse, match=f"is in use by process {os.getpid()}, which is this process"):
        opened(manager.path)
    done = run("import sys, waypost; waypost.open(sys.argv[1])", str(manager.path))
    assert f"StoreInUse: {manager.path} is in use by process {os.getpid()}\n" in done.stderr
    manager.close()
    opened(manager.path).close()


@pytest.mark.parametrize("path", [None, 5, b"data", "a\0b", "\ud800"])
def test_what_can_be_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidParameter, match="the path of a folder must be"):
        waypost.open(path)
    with pytest.raises(InvalidParameter, match="the path of a folder must be"):
        aio.open(path)


@pytest.mark.parametrize("size", [0, -1, 1e9, "1"])
def test_what_can_be_no_size_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(InvalidParameter, match="`max_size` must be a number of bytes"):
        waypost.open(tmp_path, max_size=size)
    with pytest.raises(InvalidParameter, match="`max_size` must be a number of bytes"):
        aio.open(tmp_path, max_size=size)


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear reader")
    with pytest.raises(NotAStore, match="contains other files"):
        opened(tmp_path)
    with pytest.raises(NotAStore, match="is not a folder"):
        opened(tmp_path / "letter.txt")


def test_a_damaged_store_is_refused_and_the_folder_is_free_again(tmp_path: Path) -> None:
    opened(tmp_path).close()
    data = tmp_path / "data.mdb"
    sound = data.read_bytes()
    data.write_bytes(b"\xff" * len(sound))
    with pytest.raises(StoreDamaged):
        opened(tmp_path)
    data.write_bytes(sound)
    opened(tmp_path).close()


def test_a_store_of_the_largest_size_is_full_and_keeps_what_it_has(tmp_path: Path) -> None:
    sent: list[str] = []
    manager = opened(tmp_path, max_size=1 << 20)
    orders = manager.create_queue("orders")
    with pytest.raises(StoreFull, match=r", limited to 1\.0 MB .* is nearly full: .* nothing was stored$"):
        send_for_ever(orders, bytes(20_000), sent)
    with pytest.raises(StoreFull):
        orders.send(bytes(20_000))
    assert orders.peek(0).id == sent[0]
    assert orders.peek(seek="last").id == sent[-1]
    assert orders.send("express", recoverable=False).delivery == "express"
    manager.close()
    with opened(tmp_path, max_size=1 << 20) as manager:
        assert [message.id for message in manager.queue("orders").receive_many(1000)] == sent
    with opened(tmp_path) as manager:
        assert manager.queue("orders").info().message_count == 0


class Disk:
    """Lets no file of this process grow beyond the size that the store has when it fills up."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data.mdb"
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._data.stat().st_size, self._hard))

    def clear(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._soft, self._hard))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.clear()


def test_when_a_full_disk_has_room_again_everything_goes_on(tmp_path: Path, disk: Disk) -> None:
    sent: list[str] = []
    with opened(tmp_path) as manager:
        orders = manager.create_queue("orders")
        ledger = manager.create_queue("ledger", transactional=True)
        first = manager.transaction()
        ledger.send("first", transaction=first)
        second = manager.transaction()
        ledger.send("second", transaction=second)
        disk.fill()
        with pytest.raises(OutcomeUnknown, match="the disk is full; the operation is kept in memory"):
            send_for_ever(orders, bytes(10_000), sent)
        with pytest.raises(StoreFull, match=r"the disk is full$"):
            first.commit()
        assert first.is_open
        with pytest.raises(StoreFull, match=r"the disk is full$"), second:
            pass
        assert not second.is_open
        disk.clear()

        def has_room() -> bool:
            try:
                first.commit()
            except StoreFull:
                return False
            return True

        until(has_room)
        sent.append(orders.send("after").id)
    with opened(tmp_path) as manager:
        found = [message.id for message in manager.queue("orders").browse()]
        assert set(sent) < set(found)
        assert len(found) == len(sent) + 1, "the message kept in memory was stored"
        assert [message.text for message in manager.queue("ledger").browse()] == ["first"]


def test_a_receive_that_meets_a_full_disk_waits_until_there_is_room(tmp_path: Path, disk: Disk) -> None:
    with opened(tmp_path) as manager:
        orders = manager.create_queue("orders")
        with Beside(orders.receive, 30) as waiting:
            time.sleep(0.05)
            disk.fill()
            with pytest.raises(OutcomeUnknown):
                send_for_ever(orders, bytes(100_000), [])
            assert waiting.is_running
            disk.clear()
        assert len(waiting.result().body) == 100_000


def test_a_manager_opens_on_a_full_disk_and_can_be_looked_at(tmp_path: Path, disk: Disk) -> None:
    with opened(tmp_path) as manager:
        manager.create_queue("orders").send_many(["a", "b"])
    disk.fill()
    with opened(tmp_path) as manager:
        assert [message.text for message in manager.queue("orders").browse()] == ["a", "b"]
        disk.clear()


def test_a_message_that_cannot_be_decoded_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    with waypost.open(tmp_path) as manager:
        queue = manager.create_queue("q")
        queue.send("m", dead_letter=True)
        queue.send("n")
    with LmdbStore(tmp_path) as store:
        key, value = next(iter(store.scan(Table.MESSAGES)))
        batch = Batch()
        batch.put(Table.MESSAGES, key, value[:19] + b"\xff" + value[20:])
        store.commit(batch, 1)
    for _ in range(2):
        with waypost.open(tmp_path) as manager:
            assert manager.queue("q").peek(0).text == "n"
            assert manager.queue("q").info().message_count == 1
            assert "cannot decode" in manager.damaged_messages()[0].reason
