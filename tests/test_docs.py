"""Commands, programs and links of the documents work as written.

- `sh`: a `waypost` line is run in the root of the repository. A `make` line is only checked for a rule that exists and
  scripts that are there, because this suite is itself run by make.
- `shell`: tests/cli/test_documents.py runs it against a daemon.
- `python`: one program, which runs in an empty folder.
- `console`: a `waypost` line is parsed and not run. It needs a host, or time, that a test does not have.
- `http`: tests/http/test_http_page.py sends it.
- `text`, right behind one of the first three: how its output begins, `...` being anything.

A program may use a daemon at http://127.0.0.1:8181 and a host winserver01: it finds one fresh daemon in the place of
both. Commands in running text may have words in the place of arguments: make has their rule, and waypost their verb.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.crash.daemons import Daemon, loopback
from tests.test_reference import understand

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^```sh\n(?:[^`]*\n)?([^\n]+)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A block, and the text right behind it.
PROGRAM = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`((?:make|waypost) [^`]*)`")
SCRIPT = re.compile(r"\S+\.py\b")
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE_SPAN = re.compile(r"`[^`]*`")

URL, HOST, LOCAL = "127.0.0.1:8181", "winserver01", '"localhost"'


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(language: str) -> list[tuple[str, str]]:
    """The blocks of a language in all documents, each with the name of its document."""
    return [(path.name, text) for path in DOCUMENTS for found, text in BLOCK.findall(read(path)) if found == language]


def lines(language: str) -> list[tuple[str, str]]:
    return [(name, line.strip()) for name, text in blocks(language) for line in text.splitlines() if line.strip()]


def parsed() -> list[tuple[str, str]]:
    """The lines of consoles that begin with this program; the others are what it prints."""
    found = [(name, line.removeprefix("$ ")) for name, line in lines("console")]
    return [(name, line) for name, line in found if line.startswith("waypost ")]


def mentions() -> list[tuple[str, str]]:
    """The commands in running text that name a rule or a verb; `waypost ...` does not."""
    return [
        (path.name, command)
        for path in DOCUMENTS
        for command in dict.fromkeys(INLINE.findall(BLOCK.sub("", read(path))))
        if command.split()[1][0].isalpha()
    ]


def shown() -> list[tuple[str, str]]:
    """The commands whose output a document shows, each with how it begins."""
    return [found for path in DOCUMENTS for found in SHOWN.findall(read(path))]


def programs() -> list[tuple[str, str, str]]:
    """The name of a document, a program in it, and what that prints."""
    return [(path.name, *found) for path in DOCUMENTS for found in PROGRAM.findall(read(path))]


def begins(printed: str, text: str) -> bool:
    """Whether this is how the output begins, where `...` is anything on a line."""
    pattern = ".*".join(re.escape(part) for part in text.split("..."))
    return re.match(pattern, printed) is not None


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the root, with the programs of this environment first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )


@cache
def has_verb(program: str, verb: str) -> bool:
    """Asked once, however often the documents speak of it."""
    return run(program, verb, "--help").returncode == 0


@cache
def dry_run(command: str) -> subprocess.CompletedProcess[str]:
    return run("sh", "-c", command.replace("make ", "make --dry-run ", 1))


def make_without_doing(command: str) -> None:
    """Checks that make knows what to do, and that the scripts it would run are there."""
    result = dry_run(command)
    assert result.returncode == 0, result.stderr
    assert result.stdout
    assert [script for script in SCRIPT.findall(result.stdout) if not (ROOT / script).exists()] == []


@contextmanager
def surroundings(text: str, folder: Path) -> Iterator[dict[str, str]]:
    """The words of a page, each with its value in a test: a daemon, if the page needs one."""
    if URL not in text and HOST not in text:
        yield {}
        return
    with Daemon(folder, "daemon", loopback(90)) as daemon:
        daemon.start()
        yield {URL: f"{daemon.address}:8181", HOST: daemon.address, LOCAL: f'"{daemon.address}"'}
        daemon.stop()


@pytest.mark.parametrize(("document", "command"), lines("sh"))
def test_a_command_works(document: str, command: str) -> None:
    program = command.split()[0]
    assert program in {"make", "waypost"}, f"{document} shows a command that this test cannot run"
    if program == "make":
        make_without_doing(command)
        return
    result = run("sh", "-c", command)
    assert result.returncode == 0, f"{document}: {result.stderr}"
    assert result.stdout


@pytest.mark.parametrize(("document", "command"), parsed())
def test_a_command_that_is_not_run_is_understood(document: str, command: str) -> None:
    understand(shlex.split(command.partition(" | ")[0].partition(" > ")[0]))


@pytest.mark.parametrize(("document", "command"), mentions())
def test_a_command_in_running_text_exists(document: str, command: str) -> None:
    program, verb, *_ = command.split()
    if program == "make":
        make_without_doing(command)
    else:
        assert has_verb(program, verb), f"{document} speaks of {command}"


@pytest.mark.parametrize(("command", "output"), shown())
def test_what_is_shown_is_printed(command: str, output: str) -> None:
    assert begins(run("sh", "-c", command).stdout, output)


def test_these_tests_have_something_to_check() -> None:
    assert all((lines("sh"), parsed(), mentions(), shown(), programs()))


@pytest.mark.parametrize(("document", "program", "text"), programs())
def test_a_program_works(document: str, program: str, text: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with surroundings(program, tmp_path) as words:
        for word, value in words.items():
            program = program.replace(word, value)
        done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{document}: {done.stderr}"
        printed = done.stdout
        for word, value in words.items():
            printed = printed.replace(value, word)
    assert begins(printed, text), printed


def slug(heading: str) -> str:
    """The anchor that forges and the site make of a heading."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower().strip()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {slug(heading) for heading in HEADING.findall(BLOCK.sub("", read(path)))}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_to_headings_in_them(path: Path) -> None:
    text = CODE_SPAN.sub("", BLOCK.sub("", read(path)))
    broken = []
    for name, anchor in LINK.findall(text):
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{name}#{anchor}")
    assert broken == []


def test_every_block_says_what_it_is() -> None:
    assert blocks("") == []


def test_a_page_shows_what_its_reader_would_write() -> None:
    scaffolding = ("tempfile", "assert ", "subprocess", "-port=0")
    found = [(name, word) for name, program, _ in programs() for word in scaffolding if word in program]
    assert found == []
