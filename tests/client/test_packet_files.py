"""`Queue.export_messages` and `Manager.import_messages`: messages in files, as the packets that would travel."""

import asyncio
from io import BytesIO
from pathlib import Path

import pytest

import waypost
from tests.client import managers
from tests.http.server import Api, served
from waypost import aio
from waypost.client import packet_files
from waypost.errors import InvalidParameter

manager, orders, ledger = managers.manager, managers.orders, managers.ledger


def test_what_is_exported_is_imported_with_all_that_belongs_to_it(
    manager: waypost.Manager, orders: waypost.Queue, tmp_path: Path
) -> None:
    sent = [orders.send("a", label="first", priority=6), orders.send(b"b", app_tag=7)]
    written = orders.export_messages(tmp_path / "packets")
    assert [message.id for message in written] == [message.id for message in sent]
    assert orders.info().message_count == 2
    told: list[int] = []
    manager.create_queue("copies")
    copies = manager.import_messages("copies", str(tmp_path / "packets"), progress=told.append)
    assert told == [1, 2]
    assert [(each.body, each.label, each.priority, each.app_tag) for each in copies] == [
        ("a".encode("utf-16-le"), "first", 6, 0),
        (b"b", "", 3, 7),
    ]
    assert {message.id for message in copies}.isdisjoint(message.id for message in sent)
    assert [message.id for message in manager.queue("copies").browse()] == [message.id for message in copies]


def test_chosen_messages_are_written_to_an_open_file(manager: waypost.Manager, orders: waypost.Queue) -> None:
    _, chosen = orders.send("a"), orders.send("b")
    file = BytesIO()
    assert [each.id for each in orders.export_messages(file, [orders.peek(lookup_id=chosen.lookup_id)])] == [chosen.id]
    assert [message.text for message in manager.import_messages(orders, BytesIO(file.getvalue()))] == ["b"]


def test_a_transactional_queue_gets_all_or_nothing(
    manager: waypost.Manager, orders: waypost.Queue, ledger: waypost.Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.send_many(["a", "b", "c"])
    file = BytesIO()
    orders.export_messages(file)
    first, *_, last = manager.import_messages(ledger, BytesIO(file.getvalue()))
    assert (first.first_in_transaction, last.last_in_transaction) == (True, True)
    monkeypatch.setattr(packet_files, "MAX_TRANSACTION_OPERATIONS", 2)
    with pytest.raises(InvalidParameter, match="3 messages are too many for one transaction: the limit is 2"):
        manager.import_messages(ledger, BytesIO(file.getvalue()))
    assert ledger.info().message_count == 3


@pytest.mark.parametrize("data", [b"no packet at all", bytes(40)])
def test_a_file_of_something_else_is_refused(manager: waypost.Manager, orders: waypost.Queue, data: bytes) -> None:
    with pytest.raises(InvalidParameter, match="the file contains data that is not a message"):
        manager.import_messages(orders, BytesIO(data))
    assert manager.import_messages(orders, BytesIO()) == []
    assert orders.info().message_count == 0


def test_coroutines_export_and_import(tmp_path: Path) -> None:
    async def copied() -> list[str]:
        async with aio.open(tmp_path / "data") as manager:
            orders = await manager.create_queue("orders")
            await orders.send_many(["a", "b"])
            assert len(await orders.export_messages(tmp_path / "packets")) == 2
            return [message.text for message in await manager.import_messages(orders, tmp_path / "packets")]

    assert asyncio.run(copied()) == ["a", "b"]


@served()
async def test_messages_of_a_daemon_are_exported_and_imported(api: Api) -> None:
    async with aio.connect(f"http://127.0.0.1:{api.port}") as manager:
        orders = await manager.create_queue("orders")
        ledger = await manager.create_queue("ledger", transactional=True)
        await orders.send_many(["a", "b"])
        file = BytesIO()
        await orders.export_messages(file)
        assert [message.text for message in await manager.import_messages(ledger, BytesIO(file.getvalue()))] == [
            "a",
            "b",
        ]
        assert (await ledger.info()).message_count == 2
