"""Metrics, health, status, doctor, explain, the schema and events."""

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.client.managers import driver_of
from tests.http.server import Api, served
from waypost.client.aio_opening import shell_of
from waypost.errors import StoreFull
from waypost.http.requests import Event, Scope
from waypost.http.settings import HttpSettings, Listener
from waypost.transfer.statistics import Statistics

ROOT = Path(__file__).parents[2]


async def numbers(api: Api) -> dict[tuple[str, str], float]:
    """Each number by its name and the queue it is about."""
    families = text_string_to_metric_families((await api.get("/metrics")).text)
    return {(each.name, each.labels.get("queue", "")): each.value for family in families for each in family.samples}


@served()
async def test_metrics_tell_of_every_queue(api: Api) -> None:
    orders = await api.manager.create_queue("orders", journal=True)
    await orders.send_many([b"x" * 100] * 3)
    await orders.receive(0)
    await api.manager.send("DIRECT=TCP:192.0.2.1\\private$\\far", "hello")
    found = await numbers(api)
    assert found["waypost_queue_messages", "orders"] == 2
    assert found["waypost_queue_bytes", "orders"] == (await orders.info()).bytes
    assert found["waypost_queue_journal_messages", "orders"] == 1
    assert 0 <= found["waypost_queue_oldest_message_age_seconds", "orders"] < 10
    assert found["waypost_outgoing_messages", "DIRECT=TCP:192.0.2.1\\PRIVATE$\\far"] == 1
    assert found["waypost_queue_messages", "system$;deadletter"] == 0
    assert found["waypost_queues_omitted", ""] == 0
    assert found["waypost_store_ok", ""] == 1
    assert found["waypost_commit_seconds_count", ""] > 0
    assert found["waypost_store_bytes", ""] > 0
    text = (await api.get("/metrics")).text
    assert 'waypost_outgoing_state{queue="DIRECT=TCP:192.0.2.1\\\\PRIVATE$\\\\far",state="inactive"} 1.0' in text


@served()
async def test_every_metric_is_documented(api: Api) -> None:
    await api.manager.send("DIRECT=TCP:192.0.2.1\\private$\\far", "hello")
    document = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    families = text_string_to_metric_families((await api.get("/metrics")).text)
    names = {family.name.removesuffix("_created") for family in families}
    # Only a queue manager with a network has these.
    names |= {f"waypost_transfer_{each.name}" for each in fields(Statistics)}
    assert [name for name in sorted(names) if f"`{name}`" not in document] == []


@served()
async def test_metrics_of_many_queues_stay_quick(api: Api) -> None:
    await asyncio.gather(*(api.manager.create_queue(f"queue{number}") for number in range(1200)))
    loop = asyncio.get_running_loop()
    start = loop.time()
    found = await numbers(api)
    assert loop.time() - start < 2
    # The three system queues are older.
    assert found["waypost_queues_omitted", ""] == 203
    assert found["waypost_queues", ""] == 1203


@served()
async def test_a_server_is_ready_while_it_can_write(api: Api) -> None:
    assert (await api.get("/health/live")).json() == {"status": "ok"}
    assert (await api.get("/health/ready")).status_code == 200
    driver_of(api.manager).node.kernel.trouble = StoreFull("the disk is full")
    unready = await api.get("/health/ready")
    assert (unready.status_code, unready.json()["reason"]) == (503, "the disk is full")
    assert (await api.get("/api/status")).json()["trouble"] == "the disk is full"
    assert [each["ok"] for each in (await api.get("/api/doctor")).json()["checks"] if each["check"] == "store"] == [
        False
    ]
    assert (await api.post("/api/queues", {"name": "orders"})).status_code == 507
    assert (await api.get("/health/live")).status_code == 200


@served()
async def test_a_closed_queue_manager_is_not_ready(api: Api) -> None:
    await api.manager.close()
    unready = await api.get("/health/ready")
    assert (unready.status_code, unready.json()["reason"]) == (503, "the queue manager is closed")
    assert (await api.post("/api/queues/orders/receive", {})).status_code == 503


@served(HttpSettings(listeners=(Listener("transfer", "127.0.0.1", 9),)))
async def test_status_and_doctor_tell_of_the_daemon(api: Api) -> None:
    status = (await api.get("/api/status")).json()
    assert (status["name"], status["guid"], status["listeners"][0]["port"]) == ("HOST", api.manager.guid, 9)
    checks = {each["check"]: each for each in (await api.get("/api/doctor")).json()["checks"]}
    assert checks["store"]["ok"]
    assert checks["clock"]["ok"]
    assert not checks["port transfer"]["ok"]
    assert all(each["ok"] or each["hint"] for each in checks.values())


