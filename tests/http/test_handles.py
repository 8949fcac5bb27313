"""Open objects of clients between requests: transactions, cursors, exclusive opens."""

import asyncio
from unittest.mock import patch

import pytest

from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost.errors import StoreFull, Timeout
from waypost.http.settings import HttpSettings

ORDERS = "/api/queues/orders"
CHOSEN = "6b29fc40-ca47-1067-b31d-00dd010662da"


@served()
async def test_a_transaction_sends_and_receives_all_or_nothing(api: Api) -> None:
    orders = await api.manager.create_queue("orders", transactional=True)
    async with api.manager.transaction() as transaction:
        await orders.send("old", transaction=transaction)
    begun = await api.post("/api/transactions", {"timeout_s": 30})
    assert begun.status_code == 201
    identifier = begun.json()["id"]
    assert await api.bodies(f"{ORDERS}/receive", {"transaction": identifier}) == ["old"]
    await api.post(f"{ORDERS}/messages", {"messages": [{"body_text": "new"}], "transaction": identifier})
    assert await api.bodies(f"{ORDERS}/receive", {}) == []
    assert (await api.post(f"/api/transactions/{identifier}/commit")).status_code == 204
    assert await api.bodies(f"{ORDERS}/receive", {}) == ["new"]


@served()
async def test_an_abort_gives_messages_back(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send("42 bolts")
    data = {"transaction": CHOSEN, "begin_s": 30}
    assert await api.bodies(f"{ORDERS}/receive", data) == ["42 bolts"]
    assert (await api.post(f"/api/transactions/{CHOSEN}/abort")).status_code == 204
    assert (await orders.receive(0)).abort_count == 1
    again = await api.post(f"{ORDERS}/receive", data)
    assert (again.status_code, again.json()["error"]) == (409, "TransactionSequence")
    assert (await api.post(f"/api/transactions/{CHOSEN}/commit")).status_code == 409


@served()
async def test_a_commit_can_be_asked_for_again(api: Api) -> None:
    orders = await api.manager.create_queue("orders", transactional=True)
    await api.post(f"{ORDERS}/messages", {"messages": [{}], "transaction": CHOSEN, "begin_s": 30})
    twice = await asyncio.gather(*(api.post(f"/api/transactions/{CHOSEN}/commit") for _ in range(2)))
    assert [each.status_code for each in twice] == [204, 204]
    assert (await api.post(f"/api/transactions/{CHOSEN.upper()}/commit")).status_code == 204
    assert (await orders.info()).message_count == 1
    assert (await api.post(f"/api/transactions/{CHOSEN}/abort")).status_code == 409


@served()
async def test_a_transaction_that_nobody_uses_is_aborted(api: Api) -> None:
    await api.manager.create_queue("orders", transactional=True)
    data = {"messages": [{}], "transaction": CHOSEN, "begin_s": 1}
    for _ in range(3):
        assert (await api.post(f"{ORDERS}/messages", data)).status_code == 200
        await asyncio.sleep(0.4)
    async with asyncio.timeout(60):
        while "waypost_http_transactions_expired_total 1.0" not in (await api.get("/metrics")).text:
            await asyncio.sleep(0.05)
    late = await api.post(f"{ORDERS}/messages", data)
    assert (late.status_code, late.json()["error"]) == (409, "TransactionSequence")
    assert "it timed out" in late.json()["message"]


@served(HttpSettings(max_transactions=2))
async def test_transactions_are_bounded(api: Api) -> None:
    begun = [await api.post("/api/transactions", {}) for _ in range(3)]
    assert [each.status_code for each in begun] == [201, 201, 507]
    assert begun[2].json()["error"] == "LimitReached"
    assert "wait until they expire" in begun[2].json()["hint"]
    await api.post(f"/api/transactions/{begun[0].json()['id']}/abort")
    assert (await api.post("/api/transactions", {})).status_code == 201


@served(HttpSettings(max_transactions=1))
async def test_leases_are_bounded_and_lose_nothing(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    offers = await api.manager.create_queue("offers")
    await orders.send_many(["1", "2"])
    answers = [await api.post(f"{ORDERS}/receive", {"lease_s": 30}) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 507]
    waiting = [asyncio.create_task(api.bodies("/api/queues/offers/receive", {"timeout_s": 5})) for _ in range(3)]
    await asyncio.sleep(0.1)
    await offers.send_many(["a", "b", "c"])
    assert {text for texts in await asyncio.gather(*waiting) for text in texts} == {"a", "b", "c"}
    assert await api.bodies(f"{ORDERS}/receive", {}) == ["2"]


@served()
async def test_a_transaction_is_begun_once(api: Api) -> None:
    assert (await api.post("/api/transactions", {"id": CHOSEN})).status_code == 201
    assert (await api.post("/api/transactions", {"id": CHOSEN})).status_code == 409
    assert (await api.post("/api/transactions", {"id": "nonsense"})).status_code == 400
    assert (await api.post(f"/api/transactions/{CHOSEN[::-1]}/commit")).status_code == 400


@served()
async def test_a_cursor_looks_through_a_queue(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send_many(["1", "2", "3"])
    opened = await api.post("/api/cursors", {"queue": "orders"})
    assert opened.status_code == 201
    cursor = f"/api/cursors/{opened.json()['id']}"
    assert await api.bodies(f"{cursor}/peek", {}) == ["1"]
    assert await api.bodies(f"{cursor}/next", {}) == ["2"]
    assert await api.bodies(f"{cursor}/receive", {}) == ["2"]
    assert await api.bodies(f"{cursor}/peek", {}) == ["3"]
    assert await api.bodies(f"{cursor}/next", {"timeout_s": 0.05}) == []
    waiting = asyncio.create_task(api.bodies(f"{cursor}/peek", {"timeout_s": 5}))
    await asyncio.sleep(0.05)
    await orders.send("4")
    assert await waiting == ["4"]
    assert (await api.delete(cursor)).status_code == 204
    gone = await api.post(f"{cursor}/peek", {})
    assert (gone.status_code, gone.json()["error"]) == (404, "InvalidHandle")
    assert (await api.delete(cursor)).status_code == 404


@served(HttpSettings(handle_s=1, max_handles=1))
async def test_a_cursor_that_nobody_uses_is_closed(api: Api) -> None:
    await (await api.manager.create_queue("orders")).send("1")
    cursor = f"/api/cursors/{(await api.post('/api/cursors', {'queue': 'orders'})).json()['id']}"
    assert (await api.post("/api/cursors", {"queue": "orders"})).status_code == 507
    for _ in range(3):
        await asyncio.sleep(0.4)
        assert await api.bodies(f"{cursor}/peek", {}) == ["1"]
    await asyncio.sleep(1.2)
    assert (await api.post(f"{cursor}/peek", {})).status_code == 404
    assert (await api.post("/api/cursors", {"queue": "orders"})).status_code == 201


@served()
async def test_an_exclusive_open_keeps_others_out(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send_many(["1", "2"])
    handle = (await api.post("/api/handles", {"queue": "orders"})).json()["id"]
    assert (await api.post(f"{ORDERS}/receive", {})).json()["error"] == "SharingViolation"
    assert (await api.post("/api/handles", {"queue": "orders"})).json()["error"] == "SharingViolation"
    assert await api.bodies(f"{ORDERS}/receive", {"handle": handle}) == ["1"]
    wrong = await api.post("/api/queues/offers/receive", {"handle": handle})
    assert (wrong.status_code, wrong.json()["error"]) == (400, "InvalidParameter")
    cursor = (await api.post("/api/cursors", {"queue": "orders", "handle": handle})).json()["id"]
    assert await api.bodies(f"/api/cursors/{cursor}/peek", {}) == ["2"]
    assert (await api.delete(f"/api/handles/{handle}")).status_code == 204
    assert (await api.post(f"/api/cursors/{cursor}/peek", {})).json()["error"] == "InvalidHandle"
    assert await api.bodies(f"{ORDERS}/receive", {}) == ["2"]
    assert (await api.post(f"{ORDERS}/receive", {"handle": handle})).json()["error"] == "InvalidHandle"


@served(HttpSettings(max_handles=2))
async def test_the_cursors_of_an_exclusive_open_are_given_back_with_it(api: Api) -> None:
    await api.manager.create_queue("orders")
    for _ in range(3):
        handle = (await api.post("/api/handles", {"queue": "orders"})).json()["id"]
        wanted = {"queue": "orders", "handle": handle}
        assert [(await api.post("/api/cursors", wanted)).status_code for _ in range(3)] == [201, 201, 507]
        assert (await api.delete(f"/api/handles/{handle}")).status_code == 204
    assert (await api.post("/api/cursors", {"queue": "orders"})).status_code == 201


@served(HttpSettings(handle_s=0.1))
async def test_an_exclusive_open_ends_with_its_lease(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    assert (await api.post("/api/handles", {"queue": "orders"})).status_code == 201
    await asyncio.sleep(0.3)
    with pytest.raises(Timeout):
        await orders.receive(0)


@served()
async def test_a_commit_that_the_store_refuses_can_be_asked_for_again(api: Api) -> None:
    orders = await api.manager.create_queue("orders", transactional=True)
    await api.post(f"{ORDERS}/messages", {"messages": [{}], "transaction": CHOSEN, "begin_s": 30})
    node = driver_of(api.manager).node
    node.kernel.trouble = StoreFull("the disk is full")
    assert (await api.post(f"/api/transactions/{CHOSEN}/commit")).status_code == 507
    node.kernel.trouble = None
    assert (await api.post(f"/api/transactions/{CHOSEN}/commit")).status_code == 204
    assert (await orders.info()).message_count == 1


@served()
async def test_a_commit_in_doubt_is_never_called_committed(api: Api) -> None:
    await api.manager.create_queue("orders", transactional=True)
    await api.post(f"{ORDERS}/messages", {"messages": [{}], "transaction": CHOSEN, "begin_s": 30})
    driver = driver_of(api.manager)
    # A disk that never comes to an end with what it is given.
    with patch.object(driver._store, "submit"), patch.object(driver._store, "commit_if_quick", return_value=False):
        committing = asyncio.create_task(api.post(f"/api/transactions/{CHOSEN}/commit"))
        while not driver.unwritten:
            await asyncio.sleep(0.01)
        driver._tell_trouble(StoreFull("the disk is full"))
        answer = await committing
        assert (answer.status_code, answer.json()["error"]) == (500, "OutcomeUnknown")
        again = await api.post(f"/api/transactions/{CHOSEN}/commit")
        assert (again.status_code, again.json()["error"]) == (409, "TransactionSequence")
        assert "may not be on disk" in again.json()["message"]
    driver.unwritten = 0


@served()
async def test_a_cursor_of_a_deleted_queue_says_that_the_queue_is_gone(api: Api) -> None:
    await api.manager.create_queue("orders")
    identifier = (await api.post("/api/cursors", {"queue": "orders"})).json()["id"]
    await api.delete(ORDERS)
    answer = await api.post(f"/api/cursors/{identifier}/peek", {})
    assert (answer.status_code, answer.json()["error"]) == (409, "QueueNotAvailable")
    assert "hint" not in answer.json()
