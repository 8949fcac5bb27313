"""The application: every path of the server, behind the guard."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from waypost.api.asgi import Peer
from waypost.client.aio_manager import Manager
from waypost.errors import HostError, OperationCancelled, ServiceNotAvailable, WaypostError
from waypost.http import (
    backup,
    events,
    handles,
    health,
    links,
    metrics,
    openapi,
    operation_routes,
    problems,
    status,
    users,
)
from waypost.http.askers import Askers
from waypost.http.quick import Handler, Headers, Quick, Refine
from waypost.http.remote_queues import Connect, anonymous
from waypost.http.request_guard import RequestGuard
from waypost.http.requests import App, ClientGone, Receive, Refused, Request, Response, Scope, Send
from waypost.http.routes import Route, Routes
from waypost.http.service import Service
from waypost.http.settings import HttpSettings
from waypost.http.watching import name_of, watched
from waypost.security.callers import Caller

ROUTES: Final[tuple[Route, ...]] = (
    status.PAGE,
    backup.BACKUP,
    events.EVENTS,
    handles.COMMIT_TRANSACTIONS,
    health.LIVE,
    health.READY,
    users.LOGIN,
    users.LOGOUT,
    links.OPEN,
    *operation_routes.routes(),
)

_STOPPING: Final = "the queue manager is stopping"


class Application:
    """The ASGI application. `stop` ends requests that would not end by themselves, before the server stops."""

    __slots__ = ("_guard", "_quick", "_service")

    def __init__(self, guard: RequestGuard, quick: Quick, service: Service) -> None:
        self._guard: Final = guard
        self._quick: Final = quick
        self._service: Final = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await watched(self._guard(scope, receive, send), self._service.shell.watch, name_of(scope))

    def quick(self, url: bytes, headers: Headers, peer: Peer) -> Handler | None:
        """The handler that answers a POST of HTTP/1.1 to this URL without ASGI, or None."""
        path = url.decode("latin-1")
        if not self._quick.takes(path, headers):
            return None
        caller = self._guard.admit("POST", path, headers, "1.1", peer)
        return self._quick.handler(path, self._service.of(caller)) if isinstance(caller, Caller) else None

    def recognizes(self, head: bytes) -> bool:
        """Whether the head of a request has the token or a session, or needs none."""
        return self._guard.askers.recognizes(head)

    def new_link(self) -> str:
        """The path of a new link for a browser."""
        return links.path_with(self._service.sessions.new_code())

    def stop(self) -> None:
        self._service.stop()


def create_app(manager: Manager, settings: HttpSettings, connect: Connect = anonymous) -> Application:
    """The application that serves this manager, in the event loop of the manager.

    `connect` gives the transport to another host, to read its queues.
    """
    service = Service(manager, settings, connect)
    document = openapi.Document(ROUTES, demands_token=bool(settings.token))

    def refine(error: WaypostError) -> WaypostError:
        if service.is_stopping and isinstance(error, OperationCancelled | HostError):
            # Nobody closed the queue: a client that waits should retry when the daemon is back.
            return ServiceNotAvailable(_STOPPING)
        return error

    app = _Router((*ROUTES, metrics.route(metrics.Metrics(service)), *openapi.schema_routes(document)), service, refine)
    askers = Askers(settings, service.sessions, service.logins)
    guard = RequestGuard(
        app,
        settings,
        manager.name,
        askers,
        refuse_login=partial(users.refused_login, service),
        note=partial(users.note_stranger, service),
    )
    return Application(guard, Quick(settings, refine), service)


class _Router:
    """The ASGI application behind the guard."""

    __slots__ = ("_refine", "_routes", "_service")

    def __init__(self, routes: Iterable[Route], service: Service, refine: Refine) -> None:
        self._routes: Final = Routes(routes)
        self._service: Final = service
        self._refine: Final = refine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, self._service.settings.max_body)
        answer = await self._answer(request)
        try:
            await answer(scope, receive, send)
        except asyncio.CancelledError:
            # A client that does not read must not keep the server from stopping.
            if not self._service.is_stopping:
                raise

    async def _answer(self, request: Request) -> App:
        try:
            found = self._routes.find(request.method, request.path)
            if isinstance(found, Response):
                return found
            route, values = found
            return await route.answer(self._service.of(request.caller), values, request)
        except WaypostError as error:
            return problems.refuse(request, self._refine(error))
        except Refused as error:
            return problems.refuse_http(request, error)
        except ClientGone:
            return problems.leave(request)
        except asyncio.CancelledError:
            # Nor must one that sends slowly.
            if not self._service.is_stopping:
                raise
            return problems.refuse(request, ServiceNotAvailable(_STOPPING))
        except Exception as error:  # noqa: BLE001, one request that fails must not end the others
            return problems.fail(request, error)
