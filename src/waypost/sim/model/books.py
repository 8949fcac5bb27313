"""The letters of the model: how they come, wait, go and are written, and whom their end has to be told."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from waypost.clock import Now
from waypost.core.queues import UNLIMITED
from waypost.sim.marks import Marks
from waypost.sim.model.disk import Disk, SavedBox, SavedLetter
from waypost.sim.model.letters import BEFORE_ALL, KILOBYTE, SEQUENCE, Answer, Box, Key, Letter, State
from waypost.sim.words import Plan
from waypost.wire.message_class import MessageClass

RECEIVED: Final = MessageClass.MQMSG_CLASS_ACK_RECEIVE
PURGED: Final = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
DELETED: Final = MessageClass.MQMSG_CLASS_NACK_Q_DELETED
EXPIRED: Final = MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT

# Which letter, from or in which box, and why.
Departure = tuple[Letter, Box, MessageClass | None]

# When, the place, the number of the timer, which makes it different from every other, and the letter.
Timer = tuple[int, int, int, int, Letter]


@dataclass(slots=True)
class Purge:
    """A purge under way: over what was there, in parts of `Books.purge_part`; `then` is done at its end."""

    box: Box
    last_sequential_id: int
    reason: MessageClass
    then: Callable[[], None]
    at: int = BEFORE_ALL


class Books:
    """Everything that a queue manager knows of its messages.

    `touched` are the boxes that changed since somebody looked; `events` what the end of an operation has to act on: a
    letter that left its box for a reason, or arrived, where the reason is None; or whatever else is to be done then.
    """

    def __init__(self, disk: Disk, marks: Marks, quota: int, purge_part: int, expiry_part: int) -> None:
        self.disk: Final = disk
        self.marks: Final = marks
        self.quota: Final = quota
        self.purge_part: Final = purge_part
        self.expiry_part: Final = expiry_part
        self.now = Now(0.0, 0.0)
        self.sequential_id = 0
        self.last_number = 0
        self.offer: Callable[[Box, Letter], None] = _nobody_waits
        self.expected: dict[Key, Answer] = {}
        self._ready: list[tuple[Key, Answer]] = []
        self._timers_started = 0
        self._answers = 0
        self.forget()

    def forget(self) -> None:
        """The process is gone, and all that was only in memory."""
        self.boxes: dict[str, Box] = {}
        self.by_number: dict[int, Box] = {}
        self.total_bytes = 0
        self.volatile = 0
        self.touched: dict[int, Box] = {}
        self.events: list[Departure | Callable[[], None]] = []
        self.purges: deque[Purge] = deque()
        self.late: deque[Letter] = deque()
        # What is done in parts, in the order of their turns.
        self._parts: dict[str, Callable[[], None]] = {}
        self._timers: list[Timer] = []
        self.expected.clear()
        self._ready.clear()
        self._mark = 0

    def begin(self, now: Now) -> None:
        self.now = now
        self._mark = len(self.disk.making)
        self._expire()

    def answer(self, key: Key, answer: Answer) -> None:
        """The request has its answer at the end of the operation, and gets it when that is durable."""
        self._ready.append((key, answer))

    def end(self) -> None:
        """Everything of the operation is in the batch that is being made."""
        if not self._ready:
            return
        wrote = len(self.disk.making) > self._mark
        for key, answer in self._ready:
            self._answers += 1
            answer.number = self._answers
            if wrote:
                answer.needs = self.disk.token
            elif answer.rests_on_all:
                answer.needs = self.disk.token if self.disk.making else self.disk.token - 1
            elif answer.letters:
                answer.needs = max(letter.written for letter in answer.letters)
                if answer.needs > self.disk.durable:
                    self.marks.sometimes("an answer held back for a read of a pending message")
            self._expect(key, answer)
        self._ready.clear()

    def _expect(self, key: Key, answer: Answer) -> None:
        """What nobody asked for can come twice before it is told once."""
        last = self.expected.setdefault(key, answer)
        while last.again is not None:
            last = last.again
        if last is not answer:
            last.again = answer

    def add_box(self, box: Box) -> None:
        self.boxes[box.key] = box
        self.by_number[box.number] = box

    def new_box(self, key: str, plan: Plan, parent: Box | None) -> Box:
        self.last_number += 1
        box = Box(self.last_number, key, plan, parent)
        self.add_box(box)
        self.save_box(box)
        return box

    def new_provisional_box(self, key: str, plan: Plan, parent: Box) -> Box:
        """A subqueue that is only looked into."""
        box = self.boxes[key] = Box(0, key, plan, parent, is_provisional=True)
        return box

    def keep(self, box: Box) -> Box:
        """The box, from now on one that is saved."""
        if box.is_provisional:
            self.last_number += 1
            box.number, box.is_provisional = self.last_number, False
            self.add_box(box)
            self.save_box(box)
        return box

    def save_box(self, box: Box) -> None:
        self.disk.write(box.number, SavedBox(box.key, box.plan, box.parent.number if box.parent is not None else 0))

    def parts(self, box: Box) -> list[Box]:
        """The subqueues of a queue, then its journal."""
        parts = [part for part in self.boxes.values() if part.parent is box]
        return sorted(parts, key=lambda part: part.is_journal)

    def attempt_failed(self, letter: Letter) -> None:
        """A reader that had it did not get it, or said nothing."""
        letter.abort_count += 1
        if not letter.is_volatile:
            self.save(letter)

    def remove_box(self, box: Box) -> None:
        for letter in list(box.following(BEFORE_ALL)):
            self.deleted(letter, EXPIRED if letter.state is State.LATE else DELETED)
        box.is_deleted = True
        del self.boxes[box.key]
        if box.is_provisional:
            return
        del self.by_number[box.number]
        self.touched.pop(box.number, None)
        self.disk.write(box.number, None)

    def has_room(self, size: int) -> bool:
        return self.quota == UNLIMITED or self.total_bytes + size <= self.quota * KILOBYTE

    def identify(self, letter: Letter) -> None:
        self.sequential_id += 1
        priority = 0 if letter.transactional else 3 if letter.is_acknowledgment else letter.draft.priority
        letter.lookup_id = (7 - priority) << 56 | self.sequential_id

    def place(self, box: Box, letter: Letter) -> None:
        """A held letter is locked, another one written and available."""
        box.put(letter)
        self.touched[box.number] = box
        self.total_bytes += letter.size
        letter.state = State.LOCKED if letter.is_held else State.AVAILABLE
        if letter.is_volatile:
            self.volatile += 1
        else:
            self.save(letter)
        self.start_timer(letter)

    def start_timer(self, letter: Letter) -> None:
        box = letter.box
        assert box is not None
        if letter.expiry is not None and box.lets_expire:
            self._timers_started += 1
            timer = letter.expiry, box.number, letter.lookup_id, self._timers_started, letter
            heappush(self._timers, timer)

    def save(self, letter: Letter) -> None:
        self._write(letter)
        letter.written = self.disk.token

    def save_purge(self, letter: Letter, *, is_purged: bool) -> None:
        """A restart is to find the letter purged, or not any more. The letter itself is where it was."""
        letter.is_purge_saved = is_purged
        self._write(letter)

    def _write(self, letter: Letter) -> None:
        assert letter.box is not None
        saved = SavedLetter(letter, letter.abort_count, letter.move_count, letter.is_purge_saved)
        self.disk.write((letter.box.number, letter.lookup_id), saved)

    def publish(self, letter: Letter) -> None:
        """A held letter is for good."""
        letter.is_held = False
        self.volatile -= 1
        self.save(letter)

    def accept(self, box: Box, letter: Letter) -> bool:
        """Put a letter into a box for all, if there is room."""
        if not self.has_room(letter.size) or not box.has_room(letter.size):
            return False
        self.put_all(box, [letter])
        return True

    def put_all(self, box: Box, letters: list[Letter]) -> None:
        """They come together, and are seen one after the other."""
        for letter in letters:
            self.identify(letter)
            self.place(box, letter)
        self.end_late(letters)
        for letter in letters:
            if letter.box is not None:
                self.arrived(letter)

    def end_late(self, letters: list[Letter]) -> None:
        """A time that is over on arrival takes letters away at once."""
        for letter in letters:
            assert letter.box is not None
            if letter.expiry is not None and letter.expiry <= self.now.wall and letter.box.lets_expire:
                self.deleted(letter, EXPIRED)

    def arrived(self, letter: Letter) -> None:
        letter.is_uncertain = False
        assert letter.box is not None
        if letter.asks and not letter.is_expired:
            self.events.append((letter, letter.box, None))
        self.available(letter)

    def available(self, letter: Letter) -> None:
        if letter.is_expired:
            self.deleted(letter, EXPIRED)
            return
        box = letter.box
        assert box is not None
        self.touched[box.number] = box
        letter.state = State.AVAILABLE
        letter.is_shown = False
        if box.waiting:
            self.offer(box, letter)

    def lock(self, letter: Letter) -> None:
        letter.state = State.LOCKED
        letter.is_shown = letter.draft.allow_peek_when_locked and not letter.is_acknowledgment
        assert letter.box is not None
        self.touched[letter.box.number] = letter.box

    def received(self, letter: Letter) -> None:
        box = letter.box
        assert box is not None
        self.deleted(letter, RECEIVED)
        journal = self.boxes.get(f"{box.key};journal") if box.plan.journaling else None
        if journal is None:
            return
        if not self.has_room(letter.size) or not journal.has_room(letter.size):
            self.marks.sometimes("a copy that no journal has room for")
            return
        self.marks.sometimes("a copy in a journal")
        copy = letter.copy()
        self.identify(copy)
        self.place(journal, copy)
        self.available(copy)

    def deleted(self, letter: Letter, reason: MessageClass) -> None:
        """Nobody is told of a letter that, as its transaction has no outcome, was never sent."""
        box = letter.box
        assert box is not None
        self.remove(letter)
        if letter.asks and not letter.is_uncertain:
            self.events.append((letter, box, reason))

    def remove(self, letter: Letter) -> None:
        box = letter.box
        assert box is not None
        box.take(letter)
        self.touched[box.number] = box
        self.total_bytes -= letter.size
        letter.is_expired = False
        if letter.is_volatile:
            self.volatile -= 1
        else:
            self.disk.write((box.number, letter.lookup_id), None)

    def _expire(self) -> None:
        """Let nobody have a letter whose time is over."""
        while self._timers and self._timers[0][0] <= self.now.wall:
            timer = heappop(self._timers)
            if not _is_running(timer):
                continue
            letter = timer[4]
            if letter.state is State.AVAILABLE:
                self.marks.sometimes("a message that expires in its queue")
                letter.state = State.LATE
                self.late.append(letter)
                self._parts["late"] = self._take_late
                assert letter.box is not None
                self.touched[letter.box.number] = letter.box
            else:
                self.marks.sometimes("a message that expires while it is locked")
                letter.is_expired = True

    @property
    def has_parts(self) -> bool:
        return bool(self._parts)

    def do_parts(self) -> None:
        """One of each purge and of the letters that are late."""
        parts, self._parts = self._parts, {}
        for part in parts.values():
            part()

    def _take_late(self) -> None:
        """Take away `expiry_part` of those that expired, unless something else did."""
        for _ in range(min(self.expiry_part, len(self.late))):
            letter = self.late.popleft()
            if letter.box is not None and letter.state is State.LATE:
                self.deleted(letter, EXPIRED)
        if self.late:
            self._parts["late"] = self._take_late
            self.marks.sometimes("expired messages that are taken away in parts")

    @property
    def next_expiry(self) -> int | None:
        while self._timers and not _is_running(self._timers[0]):
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def purge(self, box: Box, reason: MessageClass, then: Callable[[], None]) -> None:
        self.purges.append(Purge(box, self.sequential_id, reason, then))
        if len(self.purges) == 1:
            self._continue_purge()
        else:
            self.marks.sometimes("a purge in parts")

    def _continue_purge(self) -> None:
        purge = self.purges[0]
        for _ in range(self.purge_part):
            letter = next(iter(purge.box.following(purge.at)), None)
            if letter is None:
                break
            purge.at = letter.lookup_id
            if letter.lookup_id & SEQUENCE <= purge.last_sequential_id:
                self._purge(letter, purge.reason)
            else:
                purge.at |= SEQUENCE
        if purge.box.order and purge.box.order[-1] > purge.at:
            self.marks.sometimes("a purge in parts")
        else:
            self.purges.popleft()
            purge.then()
        if self.purges:
            self._parts["purge"] = self._continue_purge

    def _purge(self, letter: Letter, reason: MessageClass) -> None:
        assert letter.box is not None
        if letter.state in (State.AVAILABLE, State.LATE):
            self.deleted(letter, reason if letter.state is State.AVAILABLE else EXPIRED)
            return
        self.marks.sometimes("a purge of a locked message")
        self.touched[letter.box.number] = letter.box
        letter.state = State.PURGE_PENDING
        letter.is_shown = False
        if not letter.is_volatile:
            self.save_purge(letter, is_purged=True)


def _is_running(timer: Timer) -> bool:
    _, number, _, _, letter = timer
    if letter.box is None or letter.box.number != number:
        return False
    return letter.state is not State.LATE and not letter.is_expired


def _nobody_waits(_box: Box, _letter: Letter) -> None:
    """As long as there are no readers."""
