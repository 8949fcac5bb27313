"""Daemons that are killed lose nothing that they have taken. `make crash` does the same for longer."""

from pathlib import Path

from tests.crash.transfer_campaign import TransferCampaign


def test_three_rounds_of_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    report = TransferCampaign(tmp_path, seed=5).run(3, lambda _: None)
    assert report.problems == []
    assert report.counts["kills"] >= 3
    assert report.counts["transactional arrived"] > 0
    assert report.counts["recoverable arrived"] > 0
