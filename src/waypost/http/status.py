"""GET /api/status, /api/doctor and /api/explain, and the page at /."""

import time
from datetime import UTC, datetime
from typing import Final

from litestar import MediaType, get
from litestar.params import FromQuery
from msgspec import Struct

import waypost
from waypost.api.forms import Time
from waypost.api.times import iso_8601
from waypost.client.transports.http.schema import Status
from waypost.drive.loop_watch import LoopTurn
from waypost.http.doctor import Check, examine
from waypost.http.parameters import Served
from waypost.node.shortages import shortages

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


# The page loads nothing, and no other site shows it in a frame.
_PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


class ListenerObject(Struct):
    name: str
    address: str
    port: int


class TurnObject(Struct):
    """A turn of the loop: how long it took, how much of that was work of this process, and what took most of it."""

    at: Time
    seconds: float
    work_seconds: float
    what: str


class FullStatus(Status, kw_only=True):
    """The queue manager at this moment. `trouble` is why the store cannot write, "" if it can; `shortage` is why new
    messages are refused, "" if they are not, and `room_bytes` is how much the disk has for them.

    Those who read over RPC have `rpc_connections` and wait for `rpc_open_calls`. `longest_turn` is that of the loop
    lately, in which everybody else waited: null if all were shorter than 10 ms.
    """

    path: str
    started: Time
    time: Time
    queues: int
    outgoing_queues: int
    bytes: int
    sessions: int
    rpc_connections: int
    rpc_open_calls: int
    trouble: str
    shortage: str
    room_bytes: int
    longest_turn: TurnObject | None
    slow_turns: int
    listeners: list[ListenerObject]


class Checks(Struct):
    checks: list[Check]


@get("/", media_type=MediaType.HTML, include_in_schema=False, response_headers=_PAGE_HEADERS)
async def page() -> str:
    """For people who open the address in a browser."""
    return _PAGE


@get("/api/status")
async def status(service: Served, turns_s: FromQuery[float] = 60.0) -> FullStatus:
    """The queue manager, and what this server allows.

    `turns_s`: how many seconds back the longest turn of the loop is looked for.
    """
    watch = service.watch
    longest = None if watch is None else watch.longest(turns_s, time.time())
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
        queues=core.collection.count,
        outgoing_queues=len(core.collection.outgoing),
        bytes=core.total_bytes,
        sessions=0 if statistics is None else statistics.sessions_open,
        rpc_connections=0 if remote is None else remote.statistics.connections,
        rpc_open_calls=0 if remote is None else remote.statistics.open_calls,
        trouble=str(service.node.kernel.trouble or ""),
        shortage="; ".join(shortages(service.node)),
        room_bytes=max(service.node.kernel.room.free, 0),
        longest_turn=None if longest is None else _turn(longest),
        slow_turns=0 if watch is None else watch.slow.total(),
        listeners=[ListenerObject(each.name, each.address, each.port) for each in settings.listeners],
    )


def _turn(turn: LoopTurn) -> TurnObject:
    at = iso_8601(datetime.fromtimestamp(int(turn.at), UTC))
    return TurnObject(at, round(turn.seconds, 4), round(turn.work_seconds, 4), turn.what)


@get("/api/doctor")
async def doctor(service: Served) -> Checks:
    """Look for what is wrong, and say what to do about it."""
    return Checks(await examine(service))
