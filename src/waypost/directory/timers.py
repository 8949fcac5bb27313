"""The timers of the directory: MS-MQDMPR 3.1.2.1, 3.1.2.2 and 3.1.2.5, and that of MS-MQSO 6.4.1.2."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from waypost.clock import Now

_ONLINE_PERIOD_S: Final = 60.0


class Timer(Enum):
    """Each runs at most once at a time."""

    DIRECTORY_ONLINE = auto()
    DIRECTORY_SITES_UPDATE = auto()
    DIRECTORY_SITE_GATES_UPDATE = auto()
    DIRECTORY_SERVER_LIST_UPDATE = auto()


@dataclass(frozen=True, slots=True)
class Periods:
    """The periods that can be configured, in seconds. Our documents do not give that of the server list."""

    directory_sites_update_s: float = 12 * 3600.0
    directory_site_gates_update_s: float = 3600.0
    directory_server_list_update_s: float = 24 * 3600.0


class DirectoryTimers:
    """Deadlines on the monotonic clock."""

    __slots__ = ("_deadlines", "_periods")

    def __init__(self, periods: Periods) -> None:
        self._periods: Final = {
            Timer.DIRECTORY_ONLINE: _ONLINE_PERIOD_S,
            Timer.DIRECTORY_SITES_UPDATE: periods.directory_sites_update_s,
            Timer.DIRECTORY_SITE_GATES_UPDATE: periods.directory_site_gates_update_s,
            Timer.DIRECTORY_SERVER_LIST_UPDATE: periods.directory_server_list_update_s,
        }
        self._deadlines: dict[Timer, float] = {}

    def start(self, timer: Timer, now: Now) -> None:
        """Start a timer. One that runs goes on."""
        self._deadlines.setdefault(timer, now.monotonic + self._periods[timer])

    def is_running(self, timer: Timer) -> bool:
        return timer in self._deadlines

    def take_expired(self, now: Now) -> list[Timer]:
        """The timers that are due, the earliest first. They run no more."""
        due = [timer for timer, deadline in self._deadlines.items() if deadline <= now.monotonic]
        due.sort(key=lambda timer: self._deadlines[timer])
        for timer in due:
            del self._deadlines[timer]
        return due

    @property
    def next_deadline(self) -> float | None:
        return min(self._deadlines.values(), default=None)
