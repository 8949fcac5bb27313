"""Any MSMQ host as an origin, through MS-MQRR or MS-MQQP: for hosts without Waypost, with a round trip per message.

A host finds a message by the identifier of one that is in the queue, and not by a place in the order of arrival
(readings MQDMPR 3.C), so that planning and reading walk over the whole queue with a cursor. A host does not report
uncommitted and locked messages: a message that a transaction commits late, with a number before those that were read,
is missed. Journals, dead-letter queues and queues at rest are safe. A queue that was deleted and created again goes
unnoticed.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import accumulate, pairwise, takewhile
from typing import Final

import numpy as np
from msgspec import UNSET

from waypost.api.bulk import (
    BulkQueue,
    Claim,
    Claimed,
    PlannedRange,
    PlanRange,
    ReadClaim,
    ReadRange,
    RemoveRange,
)
from waypost.arrow.packets import ATTRIBUTES, Packets
from waypost.client.host import Host
from waypost.client.message import Message
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import InvalidParameter, MessageNotFound

_PAGE: Final = 500
_PAGE_BYTES: Final = 4 << 20
_FORMAT: Final = 1


class HostOrigin:
    """The Origin of an MSMQ host. Names of queues are those of `Host.queue`."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host

    def queues(self, pattern: str) -> Sequence[BulkQueue]:
        raise InvalidParameter(f"an MSMQ host does not list its queues for {pattern!r}; name each with `queue`")

    def queue(self, name: str) -> BulkQueue:
        messages = [(_seq(each), each.size, each.arrived_time, each.transactional) for each in self._messages(name)]
        last = max((seq for seq, *_ in messages), default=0)
        return BulkQueue(
            format_name=self._host.queue(name).format_name,
            path=name,
            kind="remote",
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

    def plan(self, wanted: PlanRange) -> PlannedRange:
        after, end = wanted.after, SEQUENCE_MASK if wanted.up_to is UNSET else wanted.up_to
        found = sorted((_seq(message), message.size) for message in self._messages(wanted.name, after, end))
        if wanted.max_messages is not UNSET:
            found = found[: wanted.max_messages]
        if wanted.max_bytes is not UNSET:
            sizes = accumulate(size for _, size in found)
            found = found[: max(len(list(takewhile(wanted.max_bytes.__ge__, sizes))), 1)]
        parts = min(wanted.parts, len(found))
        ranks = [len(found) * part // parts for part in range(parts + 1)] if parts else [0]
        bounds = [after, *(found[rank - 1][0] for rank in ranks[1:])]
        return PlannedRange(epoch="", bounds=bounds, counts=[stop - start for start, stop in pairwise(ranks)])

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

    def remove(self, wanted: RemoveRange) -> int:
        count = 0
        queue = self._host.queue(wanted.name)
        going = self._messages(wanted.name, wanted.after, wanted.up_to)
        for lookup_id in [message.lookup_id for message in going]:
            # A message that another reader has received meanwhile is gone as well.
            with suppress(MessageNotFound):
                queue.receive(0, lookup_id=lookup_id)
                count += 1
        return count

    def claim(self, wish: Claim) -> Claimed:
        raise _no_claims()

    def settle(self, name: str, claim: str, after: int, *, epoch: str) -> None:
        raise _no_claims()

    def read_claim(self, wanted: ReadClaim) -> Iterator[Packets]:
        raise _no_claims()

    def close(self) -> None:
        self._host.close()

    def _messages(self, name: str, after: int = 0, up_to: int = SEQUENCE_MASK) -> Iterator[Message]:
        """Messages of a range, by priority and then in the order of arrival."""
        return (message for message in self._host.queue(name).browse() if after < _seq(message) <= up_to)


def _packets(name: str, messages: Sequence[Message]) -> Packets:
    packets = Packets.of([message.packet for message in messages])
    attributes = np.zeros(len(messages), ATTRIBUTES)
    attributes["format"] = _FORMAT
    attributes["arrival_time"] = [int(message.arrived_time.timestamp()) for message in messages]
    attributes["abort_count"] = [message.abort_count for message in messages]
    attributes["move_count"] = [message.move_count for message in messages]
    lookup_ids = np.array([message.lookup_id for message in messages], np.uint64)
    return Packets(packets.data, packets.offsets, name, lookup_ids, attributes)


def _seq(message: Message) -> int:
    return message.lookup_id & SEQUENCE_MASK


def _no_claims() -> InvalidParameter:
    return InvalidParameter("an MSMQ host does not support the mode claim; read it in the mode peek or drain")
