"""Numbers never used twice, over all restarts: SequentialID (MS-MQDMPR 3.1.1.1), of messages and of transactions.

The store has the end of a block of numbers, written long before the counter reaches it; after a restart counting goes
on behind it. An answer with a number beyond the durable end waits for the next end.
"""

from typing import Final

from waypost.core.queue_manager import QueueManager
from waypost.node import scans
from waypost.store.keys import Counter
from waypost.store.port import Batch, Reader, Table
from waypost.store.records import CounterRecord

BLOCK: Final = 1 << 16


class Reserve:
    """The reserve of one counter. Numbers up to `safe` may leave, and need no longer block."""

    __slots__ = ("_counter", "_durable", "_end", "safe", "token")

    def __init__(self, counter: Counter, reader: Reader) -> None:
        self._counter: Final = counter
        self._end = self._durable = stored_end(reader, counter)
        # The batch with the last end.
        self.token = 0
        self.safe = self._end - BLOCK // 2

    def advance(self, current: int, batch: Batch, token: int) -> int:
        """Write a new end into the batch when half of the block is used. `current` is the last number given.

        Returns the token of the batch that must be durable before that number may leave; 0 if it may now.
        """
        if current > self._end - BLOCK // 2:
            self._end = current + BLOCK
            self.token = token
            batch.put(Table.COUNTERS, self._counter.value, CounterRecord(self._end).encode())
            self.safe = min(self._durable, self._end - BLOCK // 2)
        return self.token if current > self._durable else 0

    def persisted(self) -> None:
        """Note that the batch with the last end is durable."""
        self._durable = self._end
        self.safe = self._end - BLOCK // 2


class Reserves:
    """The reserves of one queue manager."""

    __slots__ = ("_manager", "_ordinals", "_positions", "_transactions")

    def __init__(self, manager: QueueManager, reader: Reader) -> None:
        self._manager: Final = manager
        self._positions: Final = Reserve(Counter.SEQUENTIAL_ID, reader)
        self._ordinals: Final = Reserve(Counter.MESSAGE_ID_ORDINAL, reader)
        self._transactions: Final = Reserve(Counter.TRANSACTION_NUMBER, reader)

    def advance(self, batch: Batch, token: int) -> int:
        """Advance each Reserve to the last numbers given. Returns the token that all of them wait for."""
        manager, wait = self._manager, 0
        for reserve, current in (
            (self._positions, manager.positions.sequential_id),
            (self._ordinals, manager.last_ordinal),
            (self._transactions, manager.transactions.last_number),
        ):
            if current > reserve.safe:
                wait = max(wait, reserve.advance(current, batch, token))
        return wait

    def persisted(self, token: int) -> None:
        for reserve in (self._positions, self._ordinals, self._transactions):
            if token == reserve.token:
                reserve.persisted()


def stored_end(reader: Reader, counter: Counter) -> int:
    """The end of the numbers that may be in use; 0 in an empty store."""
    value = reader.get(Table.COUNTERS, counter.value)
    return 0 if value is None else scans.decoded(Table.COUNTERS, counter.value, value, CounterRecord.decode).value
