"""/api/store/damaged, and the same from Python on both sides: messages that were damaged on disk."""

from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from tests.client import managers
from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost import Manager, aio, limits
from waypost.node import damaged
from waypost.store import keys
from waypost.store.port import Table

if TYPE_CHECKING:
    from waypost.node.node import Node
    from waypost.store.lmdb import LmdbStore

manager = managers.manager

PATH = "/api/store/damaged"


def spoil(manager: Manager | aio.Manager, label: str) -> None:
    """Change a bit of the record of the message with this label, as a disk does."""
    engine = driver_of(manager)
    node: Node = engine.node
    store: LmdbStore = engine._store
    for queue in node.manager.collection.by_number.values():
        for lookup_id in queue.positions:
            if node.messages.get(queue.number, lookup_id).label == label:
                key = keys.message_key(queue.number, lookup_id)
                with store._env.begin(write=True, db=store._tables[Table.MESSAGES]) as transaction:
                    value = bytearray(transaction.get(key) or b"")
                    value[-20] ^= 1
                    transaction.put(key, bytes(value))
    # Reads use a snapshot.
    store._snapshot.abort()
    store._read_from(store._env.begin())


@served()
async def test_they_are_listed_and_forgotten_over_http(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    for label in "abc":
        await orders.send("body", label=label)
    spoil(api.manager, "b")
    read = await api.post("/api/queues/orders/receive", {"count": 3})
    assert [message["label"] for message in read.json()["messages"]] == ["a", "c"]
    found = (await api.get(PATH)).json()
    (message,) = found["messages"]
    assert found["next"] == ""
    assert message["queue"].endswith("orders")
    assert message["has_bytes"]
    assert "data_base64" not in message
    with_bytes = (await api.get(f"{PATH}?with_bytes=true")).json()["messages"][0]
    assert b"b" in b64decode(with_bytes["data_base64"])
    assert (await api.get("/api/queues/orders")).json()["damaged_count"] == 1
    checks = (await api.get("/api/doctor")).json()["checks"]
    (check,) = [each for each in checks if each["check"] == "damage"]
    assert not check["ok"]
    assert "waypost store damaged" in check["hint"]
    answer = await api.delete(PATH)
    assert (answer.status_code, answer.json()) == (200, {"forgotten": 1})
    assert (await api.get(PATH)).json() == {"messages": [], "next": ""}
    assert (await api.manager.damaged_messages()) == []
    wrong = await api.get(f"{PATH}?after=x")
    assert wrong.status_code == 400
    assert "`after` must be the `next` value of an earlier page, not 'x'" in wrong.text


@served()
async def test_a_queue_manager_without_damage_says_so(api: Api) -> None:
    checks = (await api.get("/api/doctor")).json()["checks"]
    assert [each["ok"] for each in checks if each["check"] == "damage"] == [True]


def test_many_come_in_pages(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged, "MAX_DAMAGED_PAGE", 3)
    orders = manager.create_queue("orders")
    for number in range(4):
        orders.send("body", label=str(number))
    for number in range(4):
        spoil(manager, str(number))
        assert len(list(orders.browse())) == 3 - number
    found = manager.damaged_messages(with_bytes=True)
    assert len(found) == 4
    assert all(each.data for each in found)
    assert manager.forget_damaged_messages() == 4
    assert manager.damaged_messages() == []
    assert limits.MAX_DAMAGED_PAGE == 1000
