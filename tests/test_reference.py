"""The reference pages are what the code gives, and the examples in the help of commands are understood."""

import shlex
from typing import Any

import pytest
from typer import Context

from tools.reference import COMMAND, DOCS, PAGES
from tools.reference.cli_page import commands, examples


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_gives(name: str) -> None:
    is_current = (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()
    assert is_current, f"docs/{name} is out of date; `{COMMAND}` writes it"


def test_every_page_below_reference_is_made() -> None:
    assert {f"reference/{path.name}" for path in (DOCS / "reference").iterdir()} <= set(PAGES)


@pytest.mark.parametrize(("path", "command", "line"), list(examples()))
def test_an_example_in_the_help_is_understood(path: str, command: Any, line: str) -> None:
    """Each of a pipe that is of this program."""
    for part in line.split(" | "):
        words = shlex.split(part.partition(" > ")[0], comments=True)
        if words[0] == "waypost":
            understand(words)


def understand(words: list[str]) -> None:
    """Parse a command line of `waypost` without doing what it says."""
    paths = {tuple(context.command_path.split()[1:]): command for context, command in commands()}
    options_with_values = ("--url", "--token")
    rest = words[1:]
    while rest and rest[0].startswith("--"):
        rest = rest[2:] if rest[0] in options_with_values else rest[1:]
    found = next((path for path in (tuple(rest[:2]), tuple(rest[:1])) if path in paths), None)
    assert found is not None, f"{shlex.join(words)}: no such command"
    command = paths[found]
    parent = Context(command, info_name="waypost")
    command.make_context(" ".join(found), rest[len(found) :], parent=parent)
