"""The bulk interface on a node: what the daemon and a reader of a folder share."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from msgspec import UNSET

from waypost.api.names import short_name
from waypost.client.bulk.frame import frame_bytes, header
from waypost.client.bulk.schema import BulkQueue, PlannedRange, PlanRange, ReadRange
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.errors import DecodeError, InvalidParameter
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.node.bulk import Plan, QueueState, Range, Rows, Target
from waypost.node.queue_info import kind_of, queue_info
from waypost.wire.format_names import DirectFormatName, FormatName, Protocol, Suffix
from waypost.wire.path_names import QueueKind

# What the kinds of a query mean, by the kinds of QueueInfo.
_KINDS: Final = {
    "": frozenset({"private", "public"}),
    "local": frozenset({"private", "public"}),
    "all": frozenset({"private", "public", "journal", "subqueue", "system", "outgoing"}),
}


def parse_epoch(text: str) -> bytes:
    """b"" for none. Raises InvalidParameter."""
    try:
        return parse_guid(text) if text else b""
    except DecodeError:
        raise InvalidParameter("epoch is the GUID that an answer gave as the epoch of the queue, or nothing") from None


def matching(manager: QueueManager, pattern: str, kind: str) -> list[Target]:
    """The queues of a kind whose short names match the pattern."""
    computer = manager.identity.computer_name
    kinds = _KINDS.get(kind, frozenset({kind}))
    return [
        Target(name)
        for name, queue in _names(manager, computer)
        if kind_of(queue) in kinds and (not pattern or fnmatchcase(short_name(name, computer).lower(), pattern.lower()))
    ]


def range_to_plan(wanted: PlanRange) -> Range:
    return Range(
        wanted.after,
        None if wanted.up_to is UNSET else wanted.up_to,
        None if wanted.max_messages is UNSET else wanted.max_messages,
        None if wanted.max_bytes is UNSET else wanted.max_bytes,
        wanted.locked == "skip",
    )


def range_to_read(wanted: ReadRange) -> Range:
    return Range(wanted.after, wanted.up_to, wanted.max_messages, wanted.max_bytes, wanted.locked == "skip")


def bulk_queue(target: Target, state: QueueState) -> BulkQueue:
    info = queue_info(state.queue, target.name, NULL_GUID)
    return BulkQueue(
        format_name=info.format_name,
        path=info.path,
        kind=info.kind,
        transactional=info.transactional,
        epoch=guid_text(state.epoch),
        count=info.message_count,
        bytes=info.bytes,
        first=state.first,
        last=state.last,
        stable=state.stable,
        committed=state.committed,
        oldest=state.oldest,
        held=state.held,
        held_s=state.held_s,
        held_by=state.held_by,
        behind=state.behind,
    )


def planned_range(plan: Plan) -> PlannedRange:
    return PlannedRange(
        epoch=guid_text(plan.epoch),
        bounds=plan.bounds,
        counts=plan.counts,
        held_by=plan.held_by,
        behind=plan.behind,
    )


def frame_of(rows: Rows) -> bytes:
    start = header(len(rows.packets), rows.end, rows.epoch, is_last=rows.is_last)
    return frame_bytes(start, rows.lookup_ids, rows.attributes, rows.packets)


def _names(manager: QueueManager, computer: str) -> Iterator[tuple[FormatName, Queue]]:
    """Every queue that can be read here, by the name that tells the most."""
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
