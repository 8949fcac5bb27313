"""The status of a daemon, the doctor, and the page at /."""

import time
from typing import Final

from msgspec.structs import replace

from waypost.api.status import Checks, Doctor, IdentityInfo, ListenerInfo, ShowIdentity, Status, StatusInfo, TurnInfo
from waypost.client.status import identity_of, second_of, status_of
from waypost.drive.loop_watch import LoopTurn
from waypost.http.doctor import examine
from waypost.http.pages import page
from waypost.http.requests import Request, Response
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service
from waypost.security.callers import Role

_PAGE: Final = """<p>A queue manager that speaks MSMQ. This is its HTTP server:</p>
<ul>
<li><a href="/api/status">/api/status</a>: the queue manager; <a href="/api/queues">/api/queues</a>: its queues
<li><a href="/schema">/schema</a>: the whole API, as an OpenAPI document
<li><a href="/api/doctor">/api/doctor</a>: problems and their solutions
<li><a href="/metrics">/metrics</a>: metrics for Prometheus
<li><a href="/health/ready">/health/ready</a>, <a href="/health/live">/health/live</a>: health checks
</ul>"""
_STRANGER: Final = """<p>A queue manager that speaks MSMQ. This browser is not logged on.
<p>On the computer of the queue manager, as the account that runs it, type <code>waypost open</code>, and open the link
that it prints. The link works once, and expires after ten minutes.
<p>Programs send a token: see <code>waypost token</code>."""


async def _page(_service: Service, _asked: Nothing, request: Request) -> Response:
    """The page for people who open the address in a browser."""
    return page(_STRANGER if request.caller.is_anonymous else _PAGE)


PAGE: Final = Route(
    method="GET", path="/", name="page", asked=Nothing, perform=of(Nothing, _page), asks=Role.NONE, is_shown=False
)


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


async def identity(service: Service, _: ShowIdentity) -> IdentityInfo:
    settings = service.settings
    found = identity_of(service.node, service.caller)
    return replace(found, max_wait_s=settings.max_wait_s, max_batch=settings.max_batch)


def _turn(turn: LoopTurn) -> TurnInfo:
    return TurnInfo(second_of(turn.at), round(turn.seconds, 4), round(turn.work_seconds, 4), turn.what)


async def doctor(service: Service, _: Doctor) -> Checks:
    return Checks(tuple(await examine(service)))
