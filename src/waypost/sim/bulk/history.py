"""Promises to bulk clients, without the model: see waypost.sim.local.history.

A range that was read up to a stable number is complete: no message appears there later, unless it was moved. A staged
message comes out once if its batch was committed, and otherwise never; a processed part of a claim never comes again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import UnsetType

from waypost.api.bulk import (
    BatchOfQuery,
    BulkQueue,
    CommitStages,
    Committed,
    PlannedRange,
    PlanRange,
    ReadRange,
    Removed,
    RemoveRange,
    ShowBulkQueue,
    Stage,
    Staged,
)
from waypost.api.claims import Claim, Claimed, ReadClaim, TakeClaim, Taken
from waypost.api.frames import Frame
from waypost.guid import guid_text
from waypost.sim.bulk.arguments import PlannedBatch, drafts_in
from waypost.sim.client import Ask, Result
from waypost.sim.local.arguments import Draft, key_of
from waypost.sim.model.records import SEQUENCE
from waypost.sim.model.rows import records
from waypost.sim.violation import Violation

if TYPE_CHECKING:
    from waypost.sim.local.history import History


@dataclass(slots=True)
class Part:
    """A part of a claim: its number of messages, and the messages read from it, with their uids."""

    count: int
    read: dict[int, None] = field(default_factory=dict)
    uids: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class Writing:
    """A batch: its stages, the commits without an answer, and whether it is done."""

    stages: dict[str, list[tuple[str, Draft]]] = field(default_factory=dict)
    unanswered: list[tuple[str, ...]] = field(default_factory=list)
    is_done: bool = False


class BulkHistory:
    def __init__(self, promises: "History") -> None:
        self._promises: Final = promises
        self._parts: Final[dict[tuple[str, int], Part]] = {}
        self._batches: Final[dict[tuple[str, int, str | None, str], Writing]] = {}
        # By epochs: the greatest stable number in an answer, and what was read up to one: (after, up_to], numbers.
        self._stable: Final[dict[str, int]] = {}
        self._complete: Final[dict[str, list[tuple[int, int, frozenset[int]]]]] = {}

    def answered(self, ask: Ask, result: Result) -> None:
        match ask.operation, result.value:
            case ShowBulkQueue(), BulkQueue() as queue:
                self._told(queue.epoch, queue.stable)
            case PlanRange(up_to=UnsetType(), locked="wait"), PlannedRange() as plan:
                self._told(plan.epoch, plan.bounds[-1])
            case ReadRange() as wanted, Frame() as frame:
                self._read(wanted, frame)
            case RemoveRange(), Removed() as removed:
                self._promises.lost(removed.count)
            case Claim(reader="second") as wish, Claimed() as claimed:
                # The first reader settles the parts, unless the claim was forgotten meanwhile.
                self._perhaps_settled(wish)
                self._given(wish, claimed.number, claimed.count)
            case TakeClaim() as take, Taken(is_held=False) as taken:
                self._given_back(take.claim, taken.settled)
            case Claim() as wish, Claimed() as claimed:
                self._claimed(wish, claimed.number, claimed.count)
            case ReadClaim() as wanted, Frame() as frame:
                self._read_part(self._parts[wanted.claim, wanted.number], key_of(wanted.name), frame)
            case Stage() as stage, Staged() as staged:
                drafts = drafts_in(stage)
                self._hide([draft for _, draft in drafts])
                if staged.stage:
                    self._writing(stage).stages[staged.stage] = drafts
                else:
                    self._committed(self._writing(stage), (), is_repeated=True)
            case CommitStages() as commit, Committed() as committed:
                stages = tuple(commit.stages)
                self._perhaps_removed(commit)
                if not committed.is_repeated:
                    self._promises.lost(_removed(commit))
                self._committed(self._writing(commit), stages, is_repeated=committed.is_repeated)

    def unanswered(self, ask: Ask) -> None:
        """Note a request that a crash interrupted or the node refused: whether it was carried out is unknown."""
        match ask.operation:
            case RemoveRange() as wanted:
                self._promises.lost(wanted.max_messages)
            case Claim() as wish:
                self._perhaps_settled(wish)
            case Stage() as stage:
                self._hide([draft for _, draft in drafts_in(stage)])
            case CommitStages() as commit:
                self._perhaps_removed(commit)
                writing, stages = self._writing(commit), tuple(commit.stages)
                if not writing.is_done:
                    self._promises.lost(_removed(commit))
                    writing.unanswered.append(stages)
                    for _, draft in _drafts(writing, stages):
                        self._promises.ending(draft.uid)

    # Ranges.

    def _told(self, epoch: str, stable: int) -> None:
        self._stable[epoch] = max(self._stable.get(epoch, 0), stable)

    def _read(self, wanted: ReadRange, frame: Frame) -> None:
        self._check_complete(frame)
        epoch = guid_text(frame.epoch)
        if wanted.locked == "wait" and frame.end <= self._stable.get(epoch, 0):
            numbers = frozenset(lookup_id & SEQUENCE for lookup_id in frame.numbers())
            self._complete.setdefault(epoch, []).append((wanted.after, frame.end, numbers))

    def _check_complete(self, frame: Frame) -> None:
        regions = self._complete.get(guid_text(frame.epoch), ())
        for lookup_id, record in records(frame):
            number = lookup_id & SEQUENCE
            for after, up_to, numbers in regions:
                if after < number <= up_to and number not in numbers and not record.move_count:
                    raise Violation(
                        f"the range was complete up to {up_to}, "
                        f"but the message {lookup_id:#x} appeared in this range later"
                    )

    # Claims.

    def _claimed(self, wish: Claim, number: int, count: int) -> None:
        part = self._parts.pop((wish.claim, wish.after), None)
        if part is not None:
            for uid in part.uids:
                self._promises.ended(uid, None)
            self._promises.lost(part.count - len(part.read))
        if not wish.after:
            # Perhaps the claim was forgotten, or its queue deleted, and it begins again: earlier parts do not count.
            for key in [key for key in self._parts if key[0] == wish.claim and key[1] >= number]:
                del self._parts[key]
        self._given(wish, number, count)

    def _given(self, wish: Claim, number: int, count: int) -> None:
        if count and self._parts.setdefault((wish.claim, number), Part(count)).count != count:
            raise Violation(
                f"part {number} of the claim {wish.claim} has {count} messages, "
                "but previously had a different number of messages"
            )

    def _given_back(self, claim: str, settled: int) -> None:
        """Forget the parts that a lost claim had: their messages come again."""
        for key in [key for key in self._parts if key[0] == claim and key[1] > settled]:
            del self._parts[key]

    def _perhaps_settled(self, wish: Claim) -> None:
        part = self._parts.get((wish.claim, wish.after))
        if part is not None:
            self._perhaps_ended(part)

    def _perhaps_removed(self, commit: CommitStages) -> None:
        """The end of a lease removes messages of a query that has committed their batch. Its claim has its name."""
        if commit.is_whole:
            for part in [part for key, part in self._parts.items() if key[0] == commit.query]:
                self._perhaps_ended(part)

    def _perhaps_ended(self, part: Part) -> None:
        for uid in part.uids:
            self._promises.ending(uid)
        self._promises.lost(part.count - len(part.read))

    def _read_part(self, part: Part, key: str, frame: Frame) -> None:
        self._check_complete(frame)
        for lookup_id, record in records(frame):
            part.read[lookup_id] = None
            uid = self._promises.uid_in(record.packet, key)
            if uid is not None:
                part.uids[uid] = None

    # Stages.

    def _writing(self, given: BatchOfQuery) -> Writing:
        """The batch, which is the same for all runs."""
        batch = PlannedBatch.of(given)
        key = batch.query, batch.number, batch.to, batch.number_of_write
        return self._batches.setdefault(key, Writing())

    def _hide(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self._promises.unseen(draft.uid)

    def _committed(self, writing: Writing, stages: tuple[str, ...], *, is_repeated: bool) -> None:
        """One commit of a batch was carried out: this one, or an earlier one without an answer."""
        if writing.is_done:
            if not is_repeated:
                raise Violation("the batch was committed twice")
            return
        candidates = writing.unanswered if is_repeated else [stages]
        if not candidates:
            raise Violation(
                "the queue manager reports that a batch is committed, but no client has committed this batch"
            )
        chosen = {stage for each in candidates for stage in each}
        others = [stage for stage in writing.stages if stage not in chosen]
        self._hide([draft for _, draft in _drafts(writing, others)])
        if len(candidates) == 1:
            for key, draft in _drafts(writing, candidates[0]):
                self._promises.seen(draft, key)
        writing.is_done = True


def _removed(commit: CommitStages) -> int:
    return sum(len(each.lookup_ids) for each in commit.removes)


def _drafts(writing: Writing, stages: Sequence[str]) -> list[tuple[str, Draft]]:
    return [each for stage in dict.fromkeys(stages) for each in writing.stages.get(stage, ())]
