"""`waypost sequence ...`: transactional sequences at both ends, and how to begin them again."""

import re
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.api.times import iso_8601
from waypost.cli.daemon import Json, session
from waypost.cli.program import Failure, Output, printable
from waypost.cli.tables import write_json, write_pairs, write_table
from waypost.guid import GUID_PATTERN

if TYPE_CHECKING:
    from waypost import SequenceInfo, SequenceReset

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGE: Final = re.compile(r"(\d+)([smhd])")
_GUID: Final = re.compile(rf"\{{?{GUID_PATTERN}\}}?")

app = typer.Typer(
    help="Look at transactional sequences at both ends, begin them again, and admit addresses that acknowledge them.",
    add_completion=False,
    rich_markup_mode=None,
)

Queue = Annotated[str | None, typer.Option(metavar="NAME", help="Only sequences of this queue.")]
Source = Annotated[str | None, typer.Option(metavar="GUID", help="Only sequences of this queue manager.")]
Address = Annotated[str | None, typer.Option(metavar="IP", help="Only sequences that come from this address.")]


@app.command("list")
def list_sequences(
    context: typer.Context,
    *,
    queue: Queue = None,
    source: Source = None,
    address: Address = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Number of sequences to show.")] = 100,
    as_json: Json = False,
) -> None:
    """List transactional sequences: what is sent from here (out), what comes in (in), and what is not taken (refused).

    \b
    waypost sequence list
    waypost sequence list --address 10.0.0.7 --limit 1000 --json
    """
    out = Output()
    with session(context) as manager:
        found = list(islice(manager.sequences(queue=queue, source=source, address=address), limit + 1))
    shown = found[:limit]
    if as_json:
        write_json(out, [info.to_dict() for info in shown])
    else:
        columns = ("DIRECTION", "QUEUE", "SOURCE", "ADDRESSES", "BEGAN", "ORDINAL", "NUMBER", "LAST", "REJECTED")
        write_table(out, columns, [_row(info) for info in shown])
    out.flush()
    if len(found) > limit:
        typer.echo(f"There are more than {limit}: --limit shows more of them.", err=True)


def _row(info: "SequenceInfo") -> tuple[object, ...]:
    last = None if info.last_time is None else iso_8601(info.last_time)
    began = iso_8601(info.time_stamp)
    return (
        *(info.direction, info.queue, info.source, info.addresses, began, info.ordinal, info.number, last),
        info.rejected,
    )


