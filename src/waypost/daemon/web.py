"""The HTTP server in the loop of the daemon: uvicorn, on a bound socket of TCP and a Unix socket."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

from uvicorn import Config as ServerConfig
from uvicorn import Server

from waypost.api.asgi import Peer
from waypost.daemon.config import Http
from waypost.daemon.entrance import Entrance
from waypost.daemon.http_connection import HttpConnection
from waypost.daemon.loading import ConfigError
from waypost.daemon.logs import Log
from waypost.daemon.pump import Pump
from waypost.daemon.quick_request import Handler

_KEEP_ALIVE_SECONDS: Final = 60
# Requests that take longer are cut off when the daemon stops.
_DRAIN_SECONDS: Final = 3


class App(Protocol):
    """An ASGI application. `stop` ends requests that would not end by themselves."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    def quick(self, url: bytes, headers: list[tuple[bytes, bytes]], peer: Peer) -> Handler | None:
        """The handler that answers a POST to this URL without ASGI, or None."""

    def recognizes(self, head: bytes) -> bool:
        """Whether the head of a request has the token, or needs none."""

    def stop(self) -> None: ...


class _Server(Server):
    """A server without signal handlers: the daemon has them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Web:
    """The HTTP server. It starts and stops once."""

    def __init__(
        self, app: App, settings: Http, bound: socket.socket, local: socket.socket | None, *, pump: Pump, log: Log
    ) -> None:
        """`local` is the Unix socket of the daemon, if it has one."""
        self._app: Final = app
        self._socket: Final = bound
        self._local: Final = local
        entrance = Entrance(
            pump,
            log,
            app.recognizes,
            # The other half is for clients with the token.
            max_strangers=max(settings.max_connections // 2, 1),
            max_per_peer=settings.max_connections_per_peer,
        )
        config = ServerConfig(
            app,
            # Without a required token, no client is a stranger.
            http=HttpConnection if app.recognizes(b"") else partial(HttpConnection, entrance=entrance),  # type: ignore[arg-type]
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.max_connections,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            ssl_certfile=settings.tls_cert or None,
            ssl_keyfile=settings.tls_key or None,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"Cannot set up TLS for HTTP: {error.strerror or error}.",
                "http.tls_cert and http.tls_key must be files with a certificate and its key, in PEM.",
            ) from None
        self._server: Final = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._server.serve([self._socket]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0.001)
        if self._task.done():
            self._task.result()
        if self._local is not None:
            # Without TLS: nobody is between the two ends.
            server = await asyncio.get_running_loop().create_unix_server(self._connection, sock=self._local)
            self._server.servers.append(server)

    def _connection(self) -> asyncio.Protocol:
        """The protocol of a connection to the Unix socket, as uvicorn makes those of TCP."""
        protocol: asyncio.Protocol = self._server.config.http_protocol_class(  # type: ignore[call-arg]
            config=self._server.config,
            server_state=self._server.server_state,
            app_state=self._server.lifespan.state,
        )
        return protocol

    def begin_stop(self) -> None:
        """End requests that would not end by themselves."""
        self._app.stop()

    async def stop(self) -> None:
        """Stop, after a short wait for requests in progress."""
        if self._task is not None:
            self._server.should_exit = True
            await self._task
