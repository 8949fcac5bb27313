"""AwaitingFinalACKTable of MS-MQQB 3.1.1.3.1, and the effect of a FinalAck on its message (3.1.5.7).

The table is an internal queue of the queue manager, so its messages outlive the process. A message waits there without
a time limit, because its receiver may consume it years later. Moves to and from the table cause no event: nothing
follows but the copy that is kept here.

A FinalAck names its message by MessageIdentifier. The places of all messages that wait for one, in outgoing queues and
in the table, are known by the ordinals of those. They are not removed when a message leaves: a search finds that it is
gone, and the others are cleared away, a few with each new one, whenever there are twice as many as the last time.
"""

from collections.abc import Sequence
from typing import Final

from waypost.clock import Now
from waypost.core.acknowledgments import asks_in_vain
from waypost.core.message import Message
from waypost.core.position_events import PositionEvents
from waypost.core.positions import PositionState
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import AWAITING_FINAL_ACK, OutgoingQueue, Queue
from waypost.core.serialization import packet_of
from waypost.core.source_journal import SourceJournal
from waypost.core.stored_message import sequence_of
from waypost.core.writing import Writing
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName, QueueKind

_FEW: Final = 64
# Number of places to check for messages that are gone, with each new one.
_AT_ONCE: Final = 64

# The number of a queue, and a LookupIdentifier in it.
_Place = tuple[int, int]


def wants_final_ack(message: Message) -> bool:
    """MS-MQQB 3.1.7.2.2, readings MQQB 3.20: whether the source gets a report of the end of the message."""
    return message.is_transactional and (
        message.positive_journaling_requested
        or message.negative_journaling_requested
        or message.final_ack_required
    )  # fmt: skip


class FinalAcks:
    """The messages of one queue manager that wait for a FinalAck."""

    __slots__ = ("_bound", "_clearing", "_counts", "_journal", "_path", "_places", "_positions", "_queues")

    def __init__(self, queues: QueueCollection, positions: PositionEvents, writing: Writing) -> None:
        self._queues: Final = queues
        self._positions: Final = positions
        self._journal: Final = SourceJournal(queues, writing)
        self._path: Final = PathName(queues.identity.computer_name, QueueKind.PRIVATE, AWAITING_FINAL_ACK)
        # One message to several queues has one identifier, so there may be several places.
        self._places: dict[int, tuple[_Place, ...]] = {}
        self._bound = _FEW
        # The ordinals to check for places of messages that are gone.
        self._clearing: list[int] = []
        self._counts: dict[FormatName | None, int] = {}

    def expect(self, queue: OutgoingQueue, message: Message) -> None:
        """Note a message in an outgoing queue: a FinalAck may come before it leaves."""
        if message.asks_for_attention and self._is_ours(message.identifier) and wants_final_ack(message):
            self._note(queue, message)

    def restore(self, queue: Queue, messages: Sequence[Message]) -> None:
        """Restore messages of an outgoing queue or of the table that outlived the process."""
        for message in messages:
            if isinstance(queue, OutgoingQueue):
                self.expect(queue, message)
            elif queue.pathname == self._path:
                self._note(queue, message)
                self._count(message.destination_queue_format_name, 1)

    def await_final_ack(self, queue: OutgoingQueue, lookup_id: int) -> None:
        """MS-MQQB 3.1.5.6: move a delivered message of this queue to the table, where it waits for its outcome."""
        message = self._positions.remove(queue, lookup_id)
        if message is None:
            return
        self._positions.place(self._table, message, PositionState.AVAILABLE)
        self._note(self._table, message)
        self._count(message.destination_queue_format_name, 1)

    def final_ack_arrived(
        self,
        identifier: MessageIdentifier,
        message_class: int,
        now: Now,
        *,
        sequence: tuple[TxSequenceId, int] | None = None,
    ) -> bool:
        """MS-MQQB 3.1.5.7. False if no message waits for this.

        `sequence` is the place of the message in its sequence: it separates copies to several queues.
        """
        found = self.find(identifier, sequence)
        if found is None:
            return False
        self.end(*found, message_class, now)
        return True

    def end(self, queue: Queue, message: Message, message_class: int, now: Now) -> None:
        """Apply a FinalAck to the message that it names."""
        if isinstance(queue, OutgoingQueue):
            # Transfer learns that nothing is left to do. Nothing else follows from that.
            self._positions.delivered_all(queue, (message,))
        else:
            self._positions.remove(queue, message.lookup_identifier, message)
            self._count(message.destination_queue_format_name, -1)
        if asks_in_vain(message):
            return
        if message_class == MessageClass.MQMSG_CLASS_ACK_RECEIVE:
            if message.positive_journaling_requested:
                self._journal.keep(message, now)
        elif message.negative_journaling_requested:
            self._journal.keep_dead_letter(message, message_class, now)

    def find(
        self, identifier: MessageIdentifier, sequence: tuple[TxSequenceId, int] | None
    ) -> tuple[Queue, Message] | None:  # fmt: skip
        """The message that waits for a FinalAck with this identifier, and its queue."""
        if not self._is_ours(identifier):
            return None
        for place in self._places.get(identifier.ordinal, ()):
            if self._is_there(place):
                queue = self._queues.by_number[place[0]]
                message = self._positions.find(queue, place[1])
                if message is None:
                    continue
                if sequence is None or sequence_of(packet_of(message))[:2] == sequence:
                    return queue, message
        return None

    def count(self, queue: OutgoingQueue) -> int:
        """Number of messages in the table that left this queue (MS-MQQB 3.1.5.6, EodNoReadCount)."""
        return self.waiting_for(queue.destination_format_name)

    def waiting_for(self, name: FormatName) -> int:
        """Number of messages in the table that were sent to this name."""
        return self._counts.get(name, 0)

    @property
    def _table(self) -> Queue:
        return self._queues.by_path[self._path]

    def _is_ours(self, identifier: MessageIdentifier) -> bool:
        return identifier.queue_manager_guid == self._queues.identity.identifier

    def _note(self, queue: Queue, message: Message) -> None:
        ordinal = message.identifier.ordinal
        place = queue.number, message.lookup_identifier
        others = [other for other in self._places.get(ordinal, ()) if other != place and self._is_there(other)]
        self._places[ordinal] = (*others, place)
        if self._clearing:
            self._clear_some()
        elif len(self._places) > self._bound:
            self._clearing = list(self._places)

    def _clear_some(self) -> None:
        """Drop some places of messages that are gone."""
        for _ in range(min(_AT_ONCE, len(self._clearing))):
            ordinal = self._clearing.pop()
            if not any(map(self._is_there, self._places.get(ordinal, ()))):
                self._places.pop(ordinal, None)
        if not self._clearing:
            self._bound = max(2 * len(self._places), _FEW)

    def _is_there(self, place: _Place) -> bool:
        queue = self._queues.by_number.get(place[0])
        return queue is not None and place[1] in queue.positions

    def _count(self, name: FormatName | None, change: int) -> None:
        count = self._counts.get(name, 0) + change
        if count:
            self._counts[name] = count
        else:
            self._counts.pop(name, None)
