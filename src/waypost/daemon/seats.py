"""Room for connections that others make: who gets in, and who has to go when there is no room.

Strangers that are idle go first, so that nobody keeps others out by holding connections open; and a part of the room is
for peers with a history (waypost.daemon.connection_guard), which strangers cannot take at all.
"""

from typing import Final, Protocol

from waypost.daemon.connection_guard import CROWDED, FULL, ConnectionGuard

# How long a connection has been idle before it goes for the sake of another.
_IDLE_SECONDS: Final = 5.0


class Guest(Protocol):
    """A connection that has a seat."""

    @property
    def idle_since(self) -> float | None:
        """Of the monotonic clock; None while something is under way."""

    def give_way(self) -> None:
        """Its seat is somebody else's."""

    def __hash__(self) -> int: ...


class Seats:
    """Those of one listener."""

    __slots__ = ("_guests", "guard")

    def __init__(self, guard: ConnectionGuard) -> None:
        self.guard: Final = guard
        self._guests: dict[Guest, str] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def take(self, guest: Guest, address: str, now: float) -> str | None:
        """Give it a seat, until it leaves; or say why it gets none."""
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
        """Nothing happens if it has none."""
        address = self._guests.pop(guest, None)
        if address is not None:
            self.guard.left(address)

    def _longest_idle(self, address: str | None, now: float) -> Guest | None:
        """Of one peer, or of all that have no history."""
        found: list[tuple[float, Guest]] = []
        for guest, its_address in self._guests.items():
            idle = guest.idle_since
            if idle is None or idle > now - _IDLE_SECONDS:
                continue
            if not self.guard.has_history(its_address) if address is None else self.guard.is_same(its_address, address):
                found.append((idle, guest))
        return min(found, key=lambda each: each[0])[1] if found else None
