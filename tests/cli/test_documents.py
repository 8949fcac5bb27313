"""The `shell` blocks of the documents work as written, on separate daemons.

A block of the language `sh` needs no daemon, and tests/test_docs.py runs it. The `shell` blocks of one document are run
line by line, in their order, in an empty folder. A line of `waypost serve` starts a daemon that stays, on an address in
the place of the one that is shown, and a comment `<!-- stop NAME -->` stops it. A document without such a line finds
one fresh queue manager with the name SHOP. A `text` block right behind a block is how the output of its last line
begins, `...` being anything.
"""

import os
import re
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.daemons import daemon, shell
from tests.crash.daemons import Daemon, loopback
from tests.test_docs import BLOCK, DOCUMENTS, begins
from waypost.cli import app

SERVE = re.compile(r"waypost serve --name (\w+) --bind (127\.0\.0\.\d+) --data \w+")
# Commands of these tests have the environment already.
ACTIVATE = ". .venv/bin/activate"
STEP = re.compile(rf"{BLOCK.pattern}|^<!-- stop (\w+) -->$", BLOCK.flags)
ADDRESS = re.compile(r"127\.0\.0\.(\d+)")


def stories() -> list[Path]:
    return [path for path in DOCUMENTS if "\n```shell\n" in path.read_text(encoding="utf-8")]


class Story:
    """One document. `environment` is that of commands, which find the first daemon."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path}
        self.folder = folder
        self.daemons: dict[str, Daemon] = {}
        # From what a document shows to what a test has.
        self.addresses: dict[str, str] = {}

    def output(self, line: str) -> str:
        """The output of a line. A command alone runs in this process, because a process takes a second to start."""
        program, *arguments = shlex.split(self.here(line))
        if program == "waypost" and "|" not in arguments and "$(" not in line:
            alone = CliRunner().invoke(app, arguments, env=self.environment)
            assert alone.exit_code == 0, f"{line}: {alone.stderr}"
            return self.there(alone.stdout)
        result = shell(self.here(line), self.environment, self.folder)
        assert result.returncode == 0, f"{line}: {result.stderr}"
        return self.there(result.stdout)

    def here(self, text: str) -> str:
        return ADDRESS.sub(lambda found: self.addresses.get(found[0], found[0]), text)

    def there(self, text: str) -> str:
        for shown, found in self.addresses.items():
            text = text.replace(found, shown)
        return text

    def serve(self, stack: ExitStack, name: str, address: str) -> None:
        if name not in self.daemons:
            self.daemons[name] = stack.enter_context(Daemon(self.folder, name, self.addresses[address]))
            self.environment.setdefault("WAYPOST_URL", self.daemons[name].url)
        self.daemons[name].start()


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.name)
def test_a_document_works_from_its_first_command_to_its_last(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WAYPOST_URL", raising=False)
    document = path.read_text(encoding="utf-8")
    story = Story(tmp_path)
    with ExitStack() as stack:
        if served := SERVE.findall(document):
            story.addresses = {shown: loopback(100 + int(shown.rpartition(".")[2])) for _, shown in served}
        else:
            found = stack.enter_context(daemon(tmp_path / "data", "--name", "SHOP"))
            story.environment["WAYPOST_URL"] = found["WAYPOST_URL"]
        printed, is_shown = "", False
        for language, text, stopped in STEP.findall(document):
            if stopped:
                story.daemons[stopped].stop()
            if language == "text" and is_shown:
                assert begins(printed, text), printed
            is_shown = language == "shell"
            for line in text.splitlines() if is_shown else ():
                if start := SERVE.fullmatch(line):
                    story.serve(stack, start[1], start[2])
                elif line != ACTIVATE:
                    printed = story.output(line)


def test_there_is_a_story() -> None:
    assert [path.name for path in stories()] != []
