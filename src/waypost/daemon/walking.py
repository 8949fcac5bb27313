"""What a daemon says while it looks at the pages of its store, before it is ready."""

import time
from typing import Final

from waypost.daemon import systemd
from waypost.daemon.logs import Log

# How often there is a line in the log, and for how long systemd is asked to wait from then on.
_LINE_SECONDS: Final = 10.0
_EXTEND_MICROSECONDS: Final = 120_000_000


class Walking:
    """Tells the log once when a walk begins and then now and then, and systemd that the start takes longer."""

    __slots__ = ("_begun", "_log", "_told")

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._begun: float | None = None
        self._told = 0.0

    def tell(self, done: int, total: int) -> None:
        """A Progress: so many pages of so many were looked at."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = self._told = now
            self._log.info("looking at the store", message="It was not closed as it should be.", pages=total)
        elif done == total:
            self._log.info("looked at the store", pages=total, seconds=round(now - self._begun, 1))
        elif now - self._told >= _LINE_SECONDS:
            self._told = now
            self._log.info("looking at the store", pages=total, done=done)
        else:
            return
        percent = 100 * done // max(total, 1)
        systemd.notify(f"EXTEND_TIMEOUT_USEC={_EXTEND_MICROSECONDS}\nSTATUS=Looking at the store: {percent} %")
