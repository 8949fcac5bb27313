"""Answers of an engine that callers wait for."""

from typing import TYPE_CHECKING, Final

from waypost.api.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from waypost.errors import WaypostError


class Answer:
    """The result of one request. A caller that waits sets `wake`, which is called once, when the result is there."""

    __slots__ = ("error", "is_done", "operation", "request", "value", "waits", "wake")

    def __init__(self, request: int, operation: Operation[object]) -> None:
        self.request: Final = request
        self.operation: Final = operation
        # True for a read, which can be cancelled.
        self.waits: Final = operation.row.waits
        self.value: object = None
        self.error: WaypostError | None = None
        self.is_done = False
        self.wake: Callable[[], None] | None = None

    def result(self) -> object:
        """The result. Raises the error of a failed request."""
        if self.error is not None:
            raise self.error
        return self.value

    def end(self) -> None:
        self.is_done = True
        if self.wake is not None:
            self.wake()
