"""`make` installs what a command needs, once, and the scripts behind it say what is missing. Nothing is downloaded."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The tools that the commands of the Makefile start.
TOOLS = ("waypost", "ruff", "mypy", "lint-imports", "pytest", "python")


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@dataclass(frozen=True, slots=True)
class Checkout:
    """The Makefile with scripts that only write down that they were called."""

    root: Path

    def make(self, *words: str) -> list[str]:
        """The installed packages, and the tools that were started."""
        calls = self.root / "calls"
        calls.write_text("", encoding="utf-8")
        done = subprocess.run(["make", *words], cwd=self.root, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return calls.read_text(encoding="utf-8").splitlines()

    def change(self, name: str) -> None:
        """Make a file newer than all that was installed."""
        newest = max(path.stat().st_mtime for path in (self.root / ".venv").iterdir())
        os.utime(self.root / name, (newest + 1, newest + 1))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    tools = "\n".join(f"echo 'echo {tool} \"$1\" >> calls' > $2/bin/{tool}; chmod +x $2/bin/{tool}" for tool in TOOLS)
    script(tmp_path / "tools/setup.sh", f'mkdir -p $2/bin; echo "install ${{4:-manager}}" >> calls\n{tools}')
    script(tmp_path / "tools/java.sh", "echo java >> calls")
    return Checkout(tmp_path)


def test_run_installs_the_queue_manager_alone_and_starts_it(checkout: Checkout) -> None:
    assert checkout.make("run") == ["install manager", "waypost serve"]


def test_what_is_installed_is_not_installed_again(checkout: Checkout) -> None:
    assert checkout.make("run") == ["install manager", "waypost serve"]
    assert checkout.make("test")[0] == "install dev"
    assert checkout.make("run") == ["waypost serve"]
    assert not any(call.startswith("install") for call in checkout.make("test"))
    assert checkout.make("spark") == ["java"]


def test_test_on_a_fresh_checkout_installs_once_and_runs_every_check(checkout: Checkout) -> None:
    assert checkout.make("test") == [
        *("install dev", "ruff check", "ruff format", "mypy ", "lint-imports --no-logo", "java", "pytest -n")
    ]
    assert checkout.make("run") == ["waypost serve"]


def test_spark_is_added_to_what_run_installed(checkout: Checkout) -> None:
    checkout.make("run")
    assert checkout.make("spark") == ["install spark", "java"]
    assert checkout.make("run") == ["waypost serve"]
    assert checkout.make("spark") == ["java"]


@pytest.mark.parametrize("name", ["pyproject.toml", "tools/setup.sh"])
def test_a_change_installs_again(name: str, checkout: Checkout) -> None:
    checkout.make("test")
    checkout.change(name)
    assert checkout.make("run") == ["install manager", "waypost serve"]
    assert checkout.make("spark") == ["install spark", "java"]
    assert checkout.make("test")[0] == "install dev"


def test_another_interpreter_installs_again(checkout: Checkout) -> None:
    checkout.make("run")
    assert checkout.make("PYTHON=/opt/python3.12", "run") == ["install manager", "waypost serve"]


def test_the_fuzzer_comes_on_top_of_the_development_tools(checkout: Checkout) -> None:
    assert checkout.make("fuzz")[:2] == ["install dev", "install fuzz"]


def test_the_list_of_commands_has_those_of_the_first_minute(checkout: Checkout) -> None:
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=checkout.root, capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[1] for line in listed.splitlines()][:4] == ["help", "run", "spark", "test"]


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder of programs that are the only ones on the path, and a virtual environment whose pip only takes notes."""

    place: Path

    @property
    def venv(self) -> Path:
        return self.place / "venv"

    def setup(self, *words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / "tools/setup.sh"), python, str(self.venv), *words]
        return self.run(command)

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.place / "bin"), "NOTES": str(self.place / "notes")}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    def program(self, name: str, text: str) -> None:
        script(self.place / "bin" / name, text)

    def notes(self) -> list[str]:
        found = self.place / "notes"
        return found.read_text(encoding="utf-8").splitlines() if found.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    for name in ("sh", "dirname", "id", "env"):
        program = shutil.which(name)
        assert program is not None
        found.program(name, f'exec {program} "$@"')
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", found.venv], check=True, timeout=60)
    (package,) = found.venv.glob("lib/python*/site-packages")
    (package / "pip").mkdir()
    (package / "pip/__init__.py").touch()
    (package / "pip/__main__.py").write_text(
        "import os, sys\nopen(os.environ['NOTES'], 'a').write(f'pip {sys.argv[-1]}\\n')\n"
        "sys.exit(os.path.exists(os.environ['NOTES'] + '-fail'))\n",
        encoding="utf-8",
    )
    return found


