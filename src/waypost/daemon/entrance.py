"""HTTP clients that have not sent the token: limits on their number, and their turns.

Where a token is required, a client without one is a stranger: it gets only refusals and the health of the daemon. Such
connections are counted by address and take turns with those of other hosts (waypost.daemon.pump); a connection that has
sent the token is not counted and does not wait. Where no token is required, only programs on this computer reach the
port, and no client is a stranger.
"""

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Final

from waypost.daemon.connection_guard import ConnectionGuard
from waypost.daemon.logs import Log
from waypost.daemon.pump import Pump
from waypost.daemon.seats import Guest, Seats

# Bytes of a stranger in one turn: some ten small requests.
PIECE: Final = 0x1000

# Requests of load balancers, which are answered at once.
_HEALTH: Final = tuple(b"%b /health/%b " % each for each in product((b"GET", b"HEAD"), (b"live", b"ready")))
_END: Final = b"\r\n\r\n"
_MAX_HEALTH: Final = 0x1000

# Refusals are not counted: a program without the token must not lock out one that has it, at the same address.
_UNCOUNTED: Final = 1 << 31


class Entrance:
    """Admission of HTTP clients. `recognizes`: whether the head of a request has the token, or needs none."""

    def __init__(
        self, pump: Pump, log: Log, recognizes: Callable[[bytes], bool], *, max_strangers: int, max_per_peer: int
    ) -> None:
        self.pump: Final = pump
        self._log: Final = log
        self._recognizes: Final = recognizes
        self._seats: Final = Seats(ConnectionGuard(max_strangers, max_per_peer, _UNCOUNTED))

    def arrive(self, guest: Guest, address: str) -> bool:
        """Return whether a connection may stay. It is a stranger until it sends the token."""
        refusal = self._seats.take(guest, address, asyncio.get_running_loop().time())
        if refusal is not None:
            self._log.warning("connection refused", address=address, reason=refusal, listener="http")
        return refusal is None

    def leave(self, guest: Guest) -> None:
        self._seats.leave(guest)

    def recognizes(self, data: bytes) -> bool:
        """Whether the head of this request is complete and has the token."""
        head, end, _ = data.partition(_END)
        return bool(end) and self._recognizes(head)

    @staticmethod
    def asks_for_health(data: bytes) -> bool:
        """Whether this is one request for the health of the daemon, and nothing else."""
        return len(data) <= _MAX_HEALTH and data.startswith(_HEALTH) and data.find(_END) == len(data) - len(_END)
