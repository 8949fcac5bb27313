"""GET /api/status, /api/doctor and /api/explain, and the page at /."""

import time
from datetime import UTC, datetime
from typing import Any, Final

from litestar import MediaType
from litestar.params import FromQuery
from msgspec import Struct

import waypost
from waypost.client.message import iso_8601
from waypost.client.remote.schema import Status
from waypost.clock import Now
from waypost.errors import InvalidParameter
from waypost.http.doctor import Check, examine
from waypost.http.parameters import Served
from waypost.http.routing import get
from waypost.node.explain import explain_message, explain_queue
from waypost.node.shortages import shortages
from waypost.wire.identifiers import MessageIdentifier

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Waypost</title>
<h1>Waypost</h1>
<p>A queue manager that speaks MSMQ. This is its HTTP server:</p>
<ul>
<li><a href="/api/status">/api/status</a>: the queue manager; <a href="/api/queues">/api/queues</a>: its queues
<li><a href="/schema">/schema</a>: all of the API, as an OpenAPI document
<li><a href="/api/doctor">/api/doctor</a>: what is wrong, and what to do
<li><a href="/metrics">/metrics</a>: numbers for Prometheus
<li><a href="/health/ready">/health/ready</a>, <a href="/health/live">/health/live</a>: for those who watch it
</ul>
</html>
"""


class ListenerObject(Struct):
    name: str
    address: str
    port: int


class FullStatus(Status, kw_only=True):
    """The queue manager at this moment. `trouble` is why the store cannot write, "" if it can; `shortage` is why new
    messages are refused, "" if they are not, and `room_bytes` is how much the disk has for them.

    Those who read over RPC have `rpc_connections` and wait for `rpc_open_calls`.
    """

    path: str
    started: str
    time: str
    queues: int
    outgoing_queues: int
    bytes: int
    sessions: int
    rpc_connections: int
    rpc_open_calls: int
    trouble: str
    shortage: str
    room_bytes: int
    listeners: list[ListenerObject]


class Checks(Struct):
    checks: list[Check]


class ExplanationObject(Struct):
    """`facts` has what the sentences say as values; its `found` tells whether there is such a message or queue."""

    sentences: list[str]
    facts: dict[str, Any]


@get("/", media_type=MediaType.HTML, include_in_schema=False)
async def page() -> str:
    """For people who open the address in a browser."""
    return _PAGE


@get("/api/status")
async def status(service: Served) -> FullStatus:
    """The queue manager, and what this server allows."""
    manager, core, settings = service.manager, service.node.manager, service.settings
    statistics, remote = service.statistics, service.node.remote
    return FullStatus(
        name=manager.name,
        guid=manager.guid,
        version=waypost.__version__,
        max_wait_s=settings.max_wait_s,
        max_batch=settings.max_batch,
        path=str(manager.path),
        started=iso_8601(datetime.fromtimestamp(int(service.started), UTC)),
        time=iso_8601(datetime.fromtimestamp(int(time.time()), UTC)),
        queues=len(await manager.queues()),
        outgoing_queues=len(core.collection.outgoing),
        bytes=core.total_bytes,
        sessions=0 if statistics is None else statistics.sessions_open,
        rpc_connections=0 if remote is None else remote.statistics.connections,
        rpc_open_calls=0 if remote is None else remote.statistics.open_calls,
        trouble=str(service.node.trouble or ""),
        shortage="; ".join(shortages(service.node)),
        room_bytes=max(service.node.room.free, 0),
        listeners=[ListenerObject(each.name, each.address, each.port) for each in settings.listeners],
    )


@get("/api/doctor")
async def doctor(service: Served) -> Checks:
    """Look for what is wrong, and say what to do about it."""
    return Checks(await examine(service))


@get("/api/explain")
async def explain(service: Served, message: FromQuery[str] = "", queue: FromQuery[str] = "") -> ExplanationObject:
    """Why a message, or the messages of a queue, are where they are."""
    if bool(message) == bool(queue):
        raise InvalidParameter("give either message=ID or queue=NAME")
    now = Now(time.monotonic(), time.time())
    if message:
        identifier = MessageIdentifier.parse(message)
        found = service.shell.look(explain_message, service.node, identifier, now)
    else:
        found = service.shell.look(explain_queue, service.node, service.name(queue), now)
        if (host := service.remote.host_of(queue)) is not None:
            found.sentences.append(
                f"The queue itself is at {host}, which alone can explain it; what is in it can be read from here."
            )
    return ExplanationObject(found.sentences, found.facts)
