"""The epoch of a queue, by which a reader knows that it is the one that was read before."""

from hashlib import blake2b

from waypost.core.queues import Queue
from waypost.guid import NULL_GUID


def epoch_of(queue: Queue) -> bytes:
    """16 bytes that no other queue has, also none with the same name: the identifier, unless it is NULL."""
    if queue.identifier != NULL_GUID:
        return queue.identifier
    return blake2b(b"%d,%d" % (queue.number, queue.create_time), digest_size=len(NULL_GUID)).digest()
