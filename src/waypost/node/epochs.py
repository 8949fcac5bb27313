"""The epoch of a queue, by which a reader recognizes the queue that it read before."""

from hashlib import blake2b

from waypost.core.queues import Queue
from waypost.guid import NULL_GUID


def epoch_of(queue: Queue) -> bytes:
    """16 unique bytes of this queue, also among queues with the same name: the identifier, unless it is NULL."""
    if queue.identifier != NULL_GUID:
        return queue.identifier
    return blake2b(b"%d,%d" % (queue.number, queue.create_time), digest_size=len(NULL_GUID)).digest()
