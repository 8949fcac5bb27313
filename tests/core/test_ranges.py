"""Ranges of a queue by arrival, against a list of everything that is there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waypost.core.positions import SEQUENCE_MASK, PositionList, PositionState, lookup_identifier
from waypost.core.queues import Queue, QueueAttributes
from waypost.core.ranges import Arrivals
from waypost.core.transaction_records import OperationType, Run, spans_of
from waypost.wire.path_names import PathName

AVAILABLE, LOCKED = PositionState.AVAILABLE, PositionState.LOCKED
PATH = PathName.parse("host\\private$\\orders")


@dataclass
class Model:
    """The messages of the queue, by SequentialID, beside the list that is tested."""

    positions: PositionList = field(default_factory=PositionList)
    there: dict[int, int] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    def add(self, seq: int, priority: int, state: PositionState = AVAILABLE) -> None:
        lookup_id = self.there[seq] = lookup_identifier(priority, seq)
        self.positions.insert(lookup_id, state)
        if state is LOCKED:
            self.held.add(lookup_id)

    def remove(self, seq: int) -> None:
        lookup_id = self.there.pop(seq)
        self.positions.remove(lookup_id)
        self.held.discard(lookup_id)

    def seqs(self, after: int, up_to: int, left_out: Sequence[int] = ()) -> list[int]:
        return sorted(seq for seq, each in self.there.items() if after < seq <= up_to and each not in left_out)


def check(model: Model, after: int, up_to: int, left_out: Sequence[int]) -> None:
    arrivals = Arrivals(model.positions, spans_of(left_out))
    everything = model.seqs(0, SEQUENCE_MASK, left_out)
    assert arrivals.first == (everything[0] if everything else 0)
    assert arrivals.last == (everything[-1] if everything else 0)
    found = model.seqs(after, up_to, left_out)
    assert arrivals.count(after, up_to) == len(found)
    assert [arrivals.nth(after, up_to, number + 1) for number in range(len(found))] == found
    assert arrivals.nth(after, up_to, 0) == arrivals.nth(after, up_to, len(found) + 1) == 0
    for limit in (0, 1, len(found) // 2, len(found), len(found) + 5):
        assert arrivals.take(after, up_to, limit) == [model.there[seq] for seq in found[:limit]]


numbers = st.integers(0, 120)
priorities = st.sampled_from((3, 3, 3, 0, 7))


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 3), priorities, st.booleans()), max_size=60),
    st.lists(st.integers(0, 59), max_size=50),
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4),
)
def test_ranges_are_those_of_a_plain_list(
    arrivals: list[tuple[int, int, bool]], removals: list[int], ranges: list[tuple[int, int]]
) -> None:
    model = Model()
    seq = 0
    for step, priority, is_locked in arrivals:
        seq += step
        model.add(seq, priority, LOCKED if is_locked else AVAILABLE)
    for at in removals:
        if model.there:
            model.remove(sorted(model.there)[at % len(model.there)])
    assert set(model.positions.held) == model.held
    assert model.positions.first_held == min([each & SEQUENCE_MASK for each in model.held], default=0)
    for after, up_to in ranges:
        check(model, after, up_to, ())
        check(model, after, up_to, sorted(model.held))


@given(st.lists(st.integers(1, 3), max_size=30), st.integers(0, 35), st.integers(0, 35))
def test_places_of_a_run_are_found_by_its_spans(steps: list[int], start: int, stop: int) -> None:
    lookup_ids = list(accumulate(steps))
    run = Run(OperationType.DEQUEUE, Queue(1, bytes(16), QueueAttributes(PATH), PATH), spans_of(lookup_ids))
    assert run.lookup_ids() == lookup_ids
    assert run.some(range(start, stop)) == lookup_ids[start:stop]


def test_a_million_that_are_left_out_are_passed_over_in_one_step() -> None:
    positions = PositionList()
    first, behind = lookup_identifier(0, 1), lookup_identifier(0, 1_000_002)
    positions.restore(range(first, behind + 1))
    arrivals = Arrivals(positions, [range(first + 1, behind)])
    assert arrivals.take(0, SEQUENCE_MASK, 5) == [first, behind]
    assert (arrivals.count(1, 1_000_001), arrivals.nth(1, SEQUENCE_MASK, 1)) == (0, 1_000_002)


def test_a_number_that_came_late_is_in_its_place() -> None:
    model = Model()
    for seq in (5, 9, 12):
        model.add(seq, 3)
    model.add(7, 3)
    check(model, 5, 12, ())


def test_many_that_were_removed_in_the_middle_are_not_walked_over_again() -> None:
    model = Model()
    for seq in range(1, 1001):
        model.add(seq, 3)
    for seq in range(2, 402):
        model.remove(seq)
    # The first is still there, so the removed ones are kept apart until somebody looks.
    check(model, 0, 1000, ())
    assert not any(band.gone for band in model.positions.numbers())
    assert model.positions.next_available(model.there[1]) == model.there[402]
    model.remove(1)
    model.add(1001, 3)
    check(model, 1, 2000, ())


@pytest.mark.parametrize("up_to", [0, 6, SEQUENCE_MASK, 1 << 80])
def test_an_empty_queue_has_empty_ranges(up_to: int) -> None:
    arrivals = Arrivals(PositionList())
    assert (arrivals.first, arrivals.last, arrivals.count(0, up_to), arrivals.take(0, up_to, 9)) == (0, 0, 0, [])


def test_a_range_may_end_far_behind_the_last_message() -> None:
    model = Model()
    for seq in (1, 2, 3):
        model.add(seq, seq)
    assert Arrivals(model.positions).nth(0, 1 << 80, 3) == 3
