"""Messages recently handed over to other queue managers, and the outcomes that these reported.

A queue manager that acknowledges a message to the session has it; whether its queue accepted it is another question,
which only acknowledgments answer that a sender asks for. Messages that left in one second for one queue are one entry,
with a tag of eight bytes for each (waypost.core.stored_message), so that very many can be remembered.
"""

from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.stored_message import tag_of_identifier, tags_of
from waypost.limits import MAX_HANDED_OVER, MAX_HANDED_OVER_ENTRIES, MAX_OUTCOMES, MAX_OUTCOMES_OF_PEER
from waypost.node.network.recent_records import RecentRecords
from waypost.wire.identifiers import MessageIdentifier


class Way(NamedTuple):
    """Messages for `queue` went to the host at `address`."""

    queue: str
    address: str
    is_transactional: bool


@dataclass(slots=True)
class HandedOver:
    """The tags of messages that were acknowledged to the session in one second."""

    way: Way
    time: int
    tags: "array[int]" = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Outcome:
    """The outcome of a message by an acknowledgment from `peer`. `is_final_ack`: not asked for by a program."""

    peer: str
    message_class: int
    time: int
    is_final_ack: bool


class Handed:
    """The last messages that left since `since`, which is a time of the wall clock."""

    __slots__ = ("_count", "_entries", "_latest", "outcomes", "since")

    def __init__(self, now: Now) -> None:
        self.since = int(now.wall)
        self._entries: deque[HandedOver] = deque()
        # The last entry of each way, as long as it is remembered.
        self._latest: dict[Way, HandedOver] = {}
        self._count = 0
        self.outcomes: Final[RecentRecords[Outcome]] = RecentRecords(MAX_OUTCOMES, MAX_OUTCOMES_OF_PEER)

    def add(self, way: Way, messages: Iterable[Message], now: Now) -> None:
        """Note messages that have left."""
        entry, time = self._latest.get(way), int(now.wall)
        if entry is None or entry.time != time:
            entry = self._latest[way] = HandedOver(way, time)
            self._entries.append(entry)
        before = len(entry.tags)
        entry.tags.extend(tags_of(messages))
        self._count += len(entry.tags) - before
        while self._count > MAX_HANDED_OVER or len(self._entries) > MAX_HANDED_OVER_ENTRIES:
            oldest = self._entries.popleft()
            self._count -= len(oldest.tags)
            self.since = oldest.time
            if self._latest.get(oldest.way) is oldest:
                del self._latest[oldest.way]
        assert len(self._latest) <= len(self._entries), "the latest entry is missing"

    def find(self, identifier: MessageIdentifier) -> list[HandedOver]:
        """The entries of the message; a message to several queues has several."""
        tag = tag_of_identifier(identifier)
        return [entry for entry in self._entries if tag in entry.tags]

    def note(self, identifier: MessageIdentifier, outcome: Outcome) -> None:
        """Note an acknowledgment of the message."""
        self.outcomes.put(identifier.encode(), outcome)

    def outcome(self, identifier: MessageIdentifier) -> Outcome | None:
        return self.outcomes.get(identifier.encode())
