"""Queues of another computer over HTTP. The other computer is a queue manager of the test, with no network between."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import httpx
import pytest

from tests.daemon.recording import until
from tests.http.server import Api, serve
from waypost import aio
from waypost.api.opened import Handle
from waypost.api.operations import CloseQueue, OpenQueue, Operation, Read
from waypost.errors import (
    AccessDenied,
    DecodeError,
    HostUnreachable,
    InsufficientResources,
    QueueNotFound,
    ServiceNotAvailable,
    WaypostError,
)
from waypost.hresult import HResult
from waypost.http.app import create_app
from waypost.http.settings import HttpSettings
from waypost.remote.client.conversations import CallFailed
from waypost.rpc.authentication import SecurityContextFailed

if TYPE_CHECKING:
    from waypost.http.remote_queues import Connect

R = TypeVar("R")

FAR = "/api/queues/DIRECT=OS:far%5Cprivate$%5Corders"
NEAR = "/api/queues/orders"


class Network:
    """Where the transports to other computers lead: `far` is all of them. `trouble` is what reading comes to."""

    def __init__(self, far: aio.Manager) -> None:
        self.far = far
        self.trouble: WaypostError | None = None
        self.hosts: list[str] = []
        self.closed: list[str] = []

    def connect(self, host: str) -> "Host":
        self.hosts.append(host)
        return Host(self, host)


class Host:
    """A transport to a host. Closing it closes everything that was opened over it."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self._name = name
        self._transport = network.far._transport
        self._used: set[str] = set()
        self._handles: list[str] = []

    async def call(self, operation: Operation[R]) -> R:
        if self._network.trouble is not None:
            raise self._network.trouble
        if isinstance(operation, Read):
            self._used.add(operation.name)
        reply = await self._transport.call(operation)
        if isinstance(operation, OpenQueue) and isinstance(reply, Handle):
            self._handles.append(reply.id)
        return reply

    async def start(self, operation: Operation[None]) -> None:
        await self._transport.start(operation)

    async def close(self) -> None:
        for name in self._used:
            await self._transport.cancel(name)
        for handle in self._handles:
            await self._transport.start(CloseQueue(identifier=handle))
        self._network.closed.append(self._name)


Test = Callable[[Api, Network], Awaitable[None]]


def beside(settings: HttpSettings | None = None) -> Callable[[Test], Callable[[Path], None]]:
    """Runs a test against a server and another computer, each with a queue `orders`."""

    def decorate(test: Test) -> Callable[[Path], None]:
        @wraps(test)
        def run(tmp_path: Path) -> None:
            async def main() -> None:
                async with (
                    aio.open(tmp_path / "near", name="NEAR") as near,
                    aio.open(tmp_path / "far", name="FAR") as far,
                ):
                    await near.create_queue("orders")
                    await far.create_queue("orders", journal=True)
                    network = Network(far)
                    app = create_app(near, settings or HttpSettings(), cast("Connect", network.connect))
                    async with (
                        serve(app) as port,
                        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
                    ):
                        await test(Api(near, client, app, port), network)

            asyncio.run(main())

        # pytest gives what the signature asks for.
        run.__signature__ = inspect.signature(lambda tmp_path: None)  # type: ignore[attr-defined]
        return run

    return decorate


async def send(network: Network, *bodies: str) -> None:
    await network.far.queue("orders").send_many(bodies)


@beside()
async def test_messages_are_received_from_another_computer(api: Api, network: Network) -> None:
    await send(network, "1", "2", "3")
    assert await api.bodies(f"{FAR}/receive", {}) == ["1"]
    assert await api.bodies(f"{FAR}/receive", {"count": 10, "timeout_s": 5}) == ["2", "3"]
    assert await api.bodies(f"{FAR}/receive", {"count": 10}) == []
    assert await api.bodies(f"{NEAR}/receive", {}) == []


@beside()
async def test_a_packed_receive_takes_the_same_way(api: Api, network: Network) -> None:
    await send(network, "1", "2")
    answer = await api.pack(f"{FAR}/receive", {"count": 10})
    assert [message["body_text"] for message in answer["messages"]] == ["1", "2"]
    await send(network, "3")
    (row,) = (await api.pack(f"{FAR}/receive", {"form": "packet"}))["rows"]
    assert "3".encode("utf-16-le") in row[4]


