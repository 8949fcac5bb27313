"""The queues that are open for readers of qm2qm: MS-MQQP 3.1.1 and MS-MQMP 3.1.1.7.

A user opens a queue with qmcomm and gets a number, which is named in the calls of qm2qm over another connection: by the
user, or by a supporting server that reads for the user under its machine account. So the number is random, and every
account that opens a session with it (RemoteQMOpenQueue) may read with the rights that the user had when it opened the
queue (MS-MQQP 5). Other calls of qm2qm are for the user and for accounts with such a session. A user without a name is
known by its address, and nobody else reads for it. For everybody else the number does not exist, and an address that
guesses has to wait.

rOpenQueueEntryCollection and rRemoteReadEntryCollection are kept with the descriptor that their entries belong to.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from waypost.buckets import Buckets, Rate
from waypost.clock import Now
from waypost.core.cursors import Cursor
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OpenQueueDescriptor, RemoteReadState
from waypost.hresult import HResult
from waypost.peers import peer_of
from waypost.rpc.authentication import Caller
from waypost.rpc.server_calls import Call

# Numbers that do not exist, for each address: with 32 bits, guessing one takes years.
GUESSES: Final = Rate(10 / 60, 10)

CANCELED: Final = HResult.MQ_INFORMATION_REMOTE_CANCELED_BY_CLIENT


@dataclass(slots=True, eq=False)
class OpenedQueue:
    """An OpenQueueDescriptor with what refers to it. `reads` are those that wait, by their RequestId."""

    descriptor: OpenQueueDescriptor
    number: int
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
    reader: Caller


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
    """The numbers that qmcomm gave out, for both interfaces."""

    __slots__ = ("_by_number", "_guesses", "_manager", "_new_guid")

    def __init__(self, manager: QueueManager, new_guid: Callable[[], bytes]) -> None:
        self._manager: Final = manager
        self._new_guid: Final = new_guid
        self._by_number: dict[int, OpenedQueue] = {}
        self._guesses: Final = Buckets(GUESSES)

    @property
    def given_out(self) -> int:
        """Number of messages locked for callers that have not ended their reads."""
        return sum(len(remote.descriptor.two_phase_reads) for remote in self._by_number.values())

    def add(self, descriptor: OpenQueueDescriptor, call: Call) -> OpenedQueue:
        descriptor.advance_remote_read()
        remote = OpenedQueue(descriptor, self._new_number(), call.caller)
        self._by_number[remote.number] = remote
        return remote

    def find(self, number: int, call: Call) -> OpenedQueue | None:
        """The queue that the caller has opened under this number, or has a session with."""
        remote = self._by_number.get(number)
        if remote is None:
            return None
        readers = (remote.owner, *(entry.reader for entry in remote.entries))
        return remote if any(_is_same(reader, call.caller) for reader in readers) else None

    def find_by_number(self, number: int, call: Call, now: Now) -> OpenedQueue | None:
        """The queue with this number, which only its user and those that the user has given it to can know."""
        remote = self._by_number.get(number)
        if remote is not None and _is_same(remote.owner, call.caller):
            return remote
        # A number that was seen on an unprotected line is worth nothing without a login.
        if call.caller.name is None or (remote is not None and remote.owner.name is None):
            return None
        peer = peer_of(call.caller.address)
        if not self._guesses.has_some(peer, now.monotonic):
            return None
        if remote is None:
            self._guesses.take(peer, now.monotonic)
        return remote

    def _new_number(self) -> int:
        """A random number that is not 0."""
        while True:
            number = int.from_bytes(self._new_guid()[:4], "little")
            if number and number not in self._by_number:
                return number

    def find_ready(self, number: int, call: Call) -> OpenedQueue | None:
        """The same for a queue that has an OpenQueueEntry."""
        remote = self.find(number, call)
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
        self._by_number.pop(remote.number, None)


def _is_same(one: Caller, other: Caller) -> bool:
    if one.name is None and other.name is None:
        return one.address == other.address
    return one.name == other.name
