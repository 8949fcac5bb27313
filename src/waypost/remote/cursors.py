"""Cursors of remote readers: MS-MQRR 3.1.4.4 and MS-MQMP 3.1.4.4.

Neither protocol limits the cursors of a handle. Memory does, and LimitReached says so.
"""

from typing import Final

from waypost.core.cursors import Cursor
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OpenQueueDescriptor
from waypost.errors import LimitReached
from waypost.limits import MAX_REMOTE_CURSORS

# Handles go over the wire as a DWORD.
MAX_HANDLE: Final = 0xFFFF_FFFF


def open_cursor(manager: QueueManager, descriptor: OpenQueueDescriptor) -> Cursor | None:
    """A cursor that a remote reader can name, or None if the queue is gone. Raises LimitReached."""
    if len(descriptor.cursors) >= MAX_REMOTE_CURSORS:
        raise LimitReached(f"{descriptor.format_name} has {MAX_REMOTE_CURSORS} cursors of one handle")
    cursor = manager.open_cursor(descriptor)
    if cursor is not None and cursor.handle > MAX_HANDLE:
        manager.close_cursor(descriptor, cursor)
        raise LimitReached("no handle is left that a remote reader could name")
    return cursor
