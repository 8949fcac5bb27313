"""A queue manager that is killed keeps its promises. `make crash` does the same for longer."""

from pathlib import Path

from tests.crash.campaign import Campaign


def test_five_kills_under_load_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    report = Campaign(tmp_path, seed=1).run(5, lambda _: None)
    assert report.problems == []
    assert report.rounds == 5
    assert report.counts["done"] > 0
    assert report.counts["left"] > 0
