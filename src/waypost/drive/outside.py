"""What an engine asks of the world beyond its store and the answers: the network and the log."""

from typing import Protocol

from waypost.errors import WaypostError
from waypost.node.effects import OutsideEffect


class Outside(Protocol):
    """It is called while the engine settles, so it raises nothing and comes back with facts through `tell` only."""

    def carry_out(self, effect: OutsideEffect) -> None: ...

    def broken(self, error: WaypostError) -> None:
        """Nothing can be done with the engine any more but to close it. A closed one says so too."""


class Nowhere:
    """The outside of a queue manager without a network."""

    def carry_out(self, effect: OutsideEffect) -> None:
        pass

    def broken(self, error: WaypostError) -> None:
        pass