@beside()
async def test_a_receive_waits_for_another_computer(api: Api, network: Network) -> None:
    waiting = asyncio.create_task(api.bodies(f"{FAR}/receive", {"timeout_s": 5}))
    packed = asyncio.create_task(api.pack(f"{FAR}/receive", {"timeout_s": 5}))
    await until(lambda: network.hosts)
    await send(network, "1", "2")
    (other,) = (await packed)["messages"]
    assert sorted([*(await waiting), other["body_text"]]) == ["1", "2"]


@beside()
async def test_who_leaves_while_it_waits_takes_nothing_there(api: Api, network: Network) -> None:
    with suppress(httpx.ReadTimeout):
        await api.client.post(f"{FAR}/receive", json={"timeout_s": 5}, timeout=0.2)
    await asyncio.sleep(0.1)
    await send(network, "1")
    assert await api.bodies(f"{FAR}/peek", {}) == ["1"]


@beside()
async def test_messages_there_are_looked_at_and_looked_up(api: Api, network: Network) -> None:
    await send(network, "1", "2", "3")
    assert await api.bodies(f"{FAR}/peek", {}) == ["1"]
    assert await api.bodies(f"{FAR}/peek", {"count": 2}) == ["1", "2"]
    second = (await api.get(f"{FAR}/browse")).json()["messages"][1]["lookup_id"]
    assert await api.bodies(f"{FAR}/peek", {"lookup_id": second, "seek": "next"}) == ["3"]
    assert await api.bodies(f"{FAR}/receive", {"lookup_id": second}) == ["2"]
    assert (await api.post(f"{FAR}/receive", {"lookup_id": second})).status_code == 404


@beside()
async def test_what_is_no_lookup_id_is_refused_before_the_host_is_asked(api: Api, network: Network) -> None:
    network.trouble = HostUnreachable("the host is asked")
    for wrong in (-1, 1 << 63, 1 << 64, "x"):
        for verb in ("peek", "receive"):
            answer = await api.post(f"{FAR}/{verb}", {"lookup_id": wrong})
            assert (answer.status_code, answer.json()["error"]) == (400, "InvalidParameter"), (verb, wrong)


@beside()
async def test_a_queue_there_is_browsed_page_by_page(api: Api, network: Network) -> None:
    await send(network, "1", "2", "3")
    found: list[str] = []
    after = ""
    while True:
        page = (await api.get(f"{FAR}/browse?limit=2&after={after}")).json()
        found += [message["body_text"] for message in page["messages"]]
        after = page.get("next", "")
        if not after:
            break
        # The last message of the page may be gone.
        await network.far.queue("orders").receive(0, lookup_id=int(after))
    assert found == ["1", "2", "3"]


@beside()
async def test_messages_there_are_deleted_moved_and_purged(api: Api, network: Network) -> None:
    await send(network, "1", "2", "3")
    first, second, _ = (message["lookup_id"] for message in (await api.get(f"{FAR}/browse")).json()["messages"])
    assert (await api.delete(f"{FAR}/messages/{first}")).status_code == 204
    moved = {"lookup_id": second, "to": "DIRECT=OS:far\\private$\\orders;retry"}
    assert (await api.post(f"{FAR}/move", moved)).status_code == 204
    assert await api.bodies(f"{FAR};retry/receive", {}) == ["2"]
    assert (await api.post(f"{FAR}/move", moved | {"to": "orders;a;b"})).status_code == 400
    assert await api.bodies(f"{FAR};journal/receive", {"count": 9}) == ["1"]
    assert (await api.post(f"{FAR}/purge")).status_code == 204
    assert await api.bodies(f"{FAR}/peek", {}) == []


