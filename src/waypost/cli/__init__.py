"""`waypost`: the command line. stdout is data, stderr is talk; an error is one sentence, then a hint."""

import io
import sys
from typing import Annotated

import typer

from waypost import __version__
from waypost.cli import message, queue
from waypost.cli.bench import bench
from waypost.cli.daemon import DEFAULT_URL, Target
from waypost.cli.decode import decode
from waypost.cli.demo import demo
from waypost.cli.program import Program
from waypost.cli.receive import peek, receive
from waypost.cli.send import send
from waypost.cli.serve import serve
from waypost.cli.sim import sim
from waypost.cli.status import doctor, explain, status

app = typer.Typer(
    name="waypost",
    cls=Program,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(queue.app, name="queue", short_help="Make queues, look at them, change, empty and delete them.")
app.command("send", short_help="Send a message, here or to another computer.")(send)
app.command("receive", short_help="Take messages out of a queue.")(receive)
app.command("peek", short_help="Look at messages, and leave them in their queue.")(peek)
app.add_typer(message.app, name="message", short_help="Move, export, import, resend and delete single messages.")
app.command("status", short_help="Show the queue manager.")(status)
app.command("explain", short_help="Say why a message does not move.")(explain)
app.command("doctor", short_help="Look for what is wrong.")(doctor)
app.command("demo", short_help="See two queue managers at work, in under a minute.")(demo)
app.command("bench", short_help="Measure how fast the queue manager is.")(bench)
app.command("serve", short_help="Run a queue manager in the foreground.")(serve)
app.command("decode", short_help="Show the packets in captures and files, field by field.")(decode)
app.command("sim", short_help="Simulate queue managers with crashes and check that their promises hold.")(sim)


@app.callback()
def _root(
    context: typer.Context,
    *,
    url: Annotated[str, typer.Option(metavar="URL", envvar="WAYPOST_URL", help="The daemon to talk to.")] = DEFAULT_URL,
    token: Annotated[
        str | None, typer.Option(metavar="T", envvar="WAYPOST_TOKEN", help="The token that it wants.")
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """A message queue manager that speaks Microsoft Message Queuing (MSMQ) on the wire."""
    if version:
        typer.echo(f"waypost {__version__}")
        raise typer.Exit
    context.obj = Target(url, token)
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main() -> None:
    """The console entry. A terminal that cannot show a letter gets an escape in its place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="waypost")
