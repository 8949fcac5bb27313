"""Stages of the model: messages that are hidden until their batch is committed, which happens once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from waypost.api.bulk import Committed, Stage, Staged
from waypost.clock import Now
from waypost.core.queues import AccessType
from waypost.guid import NULL_GUID, guid_text
from waypost.hresult import HResult
from waypost.node.committed_batches import digest_of
from waypost.sim.bulk.arguments import PlannedBatch, groups_in
from waypost.sim.local.arguments import Draft
from waypost.sim.model.disk import BulkKey, Done, SavedStage, StepKind
from waypost.sim.model.records import ModelMessage, ModelQueue, Refused
from waypost.sim.model.state import ModelState
from waypost.sim.model.transactions import ModelTransaction, ModelTransactions, Step, mark
from waypost.sim.swarm import BulkLimits
from waypost.wire.codec import INFINITE


@dataclass(slots=True, eq=False)
class ModelStage:
    batch: PlannedBatch
    lease_s: float
    deadline: float
    transaction: ModelTransaction

    # The number of staged messages.
    count: int

    @property
    def messages(self) -> list[ModelMessage]:
        return [step.message for step in self.transaction.steps if step.is_alive]


class ModelStages:
    """All stages. `done` are the committed batches of each query and destination, ascending."""

    def __init__(
        self,
        state: ModelState,
        transactions: ModelTransactions,
        limits: BulkLimits,
        queue: Callable[[str, AccessType], ModelQueue],
    ) -> None:
        self._state: Final = state
        self._transactions: Final = transactions
        self._limits: Final = limits
        self._queue: Final = queue
        self.stages: dict[bytes, ModelStage] = {}
        self.done: dict[tuple[str, str | None], tuple[Done, ...]] = {}

    def restore(self, key: BulkKey, saved: SavedStage) -> None:
        assert isinstance(key.name, bytes)
        transaction = ModelTransaction(key.name)
        for number, lookup_id in saved.places:
            queue = self._state.by_number.get(number)
            message = None if queue is None else queue.messages.get(lookup_id)
            if queue is not None and message is not None:
                self._state.lock(message)
                message.is_uncertain = True
                message.is_shown = False
                transaction.steps.append(Step(StepKind.SEND, message, queue))
        if transaction.steps:
            self._state.marks.sometimes("a stage that outlives a restart")
        deadline = self._state.now.monotonic + saved.lease_s
        self.stages[key.name] = ModelStage(saved.batch, saved.lease_s, deadline, transaction, len(saved.places))

    def restore_batches(self, key: BulkKey, done: tuple[Done, ...]) -> None:
        assert isinstance(key.name, tuple)
        self.done[key.name] = done

    def batches_of(self, query: str) -> list[int]:
        return sorted({each.number for key, done in self.done.items() if key[0] == query for each in done})

    def stage(self, identifier: bytes, wanted: Stage, now: Now) -> Staged:
        """`identifier` is the GUID that the engine gives the stage, if it makes one."""
        batch = PlannedBatch.of(wanted)
        if self._is_repeated(batch, b""):
            self._state.marks.sometimes("a stage for what another run has committed")
            return Staged("", 0, is_committed=True)
        if len(self.stages) >= self._limits.stages:
            self._state.marks.sometimes("too many stages")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        transaction = ModelTransaction(identifier)
        try:
            for key, drafts in groups_in(wanted):
                queue = self._transactional(key)
                for alike in drafts:
                    self._send(transaction, queue, alike, now)
        except Refused:
            for step in transaction.steps:
                self._state.remove(step.message)
            raise
        mark(transaction)
        for step in transaction.steps:
            self._state.publish(step.message)
        count = len(transaction.steps)
        lease_s = wanted.lease_s
        self.stages[identifier] = ModelStage(batch, lease_s, now.monotonic + lease_s, transaction, count)
        places = tuple((step.queue.number, step.message.lookup_id) for step in transaction.steps)
        self._state.disk.write(BulkKey(0, identifier), SavedStage(lease_s, batch, places))
        return Staged(guid_text(identifier), count)

    def drop(self, identifiers: Sequence[bytes]) -> None:
        for identifier in identifiers:
            stage = self.stages.get(identifier)
            if stage is not None:
                for message in stage.messages:
                    self._state.remove(message)
                self._forget(identifier)

    def commit(self, batch: PlannedBatch, identifiers: Sequence[bytes]) -> Committed:
        if self._is_repeated(batch, digest_of(identifiers)):
            self._state.marks.sometimes("a commit that is repeated")
            self._drop_all(batch)
            return Committed(0, is_repeated=True)
        for identifier in identifiers:
            self._check(batch, identifier)
        place = batch.query, batch.to
        for done in self._of(batch):
            if len(done) >= self._limits.batches and batch.number < done[0].number:
                self._state.marks.sometimes("a commit of a batch that nobody remembers")
                raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        stages = [stage for identifier, stage in self.stages.items() if identifier in identifiers]
        count = sum(len(stage.messages) for stage in stages)
        for step in _steps(stages):
            if step.is_alive:
                self._transactions.commit_step(step)
        for identifier in dict.fromkeys(identifiers):
            self._forget(identifier)
        if len(stages) > 1:
            self._state.marks.sometimes("a commit of several stages")
        self._drop_all(batch)
        new = Done(batch.number, batch.run, digest_of(identifiers), count)
        every = sorted((*self.done.get(place, ()), new), key=lambda done: done.number)
        self.done[place] = tuple(every[-self._limits.batches :])
        self._state.disk.write(BulkKey(0, place), self.done[place])
        return Committed(count, is_repeated=False)

    def _of(self, batch: PlannedBatch) -> list[tuple[Done, ...]]:
        """The committed batches of the query, for its destination."""
        return [
            done
            for (query, to), done in self.done.items()
            if query == batch.query and (to == batch.to or None in (to, batch.to))
        ]

    def _is_repeated(self, batch: PlannedBatch, digest: bytes) -> bool:
        """Whether the batch is done, and this is not a second one with its name."""
        found = [each for done in self._of(batch) for each in done if each.number == batch.number]
        if not found:
            return False
        if found[0].digest != digest and batch.run in (NULL_GUID, found[0].run):
            self._state.marks.sometimes("a second write of a batch")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        return True

    def _check(self, batch: PlannedBatch, identifier: bytes) -> None:
        stage = self.stages.get(identifier)
        if stage is None or not stage.batch.matches(batch) or stage.batch.run != batch.run:
            self._state.marks.sometimes("a commit of stages that are gone")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if len(stage.messages) != stage.count:
            self._state.marks.sometimes("a commit into a queue that was deleted")
            raise Refused(HResult.MQ_ERROR_QUEUE_DELETED)

    def _drop_all(self, batch: PlannedBatch) -> None:
        """Drop the stages of a batch that is done: they are of no use, and hide later messages."""
        orphans = [identifier for identifier, stage in self.stages.items() if stage.batch.matches(batch)]
        if orphans:
            self._state.marks.sometimes("stages that a commit leaves over")
        self.drop(orphans)

    def tick(self, now: Now) -> None:
        due = [(stage.deadline, identifier) for identifier, stage in self.stages.items()]
        for deadline, identifier in sorted(due):
            if deadline <= now.monotonic:
                self._state.marks.sometimes("a stage whose lease ends")
                self.drop([identifier])

    @property
    def next_deadline(self) -> float | None:
        return min((stage.deadline for stage in self.stages.values()), default=None)

    def _transactional(self, key: str) -> ModelQueue:
        queue = self._queue(key, AccessType.SEND)
        if not queue.plan.transactional:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        return queue

    def _send(self, transaction: ModelTransaction, queue: ModelQueue, drafts: Sequence[Draft], now: Now) -> None:
        """Stage messages that are alike, all of them or none."""
        for draft in drafts:
            draft.send_to(queue.key, is_transactional=True)
        size = drafts[0].size
        if not self._state.has_room(size * len(drafts)) or not queue.has_room(size * len(drafts)):
            self._state.marks.sometimes("a stage that a quota has no room for")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        for draft in drafts:
            message = ModelMessage(draft, size, recoverable=True, transactional=True, is_uncertain=True, is_held=True)
            if draft.time_to_be_received != INFINITE:
                message.expiry = int(now.wall) + draft.time_to_be_received
            self._state.identify(message)
            self._state.place(queue, message)
            transaction.steps.append(Step(StepKind.SEND, message, queue))

    def _forget(self, identifier: bytes) -> None:
        del self.stages[identifier]
        self._state.disk.write(BulkKey(0, identifier), None)


def _steps(stages: list[ModelStage]) -> list[Step]:
    """The messages, in the order in which the stages were made."""
    steps = [step for stage in stages for step in stage.transaction.steps]
    return sorted(steps, key=lambda step: step.message.lookup_id)
