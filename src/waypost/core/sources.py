"""Bytes of the messages of each peer in the queues here, so that one peer cannot use up the quota of the machine.

A peer is an address from which messages come over the network (waypost.peers), not a program on this computer. The
messages of a peer come one behind the other, so their owner is kept for runs of SequentialIDs and not for each message.
Nothing of this is stored: messages from before a start count for the machine, and for no peer.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from waypost.core.positions import SEQUENCE_MASK
from waypost.limits import MAX_REFUSED_ADDRESSES

_FEW: Final = 64


@dataclass(slots=True)
class _Run:
    """`count` of the messages from `first` to `last` still exist."""

    first: int
    last: int
    source: str
    count: int


class Sources:
    """`current` is the peer of the messages being accepted, or "". `share` is a part of the machine's quota."""

    __slots__ = ("_bytes", "_dead", "_firsts", "_runs", "current", "refused", "share")

    def __init__(self) -> None:
        self.current = ""
        self.share = 1.0
        self._bytes: dict[str, int] = {}
        self._runs: list[_Run] = []
        self._firsts: list[int] = []
        self._dead = 0
        # Number of refusals of a peer for its share, the one refused last at the end.
        self.refused: dict[str, int] = {}

    @property
    def runs(self) -> int:
        return len(self._runs)

    def bytes_of(self, source: str) -> int:
        return self._bytes.get(source, 0)

    def totals(self) -> dict[str, int]:
        return dict(self._bytes)

    def has_room(self, quota: int, size: int) -> bool:
        """Whether the current peer may take this many bytes more. If not, note a refusal."""
        if not self.current or self.fits(self.current, quota, size):
            return True
        count = self.refused.pop(self.current, 0)
        self.refused[self.current] = count + 1
        if len(self.refused) > MAX_REFUSED_ADDRESSES:
            del self.refused[next(iter(self.refused))]
        return False

    def fits(self, source: str, quota: int, size: int) -> bool:
        """Whether this many more bytes fit into the share of a peer; `quota` is that of the machine in bytes."""
        return self.share >= 1 or self._bytes.get(source, 0) + size <= quota * self.share

    def placed(self, first: int, count: int, size: int) -> None:
        """Note that messages with SequentialIDs from `first` on were put into a queue."""
        source = self.current
        if not source or not count:
            return
        self._bytes[source] = self._bytes.get(source, 0) + size
        last = first + count - 1
        run = self._runs[-1] if self._runs else None
        if run is not None and run.source == source and run.last == first - 1 and run.count:
            run.last = last
            run.count += count
        else:
            self._runs.append(_Run(first, last, source, count))
            self._firsts.append(first)

    def removed(self, sequential_id: int, size: int) -> None:
        """Note that a message has left its queue."""
        run = self._run_of(sequential_id)
        if run is not None:
            self._take(run, 1, size)

    def removed_all(self, lookup_ids: Sequence[int], size: int) -> bool:
        """Note that messages of one run, with this total size, have left. False if they are not of one run."""
        first, last = min(lookup_ids), max(lookup_ids)
        if first & ~SEQUENCE_MASK != last & ~SEQUENCE_MASK:
            return False
        run = self._run_of(first & SEQUENCE_MASK)
        if run is None or last & SEQUENCE_MASK > run.last:
            return False
        self._take(run, len(lookup_ids), size)
        return True

    def _run_of(self, sequential_id: int) -> _Run | None:
        at = bisect_right(self._firsts, sequential_id) - 1
        run = self._runs[at] if at >= 0 else None
        return run if run is not None and sequential_id <= run.last and run.count else None

    def _take(self, run: _Run, count: int, size: int) -> None:
        run.count -= count
        left = self._bytes[run.source] - size
        if left > 0:
            self._bytes[run.source] = left
        else:
            del self._bytes[run.source]
        if not run.count:
            self._dead += 1
            if self._dead > max(len(self._runs) // 2, _FEW):
                self._clear()

    def _clear(self) -> None:
        self._runs = [run for run in self._runs if run.count]
        self._firsts = [run.first for run in self._runs]
        self._dead = 0
