"""A cursor of the model: its position, and its answers."""

from dataclasses import dataclass
from enum import Enum, auto

from waypost.hresult import HResult
from waypost.sim.model.records import BEFORE_ALL, BEHIND_ALL, SEQUENCE, ModelMessage, ModelQueue, Refused, State


class CursorState(Enum):
    UNREAD = auto()
    READ = auto()
    WAITS_TO_PEEK = auto()
    WAITS_TO_RECEIVE = auto()


@dataclass(slots=True, eq=False)
class ModelCursor:
    """A cursor. At the end it remembers the last number that was given then: only later arrivals come after it."""

    queue: ModelQueue
    at: int = BEFORE_ALL
    since: int = 0
    mood: CursorState = CursorState.UNREAD

    @property
    def waits(self) -> bool:
        return self.mood in (CursorState.WAITS_TO_PEEK, CursorState.WAITS_TO_RECEIVE)

    def peek(self) -> ModelMessage | None:
        """The message, or None if the read has to wait for one."""
        if self.waits:
            raise Refused(HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        return (
            self._current() if self.mood is CursorState.READ else self._move_to(self._next(peek=True), CursorState.READ)
        )

    def peek_next(self) -> ModelMessage | None:
        if self.mood is not CursorState.READ:
            raise Refused(HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        return self._move_to(self._next(peek=True), CursorState.READ)

    def receive(self, *, can_wait: bool) -> ModelMessage | None:
        if self.waits:
            raise Refused(HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        if self.mood is CursorState.READ:
            message = self._current()
            self.mood = CursorState.UNREAD
            return message
        found = self._next(peek=False)
        if found is None and not can_wait:
            raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        return self._move_to(found, CursorState.UNREAD)

    def served(self, message: ModelMessage) -> None:
        self.mood = CursorState.READ if self.mood is CursorState.WAITS_TO_PEEK else CursorState.UNREAD
        self.at = message.lookup_id

    def gave_up(self, last_sequential_id: int) -> None:
        if self.mood is CursorState.WAITS_TO_RECEIVE:
            self.at = BEHIND_ALL
            self.since = last_sequential_id
        self.mood = CursorState.UNREAD

    def _current(self) -> ModelMessage:
        message = self.queue.messages.get(self.at)
        if message is None or message.state is not State.AVAILABLE:
            raise Refused(HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED)
        return message

    def _next(self, *, peek: bool) -> ModelMessage | None:
        if self.at == BEHIND_ALL:
            for message in self.queue.following(BEFORE_ALL):
                if message.state is State.AVAILABLE and message.lookup_id & SEQUENCE > self.since:
                    return message
            return None
        for message in self.queue.following(self.at):
            if message.state is State.AVAILABLE or (peek and message.is_shown):
                return message
        return None

    def _move_to(self, message: ModelMessage | None, mood: CursorState) -> ModelMessage | None:
        if message is None:
            self.mood = CursorState.WAITS_TO_PEEK if mood is CursorState.READ else CursorState.WAITS_TO_RECEIVE
        else:
            self.mood = mood
            self.at = message.lookup_id
        return message
