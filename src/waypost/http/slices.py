"""Long lists, a part at a time: whoever makes one gives the loop to all others between two parts.

A list is of the queues that there were when it was begun, and each is shown as it is when its part comes. One that was
deleted meanwhile is left out, and one that was created meanwhile is not there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from waypost.limits import LIST_PART

T = TypeVar("T")
R = TypeVar("R")


async def slices(items: Iterable[T], part: int = LIST_PART) -> AsyncIterator[Sequence[T]]:
    """The items in parts. Others have had their turn before every part but the first."""
    every = tuple(items)
    for at in range(0, len(every), part):
        if at:
            await asyncio.sleep(0)
        yield every[at : at + part]


async def sliced(make: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], part: int = LIST_PART) -> list[R]:
    """What `make` makes of all items, part by part."""
    return [found async for each in slices(items, part) for found in make(each)]
