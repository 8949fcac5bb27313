"""Claims of the model: messages that are held for one reader, part by part."""

from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET

from waypost.api import bulk
from waypost.api.bulk import Claimed, ClaimObject
from waypost.clock import Now
from waypost.core.queues import ShareMode
from waypost.hresult import HResult
from waypost.sim.model.disk import BulkKey, SavedClaim, StepKind
from waypost.sim.model.records import SEQUENCE, ModelMessage, ModelQueue, Refused, State
from waypost.sim.model.rows import Row, row_of
from waypost.sim.model.state import PURGED, ModelState
from waypost.sim.model.transactions import ModelTransactions, Step
from waypost.sim.plans import Plan

# The number of the queue, and the name of the claim.
Key = tuple[int, str]


@dataclass(slots=True, eq=False)
class Claim:
    """A claim. `lookup_ids` are those of the held part; `steps` lack express messages, which a restart loses."""

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


class ModelClaims:
    """All claims. `claims` is in the order of their last requests, `limit` the largest number of them."""

    def __init__(self, state: ModelState, transactions: ModelTransactions, limit: int) -> None:
        self._state: Final = state
        self._transactions: Final = transactions
        self._limit: Final = limit
        self.claims: dict[Key, Claim] = {}
        transactions.is_claimed = self._holds

    def restore(self, key: BulkKey, saved: SavedClaim) -> None:
        queue = self._state.by_number[key.queue]
        claim = Claim(saved.lease_s, saved.max_aborts, saved.settled, saved.given, saved.size)
        claim.lookup_ids = saved.lookup_ids
        claim.deadline = self._state.now.monotonic + claim.lease_s
        for lookup_id in saved.lookup_ids:
            message = queue.messages.get(lookup_id)
            if message is not None:
                self._state.lock(message)
                claim.steps.append(Step(StepKind.RECEIVE, message, queue))
        if claim.steps:
            self._state.marks.sometimes("a part of a claim that outlives a restart")
        self.claims[key.queue, str(key.name)] = claim

    def claim(self, queue: ModelQueue, wish: bulk.Claim, now: Now) -> Claimed:
        key = queue.number, wish.claim
        claim = self.claims.pop(key, None) or self._begun(wish)
        self.claims[key] = claim
        if wish.after != claim.settled and not (claim.lookup_ids and wish.after == claim.given):
            self._state.marks.sometimes("a claim that has gone on without its reader")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        before = claim.saved()
        if wish.max_messages:
            claim.lease_s, claim.max_aborts = wish.lease_s, wish.max_aborts
        if claim.lookup_ids and wish.after == claim.given:
            self._settle(claim)
        elif claim.lookup_ids:
            self._state.marks.sometimes("a part that is claimed again")
        wants_more = wish.max_messages > 0 and not claim.lookup_ids
        is_denied = any(handle.share is ShareMode.DENY_RECEIVE for handle in queue.handles.values())
        if wants_more and not is_denied:
            self._take(claim, queue, wish)
        if not claim.given:
            del self.claims[key]
        elif claim.saved() != before:
            self._save(key, claim)
        if wants_more and is_denied:
            self._state.marks.sometimes("a claim on a queue that somebody has for himself")
            raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
        if not claim.lookup_ids:
            return Claimed(number=claim.settled, count=0, bytes=0, epoch=wish.epoch)
        claim.deadline = now.monotonic + claim.lease_s
        return Claimed(number=claim.given, count=len(claim.lookup_ids), bytes=claim.size, epoch=wish.epoch)

    def rows(self, queue: ModelQueue, part: bulk.ReadClaim, now: Now) -> list[Row]:
        claim = self.claims.get((queue.number, part.claim))
        if claim is None or not claim.lookup_ids or part.number != claim.given:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        claim.deadline = now.monotonic + claim.lease_s
        return [row_of(step.message) for step in claim.steps]

    def give_back(self, key: Key) -> int:
        claim = self.claims.get(key)
        if claim is None or not claim.lookup_ids:
            return 0
        messages = [step.message for step in claim.steps]
        for message in messages:
            message.abort_count += 1
            if not message.is_volatile:
                self._state.save(message)
        purged = [message for message in messages if message.state is State.PURGE_PENDING]
        kept = [message for message in messages if message not in purged]
        poison = [message for message in kept if 0 < claim.max_aborts <= message.abort_count]
        target = self._poison_queue(self._state.by_number[key[0]]) if poison else None
        for message in purged:
            self._transactions.release(message, PURGED)
        for message in sorted(poison if target is not None else [], key=lambda message: message.lookup_id):
            self._state.marks.sometimes("a poisonous message that is put aside")
            assert target is not None
            self._transactions.move(message, target)
        for message in kept if target is None else [message for message in kept if message not in poison]:
            self._transactions.release(message, PURGED)
        self._end(claim)
        self._save(key, claim)
        return len(messages)

    def held(self, queue: ModelQueue, now: Now) -> list[ClaimObject]:
        return [
            ClaimObject(
                claim=name,
                number=claim.given,
                count=len(claim.lookup_ids),
                lease_left_s=claim.deadline - now.monotonic,
            )
            for (number, name), claim in self.claims.items()
            if number == queue.number and claim.lookup_ids
        ]

    def forget(self, queue: ModelQueue) -> None:
        """Drop the claims on a queue that was deleted with its messages."""
        for key in [key for key in self.claims if key[0] == queue.number]:
            self._forget(key)

    def tick(self, now: Now) -> None:
        due = [(claim.deadline, key) for key, claim in self.claims.items() if claim.lookup_ids]
        for deadline, key in sorted(due):
            if deadline <= now.monotonic:
                self._state.marks.sometimes("a claim whose lease ends")
                self.give_back(key)

    @property
    def next_deadline(self) -> float | None:
        return min((claim.deadline for claim in self.claims.values() if claim.lookup_ids), default=None)

    def _holds(self, message: ModelMessage) -> bool:
        return any(step.message is message for claim in self.claims.values() for step in claim.steps)

    def _begun(self, wish: bulk.Claim) -> Claim:
        if wish.after:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        if len(self.claims) >= self._limit:
            idle = next((key for key, claim in self.claims.items() if not claim.lookup_ids), None)
            if idle is None:
                raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
            self._state.marks.sometimes("an idle claim that is forgotten for another one")
            self._forget(idle)
        return Claim(wish.lease_s)

    def _take(self, claim: Claim, queue: ModelQueue, wish: bulk.Claim) -> None:
        count = wish.max_messages
        if wish.max_bytes is not UNSET and queue.total_bytes:
            count = min(count, max(wish.max_bytes * len(queue.order) // queue.total_bytes, 1))
        free = [message for message in queue.messages.values() if message.state is State.AVAILABLE]
        messages = sorted(free, key=lambda message: message.lookup_id & SEQUENCE)[:count]
        for message in messages:
            self._state.lock(message)
        if messages:
            claim.given += 1
            claim.size = sum(message.size for message in messages)
            claim.lookup_ids = tuple(message.lookup_id for message in messages)
            claim.steps = [Step(StepKind.RECEIVE, message, queue) for message in messages]

    def _settle(self, claim: Claim) -> None:
        self._state.marks.sometimes("a part that is processed")
        for step in claim.steps:
            self._transactions.commit_step(step)
        claim.settled = claim.given
        self._end(claim)

    def _end(self, claim: Claim) -> None:
        claim.lookup_ids = ()
        claim.steps = []

    def _poison_queue(self, queue: ModelQueue) -> ModelQueue | None:
        if queue.is_journal or queue.is_system or queue.key.endswith(";poison"):
            return None
        parent = queue.parent or queue
        key = f"{parent.key};poison"
        plan = Plan(key, transactional=parent.plan.transactional)
        found = self._state.queues.get(key)
        return self._state.new_queue(key, plan, parent) if found is None else self._state.keep(found)

    def _save(self, key: Key, claim: Claim) -> None:
        self._state.disk.write(BulkKey(*key), claim.saved())

    def _forget(self, key: Key) -> None:
        del self.claims[key]
        self._state.disk.write(BulkKey(*key), None)
