"""Stages of the model: letters that nobody sees until their batch is committed, which happens once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.queues import AccessType
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.node.commits import digest_of
from waypost.node.stages import Committed, Staged
from waypost.sim.bulk.limits import BulkLimits
from waypost.sim.bulk.words import Batch, Staging
from waypost.sim.model.books import Books
from waypost.sim.model.disk import BulkKey, Done, Operation, SavedStage
from waypost.sim.model.letters import Box, Letter, Refused
from waypost.sim.model.works import Step, Work, Works, mark
from waypost.sim.words import Draft
from waypost.wire.codec import INFINITE


@dataclass(slots=True, eq=False)
class Stage:
    batch: Batch
    lease_s: float
    deadline: float
    work: Work

    # How many messages were staged.
    count: int

    @property
    def letters(self) -> list[Letter]:
        return [step.letter for step in self.work.steps if step.is_alive]


class Stages:
    """`done` are the batches of each query and destination that are committed, ascending."""

    def __init__(
        self, books: Books, works: Works, limits: BulkLimits, box: Callable[[str, AccessType], Box]
    ) -> None:  # fmt: skip
        self._books: Final = books
        self._works: Final = works
        self._limits: Final = limits
        self._box: Final = box
        self.stages: dict[bytes, Stage] = {}
        self.done: dict[tuple[str, str | None], tuple[Done, ...]] = {}

    def restore(self, key: BulkKey, saved: SavedStage) -> None:
        assert isinstance(key.name, bytes)
        work = Work(key.name)
        for number, lookup_id in saved.places:
            box = self._books.by_number.get(number)
            letter = None if box is None else box.letters.get(lookup_id)
            if box is not None and letter is not None:
                self._books.lock(letter)
                letter.is_uncertain = True
                letter.is_shown = False
                work.steps.append(Step(Operation.SEND, letter, box))
        if work.steps:
            self._books.marks.sometimes("a stage that outlives a restart")
        deadline = self._books.now.monotonic + saved.lease_s
        self.stages[key.name] = Stage(saved.batch, saved.lease_s, deadline, work, len(saved.places))

    def restore_batches(self, key: BulkKey, done: tuple[Done, ...]) -> None:
        assert isinstance(key.name, tuple)
        self.done[key.name] = done

    def batches_of(self, query: str) -> list[int]:
        return sorted({each.number for key, done in self.done.items() if key[0] == query for each in done})

    def stage(self, batch: Batch, staging: Staging, lease_s: float, now: Now) -> Staged:
        if self._is_repeated(batch, b""):
            self._books.marks.sometimes("a stage for what another run has committed")
            return Staged(b"", 0)
        if len(self.stages) >= self._limits.stages:
            self._books.marks.sometimes("too many stages")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        work = Work(staging.stage)
        try:
            for key, alike, others in staging.groups:
                box = self._transactional(key)
                if alike is not None:
                    self._send(work, box, alike.drafts, now)
                for draft in others:
                    self._send(work, box, (draft,), now)
        except Refused:
            for step in work.steps:
                self._books.remove(step.letter)
            raise
        mark(work)
        for step in work.steps:
            self._books.publish(step.letter)
        count = len(work.steps)
        stage = self.stages[staging.stage] = Stage(batch, lease_s, now.monotonic + lease_s, work, count)
        places = tuple((step.box.number, step.letter.lookup_id) for step in work.steps)
        self._books.disk.write(BulkKey(0, staging.stage), SavedStage(stage.lease_s, batch, places))
        return Staged(staging.stage, count)

    def drop(self, identifiers: Sequence[bytes]) -> None:
        for identifier in identifiers:
            stage = self.stages.get(identifier)
            if stage is not None:
                for letter in stage.letters:
                    self._books.remove(letter)
                self._forget(identifier)

    def commit(self, batch: Batch, identifiers: Sequence[bytes]) -> Committed:
        if self._is_repeated(batch, digest_of(identifiers)):
            self._books.marks.sometimes("a commit that is repeated")
            self._drop_all(batch)
            return Committed(0, is_repeated=True)
        for identifier in identifiers:
            self._check(batch, identifier)
        place = batch.query, batch.to
        for done in self._of(batch):
            if len(done) >= self._limits.batches and batch.number < done[0].number:
                self._books.marks.sometimes("a commit of a batch that nobody remembers")
                raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        stages = [stage for identifier, stage in self.stages.items() if identifier in identifiers]
        count = sum(len(stage.letters) for stage in stages)
        for step in _steps(stages):
            if step.is_alive:
                self._works.commit_step(step)
        for identifier in dict.fromkeys(identifiers):
            self._forget(identifier)
        if len(stages) > 1:
            self._books.marks.sometimes("a commit of several stages")
        self._drop_all(batch)
        new = Done(batch.number, batch.run, digest_of(identifiers), count)
        every = sorted((*self.done.get(place, ()), new), key=lambda done: done.number)
        self.done[place] = tuple(every[-self._limits.batches :])
        self._books.disk.write(BulkKey(0, place), self.done[place])
        return Committed(count, is_repeated=False)

    def _of(self, batch: Batch) -> list[tuple[Done, ...]]:
        """What is done of the query, for its destination."""
        return [
            done
            for (query, to), done in self.done.items()
            if query == batch.query and (to == batch.to or None in (to, batch.to))
        ]

    def _is_repeated(self, batch: Batch, digest: bytes) -> bool:
        """Whether the batch is done, and this is not a second one of its name."""
        found = [each for done in self._of(batch) for each in done if each.number == batch.number]
        if not found:
            return False
        if found[0].digest != digest and batch.run in (NULL_GUID, found[0].run):
            self._books.marks.sometimes("a second write of a batch")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        return True

    def _check(self, batch: Batch, identifier: bytes) -> None:
        stage = self.stages.get(identifier)
        if stage is None or not stage.batch.matches(batch) or stage.batch.run != batch.run:
            self._books.marks.sometimes("a commit of stages that are gone")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if len(stage.letters) != stage.count:
            self._books.marks.sometimes("a commit into a queue that was deleted")
            raise Refused(HResult.MQ_ERROR_QUEUE_DELETED)

    def _drop_all(self, batch: Batch) -> None:
        """What is staged for a batch that is done is of no use, and hides what comes later."""
        orphans = [identifier for identifier, stage in self.stages.items() if stage.batch.matches(batch)]
        if orphans:
            self._books.marks.sometimes("stages that a commit leaves over")
        self.drop(orphans)

    def tick(self, now: Now) -> None:
        due = [(stage.deadline, identifier) for identifier, stage in self.stages.items()]
        for deadline, identifier in sorted(due):
            if deadline <= now.monotonic:
                self._books.marks.sometimes("a stage whose lease ends")
                self.drop([identifier])

    @property
    def next_deadline(self) -> float | None:
        return min((stage.deadline for stage in self.stages.values()), default=None)

    def _transactional(self, key: str) -> Box:
        box = self._box(key, AccessType.SEND)
        if not box.plan.transactional:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        return box

    def _send(self, work: Work, box: Box, drafts: Sequence[Draft], now: Now) -> None:
        """Messages that are alike, all of them or none."""
        size = drafts[0].size
        if not self._books.has_room(size * len(drafts)) or not box.has_room(size * len(drafts)):
            self._books.marks.sometimes("a stage that a quota has no room for")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        for draft in drafts:
            letter = Letter(draft, size, recoverable=True, transactional=True, is_uncertain=True, is_held=True)
            if draft.time_to_be_received != INFINITE:
                letter.expiry = int(now.wall) + draft.time_to_be_received
            self._books.identify(letter)
            self._books.place(box, letter)
            work.steps.append(Step(Operation.SEND, letter, box))

    def _forget(self, identifier: bytes) -> None:
        del self.stages[identifier]
        self._books.disk.write(BulkKey(0, identifier), None)


def _steps(stages: list[Stage]) -> list[Step]:
    """In the order in which the stages were made."""
    steps = [step for stage in stages for step in stage.work.steps]
    return sorted(steps, key=lambda step: step.letter.lookup_id)
