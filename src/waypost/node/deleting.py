"""Delete a queue."""

from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.errors import WaypostError
from waypost.limits import PURGE_PART
from waypost.node.node import Node
from waypost.wire.message_class import MessageClass


def delete_queue(node: Node, queue: Queue, request: int, now: Now) -> None:
    """Remove its messages first, while other work goes on, and then the queue, with the few that came meanwhile."""
    node.kernel.check_store()

    def purge() -> None:
        for part in (*queue.subqueues.values(), queue.journal, queue):
            if part is not None:
                begun = node.manager.writing.begin_purge(part)
                begun.reason = MessageClass.MQMSG_CLASS_NACK_Q_DELETED
                node.purges.begin(begun, delete if part is queue else _nothing)

    def delete() -> None:
        if not queue.is_deleted and _free_messages(queue) > PURGE_PART:
            purge()
            return
        try:
            if not queue.is_deleted:
                node.manager.delete_queue(queue)
        except WaypostError as error:
            node.kernel.fail(request, error)
        else:
            node.kernel.reply(request)

    with node.kernel.operation(now):
        node.manager.check_deletable(queue)
        purge()


def _nothing() -> None:
    """Called when a part of a queue is empty."""


def _free_messages(queue: Queue) -> int:
    """Number of messages of a queue, its journal and its subqueues that nothing holds."""
    parts = (*queue.subqueues.values(), queue.journal, queue)
    return sum(len(part.positions) - len(part.positions.held) for part in parts if part is not None)
