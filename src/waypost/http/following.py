"""Operations on a node that the Python API does not have: to look at messages by their places.

They are asked for through the shell like those of waypost.api.operations, so that an answer never shows a message
that is not yet durable.
"""

from dataclasses import dataclass, field
from typing import Final

from waypost.core.positions import PRIORITIES, SEQUENCE_BITS, SEQUENCE_MASK, PositionState
from waypost.core.queues import Queue
from waypost.node.bulk import find_queue
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.wire.format_names import FormatName

# Messages that were there, and not yet to be seen, which one follower remembers.
_MAX_HELD: Final = 10_000


@dataclass(slots=True)
class Follower:
    """What has come to a queue since somebody looked last, in the order of arrival.

    A message that a transaction has sent and not committed has its place already; it comes when it is committed, behind
    younger ones.
    """

    node: Node
    name: FormatName
    # The last SequentialID that was looked at.
    since: int
    _held: dict[int, None] = field(default_factory=dict)

    @property
    def has_more(self) -> bool:
        """Whether `take` would find something. Raises QueueNotFound when the queue is gone."""
        positions = find_queue(self.node, self.name).positions
        if self.node.manager.positions.sequential_id != self.since and any(
            positions.next_any(_behind(band, self.since)) < _end(band) for band in range(PRIORITIES)
        ):
            return True
        return any(positions.state(lookup_id) is not PositionState.LOCKED for lookup_id in self._held)

    def take(self, call: Call, limit: int) -> None:
        """The answer is a list of messages, at most `limit` new ones and those that were held before."""
        with self.node.operation(call.now):
            queue = find_queue(self.node, self.name)
            seen = sorted((*self._released(queue), *self._arrived(queue, limit)), key=_sequential_id)
            self.node.reply(call.request, self.node.manager.positions.find_all(queue, seen))

    def _released(self, queue: Queue) -> list[int]:
        states = {lookup_id: queue.positions.state(lookup_id) for lookup_id in self._held}
        for lookup_id, state in states.items():
            if state is not PositionState.LOCKED:
                del self._held[lookup_id]
        return [lookup_id for lookup_id, state in states.items() if state is PositionState.AVAILABLE]

    def _arrived(self, queue: Queue, limit: int) -> list[int]:
        found: list[int] = []
        for band in range(PRIORITIES):
            position = queue.positions.next_any(_behind(band, self.since))
            for _ in range(limit):
                if position >= _end(band):
                    break
                found.append(position)
                position = queue.positions.next_any(position)
        found = sorted(found, key=_sequential_id)[:limit]
        self.since = _sequential_id(found[-1]) if len(found) == limit else self.node.manager.positions.sequential_id
        available = []
        for position in found:
            if queue.positions.state(position) is PositionState.AVAILABLE:
                available.append(position)
            elif len(self._held) < _MAX_HELD:
                self._held[position] = None
        return available


def oldest(queue: Queue) -> int | None:
    """The LookupIdentifier of the message that has been in the queue for the longest time."""
    firsts = (queue.positions.next_any(_behind(band, -1)) for band in range(PRIORITIES))
    return min(
        (first for band, first in enumerate(firsts) if first < _end(band)), key=_sequential_id, default=None
    )  # fmt: skip


def _sequential_id(lookup_id: int) -> int:
    return lookup_id & SEQUENCE_MASK


def _behind(band: int, since: int) -> int:
    """The place from which `next_any` finds what is behind a SequentialID in one priority, or later ones."""
    return (band << SEQUENCE_BITS) + since


def _end(band: int) -> int:
    return (band + 1) << SEQUENCE_BITS
