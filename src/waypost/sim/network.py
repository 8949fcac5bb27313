"""The seam for what happens between machines: every effect that a machine cannot carry out alone goes here."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.machine import Machine


class Network(Protocol):
    def carry(self, machine: "Machine", effect: object, /) -> None:
        """An effect of the machine's node that reaches for another machine."""

    def stopping(self) -> None:
        """The machine is about to stop as it should."""

    def went_down(self) -> None:
        """Its process is gone."""

    def heal(self) -> None:
        """From now on nothing fails, and nobody but the healer wants anything."""


class NoNetwork:
    """There is one machine, and it has nobody to talk to."""

    def carry(self, machine: "Machine", effect: object, /) -> None:
        raise Violation(f"{machine.name} wants {effect!r} of a network that is not there")

    def stopping(self) -> None: ...

    def went_down(self) -> None: ...

    def heal(self) -> None: ...


class Endpoint(Protocol):
    """A machine as the network knows it. The facts go on to `Node.network`, with the time of the machine."""

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
    """The world as the network needs it: time, chance, and events."""

    @property
    def rng(self) -> Random: ...

    @property
    def time(self) -> float: ...

    @property
    def is_healing(self) -> bool: ...

    def strikes(self, rate: float, /) -> bool: ...

    def schedule(self, delay: float, action: Callable[[], None], machine: E_contra, /) -> None:
        """Do it in a while, if the machine lives the same life then."""
