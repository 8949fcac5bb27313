"""Numbers never given twice, over all restarts: SequentialID (MS-MQDMPR 3.1.1.1), of messages and of transactions.

What is stored is the end of a block that may be used up to there, written long before the numbers reach it; after a
restart counting goes on behind it. An answer that tells a number beyond the durable end waits for the next end.
"""

from collections.abc import Callable
from typing import Final

from waypost.node import scans
from waypost.store.keys import Counter
from waypost.store.port import Batch, Reader, Table
from waypost.store.records import CounterRecord

BLOCK: Final = 1 << 16


class Reserve:
    """The reserve of one counter. `current` says which number was given last."""

    __slots__ = ("_counter", "_current", "_durable", "_end", "_token")

    def __init__(self, counter: Counter, reader: Reader, current: Callable[[], int]) -> None:
        self._counter: Final = counter
        self._current: Final = current
        self._end = self._durable = stored_end(reader, counter)
        self._token = 0

    def advance(self, batch: Batch, token: int) -> int:
        """Write a new end into the batch when half of the block is used.

        Returns the token of the batch that has to be durable before the last number may be told; 0 if it may be.
        """
        current = self._current()
        if current > self._end - BLOCK // 2:
            self._end = current + BLOCK
            self._token = token
            batch.put(Table.COUNTERS, self._counter.value, CounterRecord(self._end).encode())
        return self._token if current > self._durable else 0

    def persisted(self, token: int) -> None:
        if token == self._token:
            self._durable = self._end


def stored_end(reader: Reader, counter: Counter) -> int:
    """How far the numbers may have been used, 0 in an empty store."""
    value = reader.get(Table.COUNTERS, counter.value)
    return 0 if value is None else scans.decoded(Table.COUNTERS, counter.value, value, CounterRecord.decode).value
