"""The Cursor machine: MS-MQDMPR 3.2.

A cursor keeps a LookupIdentifier, not a message, so that it can stand where a message was. At End it keeps the last
SequentialID of that time, and goes on with later arrivals (readings MQDMPR 4).
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from waypost.core.positions import END, START, PositionList, PositionState


class CursorState(Enum):
    """MS-MQDMPR 3.2.1.2."""

    UNREAD = auto()
    READ = auto()
    WAIT_PEEK = auto()
    WAIT_RECEIVE = auto()


class Found(Enum):
    """Result of a question to a cursor."""

    SUCCEEDED = auto()
    WAITING = auto()
    NOT_FOUND = auto()
    ALREADY_RECEIVED = auto()
    ILLEGAL_CURSOR_ACTION = auto()


class Event(Enum):
    """Events that move a cursor."""

    PEEK = auto()
    NEXT_PEEK = auto()
    DEQUEUE = auto()
    NO_MESSAGE_TO_PEEK = auto()
    NO_MESSAGE_TO_RECEIVE = auto()
    MESSAGE_AVAILABLE = auto()
    WAIT_TIME_EXPIRED = auto()


# A missing pair cannot happen: a cursor that waits refuses every question until its wait has ended.
TRANSITIONS: Final[dict[tuple[CursorState, Event], CursorState]] = {
    (CursorState.UNREAD, Event.PEEK): CursorState.READ,
    (CursorState.UNREAD, Event.DEQUEUE): CursorState.UNREAD,
    (CursorState.UNREAD, Event.NO_MESSAGE_TO_PEEK): CursorState.WAIT_PEEK,
    (CursorState.UNREAD, Event.NO_MESSAGE_TO_RECEIVE): CursorState.WAIT_RECEIVE,
    (CursorState.READ, Event.PEEK): CursorState.READ,
    (CursorState.READ, Event.NEXT_PEEK): CursorState.READ,
    (CursorState.READ, Event.DEQUEUE): CursorState.UNREAD,
    (CursorState.READ, Event.NO_MESSAGE_TO_PEEK): CursorState.WAIT_PEEK,
    (CursorState.WAIT_PEEK, Event.MESSAGE_AVAILABLE): CursorState.READ,
    (CursorState.WAIT_PEEK, Event.WAIT_TIME_EXPIRED): CursorState.UNREAD,
    (CursorState.WAIT_RECEIVE, Event.MESSAGE_AVAILABLE): CursorState.UNREAD,
    (CursorState.WAIT_RECEIVE, Event.WAIT_TIME_EXPIRED): CursorState.UNREAD,
}


@dataclass(slots=True)
class Cursor:
    """One cursor on the positions of one queue. `position` is its place after a call that Succeeded."""

    handle: int
    positions: PositionList
    position: int = START
    state: CursorState = CursorState.UNREAD
    # Of use while the cursor stands at END: the last SequentialID of its time.
    last_sequential_id: int = 0

    @property
    def is_waiting(self) -> bool:
        return self.state in (CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE)

    def get_message_for_peek(self) -> Found:
        """MS-MQDMPR 3.2.7.2."""
        if self.is_waiting:
            return Found.ILLEGAL_CURSOR_ACTION
        if self.state is CursorState.READ:
            return self._current(Event.PEEK)
        return self._advance(self._next_for_peek(), Event.PEEK, Event.NO_MESSAGE_TO_PEEK)

    def get_next_message_for_peek(self) -> Found:
        """MS-MQDMPR 3.2.7.3."""
        if self.state is not CursorState.READ:
            return Found.ILLEGAL_CURSOR_ACTION
        return self._advance(self._next_for_peek(), Event.NEXT_PEEK, Event.NO_MESSAGE_TO_PEEK)

    def get_next_message_for_dequeue(self, *, no_wait: bool) -> Found:
        """MS-MQDMPR 3.2.7.4."""
        if self.is_waiting:
            return Found.ILLEGAL_CURSOR_ACTION
        if self.state is CursorState.READ:
            return self._current(Event.DEQUEUE)
        position = self._next()
        if no_wait and position == END:
            return Found.NOT_FOUND
        return self._advance(position, Event.DEQUEUE, Event.NO_MESSAGE_TO_RECEIVE)

    def message_available(self, lookup_id: int) -> None:
        """MS-MQDMPR 3.2.7.5: the wait brought this message, at any place."""
        self._enter(Event.MESSAGE_AVAILABLE)
        self.position = lookup_id

    def wait_time_expired(self, last_sequential_id: int) -> None:
        """MS-MQDMPR 3.2.7.6. `last_sequential_id` is the last that the queue manager gave."""
        if self.state is CursorState.WAIT_RECEIVE:
            self.position = END
            self.last_sequential_id = last_sequential_id
        self._enter(Event.WAIT_TIME_EXPIRED)

    def _current(self, event: Event) -> Found:
        if self.positions.state(self.position) is not PositionState.AVAILABLE:
            return Found.ALREADY_RECEIVED
        self._enter(event)
        return Found.SUCCEEDED

    def _advance(self, position: int, found: Event, nothing: Event) -> Found:
        if position == END:
            self._enter(nothing)
            return Found.WAITING
        self.position = position
        self._enter(found)
        return Found.SUCCEEDED

    def _next(self) -> int:
        if self.position == END:
            return self.positions.next_arrived(self.last_sequential_id)
        return self.positions.next_available(self.position)

    def _next_for_peek(self) -> int:
        return self._next() if self.position == END else self.positions.next_peekable(self.position)

    def _enter(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]
