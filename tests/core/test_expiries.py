"""Deadlines of messages: when they are due, in which order, and what they cost."""

from collections.abc import Sequence
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from waypost.core.expiries import Expiries

FEW = 256
Running = set[tuple[int, int]]


class Messages:
    """All messages are there, or those in `running`. `looked_at` counts how many somebody asked for."""

    def __init__(self, running: Running | None) -> None:
        self.running = running
        self.looked_at = 0

    def remaining(self, queue: int, lookup_ids: Sequence[int]) -> list[int]:
        self.looked_at += len(lookup_ids)
        return [each for each in lookup_ids if self.running is None or (queue, each) in self.running]

    def held(self) -> int:
        return 1_000_000 if self.running is None else len(self.running)


def expiries(running: Running | None = None) -> Expiries:
    return Expiries(Messages(running))


def due(deadlines: Expiries, time: float) -> list[tuple[int, int]]:
    return [(queue, lookup_id) for queue, lookup_ids in deadlines.due(time) for lookup_id in lookup_ids]


def test_messages_expire_in_the_order_of_deadlines_queues_and_places() -> None:
    deadlines = expiries()
    for deadline, queue, lookup_id in ((30, 1, 1), (10, 2, 9), (10, 2, 8), (10, 1, 7), (20, 1, 2)):
        deadlines.start(deadline, queue, (lookup_id,))
    assert deadlines.earliest() == deadlines.first == 10
    assert due(deadlines, 9.9) == []
    assert due(deadlines, 20) == [(1, 7), (2, 8), (2, 9), (1, 2)]
    assert deadlines.earliest() == deadlines.first == 30
    assert due(deadlines, 31) == [(1, 1)]
    assert (deadlines.earliest(), deadlines.first, len(deadlines)) == (None, inf, 0)


def test_what_is_gone_wakes_nobody() -> None:
    running: Running = {(1, 2), (1, 3)}
    deadlines = expiries(running)
    for lookup_id in (1, 2, 3):
        deadlines.start(10 * lookup_id, 1, (lookup_id,))
    assert deadlines.earliest() == 20
    running.remove((1, 2))
    assert deadlines.earliest() == 30
    assert due(deadlines, 25) == []
    assert due(deadlines, 30) == [(1, 3)]


def test_deadlines_of_messages_that_left_do_not_pile_up() -> None:
    running: Running = set()
    deadlines = expiries(running)
    for lookup_id in range(10_000):
        running.add((1, lookup_id))
        deadlines.start(lookup_id // 10, 1, (lookup_id,))
        running.discard((1, lookup_id - 10))
    assert len(deadlines) <= 3 * FEW
    assert set(due(deadlines, 10_000)) >= running


def test_nobody_waits_until_all_stale_deadlines_are_cleared_away() -> None:
    running: Running = set()
    messages = Messages(running)
    deadlines = Expiries(messages)
    seen = most = 0
    for lookup_id in range(100_000):
        # All leave when there are many: then all deadlines are stale.
        if lookup_id == 50_000:
            running.clear()
        running.add((1, lookup_id))
        deadlines.start(lookup_id // 100, 1, (lookup_id,))
        most = max(most, messages.looked_at - seen)
        seen = messages.looked_at
    assert most <= FEW + 2 + 100
    assert len(deadlines) <= 2 * len(running) + 3 * FEW


def test_the_deadlines_of_a_message_that_comes_and_goes_do_not_pile_up() -> None:
    deadlines = expiries({(1, 1), (1, 2)})
    for _ in range(FEW + 1):
        deadlines.start(10, 1, (1,))
    deadlines.start(10, 1, (2,))
    assert due(deadlines, 10) == [(1, 1), (1, 2)]


steps = st.tuples(st.integers(0, 20), st.integers(1, 3), st.integers(1, 60))


@given(st.lists(steps, max_size=12), st.lists(st.integers(0, 25), max_size=5))
def test_every_message_expires_when_its_time_is_over(starts: list[tuple[int, int, int]], times: list[int]) -> None:
    deadlines, model, last = expiries(), [], 0
    for deadline, queue, count in starts:
        deadlines.start(deadline, queue, range(last, last + count))
        model += [(deadline, queue, lookup_id) for lookup_id in range(last, last + count)]
        last += count
    for time in sorted(times):
        expected = sorted(each for each in model if each[0] <= time)
        assert due(deadlines, time) == [(queue, lookup_id) for _, queue, lookup_id in expected]
        model = [each for each in model if each[0] > time]
        assert deadlines.earliest() == min((each[0] for each in model), default=None)
        assert len(deadlines) == len(model)