@app.command()
def show(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(metavar="GUID|QUEUE", help="A source by its GUID, or a queue.", show_default=False),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Show all sequences of a source or of a queue, with the reason why messages are not taken.

    The exit code is 1 if there are none.

    \b
    waypost sequence show orders
    waypost sequence show 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11
    """
    out = Output()
    with session(context) as manager:
        if _GUID.fullmatch(subject):
            found = list(manager.sequences(source=subject))
        else:
            found = list(manager.sequences(queue=subject))
    if as_json:
        write_json(out, [info.to_dict() for info in found])
    else:
        for number, info in enumerate(found):
            out.write("\n" if number else "")
            write_pairs(out, [(key, value) for key, value in info.to_dict().items() if value not in ("", None)])
    out.flush()
    raise typer.Exit(0 if found else 1)


@app.command()
def reset(
    context: typer.Context,
    queue: Annotated[
        str | None,
        typer.Argument(metavar="[QUEUE]", help="An outgoing queue, or a queue of this computer.", show_default=False),
    ] = None,
    *,
    source: Source = None,
    address: Address = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Only sequences that were silent for so long: 90s, 15m, 12h, 30d."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Begin transactional sequences again. Messages may come twice: the warning says which.

    For an outgoing queue, its messages that are not acknowledged get new numbers in a sequence that begins now. For
    others, what was taken is forgotten: of a source, the next message is taken whatever comes before it.

    \b
    waypost sequence reset 'DIRECT=OS:other\\private$\\orders'
    waypost sequence reset --source 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11
    waypost sequence reset --address 10.6.6.6 --yes
    waypost sequence reset --older-than 90d --yes
    """
    if queue is source is address is older_than is None:
        raise typer.BadParameter("give QUEUE, --source, --address or --older-than", param_hint="OPTIONS")
    seconds = None if older_than is None else _seconds(older_than)
    out = Output()
    with session(context) as manager:
        if not yes:
            planned = manager.reset_sequences(
                queue=queue, source=source, address=address, older_than=seconds, trial=True
            )
            _ask(planned)
        done = manager.reset_sequences(queue=queue, source=source, address=address, older_than=seconds)
    if as_json:
        write_json(out, done.to_dict())
        out.flush()
    if yes and done.sequences:
        typer.echo(printable(f"warning: {done.warning}."), err=True)
    if done.renumbered:
        typer.echo(f"{_counted(done.renumbered, 'message')} got new numbers.", err=True)
    typer.echo(f"{_counted(done.sequences, 'sequence')} reset.", err=True)


@app.command()
def admit(
    context: typer.Context,
    guid: Annotated[
        str, typer.Argument(metavar="GUID", help="The queue manager, as its `status` shows it.", show_default=False)
    ],
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The IP address that it connects from.", show_default=False)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Believe what a queue manager acknowledges from this address, now and after every restart.

    Acknowledgments from an address that is not known are kept; `waypost doctor` shows them with this command. Only
    admit an address that you know to be that queue manager's: acknowledgments delete messages.

    \b
    waypost sequence admit 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11 192.0.2.7
    """
    out = Output()
    with session(context) as manager:
        believed = manager.admit_sequence_address(guid, address)
    if as_json:
        write_json(out, {"guid": guid, "address": address, "believed": believed})
    else:
        out.write(f"{address} is admitted for {guid}. Kept acknowledgments that are applied now: {believed}.\n")
    out.flush()


@app.command()
def revoke(
    context: typer.Context,
    guid: Annotated[
        str, typer.Argument(metavar="GUID", help="The queue manager that it was admitted for.", show_default=False)
    ],
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The IP address that was admitted.", show_default=False)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Take back that an address was admitted. Acknowledgments that were applied stay applied.

    \b
    waypost sequence revoke 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11 192.0.2.7
    """
    out = Output()
    with session(context) as manager:
        manager.revoke_sequence_address(guid, address)
    if as_json:
        write_json(out, {"guid": guid, "address": address})
    else:
        out.write(f"{address} is not admitted for {guid} any more.\n")
    out.flush()


@app.command()
def admitted(context: typer.Context, *, as_json: Json = False) -> None:
    """List the addresses that were admitted. Those of transfer.ack_addresses are in the configuration.

    \b
    waypost sequence admitted
    """
    out = Output()
    with session(context) as manager:
        found = manager.admitted_sequence_addresses()
    if as_json:
        write_json(out, [{"guid": guid, "address": address} for guid, address in found])
    else:
        write_table(out, ("GUID", "ADDRESS"), found)
    out.flush()


def _ask(planned: "SequenceReset") -> None:
    """Raises Failure where nobody can be asked."""
    if not planned.sequences:
        return
    typer.echo(printable(f"warning: {planned.warning}."), err=True)
    if not _is_asked():
        raise Failure(f"{_counted(planned.sequences, 'sequence')} would be reset.", "add --yes to do it.")
    typer.confirm(f"Reset {_counted(planned.sequences, 'sequence')}?", abort=True, err=True)


def _is_asked() -> bool:
    """Whether somebody is there to answer."""
    return sys.stdin.isatty()


def _seconds(text: str) -> float:
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not an age like 90s, 15m, 12h or 30d", param_hint="--older-than")
    return float(int(match[1]) * _UNITS[match[2]])


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
