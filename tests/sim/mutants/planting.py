"""Planting of mistakes: the simulator has to find all of them, or it would not find those that nobody planted.

Each is a small sabotage of the engine, for one run. They reach into private parts on purpose.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from waypost.sim.patches import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """`mistake` completes the sentence "the engine ...". It shows in simulations of so many `nodes`.

    `is_slow`: it takes many seeds, or long ones, to find it. No seed before the `first` finds it.
    """

    name: str
    mistake: str
    patches: tuple[Patch, ...]
    nodes: int = 1
    is_slow: bool = False
    first: int = 0


def instead(owner: object, name: str, make: Callable[[Any], object]) -> tuple[Patch, ...]:
    """The result of `make` for the original."""
    return (Patch(owner, name, make(getattr(owner, name))),)


def nothing(_original: Any) -> Callable[..., None]:
    def forget(*_: object, **__: object) -> None: ...

    return forget
