"""The QueueInfo of a queue."""

from datetime import UTC, datetime
from typing import Any

from waypost.api.properties import QueueInfo
from waypost.api.queue_attributes import shown
from waypost.api.queues import ConnectionInfo
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import NoPath, OutgoingQueue, Queue
from waypost.errors import QueueNotFound
from waypost.wire.format_names import FormatName, PrivateFormatName
from waypost.wire.management import ConnectionEvent
from waypost.wire.path_names import QueueKind


def queue_named(manager: QueueManager, name: FormatName) -> Queue:
    """A queue of this computer, or an outgoing one. Raises QueueNotFound."""
    queue = manager.find_queue(name) or manager.collection.outgoing.get(name)
    if queue is None or queue.is_provisional:
        raise QueueNotFound(f"{name} is not a queue of this computer")
    return queue


def queue_info(
    queue: Queue,
    name: FormatName,
    queue_manager: bytes,
    *,
    damaged_count: int = 0,
    oldest_arrival: float | None = None,
    owner: str = "",
) -> QueueInfo:
    journal, number = queue.journal, queue.private_queue_number
    properties: dict[str, Any] = shown(queue.attributes)
    return QueueInfo(
        path=f"{queue.pathname};journal" if queue.is_journal else str(queue.pathname),
        format_name=str(name),
        private_format_name=str(PrivateFormatName(queue_manager, number)) if number else None,
        kind=kind_of(queue),
        transactional=queue.attributes.transactional,
        message_count=len(queue.positions),
        bytes=queue.total_bytes,
        journal_count=0 if journal is None else len(journal.positions),
        journal_bytes=0 if journal is None else journal.total_bytes,
        subqueues=tuple(sorted(each.pathname.subqueue for each in queue.subqueues.values() if not each.is_provisional)),
        created=datetime.fromtimestamp(queue.create_time, UTC),
        modified=datetime.fromtimestamp(queue.modify_time, UTC),
        **(_outgoing(queue) if isinstance(queue, OutgoingQueue) else {}),
        damaged_count=damaged_count,
        oldest_time=None if oldest_arrival is None else datetime.fromtimestamp(oldest_arrival, UTC),
        owner=owner,
        **properties,
    )


def _outgoing(queue: OutgoingQueue) -> dict[str, Any]:
    return {
        "state": queue.state.name.lower(),
        "next_hops": queue.next_hops,
        "unacknowledged": queue.outgoing_transfer_info.no_ack_count,
        "unread": queue.outgoing_transfer_info.no_read_count,
        # A queue manager inside a program transfers nothing and has no links.
        "last_error": "" if queue.link is None else queue.link.last_error,
        "connections": tuple(map(_connection, queue.connection_history)),
    }


def _connection(event: ConnectionEvent) -> ConnectionInfo:
    return ConnectionInfo(
        status=event.status.name.lower(),
        time=datetime.fromtimestamp(event.time, UTC),
        error=f"{event.error & 0xFFFF_FFFF:#010x}",
        addresses=event.addresses,
    )


def kind_of(queue: Queue) -> str:
    """The `kind` of a QueueInfo."""
    if isinstance(queue, OutgoingQueue):
        return "outgoing"
    if queue.parent is not None:
        return "journal" if queue.is_journal else "subqueue"
    kind = queue.queue_type
    return "private" if isinstance(kind, NoPath) else QueueKind(kind).value
