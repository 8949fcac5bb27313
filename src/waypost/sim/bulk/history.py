"""Promises to bulk clients, without the model: see waypost.sim.local.history.

What was read up to a stable number is complete for good: nothing appears there later, unless it was moved. What is
staged comes out once if its batch was committed, and never else; what a part had and was processed never comes again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from waypost.node.bulk import Plan, QueueState, Range, Removal, Rows
from waypost.node.claims import Claimed, NewClaim
from waypost.node.stages import Committed, Staged
from waypost.sim.bulk.arguments import At, Batch, Staging
from waypost.sim.client import Ask, Result
from waypost.sim.local.arguments import Draft
from waypost.sim.model.records import SEQUENCE
from waypost.sim.model.rows import records
from waypost.sim.violation import Violation


class Promises(Protocol):
    """What waypost.sim.local.history keeps."""

    def ending(self, uid: int, /) -> None: ...

    def ended(self, uid: int, transaction: bytes | None, /) -> None: ...

    def seen(self, draft: Draft, key: str, /) -> None:
        """The message has to come out."""

    def unseen(self, uid: int, /) -> None:
        """The message must never come out."""

    def lost(self, count: int, /) -> None:
        """So many may be gone without having come out."""

    def uid_in(self, packet: bytes, key: str, /) -> int | None: ...


@dataclass(slots=True)
class Part:
    """A part of a claim: how many messages it had, those that were read of it, and their uids."""

    count: int
    read: dict[int, None] = field(default_factory=dict)
    uids: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class Writing:
    """A batch: its stages, the commits that were never answered, and whether it is done."""

    stages: dict[bytes, list[tuple[str, Draft]]] = field(default_factory=dict)
    unanswered: list[tuple[bytes, ...]] = field(default_factory=list)
    is_done: bool = False


class BulkHistory:
    def __init__(self, promises: Promises) -> None:
        self._promises: Final = promises
        self._parts: Final[dict[tuple[str, int], Part]] = {}
        self._batches: Final[dict[tuple[str, int, str | None], Writing]] = {}
        # By epochs: the greatest stable number that was told, and what was read up to one: (after, up_to], numbers.
        self._stable: Final[dict[bytes, int]] = {}
        self._complete: Final[dict[bytes, list[tuple[int, int, frozenset[int]]]]] = {}

    def answered(self, ask: Ask, result: Result) -> None:
        match ask.name, ask.arguments, result.value:
            case "describe", _, [QueueState() as state]:
                self._told(state.epoch, state.stable)
            case "plan", (_, Range(up_to=None, skips_locked=False), _), Plan() as plan:
                self._told(plan.epoch, plan.bounds[-1])
            case "read_range", (_, Range() as wanted), Rows() as rows:
                self._read(wanted, rows)
            case "remove", _, Removal(count):
                self._promises.lost(count)
            case "claim", (_, NewClaim() as wish), (_, Claimed(number, count)):
                self._claimed(wish, number, count)
            case "read_claim", (At(key), (str(claim), int(number)), *_), Rows() as rows:
                self._read_part(self._parts[claim, number], key, rows)
            case "stage", (Batch() as batch, Staging() as staging, _), Staged(stage):
                self._hide([draft for _, draft in staging.drafts])
                if stage:
                    self._writing(batch).stages[stage] = staging.drafts
                else:
                    self._committed(self._writing(batch), (), is_repeated=True)
            case "commit_stages", (Batch() as batch, tuple(stages)), Committed() as committed:
                self._committed(self._writing(batch), stages, is_repeated=committed.is_repeated)

    def unanswered(self, ask: Ask) -> None:
        """It was under way in a crash, or refused: nobody knows what was done."""
        match ask.name, ask.arguments:
            case "remove", (_, _, int(count)):
                self._promises.lost(count)
            case "claim", (_, NewClaim(claim, after)) if (claim, after) in self._parts:
                part = self._parts[claim, after]
                for uid in part.uids:
                    self._promises.ending(uid)
                self._promises.lost(part.count - len(part.read))
            case "stage", (_, Staging() as staging, _):
                self._hide([draft for _, draft in staging.drafts])
            case "commit_stages", (Batch() as batch, tuple(stages)):
                writing = self._writing(batch)
                if not writing.is_done:
                    writing.unanswered.append(stages)
                    for _, draft in _drafts(writing, stages):
                        self._promises.ending(draft.uid)

    # Ranges.

    def _told(self, epoch: bytes, stable: int) -> None:
        self._stable[epoch] = max(self._stable.get(epoch, 0), stable)

    def _read(self, wanted: Range, rows: Rows) -> None:
        self._check_complete(rows)
        if wanted.skips_locked:
            return
        if wanted.up_to is None:
            self._told(rows.epoch, rows.end)
        if rows.end <= self._stable.get(rows.epoch, 0):
            numbers = frozenset(lookup_id & SEQUENCE for lookup_id in rows.lookup_ids)
            self._complete.setdefault(rows.epoch, []).append((wanted.after, rows.end, numbers))

    def _check_complete(self, rows: Rows) -> None:
        regions = self._complete.get(rows.epoch, ())
        for lookup_id, record in records(rows):
            number = lookup_id & SEQUENCE
            for after, up_to, numbers in regions:
                if after < number <= up_to and number not in numbers and not record.move_count:
                    raise Violation(f"message {lookup_id:#x} appears in a range that was complete up to {up_to}")

    # Claims.

    def _claimed(self, wish: NewClaim, number: int, count: int) -> None:
        part = self._parts.pop((wish.claim, wish.after), None)
        if part is not None:
            for uid in part.uids:
                self._promises.ended(uid, None)
            self._promises.lost(part.count - len(part.read))
        if not wish.after:
            # Perhaps it was forgotten, or its queue deleted, and it begins again: what it had before is over.
            for key in [key for key in self._parts if key[0] == wish.claim and key[1] >= number]:
                del self._parts[key]
        if count and self._parts.setdefault((wish.claim, number), Part(count)).count != count:
            raise Violation(f"part {number} of the claim {wish.claim} is not the same as before")

    def _read_part(self, part: Part, key: str, rows: Rows) -> None:
        self._check_complete(rows)
        for lookup_id, record in records(rows):
            part.read[lookup_id] = None
            uid = self._promises.uid_in(record.packet, key)
            if uid is not None:
                part.uids[uid] = None

    # Stages.

    def _writing(self, batch: Batch) -> Writing:
        """The same for all runs."""
        return self._batches.setdefault((batch.query, batch.number, batch.to), Writing())

    def _hide(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self._promises.unseen(draft.uid)

    def _committed(self, writing: Writing, stages: tuple[bytes, ...], *, is_repeated: bool) -> None:
        """One of the commits of a batch was done: this one, or one that was not answered."""
        if writing.is_done:
            if not is_repeated:
                raise Violation("a batch was committed twice")
            return
        candidates = writing.unanswered if is_repeated else [stages]
        if not candidates:
            raise Violation("a batch is said to be done, and nobody has committed it")
        chosen = {stage for each in candidates for stage in each}
        others = [stage for stage in writing.stages if stage not in chosen]
        self._hide([draft for _, draft in _drafts(writing, others)])
        if len(candidates) == 1:
            for key, draft in _drafts(writing, candidates[0]):
                self._promises.seen(draft, key)
        writing.is_done = True


def _drafts(writing: Writing, stages: Sequence[bytes]) -> list[tuple[str, Draft]]:
    return [each for stage in dict.fromkeys(stages) for each in writing.stages.get(stage, ())]
