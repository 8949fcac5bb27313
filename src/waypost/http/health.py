"""/health/live and /health/ready, for those who restart a daemon or send it work."""

from http import HTTPStatus
from typing import Final, Literal

import msgspec
from msgspec import Struct

from waypost.errors import WaypostError
from waypost.http.requests import JSON, Request, Response
from waypost.http.routes import Nothing, Route, of
from waypost.http.service import Service
from waypost.node.shortages import shortages


class Ready(Struct, frozen=True):
    """The work that it shall be ready for."""

    use: Literal["all", "send"] = "all"


async def _live(_service: Service, _asked: Nothing, _request: Request) -> Response:
    """The process answers."""
    return _answer({"status": "ok"})


async def _ready(service: Service, asked: Ready, _request: Request) -> Response:
    """The queue manager does what it is asked for. 503 with the reason if it does not, such as a disk that fails.

    While new messages are refused, because the disk or the quota has no room, it is ready for those who receive, who
    alone can change that: the answer has the reason, and it is a 503 with `use=send`.
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


LIVE: Final = Route(method="GET", path="/health/live", name="live", asked=Nothing, perform=of(Nothing, _live))
READY: Final = Route(
    method="GET",
    path="/health/ready",
    name="ready",
    asked=Ready,
    perform=of(Ready, _ready),
)
