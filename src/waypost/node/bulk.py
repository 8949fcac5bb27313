"""Queues read by ranges of arrival numbers, thousands of messages at once: what is planned, read and removed.

waypost.client.bulk.schema says what the words mean. An answer waits until everything is durable that was done before:
not only what it shows, but also what is missing in it, because a crash could bring that back behind the reader, who has
gone on (ADR 19).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, islice
from typing import Final

from waypost.clock import Now
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.ranges import Arrivals
from waypost.core.transaction_records import spans_of
from waypost.errors import QueueDeleted, QueueNotFound, RecordDamaged, SharingViolation, StoreError
from waypost.guid import NULL_GUID
from waypost.limits import MAX_BULK_REMOVED, MAX_FRAME_MESSAGES, MAX_HTTP_ANSWER, MAX_PLAN_PARTS
from waypost.node.application import Call
from waypost.node.holders import holder_of
from waypost.node.node import Node
from waypost.store.records import split_messages
from waypost.wire.format_names import FormatName

_SOME: Final = 100


@dataclass(frozen=True, slots=True)
class Target:
    """A queue of this computer or an outgoing queue. `epoch` is the one that it has to have, or nothing."""

    name: FormatName
    epoch: bytes = b""
    is_outgoing: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """The messages in (after, up_to], as far as the limits allow; None is no limit.

    Without `up_to` it ends where something is held that is not to be skipped.
    """

    after: int = 0
    up_to: int | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    skips_locked: bool = False


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue at one moment: see BulkQueue."""

    queue: Queue
    epoch: bytes
    first: int
    last: int
    stable: int
    committed: int
    oldest: int
    held: int
    held_s: float
    held_by: str = ""
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """See PlannedRange."""

    epoch: bytes
    bounds: list[int]
    counts: list[int]
    held_by: str = ""
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """Messages by their columns: see waypost.client.bulk.frame."""

    epoch: bytes
    end: int
    is_last: bool
    lookup_ids: Sequence[int]
    attributes: bytes
    packets: list[bytes]


@dataclass(frozen=True, slots=True)
class Removal:
    """See Removed."""

    count: int
    left: int


