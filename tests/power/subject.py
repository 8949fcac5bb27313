"""The subject of a power failure: a program to record, how to look at what it left, and what must be true of that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from tests.power.log import Told


class Subject(Protocol):
    """`name` is how the examiner is told of it. `machines` are folders below the root that can lose power alone."""

    name: str
    machines: tuple[str, ...]
    # Whether every recording begins with what was prepared, not with a state of the one before.
    begins_anew: bool = False

    def prepare(self, root: Path) -> None:
        """Put there what is there, and durable, before the first round. Nothing for most."""
        return

    def program(self, root: Path, round_number: int, seed: int, end: str) -> list[str]:
        """The program of one round, with its arguments. It ends with `stop` or `kill`."""

    def examine(self, root: Path) -> dict[str, Any]:
        """Start on what is there, use it, and say what it has: `found`, if `problems` is empty."""

    def problems(self, told: list[Told], found: Any) -> Iterator[str]:
        """Problems with what was found, each as a sentence, given what was told before."""
