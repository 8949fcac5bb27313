"""Claims of the model: messages that are held for one reader, part by part."""

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from msgspec import UNSET

from waypost.api import claims
from waypost.api.claims import DEFAULT_CLAIM_LEASE_S, Claimed, ClaimObject, KeepClaim, TakeClaim, Taken
from waypost.clock import Now
from waypost.core.queues import ShareMode
from waypost.guid import NULL_GUID, parse_guid
from waypost.hresult import HResult
from waypost.sim.marks import Marks
from waypost.sim.model.disk import BulkKey, Holder, SavedClaim, SavedLostRun, StepKind
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
    holder: Holder = field(default_factory=Holder)
    heard: float = float("-inf")
    # Its lease has ended, and it waits for its query.
    is_overdue: bool = False

    def saved(self) -> SavedClaim:
        counts = self.lease_s, self.max_aborts, self.settled, self.given, self.size
        return SavedClaim(*counts, self.lookup_ids, self.holder)

    @property
    def is_leased(self) -> bool:
        return bool(self.lookup_ids) and not self.is_overdue

    def use(self, now: Now) -> None:
        self.heard = now.monotonic
        self.deadline = now.monotonic + self.lease_s
        self.is_overdue = False

    def check_term(self, term: int, marks: Marks) -> None:
        if term != self.holder.term:
            marks.sometimes("a reader whose claim was taken with a later term")
            raise Refused(HResult.MQ_ERROR_STALE_HANDLE)
        if self.holder.is_lost:
            marks.sometimes("a reader that continues after its lease expired")
            raise Refused(HResult.MQ_ERROR_STALE_HANDLE)


