"""The outside of an engine, beyond its store and the answers: the network and the log."""

from typing import Protocol

from waypost.errors import WaypostError
from waypost.node.effects import OutsideEffect


class Outside(Protocol):
    """The outside of an engine. It is called while the engine settles, so it raises nothing and reports by `tell`."""

    def carry_out(self, effect: OutsideEffect) -> None: ...

    def broken(self, error: WaypostError) -> None:
        """Note that the engine refuses all operations except to close, or is closed."""


class Nowhere:
    """The outside of a queue manager without a network."""

    def carry_out(self, effect: OutsideEffect) -> None:
        pass

    def broken(self, error: WaypostError) -> None:
        pass
