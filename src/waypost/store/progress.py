"""Progress reports of long work on a store."""

from collections.abc import Callable

# Gets how much is done, in pages or records, and of how much.
Progress = Callable[[int, int], None]


def unheard(_done: int, _total: int) -> None:
    """For those who do not want to hear of it."""
