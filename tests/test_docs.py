"""The examples in the documents work as written.

A `waypost` line of an `sh` block is run in the root of the repository. A `make` line is only checked for a rule that
exists and scripts that are there, because this suite is itself run by make; so is a `make` command in running text,
while one of `waypost` there may have words in the place of arguments and is checked for its verb. A `text` block right
behind an `sh` block is how the output of its last line begins. A `python` block is run as one program.
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
SHOWN = re.compile(r"^```sh\n(?:[^`]*\n)?([^\n]+)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:make|waypost) [^`]*)`")
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


def mentions() -> list[tuple[str, str]]:
    """The commands in running text that name a rule or a verb; `waypost ...` does not."""
    return [
        (path.name, command)
        for path in DOCUMENTS
        for command in dict.fromkeys(INLINE.findall(BLOCK.sub("", path.read_text(encoding="utf-8"))))
        if command.split()[1][0].isalpha()
    ]


def shown() -> list[tuple[str, str]]:
    """The commands whose output a document shows, each with how it begins."""
    return [found for path in DOCUMENTS for found in SHOWN.findall(path.read_text(encoding="utf-8"))]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the root, with the programs of this environment first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )


def make_without_doing(command: str) -> None:
    """Checks that make knows what to do, and that the scripts it would run are there."""
    result = run("sh", "-c", command.replace("make ", "make --dry-run ", 1))
    assert result.returncode == 0, result.stderr
    assert result.stdout
    assert [script for script in SCRIPT.findall(result.stdout) if not (ROOT / script).exists()] == []


@pytest.mark.parametrize(("document", "command"), commands())
def test_a_command_works(document: str, command: str) -> None:
    program = command.split()[0]
    assert program in {"make", "waypost"}, f"{document} shows a command that this test cannot run"
    if program == "make":
        make_without_doing(command)
        return
    result = run("sh", "-c", command)
    assert result.returncode == 0, f"{document}: {result.stderr}"
    assert result.stdout


@pytest.mark.parametrize(("document", "command"), mentions())
def test_a_command_in_running_text_exists(document: str, command: str) -> None:
    program, verb, *_ = command.split()
    if program == "make":
        make_without_doing(command)
    else:
        assert run(program, verb, "--help").returncode == 0, f"{document} speaks of {command}"


@pytest.mark.parametrize(("command", "output"), shown())
def test_what_is_shown_is_printed(command: str, output: str) -> None:
    assert run("sh", "-c", command).stdout.startswith(output)


def test_these_tests_have_something_to_check() -> None:
    assert all((commands(), mentions(), shown(), blocks("python")))


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
