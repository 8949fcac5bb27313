"""Leases: objects that clients keep open, by id. An object closes when it was not used for its time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Generic, TypeVar

from waypost.drive.new_guid import new_guid
from waypost.errors import InvalidHandle, LimitReached, ServiceNotAvailable
from waypost.guid import guid_text
from waypost.node.access import owns
from waypost.security.callers import Caller
from waypost.wire.sid import Sid

T = TypeVar("T")

Close = Callable[[str, T], Coroutine[Any, Any, None]]


class _Lease(Generic[T]):
    __slots__ = ("owner", "seconds", "timer", "users", "value")

    def __init__(self, value: T, seconds: float, owner: Sid) -> None:
        self.value: Final = value
        self.owner: Final = owner
        self.seconds: Final = seconds
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None


class Leases(Generic[T]):
    """Open objects with a lease. `close` gets an expired one. While an object is in use, its time stands still."""

    __slots__ = ("_close", "_closing", "_is_stopped", "_leases", "_max_count", "_what")

    def __init__(self, what: str, max_count: int, close: Close[T]) -> None:
        self._what: Final = what
        self._max_count: Final = max_count
        self._close: Final = close
        self._is_stopped = False
        self._leases: dict[str, _Lease[T]] = {}
        # The loop itself does not keep tasks alive.
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, key: str) -> bool:
        return key in self._leases

    def has(self, key: str, caller: Caller) -> bool:
        """Whether an object is open, and exists for this caller: objects belong to the caller that opened them."""
        lease = self._leases.get(key)
        return lease is not None and owns(caller, lease.owner)

    def check_room(self) -> None:
        """Raises LimitReached if no more may be opened."""
        if len(self._leases) >= self._max_count:
            raise LimitReached(
                f"the limit of {self._max_count} open {self._what} is reached; close some of them, or wait until some "
                "expire"
            )

    def add(self, value: T, seconds: float, owner: Caller, key: str | None = None) -> str:
        """Keep an object of a caller open. Returns its id."""
        self.check_room()
        key = guid_text(new_guid()) if key is None else key
        lease = self._leases[key] = _Lease(value, seconds, owner.sid)
        self._start(key, lease)
        return key

    def find(self, key: str) -> T | None:
        lease = self._leases.get(key)
        return None if lease is None else lease.value

    def items(self) -> list[tuple[str, T]]:
        """All open objects with their ids."""
        return [(key, lease.value) for key, lease in self._leases.items()]

    def of(self, owner: Sid) -> list[str]:
        """The ids of the objects of one owner."""
        return [key for key, lease in self._leases.items() if lease.owner == owner]

    def close_all_of(self, owner: Sid) -> None:
        """Close the objects of one owner, as if they had expired."""
        for key in self.of(owner):
            self._stop(self._leases[key])
            self._expire(key)

    @contextmanager
    def using(self, key: str) -> Iterator[T]:
        """Keep an object open in this context, and for its whole time after it. Raises KeyError if it is not open."""
        lease = self._leases[key]
        lease.users += 1
        self._stop(lease)
        try:
            yield lease.value
        finally:
            lease.users -= 1
            if not lease.users and self._leases.get(key) is lease:
                self._start(key, lease)

    def drop(self, key: str) -> T | None:
        """Forget an object without closing it."""
        lease = self._leases.pop(key, None)
        if lease is None:
            return None
        self._stop(lease)
        return lease.value

    def stop(self) -> None:
        """Let nothing expire any more: the server stops, and closes everything."""
        self._is_stopped = True
        for lease in self._leases.values():
            self._stop(lease)

    def _start(self, key: str, lease: _Lease[T]) -> None:
        if self._is_stopped:
            return
        lease.timer = asyncio.get_running_loop().call_later(lease.seconds, self._expire, key)

    def _stop(self, lease: _Lease[T]) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
            lease.timer = None

    def _expire(self, key: str) -> None:
        lease = self._leases.pop(key)
        task = asyncio.get_running_loop().create_task(self._close_expired(key, lease.value))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_expired(self, key: str, value: T) -> None:
        # The queue manager may be closed already, and with it all that was open.
        with suppress(ServiceNotAvailable, InvalidHandle):
            await self._close(key, value)
