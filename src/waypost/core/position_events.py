"""Events of message positions: MS-MQDMPR 3.1.7.2.1, 3.1.7.2.2 and 3.1.7.2.7, MS-MQQB 3.1.7.1.2, and byte counts.

A message counts from the moment it is in a queue until it leaves it, locked or not (readings MQDMPR 3.G). A position
that becomes Available is offered to the waiting readers at once, before any other reader can see it.

The first use of a message with a damaged record sets it aside: its position is gone, and it no longer counts. The
caller goes on without it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from waypost.core.expiries import Expiries
from waypost.core.message import Message
from waypost.core.moves import Moves
from waypost.core.ports import (
    Event,
    MessageArrived,
    MessagePositionAvailable,
    MessagePositionDeleted,
    MessageSetAside,
    MessageTable,
)
from waypost.core.positions import SEQUENCE_MASK, PositionState, lookup_identifier
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.serialization import size_in_bytes
from waypost.core.sources import Sources
from waypost.core.stored_message import copied, tag_of, tags_of, tags_of_packets
from waypost.errors import RecordDamaged
from waypost.limits import FREE_OVERHEAD_BYTES, MESSAGE_OVERHEAD_BYTES, POSITION_BYTES, SOURCE_RUN_BYTES
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass
from waypost.wire.property_values import UNLIMITED

KILOBYTE: Final = 1024

Offer = Callable[[Queue, int], None]

_FEW: Final = 8
# The most bytes of one message beside its packet.
_MOST_OVERHEAD_BYTES: Final = POSITION_BYTES + MESSAGE_OVERHEAD_BYTES + SOURCE_RUN_BYTES
_EXPIRED: Final = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT


class PositionEvents:
    """The positions of all queues of one queue manager."""

    __slots__ = (
        "_expired",
        "_late",
        "_queues",
        "_refused_size",
        "count",
        "events",
        "expiries",
        "inexact",
        "messages",
        "moves",
        "offer",
        "quota",
        "sequential_id",
        "sources",
        "staged_bytes",
        "total_bytes",
    )

    def __init__(self, messages: MessageTable) -> None:
        self.messages: Final = messages
        self.events: list[Event] = []
        # The code of the waiting reads replaces this.
        self.offer: Offer = _nobody_waits
        self.sequential_id = 0
        self.total_bytes = 0
        # Bytes of messages that are on disk for queues and not in them yet; the quota of the machine counts them.
        self.staged_bytes = 0
        # Number of positions.
        self.count = 0
        self.quota = UNLIMITED
        # Size of the smallest message that the quota has refused, until it would fit.
        self._refused_size = inf
        self.sources: Final = Sources()
        # The queues that may count too many bytes, because the size of a damaged message is unknown.
        self.inexact: Final[set[int]] = set()
        self.expiries: Final = Expiries(self)
        self.moves: Final = Moves()
        self._queues: dict[int, Queue] = {}
        # Queue and LookupIdentifier of messages that expired while they were locked.
        self._expired: set[tuple[int, int]] = set()
        # Messages that expired while they were not locked, the earliest first, and are still to be removed.
        self._late: deque[tuple[Queue, deque[int]]] = deque()

    def fits(self, queue: Queue, size: int) -> bool:
        """Whether the queue's own quota has room. Exactly full is not exceeded (readings MQDMPR 3.F)."""
        return _has_room(queue.attributes.quota, queue.total_bytes, size)

    def can_ever_fit(self, queue: Queue, size: int) -> bool:
        """Whether the quota of the queue has room for a message of this size if it is the only one."""
        return _has_room(queue.attributes.quota, 0, size)

    def fits_machine(self, size: int) -> bool:
        """Whether the quota of the machine has room, and so has the share of the peer that the message is from."""
        if size <= self._sure_room_of_machine():
            return True
        if not _has_room(self.quota, self._taken, size):
            self._refused_size = min(self._refused_size, size)
            return False
        return self.sources.has_room(self.quota * KILOBYTE, size)

    @property
    def is_full(self) -> bool:
        """Whether the quota of the machine has refused a message that it would refuse now too."""
        if self._refused_size < inf and _has_room(self.quota, self._taken, self._refused_size):
            self._refused_size = inf
        return self._refused_size < inf

    def sure_room(self, queue: Queue) -> float:
        """Number of bytes for which `fits` and `fits_machine` certainly hold."""
        own = inf if queue.attributes.quota == UNLIMITED else queue.attributes.quota * KILOBYTE - queue.total_bytes
        return min(own, self._sure_room_of_machine())

    def _sure_room_of_machine(self) -> float:
        """Most of the time there is much room, in memory or not, for any sender."""
        if self.quota == UNLIMITED:
            return inf
        return self.quota * KILOBYTE * self.sources.share - (
            self.total_bytes + self.staged_bytes + self.count * _MOST_OVERHEAD_BYTES
        )

    @property
    def _taken(self) -> int:
        """Bytes that count against the quota of the machine."""
        return self.total_bytes + self.staged_bytes + self.overhead

    @property
    def overhead(self) -> int:
        """Bytes of memory of positions, and of messages in memory only, beyond their packets.

        They count against the quota of the machine, so that tiny messages do not take many times the quota. The first
        of them are free: a small quota means the bytes of messages.
        """
        memory = (
            self.count * POSITION_BYTES
            + self.sources.runs * SOURCE_RUN_BYTES
            + self.messages.in_memory * MESSAGE_OVERHEAD_BYTES
        )
        return max(memory - FREE_OVERHEAD_BYTES, 0)

    def identify(self, message: Message) -> int:
        """Give the message its LookupIdentifier."""
        self.sequential_id += 1
        message.lookup_identifier = lookup_identifier(message.effective_priority, self.sequential_id)
        return message.lookup_identifier

    def place(self, queue: Queue, message: Message, state: PositionState) -> int | None:
        """Put a message with its LookupIdentifier at its place, and start its timer. Returns its end, if any."""
        size = size_in_bytes(message)
        if state is PositionState.LOCKED:
            self.messages.hold(queue.number, message)
        else:
            self.messages.put(queue.number, message)
        queue.positions.insert(message.lookup_identifier, state, tag_of(message), size)
        self._count(queue, 1, size)
        if self.sources.current:
            self.sources.placed(message.lookup_identifier & SEQUENCE_MASK, 1, size)
        deadline = _deadline(queue, message)
        if deadline is not None:
            self._queues[queue.number] = queue
            self.expiries.start(deadline, queue.number, (message.lookup_identifier,))
        return deadline

    def place_all(
        self, queue: Queue, messages: Sequence[Message], like: Message, state: PositionState, *, size: int
    ) -> int | None:
        """Identify messages and put them at their places; they differ from `like` only in identifiers and bodies.

        Like `identify` and `place` for each of them, in a third of the time. `size` is the total.
        """
        number = queue.number
        first = lookup_identifier(like.effective_priority, self.sequential_id + 1)
        lookup_ids = range(first, first + len(messages))
        self.sequential_id += len(messages)
        for lookup_id, message in zip(lookup_ids, messages, strict=True):
            message.lookup_identifier = lookup_id
        if state is PositionState.LOCKED:
            self.messages.hold_all(number, messages)
        else:
            self.messages.put_all(number, messages)
        sizes = [len(message.packet) or size_in_bytes(message) for message in messages]
        queue.positions.insert_all(lookup_ids, state, tags_of(messages), sizes)
        self._count(queue, len(messages), size)
        if self.sources.current:
            self.sources.placed(first & SEQUENCE_MASK, len(messages), size)
        deadline = _deadline(queue, like)
        if deadline is not None:
            self._queues[number] = queue
            self.expiries.start(deadline, number, lookup_ids)
        return deadline

    def place_packets(self, queue: Queue, head: bytes, packets: Sequence[bytes]) -> None:
        """Put transactional messages at their places, Available, by their packets. Nobody waits for them.

        They ask for no attention and do not expire; `head` is that of their records.
        """
        first = lookup_identifier(0, self.sequential_id + 1)
        lookup_ids = range(first, first + len(packets))
        self.sequential_id += len(packets)
        self.messages.put_packets(queue.number, lookup_ids, head, packets)
        sizes = list(map(len, packets))
        queue.positions.insert_all(lookup_ids, PositionState.AVAILABLE, tags_of_packets(packets), sizes)
        self._count(queue, len(packets), sum(sizes))

    def restore(self, queue: Queue, lookup_ids: Sequence[int], total_bytes: int) -> None:
        """Restore the messages of a queue that outlived the process, all Available, in list order."""
        queue.positions.restore(lookup_ids)
        if isinstance(queue, OutgoingQueue) and lookup_ids:
            queue.last_committed = lookup_ids[-1]
        self._count(queue, len(lookup_ids), total_bytes)

    def restore_timer(self, queue: Queue, lookup_id: int, deadline: int) -> None:
        """Start the Time To Be Received Timer of a message that outlived the process."""
        if queue.lets_messages_expire:
            self._queues[queue.number] = queue
            self.expiries.start(deadline, queue.number, (lookup_id,))

    def restore_timers(self, queue: OutgoingQueue, messages: Sequence[Message]) -> None:
        """Start the timers of messages on their way, which have TimeToReachQueue too."""
        for message in messages:
            deadline = _deadline(queue, message)
            if deadline is not None:
                self.restore_timer(queue, message.lookup_identifier, deadline)

    def place_for_all(self, queue: Queue, message: Message, wall: float) -> bool:
        """Put a message at its place as Available. False if its time is over: then it is removed already."""
        deadline = self.place(queue, message, PositionState.AVAILABLE)
        if deadline is None or deadline > wall:
            return True
        self.end_late(queue, (message,))
        return False

    def end_late(self, queue: Queue, messages: Sequence[Message]) -> None:
        """Remove messages at once that expired before their arrival, however many others wait to expire."""
        for message in messages:
            self.deleted(queue, message.lookup_identifier, _EXPIRED, message)

    def find(self, queue: Queue, lookup_id: int) -> Message | None:
        """The message at a position; None for an empty position, or for a damaged message, which is set aside."""
        try:
            return self.messages.get(queue.number, lookup_id)
        except RecordDamaged as damage:
            self.set_aside(queue, lookup_id, damage)
            return None

    def find_all(self, queue: Queue, lookup_ids: Sequence[int]) -> list[Message]:
        """The readable messages at several positions."""
        try:
            return self.messages.get_all(queue.number, lookup_ids)
        except RecordDamaged:
            found = [self.find(queue, lookup_id) for lookup_id in lookup_ids]
            return [message for message in found if message is not None]

    def set_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> None:
        """Remove an unreadable message from its queue, in any state of its position."""
        if lookup_id not in queue.positions:
            return
        queue.positions.remove(lookup_id)
        size = self.messages.set_aside(queue, lookup_id, damage)
        self.inexact.add(queue.number)
        self._count(queue, -1, -min(size, queue.total_bytes))
        if self.sources.runs:
            self.sources.removed(lookup_id & SEQUENCE_MASK, size)
        self._expired.discard((queue.number, lookup_id))
        self.events.append(MessageSetAside(queue, lookup_id))

    def lock(self, queue: Queue, lookup_id: int) -> Message | None:
        """Lock an Available position for one reader until the outcome of its transaction or two-phase read.

        None if the message is damaged.
        """
        message = self.find(queue, lookup_id)
        if message is None:
            return None
        queue.positions.set_state(lookup_id, PositionState.LOCKED)
        if message.allow_peek_when_locked:
            queue.positions.show_to_peeks(lookup_id)
        return message

    def lock_all(self, queue: Queue, lookup_ids: Sequence[int]) -> list[Message]:
        """Lock several positions. Returns the readable messages."""
        messages = self.find_all(queue, lookup_ids)
        queue.positions.lock_all([message.lookup_identifier for message in messages])
        for message in messages:
            if message.allow_peek_when_locked:
                queue.positions.show_to_peeks(message.lookup_identifier)
        return messages

    def attempt_failed(self, queue: Queue, lookup_id: int) -> None:
        """Count a failed read or move of a Locked message (readings MQDMPR 3.Z, MQRR 3.28)."""
        message = self.find(queue, lookup_id)
        if message is not None:
            message = copied(message)
            message.abort_count += 1
            self.messages.update(queue.number, message)

    def arrived(self, queue: Queue, message: Message) -> None:
        """Make a sent message Available for the first time."""
        lookup_id = message.lookup_identifier
        if message.asks_for_attention and not self._is_expired(queue, lookup_id):
            self.events.append(MessageArrived(queue, message))
        self.available(queue, lookup_id)

    def arrived_all(self, queue: Queue, messages: Sequence[Message], like: Message) -> None:
        """Announce messages that are in the list as Available, and like this one.

        Without an event if they ask for no attention, no reader waits for them and they are not transferred.
        """
        if like.asks_for_attention:
            for message in messages:
                self.arrived(queue, message)
        elif queue.waiting or isinstance(queue, OutgoingQueue):
            for message in messages:
                self.available(queue, message.lookup_identifier)

    def available_all(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        """Make several positions Available, as `available` does."""
        if self._expired or queue.waiting:
            for lookup_id in lookup_ids:
                self.available(queue, lookup_id)
            return
        queue.positions.release_all(lookup_ids)
        self.events += [MessagePositionAvailable(queue, lookup_id) for lookup_id in lookup_ids]

    def arrived_unheard(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        """Make messages that ask for no attention Available for the first time.

        Without an event if no reader waits for messages of this queue and they are not transferred.
        """
        if self._expired or queue.waiting or isinstance(queue, OutgoingQueue):
            self.available_all(queue, lookup_ids)
        else:
            queue.positions.release_all(lookup_ids)

    def available(self, queue: Queue, lookup_id: int) -> None:
        """MS-MQDMPR 3.1.7.2.2 for a position that was locked, or that is in the list as Available for the first time.

        readings MQDMPR 3.O: a message that expired while it was locked leaves instead.
        """
        if self._expired and self._is_expired(queue, lookup_id):
            self.deleted(queue, lookup_id, _EXPIRED)
            return
        queue.positions.set_state(lookup_id, PositionState.AVAILABLE)
        self.events.append(MessagePositionAvailable(queue, lookup_id))
        self.offer(queue, lookup_id)

    def received(self, queue: Queue, lookup_id: int, message: Message | None = None) -> Message | None:
        """Give the message to an application: it leaves its queue, and the journal gets a copy.

        None if it is damaged.
        """
        message = self.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_ACK_RECEIVE, message)
        if message is not None and queue.attributes.journaling and queue.journal is not None:
            self._copy_to_journal(queue.journal, message)
        return message

    def received_all(self, queue: Queue, messages: Sequence[Message]) -> None:
        """Give several messages of a queue to an application."""
        if queue.attributes.journaling and queue.journal is not None:
            for message in messages:
                self.received(queue, message.lookup_identifier, message)
        else:
            self._deleted_all(queue, messages, MessageClass.MQMSG_CLASS_ACK_RECEIVE)

    def delivered_all(self, queue: OutgoingQueue, messages: Sequence[Message]) -> None:
        """MS-MQQB 3.1.5.5: remove messages that have reached the next queue manager."""
        self._deleted_all(queue, messages, MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE)

    def _deleted_all(self, queue: Queue, messages: Sequence[Message], reason: MessageClass) -> None:
        """Delete several messages, as `deleted` does."""
        self.remove_all(queue, messages)
        self.events += [MessagePositionDeleted(queue, message, reason) for message in messages]

    def remove_all(self, queue: Queue, messages: Sequence[Message]) -> None:
        """Remove several messages, as `remove` does."""
        lookup_ids = [message.lookup_identifier for message in messages]
        queue.positions.remove_all(lookup_ids)
        size = self.messages.delete_all(queue.number, messages)
        self._count(queue, -len(messages), -size)
        if self.sources.runs and messages and not self.sources.removed_all(lookup_ids, size):
            for message in messages:
                self.sources.removed(message.lookup_identifier & SEQUENCE_MASK, size_in_bytes(message))
        if self._expired:
            self._expired.difference_update([(queue.number, message.lookup_identifier) for message in messages])

    def deleted(
        self, queue: Queue, lookup_id: int, reason: MessageClass, message: Message | None = None
    ) -> Message | None:  # fmt: skip
        """MS-MQDMPR 3.1.7.2.1."""
        message = self.remove(queue, lookup_id, message)
        if message is not None:
            self.events.append(MessagePositionDeleted(queue, message, reason))
        return message

    def remove(self, queue: Queue, lookup_id: int, message: Message | None = None) -> Message | None:
        """Remove a position and its message without an event, as the abort of a send does.

        A caller that has the message saves a search for it. None if it is damaged: then it was set aside.
        """
        if message is None:
            message = self.find(queue, lookup_id)
            if message is None:
                return None
        size = size_in_bytes(message)
        queue.positions.remove(lookup_id)
        self._count(queue, -1, -size)
        if self.sources.runs:
            self.sources.removed(lookup_id & SEQUENCE_MASK, size)
        self.messages.delete(queue.number, message)
        if self._expired:
            self._expired.discard((queue.number, lookup_id))
        return message

    def _count(self, queue: Queue, count: int, size: int) -> None:
        self.count += count
        queue.total_bytes += size
        self.total_bytes += size
        if self.inexact and queue.number in self.inexact and not len(queue.positions):
            # The size of a missing message is unknown, but an empty queue has no bytes.
            self.total_bytes -= queue.total_bytes
            queue.total_bytes = 0
            self.inexact.remove(queue.number)
        assert self.count >= 0, "more messages have left the queue than arrived"
        assert queue.total_bytes >= 0 or queue.number in self.inexact, f"{queue} counts fewer than 0 bytes"

    def forget_queue(self, queue: Queue) -> None:
        """Forget a queue that is empty and will stay so."""
        self._queues.pop(queue.number, None)

    def expire(self, wall: float) -> None:
        """MS-MQDMPR 3.1.7.2.7 and MS-MQQB 3.1.7.1.2 for messages that have expired at this time of the wall clock.

        No reader gets one of them from now on. `take_late` handles their end.
        """
        if self.expiries.first > wall:
            return
        for number, lookup_ids in self.expiries.due(wall):
            queue = self._queues.get(number)
            if queue is None:
                continue
            late, held = queue.positions.expire_all(lookup_ids)
            if late:
                self._late.append((queue, deque(late)))
            self._expired.update([(number, lookup_id) for lookup_id in held])

    @property
    def has_late(self) -> bool:
        """Whether `take_late` has something to do."""
        return bool(self._late)

    def take_late(self, count: int) -> None:
        """Delete up to `count` expired messages, the earliest first."""
        while count > 0 and self._late:
            queue, lookup_ids = self._late[0]
            while count > 0 and lookup_ids:
                lookup_id = lookup_ids.popleft()
                count -= 1
                # Another event may have removed it.
                if queue.positions.is_late(lookup_id):
                    self.take_expired(queue, lookup_id)
            if not lookup_ids:
                self._late.popleft()

    @property
    def next_expiry(self) -> int | None:
        """The time of the wall clock at which `expire` has something to do."""
        return self.expiries.earliest()

    def _is_expired(self, queue: Queue, lookup_id: int) -> bool:
        return (queue.number, lookup_id) in self._expired

    def take_expired(self, queue: Queue, lookup_id: int) -> None:
        """Delete an expired message before another event can end it."""
        self.deleted(queue, lookup_id, _EXPIRED)

    def remaining(self, queue: int, lookup_ids: Sequence[int]) -> list[int]:
        """See waypost.core.expiries.Holder."""
        held = self._queues.get(queue)
        if held is None or not len(held.positions):
            return []
        is_there = held.positions.__contains__
        return [lookup_id for lookup_id in lookup_ids if is_there(lookup_id)]

    def held(self) -> int:
        """See waypost.core.expiries.Holder. Some more for each queue, because counting takes time."""
        return sum([len(queue.positions) + _FEW for queue in self._queues.values()])

    def _copy_to_journal(self, journal: Queue, message: Message) -> None:
        """readings MQDMPR 3.Y: if the quotas allow it."""
        size = size_in_bytes(message)
        if self.fits(journal, size) and self.fits_machine(size):
            copy = copied(message)
            self.identify(copy)
            self.place(journal, copy, PositionState.AVAILABLE)
            self.available(journal, copy.lookup_identifier)


def _nobody_waits(_queue: Queue, _lookup_id: int) -> None:
    """The default without readers."""


def _deadline(queue: Queue, message: Message) -> int | None:
    """The first second in which the time of the message is over.

    readings MQDMPR 3.O: the time counts from SentTime, not from the arrival.
    """
    time_to_be_received = message.time_to_be_received
    if not isinstance(queue, OutgoingQueue):
        if time_to_be_received == INFINITE or not queue.lets_messages_expire:
            return None
        return message.sent_time + time_to_be_received
    # MS-MQQB 3.1.7.1.2: a message on its way has to reach its queue in time. The last second still counts.
    time_to_reach_queue = message.time_to_reach_queue
    if time_to_reach_queue == INFINITE:
        return None if time_to_be_received == INFINITE else message.sent_time + time_to_be_received
    return message.sent_time + min(time_to_reach_queue + 1, time_to_be_received)


def _has_room(quota: int, taken: int, size: float) -> bool:
    return quota == UNLIMITED or taken + size <= quota * KILOBYTE
