"""What sockets have to tell the queue manager, and the way there."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from waypost.clock import Now
from waypost.node.turns import Work

R = TypeVar("R")


class DataReceived(Protocol):
    """Takes bytes of a connection and looks at up to `most` packets; says how many, and how many are left."""

    def __call__(self, connection: int, data: bytes, now: Now, most: int = ...) -> Work: ...


class ConnectionFacts(Protocol):
    """What there is to tell of a connection that somebody else has made."""

    def accept(self, address: str, now: Now) -> int | None: ...

    @property
    def data_received(self) -> "DataReceived": ...
    @property
    def connection_lost(self) -> Callable[[int, Now], None]: ...
    @property
    def writing_paused(self) -> Callable[[int, Now], None]: ...
    @property
    def writing_resumed(self) -> Callable[[int, Now], None]: ...
    @property
    def reading_paused(self) -> Callable[[int, Now], None] | None:
        """For those who have to know that nothing is read."""

    @property
    def reading_resumed(self) -> Callable[[int, Now], None] | None: ...
    @property
    def needs_answers(self) -> bool:
        """Whether data that came before the connection broke is of no use to anybody."""

    @property
    def packet_cost(self) -> int:
        """What a packet takes of the budget of a turn: one packet of a session takes 1."""


class Facts(ConnectionFacts, Protocol):
    """waypost.node.network.network.Network, as sockets see it."""

    def connected(self, connection: int, now: Now) -> None: ...
    def connect_failed(self, connection: int, reason: str, now: Now) -> None: ...
    def datagram_received(self, data: bytes, address: str, port: int, now: Now) -> None: ...
    def ping_answered(self, data: bytes, now: Now) -> None: ...
    def resolved(self, request: int, addresses: tuple[str, ...], now: Now) -> None: ...
    def addresses_changed(self, addresses: frozenset[str], now: Now) -> None: ...
    def stop(self, now: Now) -> None: ...


class Shell(Protocol):
    """waypost.drive.loop.Loop, as sockets see it."""

    def tell(self, fact: Callable[[Now], R]) -> R | None: ...
