"""The examples run as they are, also a second time in the same folder, and say what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

SAYS = {
    "hello.py": ["sent {", "orders has 1 message(s):", "  order: 42 bolts", "received '42 bolts'"],
    "transactions.py": [
        "'42 bolts' is back in its place (abort count 1), and no invoice was sent",
        "orders left: 0",
        "invoice for 42 bolts\ninvoice for 7 nuts",
    ],
    "worker.py": ["did job 5", "cannot do a bad job (attempt 3)", "jobs left: 0", "set aside: a bad job"],
    "request_reply.py": [
        "answer to our question: HOW ARE YOU?",
        "receipt for our question: the message was received by an application",
        "dead-letter message: anybody? (the message expired",
    ],
    "follow_async.py": ["kitchen: 20 degrees", "roof: 22 degrees", "9 temperatures"],
}


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    with_spark = {"audit_site.py", "spark_delta.py", "spark_sql.py", "spark_tour.py"}  # tests/spark runs them
    assert {path.name for path in EXAMPLES.glob("*.py")} - with_spark == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        output = run(name, str(tmp_path / "data"))
        assert [sentence for sentence in SAYS[name] if sentence not in output] == [], output


def test_an_example_needs_no_folder() -> None:
    assert "received '42 bolts'" in run("hello.py")
