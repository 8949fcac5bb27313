"""`waypost demo` on real sockets, and the commands on a real daemon."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import gettempdir

import pytest
from typer.testing import CliRunner

from tests.cli.daemons import daemon, shell
from waypost.cli import app
from waypost.spark import session
from waypost.spark.java import command_for


def folders() -> set[Path]:
    return set(Path(gettempdir()).glob("waypost-demo-*"))


def test_the_demo_tells_its_story_and_leaves_nothing_behind() -> None:
    before = folders()
    result = CliRunner().invoke(app, ["demo", "--no-spark"])
    assert result.exit_code == 0, result.stderr
    told = result.stdout
    assert "no program accepted the TCP connection (IP=127.0.0.3)" in told
    assert "BETA starts and receives '42 bolts' with the label 'order'." in told
    assert "ALPHA gets an acknowledgment: the message was received by an application." in told
    assert "BETA receives 'debit 100' and 'credit 100'" in told
    assert "The message is now a dead-letter message in" in told
    assert "Spark" not in told
    assert folders() == before


def test_the_demo_tells_its_story_in_json() -> None:
    result = CliRunner().invoke(app, ["demo", "--no-spark", "--json"])
    assert result.exit_code == 0, result.stderr
    sentences = json.loads(result.stdout)["sentences"]
    assert sentences[0].startswith("Two queue managers")
    assert all(sentences)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[session.__module__], "find_spec", lambda _: None)


@pytest.mark.usefixtures("without_spark")
def test_without_spark_the_demo_shows_the_rest_and_ends_with_the_command_that_installs_it() -> None:
    result = CliRunner().invoke(app, ["demo"])
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    third = "3. A message for 127.0.0.4, where no queue manager runs. The message must arrive within two seconds."
    assert third in lines
    assert not any(line.startswith("4. ") for line in lines)
    assert lines[-2].endswith("but pyspark is not installed. This command installs Spark:")
    assert lines[-1].strip() == command_for("spark")


@pytest.mark.usefixtures("without_spark")
def test_a_report_is_refused_at_once_where_spark_is_missing(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--report", str(tmp_path / "report")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines() == [
        "The report requires Spark: pyspark is not installed.",
        f"hint: `{command_for('spark')}` installs it.",
    ]


def test_a_checkout_installs_spark_with_make_and_others_with_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert command_for("spark", tmp_path) == "pip install 'waypost[spark]'"
    (tmp_path / "tools/setup.sh").touch()
    assert command_for("spark", tmp_path) == command_for("jre", tmp_path) == "make spark"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "other"))
    assert command_for("jre", tmp_path) == "pip install 'waypost[jre]'"


def test_the_demo_ends_with_a_report_of_spark(tmp_path: Path) -> None:
    """In a separate process, with which its Spark ends."""
    before = folders()
    folder = tmp_path / "report"
    command = [sys.executable, "-m", "waypost.cli", "demo", "--report", str(folder)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900)
    assert (result.returncode, result.stderr) == (0, "")
    act = result.stdout.partition("4. A Spark report on all messages that ALPHA has sent.")[2]
    assert "Spark starts, which takes 10 to 15 seconds" in act
    assert "1 lost, 1 refused of 305 messages." in act
    assert "203 messages were received, and 100 wait in their queue." in act
    refused, lost = r"DIRECT=TCP:127.0.0.4\PRIVATE$\orders", r"DIRECT=TCP:127.0.0.3\PRIVATE$\ordres"
    assert f"Refused, {refused}: the message expired before it reached its queue." in act
    assert f"Lost message for {lost}: no acknowledgment arrived." in act
    assert f"The whole report is in {folder}/report.html." in act
    assert "1 lost, 1 refused of 305 messages." in (folder / "report.md").read_text("utf-8")
    assert folders() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_a_report_without_spark_is_wrong_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--no-spark", "--report", str(tmp_path)])
    assert result.exit_code == 2
    assert "--report and --no-spark are mutually exclusive" in result.stderr


def test_what_only_a_daemon_answers(tmp_path: Path) -> None:
    with daemon(tmp_path / "data", "--name", "SHOP") as environment:
        run = partial(shell, environment=environment, folder=tmp_path)
        far = "'DIRECT=TCP:127.0.0.88\\private$\\orders'"
        status = json.loads(run("waypost status --json").stdout)
        assert status["name"] == "SHOP"
        identifier = run(f"waypost send {far} --body a").stdout.strip()
        explained = json.loads(run(f"waypost explain '{identifier}' --json").stdout)
        assert explained["facts"]["found"] is True
        assert "has been waiting in the outgoing queue" in explained["sentences"][0]
        assert run(f"waypost queue pause {far}").returncode == 0
        assert "The queue is paused: `waypost queue resume` resumes sending." in run(f"waypost explain {far}").stdout
        assert run(f"waypost queue resume {far}").returncode == 0
        checks = json.loads(run("waypost doctor --json").stdout)["checks"]
        assert next(check for check in checks if check["check"] == "outgoing")["ok"] is False
        assert run("waypost receive orders --timeout 0").returncode == 1
        run("waypost queue create orders")
        assert run("waypost receive orders --timeout 0.1").returncode == 4
        assert run("waypost explain nothing").returncode == 1
    assert run("waypost queue list").returncode == 3