class ModelClaims:
    """All claims. `claims` is in the order of their last requests, `limit` the largest number of them."""

    def __init__(self, state: ModelState, transactions: ModelTransactions, limit: int) -> None:
        self._state: Final = state
        self._transactions: Final = transactions
        self._limit: Final = limit
        self.claims: dict[Key, Claim] = {}
        # The runs that have lost a claim, with their queries.
        self.lost_runs: set[tuple[str, bytes]] = set()
        # The start of the present life.
        self._since = float("-inf")
        transactions.is_claimed = self._holds

    def restore_lost_run(self, key: BulkKey) -> None:
        assert isinstance(key.name, tuple)
        query, run = key.name
        assert isinstance(run, bytes)
        self.lost_runs.add((query, run))

    def restore(self, key: BulkKey, saved: SavedClaim) -> None:
        queue = self._state.by_number[key.queue]
        claim = Claim(saved.lease_s, saved.max_aborts, saved.settled, saved.given, saved.size, holder=saved.holder)
        claim.lookup_ids = saved.lookup_ids
        self._since = self._state.now.monotonic
        claim.deadline = self._since + claim.lease_s
        for lookup_id in saved.lookup_ids:
            message = queue.messages.get(lookup_id)
            if message is not None:
                self._state.lock(message)
                claim.steps.append(Step(StepKind.RECEIVE, message, queue))
        if claim.steps:
            self._state.marks.sometimes("a claimed part that survives a restart")
        self.claims[key.queue, str(key.name)] = claim

    def claim(self, queue: ModelQueue, wish: claims.Claim, now: Now) -> Claimed:
        key = queue.number, wish.claim
        is_known = key in self.claims
        claim = self.claims.pop(key, None) or self._begun(wish, now)
        self.claims[key] = claim
        claim.check_term(wish.term, self._state.marks)
        goes_on = wish.after == claim.given and (claim.lookup_ids or wish.term)
        if wish.after != claim.settled and not goes_on:
            self._state.marks.sometimes("a claim request with an outdated part number")
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        before = claim.saved()
        if wish.term and not claim.holder.leader:
            claim.holder = replace(claim.holder, leader=wish.reader)
        is_leader = not wish.term or claim.holder.leader == wish.reader
        if not is_leader:
            self._state.marks.sometimes("a second reader of a claim")
        if wish.max_messages:
            claim.lease_s, claim.max_aborts = wish.lease_s, wish.max_aborts
        if is_leader and claim.lookup_ids and wish.after == claim.given:
            self._settle(claim)
        elif is_leader and wish.after == claim.given > claim.settled:
            self._state.marks.sometimes("a reader that reports a lost part as processed")
            claim.settled = claim.given
        elif claim.lookup_ids:
            self._state.marks.sometimes("a part that is requested again")
        wants_more = wish.max_messages > 0 and not claim.lookup_ids and is_leader
        is_denied = any(handle.share is ShareMode.DENY_RECEIVE for handle in queue.handles.values())
        if wants_more and not is_denied:
            self._take(claim, queue, wish)
        if not claim.given and not wish.term:
            del self.claims[key]
        elif claim.saved() != before or not is_known:
            self._save(key, claim)
        if wants_more and is_denied:
            self._state.marks.sometimes("a claim on a queue that is open exclusively")
            raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
        claim.use(now)
        if not claim.lookup_ids or wish.after == claim.given:
            return Claimed(number=wish.after, count=0, bytes=0, epoch=wish.epoch)
        return Claimed(number=claim.given, count=len(claim.lookup_ids), bytes=claim.size, epoch=wish.epoch)

    def rows(self, queue: ModelQueue, part: claims.ReadClaim, now: Now) -> list[Row]:
        key = queue.number, part.claim
        claim = self.claims.get(key)
        if claim is None:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        claim.check_term(part.term, self._state.marks)
        if not claim.lookup_ids or part.number != claim.given:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        holder = claim.holder
        if part.query:
            run = parse_guid(part.run) if part.run else NULL_GUID
            is_lost = (part.query, run) in self.lost_runs
            is_other = run not in (NULL_GUID, holder.run) and (holder.run != NULL_GUID or is_lost)
            if holder.query not in ("", part.query) or (part.term and is_other):
                self._state.marks.sometimes("a claim that another query or run tries to read")
                raise Refused(HResult.MQ_ERROR_STALE_HANDLE)
            batch = holder.batch if part.batch is UNSET else part.batch
            run = run if part.term and run != NULL_GUID else holder.run
            claim.holder = replace(holder, query=part.query, batch=batch, run=run)
            if claim.holder != holder:
                self._save(key, claim)
        claim.use(now)
        return [row_of(step.message) for step in claim.steps]

    def take(self, queue: ModelQueue, wish: TakeClaim, now: Now) -> Taken:
        key = queue.number, wish.claim
        claim = self.claims.get(key) or self._new(DEFAULT_CLAIM_LEASE_S, now)
        holder = claim.holder
        is_same = holder.term and not holder.is_lost and holder.driver == wish.driver and wish.started < holder.asked
        if not is_same:
            is_heard = claim.lookup_ids or now.monotonic - claim.heard < claim.lease_s
            if wish.is_new and holder.query and (claim.settled or is_heard):
                self._state.marks.sometimes("a new reader that tries to take the claim of a query")
                raise Refused(HResult.MQ_ERROR_STALE_HANDLE)
            self._end_run(key, claim)
            began = replace(claim.holder, is_lost=False, leader="", driver=wish.driver, asked=wish.asked)
            claim.holder = replace(began, term=holder.term + 1)
            self.claims[key] = claim
            self._save(key, claim)
        claim.use(now)
        return Taken(term=claim.holder.term, settled=claim.settled, given=claim.given, is_held=bool(claim.lookup_ids))

    def keep(self, queue: ModelQueue, wish: KeepClaim, now: Now) -> None:
        claim = self.claims.get((queue.number, wish.claim))
        if claim is None:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        claim.check_term(wish.term, self._state.marks)
        claim.use(now)

    def check_writer(self, query: str, run: bytes) -> None:
        if (query, run) in self.lost_runs:
            self._state.marks.sometimes("a write of a run that has lost its claim")
            raise Refused(HResult.MQ_ERROR_STALE_HANDLE)

    def committed(self, query: str, batch: int, *, is_whole: bool) -> None:
        written = 2 if is_whole else 1
        for key, claim in sorted(self.claims.items(), key=lambda each: each[0]):
            holder = claim.holder
            if claim.lookup_ids and (holder.query, holder.batch) == (query, batch):
                claim.holder = replace(holder, written=max(holder.written, written))
                if is_whole and claim.is_overdue:
                    self._state.marks.sometimes("a claim whose batch is committed after its lease expired")
                    self._settle(claim)
                if claim.holder != holder:
                    self._save(key, claim)

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
            self._state.marks.sometimes("a poison message moved to the poison subqueue")
            assert target is not None
            self._transactions.move(message, target)
        for message in kept if target is None else [message for message in kept if message not in poison]:
            self._transactions.release(message, PURGED)
        self._end(claim)
        if claim.holder.term:
            self._end_run(key, claim)
            claim.holder = replace(claim.holder, is_lost=True)
        self._save(key, claim)
        return len(messages)

    def end(self, key: Key, now: Now) -> int:
        """Give a claim back, and forget it."""
        claim = self.claims.get(key)
        if claim is None:
            return 0
        if not claim.holder.is_lost and self._unused_s(claim, now) < claim.lease_s:
            self._state.marks.sometimes("a claim that is still in use when its deletion is requested")
            raise Refused(HResult.MQ_ERROR_SHARING_VIOLATION)
        count = self.give_back(key)
        self._end_run(key, claim)
        self._state.marks.sometimes("a claim that is deleted on request")
        self._forget(key)
        return count

    def held(self, now: Now, queue: ModelQueue | None = None, *, idle: bool = False) -> list[ClaimObject]:
        return [
            ClaimObject(
                claim=name,
                number=claim.given,
                count=len(claim.lookup_ids),
                lease_left_s=claim.deadline - now.monotonic if claim.is_leased else 0.0,
                queue="",
                bytes=claim.size if claim.lookup_ids else 0,
                term=claim.holder.term,
                query=claim.holder.query,
                batch=claim.holder.batch,
                held_by="its query" if claim.is_overdue else "",
                unused_s=self._unused_s(claim, now),
            )
            for (number, name), claim in self.claims.items()
            if (idle or claim.lookup_ids) and (queue is None or number == queue.number)
        ]

    def forget(self, queue: ModelQueue) -> None:
        """Drop the claims on a queue that was deleted with its messages."""
        for key in [key for key in self.claims if key[0] == queue.number]:
            self._forget(key)

    def tick(self, now: Now) -> None:
        due = [(claim.deadline, key) for key, claim in self.claims.items() if claim.is_leased]
        for deadline, key in sorted(due):
            if deadline <= now.monotonic:
                self._lease_ended(key)

    def _lease_ended(self, key: Key) -> None:
        claim = self.claims[key]
        match claim.holder.written:
            case 0:
                self._state.marks.sometimes("a claim whose lease expires before any commit")
                self.give_back(key)
            case 1:
                self._state.marks.sometimes("a claim kept after its lease because only part of its batch is committed")
                claim.is_overdue = True
            case _:
                self._state.marks.sometimes("a claim whose lease expires after the commit of its batch")
                self._settle(claim)
                self._save(key, claim)

    @property
    def next_deadline(self) -> float | None:
        return min((claim.deadline for claim in self.claims.values() if claim.is_leased), default=None)

    def _holds(self, message: ModelMessage) -> bool:
        return any(step.message is message for claim in self.claims.values() for step in claim.steps)

    def _end_run(self, key: Key, claim: Claim) -> None:
        holder = claim.holder
        if holder.run != NULL_GUID:
            self.lost_runs.add((holder.query, holder.run))
            self._state.disk.write(BulkKey(0, (holder.query, holder.run)), SavedLostRun(key[1]))
            claim.holder = replace(holder, run=NULL_GUID)

    def _unused_s(self, claim: Claim, now: Now) -> float:
        return now.monotonic - max(claim.heard, self._since)

    def _begun(self, wish: claims.Claim, now: Now) -> Claim:
        if wish.after or wish.term:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        return self._new(wish.lease_s, now)

    def _new(self, lease_s: float, now: Now) -> Claim:
        if len(self.claims) >= self._limit:
            finished = [key for key, claim in self.claims.items() if self._is_finished(claim, now)]
            if not finished:
                self._state.marks.sometimes("a claim that exceeds the maximum number of claims")
                raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
            self._state.marks.sometimes("a finished claim that is deleted to make room for a new one")
            self._forget(finished[0])
        return Claim(lease_s)

    def _is_finished(self, claim: Claim, now: Now) -> bool:
        is_done = not claim.given or (not claim.holder.term and claim.settled == claim.given)
        return is_done and not claim.lookup_ids and self._unused_s(claim, now) >= claim.lease_s

    def _take(self, claim: Claim, queue: ModelQueue, wish: claims.Claim) -> None:
        free = [message for message in queue.messages.values() if message.state is State.AVAILABLE]
        messages = sorted(free, key=lambda message: message.lookup_id & SEQUENCE)[: wish.max_messages]
        if wish.max_bytes is not UNSET:
            ends = accumulate(message.size for message in messages)
            messages = messages[: max(sum(end <= wish.max_bytes for end in ends), 1)]
        for message in messages:
            self._state.lock(message)
        if messages:
            claim.given += 1
            claim.size = sum(message.size for message in messages)
            claim.lookup_ids = tuple(message.lookup_id for message in messages)
            claim.steps = [Step(StepKind.RECEIVE, message, queue) for message in messages]
            claim.holder = replace(claim.holder, batch=None, written=0)

    def _settle(self, claim: Claim) -> None:
        self._state.marks.sometimes("a part that is processed")
        for step in claim.steps:
            self._transactions.commit_step(step)
        claim.settled = claim.given
        self._end(claim)

    def _end(self, claim: Claim) -> None:
        claim.lookup_ids = ()
        claim.steps = []
        claim.is_overdue = False

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
