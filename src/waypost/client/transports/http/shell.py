"""What the transports for threads and for an event loop have in common: the daemon, links at rest, reads that wait."""

from typing import Final, Generic, Protocol, TypeVar

from waypost.api.defaults import LEASE_SECONDS
from waypost.api.names import Name, format_name
from waypost.client.transports.http.address import Address
from waypost.client.transports.http.asking import Asking, Wait
from waypost.errors import ServiceNotAvailable
from waypost.wire.format_names import FormatName

_MAX_IDLE: Final = 64


class Cancellable(Protocol):
    """A connection over which somebody waits."""

    def cancel(self) -> None:
        """End the wait."""


class Link(Cancellable, Protocol):
    """One connection, for one exchange at a time."""

    is_cancelled: bool

    def close(self) -> None: ...


L = TypeVar("L", bound=Link)


class Shell(Generic[L]):
    """A transport to a daemon, without what waits."""

    __slots__ = ("_address", "_asking", "_idle", "_is_closed", "_waiting", "url")

    path: Final = None
    transaction_s: Final = LEASE_SECONDS
    browses_by_cursor: Final = False
    without_transactions: Final = ""
    # Known from the first answer on.
    _asking: Asking

    def __init__(self, address: Address) -> None:
        self._address: Final = address
        self.url: Final[str | None] = address.url
        self._is_closed = False
        self._idle: list[L] = []
        # The reads that wait for a message, with the connections that they use at the moment.
        self._waiting: dict[Wait, Cancellable | None] = {}

    @property
    def computer(self) -> str:
        return self._asking.computer

    def named(self, name: Name) -> FormatName:
        return format_name(name, self.computer)

    @property
    def guid(self) -> str:
        return self._asking.guid

    @property
    def address(self) -> Address:
        """Where the daemon is. Raises ServiceNotAvailable when the connection to it is closed."""
        self.check()
        return self._address

    def check(self) -> None:
        if self._is_closed:
            raise ServiceNotAvailable("the connection to the queue manager is closed")

    def _cancel_waits(self, name: str | None = None) -> None:
        """End those on the queue of this name, or all."""
        for wait, link in tuple(self._waiting.items()):
            if name is None or wait.on == name:
                wait.is_cancelled = True
                if link is not None:
                    link.cancel()

    def _give_back(self, link: L, wait: Wait | None, *, is_kept: bool) -> None:
        """An exchange over the link is over."""
        if wait is not None:
            self._waiting[wait] = None
        if is_kept and not link.is_cancelled and not self._is_closed and len(self._idle) < _MAX_IDLE:
            self._idle.append(link)
        else:
            link.close()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
