"""Access checks for remote readers, and the queue that decides: MS-MQRR 3.1.4.2 and MS-MQMP 3.1.4.2."""

from dataclasses import replace
from typing import Final

from waypost.core.queues import AccessType, Queue, ShareMode
from waypost.errors import QueueNotFound
from waypost.remote.context import RemoteHost
from waypost.wire.format_names import DirectFormatName, FormatName, Suffix

# dwAccess and dwShareMode of 3.1.4.2. Others are refused (readings MQRR 3.14).
ACCESSES: Final = {0x01: AccessType.RECEIVE, 0x20: AccessType.PEEK}
SHARES: Final = {0: ShareMode.DENY_NONE, 1: ShareMode.DENY_RECEIVE}


def find_guard(host: RemoteHost, name: FormatName) -> Queue | None:
    """The queue that decides who may open this name; for a subqueue that is yet to be made, its parent."""
    find = host.manager.find_queue
    queue = find(name)
    if queue is None and isinstance(name, DirectFormatName) and name.subqueue:
        queue = find(replace(name, subqueue="", suffix=Suffix.NONE))
    return queue


def guard_of(host: RemoteHost, name: FormatName) -> Queue:
    """The same for a name that stands for something. Raises QueueNotFound."""
    queue = find_guard(host, name)
    if queue is None:
        raise QueueNotFound(f"{name} is not a queue of this computer")
    return queue
