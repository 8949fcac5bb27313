"""The seam for what happens between machines: every effect that a machine cannot carry out alone goes here."""

from typing import TYPE_CHECKING, Protocol

from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.machine import Machine


class Network(Protocol):
    def carry(self, machine: "Machine", effect: object) -> None:
        """An effect of the machine's node that reaches for another machine."""


class NoNetwork:
    """There is one machine, and it has nobody to talk to."""

    def carry(self, machine: "Machine", effect: object) -> None:
        raise Violation(f"{machine.name} wants {effect!r} of a network that is not there")
