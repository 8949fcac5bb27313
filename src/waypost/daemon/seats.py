"""Seats for incoming connections: admission, and the connection to close when all seats are taken.

Idle strangers are closed first, so that nobody keeps others out by holding connections open. Some seats are reserved
for peers with a history (waypost.daemon.connection_guard); strangers never get them.
"""

from typing import Final, Protocol

from waypost.daemon.connection_guard import CROWDED, FULL, ConnectionGuard

# Idle seconds before a connection may be closed for another.
_IDLE_SECONDS: Final = 5.0


class Guest(Protocol):
    """A connection that has a seat."""

    @property
    def idle_since(self) -> float | None:
        """Time since when the connection is idle (monotonic clock); None while a request is in progress."""

    def give_way(self) -> None:
        """Close: another connection gets its seat."""

    def __hash__(self) -> int: ...


class Seats:
    """The seats of one listener."""

    __slots__ = ("_guests", "guard")

    def __init__(self, guard: ConnectionGuard) -> None:
        self.guard: Final = guard
        self._guests: dict[Guest, str] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def take(self, guest: Guest, address: str, now: float) -> str | None:
        """Give a seat to a connection until it leaves, and return None; or return the reason to refuse it."""
        refusal = self.guard.admit(address, now)
        if refusal in (CROWDED, FULL):
            idle = self._longest_idle(address if refusal == CROWDED else None, now)
            if idle is not None:
                self.leave(idle)
                idle.give_way()
                refusal = self.guard.admit(address, now)
        if refusal is None:
            self._guests[guest] = address
        return refusal

    def leave(self, guest: Guest) -> None:
        """Free the seat of a connection, if it has one."""
        address = self._guests.pop(guest, None)
        if address is not None:
            self.guard.left(address)

    def _longest_idle(self, address: str | None, now: float) -> Guest | None:
        """The connection that is idle longest, of one peer or of all without a history."""
        found: list[tuple[float, Guest]] = []
        for guest, its_address in self._guests.items():
            idle = guest.idle_since
            if idle is None or idle > now - _IDLE_SECONDS:
                continue
            if not self.guard.has_history(its_address) if address is None else self.guard.is_same(its_address, address):
                found.append((idle, guest))
        return min(found, key=lambda each: each[0])[1] if found else None
