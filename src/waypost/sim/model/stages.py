"""Stages of the model: messages that are in no queue until their batch is committed, which happens once.

A commit delivers its messages one after the other, some of them at once and the rest in parts, as long as their queues
have room. Commits to the same queue wait for each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from waypost.api.bulk import Batches, Committed, Stage, Staged
from waypost.clock import Now
from waypost.core.queues import AccessType
from waypost.guid import NULL_GUID, guid_text
from waypost.hresult import HResult
from waypost.limits import LOUD_MESSAGE
from waypost.node.committed_batches import NO_WRITE, digest_of_write
from waypost.sim.bulk.arguments import PlannedBatch, groups_in
from waypost.sim.local.arguments import Draft
from waypost.sim.model.disk import BulkKey, Done, SavedDone, SavedStage, StagedMessage
from waypost.sim.model.records import ModelMessage, ModelQueue, Refused
from waypost.sim.model.state import ModelState
from waypost.sim.swarm import BulkLimits
from waypost.wire.base_header import has_expired
from waypost.wire.codec import INFINITE
from waypost.wire.message_class import MessageClass

_NEVER_THERE: Final = MessageClass.MQMSG_CLASS_NACK_BAD_DST_Q
_TOO_LATE: Final = MessageClass.MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT


@dataclass(slots=True, eq=False)
class ModelStage:
    """`messages` are those that are left."""

    batch: PlannedBatch
    lease_s: float
    deadline: float
    # Its place in a commit.
    order: tuple[int, int, int]
    messages: list[StagedMessage]
    count: int
    queues: frozenset[int]
    commit: int = 0
    place: int = 0

    @property
    def size(self) -> int:
        return sum(message.size for message in self.messages)

    @property
    def saved(self) -> SavedStage:
        size, is_committed = self.size, bool(self.commit)
        return SavedStage(self.lease_s, self.batch, len(self.messages), size, is_committed, self.copy())

    def copy(self) -> "ModelStage":
        return replace(self, messages=list(self.messages))


@dataclass(slots=True, eq=False)
class ModelCommit:
    """A commit that is not wholly delivered."""

    batch: PlannedBatch
    stages: list[tuple[bytes, ModelStage]]
    queues: frozenset[int] = frozenset()

    @property
    def left(self) -> int:
        return sum(len(stage.messages) for _, stage in self.stages)


@dataclass(slots=True)
class ModelDone:
    """The commits of a query to a destination, and the writes of a batch that a run has repeated."""

    commits: tuple[Done, ...] = ()
    passed: tuple[tuple[int, bytes, bytes], ...] = ()

    @property
    def saved(self) -> SavedDone:
        return SavedDone(self.commits, self.passed)

    def ordinal(self, batch: PlannedBatch) -> int:
        write = digest_of_write(batch.write)
        if write == NO_WRITE:
            return 0
        passed = [each[2] for each in self.passed if each[:2] == (batch.number, batch.run)]
        own = [each for each in self.commits if (each.number, each.run) == (batch.number, batch.run)]
        if write in passed:
            return passed.index(write)
        return next((each.ordinal for each in own if each.write == write), len(passed) + len(own))


class ModelStages:
    """All stages. `done` are the committed batches of each query and destination."""

    def __init__(
        self,
        state: ModelState,
        limits: BulkLimits,
        queue: Callable[[str, AccessType], ModelQueue],
        rejected: Callable[[ModelMessage, MessageClass], None],
    ) -> None:
        self._state: Final = state
        self._rejected: Final = rejected
        self._limits: Final = limits
        self._queue: Final = queue
        self.stages: dict[bytes, ModelStage] = {}
        self.commits: dict[int, ModelCommit] = {}
        self.done: dict[tuple[str, str | None], ModelDone] = {}
        self._number = 0

    def restore(self, key: BulkKey, saved: SavedStage) -> None:
        assert isinstance(key.name, bytes)
        assert isinstance(saved.stage, ModelStage)
        stage = saved.stage.copy()
        stage.deadline = self._state.now.monotonic + stage.lease_s
        self._number = max(self._number, stage.order[2])
        self._state.staged_bytes += stage.size
        if not stage.commit:
            self.stages[key.name] = stage
            self._state.marks.sometimes("a stage that survives a restart")
            return
        self._state.marks.sometimes("a delivery that continues after a restart")
        commit = self.commits.setdefault(stage.commit, ModelCommit(stage.batch, []))
        commit.stages.append((key.name, stage))

    def restored(self) -> None:
        """Finish restoring: deliveries are in the order of their commits."""
        self.commits = dict(sorted(self.commits.items()))
        for commit in self.commits.values():
            commit.stages.sort(key=lambda each: each[1].place)
            commit.queues = _queues(commit.stages)

    def restore_batches(self, key: BulkKey, saved: SavedDone) -> None:
        assert isinstance(key.name, tuple)
        query, destination = key.name
        assert not isinstance(destination, bytes)
        self.done[query, destination] = ModelDone(saved.commits, saved.passed)

    def batches_of(self, query: str) -> Batches:
        commits = [each for key, done in self.done.items() if key[0] == query for each in done.commits]
        whole = {each.number for each in commits if each.write == NULL_GUID}
        return Batches(sorted({each.number for each in commits}), sorted(whole))

    def stage(self, identifier: bytes, wanted: Stage, now: Now) -> Staged:
        """`identifier` is the GUID that the engine gives the stage, if it makes one."""
        batch = PlannedBatch.of(wanted)
        if self._is_repeated(batch, b""):
            self._state.marks.sometimes("a stage for a batch that another run has committed")
            return Staged("", 0, is_committed=True)
        if len(self.stages) >= self._limits.stages:
            self._state.marks.sometimes("too many stages")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        messages: list[StagedMessage] = []
        for key, drafts in groups_in(wanted):
            queue = self._transactional(key)
            for alike in drafts:
                self._prepare(queue, alike, messages, now)
        _mark(messages)
        self._number += 1
        order = wanted.partition, wanted.serial, self._number
        deadline = now.monotonic + wanted.lease_s
        queues = frozenset(message.queue for message in messages)
        stage = ModelStage(batch, wanted.lease_s, deadline, order, messages, len(messages), queues)
        self.stages[identifier] = stage
        self._state.staged_bytes += stage.size
        self._save(identifier, stage)
        return Staged(guid_text(identifier), stage.count)

    def drop(self, identifiers: Sequence[bytes]) -> None:
        for identifier in identifiers:
            stage = self.stages.pop(identifier, None)
            if stage is not None:
                self._state.staged_bytes -= stage.size
                self._state.disk.write(BulkKey(0, identifier), None)

    def commit(
        self, batch: PlannedBatch, identifiers: Sequence[bytes], digest: bytes, taken: Callable[[], list[ModelMessage]]
    ) -> Committed:
        """`taken` finds the messages to remove, or refuses them; `digest` is of the stages and of these."""
        if self._is_repeated(batch, digest):
            self._state.marks.sometimes("a commit that is repeated")
            self._pass(batch)
            self._drop_all(batch)
            under_way = [commit for commit in self.commits.values() if commit.batch.matches(batch)]
            return Committed(0, is_repeated=True, left=under_way[-1].left if under_way else 0)
        for identifier in identifiers:
            self._check(batch, identifier)
        place = batch.query, batch.to
        for done in self._of(batch):
            numbers = sorted({each.number for each in done.commits})
            if len(numbers) >= self._limits.batches and batch.number < numbers[0]:
                self._state.marks.sometimes("a commit of a batch older than all recorded batches")
                raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        for message in taken():
            self._state.marks.sometimes("a commit that removes messages")
            self._state.received(message)
        stages = [(identifier, self.stages.pop(identifier)) for identifier in dict.fromkeys(identifiers)]
        stages.sort(key=lambda each: each[1].order)
        if [stage.order[2] for _, stage in stages] != sorted(stage.order[2] for _, stage in stages):
            self._state.marks.sometimes("a commit of stages that were created in another order")
        if len(stages) > 1:
            self._state.marks.sometimes("a commit of several stages")
        count = sum(stage.count for _, stage in stages)
        commit = self._begin(batch, stages)
        self._drop_all(batch)
        known = self.done.setdefault(place, ModelDone())
        new = Done(batch.number, batch.run, digest, count, known.ordinal(batch), digest_of_write(batch.write))
        if new.ordinal:
            self._state.marks.sometimes("a batch of several writes")
        commits = sorted((*known.commits, new), key=lambda done: (done.number, done.ordinal))
        kept = sorted({each.number for each in commits})[-self._limits.batches :]
        known.commits = tuple(each for each in commits if each.number in kept)
        known.passed = tuple(each for each in known.passed if each[0] == batch.number)
        self._state.disk.write(BulkKey(0, place), known.saved)
        return Committed(count, is_repeated=False, left=commit.left)

    # Deliveries.

    def look_for_room(self) -> None:
        """Deliver more with the next part if a commit can go on."""
        if self.commits or "delivery" in self._state.works:
            if any(self._is_ready(number) for number in self.commits):
                self._state.works["delivery"] = self._go_on
            else:
                self._state.works.pop("delivery", None)
        if self.commits and "delivery" not in self._state.works:
            self._state.marks.sometimes("a commit that waits for room in a queue")

    def _begin(self, batch: PlannedBatch, stages: list[tuple[bytes, ModelStage]]) -> ModelCommit:
        number = max(self.commits, default=0) + 1
        whole = []
        for place, (identifier, stage) in enumerate(stages):
            stage.commit, stage.place = number, place
            if stage.messages:
                whole.append((identifier, stage))
            else:
                self._state.disk.write(BulkKey(0, identifier), None)
        commit = ModelCommit(batch, whole, _queues(whole))
        if whole:
            self.commits[number] = commit
            for identifier, stage in whole:
                self._save(identifier, stage)
            self._deliver(number)
        return commit

    def _go_on(self) -> None:
        number = next((number for number in self.commits if self._is_ready(number)), None)
        if number is not None:
            self._state.marks.sometimes("a commit that is delivered in parts")
            self._deliver(number)

    def _deliver(self, number: int) -> None:
        budget = self._limits.delivered
        commit = self.commits[number]
        while budget > 0 and self._is_ready(number):
            identifier, stage = commit.stages[0]
            message = stage.messages.pop(0)
            self._state.staged_bytes -= message.size
            self._put(message)
            budget -= LOUD_MESSAGE if message.is_loud else 1
            if stage.messages:
                self._save(identifier, stage)
                continue
            self._state.disk.write(BulkKey(0, identifier), None)
            commit.stages.pop(0)
            if not commit.stages:
                del self.commits[number]

    def _is_ready(self, number: int) -> bool:
        commit = self.commits.get(number)
        if commit is None:
            return False
        if any(not other.queues.isdisjoint(commit.queues) for at, other in self.commits.items() if at < number):
            return False
        message = commit.stages[0][1].messages[0]
        queue = self._state.by_number.get(message.queue)
        return queue is None or not queue.order or queue.has_room(message.size)

    def _put(self, staged: StagedMessage) -> None:
        message = ModelMessage(staged.draft, staged.size, recoverable=True, transactional=True)
        message.expiry, message.is_first, message.is_last = staged.expiry, staged.is_first, staged.is_last
        queue = self._state.by_number.get(staged.queue)
        if queue is None:
            self._state.marks.sometimes("a committed message whose queue no longer exists")
            if message.asks:
                self._rejected(message, _NEVER_THERE)
            return
        self._state.identify(message)
        self._state.place(queue, message)
        wall = self._state.now.wall
        if message.expiry is not None and message.expiry <= wall and queue.lets_expire:
            draft = staged.draft
            is_late = has_expired(message.expiry - draft.time_to_be_received, draft.time_to_be_received, int(wall))
            self._state.marks.sometimes("a message that expires while it is staged")
            self._state.deleted(message, _TOO_LATE if is_late else MessageClass.MQMSG_CLASS_NACK_RECEIVE_TIMEOUT)
            return
        self._state.arrived(message)

    # Internals.

    def _of(self, batch: PlannedBatch) -> list[ModelDone]:
        """The committed batches of the query, for its destination."""
        return [
            done
            for (query, to), done in self.done.items()
            if query == batch.query and (to == batch.to or None in (to, batch.to))
        ]

    def _is_repeated(self, batch: PlannedBatch, digest: bytes) -> bool:
        """Whether the batch is done, and this is not a second one with its name."""
        found = [
            each
            for done in self._of(batch)
            for each in done.commits
            if (each.number, each.ordinal) == (batch.number, done.ordinal(batch))
        ]
        if not found:
            return False
        if found[0].digest != digest and batch.run in (NULL_GUID, found[0].run):
            self._state.marks.sometimes("a second commit of a batch with different contents")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        return True

    def _pass(self, batch: PlannedBatch) -> None:
        place, write = (batch.query, batch.to), digest_of_write(batch.write)
        known = self.done.get(place)
        if known is None or write == NO_WRITE:
            return
        if any((each.number, each.run, each.write) == (batch.number, batch.run, write) for each in known.commits):
            return
        passed = batch.number, batch.run, write
        if passed not in known.passed:
            self._state.marks.sometimes("a run that repeats one of several writes")
            known.passed = (*(each for each in known.passed if each[:2] == passed[:2]), passed)
            self._state.disk.write(BulkKey(0, place), known.saved)

    def _check(self, batch: PlannedBatch, identifier: bytes) -> None:
        stage = self.stages.get(identifier)
        if stage is None or not stage.batch.matches(batch) or stage.batch.writer != batch.writer:
            self._state.marks.sometimes("a commit of stages that no longer exist")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if any(message.queue not in self._state.by_number for message in stage.messages):
            self._state.marks.sometimes("a commit to a queue that was deleted")
            raise Refused(HResult.MQ_ERROR_QUEUE_DELETED)

    def _drop_all(self, batch: PlannedBatch) -> None:
        """Drop the stages of a batch that is done: they are of no use. Those of other writes of the run stay."""
        orphans = [
            identifier
            for identifier, stage in self.stages.items()
            if stage.batch.matches(batch) and (stage.batch.run != batch.run or stage.batch.write == batch.write)
        ]
        if orphans:
            self._state.marks.sometimes("unused stages that a commit deletes")
        self.drop(orphans)

    def tick(self, now: Now) -> None:
        due = [(stage.deadline, identifier) for identifier, stage in self.stages.items()]
        for deadline, identifier in sorted(due):
            if deadline <= now.monotonic:
                self._state.marks.sometimes("a stage whose lease expires")
                self.drop([identifier])

    @property
    def next_deadline(self) -> float | None:
        return min((stage.deadline for stage in self.stages.values()), default=None)

    def _transactional(self, key: str) -> ModelQueue:
        queue = self._queue(key, AccessType.SEND)
        if not queue.plan.transactional:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        return queue

    def _prepare(
        self, queue: ModelQueue, drafts: Sequence[Draft], messages: list[StagedMessage], now: Now
    ) -> None:  # fmt: skip
        """Stage messages that are alike, all of them or none."""
        for draft in drafts:
            draft.send_to(queue.key, is_transactional=True)
        size = drafts[0].size
        before = sum(message.size for message in messages)
        if not self._state.has_room(before + size * len(drafts)):
            self._state.marks.sometimes("a stage that does not fit into a quota")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        if not queue.can_ever_fit(size):
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        for draft in drafts:
            lasts = draft.time_to_be_received == INFINITE
            expiry = None if lasts else int(now.wall) + draft.time_to_be_received
            asks = ModelMessage(draft, size, recoverable=True, transactional=True).asks
            messages.append(StagedMessage(queue.number, draft, size, expiry, is_loud=asks or not lasts))

    def _save(self, identifier: bytes, stage: ModelStage) -> None:
        self._state.disk.write(BulkKey(0, identifier), stage.saved)


def _queues(stages: Sequence[tuple[bytes, ModelStage]]) -> frozenset[int]:
    return frozenset(queue for _, stage in stages for queue in stage.queues)


def _mark(messages: Sequence[StagedMessage]) -> None:
    """Mark the first and the last message for each queue."""
    for number in {message.queue for message in messages}:
        own = [message for message in messages if message.queue == number]
        own[0].is_first = own[-1].is_last = True
