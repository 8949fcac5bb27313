"""Requests that are refused leave nothing behind: no lock, no open handle, no half of what was asked for."""

import asyncio
from unittest.mock import patch

import pytest

import waypost
from tests.client import managers
from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost.api.operations import OpenCursor, Operation
from waypost.client.transports.http.http11 import ResponseParser
from waypost.drive.loop import Loop
from waypost.errors import InvalidParameter, StoreFull, TransactionSequence
from waypost.http.settings import HttpSettings
from waypost.http.sharing import SharedQueues
from waypost.security.callers import Caller

manager, orders = managers.manager, managers.orders


def test_a_queue_that_cannot_be_closed_keeps_no_other_open() -> None:
    async def close_two() -> list[str]:
        closed: list[str] = []
        is_closed = asyncio.Event()

        def stop_reading(name: str) -> None:
            if name == "too long":
                raise InvalidParameter("it is too long")
            closed.append(name)
            is_closed.set()

        shared = SharedQueues(stop_reading)
        for name in ("too long", "orders"):
            with shared.reading(name):
                pass
        await asyncio.wait_for(is_closed.wait(), 60)
        return closed

    assert asyncio.run(close_two()) == ["orders"]


@served()
async def test_the_id_of_a_stage_is_no_id_for_a_transaction(api: Api) -> None:
    await api.manager.create_queue("orders")
    lasting = driver_of(api.manager).node.manager.transactions.lasting
    identifier = bytes(range(16))
    lasting[identifier] = []
    text = "03020100-0504-0706-0809-0a0b0c0d0e0f"
    assert (await api.post("/api/transactions", {"id": text})).status_code == 409
    begun = {"messages": [{}], "transaction": text, "begin_s": 30}
    assert (await api.post("/api/queues/orders/messages", begun)).status_code == 409
    assert (await api.get("/health/ready")).status_code == 200


def test_a_transaction_goes_on_after_a_first_operation_that_is_refused(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:  # fmt: skip
    transaction = manager.transaction()
    with pytest.raises(InvalidParameter):
        orders.send("x", priority=99, transaction=transaction)
    ledger = manager.create_queue("ledger", transactional=True)
    ledger.send("42 bolts", transaction=transaction)
    transaction.commit()
    assert ledger.receive(0).text == "42 bolts"


def test_a_transaction_in_which_all_was_refused_commits_nothing(
    manager: waypost.Manager, orders: waypost.Queue
) -> None:  # fmt: skip
    with manager.transaction() as transaction, pytest.raises(InvalidParameter):
        orders.send("x", priority=99, transaction=transaction)
    with pytest.raises(TransactionSequence, match="is committed"):
        transaction.commit()


@served(HttpSettings(max_batch=3))
async def test_a_receipt_that_is_no_id_leaves_the_others_open(api: Api) -> None:
    ledger = await api.manager.create_queue("ledger")
    await ledger.send("42 bolts")
    leased = (await api.post("/api/queues/ledger/receive", {"timeout_s": 0, "lease_s": 60})).json()
    receipt = leased["messages"][0].get("receipt") or leased["receipt"]
    wrong = await api.post("/api/queues/ledger/receive", {"timeout_s": 0, "acknowledge": [receipt, "zz"]})
    assert wrong.status_code == 400
    many = await api.post("/api/queues/ledger/receive", {"timeout_s": 0, "acknowledge": [receipt] * 4})
    assert (many.status_code, many.json()["message"]) == (400, "a request can acknowledge at most 3 receipts")
    assert (await ledger.info()).message_count == 1
    await api.post(f"/api/transactions/{receipt}/abort")
    assert (await ledger.receive(0)).text == "42 bolts"


def test_many_interim_responses_are_passed_over() -> None:
    parser = ResponseParser()
    response = parser.feed(b"HTTP/1.1 100 Continue\r\n\r\n" * 2500 + b"HTTP/1.1 204 No Content\r\n\r\n")
    assert response is not None
    assert response.status == 204


@served(HttpSettings(max_handles=1))
async def test_handles_opened_at_the_limit_are_closed_again(api: Api) -> None:
    names = [f"orders{number}" for number in range(8)]
    for name in names:
        await api.manager.create_queue(name)
    call = Loop.call

    async def call_later(shell: Loop, operation: Operation[object], caller: Caller) -> object:
        await asyncio.sleep(0)
        return await call(shell, operation, caller)

    with patch.object(Loop, "call", call_later):
        answers = await asyncio.gather(*(api.post("/api/handles", {"queue": name}) for name in names))
    assert sorted(answer.status_code for answer in answers) == [201] + [507] * 7
    queues = driver_of(api.manager).node.manager.collection.by_number.values()
    assert sum(len(queue.descriptors) for queue in queues) == 1


@served(HttpSettings(max_handles=1))
async def test_cursors_opened_at_the_limit_are_closed_again(api: Api) -> None:
    await api.manager.create_queue("orders")
    handle = (await api.post("/api/handles", {"queue": "orders"})).json()["id"]
    call = Loop.call
    all_have_asked = asyncio.Barrier(8)

    async def call_later(shell: Loop, operation: Operation[object], caller: Caller) -> object:
        if isinstance(operation, OpenCursor):
            await all_have_asked.wait()
        return await call(shell, operation, caller)

    with patch.object(Loop, "call", call_later):
        wanted = {"queue": "orders", "handle": handle}
        answers = await asyncio.gather(*(api.post("/api/cursors", wanted) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [507] * 7
    queues = driver_of(api.manager).node.manager.collection.by_number.values()
    assert sum(len(each.cursors) for queue in queues for each in queue.descriptors.values()) == 1


@served()
async def test_a_message_is_for_others_again_when_the_commit_of_its_receive_fails(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    node = driver_of(api.manager).node
    waiting = asyncio.create_task(api.post("/api/queues/orders/receive", {"timeout_s": 60}))
    transactions = node.manager.transactions
    while not transactions.collection:
        await asyncio.sleep(0)
    await orders.send("42 bolts")
    node.kernel.trouble = StoreFull("the disk is full")
    assert (await waiting).status_code == 507
    node.kernel.trouble = None
    assert (await orders.receive(0)).text == "42 bolts"
