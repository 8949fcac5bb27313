"""Waiting in an event loop: the engine runs in the loop's thread, and takes what came in one turn as one batch."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final, TypeVar

from waypost.client.answers import Answer
from waypost.client.engine import Engine
from waypost.client.outside import Outside
from waypost.clock import Now
from waypost.errors import InvalidParameter
from waypost.node.application import Operation
from waypost.node.recovery import Settings
from waypost.store.progress import Progress, unheard

R = TypeVar("R")


class Looping:
    """A shell around an engine, for one event loop. It has the methods of Blocking, with coroutines for what waits."""

    __slots__ = ("_alarm", "_is_closed", "_is_settling", "_loop", "_timer", "_written", "engine", "on_written")

    def __init__(
        self,
        path: str | Path,
        settings: Settings,
        *,
        max_size: int | None,
        reserve: int | None = None,
        outside: Outside | None = None,
        on_walk: Progress = unheard,
        on_upgrade: Progress = unheard,
    ) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._is_closed = False
        self._is_settling = False
        self._timer: asyncio.TimerHandle | None = None
        self._alarm = inf
        # Whoever closes waits for it.
        self._written: asyncio.Future[None] | None = None
        # Called when something has become durable.
        self.on_written: Callable[[], None] = lambda: None
        self.engine: Final = Engine.open(
            path,
            settings,
            self._notify,
            max_size=max_size,
            reserve=reserve,
            outside=outside,
            is_alone=True,
            on_walk=on_walk,
            on_upgrade=on_upgrade,
        )

    async def do(self, operation: Operation, *args: Any) -> Any:
        return await self._wait(self._start(operation, args, None))

    async def read(self, operation: Operation, handle: int, *args: Any) -> Any:
        return await self._wait(self._start(operation, (handle, *args), handle))

    def start(self, operation: Operation, *args: Any) -> None:
        self._start(operation, args, None)

    def tell(self, fact: Callable[[Now], R]) -> R | None:
        """Bring a fact of the network. What the facts of one turn of the loop lead to is one batch."""
        try:
            return self.engine.tell(fact)
        finally:
            self._settle_soon()

    def look(self, function: Callable[..., R], *args: Any) -> R:
        self.check_loop()
        self.engine.check()
        self.engine.tick()
        return function(*args)

    async def close(self) -> None:
        if self._is_closed:
            return
        self.check_loop()
        self._is_closed = True
        tokens: list[int] = []
        try:
            self.engine.stop()
            while self.engine.unwritten and self.engine.node.trouble is None and not self.engine.is_broken:
                self._written = self._loop.create_future()
                await self._written
        finally:
            try:
                tokens = self.engine.close_store()
            finally:
                self._is_closed = self.engine.is_store_closed
                self.engine.finish(tokens)
                if self._timer is not None:
                    self._timer.cancel()

    def check_loop(self) -> None:
        """Raise InvalidParameter for a caller outside the loop."""
        try:
            loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not self._loop:
            raise InvalidParameter(
                "the queue manager belongs to another event loop; use it there, and open one in each loop"
            )

    def _start(self, operation: Operation, args: tuple[Any, ...], handle: int | None) -> Answer:
        self.check_loop()
        try:
            return self.engine.start(operation, args, handle)
        finally:
            if not self.engine.has_something_to_write:
                self._settle()
            else:
                self._settle_soon()

    async def _wait(self, answer: Answer) -> Any:
        if not answer.is_done:
            if answer.handle is None:
                future: asyncio.Future[None] = self._loop.create_future()
            else:
                future = _Read(self._loop, partial(self.engine.cancel, answer))
            answer.wake = partial(_wake, future)
            try:
                await future
            except BaseException:
                self.engine.cancel(answer)
                raise
        return answer.result()

    def _settle_soon(self) -> None:
        if not self._is_settling:
            self._is_settling = True
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        self.engine.settle()
        self._set_timer(self.engine.next_deadline())

    def _set_timer(self, deadline: float | None) -> None:
        if deadline is None or (self._timer is not None and deadline >= self._alarm):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._alarm = deadline
        self._timer = self._loop.call_later(max(deadline - time.monotonic(), 0.0), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._set_timer(self.engine.tick())

    def _poll(self) -> None:
        self.engine.poll()
        self._set_timer(self.engine.next_deadline())
        self.on_written()
        if self._written is not None:
            _wake(self._written)

    def _notify(self) -> None:
        """Called by the commit thread."""
        # A loop that has ended without closing the queue manager has nobody who waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._poll)


class _Read(asyncio.Future[None]):
    """A read that waits. Whoever is cancelled takes no message from then on, and not only from its next turn on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        super().__init__(loop=loop)
        self._end: Final = end

    def cancel(self, msg: Any = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._end()
        return is_cancelled


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
