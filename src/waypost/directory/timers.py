"""The timers of the directory: MS-MQDMPR 3.1.2.1, 3.1.2.2 and 3.1.2.5, and that of MS-MQSO 6.4.1.2."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

from waypost.clock import Now
from waypost.timers import Timers

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
    """Starts them among those of all. `expired` is told when one has come to its end."""

    __slots__ = ("_expired", "_periods", "_timers")

    def __init__(self, periods: Periods, timers: Timers, expired: Callable[[Timer, Now], None]) -> None:
        self._timers: Final = timers
        self._expired: Final = expired
        self._periods: Final = {
            Timer.DIRECTORY_ONLINE: _ONLINE_PERIOD_S,
            Timer.DIRECTORY_SITES_UPDATE: periods.directory_sites_update_s,
            Timer.DIRECTORY_SITE_GATES_UPDATE: periods.directory_site_gates_update_s,
            Timer.DIRECTORY_SERVER_LIST_UPDATE: periods.directory_server_list_update_s,
        }

    def start(self, timer: Timer, now: Now) -> None:
        """Start a timer. One that runs goes on."""
        if not self._timers.is_running(timer):
            self._timers.start(timer, now.monotonic + self._periods[timer], partial(self._expired, timer))

    def is_running(self, timer: Timer) -> bool:
        return self._timers.is_running(timer)
