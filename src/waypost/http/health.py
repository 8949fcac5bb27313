"""/health/live and /health/ready, for service managers and load balancers."""

from http import HTTPStatus
from typing import Final, Literal

import msgspec
from msgspec import Struct

from waypost.errors import WaypostError
from waypost.http.requests import JSON, Request, Response
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service
from waypost.node.shortages import shortages
from waypost.security.callers import Role


class Ready(Struct, frozen=True):
    """The work to be ready for: `send`, or all."""

    use: Literal["all", "send"] = "all"


async def _live(_service: Service, _asked: Nothing, _request: Request) -> Response:
    """Check that the process answers."""
    return _answer({"status": "ok"})


async def _ready(service: Service, asked: Ready, _request: Request) -> Response:
    """Check that the queue manager works. Otherwise, the HTTP status is 503, and the answer contains the reason.

    If the disk is full or the quota is reached, programs can still receive messages, and receiving messages frees
    space. In this case, the `status` in the answer is `limited`, and the answer contains the reason. The HTTP status is
    then 200, or 503 if the request contains `use=send`.
    """
    reason = _trouble(service)
    if reason is None:
        found = shortages(service.node)
        if not found:
            return _answer({"status": "ok"})
        limited = {"status": "limited", "reason": "; ".join(found)}
        return _answer(limited, HTTPStatus.SERVICE_UNAVAILABLE if asked.use == "send" else HTTPStatus.OK)
    return _answer({"status": "unavailable", "reason": reason}, HTTPStatus.SERVICE_UNAVAILABLE)


def _answer(content: dict[str, str], status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(content), status, JSON.decode())


def _trouble(service: Service) -> str | None:
    try:
        service.shell.driver.check()
    except WaypostError as error:
        return str(error)
    trouble = service.node.kernel.failure or service.node.kernel.trouble
    return None if trouble is None else str(trouble)


LIVE: Final = Route(
    method="GET", path="/health/live", name="live", asked=Nothing, perform=of(Nothing, _live), asks=Role.NONE
)
READY: Final = Route(
    method="GET",
    path="/health/ready",
    name="ready",
    asked=Ready,
    perform=of(Ready, _ready),
    asks=Role.NONE,
)
