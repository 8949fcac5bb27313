"""docs/reference/cli.md: every command with its arguments and options, as `--help` shows them."""

from collections.abc import Iterator
from typing import Any, Final

from typer import Context
from typer.main import get_command

from tools.reference.markdown import MADE, prose, table
from waypost.cli import app

_HEAD: Final = f"""\
# Command line reference

{MADE}
This page lists every command with its arguments and options. [The command line](../cli.md) explains the commands with
examples. The options of `waypost` itself come before the command:
"""
# The line before examples in the help of a command.
_EXAMPLES: Final = "\x08"


def page() -> str:
    return "\n".join(_lines())


def commands() -> Iterator[tuple[Context, Any]]:
    """Every command that does something, with the context that names it."""
    root = get_command(app)
    yield from _below(Context(root, info_name="waypost"), root)


def examples() -> Iterator[tuple[str, Any, str]]:
    """The path of a command, the command, and a line that its help shows."""
    for context, command in commands():
        _, lines = _parts(command)
        yield from ((context.command_path, command, line) for line in lines)


def _below(context: Context, command: Any) -> Iterator[tuple[Context, Any]]:
    if not hasattr(command, "commands"):
        yield context, command
        return
    later = getattr(command, "verbs", {})
    for name in command.list_commands(context):
        found = later[name].load(name) if name in later else command.commands[name]
        yield from _below(Context(found, info_name=name, parent=context), found)


def _lines() -> Iterator[str]:
    root = get_command(app)
    yield _HEAD
    yield from _options(Context(root, info_name="waypost"), root)
    for context, command in commands():
        yield f"## {context.command_path}\n"
        sentences, lines = _parts(command)
        yield from (f"{prose(each)}\n" for each in sentences)
        yield f"```text\n{_usage(context, command)}\n```\n"
        if lines:
            yield from ("```console", *(f"$ {line}" for line in lines), "```", "")
        yield from _options(context, command)


def _parts(command: Any) -> tuple[list[str], list[str]]:
    """The paragraphs of the help of a command, and its examples."""
    text = command.help or ""
    paragraphs = [part for part in text.split("\n\n") if part.strip()]
    sentences = [" ".join(part.split()) for part in paragraphs if not part.startswith(_EXAMPLES)]
    shown = [part.removeprefix(_EXAMPLES).strip() for part in paragraphs if part.startswith(_EXAMPLES)]
    return sentences, [line for part in shown for line in part.splitlines()]


def _usage(context: Context, command: Any) -> str:
    words = [each.metavar or each.name.upper() for each in command.params if each.param_type_name == "argument"]
    optional = {each.metavar or each.name.upper() for each in command.params if not each.required}
    return " ".join((context.command_path, "[OPTIONS]", *(f"[{word}]" if word in optional else word for word in words)))


def _options(context: Context, command: Any) -> Iterator[str]:
    rows = [_row(context, each) for each in command.params if not each.hidden and each.name != "help"]
    if rows:
        yield from table(("option", "meaning"), rows)


def _row(context: Context, parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`", prose(parameter.help or "")
    names, words = parameter.get_help_record(context)
    return f"`{names.replace(' / ', '/')}`", prose(words.replace("  [", " ["))
