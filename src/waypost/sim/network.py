"""The interface between a simulated network and the endpoints of its connections."""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar


class Endpoint(Protocol):
    """A host as the network knows it. The facts go to `Node.network`, with the time of the host."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str: ...

    @property
    def is_up(self) -> bool: ...

    def note(self, number: int, /, *words: object) -> None: ...

    def accept(self, address: str, /) -> int | None: ...

    def connected(self, connection: int, /) -> None: ...

    def connect_failed(self, connection: int, reason: str, /) -> None: ...

    def data_received(self, connection: int, data: bytes, /) -> None: ...

    def connection_lost(self, connection: int, /) -> None: ...

    def writing_paused(self, connection: int, /) -> None: ...

    def writing_resumed(self, connection: int, /) -> None: ...

    def datagram_received(self, data: bytes, address: str, port: int, /) -> None: ...

    def resolved(self, request: int, addresses: tuple[str, ...], /) -> None: ...


E_contra = TypeVar("E_contra", bound=Endpoint, contravariant=True)


class Surroundings(Protocol[E_contra]):
    """The simulation as the network needs it: time, chance, and events."""

    @property
    def rng(self) -> Random: ...

    @property
    def time(self) -> float: ...

    @property
    def is_healing(self) -> bool: ...

    def strikes(self, rate: float, /) -> bool: ...

    def schedule(self, delay: float, action: Callable[[], None], host: E_contra, /) -> None:
        """Do it after this time, if the host is in the same life then."""