@pytest.mark.parametrize(("extras", "target"), [((), "."), (("dev,bench",), ".[dev,bench]")])
def test_pip_installs_the_checkout_with_the_extras(extras: tuple[str, ...], target: str, machine: Machine) -> None:
    done = machine.setup("the queue manager", *extras)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Installing the queue manager into {machine.venv} (once) ...\n"
    assert machine.notes() == [f"pip {target}"]


def test_uv_is_used_where_it_is_installed(machine: Machine) -> None:
    machine.program("uv", 'echo "uv $1 $2 $5 $6" >> $NOTES')
    assert machine.setup("Spark", "spark").returncode == 0
    assert machine.notes() == ["uv pip install --editable .[spark]"]


def test_pip_comes_next_where_uv_does_not_succeed(machine: Machine) -> None:
    machine.program("uv", "echo 'no index' >&2; exit 1")
    done = machine.setup("Spark", "spark")
    assert done.returncode == 0
    assert "uv did not succeed; trying pip ..." in done.stdout
    assert machine.notes() == ["pip .[spark]"]


def test_what_pip_could_not_install_is_said(machine: Machine) -> None:
    (machine.place / "notes-fail").touch()
    done = machine.setup("Spark", "spark")
    assert done.returncode == 1
    assert done.stderr.startswith("waypost: Spark could not be installed; the lines above say why.")


def test_a_missing_interpreter_is_said(machine: Machine) -> None:
    done = machine.setup("the queue manager", python="python3.99")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("waypost: python3.99 is not installed. Install Python 3.11 or later, or name it:")


def test_an_old_interpreter_is_said(machine: Machine) -> None:
    machine.program("python3.9", '[ "$1" = -V ] && echo Python 3.9.1; exit 1')
    done = machine.setup("the queue manager", python="python3.9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("waypost: Python 3.9.1 is too old: it must be 3.11 or later.")


def apt(machine: Machine) -> subprocess.CompletedProcess[str]:
    return machine.run([str(ROOT / "tools/apt.sh"), "python3.11-venv", "python3 has no ensurepip"])


def test_without_apt_the_reason_and_what_to_do_are_said(machine: Machine) -> None:
    done = apt(machine)
    assert done.returncode == 1
    assert done.stderr == (
        "waypost: python3 has no ensurepip. This computer has no apt-get: install it in another way, then type the "
        "same again.\n"
    )


def test_apt_installs_what_is_missing(machine: Machine) -> None:
    machine.program("apt-get", 'echo "$@" >> $NOTES')
    machine.program("id", "echo 0")
    assert apt(machine).returncode == 0
    assert machine.notes() == ["-q update", "-qy install --no-install-recommends python3.11-venv"]


def test_a_user_without_sudo_gets_the_command_for_root(machine: Machine) -> None:
    machine.program("apt-get", 'echo "$@" >> $NOTES')
    machine.program("id", "echo 1000")
    done = apt(machine)
    assert done.returncode == 1
    assert done.stderr == "waypost: python3 has no ensurepip. Type as root: apt-get install python3.11-venv\n"
    assert machine.notes() == []
