"""Claims of the model: letters that are kept for one reader, part by part."""

from dataclasses import dataclass, field
from typing import Final

from waypost.clock import Now
from waypost.core.queues import ShareMode
from waypost.hresult import HResult
from waypost.node.claims import Claimed, Held, NewClaim
from waypost.sim.model.books import PURGED, Books
from waypost.sim.model.disk import BulkKey, Operation, SavedClaim
from waypost.sim.model.letters import SEQUENCE, Box, Letter, Refused, State
from waypost.sim.model.rows import Row, row_of
from waypost.sim.model.works import Step, Works
from waypost.sim.words import Plan

# The number of the box, and the name of the claim.
Key = tuple[int, str]


@dataclass(slots=True, eq=False)
class Claim:
    """`lookup_ids` are those of the part that is held; `steps` lack what was express and gone after a restart."""

    lease_s: float
    max_aborts: int = 0
    settled: int = 0
    given: int = 0
    size: int = 0
    deadline: float = 0.0
    lookup_ids: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list)

    def saved(self) -> SavedClaim:
        return SavedClaim(self.lease_s, self.max_aborts, self.settled, self.given, self.size, self.lookup_ids)


class Claims:
    """`claims` are in the order in which they were asked for last, `limit` how many there may be."""

    def __init__(self, books: Books, works: Works, limit: int) -> None:
        self._books: Final = books
        self._works: Final = works
        self._limit: Final = limit
        self.claims: dict[Key, Claim] = {}
        works.is_claimed = self._holds

    def restore(self, key: BulkKey, saved: SavedClaim) -> None:
        box = self._books.by_number[key.box]
        claim = Claim(saved.lease_s, saved.max_aborts, saved.settled, saved.given, saved.size)
        claim.lookup_ids = saved.lookup_ids
        claim.deadline = self._books.now.monotonic + claim.lease_s
        for lookup_id in saved.lookup_ids:
            letter = box.letters.get(lookup_id)
            if letter is not None:
                self._books.lock(letter)
                claim.steps.append(Step(Operation.RECEIVE, letter, box))
        if claim.steps:
            self._books.marks.sometimes("a part of a claim that outlives a restart")
        self.claims[key.box, str(key.name)] = claim

    def claim(self, box: Box, wish: NewClaim, now: Now) -> Claimed:
        key = box.number, wish.claim
        claim = self.claims.pop(key, None) or self._begun(wish)
        self.claims[key] = claim
        if wish.after != claim.settled and not (claim.lookup_ids and wish.after == claim.given):
            self._books.marks.sometimes("a claim that has gone on without its reader")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        before = claim.saved()
        if wish.max_messages:
            claim.lease_s, claim.max_aborts = wish.lease_s, wish.max_aborts
        if claim.lookup_ids and wish.after == claim.given:
            self._settle(claim)
        elif claim.lookup_ids:
            self._books.marks.sometimes("a part that is claimed again")
        wants_more = wish.max_messages > 0 and not claim.lookup_ids
        is_denied = any(handle.share is ShareMode.DENY_RECEIVE for handle in box.handles.values())
        if wants_more and not is_denied:
            self._take(claim, box, wish)
        if not claim.given:
            del self.claims[key]
        elif claim.saved() != before:
            self._save(key, claim)
        if wants_more and is_denied:
            self._books.marks.sometimes("a claim on a queue that somebody has for himself")
            raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
        if not claim.lookup_ids:
            return Claimed(claim.settled)
        claim.deadline = now.monotonic + claim.lease_s
        return Claimed(claim.given, len(claim.lookup_ids), claim.size)

    def rows(self, box: Box, part: tuple[str, int], now: Now) -> list[Row]:
        claim = self.claims.get((box.number, part[0]))
        if claim is None or not claim.lookup_ids or part[1] != claim.given:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        claim.deadline = now.monotonic + claim.lease_s
        return [row_of(step.letter) for step in claim.steps]

    def give_back(self, key: Key) -> int:
        claim = self.claims.get(key)
        if claim is None or not claim.lookup_ids:
            return 0
        letters = [step.letter for step in claim.steps]
        for letter in letters:
            letter.abort_count += 1
            if not letter.is_volatile:
                self._books.save(letter)
        purged = [letter for letter in letters if letter.state is State.PURGE_PENDING]
        kept = [letter for letter in letters if letter not in purged]
        poison = [letter for letter in kept if 0 < claim.max_aborts <= letter.abort_count]
        target = self._poison_box(self._books.by_number[key[0]]) if poison else None
        for letter in purged:
            self._works.release(letter, PURGED)
        for letter in sorted(poison if target is not None else [], key=lambda letter: letter.lookup_id):
            self._books.marks.sometimes("a poisonous message that is put aside")
            assert target is not None
            self._works.move(letter, target)
        for letter in kept if target is None else [letter for letter in kept if letter not in poison]:
            self._works.release(letter, PURGED)
        self._end(claim)
        self._save(key, claim)
        return len(letters)

    def held(self, box: Box, now: Now) -> list[Held]:
        return [
            Held(name, claim.given, len(claim.lookup_ids), claim.deadline - now.monotonic)
            for (number, name), claim in self.claims.items()
            if number == box.number and claim.lookup_ids
        ]

    def forget(self, box: Box) -> None:
        """The queue is deleted, and took its letters along."""
        for key in [key for key in self.claims if key[0] == box.number]:
            self._forget(key)

    def tick(self, now: Now) -> None:
        due = [(claim.deadline, key) for key, claim in self.claims.items() if claim.lookup_ids]
        for deadline, key in sorted(due):
            if deadline <= now.monotonic:
                self._books.marks.sometimes("a claim whose lease ends")
                self.give_back(key)

    @property
    def next_deadline(self) -> float | None:
        return min((claim.deadline for claim in self.claims.values() if claim.lookup_ids), default=None)

    def _holds(self, letter: Letter) -> bool:
        return any(step.letter is letter for claim in self.claims.values() for step in claim.steps)

    def _begun(self, wish: NewClaim) -> Claim:
        if wish.after:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if len(self.claims) >= self._limit:
            idle = next((key for key, claim in self.claims.items() if not claim.lookup_ids), None)
            if idle is None:
                raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
            self._books.marks.sometimes("an idle claim that is forgotten for another one")
            self._forget(idle)
        return Claim(wish.lease_s)

    def _take(self, claim: Claim, box: Box, wish: NewClaim) -> None:
        count = wish.max_messages
        if wish.max_bytes is not None and box.total_bytes:
            count = min(count, max(wish.max_bytes * len(box.order) // box.total_bytes, 1))
        free = [letter for letter in box.letters.values() if letter.state is State.AVAILABLE]
        letters = sorted(free, key=lambda letter: letter.lookup_id & SEQUENCE)[:count]
        for letter in letters:
            self._books.lock(letter)
        if letters:
            claim.given += 1
            claim.size = sum(letter.size for letter in letters)
            claim.lookup_ids = tuple(letter.lookup_id for letter in letters)
            claim.steps = [Step(Operation.RECEIVE, letter, box) for letter in letters]

    def _settle(self, claim: Claim) -> None:
        self._books.marks.sometimes("a part that is processed")
        for step in claim.steps:
            self._works.commit_step(step)
        claim.settled = claim.given
        self._end(claim)

    def _end(self, claim: Claim) -> None:
        claim.lookup_ids = ()
        claim.steps = []

    def _poison_box(self, box: Box) -> Box | None:
        if box.is_journal or box.is_system or box.key.endswith(";poison"):
            return None
        parent = box.parent or box
        key = f"{parent.key};poison"
        plan = Plan(key, transactional=parent.plan.transactional)
        found = self._books.boxes.get(key)
        return self._books.new_box(key, plan, parent) if found is None else self._books.keep(found)

    def _save(self, key: Key, claim: Claim) -> None:
        self._books.disk.write(BulkKey(*key), claim.saved())

    def _forget(self, key: Key) -> None:
        del self.claims[key]
        self._books.disk.write(BulkKey(*key), None)
