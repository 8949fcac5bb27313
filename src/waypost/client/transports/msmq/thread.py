"""The event loop in a separate thread that runs the operations of all other threads at a host."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import Lock, Thread
from typing import Final, ParamSpec, TypeVar

from waypost.errors import ServiceNotAvailable

P = ParamSpec("P")
R = TypeVar("R")


class HostThread:
    """An event loop in a thread, from the first use to the end. `text` is the host, for errors."""

    __slots__ = ("_is_closed", "_lock", "_loop", "_process", "_text", "_thread")

    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._lock: Final = Lock()
        self._process: Final = os.getpid()
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, work: Callable[P, Coroutine[object, None, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        loop = self._started()
        future = asyncio.run_coroutine_threadsafe(work(*args, **kwargs), loop)
        try:
            return future.result()
        except BaseException:
            # Effective after an interruption; otherwise the future is done.
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[object, None, None]]) -> None:
        """End the thread when `last` is done. A second call does nothing."""
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
            loop, thread = self._loop, self._thread
        if not is_first or loop is None or thread is None or self._process != os.getpid():
            return
        asyncio.run_coroutine_threadsafe(last(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                raise ServiceNotAvailable(f"the connection to {self._text} is closed")
            if self._process != os.getpid():
                raise ServiceNotAvailable(
                    "this host object was opened in another process; open the host in this process too"
                )
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=_run, args=(self._loop,), name="waypost-msmq", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        with suppress(RuntimeError):
            loop.run_until_complete(_cancel_all())
        loop.close()


async def _cancel_all() -> None:
    """Cancel all tasks that are still running, at the end of the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
