"""Whose turn it is: waypost.node.turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.node.turns import SHARE, WHOLE, Budget, Turns

ONE = Budget(2, 10)
ALONE = Budget(9, 99)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("", ""),
        ("a .", "A"),
        ("a b c . . .", "abC"),
        # One that waits already keeps its place.
        ("a b a . .", "aB"),
        # One with more to do goes behind the others.
        ("a b . a . .", "abA"),
        ("a b . a . b . a .", "abab"),
        # A connection that has left is passed over, and those left behind may be alone then.
        ("a b -a .", "B"),
        ("a b -b .", "A"),
        ("a -a .", ""),
        # One that has come meanwhile is not behind a second turn of another.
        ("a b . a c . b . . .", "abacB"),
    ],
)
def test_the_order_of_turns(steps: str, expected: str) -> None:
    """A small letter waits, a small letter after - leaves, and . takes a turn: a capital letter had the whole of it."""
    turns: Turns[str] = Turns(ONE, ALONE)
    taken = ""
    for step in steps.split():
        if step == ".":
            turn = turns.take()
            if turn is not None:
                key, budget = turn
                assert budget in (ONE, ALONE)
                taken += key.upper() if budget is ALONE else key
        elif step[0] == "-":
            turns.leave(step[1])
        else:
            turns.wait(step)
    assert taken == expected


def test_a_window_is_a_turn_and_a_connection_that_is_alone_gets_more() -> None:
    turns: Turns[int] = Turns()
    turns.wait(1)
    turns.wait(2)
    assert turns.take() == (1, SHARE)
    assert turns.take() == (2, WHOLE)
    assert SHARE.packets < WHOLE.packets
    assert SHARE.size <= WHOLE.size


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.lists(st.integers(0, 7), max_size=200))
def test_between_two_turns_of_one_that_waits_every_other_has_at_most_one(
    backlogs: list[int], arrivals: list[int]
) -> None:
    """With any arrivals: `arrivals` says which connection gets ten packets more before each turn."""
    turns: Turns[int] = Turns(ONE, ALONE)
    left = dict(enumerate(backlogs))
    # Work on each other connection while this one waited.
    since: dict[int, dict[int, int]] = {}

    def wait(key: int) -> None:
        if left[key]:
            turns.wait(key)
            since.setdefault(key, {})

    for key in left:
        wait(key)
    for arrival in arrivals:
        key = arrival % len(backlogs)
        left[key] += 10
        wait(key)
        turn = turns.take()
        assert turn is not None
        key, budget = turn
        assert budget is (ONE if len(turns) else ALONE)
        done = min(left[key], budget.packets)
        left[key] -= done
        for other, worked in since.items():
            if other != key:
                worked[key] = worked.get(key, 0) + done
                assert worked[key] <= ONE.packets, f"{other} waited while {worked[key]} packets of {key} came first"
        del since[key]
        wait(key)
    while (turn := turns.take()) is not None:
        key, budget = turn
        left[key] -= min(left[key], budget.packets)
        wait(key)
    assert not any(left.values())
