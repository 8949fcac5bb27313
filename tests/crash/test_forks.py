"""tests/forks.py: a process that is forked is as one that was started. `python -m timeit` runs any statement once."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.forks import Forked, run, start

ONCE = ("timeit", "-n", "1", "-r", "1")


def test_it_has_its_own_words_environment_and_folder(tmp_path: Path) -> None:
    show = "import json, os, sys; print(json.dumps([sys.argv[-1], os.getcwd(), dict(os.environ)]))"
    environment = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")} | {"ONE": "1"}
    done = run(*ONCE, show, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0]) == [show, str(tmp_path), environment]


def test_it_is_a_separate_process_whose_end_is_seen() -> None:
    process = start(*ONCE, "print('ready', flush=True); input()", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        assert isinstance(process, Forked)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert process.poll() is None
        os.kill(process.pid, 0)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    assert process.poll() == -signal.SIGKILL


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("raise SystemExit(7)", 7), ("raise KeyError", 1)])
def test_its_exit_code_is_that_of_python(ending: str, code: int) -> None:
    done = run("tests.crash.ending", ending)
    assert (done.returncode, "KeyError" in done.stderr) == (code, code == 1)
    assert done.stdout == "at the end\n"


def test_interrupts_end_it() -> None:
    sleep = "import time; print('ready', flush=True); time.sleep(600)"
    with start("tests.crash.ending", sleep, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT


def test_a_file_and_a_pipe_are_written_in_turn(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        for stdout in (file, subprocess.PIPE, file):
            with start("waypost.cli", "--version", stdout=stdout) as process:
                told = process.stdout.read() if process.stdout else b""
                assert process.wait(60) == 0
                assert told.startswith(b"waypost ") == (process.stdout is not None)
    assert (tmp_path / "file").read_bytes().count(b"waypost ") == 2


def test_other_variables_of_python_are_not_left_out(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONUTF8": "1"}
    show = "import sys; print(sys.flags.hash_randomization, sys.flags.utf8_mode)"
    seeded = run(*ONCE, show, env=environment | {"PYTHONHASHSEED": "0"})
    assert seeded.stdout.splitlines()[0] == "0 1"
    with start(*ONCE, show, env=environment, stdout=subprocess.DEVNULL) as process:
        assert not isinstance(process, Forked)
