"""Open queues and pending requests of a client: MS-MQRR 3.1.1.2, 3.1.1.3, 3.1.2.2 and 3.1.5.1.

A queue context handle stands for a RemoteQueue. Its `pending` is the part of the PendingRequestTable that belongs to
it, so a request is found by the pair of handle and dwRequestId. An entry is made for every receive before it can wait,
and goes when the start call fails (readings MQRR 3.2, MQRR 3.3). Its Pending Request Cleanup Timer runs from the moment
when the message is given out (readings MQRR 3.4); when it fires, the message is for others again.
"""

from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Final

from waypost.clock import Now
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OpenQueueDescriptor, Queue
from waypost.hresult import HResult
from waypost.rpc.authentication import AuthLevel
from waypost.rpc.context_handles import ContextHandles
from waypost.rpc.server_calls import Call
from waypost.timers import Timers


class Ending(Flag):
    """The method that ends a receive: R_EndReceive, R_EndTransactionalReceive, or either of them."""

    PLAIN = auto()
    TRANSACTIONAL = auto()


@dataclass(slots=True, eq=False)
class RemoteQueue:
    """An OpenQueueDescriptor that a client opened, and its queue, whatever becomes of the two.

    `handles` are those of the client. A call on this one has at least `min_auth_level` (product note 19).
    `move_context` is 0 unless messages can be moved to the queue. `waits` are the calls that wait, by their request id.
    """

    descriptor: OpenQueueDescriptor
    queue: Queue
    handles: ContextHandles
    min_auth_level: AuthLevel
    move_context: int = 0
    pending: "dict[int, PendingRequestEntry]" = field(default_factory=dict)
    waits: dict[int, Call] = field(default_factory=dict)

    def is_in_use(self, request_id: int) -> bool:
        return request_id in self.pending or request_id in self.waits


@dataclass(slots=True, eq=False)
class PendingRequestEntry:
    """3.1.1.2. `lookup_identifier` is 0 until the message is given out.

    `transaction` is the registered one that has locked the message. Without one it is locked for this request alone,
    also if the client named a transaction that nobody knows (readings MQRR 3.15).
    """

    request_id: int
    queue_context_handle: RemoteQueue
    time_stamp: int
    transaction: bytes | None
    ending: Ending
    lookup_identifier: int = 0
    timer: int = 0


class PendingRequestTable:
    """The requests of all handles, and their timers."""

    __slots__ = ("_given_out", "_last_timer", "_manager", "_timeout_s", "_timers")

    def __init__(self, manager: QueueManager, timeout_s: float, timers: Timers) -> None:
        self._manager: Final = manager
        self._timeout_s: Final = timeout_s
        self._timers: Final = timers
        # By the numbers of their timers, which keep nothing else of an entry that is gone.
        self._given_out: Final[dict[int, PendingRequestEntry]] = {}
        self._last_timer = 0

    def __len__(self) -> int:
        """Number of messages that are given out."""
        return len(self._given_out)

    def add(self, entry: PendingRequestEntry) -> None:
        entry.queue_context_handle.pending[entry.request_id] = entry

    def remove(self, entry: PendingRequestEntry) -> None:
        """The request is over, and its timer is stopped."""
        pending = entry.queue_context_handle.pending
        if pending.get(entry.request_id) is entry:
            del pending[entry.request_id]
        if self._given_out.pop(entry.timer, None) is not None:
            self._timers.stop((PendingRequestTable, entry.timer))

    def give_out(self, entry: PendingRequestEntry, lookup_id: int, now: Now) -> None:
        """The client gets this message, and has to say what became of it in time."""
        entry.lookup_identifier = lookup_id
        entry.timer = self._last_timer = self._last_timer + 1
        self._given_out[entry.timer] = entry
        deadline = now.monotonic + self._timeout_s
        self._timers.start((PendingRequestTable, entry.timer), deadline, lambda _: self.time_out(entry))

    def end(self, entry: PendingRequestEntry, *, delete_message: bool) -> HResult:
        """Dequeue Message End for the message of an entry, which is removed before anything else."""
        self.remove(entry)
        descriptor, lookup_id = entry.queue_context_handle.descriptor, entry.lookup_identifier
        if descriptor.queue is None:
            return HResult.MQ_ERROR_INVALID_HANDLE
        if lookup_id not in descriptor.queue.positions:
            descriptor.two_phase_reads.discard(lookup_id)
            return HResult.MQ_ERROR_MESSAGE_NOT_FOUND
        return self._manager.reading.dequeue_message_end(
            descriptor, lookup_id, delete_message=delete_message, transaction=entry.transaction
        )

    def fail(self, entry: PendingRequestEntry) -> HResult:
        """2.2.5.3 AbortCounter: the message did not arrive, or nobody said in time that it has. It is for others."""
        transaction = entry.transaction
        # A prepared transaction stays prepared, as promised.
        if transaction is None or self._manager.transactions.is_open(transaction):
            self._note_failure(entry)
        return self.end(entry, delete_message=False)

    def withdraw(self, entry: PendingRequestEntry, lookup_id: int) -> None:
        """A message came for a request whose client has gone."""
        entry.lookup_identifier = lookup_id
        self.end(entry, delete_message=False)

    def give_back(self, entry: PendingRequestEntry, lookup_id: int) -> None:
        """A message came for a request whose handle was closed in the same moment.

        Closing has released what the handle itself had locked; what a transaction holds is taken out of it.
        """
        transactions, queue = self._manager.transactions, entry.queue_context_handle.queue
        if entry.transaction is not None and transactions.holds(entry.transaction, queue, lookup_id):
            transactions.take_back(entry.transaction, queue, lookup_id)

    def release_all(self, queue: RemoteQueue) -> None:
        """Everything that was given out on this handle is for others again (readings MQRR 3.5)."""
        for entry in tuple(queue.pending.values()):
            if entry.lookup_identifier:
                self.end(entry, delete_message=False)
            else:
                self.remove(entry)

    def note_lost_reader(self, queue: RemoteQueue) -> None:
        """2.2.5.3 AbortCounter: nobody knows whether what was given out reached the client, so its reading failed."""
        for entry in queue.pending.values():
            self._note_failure(entry)

    def _note_failure(self, entry: PendingRequestEntry) -> None:
        held = entry.queue_context_handle.descriptor.queue
        if held is not None and self._is_held(entry, held):
            self._manager.positions.attempt_failed(held, entry.lookup_identifier)

    def _is_held(self, entry: PendingRequestEntry, queue: Queue) -> bool:
        """Whether the message is still locked for this request, and not for somebody else."""
        lookup_id = entry.lookup_identifier
        if entry.transaction is None:
            return lookup_id in entry.queue_context_handle.descriptor.two_phase_reads
        return self._manager.transactions.holds(entry.transaction, queue, lookup_id)

    def time_out(self, entry: PendingRequestEntry) -> None:
        """3.1.5.1."""
        self.fail(entry)
