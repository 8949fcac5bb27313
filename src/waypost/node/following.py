"""Follow a queue: look at its messages by their places, in the order of arrival, without receiving any."""

from typing import Final

from msgspec.structs import replace

from waypost.api.events import Events
from waypost.api.local import Follow, Followed
from waypost.api.names import format_name
from waypost.core.message import Message
from waypost.core.positions import PRIORITIES, SEQUENCE_BITS, SEQUENCE_MASK, PositionState
from waypost.core.queues import Queue
from waypost.errors import InvalidParameter, StoreError
from waypost.hresult import HResult
from waypost.node.bulk import find_queue
from waypost.node.failures import failure
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.security.callers import Caller
from waypost.wire.access_masks import QueueAccess

# Number of messages that one follower remembers because they are not visible yet.
_MAX_HELD: Final = 10_000
_AT_ONCE: Final = 100
# Interval of a follower's looks at its queue: eight searches in sorted numbers.
LOOK_SECONDS: Final = 0.1


class Following:
    """The operation that follows a queue of one node.

    A message of a transaction that is not committed has its place already; it comes with the commit, behind
    younger ones.
    """

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    def has_more(self, operation: Follow, caller: Caller, wall: float) -> bool:
        """Whether `follow` would find something.

        Raises QueueNotFound when the queue is deleted, and AccessDenied when the caller may not peek any more.
        """
        queue = self._queue(operation)
        now = self._node.users.current(caller, wall)
        self._node.access.check(now, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
        positions, since = queue.positions, operation.since
        if self._node.manager.positions.sequential_id != since and any(
            positions.next_any(_behind(band, since)) < _end(band) for band in range(PRIORITIES)
        ):
            return True
        return any(positions.state(lookup_id) is not PositionState.LOCKED for lookup_id in operation.held)

    def follow(self, call: Call, operation: Follow) -> None:
        with self._node.kernel.operation(call.now):
            queue = self._queue(operation)
            self._node.access.check(call.caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
            states = {lookup_id: queue.positions.state(lookup_id) for lookup_id in operation.held}
            held = [lookup_id for lookup_id, state in states.items() if state is PositionState.LOCKED]
            seen = [lookup_id for lookup_id, state in states.items() if state is PositionState.AVAILABLE]
            arrived, is_all = _arrived(queue, operation)
            for lookup_id in arrived:
                if queue.positions.state(lookup_id) is PositionState.AVAILABLE:
                    seen.append(lookup_id)
                elif len(held) < _MAX_HELD:
                    held.append(lookup_id)
            since = self._node.manager.positions.sequential_id if is_all else _sequential_id(arrived[-1])
            messages = self._node.manager.positions.find_all(queue, sorted(seen, key=_sequential_id))
            self._node.kernel.reply(call.request, Followed(messages, since, tuple(held)))

    def _queue(self, operation: Follow) -> Queue:
        return find_queue(self._node, format_name(operation.name, self._node.manager.identity.computer_name))


class Follower:
    """One follower of a queue. Make and ask it only while nothing changes the queue manager.

    `wanted` is the next request, if there is more; `take` gets the messages that came, and goes on behind them.
    """

    __slots__ = ("__weakref__", "_caller", "_following", "is_cancelled", "wanted")

    def __init__(self, node: Node, asked: Events, caller: Caller) -> None:
        """Raises QueueNotFound, AccessDenied, and InvalidParameter for an invalid place."""
        self._following: Final = Following(node)
        self._caller: Final = caller
        queue = find_queue(node, format_name(asked.name, node.manager.identity.computer_name))
        node.access.check(caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
        self.wanted = Follow(name=asked.name, since=_start(node, asked.since), limit=_AT_ONCE)
        self.is_cancelled = False

    def has_more(self, wall: float) -> bool:
        """Whether `wanted` would find something at this time.

        Raises as Following.has_more does, and OperationCancelled when following has to end.
        """
        if self.is_cancelled:
            raise failure(HResult.MQ_ERROR_OPERATION_CANCELLED)
        return self._following.has_more(self.wanted, self._caller, wall)

    def take(self, found: Followed) -> list[Message]:
        self.wanted = replace(self.wanted, since=found.since, held=found.held)
        return found.messages


def _start(node: Node, since: str) -> int:
    if since == "start":
        return -1
    if not since:
        return node.manager.positions.sequential_id
    if not (since.isascii() and since.isdigit() and len(since) <= 20):
        raise InvalidParameter("`since` must be the id of an event, or 'start'")
    return min(int(since), node.manager.positions.sequential_id)


def oldest(queue: Queue) -> int | None:
    """The LookupIdentifier of the oldest message in the queue, by arrival."""
    firsts = (queue.positions.next_any(_behind(band, -1)) for band in range(PRIORITIES))
    return min(
        (first for band, first in enumerate(firsts) if first < _end(band)), key=_sequential_id, default=None
    )  # fmt: skip


def oldest_arrival(node: Node, queue: Queue) -> float | None:
    """Arrival time of the oldest message; None without one, or with an unreadable one, which others report."""
    lookup_id = oldest(queue)
    if lookup_id is None:
        return None
    awaited = node.messages.read_token
    try:
        return node.messages.get(queue.number, lookup_id).arrival_time
    except StoreError:
        return None
    finally:
        # A time need not be durable to be shown.
        node.messages.read_token = awaited


def _arrived(queue: Queue, operation: Follow) -> tuple[list[int], bool]:
    """The first LookupIdentifiers behind a SequentialID, and whether these are all."""
    found: list[int] = []
    for band in range(PRIORITIES):
        position = queue.positions.next_any(_behind(band, operation.since))
        for _ in range(operation.limit):
            if position >= _end(band):
                break
            found.append(position)
            position = queue.positions.next_any(position)
    found = sorted(found, key=_sequential_id)[: operation.limit]
    return found, len(found) < operation.limit


def _sequential_id(lookup_id: int) -> int:
    return lookup_id & SEQUENCE_MASK


def _behind(band: int, since: int) -> int:
    """The place from which `next_any` finds messages of one priority behind a SequentialID."""
    return (band << SEQUENCE_BITS) + since


def _end(band: int) -> int:
    return (band + 1) << SEQUENCE_BITS
