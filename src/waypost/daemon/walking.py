"""Progress reports of a daemon that checks the pages of its store, before it is ready."""

import time
from typing import Final

from waypost.daemon import systemd
from waypost.daemon.logs import Log

# Seconds between log lines, and the time that systemd is asked to wait from each on.
_LINE_SECONDS: Final = 10.0
_EXTEND_MICROSECONDS: Final = 120_000_000


class Walking:
    """Reports the begin, progress and end of a check to the log, and to systemd that the start takes longer."""

    __slots__ = ("_begun", "_log", "_told")

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._begun: float | None = None
        self._told = 0.0

    def tell(self, done: int, total: int) -> None:
        """Report progress in pages; a Progress of the store."""
        now = time.monotonic()
        if self._begun is None:
            self._begun = self._told = now
            self._log.info("looking at the store", message="The store was not closed properly.", pages=total)
        elif done == total:
            self._log.info("looked at the store", pages=total, seconds=round(now - self._begun, 1))
        elif now - self._told >= _LINE_SECONDS:
            self._told = now
            self._log.info("looking at the store", pages=total, done=done)
        else:
            return
        percent = 100 * done // max(total, 1)
        systemd.notify(f"EXTEND_TIMEOUT_USEC={_EXTEND_MICROSECONDS}\nSTATUS=Checking the store: {percent} %")
