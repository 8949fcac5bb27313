"""The shell for threads: the caller runs the engine, and one of the waiting threads serves the others.

One lock guards the engine; no thread holds it while waiting. Every thread that waits sleeps on a separate lock. One of
them is the leader: the commit thread wakes it when a batch has become durable, and the clock when a timer is due; it
then runs the engine, which wakes exactly the threads with an answer. A leader that leaves names another.
Because the commit thread writes all pending batches, threads that send at the same time share one flush to disk.
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
from waypost.security.callers import Caller

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """A shell around a driver, for threads."""

    __slots__ = ("_alarm", "_has_news", "_is_closed", "_leader", "_lock", "_process", "_waiting", "driver")

    def __init__(self, path: str | Path, settings: Settings, *, max_size: int | None) -> None:
        self._lock: Final = allocate_lock()
        self._process: Final = os.getpid()
        self._is_closed = False
        # The commit thread sets it and then looks for the leader; a leader checks it before it sleeps.
        self._has_news = False
        self._leader: LockType | None = None
        self._waiting: dict[LockType, None] = {}
        # The time when the leader wakes by itself, on the monotonic clock.
        self._alarm = inf
        self.driver: Final = Driver.open(path, settings, self._notify, max_size=max_size)

    def call(self, operation: Operation[R], caller: Caller) -> R:
        """Call an operation, and wait for its reply. Everything that the reply reports is durable."""
        return checked(operation, self._wait(self._start(operation, caller)))

    def start(self, operation: Operation[object], caller: Caller) -> None:
        """Call an operation, without a wait for its reply."""
        self._start(operation, caller)

    def look(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function that reads the queue manager, while no other thread changes it."""
        self._check_process()
        with self._lock:
            self.driver.check()
            self._take_news()
            self.driver.tick()
            return function(*args, **kwargs)

    def close(self) -> None:
        """End the waits, write pending changes and free the folder. A second call does nothing.

        If it is interrupted before it frees the folder, the next call finishes the work.
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
                # Without the lock: the commit thread, which has to end, may be about to wake a thread.
                tokens = self.driver.close_store()
        finally:
            with self._lock:
                self._is_closed = self.driver.is_store_closed
                self.driver.finish(tokens)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ServiceNotAvailable(
                f"the queue manager belongs to the parent process {self._process}; open another folder in this process"
            )

    def _start(self, operation: Operation[object], caller: Caller) -> Answer:
        self._check_process()
        with self._lock:
            self._take_news()
            try:
                answer = self.driver.start(operation, caller)
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
        """Do the work of a leader, if this is one. Returns seconds to sleep, -1 until woken; None with the answer."""
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
        """Wake a leader that would oversleep a timer that has just started."""
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
    # Another thread may have woken it.
    with suppress(RuntimeError):
        sleep.release()
