"""Access checks for remote readers, and the queue that decides: MS-MQRR 3.1.4.2 and MS-MQMP 3.1.4.2."""

from dataclasses import replace
from typing import Final

from waypost.core.queues import AccessType, Queue, ShareMode
from waypost.errors import AccessDenied, QueueNotFound
from waypost.remote.context import RemoteHost
from waypost.rpc.authentication import Caller
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


def check_access(host: RemoteHost, caller: Caller, name: FormatName, access: AccessType) -> None:
    """Whether the caller may open what the name stands for. Raises QueueNotFound and AccessDenied."""
    guard = find_guard(host, name)
    if guard is None:
        raise QueueNotFound(f"{name} is not a queue of this computer")
    if not host.may(caller, guard, access):
        host.refused(caller, guard, access)
        raise AccessDenied(f"this caller does not have the right to read {guard}")
