"""Every command and every example in the documents works as written.

A line of an `sh` block is run in the root of the repository. A `make` line is only checked for a rule that exists
and scripts that are there, because this suite is itself run by make. A `text` block right behind an `sh` block is how
the output of its last line begins. A `python` block is run as one program.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^([^\n]+)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r"\S+\.py\b")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(language: str) -> list[tuple[str, str]]:
    """The blocks of a language in all documents, each with the name of its document."""
    return [
        (path.name, text)
        for path in DOCUMENTS
        for found, text in BLOCK.findall(path.read_text(encoding="utf-8"))
        if found == language
    ]


def commands() -> list[tuple[str, str]]:
    return [(name, line) for name, text in blocks("sh") for line in text.splitlines() if line.strip()]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the root, with the programs of this environment first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("document", "command"), commands())
def test_a_command_works(document: str, command: str) -> None:
    program = command.split()[0]
    assert program in {"make", "waypost"}, f"{document} shows a command that this test cannot run"
    result = run("sh", "-c", command.replace("make ", "make --dry-run ", 1) if program == "make" else command)
    assert result.returncode == 0, result.stderr
    assert result.stdout
    if program == "make":
        assert [script for script in SCRIPT.findall(result.stdout) if not (ROOT / script).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_is_shown_is_printed(path: Path) -> None:
    for command, shown in SHOWN.findall(path.read_text(encoding="utf-8")):
        assert run("sh", "-c", command).stdout.startswith(shown)


@pytest.mark.parametrize(("document", "example"), blocks("python"))
def test_an_example_works(document: str, example: str) -> None:
    result = run(sys.executable, "-c", example)
    assert result.returncode == 0, f"{document}: {result.stderr}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    links = LINK.findall(path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_every_block_says_what_it_is() -> None:
    assert blocks("") == []
