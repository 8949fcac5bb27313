"""Purges of queues in parts, one with every tick, so that other work has its turn meanwhile."""

from collections import deque
from collections.abc import Callable
from typing import Final

from waypost.clock import Now
from waypost.core.queue_manager import QueueManager
from waypost.core.writing import Purge
from waypost.limits import PURGE_PART
from waypost.node.kernel import Kernel


class Purges:
    """The active purges, one after the other."""

    __slots__ = ("_kernel", "_manager", "_purges")

    def __init__(self, kernel: Kernel, manager: QueueManager) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._purges: Final[deque[tuple[Purge, Callable[[], None]]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._purges)

    def begin(self, purge: Purge, then: Callable[[], None]) -> None:
        """Purge a queue, and call `then` when nothing is left."""
        self._purges.append((purge, then))
        if len(self._purges) == 1:
            self._go_on(self._kernel.now)

    def _go_on(self, _now: Now) -> None:
        purge, then = self._purges[0]
        if not self._manager.writing.continue_purge(purge, PURGE_PART):
            self._purges.popleft()
            self._kernel.await_everything()
            then()
        if self._purges:
            self._kernel.timers.start_work(Purges, self._go_on)
