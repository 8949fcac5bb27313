"""`waypost`: the command line. stdout is data, stderr is talk; an error is one sentence, then a hint."""

import io
import sys
from typing import Annotated

import typer

from waypost import __version__
from waypost.cli.decode import decode

app = typer.Typer(
    name="waypost",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("decode", no_args_is_help=True)(decode)


def _version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"waypost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda asked: _version(asked=asked), help="Print the version."
        ),
    ] = False,
) -> None:
    """A message queue manager that speaks Microsoft Message Queuing (MSMQ) on the wire."""


def main() -> None:
    """The console entry. A terminal that cannot show a letter gets an escape in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
