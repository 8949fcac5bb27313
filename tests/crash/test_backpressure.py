"""The back pressure campaign sees what it is there to see. `make backpressure` runs it."""

import pytest

from tests.late import late

campaign = late("tests.crash.backpressure_campaign")


def test_every_row_once_and_in_order_is_no_violation() -> None:
    assert list(campaign.violations(range(5), 5, is_ordered=True)) == []
    assert list(campaign.violations([4, 3, 2, 1, 0], 5, is_ordered=False)) == []


@pytest.mark.parametrize(
    ("taken", "words"),
    [
        ([0, 1, 3], ["1 rows are lost"]),
        ([0, 1, 1, 2, 3], ["1 rows are doubled"]),
        ([0, 1, 1, 3], ["1 rows are lost", "1 rows are doubled"]),
        ([0, 1, 2, 3, 4], ["1 rows are foreign"]),
        ([1, 0, 2, 3], ["the rows were received out of order"]),
    ],
)
def test_a_row_that_is_lost_doubled_foreign_or_out_of_order_is_a_violation(taken: list[int], words: list[str]) -> None:
    assert list(campaign.violations(taken, 4, is_ordered=True)) == words
