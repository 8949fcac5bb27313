"""Metrics of single queues for Prometheus, as text, built part by part (waypost.http.slices).

This module writes the text itself: a registry would build it in one turn of the loop, which is long with a thousand
queues.

To add one: its name and help in _LOCAL or _OUTGOING, and its value in the function that adds their numbers.
"""

import time
from collections.abc import Sequence
from typing import Final

from waypost.api.names import short_name
from waypost.core.queues import OutgoingQueue, OutgoingQueueState, Queue
from waypost.http.service import Service
from waypost.http.slices import slices
from waypost.node.following import oldest_arrival
from waypost.wire.format_names import DirectFormatName, FormatName, Protocol
from waypost.wire.path_names import QueueKind

_LOCAL: Final = {
    "waypost_queue_messages": "Number of messages in the queue.",
    "waypost_queue_bytes": "Total size of the messages in the queue.",
    "waypost_queue_journal_messages": "Number of messages in the journal of the queue.",
    "waypost_queue_journal_bytes": "Total size of the messages in the journal of the queue.",
    "waypost_queue_oldest_message_age_seconds": "Age of the oldest message in the queue, or 0 if the queue is empty.",
    "waypost_queue_open_handles": "Number of open handles of the queue.",
}
_OUTGOING: Final = {
    "waypost_outgoing_messages": "Number of messages that wait to be sent or acknowledged.",
    "waypost_outgoing_bytes": "Total size of the messages in the outgoing queue.",
    "waypost_outgoing_oldest_message_age_seconds": (
        "Age of the oldest message in the outgoing queue, or 0 if the queue is empty."
    ),
    "waypost_outgoing_unacknowledged": (
        "Number of transactional messages that were sent, but have not been acknowledged yet."
    ),
    "waypost_outgoing_unread": (
        "Number of transactional messages that have arrived at the destination, but have not been received yet."
    ),
    "waypost_outgoing_state": (
        "1 if the outgoing queue is in the state that is shown by the label `state`, otherwise 0."
    ),
}

# The lines of each name.
_Lines = dict[str, list[str]]


async def queue_text(service: Service, local: Sequence[Queue], outgoing: Sequence[OutgoingQueue]) -> bytes:
    """The metrics of these queues as text. Queues deleted meanwhile are left out."""
    lines: _Lines = {name: [] for name in (*_LOCAL, *_OUTGOING)}
    async for queues in slices((*local, *outgoing)):
        now = time.time()
        for queue in queues:
            if queue.is_deleted:
                continue
            if isinstance(queue, OutgoingQueue):
                _add_outgoing(lines, service, queue, now)
            else:
                _add_local(lines, service, queue, now)
    text: list[str] = []
    for name, sentence in (_LOCAL | _OUTGOING).items():
        text += (f"# HELP {name} {sentence}\n", f"# TYPE {name} gauge\n", *lines[name])
    return "".join(text).encode()


def _add_local(lines: _Lines, service: Service, queue: Queue, now: float) -> None:
    label = f'queue="{_escaped(_name(service, queue))}"'
    _add(lines, "waypost_queue_messages", label, len(queue.positions))
    _add(lines, "waypost_queue_bytes", label, queue.total_bytes)
    _add(lines, "waypost_queue_oldest_message_age_seconds", label, _age(service, queue, now))
    _add(lines, "waypost_queue_open_handles", label, len(queue.descriptors))
    if queue.journal is not None:
        _add(lines, "waypost_queue_journal_messages", label, len(queue.journal.positions))
        _add(lines, "waypost_queue_journal_bytes", label, queue.journal.total_bytes)


def _add_outgoing(lines: _Lines, service: Service, queue: OutgoingQueue, now: float) -> None:
    label = f'queue="{_escaped(str(queue.destination_format_name))}"'
    _add(lines, "waypost_outgoing_messages", label, len(queue.positions))
    _add(lines, "waypost_outgoing_bytes", label, queue.total_bytes)
    _add(lines, "waypost_outgoing_oldest_message_age_seconds", label, _age(service, queue, now))
    _add(lines, "waypost_outgoing_unacknowledged", label, queue.outgoing_transfer_info.no_ack_count)
    _add(lines, "waypost_outgoing_unread", label, queue.outgoing_transfer_info.no_read_count)
    for each in OutgoingQueueState:
        _add(lines, "waypost_outgoing_state", f'{label},state="{each.name.lower()}"', int(queue.state is each))


def _add(lines: _Lines, name: str, labels: str, value: float) -> None:
    lines[name].append(f"{name}{{{labels}}} {float(value)}\n")


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _name(service: Service, queue: Queue) -> str:
    path = queue.pathname
    if path.kind is QueueKind.SYSTEM:
        name = FormatName.parse(f"DIRECT=OS:{path}")
    else:
        name = DirectFormatName(Protocol.OS, path.computer, path.kind, path.queue, path.subqueue)
    return short_name(name, service.manager.name)


def _age(service: Service, queue: Queue, now: float) -> float:
    arrival = oldest_arrival(service.node, queue)
    return 0.0 if arrival is None else max(now - arrival, 0.0)
