"""Callers that may not read any more while they wait or follow: they get no message, and consume none."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import httpx
import msgspec
import pytest

import waypost
from tests.daemon.recording import until
from tests.http.server import MESSAGEPACK, Api, served
from waypost.clock import Now
from waypost.drive import driver
from waypost.drive.new_guid import new_guid
from waypost.errors import AccessDenied, NotLoggedIn
from waypost.guid import guid_text
from waypost.http import events
from waypost.http.settings import HttpSettings
from waypost.node.node import Node

TOKEN: Final = HttpSettings(token="s3cret", max_wait_s=60, handle_s=600)
ADMIN: Final = {"authorization": "Bearer s3cret"}
PASSWORD: Final = "secret1"


class Ann:
    """A user with a token, and the queue `orders`, in which she may do everything."""

    def __init__(self, api: Api, token: str) -> None:
        self.api = api
        self.token = token
        self.headers = {"authorization": f"Bearer {token}"}

    @property
    def node(self) -> Node:
        return self.api.app._service.node

    async def post(self, path: str, data: object) -> httpx.Response:
        return await self.api.client.post(path, json=data, headers=self.headers)

    async def waiting(self, path: str, data: object) -> "asyncio.Task[httpx.Response]":
        """A read that waits in the queue manager."""
        task = asyncio.create_task(self.post(path, data))
        await self.waits(1)
        return task

    async def waits(self, count: int) -> None:
        await until(lambda: len(self.node.manager.reading._waits) == count)


async def admin(api: Api, method: str, path: str, data: object = None) -> Any:
    answer = await api.client.request(method, path, json=data, headers=ADMIN)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


async def prepared(api: Api) -> Ann:
    await admin(api, "POST", "/api/users", {"name": "ann", "role": "operate"})
    await admin(api, "POST", "/api/queues", {"name": "orders"})
    await grant(api)
    return Ann(api, (await admin(api, "POST", "/api/users/ann/token", {}))["token"])


async def grant(api: Api) -> None:
    await admin(api, "PATCH", "/api/queues/orders/acl", {"revoke": ["everyone"], "grant": ["ann:full"]})


async def send(api: Api, text: str = "secret") -> None:
    await admin(api, "POST", "/api/queues/orders/messages", {"messages": [{"body_text": text}]})


async def left(api: Api) -> list[str]:
    found = await admin(api, "POST", "/api/queues/orders/peek", {"count": 10})
    return [each["body_text"] for each in found["messages"]]


End = Callable[[Api], Awaitable[None]]


async def remove_user(api: Api) -> None:
    await admin(api, "DELETE", "/api/users/ann")


async def remove_token(api: Api) -> None:
    await admin(api, "DELETE", "/api/users/ann/token?id=all")


async def revoke(api: Api) -> None:
    await admin(api, "PATCH", "/api/queues/orders/acl", {"revoke": ["ann"]})


async def deny(api: Api) -> None:
    await admin(api, "PATCH", "/api/queues/orders/acl", {"deny": ["everyone:receive,peek"]})


ENDS: Final[dict[str, tuple[End, int, str]]] = {
    "user": (remove_user, 401, "the user ann no longer exists"),
    "token": (remove_token, 401, "the token of ann is unknown or has expired"),
    "right": (revoke, 403, "is missing"),
    "denied": (deny, 403, "is missing"),
}


async def plain(ann: Ann) -> tuple[str, object]:
    return "/api/queues/orders/receive", {"timeout_s": 50}


async def several(ann: Ann) -> tuple[str, object]:
    return "/api/queues/orders/receive", {"timeout_s": 50, "count": 10}


async def lease(ann: Ann) -> tuple[str, object]:
    return "/api/queues/orders/receive", {"timeout_s": 50, "lease_s": 60}


async def transaction(ann: Ann) -> tuple[str, object]:
    return "/api/queues/orders/receive", {"timeout_s": 50, "transaction": guid_text(new_guid()), "begin_s": 60}


async def peek(ann: Ann) -> tuple[str, object]:
    return "/api/queues/orders/peek", {"timeout_s": 50}


async def handle(ann: Ann) -> tuple[str, object]:
    opened = await ann.post("/api/handles", {"queue": "orders"})
    return "/api/queues/orders/receive", {"timeout_s": 50, "handle": opened.json()["id"]}


async def cursor(ann: Ann) -> tuple[str, object]:
    opened = await ann.post("/api/cursors", {"queue": "orders"})
    return f"/api/cursors/{opened.json()['id']}/peek", {"timeout_s": 50}


async def cursor_receive(ann: Ann) -> tuple[str, object]:
    opened = await ann.post("/api/cursors", {"queue": "orders"})
    return f"/api/cursors/{opened.json()['id']}/receive", {"timeout_s": 50}


WAYS: Final = (plain, several, lease, transaction, peek, handle, cursor, cursor_receive)


@pytest.mark.parametrize("name", ENDS)
def test_a_read_that_waits_ends_with_the_reason_and_consumes_nothing(name: str, tmp_path: Any) -> None:
    end, status, words = ENDS[name]

    @served(TOKEN)
    async def work(api: Api) -> None:
        for way in WAYS:
            ann = await prepared(api)
            read = await ann.waiting(*await way(ann))
            await end(api)
            answer = await asyncio.wait_for(read, 30)
            assert (answer.status_code, answer.json()["hresult"]) == (status, "0xc00e0025"), way
            assert words in answer.json()["message"]
            assert ("www-authenticate" in answer.headers) is (status == 401)
            await send(api)
            if name != "user":
                await remove_user(api)
            await until(lambda: not len(api.app._service.handles))
            await until(lambda: not api.app._service.shell.driver.handlers.opened._exclusive)
            await admin(api, "PATCH", "/api/queues/orders/acl", {"sddl": "D:(A;;GA;;;BA)"})
            assert await left(api) == ["secret"], way
            await admin(api, "DELETE", "/api/queues/orders")

    work(tmp_path)


@served(TOKEN)
async def test_a_read_of_the_fast_path_ends_too(api: Api) -> None:
    ann = await prepared(api)
    headers = {"content-type": MESSAGEPACK, "accept": MESSAGEPACK} | ann.headers
    body = msgspec.msgpack.encode({"timeout_s": 50})
    read = asyncio.create_task(api.client.post("/api/queues/orders/receive", content=body, headers=headers))
    await ann.waits(1)
    await remove_user(api)
    answer = await asyncio.wait_for(read, 30)
    assert (answer.status_code, msgspec.msgpack.decode(answer.content)["error"]) == (401, "NotLoggedIn")
    await send(api)
    assert await left(api) == ["secret"]


@served(TOKEN)
async def test_a_password_that_changes_ends_the_reads_that_it_began(api: Api) -> None:
    ann = await prepared(api)
    await admin(api, "POST", "/api/users/ann/password", {"password": PASSWORD})
    read = asyncio.create_task(
        api.client.post("/api/queues/orders/receive", json={"timeout_s": 50}, auth=("ann", PASSWORD))
    )
    await ann.waits(1)
    await admin(api, "POST", "/api/users/ann/password", {"password": "another1"})
    answer = await asyncio.wait_for(read, 30)
    assert (answer.status_code, answer.json()["message"]) == (401, "the password of ann was changed")


@served(TOKEN)
async def test_a_user_who_leaves_a_group_loses_its_rights_at_once(api: Api) -> None:
    ann = await prepared(api)
    await admin(api, "PATCH", "/api/users/ann", {"groups": ["clerks"]})
    await admin(api, "PATCH", "/api/queues/orders/acl", {"revoke": ["ann"], "grant": ["clerks:receive"]})
    read = await ann.waiting("/api/queues/orders/receive", {"timeout_s": 50})
    # Other changes do not matter.
    await admin(api, "POST", "/api/users", {"name": "bob", "role": "read"})
    await admin(api, "PATCH", "/api/queues/orders", {"label": "new"})
    assert not read.done()
    await admin(api, "PATCH", "/api/users/ann", {"groups": []})
    answer = await asyncio.wait_for(read, 30)
    assert answer.status_code == 403
    assert "ann may not receive from orders" in answer.json()["message"]


@served(TOKEN)
async def test_a_token_that_expires_during_a_wait_gets_nothing(api: Api) -> None:
    ann = await prepared(api)
    token = (await admin(api, "POST", "/api/users/ann/token", {"expires_days": 1}))["token"]
    ann.headers = {"authorization": f"Bearer {token}"}
    read = await ann.waiting("/api/queues/orders/receive", {"timeout_s": 50})
    with patch.object(driver, "_now", lambda: Now(time.monotonic(), time.time() + 90_000)):
        await send(api)
        answer = await asyncio.wait_for(read, 30)
        assert (answer.status_code, answer.json()["error"]) == (401, "NotLoggedIn")
        assert await left(api) == ["secret"]


@served(TOKEN)
async def test_the_next_reader_gets_the_message_that_a_gone_one_may_not_have(api: Api) -> None:
    ann = await prepared(api)
    token = (await admin(api, "POST", "/api/users/ann/token", {"expires_days": 1}))["token"]
    short = Ann(api, token)
    first = await short.waiting("/api/queues/orders/receive", {"timeout_s": 50})
    second = asyncio.create_task(ann.post("/api/queues/orders/receive", {"timeout_s": 50}))
    await ann.waits(2)
    with patch.object(driver, "_now", lambda: Now(time.monotonic(), time.time() + 90_000)):
        await send(api)
        assert (await asyncio.wait_for(second, 30)).json()["messages"][0]["body_text"] == "secret"
        assert (await asyncio.wait_for(first, 30)).status_code == 401


@served(TOKEN)
async def test_a_request_that_began_before_counts_when_it_is_complete(api: Api) -> None:
    ann = await prepared(api)
    await send(api)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    head = f"POST /api/queues/orders/receive HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ann.token}\r\n"
    writer.write(
        (head + "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n").encode()
    )
    await reader.readuntil(b"100 Continue\r\n\r\n")
    await remove_user(api)
    writer.write(b"{}")
    assert (await reader.readline()).startswith(b"HTTP/1.1 401")
    writer.close()
    assert await left(api) == ["secret"]


@pytest.mark.parametrize("name", ENDS)
def test_a_stream_of_events_ends_with_the_reason(name: str, tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    end, _, words = ENDS[name]

    @served(TOKEN)
    async def work(api: Api) -> None:
        ann = await prepared(api)
        async with api.client.stream("GET", "/api/queues/orders/events", headers=ann.headers) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == ": nothing new"
            await end(api)
            await send(api)
            async with asyncio.timeout(30):
                rest = [line async for line in lines]
        assert "event: gone" in rest
        assert words in rest[rest.index("event: gone") + 1]
        assert "secret" not in "".join(rest)

    work(tmp_path)
    assert "Exception" not in caplog.text


@served(TOKEN)
async def test_a_stream_of_events_ends_when_its_token_expires(api: Api) -> None:
    await prepared(api)
    token = (await admin(api, "POST", "/api/users/ann/token", {"expires_days": 1}))["token"]
    headers = {"authorization": f"Bearer {token}"}
    async with api.client.stream("GET", "/api/queues/orders/events", headers=headers) as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == ": nothing new"
        late = time.time() + 90_000
        with patch.object(events, "time", SimpleNamespace(time=lambda: late)):
            async with asyncio.timeout(30):
                rest = [line async for line in lines]
    assert "event: gone" in rest


@served(TOKEN)
async def test_python_gets_the_error_that_ended_a_wait(api: Api) -> None:
    ann = await prepared(api)

    def read() -> type[Exception] | None:
        with waypost.connect(f"http://127.0.0.1:{api.port}", token=ann.token) as manager:
            try:
                manager.queue("orders").receive(50)
            except AccessDenied as error:
                return type(error)
        return None

    def follow() -> type[Exception] | None:
        with waypost.connect(f"http://127.0.0.1:{api.port}", token=ann.token) as manager:
            try:
                for _ in manager.queue("orders").events():
                    pass
            except AccessDenied as error:
                return type(error)
        return None

    reads = [asyncio.create_task(asyncio.to_thread(work)) for work in (read, follow)]
    await ann.waits(1)
    await until(lambda: api.app._service.streams == 1)
    await remove_user(api)
    assert await asyncio.wait_for(asyncio.gather(*reads), 30) == [NotLoggedIn, NotLoggedIn]


@served(TOKEN)
async def test_what_a_removed_user_left_open_is_closed_at_once(api: Api) -> None:
    ann = await prepared(api)
    service = api.app._service
    await admin(api, "POST", "/api/queues", {"name": "alone"})
    await admin(api, "PATCH", "/api/queues/alone/acl", {"grant": ["ann:full"]})
    await send(api, "1")
    await send(api, "2")
    transaction = guid_text(new_guid())
    taken = await ann.post("/api/queues/orders/receive", {"transaction": transaction, "begin_s": 600})
    leased = await ann.post("/api/queues/orders/receive", {"lease_s": 600})
    assert [each.json()["messages"][0]["body_text"] for each in (taken, leased)] == ["1", "2"]
    assert (await ann.post("/api/cursors", {"queue": "orders"})).status_code == 201
    exclusive = (await ann.post("/api/handles", {"queue": "alone"})).json()["id"]
    assert (await ann.post("/api/cursors", {"queue": "alone", "handle": exclusive})).status_code == 201
    begun = asyncio.create_task(ann.post("/api/queues/orders/receive", {"transaction": transaction, "timeout_s": 50}))
    await ann.waits(1)
    await remove_user(api)
    assert (await asyncio.wait_for(begun, 30)).status_code == 401
    await until(lambda: not (len(service.handles) or len(service.cursors) or len(service.transactions)))
    await until(lambda: not service.shell.driver.handlers.opened._exclusive)
    assert not service.shell.driver.handlers.opened._cursors
    await until(lambda: not service.node.manager.transactions.collection)
    # The queue is free, and the messages are back.
    opened = await admin(api, "POST", "/api/handles", {"queue": "alone"})
    await admin(api, "DELETE", f"/api/handles/{opened['id']}")
    assert not service.shared._users
    assert await left(api) == ["1", "2"]


@served(TOKEN)
async def test_what_others_left_open_stays_open(api: Api) -> None:
    await prepared(api)
    await admin(api, "POST", "/api/users", {"name": "bob", "role": "read"})
    handle = await admin(api, "POST", "/api/handles", {"queue": "orders"})
    await admin(api, "DELETE", "/api/users/bob")
    await send(api)
    found = await admin(api, "POST", "/api/queues/orders/receive", {"handle": handle["id"]})
    assert len(found["messages"]) == 1
