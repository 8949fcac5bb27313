"""Any MSMQ host as an origin, through MS-MQRR or MS-MQQP: for hosts without Waypost, with a round trip per message.

A host finds a message by the identifier of one that is in the queue, and not by a place in the order of arrival
(readings MQDMPR 3.C), so that planning and reading walk over the whole queue with a cursor. A host does not report
uncommitted and locked messages: a message that a transaction commits late, with a number before those that were read,
is missed. Journals, dead-letter queues and queues without traffic are safe. The origin does not notice
that a queue was deleted and created again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import accumulate, takewhile
from typing import Final

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from waypost.api.bulk import (
    Batches,
    BulkQueue,
    PlanLimits,
    PlannedRange,
    PlanRanges,
    RangeOfQueue,
    ReadRange,
    Removed,
    RemoveRange,
    Rest,
)
from waypost.api.claims import Claim, Claimed, KeepClaim, ReadClaim, TakeClaim, Taken
from waypost.arrow.packets import ATTRIBUTES, Packets
from waypost.client.host import Host
from waypost.client.message import Message, last_move_second
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import InvalidParameter, MessageNotFound

_PAGE: Final = 500
_PAGE_BYTES: Final = 4 << 20
_FORMAT: Final = 1
_KIND: Final = "remote"


class HostOrigin:
    """The Origin of an MSMQ host. Names of queues are those of `Host.queue`."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host

    def queues(self, pattern: str) -> Sequence[BulkQueue]:
        raise InvalidParameter(
            f"an MSMQ host does not list its queues, so the pattern {pattern!r} is not possible; use the option `queue`"
        )

    def queue(self, name: str) -> BulkQueue:
        messages = [(_seq(each), each.size, each.arrived_time, each.transactional) for each in self._messages(name)]
        last = max((seq for seq, *_ in messages), default=0)
        return BulkQueue(
            format_name=self._host.queue(name).format_name,
            path=name,
            kind=_KIND,
            transactional=any(transactional for *_, transactional in messages),
            epoch="",
            count=len(messages),
            bytes=sum(size for _, size, *_ in messages),
            first=min((seq for seq, *_ in messages), default=0),
            last=last,
            stable=last,
            committed=last,
            oldest=min((int(arrived.timestamp()) for _, _, arrived, _ in messages), default=0),
            held=0,
            held_s=0.0,
        )

    def plan(self, wanted: PlanRanges) -> list[PlannedRange]:
        """Plan one queue after the other: the first ones use up the limits."""
        messages, size = wanted.max_messages, wanted.max_bytes
        plans: list[PlannedRange] = []
        for each in wanted.ranges:
            plan = self._plan(each, replace(wanted, max_messages=messages, max_bytes=size), is_first=not plans)
            plans.append(plan)
            messages = messages if messages is UNSET else max(messages - sum(plan.counts), 0)
            size = size if size is UNSET else max(size - sum(plan.sizes), 0)
        return plans

    def _plan(self, wanted: RangeOfQueue, limits: PlanLimits, *, is_first: bool) -> PlannedRange:
        there = sorted(
            (_seq(each), each.size, last_move_second(each), int(each.arrived_time.timestamp()))
            for each in self._messages(wanted.name)
        )
        after = wanted.after if wanted.since is UNSET else _last_before(there, wanted.since)
        end = SEQUENCE_MASK if wanted.up_to is UNSET else wanted.up_to
        end = end if wanted.before is UNSET else _last_before(there, wanted.before)
        there = [each for each in there if each[0] > after]
        found = [(number, size) for number, size, *_ in there if number <= end]
        if limits.max_messages is not UNSET:
            found = found[: limits.max_messages]
        if limits.max_bytes is not UNSET:
            sizes = accumulate(size for _, size in found)
            found = found[: max(len(list(takewhile(limits.max_bytes.__ge__, sizes))), int(is_first))]
        parts = list(_divided(found, limits))
        rest = there[len(found) :]
        # The clock of the host is unknown, but later moves have the time of the last one, or a later time.
        as_of = max([1, *(moved for number, _, moved, _ in there if number <= end)]) if limits.marks_moves else 0
        return PlannedRange(
            name=self._host.queue(wanted.name).format_name,
            kind=_KIND,
            epoch="",
            bounds=[after, *(part[-1][0] for part in parts)],
            counts=list(map(len, parts)),
            sizes=[sum(size for _, size in part) for part in parts],
            oldest=there[0][3] if found else 0,
            rest=Rest(
                count=len(rest),
                bytes=sum(size for _, size, *_ in rest),
                last=rest[-1][0] if rest else 0,
                oldest=rest[0][3] if rest else 0,
            ),
            as_of=as_of,
            fresh=[number for number, _, moved, _ in there[: len(found)] if moved == as_of],
        )

    def seq_at(self, name: str, time: datetime) -> int:
        return max((_seq(message) for message in self._messages(name) if message.arrived_time < time), default=0)

    def read(self, wanted: ReadRange) -> Iterator[Packets]:
        name, size = wanted.name, 0
        page: list[Message] = []
        for message in self._messages(name, wanted.after, wanted.up_to):
            page.append(message)
            size += message.size
            if len(page) == _PAGE or size >= _PAGE_BYTES:
                yield _packets(name, page)
                page, size = [], 0
        if page:
            yield _packets(name, page)

    def remove(self, wanted: RemoveRange) -> Removed:
        count = 0
        queue = self._host.queue(wanted.name)
        there = [
            (each.lookup_id, last_move_second(each)) for each in self._messages(wanted.name, wanted.after, wanted.up_to)
        ]
        staying = [lookup_id & SEQUENCE_MASK for lookup_id, moved in there if _is_late(wanted, lookup_id, moved)]
        for lookup_id, moved in there:
            if _is_late(wanted, lookup_id, moved):
                continue
            # A message that another reader has received meanwhile is gone as well.
            with suppress(MessageNotFound):
                queue.receive(0, lookup_id=lookup_id)
                count += 1
        return Removed(count, len(staying), min(staying, default=0), wanted.up_to)

    def claim(self, wish: Claim) -> Claimed:
        raise _no_claims()

    def take_claim(self, wish: TakeClaim) -> Taken:
        raise _no_claims()

    def keep_claim(self, wish: KeepClaim) -> None:
        raise _no_claims()

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        raise _no_claims()

    def batches(self, query: str) -> Batches:
        return Batches([])

    def close(self) -> None:
        self._host.close()

    def _messages(self, name: str, after: int = 0, up_to: int = SEQUENCE_MASK) -> Iterator[Message]:
        """Messages of a range, by priority and then in the order of arrival."""
        return (message for message in self._host.queue(name).browse() if after < _seq(message) <= up_to)


