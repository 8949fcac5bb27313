"""Where bytes that were read become work for the queue manager: connections of all kinds take turns here.

A connection keeps what was read from it until its turn comes, and is not read from meanwhile. In one turn of the loop
connections are worked on until some milliseconds' worth is done; then everybody else has the loop, which is how local
programs and health checks never wait behind what others have sent. Nothing is worked on while much waits for the disk,
because answers to everybody wait for the same disk.
"""

import asyncio
from typing import Final, Protocol

from waypost.limits import MAX_KEPT_BYTES, MAX_KEPT_PIECE, MAX_TURN_BYTES, MAX_TURN_PACKETS, MAX_UNWRITTEN_BYTES
from waypost.node.turns import WHOLE, Budget, Turns

# What is worked on in one turn of the loop: many connections with little together, or one with much.
_PACKETS: Final = MAX_TURN_PACKETS
_BYTES: Final = MAX_TURN_BYTES


class Worker(Protocol):
    """A connection whose turn comes. `work` returns the packets and bytes that it took, and whether it has more."""

    def work(self, budget: Budget, /) -> tuple[int, int, bool]: ...

    def __hash__(self) -> int: ...

    def pause(self) -> None:
        """Its turn has not come yet: nothing more is to be read meanwhile."""


class Disk(Protocol):
    """`unwritten_bytes` wait for it: a Driver is one."""

    unwritten_bytes: int


class Pump:
    """`written` is to be called when less waits for the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk: Final = disk
        self._loop: Final = asyncio.get_running_loop()
        self._turns: Final[Turns[Worker]] = Turns()
        # Those that have got something since the last turn of the loop.
        self._fresh: list[Worker] = []
        self._is_due = False
        self._awaits_disk = False
        # Bytes that wait for their turn.
        self.kept = 0

    @property
    def piece(self) -> int:
        """How much may be read at a time."""
        return MAX_TURN_BYTES if self.kept < MAX_KEPT_BYTES else MAX_KEPT_PIECE

    def wait(self, worker: Worker) -> None:
        """It has something to be worked on."""
        self._turns.wait(worker)
        if self._awaits_disk:
            worker.pause()
        else:
            self._fresh.append(worker)
            self._go_on_soon()

    def arrived(self, worker: Worker) -> None:
        """Something was read for it. The first of a turn of the loop is worked on at once, if nobody waits."""
        if self._turns.waiting or self._is_due or self._awaits_disk or self._disk.unwritten_bytes > MAX_UNWRITTEN_BYTES:
            self.wait(worker)
            return
        # Whoever comes now waits.
        self._go_on_soon()
        if worker.work(WHOLE)[2]:
            self.wait(worker)

    def leave(self, worker: Worker) -> None:
        self._turns.leave(worker)

    def written(self) -> None:
        """Something has become durable."""
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
        """Each at most once, because what came of its turn has not been carried out yet."""
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
