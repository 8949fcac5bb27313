"""A daemon for tests: the HTTP application on an embedded queue manager, on a port of loopback, in another thread."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import uvicorn

from waypost import aio
from waypost.daemon.http_connection import HttpConnection
from waypost.http.app import create_app
from waypost.http.settings import HttpSettings


class Daemon:
    """Runs from `start` to `stop`; a `with` block does both. It can be started again, on the same port."""

    def __init__(self, path: Path, settings: HttpSettings | None = None, **options: Any) -> None:
        self._path = path
        self._settings = settings or HttpSettings()
        self._options = options
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.scheme = "https" if "ssl_certfile" in options else "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._ready = Event()
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60), "the daemon does not start"
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive(), "the daemon does not stop"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001, it is raised in the thread of the test
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with aio.open(self._path, name="HOST") as manager:
            app = create_app(manager, self._settings)
            config = uvicorn.Config(
                app,
                port=self.port,
                lifespan="off",
                log_config=None,
                access_log=False,
                ws="none",
                http=HttpConnection,
                proxy_headers=False,
                **self._options,
            )
            self._server = uvicorn.Server(config)
            serving = asyncio.create_task(self._server.serve())
            while not self._server.started and not serving.done():
                await asyncio.sleep(0.005)
            self._ready.set()
            with suppress(asyncio.CancelledError):
                await serving
            app.stop()
