"""Long lists in parts, with a turn of the loop for other work between two parts.

A list has the queues that existed at its start, each as it is when its part comes. Queues deleted meanwhile are left
out, and queues created meanwhile are missing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from waypost.limits import LIST_PART

T = TypeVar("T")
R = TypeVar("R")


async def slices(items: Iterable[T], part: int = LIST_PART) -> AsyncIterator[Sequence[T]]:
    """The items in parts. Other work has its turn before every part but the first."""
    every = tuple(items)
    for at in range(0, len(every), part):
        if at:
            await asyncio.sleep(0)
        yield every[at : at + part]


async def sliced(make: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], part: int = LIST_PART) -> list[R]:
    """The results of `make` for all items, part by part."""
    return [found async for each in slices(items, part) for found in make(each)]
