"""The shell for an event loop: the engine runs in the loop's thread, and commits the work of one turn as one batch."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from waypost.api.operations import Operation, checked
from waypost.clock import Now
from waypost.drive.answers import Answer
from waypost.drive.driver import Driver
from waypost.drive.keys.settings import KeySettings
from waypost.drive.loop_watch import LoopWatch, NoWatch
from waypost.drive.outside import Outside
from waypost.errors import InvalidParameter
from waypost.node.recovery import Settings
from waypost.security.callers import Caller
from waypost.store.progress import Progress, unheard

P = ParamSpec("P")
R = TypeVar("R")


class Loop:
    """A shell around a driver, for one event loop, with the methods of Threads: those that wait are coroutines."""

    __slots__ = ("_alarm", "_is_closed", "_is_settling", "_loop", "_timer", "_written", "driver", "on_written", "watch")

    def __init__(
        self,
        path: str | Path,
        settings: Settings,
        *,
        max_size: int | None,
        reserve: int | None = None,
        outside: Outside | None = None,
        keys: KeySettings | None = None,
        on_walk: Progress = unheard,
        on_upgrade: Progress = unheard,
    ) -> None:
        self._loop: Final = asyncio.get_running_loop()
        self._is_closed = False
        self._is_settling = False
        self._timer: asyncio.TimerHandle | None = None
        self._alarm = inf
        # The caller of `close` waits for it.
        self._written: asyncio.Future[None] | None = None
        # Measures all work of this shell.
        self.watch: LoopWatch | NoWatch = NoWatch()
        # Called when a batch has become durable.
        self.on_written: Callable[[], None] = lambda: None
        self.driver: Final = Driver.open(
            path,
            settings,
            self._notify,
            max_size=max_size,
            reserve=reserve,
            outside=outside,
            is_alone=True,
            keys=keys,
            on_walk=on_walk,
            on_upgrade=on_upgrade,
        )

    async def call(self, operation: Operation[R], caller: Caller) -> R:
        return checked(operation, await self._wait(self._start(operation, caller)))

    def start(self, operation: Operation[object], caller: Caller) -> None:
        self._start(operation, caller)

    def tell(self, fact: Callable[[Now], R]) -> R | None:
        """Bring a fact of the network. All facts of one turn of the loop share one batch."""
        began = self.watch.begin()
        try:
            return self.driver.tell(fact)
        finally:
            self._settle_soon()
            self.watch.end(began, fact)

    def look(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        self.check_loop()
        self.driver.check()
        began = self.watch.begin()
        try:
            self.driver.catch_up()
            return function(*args, **kwargs)
        finally:
            self.watch.end(began, function)

    async def close(self) -> None:
        if self._is_closed:
            return
        self.check_loop()
        self._is_closed = True
        tokens: list[int] = []
        try:
            self.driver.stop()
            while self.driver.unwritten and self.driver.node.kernel.trouble is None and not self.driver.is_broken:
                self._written = self._loop.create_future()
                await self._written
        finally:
            try:
                tokens = self.driver.close_store()
            finally:
                self._is_closed = self.driver.is_store_closed
                self.driver.finish(tokens)
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
                "the queue manager belongs to another event loop; use it in that loop, or open another folder in this "
                "loop"
            )

    def _start(self, operation: Operation[object], caller: Caller) -> Answer:
        self.check_loop()
        began = self.watch.begin()
        try:
            return self.driver.start(operation, caller)
        finally:
            if not self.driver.has_something_to_write:
                self._settle()
            else:
                self._settle_soon()
            self.watch.end(began, operation.row.words)

    async def _wait(self, answer: Answer) -> object:
        if not answer.is_done:
            if not answer.waits:
                future: asyncio.Future[None] = self._loop.create_future()
            else:
                future = _Read(self._loop, partial(self.driver.cancel, answer))
            answer.wake = partial(_wake, future)
            try:
                await future
            except BaseException:
                self.driver.cancel(answer)
                raise
        return answer.result()

    def _settle_soon(self) -> None:
        if not self._is_settling:
            self._is_settling = True
            self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        began = self.watch.begin()
        self.driver.settle()
        self._set_timer(self.driver.wake_at())
        self.watch.end(began, "writing, and answering requests")

    def _set_timer(self, deadline: float | None) -> None:
        if deadline is None or (self._timer is not None and deadline >= self._alarm):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._alarm = deadline
        # uvloop counts whole milliseconds, and would fire too early, again and again until the last one is over.
        delay = ceil(max(deadline - time.monotonic(), 0.0) * 1000) / 1000
        self._timer = self._loop.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        began = self.watch.begin()
        what = self.driver.long_work or "timers"
        self._set_timer(self.driver.tick())
        self.watch.end(began, what)

    def _poll(self) -> None:
        began = self.watch.begin()
        self.driver.poll()
        self._set_timer(self.driver.wake_at())
        self.on_written()
        self.watch.end(began, "answering requests after a write")
        if self._written is not None:
            _wake(self._written)

    def _notify(self) -> None:
        """Called by the commit thread."""
        # If the loop ended without closing the queue manager, no caller waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._poll)


class _Read(asyncio.Future[None]):
    """A read that waits. A cancelled read takes no message from that moment on, not only from the next turn on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
        super().__init__(loop=loop)
        self._end: Final = end

    def cancel(self, msg: object = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._end()
        return is_cancelled


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
