"""Requests share a queue object, and do not keep the queue from who wants it alone."""

import asyncio

import pytest

from tests.http.server import Api, served
from waypost.errors import SharingViolation, Timeout
from waypost.http import sharing


@served()
async def test_a_queue_that_was_read_from_can_be_had_alone_a_little_later(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send("bolts")
    assert await api.bodies("/api/queues/orders/receive", {}) == ["bolts"]
    alone = api.manager.queue("orders", exclusive=True)
    with pytest.raises(SharingViolation):
        await alone.receive(0)
    async with asyncio.timeout(60):
        while True:
            try:
                await alone.receive(0)
            except SharingViolation:
                await asyncio.sleep(0.05)
            except Timeout:
                break
    refused = await api.post("/api/queues/orders/receive", {})
    assert refused.json()["error"] == "SharingViolation"
    await alone.close()
    await orders.send("nuts")
    assert await api.bodies("/api/queues/orders/receive", {}) == ["nuts"]


@served()
async def test_a_request_that_waits_keeps_its_queue(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    waiting = asyncio.create_task(api.bodies("/api/queues/orders/receive", {"timeout_s": 10}))
    await asyncio.sleep(2.5 * sharing._REST_SECONDS)
    await orders.send("bolts")
    assert await waiting == ["bolts"]


@served()
async def test_a_cursor_keeps_its_place_while_its_queue_rests(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send_many([b"1", b"2"])
    cursor = (await api.post("/api/cursors", {"queue": "orders"})).json()["id"]
    assert await api.bodies(f"/api/cursors/{cursor}/peek", {}) == ["1"]
    await api.bodies("/api/queues/orders/peek", {})
    await asyncio.sleep(2.5 * sharing._REST_SECONDS)
    assert await api.bodies(f"/api/cursors/{cursor}/next", {}) == ["2"]
