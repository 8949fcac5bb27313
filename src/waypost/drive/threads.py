"""Waiting in threads: the caller runs the engine, and one of those who wait serves the others.

One lock guards the engine; nobody holds it while waiting. Every thread that waits sleeps on a lock of its own. One of
them is the leader: the commit thread wakes it when something has become durable, and the clock when a timer is due; it
then lets the engine go on, which wakes exactly those whose answers are there. A leader that leaves names another.
Because the commit thread writes whatever is pending, threads that send at the same time share one flush to disk.
"""

import os
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Final, ParamSpec, TypeVar

from waypost.api.operations import Operation, checked
from waypost.drive.answers import Answer
from waypost.drive.driver import Driver
from waypost.errors import ServiceNotAvailable
from waypost.node.recovery import Settings

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """A shell around a driver, for threads."""

    __slots__ = ("_alarm", "_has_news", "_is_closed", "_leader", "_lock", "_process", "_waiting", "driver")

    def __init__(self, path: str | Path, settings: Settings, *, max_size: int | None) -> None:
        self._lock: Final = allocate_lock()
        self._process: Final = os.getpid()
        self._is_closed = False
        # The commit thread sets it and then looks for the leader; a leader looks at it before it sleeps.
        self._has_news = False
        self._leader: LockType | None = None
        self._waiting: dict[LockType, None] = {}
        # When the leader wakes by itself, on the monotonic clock.
        self._alarm = inf
        self.driver: Final = Driver.open(path, settings, self._notify, max_size=max_size)

    def call(self, operation: Operation[R]) -> R:
        """Have an operation done, and wait for its reply, which says nothing that is not durable."""
        return checked(operation, self._wait(self._start(operation)))

    def start(self, operation: Operation[object]) -> None:
        """Have an operation done that nobody needs to wait for."""
        self._start(operation)

    def look(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Look at the queue manager while nobody changes it."""
        self._check_process()
        with self._lock:
            self.driver.check()
            self._take_news()
            self.driver.tick()
            return function(*args, **kwargs)

    def close(self) -> None:
        """End what waits, write what is pending and let the folder go. A second time it does nothing.

        If it is interrupted before the folder is let go, the next time goes on.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        tokens: list[int] = []
        try:
            try:
                with self._lock:
                    self.driver.stop()
            finally:
                # Without the lock: the commit thread, which has to end, may be about to wake somebody.
                tokens = self.driver.close_store()
        finally:
            with self._lock:
                self._is_closed = self.driver.is_store_closed
                self.driver.finish(tokens)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ServiceNotAvailable(
                f"the queue manager belongs to process {self._process}, which forked this one; open another here"
            )

    def _start(self, operation: Operation[object]) -> Answer:
        self._check_process()
        with self._lock:
            self._take_news()
            try:
                answer = self.driver.start(operation)
            finally:
                self.driver.settle()
            if self._leader is not None:
                self._hurry(self._leader)
        return answer

    def _wait(self, answer: Answer) -> object:
        if answer.is_done:
            return answer.result()
        sleep = allocate_lock()
        sleep.acquire()
        try:
            while (seconds := self._serve(answer, sleep)) is not None:
                sleep.acquire(timeout=seconds)
        except BaseException:
            with self._lock:
                self.driver.cancel(answer)
            raise
        finally:
            with self._lock:
                self._leave(sleep)
        return answer.result()

    def _serve(self, answer: Answer, sleep: LockType) -> float | None:
        """Do what a leader does, if this is one. How long to sleep, -1 until woken; None if the answer is there."""
        with self._lock:
            answer.wake = partial(_wake, sleep)
            self._waiting[sleep] = None
            if self._leader is None:
                self._leader = sleep
            deadline = None
            if self._leader is sleep and not self._is_closed:
                self._take_news()
                deadline = self.driver.tick()
                self._alarm = inf if deadline is None else deadline
        if answer.is_done:
            return None
        return -1 if deadline is None else min(max(deadline - time.monotonic(), 0.0), TIMEOUT_MAX)

    def _take_news(self) -> None:
        if self._has_news and not self._is_closed:
            self._has_news = False
            self.driver.poll()

    def _leave(self, sleep: LockType) -> None:
        self._waiting.pop(sleep, None)
        if self._leader is sleep:
            self._leader = next(iter(self._waiting), None)
            if self._leader is not None:
                _wake(self._leader)

    def _hurry(self, leader: LockType) -> None:
        """Wake a leader that would oversleep a timer which has just been started."""
        deadline = self.driver.wake_at()
        if deadline is not None and deadline < self._alarm:
            _wake(leader)

    def _notify(self) -> None:
        """Called by the commit thread, which must not wait for the lock."""
        self._has_news = True
        leader = self._leader
        if leader is not None:
            _wake(leader)


def _wake(sleep: LockType) -> None:
    # It may have been woken by somebody else.
    with suppress(RuntimeError):
        sleep.release()
