"""/health/live and /health/ready, for those who restart a daemon or send it work."""

from http import HTTPStatus

from litestar import Response, get

from waypost.errors import WaypostError
from waypost.http.parameters import Served
from waypost.http.service import Service


@get("/health/live")
async def live() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@get("/health/ready")
async def ready(service: Served) -> Response[dict[str, str]]:
    """The queue manager does what it is asked for. 503 with the reason if it does not, such as a full disk."""
    reason = _trouble(service)
    if reason is None:
        return Response({"status": "ok"})
    return Response({"status": "unavailable", "reason": reason}, status_code=HTTPStatus.SERVICE_UNAVAILABLE)


def _trouble(service: Service) -> str | None:
    try:
        service.shell.engine.check()
    except WaypostError as error:
        return str(error)
    trouble = service.node.failure or service.node.trouble
    return None if trouble is None else str(trouble)
