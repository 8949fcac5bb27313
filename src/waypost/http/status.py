"""The status of a daemon, the doctor, and the page at /."""

import time
from typing import Final

from msgspec.structs import replace

from waypost.api.status import Checks, Doctor, ListenerInfo, Status, StatusInfo, TurnInfo
from waypost.client.status import second_of, status_of
from waypost.drive.loop_watch import LoopTurn
from waypost.http.doctor import examine
from waypost.http.requests import Request, Response
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Waypost</title>
<h1>Waypost</h1>
<p>A queue manager that speaks MSMQ. This is its HTTP server:</p>
<ul>
<li><a href="/api/status">/api/status</a>: the queue manager; <a href="/api/queues">/api/queues</a>: its queues
<li><a href="/schema">/schema</a>: the whole API, as an OpenAPI document
<li><a href="/api/doctor">/api/doctor</a>: problems and their solutions
<li><a href="/metrics">/metrics</a>: metrics for Prometheus
<li><a href="/health/ready">/health/ready</a>, <a href="/health/live">/health/live</a>: health checks
</ul>
</html>
"""


# The page loads nothing, and no other site may show it in a frame.
_PAGE_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


async def _page(_service: Service, _asked: Nothing, _request: Request) -> Response:
    """The page for people who open the address in a browser."""
    return Response(_PAGE.encode(), media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)


PAGE: Final = Route(method="GET", path="/", name="page", asked=Nothing, perform=of(Nothing, _page), is_shown=False)


async def status(service: Service, operation: Status) -> StatusInfo:
    """The status of the queue manager, with facts about the daemon."""
    watch, settings, now = service.watch, service.settings, time.time()
    longest = None if watch is None else watch.longest(operation.turns_s, now)
    return replace(
        status_of(service.node, service.path, service.started, now),
        max_wait_s=settings.max_wait_s,
        max_batch=settings.max_batch,
        longest_turn=None if longest is None else _turn(longest),
        slow_turns=0 if watch is None else watch.slow.total(),
        listeners=tuple(ListenerInfo(each.name, each.address, each.port) for each in settings.listeners),
    )


def _turn(turn: LoopTurn) -> TurnInfo:
    return TurnInfo(second_of(turn.at), round(turn.seconds, 4), round(turn.work_seconds, 4), turn.what)


async def doctor(service: Service, _: Doctor) -> Checks:
    return Checks(tuple(await examine(service)))
