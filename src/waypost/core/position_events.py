"""What becomes of message positions: MS-MQDMPR 3.1.7.2.1, 3.1.7.2.2 and 3.1.7.2.7, and the accounting of bytes.

A message counts from the moment it is in a queue until it leaves it, locked or not (readings MQDMPR 3.G). Positions
that become Available are put on `arrivals`; whoever ends an event offers them to the readers that wait.
"""

from collections import deque
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from waypost.core.message import Message
from waypost.core.ports import Event, MessagePositionAvailable, MessagePositionDeleted, MessageTable
from waypost.core.positions import PositionState, lookup_identifier
from waypost.core.queues import UNLIMITED, Queue
from waypost.core.serialization import size_in_bytes
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass

KILOBYTE: Final = 1024


class PositionEvents:
    """The positions of all queues of one queue manager."""

    __slots__ = (
        "_expired",
        "_expiries",
        "_queues",
        "arrivals",
        "events",
        "messages",
        "quota",
        "sequential_id",
        "total_bytes",
    )

    def __init__(self, messages: MessageTable) -> None:
        self.messages: Final = messages
        self.events: list[Event] = []
        self.arrivals: deque[tuple[Queue, int]] = deque()
        self.sequential_id = 0
        self.total_bytes = 0
        self.quota = UNLIMITED
        self._queues: dict[int, Queue] = {}
        self._expiries: list[tuple[int, int, int]] = []
        self._expired: set[tuple[int, int]] = set()

    def fits(self, queue: Queue, message: Message) -> bool:
        """Whether the queue's own quota has room. Exactly full is not exceeded (readings MQDMPR 3.F)."""
        quota = queue.attributes.quota
        return quota == UNLIMITED or queue.total_bytes + size_in_bytes(message) <= quota * KILOBYTE

    def fits_machine(self, message: Message) -> bool:
        return self.quota == UNLIMITED or self.total_bytes + size_in_bytes(message) <= self.quota * KILOBYTE

    def insert(self, queue: Queue, message: Message, state: PositionState) -> int:
        """Give the message its LookupIdentifier and its place; start its Time To Be Received Timer."""
        self.sequential_id += 1
        message.lookup_identifier = lookup_identifier(message.effective_priority, self.sequential_id)
        self.place(queue, message, state)
        return message.lookup_identifier

    def place(self, queue: Queue, message: Message, state: PositionState) -> None:
        """Put a message that has its LookupIdentifier at its place."""
        size = size_in_bytes(message)
        self.messages.put(queue.number, message)
        queue.positions.insert(message.lookup_identifier, state)
        queue.total_bytes += size
        self.total_bytes += size
        if message.time_to_be_received != INFINITE:
            self._queues[queue.number] = queue
            expiry = message.sent_time + message.time_to_be_received
            heappush(self._expiries, (expiry, queue.number, message.lookup_identifier))

    def available(self, queue: Queue, lookup_id: int) -> None:
        """MS-MQDMPR 3.1.7.2.2. A message that expired while it was locked leaves instead (readings MQDMPR 3.O)."""
        if (queue.number, lookup_id) in self._expired:
            self.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)
            return
        queue.positions.set_state(lookup_id, PositionState.AVAILABLE)
        self.arrivals.append((queue, lookup_id))
        self.events.append(MessagePositionAvailable(queue, lookup_id))

    def deleted(self, queue: Queue, lookup_id: int, reason: MessageClass) -> None:
        """MS-MQDMPR 3.1.7.2.1."""
        message = self.remove(queue, lookup_id)
        if reason is MessageClass.MQMSG_CLASS_ACK_RECEIVE and queue.attributes.journaling:
            self._journal(queue, message)
        self.events.append(MessagePositionDeleted(queue, message, reason))

    def remove(self, queue: Queue, lookup_id: int) -> Message:
        """Take a position and its message away without a word, as the abort of a send does."""
        message = self.messages.get(queue.number, lookup_id)
        size = size_in_bytes(message)
        queue.positions.remove(lookup_id)
        queue.total_bytes -= size
        self.total_bytes -= size
        self.messages.delete(queue.number, lookup_id)
        self._expired.discard((queue.number, lookup_id))
        return message

    def _journal(self, queue: Queue, message: Message) -> None:
        """readings MQDMPR 3.Y: a copy of what was received, if the quotas allow; it never expires."""
        journal = queue.journal
        if journal is None or not self.fits(journal, message) or not self.fits_machine(message):
            return
        copy = replace(message, time_to_be_received=INFINITE, packet=b"")
        self.available(journal, self.insert(journal, copy, PositionState.LOCKED))

    def expire(self, wall: float) -> None:
        """MS-MQDMPR 3.1.7.2.7 for every message whose TimeToBeReceived has passed at this time of the wall clock."""
        while self._expiries and self._expiries[0][0] <= wall:
            _, number, lookup_id = heappop(self._expiries)
            queue = self._queues[number]
            state = queue.positions.state(lookup_id)
            if state is PositionState.AVAILABLE:
                self.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)
            elif state is not PositionState.DELETED:
                self._expired.add((number, lookup_id))

    @property
    def next_expiry(self) -> int | None:
        """The time of the wall clock at which `expire` has something to do."""
        return self._expiries[0][0] if self._expiries else None
