"""The bulk interface in the model: the operations of waypost.sim.bulk.desk under the same names.

Every answer rests on all that was done before it. What is claimed is in waypost.sim.model.claims, what is staged in
waypost.sim.model.stages.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.hresult import HResult
from waypost.node.application import Call
from waypost.node.bulk import Plan, QueueState, Range, Removal, Rows
from waypost.node.claims import NewClaim
from waypost.sim.bulk.limits import BulkLimits
from waypost.sim.bulk.words import At, Batch, Staging
from waypost.sim.model.books import Books
from waypost.sim.model.claims import Claims
from waypost.sim.model.disk import SavedClaim, SavedStage
from waypost.sim.model.letters import SEQUENCE, Answer, Box, Letter, Refused, State
from waypost.sim.model.rows import check_rows, row_of
from waypost.sim.model.stages import Stages
from waypost.sim.model.works import Works
from waypost.sim.violation import Violation


@dataclass(frozen=True, slots=True)
class Openings:
    """What of the oracle is needed: the box that may be opened, whether the disk can write, and whether it has room for
    something new. All raise Refused.
    """

    box: Callable[[str, AccessType], Box]
    check_store: Callable[[], None]
    check_room: Callable[[], None]


@dataclass(slots=True)
class Known:
    """What outlives the process without being on the disk: the limits, and which box has which epoch, as was told."""

    limits: BulkLimits
    epochs: dict[bytes, int] = field(default_factory=dict)

    def check_epoch(self, box: int, epoch: bytes) -> None:
        if self.epochs.setdefault(epoch, box) != box or list(self.epochs.values()).count(box) > 1:
            raise Violation(
                f"the queue {box} says that its epoch is {epoch.hex()}, which it was not or another one has"
            )


class Bulk:
    def __init__(self, books: Books, works: Works, openings: Openings, known: Known) -> None:
        self._books: Final = books
        self._openings: Final = openings
        self._known: Final = known
        self.claims: Final = Claims(books, works, known.limits.claims)
        self.stages: Final = Stages(books, works, known.limits, openings.box)

    def restore(self) -> None:
        """What is on the disk holds its letters again."""
        for key, saved in sorted(self._books.disk.bulk.items(), key=lambda each: (each[0].box, str(each[0].name))):
            if isinstance(saved, SavedClaim):
                self.claims.restore(key, saved)
            elif isinstance(saved, SavedStage):
                self.stages.restore(key, saved)
            else:
                self.stages.restore_batches(key, saved)

    def tick(self, now: Now) -> None:
        self.claims.tick(now)
        self.stages.tick(now)

    @property
    def next_deadline(self) -> float | None:
        deadlines = self.claims.next_deadline, self.stages.next_deadline
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def box_deleted(self, box: Box) -> None:
        self.claims.forget(box)

    # Ranges.

    def describe(self, call: Call, at: At) -> None:
        box = self._box(at)
        numbers = _numbers(box.letters.values())
        held = [letter for letter in box.letters.values() if letter.state is not State.AVAILABLE]
        due = numbers[:1], numbers[-1:], self._end_before(held), self._end_before(_uncommitted(box)), len(held)
        behind = sum(
            not letter.is_uncertain and letter.lookup_id & SEQUENCE > due[2] for letter in box.letters.values()
        )
        if held:
            self._books.marks.sometimes("a stable number that something holds back")
        if held and behind:
            self._books.marks.sometimes("a reader who is told what holds messages back")

        def check(states: list[QueueState]) -> None:
            (state,) = states
            self._known.check_epoch(box.number, state.epoch)
            ends = [state.first][: state.first], [state.last][: state.last]
            found = *ends, state.stable, state.committed, state.held
            if found != due or state.queue.number != box.number:
                raise Violation(f"{box.key} is said to be {found}, and {due} was due")
            if state.behind != behind or bool(state.held_by) != bool(behind):
                raise Violation(f"{state.behind} messages of {box.key} are said to be held back, and {behind} are")

        self._answer(call, check, max(due[2], due[3]))

    def plan(self, call: Call, at: At, wanted: Range, parts: int) -> None:
        box = self._box(at)
        up_to = self._up_to(box, wanted)
        numbers = _numbers(_seen(box, wanted, up_to))
        limits = [len(numbers)]
        if wanted.max_messages is not None:
            limits.append(wanted.max_messages)
        if wanted.max_bytes is not None and box.total_bytes:
            limits.append(max(wanted.max_bytes * len(box.order) // box.total_bytes, 1))
        planned = numbers[: min(limits)]

        def check(plan: Plan) -> None:
            self._known.check_epoch(box.number, plan.epoch)
            _check_plan(plan, wanted.after, planned, parts)

        self._answer(call, check, planned[-1] if planned else 0)

    def read_range(self, call: Call, at: At, wanted: Range) -> None:
        box = self._box(at)
        up_to = self._up_to(box, wanted)
        rows = [row_of(letter) for letter in _seen(box, wanted, up_to)]

        def check(found: Rows) -> None:
            self._known.check_epoch(box.number, found.epoch)
            count = check_rows(f"the range up to {up_to} of {box.key}", found, rows, wanted.max_bytes)
            if count < len(rows):
                self._books.marks.sometimes("a range that is read in several frames")
            if wanted.max_messages is not None and count > wanted.max_messages:
                raise Violation(f"{count} messages of {box.key} were read, and at most {wanted.max_messages} were due")
            end = up_to if count == len(rows) else rows[count - 1].lookup_id & SEQUENCE
            if (found.end, found.is_last) != (end, count == len(rows)):
                raise Violation(f"{box.key} was read to {found.end}, and that is really {end} of {up_to}")

        self._answer(call, check, max((row.lookup_id & SEQUENCE for row in rows), default=0))

    def seq_at(self, call: Call, at: At, time: float) -> None:
        """Before all time, behind all time, or anywhere between, as the clocks were."""
        box = self._box(at)
        numbers = [0, *_numbers(_seen(box, Range(), SEQUENCE))]
        due = numbers[:1] if time <= 0 else numbers[-1:] if time == float("inf") else numbers

        def check(seq: int) -> None:
            if seq not in due:
                raise Violation(f"number {seq} of {box.key} is the last that came before {time}, and {due} were due")

        self._answer(call, check)

    def remove(self, call: Call, at: At, up_to: int, max_messages: int) -> None:
        self._openings.check_store()
        box = self._box(at)
        if any(handle.share is ShareMode.DENY_RECEIVE for handle in box.handles.values()):
            raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
        limit = min(max_messages, self._known.limits.removed)
        free = _seen(box, Range(skips_locked=True), up_to)[:limit]
        for letter in free:
            self._books.received(letter)
        due = Removal(len(free), len(_seen(box, Range(), up_to)))
        if free:
            self._books.marks.sometimes("messages removed up to a number")
        self._expect(call, due)

    # Claims.

    def claim(self, call: Call, at: At, wish: NewClaim) -> None:
        self._openings.check_store()
        self._books.keep(self._openings.box(at.key, AccessType.PEEK))
        box = self._box(at)
        due = self.claims.claim(box, wish, call.now)

        def check(found: tuple[bytes, object]) -> None:
            self._known.check_epoch(box.number, found[0])
            if found[1] != due:
                raise Violation(f"the claim {wish.claim} on {box.key} got {found[1]}, and {due} was due")

        self._answer(call, check)

    def read_claim(self, call: Call, at: At, part: tuple[str, int], places: range, max_bytes: int) -> None:
        box = self._box(at)
        rows = self.claims.rows(box, part, call.now)[places.start : places.stop]

        def check(found: Rows) -> None:
            self._known.check_epoch(box.number, found.epoch)
            count = check_rows(f"part {part[1]} of the claim {part[0]}", found, rows, max_bytes)
            if (found.end, found.is_last) != (places.start + count, count == len(rows)):
                raise Violation(f"the claim {part[0]} was read to {found.end} of {places}, and {count} messages came")

        self._answer(call, check)

    def return_claim(self, call: Call, at: At, claim: str) -> None:
        self._openings.check_store()
        self._expect(call, self.claims.give_back((self._box(at).number, claim)))

    def list_claims(self, call: Call, at: At) -> None:
        due = self.claims.held(self._box(at), call.now)
        self._answer(call, lambda found: _check_held(found, due))

    # Stages.

    def stage(self, call: Call, batch: Batch, staging: Staging, lease_s: float) -> None:
        self._openings.check_room()
        self._expect(call, self.stages.stage(batch, staging, lease_s, call.now))

    def drop_stages(self, call: Call, stages: tuple[bytes, ...]) -> None:
        self._openings.check_store()
        self.stages.drop(stages)
        self._expect(call, None)

    def commit_stages(self, call: Call, batch: Batch, stages: tuple[bytes, ...]) -> None:
        self._openings.check_store()
        self._expect(call, self.stages.commit(batch, stages))

    def list_batches(self, call: Call, query: str) -> None:
        self._expect(call, self.stages.batches_of(query))

    # How it is done.

    def _box(self, at: At) -> Box:
        box = self._books.boxes.get(at.key)
        if box is None or box.is_provisional:
            raise Refused(HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        if at.epoch and self._known.epochs[at.epoch] != box.number:
            self._books.marks.sometimes("a bulk reader whose queue was made anew")
            raise Refused(HResult.MQ_ERROR_QUEUE_DELETED)
        return box

    def _up_to(self, box: Box, wanted: Range) -> int:
        if wanted.up_to is not None:
            return wanted.up_to
        held = [letter for letter in box.letters.values() if letter.state is not State.AVAILABLE]
        return self._end_before(_uncommitted(box) if wanted.skips_locked else held)

    def _end_before(self, letters: Sequence[Letter]) -> int:
        return min(_numbers(letters), default=self._books.sequential_id + 1) - 1

    def _answer(self, call: Call, check: Callable[[Any], None], told: int = 0) -> None:
        self._books.answer(call.request, Answer(check=check, rests_on_all=True, told=told))

    def _expect(self, call: Call, due: object) -> None:
        def check(found: object) -> None:
            if found != due:
                raise Violation(f"request {call.request} was answered with {found}, and {due} was due")

        self._answer(call, check)


def _uncommitted(box: Box) -> list[Letter]:
    return [letter for letter in box.letters.values() if letter.is_uncertain]


def _seen(box: Box, wanted: Range, up_to: int) -> list[Letter]:
    """What a reader is shown of a range, in the order of arrival."""
    letters = sorted(box.letters.values(), key=lambda letter: letter.lookup_id & SEQUENCE)
    return [
        letter
        for letter in letters
        if wanted.after < letter.lookup_id & SEQUENCE <= up_to
        and not letter.is_uncertain
        and (letter.state is State.AVAILABLE or not wanted.skips_locked)
    ]


def _numbers(letters: "Sequence[Letter] | Any") -> list[int]:
    return sorted(letter.lookup_id & SEQUENCE for letter in letters)


def _check_plan(plan: Plan, after: int, planned: list[int], parts: int) -> None:
    """All that is planned is in one part, and the parts are about the same."""
    counts = plan.counts
    if sum(counts) != len(planned) or len(counts) != min(parts, len(planned)) or len(plan.bounds) != len(counts) + 1:
        raise Violation(f"the plan has parts of {counts} messages, and {len(planned)} in {parts} parts were due")
    if counts and max(counts) - min(counts) > 1:
        raise Violation(f"the parts of the plan are of unlike counts: {counts}")
    ends = [planned[sum(counts[: part + 1]) - 1] for part in range(len(counts))]
    if plan.bounds != [after, *ends]:
        raise Violation(f"the parts of the plan end at {plan.bounds[1:]}, and their messages at {ends}")


def _check_held(found: list[Any], due: list[Any]) -> None:
    names = [(each.claim, each.number, each.count) for each in found]
    if names != [(each.claim, each.number, each.count) for each in due]:
        raise Violation(f"claims hold {names}, and {due} was due")
    if any(abs(one.lease_left_s - other.lease_left_s) > 1e-5 for one, other in zip(found, due, strict=True)):
        raise Violation(f"the leases of claims are {found}, and {due} was due")
