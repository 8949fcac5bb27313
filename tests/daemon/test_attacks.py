"""A short run of the attacks of tests/daemon/hostile.py."""

from pathlib import Path

from tests.daemon.hostile import campaign


def test_a_daemon_bears_hostile_peers_and_serves_the_others(tmp_path: Path) -> None:
    told: list[str] = []
    campaign(tmp_path, packets=600, idle=100, seed=4, tell=told.append)
    assert len(told) == 3
