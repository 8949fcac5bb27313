"""`waypost decode`: the command line, the progress bar, the exit code."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from waypost.cli.decode.entries import Tally, make_entry
from waypost.cli.decode.inputs import Kind, Ports, detect, findings
from waypost.cli.decode.report import SHOWN_TEXT, JsonReport, Report, TextReport
from waypost.cli.decode.source import InputError, open_source

TRANSFER_PORT: Final = 1801
PING_PORT: Final = 3527
BIG: Final = 8 * 1024 * 1024


def decode(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Captures, raw packets or hexadecimal text; - is standard input."),
    ],
    *,
    kind: Annotated[
        Kind | None, typer.Option("--as", help="What the files are, instead of looking at how they begin.")
    ] = None,
    port: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=65535, help="TCP port of a queue manager in captures, 1801 unless given; may be repeated."
        ),
    ] = None,
    ping_port: Annotated[
        list[int] | None,
        typer.Option(min=1, max=65535, help="UDP port of pings in captures, 3527 unless given; may be repeated."),
    ] = None,
    body: Annotated[bool, typer.Option("--body", help="Show bodies and other long values whole.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON array, with all values whole.")] = False,
) -> None:
    """Show every field of MSMQ packets, with its meaning and its section, and say what is malformed and why.

    FILE is a pcap or pcapng capture (TCP streams are put together again, pings are found), a file of one or more raw
    packets, or hexadecimal text: plain digits, or a dump of xxd, hexdump -C or Wireshark. The exit code is 0 when
    everything was decoded and 1 when something was not.
    """
    ports = Ports(frozenset(port or [TRANSFER_PORT]), frozenset(ping_port or [PING_PORT]))
    report: Report
    if as_json:
        report = JsonReport(sys.stdout)
    else:
        report = TextReport(sys.stdout, None if body else SHOWN_TEXT, colour=_wants_colour())
    tally = Tally()
    with closing(report), _progress(files) as advanced:
        for name in files:
            report.input(name)
            try:
                with open_source(name, advanced) as source:
                    for finding in findings(source, kind or detect(source), ports):
                        report.entry(make_entry(finding, tally))
            except InputError as error:
                tally.refused += 1
                typer.echo(f"{error.sentence}\nhint: {error.hint}", err=True)
    typer.echo(str(tally), err=True)
    if not tally.packets and tally.is_clean:
        typer.echo("hint: nothing was sent on these ports; --port and --ping-port name others.", err=True)
    raise typer.Exit(0 if tally.is_clean else 1)


def _wants_colour() -> bool:
    console = Console(file=sys.stdout)
    return console.is_terminal and not console.no_color and console.color_system is not None


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except OSError:
        return 0


@contextmanager
def _progress(files: list[str]) -> Iterator[Callable[[int], None]]:
    """A bar for big files while standard output goes elsewhere; on a terminal the blocks themselves show progress."""
    total = sum(map(_size, files))
    if total < BIG or sys.stdout.isatty() or not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("decoding"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda size: progress.advance(task, size)
