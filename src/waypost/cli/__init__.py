"""`waypost`: the command line. stdout is data, stderr is talk; an error is one sentence, then a hint."""

import io
import sys
from typing import Annotated

import typer

from waypost import __version__
from waypost.cli.verbs import Waypost

app = typer.Typer(
    name="waypost",
    cls=Waypost,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A message queue manager that speaks Microsoft Message Queuing (MSMQ) on the wire.

    The options --url, --token, --cacert and --json are valid before or after the command.
    """
    if version:
        typer.echo(f"waypost {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main() -> None:
    """Run the program. A terminal that cannot show a character gets an escape sequence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="waypost")