@served()
async def test_a_queue_and_a_message_are_explained(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    sent = await orders.send("42 bolts")
    assert (await api.get("/api/explain", params={"queue": "orders"})).json()["sentences"]
    found = (await api.get("/api/explain", params={"message": sent.id})).json()
    assert found["facts"]["found"] is True


@served()
async def test_the_schema_has_every_path_of_the_api(api: Api) -> None:
    schema = (await api.get("/schema")).json()
    assert schema["openapi"].startswith("3.1")
    assert "post" in schema["paths"]["/api/queues/{name}/messages"]
    for verbs in schema["paths"].values():
        for operation in verbs.values():
            refusal = operation["responses"].get("400")
            assert refusal is None or refusal["content"]["application/json"]["schema"]["$ref"].endswith("ErrorObject")
    assert {"/api/status", "/api/doctor", "/api/explain", "/health/ready"} <= schema["paths"].keys()


@served()
async def test_the_page_names_what_there_is(api: Api) -> None:
    page = await api.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/api/status", "/schema", "/metrics"):
        assert f'href="{path}"' in page.text
        assert (await api.get(path)).status_code == 200


async def told(response: httpx.Response, count: int) -> list[tuple[str, str]]:
    """The ids and texts of the next events of a stream."""
    found: list[tuple[str, str]] = []
    identifier = ""
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            identifier = line.removeprefix("id: ")
        if line.startswith("data: "):
            found.append((identifier, json.loads(line.removeprefix("data: "))["body_text"]))
            if len(found) == count:
                break
    return found


@served()
async def test_events_tell_what_comes_and_take_nothing(api: Api) -> None:
    orders = await api.manager.create_queue("orders")
    await orders.send("old")
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        await asyncio.sleep(0.2)
        await orders.send("low", priority=0)
        await orders.send("high", priority=7)
        events = await told(response, 2)
    assert [text for _, text in events] == ["low", "high"]
    assert (await orders.info()).message_count == 3
    headers = {"last-event-id": events[0][0]}
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events", headers=headers) as response:
        assert [text for _, text in await told(response, 1)] == ["high"]
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events?since=start") as response:
        assert [text for _, text in await told(response, 3)] == ["old", "low", "high"]


@served()
async def test_events_tell_of_transactions_when_they_commit(api: Api) -> None:
    orders = await api.manager.create_queue("orders", transactional=True)
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events") as response:
        slow, quick = api.manager.transaction(), api.manager.transaction()
        await orders.send("first sent", transaction=slow)
        await orders.send("first committed", transaction=quick)
        await quick.commit()
        assert [text for _, text in await told(response, 1)] == ["first committed"]
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events?since=start") as response:
        await asyncio.sleep(0.3)
        await slow.commit()
        assert [text for _, text in await told(response, 2)] == ["first committed", "first sent"]


@served(HttpSettings(max_streams=1))
async def test_followers_are_bounded_and_forgotten_when_they_go(api: Api) -> None:
    await api.manager.create_queue("orders")
    async with api.client.stream("GET", "/api/queues/orders/events") as response:
        assert response.status_code == 200
        await asyncio.sleep(0.1)
        assert (await api.get("/api/queues/orders/events")).status_code == 507
    async with asyncio.timeout(60):
        while (await numbers(api))["waypost_http_streams", ""]:
            await asyncio.sleep(0.05)


@served()
async def test_followers_end_when_the_server_stops(api: Api) -> None:
    await api.manager.create_queue("orders")
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events") as response:
        await asyncio.sleep(0.1)
        api.app.stop()
        assert [line async for line in response.aiter_lines()] == [": nothing new", ""]


@served()
async def test_a_wait_that_the_stop_of_the_server_ends_is_no_refusal_of_the_queue(api: Api) -> None:
    await api.manager.create_queue("orders")
    waiting = asyncio.create_task(api.post("/api/queues/orders/receive", {"timeout_s": 30}))
    await asyncio.sleep(0.2)
    api.app.stop()
    shell_of(api.manager).driver.end_reads()
    response = await waiting
    assert (response.status_code, response.json()["error"]) == (503, "ServiceNotAvailable")


@served()
async def test_followers_hear_that_a_queue_is_gone(api: Api) -> None:
    await api.manager.create_queue("orders")
    async with asyncio.timeout(60), api.client.stream("GET", "/api/queues/orders/events") as response:
        await asyncio.sleep(0.1)
        await api.manager.delete_queue("orders")
        lines = [line async for line in response.aiter_lines()]
    assert "event: gone" in lines


def scope_of(method: str, path: bytes) -> Scope:
    """Of a request that comes without a network."""
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    return {"type": "http", "http_version": "1.1", "method": method, "raw_path": path, "headers": headers}


@served(HttpSettings(max_streams=2))
async def test_clients_that_come_at_once_are_counted(api: Api) -> None:
    await api.manager.create_queue("orders")
    scope = scope_of("GET", b"/api/queues/orders/events")
    statuses: list[int] = []
    are_answered = asyncio.Event()

    async def receive() -> Event:
        await are_answered.wait()
        return {"type": "http.disconnect"}

    async def send(event: Event) -> None:
        if event["type"] == "http.response.start":
            statuses.append(event["status"])
            if len(statuses) == 5:
                are_answered.set()

    # None of them waits for the network, so that all are in one turn of the loop.
    await asyncio.gather(*(api.app(scope, receive, send) for _ in range(5)))
    assert sorted(statuses) == [200, 200, 507, 507, 507]
    assert (await numbers(api))["waypost_http_streams", ""] == 0


@served()
async def test_slow_clients_are_left_when_the_server_stops(api: Api) -> None:
    """One that has not sent its body, and one that does not read what it follows. No task ends with an error."""
    await api.manager.create_queue("orders")
    statuses: list[int] = []
    are_slow = asyncio.Barrier(3)

    async def stay() -> Event:
        await asyncio.Event().wait()
        return {}

    async def send_nothing() -> Event:
        await are_slow.wait()
        return await stay()

    async def read_nothing(event: Event) -> None:
        if event["type"] == "http.response.start":
            statuses.append(event["status"])
        elif event.get("more_body"):
            await are_slow.wait()
            await stay()

    sender = asyncio.create_task(api.app(scope_of("POST", b"/api/queues/orders/peek"), send_nothing, read_nothing))
    follower = asyncio.create_task(api.app(scope_of("GET", b"/api/queues/orders/events"), stay, read_nothing))
    await are_slow.wait()
    api.app.stop()
    for task in (sender, follower):
        task.cancel()
        await task
    assert statuses == [200, 503]
