"""`waypost demo` on real sockets, and the commands on a real daemon."""

import json
from functools import partial
from pathlib import Path
from tempfile import gettempdir

from typer.testing import CliRunner

from tests.cli.daemons import daemon, shell
from waypost.cli import app


def test_the_demo_tells_its_story_and_leaves_nothing_behind() -> None:
    before = set(Path(gettempdir()).glob("waypost-demo-*"))
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.stderr
    told = result.stdout
    assert "nothing accepted the TCP connection (IP=127.0.0.3)" in told
    assert "BETA comes up, and receives '42 bolts' with the label 'order'." in told
    assert "An acknowledgment comes back to ALPHA: the message was received by an application." in told
    assert "BETA receives 'debit 100' and 'credit 100'" in told
    assert "It is a dead letter now" in told
    assert set(Path(gettempdir()).glob("waypost-demo-*")) == before


def test_what_only_a_daemon_answers(tmp_path: Path) -> None:
    with daemon(tmp_path / "data", "--name", "SHOP") as environment:
        run = partial(shell, environment=environment, folder=tmp_path)
        far = "'DIRECT=TCP:127.0.0.88\\private$\\orders'"
        status = json.loads(run("waypost status --json").stdout)
        assert status["name"] == "SHOP"
        identifier = run(f"waypost send {far} --body a").stdout.strip()
        explained = json.loads(run(f"waypost explain '{identifier}' --json").stdout)
        assert explained["facts"]["found"] is True
        assert "waits in the outgoing queue" in explained["sentences"][0]
        assert run(f"waypost queue pause {far}").returncode == 0
        assert "on hold" in run(f"waypost explain {far}").stdout
        assert run(f"waypost queue resume {far}").returncode == 0
        checks = json.loads(run("waypost doctor --json").stdout)["checks"]
        assert next(check for check in checks if check["check"] == "outgoing")["ok"] is False
        assert run("waypost receive orders --timeout 0").returncode == 1
        run("waypost queue create orders")
        assert run("waypost receive orders --timeout 0.1").returncode == 4
        assert run("waypost explain nothing").returncode == 1
    assert run("waypost queue list").returncode == 3
