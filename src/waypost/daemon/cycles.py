"""Schedule of the garbage collector of Python, and the number of objects in one search.

A search stops the process, for a time in proportion to the number of objects: some 10 ms for 60,000. The objects of a
queue manager form no cycles and are freed with their last reference, so to search a million of them finds nothing.
Requests leave cycles, which a search finds while they are young. Therefore:

- Python itself searches young objects, some thousands at a time.
- Old objects are searched between two turns of the loop, and only if they are few.
- If they are many, they are frozen: no search looks at them again, as with the objects made before the start.
- Cycles of requests that ran at that moment are frozen with them. So, when the many are gone and the loop is at rest,
  one search covers everything.
"""

import asyncio
import gc
from collections.abc import MutableSequence
from typing import Any, Final, Protocol

from waypost.drive.loop_watch import CLEARING_UP, LoopWatch

# Searches of young objects before a search of the old ones.
YOUNG_SEARCHES: Final = 5
# Objects that one search may look at beside those of the start.
MAX_SEARCHED: Final = 60_000
# Seconds before a search of everything, and before the next look if there are still many objects: to count them takes
# time in proportion to their number.
WHOLE_SEARCH_SECONDS: Final = 300.0
# Seconds before the next look if the loop is not at rest.
RETRY_SECONDS: Final = 1.0
# A number of searches that is never reached.
_NEVER: Final = 1 << 30


class Collector(Protocol):
    """The functions of the module gc in use here."""

    @property
    def callbacks(self) -> MutableSequence[Any]: ...
    def get_threshold(self) -> tuple[Any, Any, Any]: ...
    def set_threshold(self, threshold0: int, threshold1: int = ..., threshold2: int = ..., /) -> None: ...
    def get_count(self) -> tuple[int, int, int]: ...
    def get_objects(self) -> list[Any]: ...
    def get_freeze_count(self) -> int: ...
    def collect(self) -> int: ...
    def freeze(self) -> None: ...
    def unfreeze(self) -> None: ...


class Cycles:
    """Scheduler of the garbage collector in the process of an event loop."""

    __slots__ = (
        "_at_start",
        "_collector",
        "_is_asked",
        "_loop",
        "_old",
        "_thresholds",
        "_timer",
        "_watch",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, watch: LoopWatch, collector: Collector = gc) -> None:
        self._loop: Final = loop
        self._watch: Final = watch
        self._collector: Final = collector
        self._thresholds: tuple[int, int, int] | None = None
        self._is_asked = False
        # Old objects that the last search has left, and those that were frozen with the start.
        self._old = 0
        self._at_start = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin. Objects that exist now stay: no search looks at them again."""
        collector = self._collector
        self._thresholds = collector.get_threshold()
        collector.set_threshold(self._thresholds[0], self._thresholds[1], _NEVER)
        collector.freeze()
        self._at_start = collector.get_freeze_count()
        collector.callbacks.append(self._searched)

    def stop(self) -> None:
        """Let Python search as it did before."""
        if self._thresholds is not None:
            self._collector.callbacks.remove(self._searched)
            self._collector.set_threshold(*self._thresholds)
            self._thresholds = None
        if self._timer is not None:
            self._timer.cancel()

    def _searched(self, phase: str, _: dict[str, Any]) -> None:
        """Note the end of a search, in whichever thread it ran."""
        if phase == "stop" and not self._is_asked and self._collector.get_count()[2] >= YOUNG_SEARCHES:
            self._is_asked = True
            self._loop.call_soon_threadsafe(self._search_old)

    def _search_old(self) -> None:
        """Search the old objects or freeze them, between two turns of the loop."""
        self._is_asked = False
        if self._thresholds is None:
            return
        young, searches, _ = self._thresholds
        collector, began = self._collector, self._watch.begin()
        if self._old + collector.get_count()[2] * young * (searches + 1) <= MAX_SEARCHED:
            collector.collect()
            self._old = len(collector.get_objects())
        else:
            collector.freeze()
            self._old = 0
            if self._timer is None:
                self._timer = self._loop.call_later(WHOLE_SEARCH_SECONDS, self._search_all)
        self._watch.end(began, CLEARING_UP)

    def _search_all(self) -> None:
        collector = self._collector
        if not self._watch.is_at_rest:
            self._timer = self._loop.call_later(RETRY_SECONDS, self._search_all)
            return
        if collector.get_freeze_count() > self._at_start + MAX_SEARCHED:
            self._timer = self._loop.call_later(WHOLE_SEARCH_SECONDS, self._search_all)
            return
        self._timer = None
        began = self._watch.begin()
        collector.unfreeze()
        collector.collect()
        collector.freeze()
        self._old = 0
        self._watch.end(began, CLEARING_UP)
