"""Any stages, commits and claims, with crashes before and after the disk has written: no message is lost or seen twice.

Messages stand in the queue in the order of the commits, and in that of staging within a commit. Each
operation is done and answered, or the process dies while it is under way, and then it was done whole or not at all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.node.bulk_rig import LEASE, BulkRig, group
from waypost.api.bulk import DropStages
from waypost.api.claims import ReturnClaim
from waypost.errors import TransactionSequence
from waypost.guid import guid_text

End = Literal["answered", "written", "lost"]
ENDS: st.SearchStrategy[End] = st.sampled_from(("answered", "answered", "written", "lost"))
CLAIMS = st.sampled_from(("one", "two"))
RUNS = st.sampled_from([b"\x11" * 16, b"\x22" * 16])
BATCHES = st.integers(0, 2)
MAX_ABORTS = 2


@dataclass
class ClaimModel:
    settled: int = 0
    given: int = 0
    part: list[int] = field(default_factory=list)


class ClaimsAndStages(RuleBasedStateMachine):
    """A node beside the model of what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = BulkRig()
        self.rig.ledger()
        self.last = 0
        self.stages: dict[bytes, tuple[int, bytes, list[int]]] = {}
        # The run that has committed a batch, and its stages.
        self.done: dict[int, tuple[bytes, list[bytes]]] = {}
        self.waiting: set[int] = set()
        self.claims: dict[str, ClaimModel] = {}
        self.aborts: dict[int, int] = {}
        self.processed: list[int] = []
        self.poison: set[int] = set()
        # The places of messages in the queue.
        self.places: dict[int, int] = {}

    def happen(self, ask: Callable[[], object], end: End) -> bool:
        """Ask for something that comes to this end. Whether it was done."""
        if end == "answered":
            ask()
            self.rig.settle()
            return True
        self.rig.hold_disk()
        ask()
        self.rig.turn()
        self.rig.crash(written=self.rig.pending if end == "written" else 0)
        self.rig.settle()
        return end == "written"

    @rule(batch=BATCHES, run=RUNS, count=st.integers(0, 3), end=ENDS)
    def stage(self, batch: int, run: bytes, count: int, end: End) -> None:
        before = set(self.rig.node.stages._stages)
        numbers = [self.last + 1 + number for number in range(count)]
        self.last += count

        def ask() -> None:
            self.rig.stage_request(group(*map(str, numbers)), batch=batch, run=run)

        if self.done.get(batch, (b"",))[0] == run:
            with pytest.raises(TransactionSequence, match="already committed"):
                ask()
            return
        is_done = self.happen(ask, end)
        new = set(self.rig.node.stages._stages) - before
        assert len(new) == (is_done and batch not in self.done)
        for identifier in new:
            self.stages[identifier] = batch, run, numbers

    @rule(batch=BATCHES, run=RUNS, end=ENDS)
    def commit(self, batch: int, run: bytes, end: End) -> None:
        """Of all that the run has staged for the batch. Stages of other runs go with it."""
        chosen = [identifier for identifier, (of, by, _) in self.stages.items() if (of, by) == (batch, run)]

        def ask() -> None:
            self.rig.commit_request(*chosen, batch=batch, run=run)

        if batch in self.done and self.done[batch][0] == run and self.done[batch][1]:
            with pytest.raises(TransactionSequence, match="already committed"):
                ask()
            return
        if not self.happen(ask, end):
            return
        for identifier in [each for each, (of, _, _) in self.stages.items() if of == batch]:
            _, _, numbers = self.stages.pop(identifier)
            if identifier in chosen:
                self.waiting.update(numbers)
                self.places |= {number: len(self.places) + at for at, number in enumerate(numbers)}
        self.done.setdefault(batch, (run, chosen))

    @precondition(lambda self: self.stages)
    @rule(data=st.data(), end=ENDS)
    def drop(self, data: st.DataObject, end: End) -> None:
        identifier = data.draw(st.sampled_from(sorted(self.stages)))
        if self.happen(lambda: self.rig.do(DropStages(stages=[guid_text(identifier)])), end):
            del self.stages[identifier]

    @rule(name=CLAIMS, is_next=st.booleans(), count=st.integers(0, 3), end=ENDS)
    def claim(self, name: str, *, is_next: bool, count: int, end: End) -> None:
        claim = self.claims.get(name, ClaimModel())
        after = claim.given if is_next and claim.part else claim.settled

        def ask() -> None:
            self.rig.claim_request(after, "ledger", name, max_messages=count, max_aborts=MAX_ABORTS)

        if not self.happen(ask, end):
            return
        if claim.part and after == claim.given:
            self.processed += claim.part
            claim.settled, claim.part = claim.given, []
        if not claim.part:
            claim.part = self.ordered(self.waiting)[:count]
            self.waiting.difference_update(claim.part)
            claim.given += bool(claim.part)
        if claim.given:
            self.claims[name] = claim

    @rule(name=CLAIMS, end=ENDS)
    def give_back(self, name: str, end: End) -> None:
        if self.happen(lambda: self.rig.do(ReturnClaim(name="ledger", claim=name)), end):
            self.ended(name)

    @rule()
    def let_leases_end(self) -> None:
        self.rig.advance(LEASE)
        self.rig.settle()
        self.stages.clear()
        for name in self.claims:
            self.ended(name)

    @rule()
    def restart(self) -> None:
        self.rig.stop()
        self.rig.settle()

    def ended(self, name: str) -> None:
        claim = self.claims.get(name, ClaimModel())
        for number in claim.part:
            self.aborts[number] = self.aborts.get(number, 0) + 1
            (self.poison if self.aborts[number] == MAX_ABORTS else self.waiting).add(number)
        claim.part = []

    @rule(name=CLAIMS)
    def read(self, name: str) -> None:
        claim = self.claims.get(name, ClaimModel())
        if claim.part:
            assert self.rig.claimed(claim.given, name="ledger", claim=name) == list(map(str, claim.part))
            return
        with pytest.raises(TransactionSequence):
            self.rig.claimed(claim.given, name="ledger", claim=name)

    def ordered(self, numbers: set[int]) -> list[int]:
        return sorted(numbers, key=self.places.__getitem__)

    @invariant()
    def everything_is_where_it_belongs(self) -> None:
        rig = self.rig
        assert rig.seen("ledger") == list(map(str, self.ordered(self.waiting)))
        assert rig.poison("ledger") == list(map(str, self.ordered(self.poison)))
        assert (rig.staged_bytes > 0) == any(numbers for _, _, numbers in self.stages.values())
        claimed = [number for claim in self.claims.values() for number in claim.part]
        held = self.ordered({*self.waiting, *claimed})
        assert rig.labels(rig.queue("ledger")) == list(map(str, held))
        assert len(held) == len(self.waiting) + len(claimed)
        assert not self.waiting & set(self.processed)
        assert len(self.processed) == len(set(self.processed))
        assert set(rig.batches()) == self.done.keys()


ClaimsAndStages.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestClaimsAndStages = ClaimsAndStages.TestCase