@beside()
async def test_a_cursor_goes_along_a_queue_there(api: Api, network: Network) -> None:
    await send(network, "1", "2")
    cursor = (await api.post("/api/cursors", {"queue": "DIRECT=OS:far\\private$\\orders"})).json()["id"]
    assert await api.bodies(f"/api/cursors/{cursor}/peek", {}) == ["1"]
    assert await api.bodies(f"/api/cursors/{cursor}/next", {}) == ["2"]
    assert await api.bodies(f"/api/cursors/{cursor}/receive", {}) == ["2"]
    assert (await api.delete(f"/api/cursors/{cursor}")).status_code == 204


@beside(HttpSettings(handle_s=1))
async def test_a_cursor_keeps_its_host_as_long_as_it_is_used(api: Api, network: Network) -> None:
    await send(network, "1")
    cursor = (await api.post("/api/cursors", {"queue": "DIRECT=OS:far\\private$\\orders"})).json()["id"]
    for _ in range(4):
        await asyncio.sleep(0.3)
        assert await api.bodies(f"/api/cursors/{cursor}/peek", {}) == ["1"]
    assert (network.hosts, network.closed) == (["far"], [])
    await until(lambda: network.closed == ["far"])


@beside()
async def test_a_queue_there_is_denied_to_others(api: Api, network: Network) -> None:
    await send(network, "1")
    name = {"queue": "DIRECT=OS:far\\private$\\orders"}
    handle = (await api.post("/api/handles", name)).json()["id"]
    refused = await api.post(f"{FAR}/receive", {})
    assert (refused.status_code, refused.json()["error"]) == (409, "SharingViolation")
    assert await api.bodies(f"{FAR}/receive", {"handle": handle}) == ["1"]
    assert (await api.delete(f"/api/handles/{handle}")).status_code == 204
    assert await api.bodies(f"{FAR}/receive", {}) == []


@beside()
async def test_nothing_there_is_received_in_a_transaction_or_with_a_lease(api: Api, network: Network) -> None:
    await send(network, "1")
    transaction = (await api.post("/api/transactions", {})).json()["id"]
    for read in ({"transaction": transaction}, {"lease_s": 5}, {"lease_s": 5, "timeout_s": 1}):
        refused = await api.post(f"{FAR}/receive", read)
        assert (refused.status_code, refused.json()["error"]) == (409, "TransactionUsage")
        assert "another computer" in refused.json()["message"]
    move = {"lookup_id": "1", "to": "DIRECT=OS:far\\private$\\orders;retry", "transaction": transaction}
    assert (await api.post(f"{FAR}/move", move)).status_code == 409
    assert await api.bodies(f"{FAR}/receive", {}) == ["1"]


@beside()
async def test_the_outgoing_queue_and_the_queue_itself_are_two(api: Api, network: Network) -> None:
    await api.post(f"{FAR}/messages", {"messages": [{"body_text": "on its way"}]})
    await send(network, "there")
    assert await api.bodies(f"{FAR}/peek", {}) == ["there"]
    assert await api.bodies(f"{FAR}/peek?outgoing=true", {}) == ["on its way"]
    assert (await api.get(f"{FAR}/browse?outgoing=true")).json()["messages"][0]["body_text"] == "on its way"
    assert (await api.get(f"{FAR}/browse")).json()["messages"][0]["body_text"] == "there"


@beside()
async def test_names_of_this_computer_need_no_other(api: Api, network: Network) -> None:
    identifier = api.manager.guid
    for name in (
        "orders",
        "near%5Cprivate$%5Corders",
        "DIRECT=OS:Near%5Cprivate$%5Corders",
        "DIRECT=OS:.%5Cprivate$%5Corders",
    ):
        assert await api.bodies(f"/api/queues/{name}/receive", {}) == []
    assert await api.bodies(f"/api/queues/MACHINE={identifier};deadletter/receive", {}) == []
    assert network.hosts == []


@pytest.mark.parametrize("name", ["PRIVATE={}%5C00000001", "MACHINE={};deadletter"])
def test_a_computer_that_nobody_knows_the_host_of_is_not_found(name: str, tmp_path: Path) -> None:
    @beside()
    async def test(api: Api, network: Network) -> None:
        path = f"/api/queues/{name.format('deadbeef-0000-4000-8000-000000000001')}"
        refused = await api.post(f"{path}/receive", {})
        assert refused.status_code == 404
        assert "and its host is unknown" in refused.json()["message"]
        assert "routing.routes" in refused.json()["hint"]
        assert (await api.get(f"/api/explain?queue={path.rpartition('/')[2]}")).status_code == 200

    test(tmp_path)


