"""The seam for what happens between hosts: every effect that a host cannot carry out alone goes here."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.local.host import LocalHost


class Network(Protocol):
    def carry(self, host: "LocalHost", effect: object, /) -> None:
        """An effect of the host's node that reaches for another host."""

    def stopping(self) -> None:
        """The host is about to stop as it should."""

    def went_down(self) -> None:
        """Its process is gone."""

    def heal(self) -> None:
        """From now on nothing fails, and nobody but the healer wants anything."""


class NoNetwork:
    """There is one host, and it has nobody to talk to."""

    def carry(self, host: "LocalHost", effect: object, /) -> None:
        raise Violation(f"{host.name} wants {effect!r} of a network that is not there")

    def stopping(self) -> None: ...

    def went_down(self) -> None: ...

    def heal(self) -> None: ...


class Endpoint(Protocol):
    """A host as the network knows it. The facts go on to `Node.network`, with the time of the host."""

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
        """Do it in a while, if the host lives the same life then."""
