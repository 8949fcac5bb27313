"""What a queue is to the ledger of a networked simulation."""

from typing import Final

from waypost.core.queues import OutgoingQueue, Queue

OUTGOING: Final = "outgoing"


def role_of(queue: Queue | None) -> str:
    """The key of an application's queue, or one of the others."""
    if queue is None:
        return ""
    if isinstance(queue, OutgoingQueue):
        return OUTGOING
    return f"{queue.pathname.queue};journal" if queue.is_journal else queue.pathname.queue
