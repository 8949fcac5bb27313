"""How long the turns of an event loop take, and what takes so long: for everybody who waits for the next turn.

A turn is one round of the loop: everything that is done between two moments in which it looks at its sockets. Nobody
can be told of the rounds, so whoever works in the loop says so, and while somebody does, a mark is left in the loop
with every round; it comes back one round later. A loop at rest has no marks. Work that took long says its name.
"""

import asyncio
import gc
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from waypost.limits import LONG_TURN_SECONDS, MAX_WATCHED_SECONDS

# Upper ends of what turns are counted by; the first is that of almost all of them.
BOUNDS: Final = (0.01, 0.025, 0.05, LONG_TURN_SECONDS, 0.25, 0.5, 1.0, 2.5)
# Work that took so long has a name that may be told.
_NAMED_SECONDS: Final = 0.005
# How exactly work is told apart from waiting.
_LOOK_SECONDS: Final = 0.002
_OTHERS: Final = "other work"
CLEARING_UP: Final = "clearing up memory"
# Names that are counted one by one; there are fewer, unless somebody makes them up.
_MAX_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """A long turn: when it ended in Unix time, how long it took, how much of that was work, and what took most of it.

    The rest of the time this process waited: for the disk, for another thread, or because the computer was busy.
    """

    at: float
    seconds: float
    work_seconds: float
    what: str


class LoopWatch:
    """Of one event loop, which `clock` and `work_clock` measure.

    `count` and `seconds` are of all turns since the start. `over` counts those that took longer than each of BOUNDS,
    `slow` those that took longer than LONG_TURN_SECONDS, by what they did.
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
        # When the turn began.
        self._since = 0.0
        # The other clock, which takes as long to read as all else here, and how long turns took since it was read.
        self._worked = work_clock()
        self._unlooked = 0.0
        # What took long in this turn, the innermost first.
        self._found: list[tuple[float, str]] = []
        # The longest turn of each second.
        self._longest: deque[LoopTurn] = deque(maxlen=MAX_WATCHED_SECONDS)
        self.count = 0
        self.seconds = 0.0
        self.over: Final = [0] * len(BOUNDS)
        self.slow: Final[Counter[str]] = Counter()

    def begin(self) -> float:
        """Somebody begins to work. Returns what `end` wants to know."""
        self._has_worked = True
        now = self._clock()
        if not self._is_marked:
            self._is_marked = True
            self._since = now
            self._call_soon(self._mark)
        return now

    def end(self, began: float, what: object) -> None:
        """The work has ended that began then. `what` is a name, or what is called by one."""
        seconds = self._clock() - began
        if seconds >= _NAMED_SECONDS:
            self._found.append((seconds, what if isinstance(what, str) else _name(what)))

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody has worked since the last round."""
        return not self._is_marked

    def longest(self, seconds: float, now: float) -> LoopTurn | None:
        """The longest turn of the last seconds before this Unix time; None if none took long enough to be known."""
        return max((turn for turn in self._longest if turn.at > now - seconds), key=_seconds, default=None)

    def watch_collections(self) -> Callable[[], None]:
        """Know the turns in which memory is cleared up, too. To be called to end that."""
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
        # Of work within work the inner one tells more.
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
    """What a loop has that nobody watches."""

    __slots__ = ()

    def begin(self) -> float:
        return 0.0

    def end(self, began: float, what: object) -> None: ...


def loop_watch() -> LoopWatch:
    """That of the event loop that is running."""
    return LoopWatch(asyncio.get_running_loop().call_soon)


def _seconds(turn: LoopTurn) -> float:
    return turn.seconds


def _name(called: object) -> str:
    """What people would call it: the words of the method's name."""
    called = getattr(called, "func", called)
    name = getattr(called, "__name__", None) or type(called).__name__
    return str(name).strip("_").replace("_", " ").lower()
