"""The epoch of a queue, by which a reader recognizes the queue that it read before."""

from hashlib import blake2b

from waypost.core.queues import Queue
from waypost.guid import NULL_GUID


def epoch_of(queue: Queue) -> bytes:
    """16 unique bytes of this queue, also among queues with the same name: the identifier, unless it is NULL."""
    return epoch_from(queue.number, queue.identifier, queue.create_time)


def epoch_from(number: int, identifier: bytes, create_time: int) -> bytes:
    """The same from the facts of a queue."""
    if identifier != NULL_GUID:
        return identifier
    return blake2b(b"%d,%d" % (number, create_time), digest_size=len(NULL_GUID)).digest()
