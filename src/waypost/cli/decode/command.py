"""`waypost decode`: the command line, the progress bar, the exit code."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Final, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from waypost.captures.inputs import Kind, Ports, detect, findings
from waypost.captures.source import InputError
from waypost.cli.decode.entries import Tally, make_entry
from waypost.cli.decode.report import Detail, JsonReport, Report, TextReport
from waypost.cli.decode.source import failure_of, open_source
from waypost.cli.program import Output
from waypost.wire.ping import PING_PORT
from waypost.wire.session_header import SESSION_PORT

BIG: Final = 8 * 1024 * 1024


def decode(
    files: Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)],
    *,
    kind: Annotated[
        Kind | None, typer.Option("--as", help="Format of the files (default: detected from their first bytes).")
    ] = None,
    port: Annotated[
        list[int] | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="TCP port of a queue manager in captures (default: 1801). This option can be repeated.",
        ),
    ] = None,
    ping_port: Annotated[
        list[int] | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="UDP port of pings in captures (default: 3527). This option can be repeated.",
        ),
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Show one line for each packet, without its fields.")] = False,
    body: Annotated[bool, typer.Option("--body", help="Show bodies and other long values in full.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON array, with all values in full.")] = False,
) -> None:
    """Show every field of MSMQ packets with its meaning, and explain why a packet is malformed.

    FILE is a pcap or pcapng capture, a file of one or more raw packets, or hexadecimal text. Hexadecimal text is plain
    digits, or the output of xxd, hexdump -C, od -A x -t x1, Format-Hex or Wireshark. In captures, the command
    reassembles TCP streams and finds pings. The file name - means standard input. The exit code is 0 if everything was
    decoded, otherwise 1.
    """
    if brief and body:
        raise typer.BadParameter("--brief and --body are mutually exclusive", param_hint="--brief")
    detail = Detail.BRIEF if brief else Detail.WHOLE if body else Detail.USUAL
    ports = Ports(frozenset(port or [SESSION_PORT]), frozenset(ping_port or [PING_PORT]))
    out = Output()
    report: Report
    if as_json:
        report = JsonReport(out, detail)
    else:
        report = TextReport(out, detail, colour=_wants_colour(), names=len(files) > 1)
    tally = Tally()
    kinds: set[Kind] = set()
    with _progress(files) as advanced:
        for name in files:
            report.input(name)
            try:
                with open_source(name, advanced) as source:
                    found = kind or detect(source)
                    kinds.add(found)
                    for finding in findings(source, found, ports):
                        report.entry(make_entry(finding, tally))
            except InputError as error:
                tally.refused += 1
                failure_of(error).show()
    report.close()
    out.flush()
    typer.echo(str(tally), err=True)
    if not tally.packets and tally.is_clean and Kind.PCAP in kinds:
        typer.echo(
            "hint: the captures have no traffic on these ports. Specify other ports with --port and --ping-port.",
            err=True,
        )
    raise typer.Exit(0 if tally.is_clean else 1)


def _wants_colour() -> bool:
    console = Console(file=sys.stdout)
    return console.is_terminal and not console.no_color and console.color_system is not None


def _size(name: str) -> int:
    try:
        return Path(name).stat().st_size
    except OSError:
        return 0


def _is_file(stream: TextIO) -> bool:
    return S_ISREG(os.fstat(stream.fileno()).st_mode)


@contextmanager
def _progress(files: list[str]) -> Iterator[Callable[[int], None]]:
    """A bar for big files while standard output is a file; anybody else who reads it sees the progress there."""
    total = sum(map(_size, files))
    if total < BIG or sys.stderr is None or not sys.stderr.isatty() or not _is_file(sys.stdout):
        yield lambda _: None
        return
    columns = (TextColumn("decoding"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda size: progress.advance(task, size)
