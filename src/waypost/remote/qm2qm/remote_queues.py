"""The queues that are open for readers of qm2qm: MS-MQQP 3.1.1 and MS-MQMP 3.1.1.7.

A reader opens a queue with qmcomm and gets the Handle of an OpenQueueDescriptor, which it names in the calls of qm2qm,
over another connection. Such a number is easily guessed, so it is good only for the caller who got it: an account, or
an address for callers without one. For everybody else the handle does not exist.

rOpenQueueEntryCollection and rRemoteReadEntryCollection are kept with the descriptor that their entries belong to.
"""

from dataclasses import dataclass, field
from typing import Final

from waypost.core.cursors import Cursor
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OpenQueueDescriptor, RemoteReadState
from waypost.hresult import HResult
from waypost.rpc.authentication import Caller
from waypost.rpc.server_calls import Call

CANCELED: Final = HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT


@dataclass(slots=True, eq=False)
class OpenedQueue:
    """An OpenQueueDescriptor with what refers to it. `reads` are those that wait, by their RequestId."""

    descriptor: OpenQueueDescriptor
    owner: Caller
    entries: "set[OpenQueueEntry]" = field(default_factory=set)
    reads: "dict[int, RemoteReadEntry]" = field(default_factory=dict)

    def cursor(self, handle: int) -> Cursor | None:
        """A cursor of this very descriptor."""
        return self.descriptor.cursors.get(handle)


@dataclass(frozen=True, slots=True, eq=False)
class OpenQueueEntry:
    """MS-MQQP 3.1.1.4: what a PCTX_RRSESSION_HANDLE_TYPE stands for."""

    remote: OpenedQueue
    client_id: bytes


@dataclass(slots=True, eq=False)
class RemoteReadEntry:
    """MS-MQQP 3.1.1.2: what a PCTX_REMOTEREAD_HANDLE_TYPE stands for, once there is a message.

    The message is known by its LookupIdentifier (readings MQQP 3.11).
    """

    remote: OpenedQueue
    timeout: int
    action: int
    request_id: int
    lookup_id: int = 0


class RemoteQueues:
    """The handles that qmcomm gave out, for both interfaces."""

    __slots__ = ("_by_handle", "_manager")

    def __init__(self, manager: QueueManager) -> None:
        self._manager: Final = manager
        self._by_handle: dict[int, OpenedQueue] = {}

    @property
    def given_out(self) -> int:
        """Number of messages locked for callers that have not ended their reads."""
        return sum(len(remote.descriptor.two_phase_reads) for remote in self._by_handle.values())

    def add(self, descriptor: OpenQueueDescriptor, call: Call) -> OpenedQueue:
        descriptor.advance_remote_read()
        remote = OpenedQueue(descriptor, call.caller)
        self._by_handle[descriptor.handle] = remote
        return remote

    def find(self, handle: int, call: Call) -> OpenedQueue | None:
        """The queue that the caller has opened under this handle."""
        remote = self._by_handle.get(handle)
        return remote if remote is not None and _is_same(remote.owner, call.caller) else None

    def find_ready(self, handle: int, call: Call) -> OpenedQueue | None:
        """The same for a queue that has an OpenQueueEntry."""
        remote = self.find(handle, call)
        return remote if remote is not None and remote.entries else None

    def enter(self, entry: OpenQueueEntry) -> None:
        """MS-MQQP 3.1.4.3. The queue no longer closes with its qmcomm context (readings MQQP 6)."""
        remote = entry.remote
        if remote.descriptor.remote_read_state is RemoteReadState.OPENED:
            remote.descriptor.advance_remote_read()
        remote.entries.add(entry)

    def cancel(self, read: RemoteReadEntry) -> HResult:
        """MS-MQQP 3.1.4.6, of a read that is pending. readings MQQP 3.9: the tag is that of one descriptor."""
        del read.remote.reads[read.request_id]
        reading = self._manager.reading
        return reading.cancel_waiting_message_read_request(read.remote.descriptor, read.request_id, CANCELED)

    def close(self, entry: OpenQueueEntry) -> None:
        """MS-MQQP 3.1.4.4. readings MQQP 3.23: other entries for the same handle lose their queue with it."""
        entry.remote.entries.discard(entry)
        for read in tuple(entry.remote.reads.values()):
            self.cancel(read)
        self._close(entry.remote)

    def close_unread(self, remote: OpenedQueue) -> None:
        """MS-MQMP 3.1.4.3: a queue that nobody has begun to read closes with its qmcomm context."""
        if remote.descriptor.remote_read_state is RemoteReadState.OPENED:
            self._close(remote)

    def _close(self, remote: OpenedQueue) -> None:
        """Close Queue. Locked messages are free again: an end of their reads fails from now on."""
        self._manager.close_queue(remote.descriptor)
        self._by_handle.pop(remote.descriptor.handle, None)


def _is_same(one: Caller, other: Caller) -> bool:
    if one.name is None and other.name is None:
        return one.address == other.address
    return one.name == other.name