@beside()
async def test_only_messages_of_a_queue_there_are_known(api: Api, network: Network) -> None:
    for refused in (
        await api.get(FAR),
        await api.client.patch(FAR, json={"label": "x"}),
        await api.delete(FAR),
        await api.get(f"{FAR}/events"),
    ):
        assert refused.status_code == 404
        assert "is a queue of another computer" in refused.json()["message"]
    sentences = (await api.get("/api/explain?queue=DIRECT=OS:far%5Cprivate$%5Corders")).json()["sentences"]
    assert any("The queue is on the host far" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        (HostUnreachable("far is unreachable"), 502),
        (AccessDenied("far does not let us"), 403),
        (SecurityContextFailed("far does not know us"), 403),
        (ServiceNotAvailable("far is starting"), 502),
        (InsufficientResources("far has no room"), 502),
        (DecodeError("MS-MQRR 2.2.6", "pSection", 4, "no section"), 502),
        (CallFailed("R_StartReceive", HResult.MQ_ERROR_DTC_CONNECT), 502),
        (QueueNotFound("far has no such queue"), 404),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_wrong_with_another_computer_has_its_status(trouble: WaypostError, status: int, tmp_path: Path) -> None:
    @beside()
    async def test(api: Api, network: Network) -> None:
        network.trouble = trouble
        for answer in (
            await api.post(f"{FAR}/receive", {}),
            await api.get(f"{FAR}/browse"),
            await api.post(f"{FAR}/purge"),
        ):
            assert answer.status_code == status
            assert str(trouble) in answer.json()["message"]

    test(tmp_path)


@beside()
async def test_a_name_that_can_only_be_sent_to_is_refused_as_before(api: Api, network: Network) -> None:
    refused = await api.post("/api/queues/DIRECT=HTTP:%2F%2Ffar%2Fmsmq%2Fprivate$%2Forders/receive", {})
    assert (refused.status_code, refused.json()["error"]) == (400, "UnsupportedFormatName")
    assert network.hosts == []


@beside(HttpSettings(handle_s=0.1))
async def test_what_nobody_reads_is_closed(api: Api, network: Network) -> None:
    await api.bodies(f"{FAR}/receive", {})
    await api.bodies(f"{FAR}/receive", {})
    assert network.hosts == ["far"]
    await until(lambda: network.closed == ["far"])
    await network.far.queue("orders", exclusive=True).purge()
    await api.bodies(f"{FAR}/peek", {})
    assert network.hosts == ["far", "far"]


@beside(HttpSettings(handle_s=0.1))
async def test_what_waits_keeps_its_host(api: Api, network: Network) -> None:
    waiting = asyncio.create_task(api.bodies(f"{FAR}/receive", {"timeout_s": 5}))
    await asyncio.sleep(0.3)
    assert network.closed == []
    await send(network, "1")
    assert await waiting == ["1"]


@beside(HttpSettings(max_handles=2))
async def test_no_more_queues_are_open_than_may_be(api: Api, network: Network) -> None:
    for name in ("a", "b"):
        await network.far.create_queue(name)
        await api.bodies(f"/api/queues/far%5Cprivate$%5C{name}/receive", {})
    refused = await api.post(f"{FAR}/receive", {})
    assert (refused.status_code, refused.json()["error"]) == (507, "LimitReached")


@beside()
async def test_a_server_that_stops_leaves_its_hosts(api: Api, network: Network) -> None:
    await api.bodies(f"{FAR}/receive", {})
    api.app.stop()
    await until(lambda: network.closed == ["far"])
    refused = await api.post("/api/queues/farther%5Cprivate$%5Corders/receive", {})
    assert (refused.status_code, refused.json()["error"]) == (503, "ServiceNotAvailable")
