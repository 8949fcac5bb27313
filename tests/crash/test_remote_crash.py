"""Remote readers that are killed lose nothing and lock nothing. `make crash` does the same for longer."""

from pathlib import Path

from tests.crash.remote_campaign import RemoteCampaign


def test_ten_rounds_of_kills_lose_nothing_repeat_nothing_and_leave_nothing_locked(tmp_path: Path) -> None:
    report = RemoteCampaign(tmp_path, seed=4).run(10, lambda _: None)
    assert report.problems == []
    assert report.counts["consumers"] >= 10
    assert report.counts["daemons"] == 2
    assert report.counts["received"] > 0
