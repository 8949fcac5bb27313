"""`waypost sequence ...`: transactional sequences at both ends, and how to begin them again."""

import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.api.times import iso_8601
from waypost.cli.ages import seconds_of
from waypost.cli.asking import ask, counted, is_asked
from waypost.cli.daemon import Json, session
from waypost.cli.program import MOST, Failure, Output, printable
from waypost.cli.tables import write_json, write_pairs, write_table
from waypost.guid import GUID_PATTERN

if TYPE_CHECKING:
    from waypost import SequenceInfo, SequenceReset

_GUID: Final = re.compile(rf"\{{?{GUID_PATTERN}\}}?")

app = typer.Typer(
    help="Show and reset transactional sequences, and accept acknowledgments from additional addresses.",
    add_completion=False,
    rich_markup_mode=None,
)

Queue = Annotated[str | None, typer.Option(metavar="NAME", help="Show only sequences of this queue.")]
Source = Annotated[
    str | None, typer.Option(metavar="GUID", help="Select only sequences of the queue manager with this GUID.")
]
Address = Annotated[
    str | None, typer.Option(metavar="IP", help="Select only sequences that come from this IP address.")
]


@app.command("list")
def list_sequences(
    context: typer.Context,
    *,
    queue: Queue = None,
    source: Source = None,
    address: Address = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=MOST, help="Number of sequences to show.")] = 100,
    as_json: Json = False,
) -> None:
    """List transactional sequences. The column DIRECTION contains "out" (outgoing), "in" (incoming) or "refused".

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
        typer.echo(f"There are more than {limit} sequences. Use a larger --limit to show more.", err=True)


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
        typer.Argument(
            metavar="GUID|QUEUE", help="GUID of the sending queue manager, or name of a queue.", show_default=False
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Show all sequences of a sending queue manager or of a queue, and the reasons why messages were refused.

    The exit code is 1 if no sequence matches.

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
        typer.Argument(metavar="[QUEUE]", help="Outgoing queue or local queue.", show_default=False),
    ] = None,
    *,
    source: Source = None,
    address: Address = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Reset only sequences that have been idle for at least this time, such as 90s, 15m, 12h or 30d.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation prompt.")] = False,
    as_json: Json = False,
) -> None:
    """Restart transactional sequences. A warning describes the messages that might arrive twice.

    For an outgoing queue, the unacknowledged messages get new numbers in a new sequence. For incoming sequences, the
    command deletes the records of accepted messages. The queue manager then accepts the next message from the sender,
    even if earlier messages are missing.

    \b
    waypost sequence reset 'DIRECT=OS:other\\private$\\orders'
    waypost sequence reset --source 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11
    waypost sequence reset --address 10.6.6.6 --yes
    waypost sequence reset --older-than 90d --yes
    """
    if queue is source is address is older_than is None:
        raise typer.BadParameter(
            "no sequence is selected: specify QUEUE, --source, --address or --older-than", param_hint="OPTIONS"
        )
    seconds = None if older_than is None else seconds_of(older_than, "--older-than")
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
        typer.echo(f"{counted(done.renumbered, 'message')} got new numbers.", err=True)
    typer.echo(f"{counted(done.sequences, 'sequence')} reset.", err=True)


@app.command()
def admit(
    context: typer.Context,
    guid: Annotated[
        str,
        typer.Argument(
            metavar="GUID",
            help="GUID of the queue manager. `waypost status` on the computer of that queue manager shows the GUID.",
            show_default=False,
        ),
    ],
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="IP address from which the queue manager connects.", show_default=False),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Accept acknowledgments that a queue manager sends from this address. The address also stays admitted after a
    restart.

    The daemon stores acknowledgments from an unknown address, but does not apply them. `waypost doctor` lists the
    unknown addresses. A forged acknowledgment can delete messages from the outgoing queue before they arrive at their
    destination. Therefore, admit an address only if you know that the address belongs to the queue manager.

    \b
    waypost sequence admit 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11 192.0.2.7
    """
    out = Output()
    with session(context) as manager:
        believed = manager.admit_sequence_address(guid, address)
    if as_json:
        write_json(out, {"guid": guid, "address": address, "believed": believed})
    else:
        out.write(
            f"{address} is admitted for {guid}. Number of stored acknowledgments that were applied now: {believed}.\n"
        )
    out.flush()


@app.command()
def revoke(
    context: typer.Context,
    guid: Annotated[
        str,
        typer.Argument(
            metavar="GUID", help="GUID of the queue manager for which the address was admitted.", show_default=False
        ),
    ],
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="IP address that was admitted.", show_default=False)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Remove an address from the admitted addresses. The removal does not undo acknowledgments that were already
    applied.

    \b
    waypost sequence revoke 1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11 192.0.2.7
    """
    out = Output()
    with session(context) as manager:
        manager.revoke_sequence_address(guid, address)
    if as_json:
        write_json(out, {"guid": guid, "address": address})
    else:
        out.write(f"{address} is no longer admitted for {guid}.\n")
    out.flush()


@app.command()
def admitted(context: typer.Context, *, as_json: Json = False) -> None:
    """List the admitted addresses. Addresses from the configuration key transfer.ack_addresses are not listed.

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
    if not is_asked():
        raise Failure(f"{counted(planned.sequences, 'sequence')} would be reset.", "add --yes to reset them.")
    ask(f"Reset {counted(planned.sequences, 'sequence')}?", yes=False)
