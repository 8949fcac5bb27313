"""Cursors of remote readers: MS-MQRR 3.1.4.4 and MS-MQMP 3.1.4.4.

Neither protocol limits cursors. Memory does, and LimitReached says so: for one handle, for all handles of an address,
and for all addresses together, where an address with few cursors always gets one more.
"""

from dataclasses import dataclass, field
from typing import Final

from waypost.core.cursors import Cursor
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OpenQueueDescriptor
from waypost.errors import LimitReached
from waypost.limits import (
    FEW_REMOTE_CURSORS,
    MAX_REMOTE_CURSORS,
    MAX_REMOTE_CURSORS_OF_ALL,
    MAX_REMOTE_CURSORS_OF_PEER,
)
from waypost.peers import peer_of
from waypost.rpc.authentication import Caller

# Handles go over the wire as a DWORD.
MAX_HANDLE: Final = 0xFFFF_FFFF
# Handles, or addresses, that are remembered before it is looked for those that have no cursor any more.
_SOME: Final = 64


@dataclass(slots=True)
class _Held:
    """The cursors of an address. `count` is at least their number: nobody says when a handle was closed."""

    handles: dict[int, OpenQueueDescriptor] = field(default_factory=dict)
    count: int = 0
    most_handles: int = _SOME

    def recount(self) -> None:
        self.handles = {handle: each for handle, each in self.handles.items() if each.cursors}
        self.count = sum([len(each.cursors) for each in self.handles.values()])
        self.most_handles = 2 * len(self.handles) + _SOME


class RemoteCursors:
    """Those of all remote readers of one queue manager, over both protocols."""

    __slots__ = ("_by_peer", "_manager", "_most_peers")

    def __init__(self, manager: QueueManager) -> None:
        self._manager: Final = manager
        self._by_peer: dict[str, _Held] = {}
        self._most_peers = _SOME

    def open(self, descriptor: OpenQueueDescriptor, caller: Caller) -> Cursor | None:
        """A cursor that the remote reader can name, or None if the queue is gone. Raises LimitReached."""
        if len(descriptor.cursors) >= MAX_REMOTE_CURSORS:
            raise LimitReached(
                f"{descriptor.format_name} has reached the limit of {MAX_REMOTE_CURSORS} cursors per handle"
            )
        held = self._held_by(peer_of(caller.address))
        if held.count >= MAX_REMOTE_CURSORS_OF_PEER or len(held.handles) >= held.most_handles:
            held.recount()
        if held.count >= MAX_REMOTE_CURSORS_OF_PEER:
            raise LimitReached(
                f"readers at {caller.address} have reached the limit of {MAX_REMOTE_CURSORS_OF_PEER} cursors"
            )
        if held.count >= FEW_REMOTE_CURSORS and not self._has_room():
            raise LimitReached(
                f"all remote readers together have reached the limit of {MAX_REMOTE_CURSORS_OF_ALL} cursors"
            )
        cursor = self._manager.open_cursor(descriptor)
        if cursor is None:
            return None
        if cursor.handle > MAX_HANDLE:
            self._manager.close_cursor(descriptor, cursor)
            raise LimitReached("all handle numbers of remote readers are in use")
        held.handles[descriptor.handle] = descriptor
        held.count += 1
        return cursor

    def _held_by(self, peer: str) -> _Held:
        held = self._by_peer.get(peer)
        if held is None:
            if len(self._by_peer) >= self._most_peers:
                self._recount()
            held = self._by_peer[peer] = _Held()
        return held

    def _has_room(self) -> bool:
        """Whether all together may have one more."""
        if self._count() < MAX_REMOTE_CURSORS_OF_ALL:
            return True
        self._recount()
        return self._count() < MAX_REMOTE_CURSORS_OF_ALL

    def _count(self) -> int:
        return sum([held.count for held in self._by_peer.values()])

    def _recount(self) -> None:
        for held in self._by_peer.values():
            held.recount()
        self._by_peer = {peer: held for peer, held in self._by_peer.items() if held.count}
        self._most_peers = 2 * len(self._by_peer) + _SOME
