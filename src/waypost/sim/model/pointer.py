"""A cursor of the model: where it stands, and what it says when it is asked."""

from dataclasses import dataclass
from enum import Enum, auto

from waypost.hresult import HResult
from waypost.sim.model.letters import BEFORE_ALL, BEHIND_ALL, SEQUENCE, Box, Letter, Refused, State


class Mood(Enum):
    UNREAD = auto()
    READ = auto()
    WAITS_TO_PEEK = auto()
    WAITS_TO_RECEIVE = auto()


@dataclass(slots=True, eq=False)
class Pointer:
    """At the end it remembers the last number that was given then: only later arrivals are behind it."""

    box: Box
    at: int = BEFORE_ALL
    since: int = 0
    mood: Mood = Mood.UNREAD

    @property
    def waits(self) -> bool:
        return self.mood in (Mood.WAITS_TO_PEEK, Mood.WAITS_TO_RECEIVE)

    def peek(self) -> Letter | None:
        """The letter, or None if it has to be waited for."""
        if self.waits:
            raise Refused(HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        return self._current() if self.mood is Mood.READ else self._move_to(self._next(peek=True), Mood.READ)

    def peek_next(self) -> Letter | None:
        if self.mood is not Mood.READ:
            raise Refused(HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        return self._move_to(self._next(peek=True), Mood.READ)

    def receive(self, *, can_wait: bool) -> Letter | None:
        if self.waits:
            raise Refused(HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION)
        if self.mood is Mood.READ:
            letter = self._current()
            self.mood = Mood.UNREAD
            return letter
        found = self._next(peek=False)
        if found is None and not can_wait:
            raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        return self._move_to(found, Mood.UNREAD)

    def served(self, letter: Letter) -> None:
        self.mood = Mood.READ if self.mood is Mood.WAITS_TO_PEEK else Mood.UNREAD
        self.at = letter.lookup_id

    def gave_up(self, last_sequential_id: int) -> None:
        if self.mood is Mood.WAITS_TO_RECEIVE:
            self.at = BEHIND_ALL
            self.since = last_sequential_id
        self.mood = Mood.UNREAD

    def _current(self) -> Letter:
        letter = self.box.letters.get(self.at)
        if letter is None or letter.state is not State.AVAILABLE:
            raise Refused(HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED)
        return letter

    def _next(self, *, peek: bool) -> Letter | None:
        if self.at == BEHIND_ALL:
            for letter in self.box.following(BEFORE_ALL):
                if letter.state is State.AVAILABLE and letter.lookup_id & SEQUENCE > self.since:
                    return letter
            return None
        for letter in self.box.following(self.at):
            if letter.state is State.AVAILABLE or (peek and letter.is_shown):
                return letter
        return None

    def _move_to(self, letter: Letter | None, mood: Mood) -> Letter | None:
        if letter is None:
            self.mood = Mood.WAITS_TO_PEEK if mood is Mood.READ else Mood.WAITS_TO_RECEIVE
        else:
            self.mood = mood
            self.at = letter.lookup_id
        return letter
