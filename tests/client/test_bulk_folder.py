"""A store in a folder, read in bulk without a daemon."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

import waypost
from tests.crash.daemons import Daemon, loopback
from waypost.api.bulk import PlanRange, ReadRange
from waypost.client.bulk.folder import FolderReader
from waypost.errors import NotAStore, QueueDeleted, QueueNotFound
from waypost.wire.user_message import UserMessage


@contextmanager
def running(place: Path) -> Iterator[waypost.Manager]:
    """In a separate process: LMDB does not let one process open a store twice."""
    with Daemon(place, "data", loopback(71)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            yield manager


def bodies(folder: FolderReader, name: str) -> list[bytes]:
    found = []
    for frame in folder.read_all(ReadRange(name=name, up_to=folder.queue(name).stable)):
        offsets = frame.offsets.cast("i")
        for start, stop in pairwise(offsets):
            found.append(UserMessage.decode(bytes(frame.packets[start:stop])).properties.message_body)
    return found


def test_what_is_on_disk_is_read_in_the_order_of_arrival_while_its_owner_has_it_open(tmp_path: Path) -> None:
    with running(tmp_path) as manager:
        orders = manager.create_queue("orders")
        for priority, body in ((0, b"one"), (7, b"two"), (3, b"three")):
            orders.send(body, priority=priority)
        orders.send(b"express", recoverable=False)
        with FolderReader(tmp_path / "data") as folder:
            orders.send(b"later")
            assert bodies(folder, "orders") == [b"one", b"two", b"three"]
            assert [queue.path for queue in folder.queues("ord*")] == ["data\\private$\\orders"]
            assert folder.queue("orders").count == 3
            folder.renew()
            assert folder.queue("orders").count == 4
        with FolderReader(tmp_path / "data") as folder:
            assert bodies(folder, "orders")[-1] == b"later"
        assert [message.body for message in orders.browse()] == [b"two", b"three", b"express", b"later", b"one"]


def test_what_no_transaction_has_committed_is_not_seen(tmp_path: Path) -> None:
    with running(tmp_path) as manager:
        orders = manager.create_queue("orders", transactional=True)
        transaction = manager.transaction()
        orders.send(b"perhaps", transaction=transaction)
        with FolderReader(tmp_path / "data") as folder:
            assert folder.queue("orders").count == 0
        transaction.commit()
        with FolderReader(tmp_path / "data") as folder:
            assert bodies(folder, "orders") == [b"perhaps"]


def test_ranges_are_planned_as_in_a_daemon(tmp_path: Path) -> None:
    with waypost.open(tmp_path / "data", name="alpha") as manager:
        manager.create_queue("orders").send_many([b"x"] * 100)
    with FolderReader(tmp_path / "data") as folder:
        plan = folder.plan(PlanRange(name="orders", max_messages=50, parts=2))
        assert plan.counts == [25, 25]
        frame = folder.read(ReadRange(name="orders", after=plan.bounds[1], up_to=plan.bounds[2], epoch=plan.epoch))
        assert frame.count == 25
        assert folder.seq_at("orders", datetime.now(UTC) + timedelta(hours=1)) == folder.queue("orders").last
        assert folder.seq_at("orders", datetime.now(UTC) - timedelta(hours=1)) == 0


def test_what_is_not_there_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="does not contain a store"):
        FolderReader(tmp_path / "nowhere")
    with waypost.open(tmp_path / "data", name="alpha") as manager:
        manager.create_queue("orders")
    with FolderReader(tmp_path / "data") as folder:
        with pytest.raises(QueueNotFound, match="bills is not a queue of this computer"):
            folder.queue("bills")
        with pytest.raises(QueueDeleted, match="deleted and created again"):
            folder.read(ReadRange(name="orders", up_to=1, epoch="00000000-0000-0000-0000-000000000001"))


def test_a_damaged_message_is_left_out_with_a_warning(tmp_path: Path) -> None:
    with running(tmp_path) as manager:
        orders = manager.create_queue("orders")
        for body in (b"first message", b"second message", b"third message"):
            orders.send(body)
    (path,) = tmp_path.rglob("data.mdb")
    path.write_bytes(path.read_bytes().replace(b"second message", b"second massage"))
    before = path.read_bytes()
    with (
        FolderReader(path.parent) as folder,
        pytest.warns(UserWarning, match="is damaged in the store, and was skipped"),
    ):
        assert bodies(folder, "orders") == [b"first message", b"third message"]
    assert path.read_bytes() == before


def test_a_planned_range_is_read_without_a_queue_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with waypost.open(tmp_path / "data", name="alpha") as manager:
        plain, mixed = manager.create_queue("plain"), manager.create_queue("mixed")
        plain.send_many([b"%d" % number for number in range(1000)])
        for number in range(300):
            mixed.send(b"%d" % number, priority=number % 3)
        for _ in range(20):
            mixed.receive(0)
        short = manager.create_queue("short")
        short.send(b"expires", time_to_be_received=3600)
    with FolderReader(tmp_path / "data") as folder:
        wanted = {}
        for name in ("plain", "mixed", "short"):
            plan = folder.plan(PlanRange(name=name))
            middle = plan.bounds[-1] - 100 if name != "short" else plan.bounds[-1]
            wanted[name] = ReadRange(name=name, after=3, up_to=middle, epoch=plan.epoch, max_messages=100)
        slow = {name: rows(folder, replace(each, epoch="")) for name, each in wanted.items()}
    assert [len(found) > 100 for found in slow.values()] == [True, True, False]
    started = []
    real = FolderReader._started
    monkeypatch.setattr(FolderReader, "_started", lambda self: started.append(1) or real(self))  # type: ignore[func-returns-value]
    with FolderReader(tmp_path / "data") as folder:
        assert {name: rows(folder, wanted[name]) for name in ("plain", "mixed")} == {
            name: slow[name] for name in ("plain", "mixed")
        }
        assert started == []
        # A message that expires needs the clock of the queue manager.
        assert rows(folder, wanted["short"]) == slow["short"]
        assert started
        with pytest.raises(QueueDeleted, match="was deleted"):
            rows(folder, replace(wanted["plain"], epoch="6f3c9a50-0000-4000-8000-0123456789ab"))


def rows(folder: FolderReader, wanted: ReadRange) -> list[tuple[int, bytes, bytes]]:
    found: list[tuple[int, bytes, bytes]] = []
    for frame in folder.read_all(wanted):
        attributes = [bytes(frame.attributes[19 * at : 19 * at + 19]) for at in range(frame.count)]
        found += zip(frame.numbers(), attributes, frame.each_packet(), strict=True)
    return found
