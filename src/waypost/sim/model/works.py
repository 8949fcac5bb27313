"""Transactions of the model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from waypost.hresult import HResult
from waypost.sim.model.books import DELETED, PURGED, RECEIVED, Books
from waypost.sim.model.disk import Operation, SavedStep
from waypost.sim.model.letters import Box, Letter, Refused, State
from waypost.wire.message_class import MessageClass

# Whether somebody holds a letter.
Holds = Callable[[Letter], bool]


@dataclass(slots=True, eq=False)
class Step:
    """One operation of a transaction on a letter that is locked for it in `box`. `reason` is that of a receive."""

    operation: Operation
    letter: Letter
    box: Box
    target: Box | None = None
    reason: MessageClass = RECEIVED

    @property
    def is_alive(self) -> bool:
        """A queue that was deleted took its letters along."""
        return self.letter.box is self.box


@dataclass(slots=True, eq=False)
class Work:
    """A transaction. One of a coordinator `is_external`, and outlives the process once it is prepared."""

    identifier: bytes
    is_external: bool = False
    is_prepared: bool = False
    steps: list[Step] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        return self.is_prepared and self.is_external


class Works:
    def __init__(self, books: Books) -> None:
        self._books: Final = books
        self.works: dict[bytes, Work] = {}
        self.in_doubt: dict[bytes, None] = {}
        # Whoever keeps the claims takes this place.
        self.is_claimed: Holds = _nobody_claims

    def begin(self, identifier: bytes) -> Work:
        if identifier in self.works:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        work = self.works[identifier] = Work(identifier)
        return work

    def is_open(self, identifier: bytes) -> bool:
        work = self.works.get(identifier)
        return work is not None and not work.is_prepared

    def record(self, identifier: bytes, step: Step) -> None:
        self.works[identifier].steps.append(step)

    def received(self, identifier: bytes, letter: Letter) -> Step | None:
        """The receive of this letter in the transaction, if the letter is still there."""
        work = self.works.get(identifier)
        for step in () if work is None else work.steps:
            if step.letter is letter and step.operation is Operation.RECEIVE and step.is_alive:
                return step
        return None

    def take_back(self, identifier: bytes, letter: Letter) -> None:
        """A letter did not reach the one who received it in a transaction, which goes on without it."""
        step = self.received(identifier, letter)
        assert step is not None
        self.works[identifier].steps.remove(step)
        self.release(letter, PURGED)

    def takes(self, letter: Letter) -> bool:
        """Whether some transaction or claim is about to take the letter from its box."""
        return self.is_claimed(letter) or any(
            step.letter is letter and step.is_alive and step.operation is not Operation.SEND
            for work in self.works.values()
            for step in work.steps
        )

    def taken(self, letter: Letter) -> Step | None:
        """The receive of the letter in a transaction that can still change its mind."""
        for identifier, work in self.works.items():
            if not work.is_prepared and (step := self.received(identifier, letter)) is not None:
                return step
        return None

    def prepare(self, work: Work) -> None:
        """Only external ones are prepared; what they send is written now."""
        if work.is_prepared:
            return
        work.is_prepared = True
        mark(work)
        for step in work.steps:
            if step.operation is Operation.SEND and step.is_alive:
                self._books.publish(step.letter)
        saved = (
            SavedStep(
                step.operation,
                (step.box.number, step.letter.lookup_id),
                0 if step.target is None else step.target.number,
                step.reason,
            )
            for step in work.steps
        )
        self._books.disk.write(work.identifier, tuple(saved))

    def commit(self, identifier: bytes) -> None:
        work = self._end(identifier)
        if not work.is_prepared:
            mark(work)
        if len({step.box.number for step in work.steps}) > 1:
            self._books.marks.sometimes("a commit over several queues")
        for step in work.steps:
            if step.is_alive:
                self.commit_step(step)

    def abort(self, identifier: bytes) -> None:
        for step in self._end(identifier).steps:
            if step.is_alive:
                self._abort(step)

    def _end(self, identifier: bytes) -> Work:
        work = self.works.pop(identifier, None)
        if work is None:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.in_doubt.pop(identifier, None)
        if work.is_kept:
            self._books.disk.write(identifier, None)
        return work

    def commit_step(self, step: Step) -> None:
        books, letter = self._books, step.letter
        if step.operation is Operation.SEND:
            if letter.is_held:
                books.publish(letter)
            elif letter.is_purge_saved:
                # It was not there yet for the one who purged, and is not to be lost in the next restart.
                books.save_purge(letter, is_purged=False)
            books.arrived(letter)
        elif step.operation is Operation.RECEIVE:
            if step.reason is RECEIVED:
                books.received(letter)
            else:
                books.deleted(letter, step.reason)
        else:
            books.marks.sometimes("a message moved in a transaction")
            assert step.target is not None
            self.move(letter, step.target)

    def _abort(self, step: Step) -> None:
        books, letter = self._books, step.letter
        if step.operation is Operation.SEND:
            books.remove(letter)
            return
        letter.abort_count += 1
        if not letter.is_volatile:
            books.save(letter)
        books.marks.sometimes("an abort that returns a message")
        if step.box.waiting and letter.state is not State.PURGE_PENDING and not letter.is_expired:
            books.marks.sometimes("an abort that serves a waiting reader")
        # Who receives and takes it back after a purge has had it all the same, says the text.
        self.release(letter, step.reason if step.operation is Operation.RECEIVE else PURGED)

    def release(self, letter: Letter, reason_if_purged: MessageClass) -> None:
        if letter.state is State.PURGE_PENDING:
            self._books.deleted(letter, reason_if_purged)
        else:
            self._books.available(letter)

    def move(self, letter: Letter, target: Box) -> None:
        books = self._books
        if target.is_deleted:
            books.marks.sometimes("a move to a queue that was deleted")
            books.deleted(letter, DELETED)
            return
        books.remove(letter)
        letter.move_count += 1
        letter.abort_count = 0
        letter.is_shown = letter.is_purge_saved = False
        books.place(target, letter)
        books.end_late([letter])
        if letter.box is not None:
            books.available(letter)


def mark(work: Work) -> None:
    """The first and the last letter that goes to one queue say so."""
    sends: dict[int, list[Letter]] = {}
    for step in work.steps:
        if step.operation is Operation.SEND and step.is_alive:
            sends.setdefault(step.box.number, []).append(step.letter)
    for letters in sends.values():
        letters[0].is_first = True
        letters[-1].is_last = True


def _nobody_claims(_letter: Letter) -> bool:
    return False
