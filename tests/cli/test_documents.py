"""The `shell` blocks of the documents work as written, on a separate daemon.

A block of the language `sh` needs no daemon, and tests/test_docs.py runs it. The `shell` blocks of one document are run
line by line, in their order, in an empty folder, against one fresh queue manager with the name SHOP. A `text` block
right behind one is how the output of its last line begins.
"""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.daemons import daemon, shell
from tests.test_docs import BLOCK, DOCUMENTS
from waypost.cli import app


def stories() -> list[Path]:
    return [path for path in DOCUMENTS if "\n```shell\n" in path.read_text(encoding="utf-8")]


def output(line: str, environment: dict[str, str], folder: Path) -> str:
    """The output of a line. A command alone needs no separate process, which takes a second to start."""
    program, *arguments = shlex.split(line)
    if program == "waypost" and "|" not in arguments:
        alone = CliRunner().invoke(app, arguments, env=environment)
        assert alone.exit_code == 0, f"{line}: {alone.stderr}"
        return alone.stdout
    result = shell(line, environment, folder)
    assert result.returncode == 0, f"{line}: {result.stderr}"
    return result.stdout


@pytest.mark.parametrize("path", stories(), ids=lambda path: path.name)
def test_a_document_works_from_its_first_command_to_its_last(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = ""
    is_shown = False
    with daemon(tmp_path / "data", "--name", "SHOP") as environment:
        for language, text in BLOCK.findall(path.read_text(encoding="utf-8")):
            if language == "text" and is_shown:
                assert printed.startswith(text)
            is_shown = language == "shell"
            if is_shown:
                for line in text.splitlines():
                    printed = output(line, environment, tmp_path)


def test_there_is_a_story() -> None:
    assert [path.name for path in stories()] != []
