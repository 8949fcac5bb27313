"""Heartbeats of a stream in the mode `claim`: a thread of the driver keeps the leases while the query works."""

import logging
from collections.abc import Iterable
from contextlib import closing
from threading import Event, Lock, Thread
from typing import Final

from waypost.api.bulk import KeepClaim
from waypost.errors import ClaimTaken, QueueDeleted, QueueNotFound, TransactionSequence, WaypostError
from waypost.spark.options import Endpoint
from waypost.spark.origins import open_origin

_log: Final = logging.getLogger("waypost.spark")

# Heartbeats during one lease, so that a lost one does not matter.
_BEATS: Final = 4
# Errors of a claim that is not to be kept any more.
_OVER: Final = (ClaimTaken, TransactionSequence, QueueDeleted, QueueNotFound)


class Heartbeats:
    """Keeps claims until `stop`, or until the process ends."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint: Final = endpoint
        self._lock: Final = Lock()
        self._stopped: Final = Event()
        self._kept: tuple[KeepClaim, ...] = ()
        self._thread: Thread | None = None

    def keep(self, claims: Iterable[KeepClaim]) -> None:
        """Keep these claims from now on, and no others."""
        with self._lock:
            self._kept = tuple(claims)
        if self._kept and self._thread is None and not self._stopped.is_set():
            self._thread = Thread(target=self._beat, name="waypost-heartbeats", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._endpoint.timeout_s)

    def _beat(self) -> None:
        with closing(open_origin(self._endpoint)) as origin:
            while not self._stopped.wait(self._endpoint.lease_s / _BEATS):
                for claim in self._kept:
                    try:
                        origin.keep_claim(claim)
                    except _OVER as error:
                        self._give_up(claim, error)
                    except WaypostError as error:
                        # The daemon may come back within the lease.
                        _log.warning("the heartbeat for the claim %s of %s failed: %s", claim.claim, claim.name, error)

    def _give_up(self, claim: KeepClaim, error: WaypostError) -> None:
        """The next request of the query gets the same error, unless the query has gone on meanwhile."""
        with self._lock:
            if claim in self._kept:
                self._kept = tuple(each for each in self._kept if each != claim)
                _log.warning("the lease of the claim %s of %s is no longer renewed: %s", claim.claim, claim.name, error)
