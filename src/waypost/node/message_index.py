"""An index of all messages by identifier: complete for any number of messages.

Positions keep the tags of their messages (waypost.core.stored_message). New messages are tagged on arrival. A start
reads no messages, so those from before are read afterwards, in parts that leave other work its turn; until the last of
them is tagged, the index gives the number of messages that it does not know yet.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.position_events import PositionEvents
from waypost.core.positions import START, UNKNOWN_SIZE, UNTAGGED
from waypost.core.queues import Queue
from waypost.core.serialization import size_in_bytes
from waypost.core.stored_message import check_packet, tag_of, tag_of_identifier, tag_of_packet
from waypost.errors import DecodeError, StoreDamaged, StoreError
from waypost.limits import INDEX_PART, INDEX_PARTS_AWAITED, INDEX_PAUSE_SECONDS
from waypost.node.kernel import Kernel
from waypost.store.records import decode_message
from waypost.wire.identifiers import MessageIdentifier


@dataclass(slots=True)
class _UntaggedQueue:
    """A queue with messages from before the start, and the number of these that have no tag yet, or are gone."""

    queue: Queue
    unknown: int


class MessageIndex:
    """The messages of all queues. `unreadable`: number of unreadable messages from before the start.

    Damaged messages are set aside.
    """

    __slots__ = ("_after", "_messages", "_positions", "_queues", "_timers", "_waiting", "unreadable")

    def __init__(self, kernel: Kernel, queues: Iterable[Queue], positions: PositionEvents) -> None:
        self._timers: Final = kernel.timers
        self._messages: Final = kernel.messages
        self._positions: Final = positions
        self._queues: Final = deque(
            _UntaggedQueue(queue, len(queue.positions)) for queue in queues if len(queue.positions)
        )
        # Position up to which the messages of the first queue are tagged.
        self._after = START
        # Work that waits until all are tagged, with its time limit; all limits are equally long.
        self._waiting: Final[deque[tuple[float, Callable[[Now], None]]]] = deque()
        self.unreadable = 0
        # A read of a message that is not tagged checks that it decodes; tagged ones were checked.
        self._messages.checks_packets = not self.is_complete
        self._wake(kernel.now.monotonic)

    @property
    def is_complete(self) -> bool:
        return not self._queues

    @property
    def unknown(self) -> int:
        """Number of messages that are not tagged yet, at most."""
        return sum(place.unknown for place in self._queues)

    def when_complete(self, do: Callable[[Now], None], now: Now, seconds: float) -> None:
        """Do something when all messages are searchable, or after this many seconds. It may be now.

        While anything waits the parts follow without pauses, and a tick does several of them.
        """
        if self.is_complete:
            do(now)
            return
        self._waiting.append((now.monotonic + seconds, do))
        self._wake(now.monotonic)

    def find(
        self, queues: Iterable[Queue], identifier: MessageIdentifier, most: int
    ) -> tuple[list[tuple[Queue, Message]], int]:
        """The first messages with this identifier in these queues, as far as tagged, and the number of others."""
        tag = tag_of_identifier(identifier)
        found: list[tuple[Queue, Message]] = []
        more = 0
        for queue in queues:
            for lookup_id in list(queue.positions.tagged(tag)):
                if len(found) >= most:
                    more += 1
                    continue
                message = self._positions.find(queue, lookup_id)
                if message is not None and message.identifier == identifier:
                    found.append((queue, message))
        return found, more

    @property
    def deadline(self) -> float | None:
        """The monotonic time of the next part."""
        return self._timers.deadline(MessageIndex)

    def _wake(self, at: float) -> None:
        if self._queues:
            self._timers.start(MessageIndex, at, self._go_on)

    def _go_on(self, now: Now) -> None:
        """Tag the next messages."""
        for _ in range(INDEX_PARTS_AWAITED if self._waiting else 1):
            if self._queues:
                self._tag_part()
        self._wake(now.monotonic + (0 if self._waiting else INDEX_PAUSE_SECONDS))
        while self._waiting and (self.is_complete or now.monotonic >= self._waiting[0][0]):
            self._waiting.popleft()[1](now)

    def _tag_part(self) -> None:
        place = self._queues[0]
        positions = place.queue.positions
        part = positions.untagged(self._after, INDEX_PART)
        if not part:
            self._queues.popleft()
            self._after = START
            self._messages.checks_packets = not self.is_complete
            return
        for lookup_id, found in self._found(place.queue, part):
            if found is not None:
                tag, size = found
                positions.set_tag(lookup_id, tag)
                positions.set_size(lookup_id, size)
            self._after = lookup_id
            place.unknown = max(place.unknown - 1, 0)

    def _found(self, queue: Queue, part: Sequence[int]) -> Sequence[tuple[int, tuple[int, int] | None]]:
        """Tags and sizes of the first of these messages, at least one. A message that is set aside has none."""
        try:
            records = self._messages.records(queue.number, part, 0)
            return [(lookup_id, _tag_and_size(value)) for lookup_id, value in zip(part, records, strict=False)]
        except (DecodeError, StoreError):
            return [(lookup_id, self._found_alone(queue, lookup_id)) for lookup_id in part]

    def _found_alone(self, queue: Queue, lookup_id: int) -> tuple[int, int] | None:
        try:
            message = self._positions.find(queue, lookup_id)
        except StoreDamaged:
            self.unreadable += 1
            return UNTAGGED, UNKNOWN_SIZE
        if message is None:
            self.unreadable += 1
            return None
        return tag_of(message), size_in_bytes(message)


def _tag_and_size(value: bytes) -> tuple[int, int]:
    """The tag and the size of the message in a MessageRecord.

    Raises DecodeError or a StoreError if the record does not decode.
    """
    packet = decode_message(value)[-1]
    check_packet(packet)
    return tag_of_packet(packet), len(packet)
