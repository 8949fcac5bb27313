"""Durations of the turns of an event loop, and the work that delays the next turn.

A turn is one round of the loop: all work between two checks of its sockets. A loop does not report its rounds, so each
piece of work reports itself, and meanwhile a mark is scheduled in the loop with every round; it runs one round later. A
loop at rest has no marks. Work that took long is noted by name.
"""

import asyncio
import gc
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from waypost.limits import LONG_TURN_SECONDS, MAX_WATCHED_SECONDS

# Upper bounds of the classes of turns; almost all turns are in the first.
BOUNDS: Final = (0.01, 0.025, 0.05, LONG_TURN_SECONDS, 0.25, 0.5, 1.0, 2.5)
# Work that takes longer than this is noted by name.
_NAMED_SECONDS: Final = 0.005
# Precision of the split between work and waiting.
_LOOK_SECONDS: Final = 0.002
_OTHERS: Final = "other work"
CLEARING_UP: Final = "garbage collection"
# Most names that are counted separately; the code has fewer.
_MAX_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """A long turn: its end in Unix time, its duration, the part of it that was work, and the longest work.

    For the rest of the time this process waited: for the disk, for another thread, or because the computer was busy.
    """

    at: float
    seconds: float
    work_seconds: float
    what: str


class LoopWatch:
    """The watch of one event loop, which `clock` and `work_clock` measure.

    `count` and `seconds` are of all turns since the start. `over` counts those that took longer than each of BOUNDS,
    `slow` those that took longer than LONG_TURN_SECONDS, by the name of their work.
    """

    __slots__ = (
        "_call_soon",
        "_clock",
        "_found",
        "_has_worked",
        "_is_marked",
        "_longest",
        "_since",
        "_unlooked",
        "_work_clock",
        "_worked",
        "count",
        "over",
        "seconds",
        "slow",
    )

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        clock: Callable[[], float] = time.perf_counter,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._call_soon: Final = call_soon
        self._clock: Final = clock
        self._work_clock: Final = work_clock
        self._is_marked = False
        self._has_worked = False
        # The start of the turn.
        self._since = 0.0
        # The work clock, which is slow to read, and the duration of the turns since its last reading.
        self._worked = work_clock()
        self._unlooked = 0.0
        # Long work of this turn, the innermost first.
        self._found: list[tuple[float, str]] = []
        # The longest turn of each second.
        self._longest: deque[LoopTurn] = deque(maxlen=MAX_WATCHED_SECONDS)
        self.count = 0
        self.seconds = 0.0
        self.over: Final = [0] * len(BOUNDS)
        self.slow: Final[Counter[str]] = Counter()

    def begin(self) -> float:
        """Note the start of work. Returns the argument for `end`."""
        self._has_worked = True
        now = self._clock()
        if not self._is_marked:
            self._is_marked = True
            self._since = now
            self._call_soon(self._mark)
        return now

    def end(self, began: float, what: object) -> None:
        """Note the end of work that began then. `what` is its name, or a callable with a name."""
        seconds = self._clock() - began
        if seconds >= _NAMED_SECONDS:
            self._found.append((seconds, what if isinstance(what, str) else _name(what)))

    @property
    def is_at_rest(self) -> bool:
        """True without work since the last round."""
        return not self._is_marked

    def longest(self, seconds: float, now: float) -> LoopTurn | None:
        """The longest turn of the last seconds before this Unix time; None if no turn was long enough to be noted."""
        return max((turn for turn in self._longest if turn.at > now - seconds), key=_seconds, default=None)

    def watch_collections(self) -> Callable[[], None]:
        """Watch garbage collections too. Call the returned function to end that."""
        began = 0.0

        def told(phase: str, _: dict[str, int]) -> None:
            nonlocal began
            if phase == "start":
                began = self._clock()
            elif self._is_marked:
                self.end(began, CLEARING_UP)

        gc.callbacks.append(told)
        return lambda: gc.callbacks.remove(told)

    def _mark(self) -> None:
        now = self._clock()
        seconds = now - self._since
        self.count += 1
        self.seconds += seconds
        if seconds > BOUNDS[0]:
            self._note(seconds)
        self._unlooked += seconds
        if self._unlooked > _LOOK_SECONDS:
            self._unlooked = 0.0
            self._worked = self._work_clock()
        if self._found:
            self._found.clear()
        if self._has_worked:
            self._has_worked = False
            self._since = now
            self._call_soon(self._mark)
        else:
            self._is_marked = False

    def _note(self, seconds: float) -> None:
        worked = min(self._work_clock() - self._worked, seconds)
        # Of nested work, the name of the inner one says more.
        what = next((name for taken, name in self._found if 2 * taken >= seconds), None)
        if what is None:
            what = max(self._found)[1] if self._found else _OTHERS
        for at, bound in enumerate(BOUNDS):
            self.over[at] += seconds > bound
        if seconds > LONG_TURN_SECONDS:
            self.slow[what if what in self.slow or len(self.slow) < _MAX_NAMES else _OTHERS] += 1
        turn = LoopTurn(time.time(), seconds, worked, what)
        last = self._longest[-1] if self._longest else None
        if last is None or int(last.at) != int(turn.at):
            self._longest.append(turn)
        elif last.seconds < seconds:
            self._longest[-1] = turn


class NoWatch:
    """The watch of a loop that is not measured."""

    __slots__ = ()

    def begin(self) -> float:
        return 0.0

    def end(self, began: float, what: object) -> None: ...


def loop_watch() -> LoopWatch:
    """A watch of the running event loop."""
    return LoopWatch(asyncio.get_running_loop().call_soon)


def _seconds(turn: LoopTurn) -> float:
    return turn.seconds


def _name(called: object) -> str:
    """The name of work for people: the words of the method's name."""
    called = getattr(called, "func", called)
    name = getattr(called, "__name__", None) or type(called).__name__
    return str(name).strip("_").replace("_", " ").lower()
