"""--url, --token, --cacert and --json: options of the program, which stand before the verb or behind it."""

import inspect
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from typer.core import TyperGroup
from typer.main import get_command

from waypost.api import defaults


@dataclass(frozen=True, slots=True)
class Target:
    """The daemon to talk to, and whether the answer is JSON."""

    url: str = defaults.URL
    token: str | None = None
    cacert: Path | None = None
    json: bool = False

    @classmethod
    def of_environment(cls) -> Self:
        """The daemon that is used if no option names another one."""
        cacert = os.environ.get("WAYPOST_CACERT")
        return cls(
            os.environ.get("WAYPOST_URL") or defaults.URL,
            os.environ.get("WAYPOST_TOKEN") or None,
            Path(cacert) if cacert else None,
        )


def _options(
    *,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"Address of the daemon (default: the environment variable WAYPOST_URL, or {defaults.URL}).",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="Bearer token for the daemon. Use the environment variable WAYPOST_TOKEN to keep the token out of the "
            "process list.",
        ),
    ] = None,
    cacert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PEM file with trusted CA certificates for https (default: the environment variable WAYPOST_CACERT, "
            "or the CA certificates of the system).",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """The options, by the names of the fields of Target."""


def program_options() -> list[Any]:
    """Parameters as typer makes them from a function. They store the given values in the context."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command()(_options)
    made = get_command(alone).params
    for each in made:
        each.expose_value = False
        each.callback = _store
    return made


def target_of(context: typer.Context) -> Target:
    return context.find_object(Target) or Target.of_environment()


def accept(command: Any) -> None:
    """Let a command, and those below it, take the options of the program behind its name.

    A command that talks to a daemon takes all of them. Such a command has a parameter for the context.
    """
    taken = {option for parameter in command.params for option in parameter.opts}
    for parameter in command.params:
        if "--json" in parameter.opts:
            parameter.callback = _json
    # The entry of a group for a command that is loaded later does nothing yet.
    wants = command.callback is not None and "context" in inspect.signature(command.callback).parameters
    if isinstance(command, TyperGroup) or wants:
        command.params += [each for each in program_options() if not taken & set(each.opts)]
    for below in getattr(command, "commands", {}).values():
        accept(below)


def not_empty(value: str | None) -> str | None:
    """The check of a name on the command line: an empty one is that of an unset variable."""
    if value == "":
        raise typer.BadParameter("must not be empty")
    return value


def warn_of_secret(option: str, instead: str) -> None:
    """Other accounts of a computer see the command lines of its programs."""
    typer.echo(f"warning: the value of {option} is visible in the process list; use {instead} instead.", err=True)


def _store(context: Any, parameter: Any, value: Any) -> None:
    if value in (None, False):
        return
    context.obj = replace(target_of(context), **{parameter.name: value})
    # A shell that completes a line says nothing.
    if parameter.name == "token" and not context.resilient_parsing:
        warn_of_secret("--token", "WAYPOST_TOKEN")


def _json(context: Any, _parameter: Any, value: Any) -> bool:
    return bool(value) or target_of(context).json
