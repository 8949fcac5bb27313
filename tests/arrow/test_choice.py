"""The choice of messages by class and label, before their columns are decoded."""

import numpy as np
import pytest

from tests.arrow.test_decoder import plain
from waypost.arrow.choice import EVERY, Choice
from waypost.arrow.packets import Packets

LABELS = ["order 1", "order 2", "Order 3", "a.c", "abc", "two\nlines", ""]


def packets(*others: bytes) -> Packets:
    found = Packets.of([*(plain(label=label).encode() for label in LABELS), *others])
    return Packets(found.data, found.offsets, "q", np.arange(len(found), dtype=np.uint64))


@pytest.mark.parametrize(
    ("choice", "rows"),
    [
        (Choice(label_pattern="order*"), [0, 1]),
        (Choice(label_pattern="?rder ?"), [0, 1, 2]),
        (Choice(label_pattern="a.c"), [3]),
        (Choice(label_pattern="two*"), [5]),
        (Choice(frozenset({0}), "*2"), [1]),
        (Choice(frozenset({0x4000})), []),
        (Choice(frozenset({0, 1})), list(range(7))),
        (EVERY, list(range(7))),
    ],
)
def test_messages_are_chosen_with_what_stands_beside_them(choice: Choice, rows: list[int]) -> None:
    everything = packets()
    some = choice.of(everything)
    assert some.lookup_ids is not None
    assert some.lookup_ids.tolist() == rows
    assert [some.packet(row) for row in range(len(some))] == [everything.packet(row) for row in rows]


def test_a_malformed_packet_is_always_chosen() -> None:
    some = Choice(frozenset({0x4000}), "nothing").of(packets(b"malformed" * 20))
    assert len(some) == 1
    assert some.packet(0).startswith(b"malformed")
