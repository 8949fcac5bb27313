"""Turns of connections: connections of all kinds pass the bytes that they read to the queue manager in turns.

A connection keeps the bytes that it read until its turn, and reads no more meanwhile. In one turn of the loop,
connections work for a few milliseconds; then other tasks have the loop, so that local programs and health checks never
wait behind the data of others. Nothing works while much data waits for the disk, because all answers wait for the same
disk.
"""

import asyncio
from typing import Final, Protocol

from waypost.limits import MAX_KEPT_BYTES, MAX_KEPT_PIECE, MAX_TURN_BYTES, MAX_TURN_PACKETS, MAX_UNWRITTEN_BYTES
from waypost.node.turns import WHOLE, Budget, Turns

# Limits of one turn of the loop: many connections with little data, or one with much.
_PACKETS: Final = MAX_TURN_PACKETS
_BYTES: Final = MAX_TURN_BYTES


class Worker(Protocol):
    """A connection that takes turns. `work` returns the packets and bytes that it took, and whether it has more."""

    def work(self, budget: Budget, /) -> tuple[int, int, bool]: ...

    def __hash__(self) -> int: ...

    def pause(self) -> None:
        """Stop reading until its turn comes."""


class Disk(Protocol):
    """A disk, such as a Driver, with `unwritten_bytes` that wait for it."""

    unwritten_bytes: int


class Pump:
    """The turns of all connections. Call `written` when less data waits for the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._loop: Final = asyncio.get_running_loop()
        self._turns: Final[Turns[Worker]] = Turns()
        # Workers with new data since the last turn of the loop.
        self._fresh: list[Worker] = []
        self._is_due = False
        self._awaits_disk = False
        # Bytes that wait for their turn.
        self.kept = 0

    @property
    def piece(self) -> int:
        """Maximum number of bytes for one read."""
        return MAX_TURN_BYTES if self.kept < MAX_KEPT_BYTES else MAX_KEPT_PIECE

    def wait(self, worker: Worker) -> None:
        """Put a worker that has data in line."""
        self._turns.wait(worker)
        if self._awaits_disk:
            worker.pause()
        else:
            self._fresh.append(worker)
            self._go_on_soon()

    def arrived(self, worker: Worker) -> None:
        """Note data for a worker. The first one in a turn of the loop works at once, if no other waits."""
        if self._turns.waiting or self._is_due or self._awaits_disk or self._disk.unwritten_bytes > MAX_UNWRITTEN_BYTES:
            self.wait(worker)
            return
        # Later workers of this turn wait.
        self._go_on_soon()
        if worker.work(WHOLE)[2]:
            self.wait(worker)

    def leave(self, worker: Worker) -> None:
        self._turns.leave(worker)

    def written(self) -> None:
        """Note that data has become durable."""
        if self._awaits_disk:
            self._awaits_disk = False
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._is_due and not self._awaits_disk:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        turns = self._turns
        if self._disk.unwritten_bytes > MAX_UNWRITTEN_BYTES:
            self._awaits_disk = True
        elif turns.waiting:
            self._take_turns()
        fresh, self._fresh = self._fresh, []
        for worker in fresh:
            if worker in turns:
                worker.pause()
        if turns.waiting:
            self._go_on_soon()

    def _take_turns(self) -> None:
        """Give each worker at most one turn, because the effects of its turn are not carried out yet."""
        turns = self._turns
        packets, size = _PACKETS, _BYTES
        for _ in range(len(turns.waiting)):
            turn = turns.take() if packets > 0 and size > 0 else None
            if turn is None:
                break
            worker, budget = turn
            done, taken, has_more = worker.work(budget)
            packets -= done
            size -= taken
            if has_more:
                turns.wait(worker)
