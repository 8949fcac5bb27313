"""The application: every path of the server, behind the guard."""

from typing import Final

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import Receive, Scope, Send

from waypost.client.aio_manager import Manager
from waypost.errors import HostError, OperationCancelled, ServiceNotAvailable, WaypostError
from waypost.http import (
    backup,
    events,
    handles,
    health,
    metrics,
    openapi,
    operation_routes,
    problems,
    status,
)
from waypost.http.media import ApiRequest, ApiResponse, ClientGone
from waypost.http.protocol import options
from waypost.http.queries import Queries
from waypost.http.quick import Handler, Headers, Quick
from waypost.http.remote_queues import Connect, anonymous
from waypost.http.request_guard import RequestGuard
from waypost.http.service import Service
from waypost.http.settings import HttpSettings
from waypost.http.watching import name_of, watched

ROUTES: Final = (
    status.page,
    backup.backup,
    events.events,
    handles.commit_transactions,
    metrics.metrics,
    health.live,
    health.ready,
    openapi.schema,
    *operation_routes.routes(),
)


class Application:
    """An ASGI application. `stop` ends what would go on for ever, before the server stops."""

    __slots__ = ("_guard", "_quick", "_service")

    def __init__(self, guard: RequestGuard, quick: Quick, service: Service) -> None:
        self._guard: Final = guard
        self._quick: Final = quick
        self._service: Final = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await watched(self._guard(scope, receive, send), self._service.shell.watch, name_of(scope))

    def quick(self, url: bytes, headers: Headers) -> Handler | None:
        """What answers a POST of HTTP/1.1 to this URL without ASGI, if something does."""
        path = url.decode("latin-1")
        handler = self._quick.handler(path, headers)
        is_let_in = handler is not None and self._guard.refusal("POST", path, headers, "1.1") is None
        return handler if is_let_in else None

    def recognizes(self, head: bytes) -> bool:
        """Whether the head of a request shows the token, or none is demanded."""
        return self._guard.recognizes(head)

    def stop(self) -> None:
        self._service.is_stopping = True
        self._service.remote.stop()
        self._service.verifier.stop()


def create_app(manager: Manager, settings: HttpSettings, connect: Connect = anonymous) -> Application:
    """The application that serves this manager, in the event loop that the manager belongs to.

    `connect` gives the transport to another host, whose queues are to be read.
    """
    service = Service(manager, settings, connect)
    numbers = metrics.Metrics(service)
    document = openapi.Document(ROUTES, demands_token=bool(settings.token))

    def refine(error: WaypostError) -> WaypostError:
        if service.is_stopping and isinstance(error, OperationCancelled | HostError):
            # Nobody closed the queue: whoever waits shall ask again when the daemon is back.
            return ServiceNotAvailable("the queue manager is stopping")
        return error

    queries = Queries()

    async def before(request: Request[object, object, State]) -> Response[None] | None:
        queries.check(request)
        return options(request) if request.method == "OPTIONS" else None

    def refuse(request: Request[object, object, State], error: WaypostError) -> Response[bytes]:
        return problems.refuse(request, refine(error))

    app = Litestar(
        route_handlers=ROUTES,
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False),
            "numbers": Provide(lambda: numbers, sync_to_thread=False),
            "document": Provide(lambda: document, sync_to_thread=False),
        },
        exception_handlers={
            WaypostError: refuse,
            HTTPException: problems.refuse_http,
            ClientGone: problems.leave,
            Exception: problems.fail,
        },
        before_request=before,
        request_class=ApiRequest,
        response_class=ApiResponse,
        request_max_body_size=settings.max_body,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )
    return Application(RequestGuard(app, settings, manager.name), Quick(service, refine), service)