class BulkReading:
    """The operations on one node. They are asked for like those of waypost.node.application."""

    __slots__ = ("_held_since", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        # By the numbers of queues: what holds the stable number back, and since when it was seen to do so.
        self._held_since: dict[int, tuple[int, float]] = {}

    def describe(self, call: Call, targets: Sequence[Target]) -> None:
        """The answer is a list of QueueStates."""
        node = self._node
        with node.operation(call.now):
            states = [self._state(find_target(node, target), call.now) for target in targets]
            node.await_everything()
            node.reply(call.request, states)

    def plan(self, call: Call, target: Target, wanted: Range, parts: int) -> None:
        """The answer is a Plan of at most so many parts."""
        node = self._node
        with node.operation(call.now):
            queue = find_target(node, target)
            uncommitted = self._uncommitted(queue)
            up_to = self._up_to(queue, wanted, uncommitted)
            arrivals = _seen(queue, uncommitted, skips_locked=wanted.skips_locked)
            whole = arrivals.count(wanted.after, up_to)
            count = min(whole, _most(queue, wanted))
            parts = min(parts, count, MAX_PLAN_PARTS)
            ranks = [count * part // parts for part in range(1, parts + 1)]
            bounds = [wanted.after, *(arrivals.nth(wanted.after, up_to, rank) for rank in ranks)]
            is_whole = wanted.up_to is None and count == whole
            held = self._held_back(queue, up_to, arrivals, call.now) if is_whole else ("", 0)
            node.await_everything()
            node.reply(call.request, Plan(epoch_of(queue), bounds, _differences(ranks), *held))

    def read(self, call: Call, target: Target, wanted: Range) -> None:
        """The answer is Rows, in the order of arrival."""
        node = self._node
        with node.operation(call.now):
            queue = find_target(node, target)
            uncommitted = self._uncommitted(queue)
            up_to = self._up_to(queue, wanted, uncommitted)
            arrivals = _seen(queue, uncommitted, skips_locked=wanted.skips_locked)
            lookup_ids = arrivals.take(wanted.after, up_to, _expected(queue, wanted))
            found = rows_of(node, queue, lookup_ids, wanted.max_bytes)
            # Behind those that are damaged, too.
            seen = lookup_ids if found.are_all else found.lookup_ids
            end = seen[-1] & SEQUENCE_MASK if seen else wanted.after
            if len(found.lookup_ids) < len(lookup_ids):
                arrivals = _seen(queue, uncommitted, skips_locked=wanted.skips_locked)
            is_last = not arrivals.count(end, up_to)
            node.await_everything()
            node.reply(call.request, found.rows(queue, up_to if is_last else end, is_last=is_last))

    def seq_at(self, call: Call, target: Target, time: float) -> None:
        """The answer is the greatest number of those that arrived before this time of the wall clock.

        Numbers and times grow together, but for messages that were moved here.
        """
        node = self._node
        with node.operation(call.now):
            queue = find_target(node, target)
            arrivals = _seen(queue, self._uncommitted(queue), skips_locked=False)
            earlier, others = 0, arrivals.count(0, SEQUENCE_MASK)
            while earlier < others:
                middle = (earlier + others) // 2
                seq = arrivals.nth(0, SEQUENCE_MASK, middle + 1)
                (lookup_id,) = arrivals.take(seq - 1, seq, 1)
                message = node.manager.positions.find(queue, lookup_id)
                if message is None:
                    # It is damaged, and in the queue no more.
                    arrivals = _seen(queue, self._uncommitted(queue), skips_locked=False)
                    others -= 1
                elif message.arrival_time < time:
                    earlier = middle + 1
                else:
                    others = middle
            node.await_everything()
            node.reply(call.request, arrivals.nth(0, SEQUENCE_MASK, earlier))

    def remove(self, call: Call, target: Target, up_to: int, max_messages: int, after: int = 0) -> None:
        """Receive what is Available in the range. The answer is a Removal."""
        node = self._node
        node.check_store()
        with node.operation(call.now):
            queue = find_target(node, target)
            if queue.deniers:
                raise SharingViolation(f"a reader has {queue} for itself; let it close the queue first")
            uncommitted = self._uncommitted(queue)
            free = _seen(queue, uncommitted, skips_locked=True)
            lookup_ids = free.take(after, up_to, min(max_messages, MAX_BULK_REMOVED))
            messages = node.manager.positions.find_all(queue, lookup_ids)
            if messages:
                node.manager.positions.received_all(queue, messages)
            left = _seen(queue, uncommitted, skips_locked=False).count(after, up_to)
            node.await_everything()
            node.reply(call.request, Removal(len(messages), left))

    def _state(self, queue: Queue, now: Now) -> QueueState:
        arrivals = Arrivals(queue.positions)
        oldest = None
        while oldest is None and (first := arrivals.first):
            (lookup_id,) = arrivals.take(first - 1, first, 1)
            oldest = self._node.manager.positions.find(queue, lookup_id)
            if oldest is None:
                arrivals = Arrivals(queue.positions)
        held = len(queue.positions.held)
        stable = self._end_before(queue.positions.first_held)
        uncommitted = self._uncommitted(queue)
        seen = _seen(queue, uncommitted, skips_locked=False) if held else arrivals
        return QueueState(
            queue,
            epoch_of(queue),
            arrivals.first,
            arrivals.last,
            stable,
            self._end_before(_first(uncommitted)),
            0 if oldest is None else oldest.arrival_time,
            held,
            self._held_for(queue, stable + 1 if held else 0, now),
            *self._held_back(queue, stable, seen, now),
        )

    def _held_back(self, queue: Queue, end: int, seen: Arrivals, now: Now) -> tuple[str, int]:
        """What holds the end of a read back, and how many messages that are seen are behind it. Nothing if none are."""
        behind = seen.count(end, SEQUENCE_MASK) if queue.positions.held else 0
        held = Arrivals(queue.positions).take(end, end + 1, 1) if behind else []
        return (holder_of(self._node, queue, held[0], now), behind) if held else ("", 0)

    def _held_for(self, queue: Queue, blocking: int, now: Now) -> float:
        """How long the message with this number has been seen to hold others back; 0 is none."""
        seen, since = self._held_since.get(queue.number, (0, now.monotonic))
        if seen != blocking:
            since = now.monotonic
            queues = self._node.manager.collection.by_number
            self._held_since = {
                number: each
                for number, each in self._held_since.items()
                if number in queues and queues[number] != queue
            }
            if blocking:
                self._held_since[queue.number] = blocking, since
        return now.monotonic - since

    def _uncommitted(self, queue: Queue) -> Sequence[range]:
        """What nobody has seen yet. Most queues have nothing that is held, and need no look at transactions."""
        return self._node.manager.transactions.sends_to(queue) if queue.positions.held else ()

    def _up_to(self, queue: Queue, wanted: Range, uncommitted: Sequence[range]) -> int:
        if wanted.up_to is not None:
            return wanted.up_to
        return self._end_before(_first(uncommitted) if wanted.skips_locked else queue.positions.first_held)

    def _end_before(self, first: int) -> int:
        """The number before that of the first message that is held; without one, the last that was given."""
        return first - 1 if first else self._node.manager.positions.sequential_id


def find_queue(node: Node, name: FormatName) -> Queue:
    """The queue of this computer, or the outgoing queue. Raises QueueNotFound."""
    queue = node.manager.find_queue(name) or node.manager.collection.outgoing.get(name)
    if queue is None or queue.is_internal:
        raise QueueNotFound(f"{name} is no queue of this computer")
    return queue


def is_there(node: Node, target: Target) -> bool:
    """Whether `find_target` finds it."""
    try:
        find_target(node, target)
    except (QueueNotFound, QueueDeleted):
        return False
    return True


def find_target(node: Node, target: Target) -> Queue:
    """Raises QueueNotFound, and QueueDeleted if there is another queue under the name now."""
    queue = find_queue(node, target.name)
    if queue.is_provisional:
        raise QueueNotFound(f"{target.name} is no queue of this computer")
    if target.is_outgoing and not isinstance(queue, OutgoingQueue):
        raise QueueNotFound(f"{target.name} is no outgoing queue of this computer")
    if target.epoch and target.epoch != epoch_of(queue):
        raise QueueDeleted(
            f"{target.name} was deleted and created again: what was read of the old queue says nothing about this one; "
            "begin from its start, without the old epoch"
        )
    return queue


def epoch_of(queue: Queue) -> bytes:
    """16 bytes that no other queue has, also none with the same name: the identifier, unless it is NULL."""
    if queue.identifier != NULL_GUID:
        return queue.identifier
    return blake2b(b"%d,%d" % (queue.number, queue.create_time), digest_size=len(NULL_GUID)).digest()


@dataclass(frozen=True, slots=True)
class Found:
    """The first of some messages, as rows. `are_all` if none of the others can be read."""

    lookup_ids: list[int]
    attributes: bytes
    packets: list[bytes]
    are_all: bool

    def rows(self, queue: Queue, end: int, *, is_last: bool) -> Rows:
        return Rows(epoch_of(queue), end, is_last, self.lookup_ids, self.attributes, self.packets)


def rows_of(node: Node, queue: Queue, lookup_ids: Sequence[int], max_bytes: int | None) -> Found:
    """The first of these messages: with at most so many bytes of packets, or one. What is damaged is left out."""
    max_bytes = min(max_bytes or MAX_HTTP_ANSWER, MAX_HTTP_ANSWER)
    left = list(lookup_ids)
    heads: list[bytes] = []
    packets: list[bytes] = []
    ends = [0]
    while len(packets) < len(left) and ends[-1] < max_bytes:
        try:
            head, new = split_messages(node.messages.records(queue.number, left, len(packets)))
        except RecordDamaged as damage:
            node.manager.positions.set_aside(queue, left.pop(len(packets)), damage)
            continue
        except StoreError:
            # One of them is not a record that can be decoded: to look for each sets it aside.
            readable = node.manager.positions.find_all(queue, left[len(packets) :])
            left[len(packets) :] = [message.lookup_identifier for message in readable]
            continue
        heads.append(head)
        packets += new
        ends += islice(accumulate(map(len, new), initial=ends[-1]), 1, None)
    attributes = b"".join(heads)
    if ends[-1] > max_bytes:
        count = max(bisect_right(ends, max_bytes) - 1, 1)
        attributes, packets = attributes[: count * (len(attributes) // len(packets))], packets[:count]
    return Found(left[: len(packets)], attributes, packets, len(packets) == len(left))


def _seen(queue: Queue, uncommitted: Sequence[range], *, skips_locked: bool) -> Arrivals:
    return Arrivals(queue.positions, spans_of(sorted(queue.positions.held)) if skips_locked else uncommitted)


def _first(spans: Sequence[range]) -> int:
    """The smallest SequentialID in spans of LookupIdentifiers, 0 if there are none."""
    return min([span.start & SEQUENCE_MASK for span in spans], default=0)


def _most(queue: Queue, wanted: Range) -> int:
    """How many messages are asked for, by the average of the queue if bytes are, and one at least."""
    limits = [len(queue.positions)]
    if wanted.max_messages is not None:
        limits.append(wanted.max_messages)
    if wanted.max_bytes is not None and queue.total_bytes:
        limits.append(wanted.max_bytes * len(queue.positions) // queue.total_bytes)
    return max(min(limits), 1)


def _expected(queue: Queue, wanted: Range) -> int:
    """How many messages to look at for a frame: not many more than it will have room for."""
    limit = min(wanted.max_messages or MAX_FRAME_MESSAGES, MAX_FRAME_MESSAGES)
    if wanted.max_bytes is None or not queue.total_bytes:
        return limit
    return min(limit, wanted.max_bytes * len(queue.positions) // queue.total_bytes * 5 // 4 + _SOME)


def _differences(numbers: Sequence[int]) -> list[int]:
    return [number - before for before, number in zip((0, *numbers), numbers, strict=False)]
