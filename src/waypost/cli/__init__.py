"""`waypost`: the command line. stdout is data, stderr is talk; an error is one sentence, then a hint."""

import io
import sys
from typing import Annotated

import typer

from waypost import __version__
from waypost.cli.decode import decode
from waypost.cli.program import Program
from waypost.cli.sim import sim

app = typer.Typer(
    name="waypost",
    cls=Program,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("decode", short_help="Show the packets in captures and files, field by field.")(decode)
app.command("sim", short_help="Simulate queue managers with crashes and check that their promises hold.")(sim)


@app.callback()
def _root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A message queue manager that speaks Microsoft Message Queuing (MSMQ) on the wire."""
    if version:
        typer.echo(f"waypost {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main() -> None:
    """The console entry. A terminal that cannot show a letter gets an escape in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="waypost")
