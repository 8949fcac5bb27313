"""Tab completes verbs and queues in bash, zsh and fish."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.daemons import daemon
from tests.forks import run


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("completion")
    with daemon(folder / "data") as found:
        for name in ("orders", "orders-late", "ledger", "q(1)"):
            assert waypost(found, "queue", "create", name).returncode == 0
        yield found


def waypost(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return run("waypost.cli", *words, env=environment)


def complete(environment: dict[str, str], shell: str, line: str) -> str:
    """The answer to the shell when Tab is pressed at the end of the line."""
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_WAYPOST_COMPLETE": f"complete_{shell}",
    }
    done = waypost(environment | asked)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_verb_is_completed(environment: dict[str, str], shell: str) -> None:
    found = complete(environment, shell, "waypost qu")
    assert "queue" in found
    assert "status" not in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_queue_is_completed(environment: dict[str, str], shell: str) -> None:
    found = complete(environment, shell, "waypost queue show or")
    assert "orders" in found
    assert "orders-late" in found
    assert "ledger" not in found


def test_the_options_before_are_minded_and_a_daemon_that_is_not_there_is_no_error(environment: dict[str, str]) -> None:
    line = "waypost --url {url} send l"
    assert complete(environment | {"WAYPOST_URL": "http://127.0.0.1:1"}, "bash", "waypost send l").strip() == ""
    there = line.format(url=environment["WAYPOST_URL"])
    assert complete(environment | {"WAYPOST_URL": "http://127.0.0.1:1"}, "bash", there).split() == ["ledger"]


def test_a_name_that_a_shell_would_take_apart_is_not_offered(environment: dict[str, str]) -> None:
    assert complete(environment, "bash", "waypost peek q").strip() == ""


def test_verbs_that_are_loaded_later_are_completed(environment: dict[str, str]) -> None:
    assert complete(environment, "bash", "waypost spark ar").split() == ["archive"]


def test_bash_completes_a_line(environment: dict[str, str], tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is missing")
    script = tmp_path / "waypost.bash"
    # As `waypost --show-completion` prints it in a bash.
    script.write_text(waypost(environment | {"_WAYPOST_COMPLETE": "source_bash"}).stdout, encoding="utf-8")
    press = (
        f". {script}; COMP_WORDS=(waypost queue show led); COMP_CWORD=3; "
        '_waypost_completion waypost; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run([bash, "-c", press], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("ledger\n", "")
