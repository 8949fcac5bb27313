"""/health/live and /health/ready, for those who restart a daemon or send it work."""

from http import HTTPStatus
from typing import Literal

from litestar import Response, get
from litestar.params import FromQuery

from waypost.errors import WaypostError
from waypost.http.parameters import Served
from waypost.http.service import Service
from waypost.node.shortages import shortages


@get("/health/live")
async def live() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@get("/health/ready")
async def ready(service: Served, use: FromQuery[Literal["all", "send"]] = "all") -> Response[dict[str, str]]:
    """The queue manager does what it is asked for. 503 with the reason if it does not, such as a disk that fails.

    While new messages are refused, because the disk or the quota has no room, it is ready for those who receive, who
    alone can change that: the answer has the reason, and it is a 503 with `use=send`.
    """
    reason = _trouble(service)
    if reason is None:
        found = shortages(service.node)
        if not found:
            return Response({"status": "ok"})
        limited = {"status": "limited", "reason": "; ".join(found)}
        return Response(limited, status_code=HTTPStatus.SERVICE_UNAVAILABLE if use == "send" else HTTPStatus.OK)
    return Response({"status": "unavailable", "reason": reason}, status_code=HTTPStatus.SERVICE_UNAVAILABLE)


def _trouble(service: Service) -> str | None:
    try:
        service.shell.driver.check()
    except WaypostError as error:
        return str(error)
    trouble = service.node.kernel.failure or service.node.kernel.trouble
    return None if trouble is None else str(trouble)
