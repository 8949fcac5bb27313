"""Bulk reads: plan, read and remove ranges of arrival numbers, thousands of messages at once.

waypost.api.bulk defines the terms. An answer waits until all earlier work is durable: not only the messages that it
shows, but also the removal of those that it lacks, because a crash could bring these back behind a reader that has gone
on (ADR 19).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate, islice, pairwise
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from waypost.api.bulk import (
    BulkQueue,
    BulkQueues,
    FindSeq,
    ListBulkQueues,
    PlanLimits,
    PlannedRange,
    PlannedRanges,
    PlanRange,
    PlanRanges,
    RangeOfQueue,
    ReadRange,
    Removed,
    RemoveRange,
    Rest,
    SeqAt,
    ShowBulkQueue,
)
from waypost.api.frames import Frame
from waypost.api.local import ShowBulkQueues
from waypost.api.names import format_name, short_name
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.ranges import Arrivals
from waypost.core.transaction_records import OperationType, spans_of
from waypost.errors import (
    DecodeError,
    InvalidParameter,
    QueueDeleted,
    QueueNotFound,
    RecordDamaged,
    SharingViolation,
    StoreError,
)
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.limits import MAX_BULK_REMOVED, MAX_FRAME_MESSAGES, MAX_FRESH, MAX_HTTP_ANSWER, MAX_SIZES_READ
from waypost.node.epochs import epoch_of
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.planning import Planning, find_sizes, shared
from waypost.node.queue_info import kind_of, queue_info
from waypost.store.records import split_messages
from waypost.wire.access_masks import QueueAccess
from waypost.wire.format_names import DirectFormatName, FormatName, Protocol, Suffix
from waypost.wire.path_names import QueueKind

_SOME: Final = 100


# Kinds of a query, by the kinds of QueueInfo.
_KINDS: Final = {
    "": frozenset({"private", "public"}),
    "local": frozenset({"private", "public"}),
    "all": frozenset({"private", "public", "journal", "subqueue", "system", "outgoing"}),
}


class BulkReadingCalls:
    """Bulk reads on one node."""

    __slots__ = ("_held_since", "_node")

    def __init__(self, node: Node) -> None:
        self._node: Final = node
        # By the numbers of queues: the message that holds the stable number back, and the time it was first seen to.
        self._held_since: dict[int, tuple[int, float]] = {}

    def list_queues(self, call: Call, operation: ListBulkQueues) -> None:
        self.show_some(call, ShowBulkQueues(names=tuple(matching(self._node.manager, operation))))

    def show_some(self, call: Call, operation: ShowBulkQueues) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            queues = []
            for name in operation.names:
                with suppress(QueueNotFound):
                    queues.append(self._shown(name, find_queue(node, name), call.now))
            node.kernel.await_everything()
            node.kernel.reply(call.request, BulkQueues(queues))

    def show(self, call: Call, operation: ShowBulkQueue) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            queue = find_target(node, operation.name, outgoing=operation.outgoing)
            node.access.check(call.caller, queue, QueueAccess.MQSEC_GET_QUEUE_PROPERTIES)
            found = self._shown(_name(node, operation.name), queue, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, found)

    def plan(self, call: Call, operation: PlanRange) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            queue = find_target(node, operation.name, operation.epoch, outgoing=operation.outgoing)
            node.access.check(call.caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
            planning = self._planning(queue, (operation.after, operation.up_to), operation, call.now)
            plan = self._planned(_name(node, operation.name), planning, operation, call.now)
            node.kernel.await_everything()
            node.kernel.reply(call.request, plan)

    def plan_all(self, call: Call, operation: PlanRanges) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            found = [self._planning_or_none(call, wanted, operation) for wanted in operation.ranges]
            there = [planning for planning in found if planning is not None]
            limits = iter(shared(there, operation))
            plans = [
                _gone(wanted)
                if planning is None
                else self._planned(_name(node, wanted.name), planning, next(limits), call.now)
                for wanted, planning in zip(operation.ranges, found, strict=True)
            ]
            node.kernel.await_everything()
            node.kernel.reply(call.request, PlannedRanges(plans))

    def _planning_or_none(self, call: Call, wanted: RangeOfQueue, limits: PlanLimits) -> Planning | None:
        """None if the queue is gone."""
        try:
            queue = find_target(self._node, wanted.name, wanted.epoch)
        except (QueueDeleted, QueueNotFound):
            return None
        self._node.access.check(call.caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
        after = wanted.after if wanted.since is UNSET else self._last_before(queue, wanted.since)
        up_to = wanted.up_to if wanted.before is UNSET else max(self._last_before(queue, wanted.before), after)
        return self._planning(queue, (after, up_to), limits, call.now)

    def _planning(self, queue: Queue, wanted: tuple[int, int | UnsetType], limits: PlanLimits, now: Now) -> Planning:
        """Plan (after, up_to]: the two numbers of `wanted`."""
        after, up_to = wanted
        uncommitted = self._uncommitted(queue)
        skips_locked = limits.locked == "skip"
        stable = self._stable(queue, uncommitted, skips_locked=skips_locked)
        arrivals = _seen(queue, uncommitted, skips_locked=skips_locked)
        end = stable if up_to is UNSET else up_to
        if not self._node.index.is_complete:
            find_sizes(self._node.messages, queue, arrivals.take(after, end, MAX_SIZES_READ))
        if limits.marks_moves:
            self._node.manager.positions.moves.planned(now.wall)
            fresh = self._fresh(queue, arrivals, after, end)
            up_to = up_to if len(fresh) <= MAX_FRESH else fresh[MAX_FRESH] - 1
        return Planning(queue, arrivals, after, up_to, stable=stable)

    def _fresh(self, queue: Queue, arrivals: Arrivals, after: int, up_to: int) -> list[int]:
        """The messages of the range that were moved to the queue in the current second."""
        numbers = self._node.manager.positions.moves.fresh(queue.number)
        return [number for number in numbers if after < number <= up_to and arrivals.count(number - 1, number)]

    def _planned(self, name: FormatName, planning: Planning, limits: PlanLimits, now: Now) -> PlannedRange:
        queue, arrivals, after = planning.queue, planning.arrivals, planning.after
        end = planning.end(limits)
        bounds = [after, *planning.cuts(end, limits)]
        counts = [arrivals.count(start, stop) for start, stop in pairwise(bounds)]
        held_by, behind = self._held_back(queue, planning.stable, arrivals, now)
        is_whole = not planning.has_end and end == planning.last
        as_of = self._node.manager.positions.moves.planned(now.wall) if limits.marks_moves else 0
        last = max(planning.stable, planning.up_to)
        count = arrivals.count(end, last)
        plan = PlannedRange(
            name=str(name),
            kind=kind_of(queue),
            epoch=guid_text(epoch_of(queue)),
            bounds=bounds,
            counts=counts,
            sizes=[planning.size(start, stop) for start, stop in pairwise(bounds)],
            rest=Rest(
                count=count,
                bytes=planning.size(end, last) if count else 0,
                last=arrivals.nth(end, last, count),
                held_by=held_by,
                behind=behind,
            ),
            held=len(queue.positions.held),
            held_s=self._held_for(queue, queue.positions.first_held, now),
            held_by=held_by if is_whole else "",
            behind=behind if is_whole else 0,
            as_of=as_of,
            fresh=self._fresh(queue, arrivals, after, end) if as_of else [],
        )
        # Last, because a damaged message leaves the queue when it is read.
        firsts = arrivals.take(after, end, 1), arrivals.take(end, last, 1)
        oldest, oldest_left = [self._arrival_time(queue, first) for first in firsts]
        return replace(plan, oldest=oldest, rest=replace(plan.rest, oldest=oldest_left))

    def _arrival_time(self, queue: Queue, lookup_ids: Sequence[int]) -> int:
        """The time of the only one of these messages; 0 without one, and for one that is damaged."""
        found = self._node.manager.positions.find_all(queue, lookup_ids)
        return found[0].arrival_time if found else 0

    def read(self, call: Call, operation: ReadRange) -> None:
        node, up_to = self._node, operation.up_to
        with node.kernel.operation(call.now):
            queue = find_target(node, operation.name, operation.epoch, outgoing=operation.outgoing)
            node.access.check(call.caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
            uncommitted = self._uncommitted(queue)
            skips_locked = operation.locked == "skip"
            arrivals = _seen(queue, uncommitted, skips_locked=skips_locked)
            lookup_ids = arrivals.take(operation.after, up_to, _expected(queue, operation))
            found = rows_of(node, queue, lookup_ids, operation.max_bytes)
            # Go on behind damaged messages too.
            seen = lookup_ids if found.are_all else found.lookup_ids
            end = seen[-1] & SEQUENCE_MASK if seen else operation.after
            if len(found.lookup_ids) < len(lookup_ids):
                arrivals = _seen(queue, uncommitted, skips_locked=skips_locked)
            is_last = not arrivals.count(end, up_to)
            node.kernel.await_everything()
            node.kernel.reply(call.request, found.frame(queue, up_to if is_last else end, is_last=is_last))

    def find_seq(self, call: Call, operation: FindSeq) -> None:
        node = self._node
        with node.kernel.operation(call.now):
            queue = find_target(node, operation.name, outgoing=operation.outgoing)
            node.access.check(call.caller, queue, QueueAccess.MQSEC_PEEK_MESSAGE)
            seq = self._last_before(queue, operation.time)
            node.kernel.await_everything()
            node.kernel.reply(call.request, SeqAt(seq))

    def _last_before(self, queue: Queue, time: float) -> int:
        """The number before the first message since a time: numbers and times grow together, except for moved messages.

        0 if no message arrived before that time.
        """
        arrivals = _seen(queue, self._uncommitted(queue), skips_locked=False)
        earlier, others = 0, arrivals.count(0, SEQUENCE_MASK)
        while earlier < others:
            middle = (earlier + others) // 2
            seq = arrivals.nth(0, SEQUENCE_MASK, middle + 1)
            (lookup_id,) = arrivals.take(seq - 1, seq, 1)
            message = self._node.manager.positions.find(queue, lookup_id)
            if message is None:
                # The message is damaged, and no longer in the queue.
                arrivals = _seen(queue, self._uncommitted(queue), skips_locked=False)
                others -= 1
            elif message.arrival_time < time:
                earlier = middle + 1
            else:
                others = middle
        return arrivals.nth(0, SEQUENCE_MASK, earlier)

    def remove(self, call: Call, operation: RemoveRange) -> None:
        """Receive the Available messages of the range, without those that were moved there after the plan."""
        node, after, up_to = self._node, operation.after, operation.up_to
        node.kernel.check_store()
        with node.kernel.operation(call.now):
            queue = find_target(node, operation.name, operation.epoch, outgoing=operation.outgoing)
            node.access.check(call.caller, queue, QueueAccess.MQSEC_RECEIVE_MESSAGE)
            if queue.deniers:
                raise SharingViolation(f"a reader has {queue} open exclusively; close the queue in that reader first")
            uncommitted = self._uncommitted(queue)
            free = _seen(queue, uncommitted, skips_locked=True)
            lookup_ids = free.take(after, up_to, min(operation.max_messages, MAX_BULK_REMOVED))
            is_all = free.count(after, up_to) == len(lookup_ids)
            end = 0 if operation.as_of is UNSET else up_to if is_all else lookup_ids[-1] & SEQUENCE_MASK
            messages, first_moved = _planned_before(operation, node.manager.positions.find_all(queue, lookup_ids))
            if messages:
                node.manager.positions.received_all(queue, messages)
            left = _seen(queue, uncommitted, skips_locked=False).count(after, up_to)
            node.kernel.await_everything()
            node.kernel.reply(call.request, Removed(len(messages), left, first_moved, end))

    def _shown(self, name: FormatName, queue: Queue, now: Now) -> BulkQueue:
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
        held_by, behind = self._held_back(queue, stable, seen, now)
        info = queue_info(queue, name, NULL_GUID)
        return BulkQueue(
            format_name=info.format_name,
            path=info.path,
            kind=info.kind,
            transactional=info.transactional,
            epoch=guid_text(epoch_of(queue)),
            count=info.message_count,
            bytes=info.bytes,
            first=arrivals.first,
            last=arrivals.last,
            stable=stable,
            committed=self._end_before(_first(uncommitted)),
            oldest=0 if oldest is None else oldest.arrival_time,
            held=held,
            held_s=self._held_for(queue, stable + 1 if held else 0, now),
            held_by=held_by,
            behind=behind,
            staged=self._node.stages.staged_for[queue.number],
            arriving=self._node.stages.delivery.bound_for(queue),
        )

    def _held_back(self, queue: Queue, end: int, seen: Arrivals, now: Now) -> tuple[str, int]:
        """The holder of the message that ends a read, and the number of visible messages behind it, if any."""
        behind = seen.count(end, SEQUENCE_MASK) if queue.positions.held else 0
        held = Arrivals(queue.positions).take(end, end + 1, 1) if behind else []
        return (_holder_of(self._node, queue, held[0], now), behind) if held else ("", 0)

    def _held_for(self, queue: Queue, blocking: int, now: Now) -> float:
        """Seconds since the message with this number was first seen to hold others back; 0 without one."""
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
        """Messages of unfinished transactions. Most queues hold none, and need no look at transactions."""
        return self._node.manager.transactions.sends_to(queue) if queue.positions.held else ()

    def _stable(self, queue: Queue, uncommitted: Sequence[range], *, skips_locked: bool) -> int:
        """The last number that a plan without an end may contain."""
        return self._end_before(_first(uncommitted) if skips_locked else queue.positions.first_held)

    def _end_before(self, first: int) -> int:
        """The number before that of the first held message; without one, the last number given."""
        return first - 1 if first else self._node.manager.positions.sequential_id


def find_queue(node: Node, name: FormatName) -> Queue:
    """The queue of this computer, or the outgoing queue. Raises QueueNotFound."""
    queue = node.manager.find_queue(name) or node.manager.collection.outgoing.get(name)
    if queue is None or queue.is_internal:
        raise QueueNotFound(f"{name} is not a queue of this computer")
    return queue


def find_target(node: Node, name: str, epoch: str = "", *, outgoing: bool = False) -> Queue:
    """The queue, or the outgoing queue. `epoch` is the epoch that it must have, or "" for any.

    Raises QueueNotFound, and QueueDeleted if another queue has the name now.
    """
    wanted, due = _name(node, name), _parsed_epoch(epoch)
    queue = find_queue(node, wanted)
    if queue.is_provisional:
        raise QueueNotFound(f"{wanted} is not a queue of this computer")
    if outgoing and not isinstance(queue, OutgoingQueue):
        raise QueueNotFound(f"{wanted} is not an outgoing queue of this computer")
    if due and due != epoch_of(queue):
        raise QueueDeleted(
            f"{wanted} was deleted and created again, so the positions of the old queue are invalid; start again at "
            "the first message, without the old epoch"
        )
    return queue


def matching(manager: QueueManager, operation: ListBulkQueues) -> list[FormatName]:
    """The queues of one kind with short names that match the pattern."""
    computer = manager.identity.computer_name
    kinds, pattern = _KINDS.get(operation.kind, frozenset({operation.kind})), operation.pattern.lower()
    return [
        name
        for name, queue in _names(manager, computer)
        if kind_of(queue) in kinds
        and not queue.is_provisional
        and not queue.is_internal
        and (not pattern or fnmatchcase(short_name(name, computer).lower(), pattern))
    ]


def _names(manager: QueueManager, computer: str) -> Iterator[tuple[FormatName, Queue]]:
    """Every readable queue of this computer, with its most specific name."""
    for queue in sorted(manager.queues.values(), key=lambda queue: str(queue).lower()):
        if queue.queue_type is QueueKind.SYSTEM:
            continue
        where = Protocol.OS, computer, queue.pathname.kind, queue.pathname.queue
        yield DirectFormatName(*where), queue
        if queue.journal is not None:
            yield DirectFormatName(*where, suffix=Suffix.JOURNAL), queue.journal
        for subqueue in queue.subqueues.values():
            yield DirectFormatName(*where, subqueue.pathname.subqueue), subqueue
    for suffix, queue in manager.system_queues.items():
        yield DirectFormatName(Protocol.OS, computer, QueueKind.SYSTEM, "", suffix=suffix), queue
    for name in sorted(manager.collection.outgoing, key=str):
        yield name, manager.collection.outgoing[name]


def _name(node: Node, text: str) -> FormatName:
    return format_name(text, node.manager.identity.computer_name)


def _parsed_epoch(text: str) -> bytes:
    """The bytes of an epoch; b"" without one."""
    try:
        return parse_guid(text) if text else b""
    except DecodeError:
        raise InvalidParameter("`epoch` must be empty, or the `epoch` of an earlier answer") from None


@dataclass(frozen=True, slots=True)
class Found:
    """The first of some messages, as rows. `are_all`: none of the others is readable."""

    lookup_ids: list[int]
    attributes: bytes
    packets: list[bytes]
    are_all: bool

    def frame(self, queue: Queue, end: int, *, is_last: bool) -> Frame:
        columns = self.lookup_ids, self.attributes, self.packets
        return Frame.of(columns, end=end, epoch=epoch_of(queue), is_last=is_last)


def rows_of(node: Node, queue: Queue, lookup_ids: Sequence[int], max_bytes: int) -> Found:
    """Rows of the first of these messages: up to max_bytes of packets, or one. Damaged messages are left out."""
    max_bytes = min(max_bytes, MAX_HTTP_ANSWER)
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
            # One of the records does not decode: a look at each sets that one aside.
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


def _planned_before(operation: RemoveRange, messages: list[Message]) -> tuple[list[Message], int]:
    """The messages without those that were moved to the queue after the plan; and the first number of these, or 0."""
    as_of = operation.as_of
    if as_of is UNSET or all(message.last_move_time < as_of for message in messages):
        return messages, 0
    fresh = frozenset(operation.fresh)
    going, staying = [], []
    for message in messages:
        number, moved = message.lookup_identifier & SEQUENCE_MASK, message.last_move_time
        if moved < as_of or (moved == as_of and number in fresh):
            going.append(message)
        else:
            staying.append(number)
    return going, min(staying, default=0)


def _first(spans: Sequence[range]) -> int:
    """The smallest SequentialID in spans of LookupIdentifiers, 0 if there are none."""
    return min([span.start & SEQUENCE_MASK for span in spans], default=0)


def _expected(queue: Queue, wanted: ReadRange) -> int:
    """Number of messages to look at for a frame: not many more than it has room for."""
    limit = min(wanted.max_messages, MAX_FRAME_MESSAGES)
    if not queue.total_bytes:
        return limit
    return min(limit, wanted.max_bytes * len(queue.positions) // queue.total_bytes * 5 // 4 + _SOME)


def _gone(wanted: RangeOfQueue) -> PlannedRange:
    return PlannedRange(epoch=wanted.epoch, bounds=[wanted.after], counts=[], is_gone=True)


def _holder_of(node: Node, queue: Queue, lookup_id: int, now: Now) -> str:
    """The stage, the claim, the transaction or the reader that holds a message which is not Available."""
    found = node.manager.transactions.operation_on(queue, lookup_id)
    if found is None:
        return "a reader that has locked a message"
    transaction, operation = found
    staged = node.stages.key_of(transaction.identifier)
    if staged is not None:
        return f"uncommitted messages that are staged for {staged}"
    holder = node.claims.holder(transaction.identifier, now)
    if holder is not None:
        return f"the claim {holder[0]}"
    has_sent = operation.operation_type is OperationType.ENQUEUE
    return f"the transaction {guid_text(transaction.identifier)}, which has {'sent' if has_sent else 'taken'} a message"
