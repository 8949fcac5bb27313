"""What is awaited of an engine."""

from typing import TYPE_CHECKING, Final

from waypost.api.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from waypost.errors import WaypostError


class Answer:
    """What became of one request. Whoever waits for it leaves a `wake`, which is called once, when it is there."""

    __slots__ = ("error", "is_done", "operation", "request", "value", "waits", "wake")

    def __init__(self, request: int, operation: Operation[object]) -> None:
        self.request: Final = request
        self.operation: Final = operation
        # Whether it is a read, which can be cancelled.
        self.waits: Final = operation.row.waits
        self.value: object = None
        self.error: WaypostError | None = None
        self.is_done = False
        self.wake: Callable[[], None] | None = None

    def result(self) -> object:
        """Raises what it failed with."""
        if self.error is not None:
            raise self.error
        return self.value

    def end(self) -> None:
        self.is_done = True
        if self.wake is not None:
            self.wake()