def _divided(found: list[tuple[int, int]], limits: PlanLimits) -> Iterator[list[tuple[int, int]]]:
    """Numbers and sizes in parts of about the same count, and smaller ones if the limits of a part need them."""
    parts = max(min(limits.parts, len(found)), 1)
    edges = {len(found) * part // parts for part in range(1, parts)}
    part: list[tuple[int, int]] = []
    size = 0
    for at, each in enumerate(found):
        is_full = limits.part_bytes is not UNSET and size + each[1] > limits.part_bytes
        if part and (at in edges or is_full or len(part) == limits.part_messages):
            yield part
            part, size = [], 0
        part.append(each)
        size += each[1]
    if part:
        yield part


def _last_before(there: Sequence[tuple[int, int, int, int]], time: float) -> int:
    """The greatest number of a message that arrived before a time, 0 without one."""
    return max((number for number, _, _, arrived in there if arrived < time), default=0)


def _packets(name: str, messages: Sequence[Message]) -> Packets:
    packets = Packets.of([message.packet for message in messages])
    attributes = np.zeros(len(messages), ATTRIBUTES)
    attributes["format"] = _FORMAT
    attributes["arrival_time"] = [int(message.arrived_time.timestamp()) for message in messages]
    attributes["abort_count"] = [message.abort_count for message in messages]
    attributes["move_count"] = [message.move_count for message in messages]
    attributes["last_move_time"] = list(map(last_move_second, messages))
    lookup_ids = np.array([message.lookup_id for message in messages], np.uint64)
    return Packets(packets.data, packets.offsets, name, lookup_ids, attributes)


def _is_late(wanted: RemoveRange, lookup_id: int, moved: int) -> bool:
    """True if the message was moved to the queue after the plan."""
    if wanted.as_of is UNSET or moved < wanted.as_of:
        return False
    return moved > wanted.as_of or lookup_id & SEQUENCE_MASK not in wanted.fresh


def _seq(message: Message) -> int:
    return message.lookup_id & SEQUENCE_MASK


def _no_claims() -> InvalidParameter:
    return InvalidParameter("an MSMQ host does not support the mode `claim`; use the mode `peek` or `drain`")
