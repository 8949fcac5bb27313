"""A short run of the attacks of tests/crash/attacks.py; `python -m tests.crash.hostile_campaign` is the long one."""

from pathlib import Path

from tests.crash.hostile_campaign import Amounts, HostileCampaign


def test_a_daemon_bears_hostile_peers_and_serves_the_others(tmp_path: Path) -> None:
    told: list[str] = []
    HostileCampaign(tmp_path, Amounts(), seed=4, tell=told.append).run()
    assert len(told) == 15
