"""`waypost claim ...`: the messages that readers such as Spark queries have claimed, and how to release them."""

from typing import TYPE_CHECKING, Annotated

import typer

from waypost.cli.asking import Yes, ask, counted
from waypost.cli.daemon import Json, own_hint, session
from waypost.cli.program import Output
from waypost.cli.tables import write_json, write_table

if TYPE_CHECKING:
    from waypost.api.claims import ClaimObject

app = typer.Typer(
    help="List and release the messages that readers, such as Spark queries, have claimed.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("list")
def list_claims(
    context: typer.Context,
    queue: Annotated[
        str | None,
        typer.Argument(metavar="[QUEUE]", help="List only claims on this queue.", show_default=False),
    ] = None,
    *,
    idle: Annotated[bool, typer.Option("--idle", help="Also list claims without messages.")] = False,
    as_json: Json = False,
) -> None:
    """List claims on messages, with the query and batch of each claim and the remaining seconds of its lease.

    The column UNUSED S shows the seconds since the last request of the reader. The column HELD BY shows why messages
    stay claimed after the lease has expired.

    \b
    waypost claim list
    waypost claim list orders --json
    waypost claim list --idle
    """
    out = Output()
    with session(context) as manager:
        found = manager.claims(queue, idle=idle)
    if as_json:
        write_json(out, [claim.to_dict() for claim in found])
    else:
        columns = ("QUEUE", "CLAIM", "PART", "MESSAGES", "BYTES", "LEASE S", "UNUSED S", "TERM", "QUERY", "BATCH")
        write_table(out, (*columns, "HELD BY"), [_row(claim) for claim in found])
    out.flush()


def _row(claim: "ClaimObject") -> tuple[object, ...]:
    return (
        *(claim.queue, claim.claim, claim.number, claim.count, claim.bytes, round(claim.lease_left_s)),
        *(round(claim.unused_s), claim.term or None, claim.query or None, claim.batch, claim.held_by or None),
    )


@app.command()
def release(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Queue with the claimed messages.", show_default=False)],
    claim: Annotated[
        str, typer.Argument(metavar="CLAIM", help="GUID of the claim, as shown by `claim list`.", show_default=False)
    ],
    *,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Also delete the claim. Use this option only if the reader of the claim will not come back.",
        ),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Release the messages of a claim, so that other readers can receive them.

    If a reader is processing the claimed messages, its next request is refused, and the reader stops. Restart the
    reader to continue. After the restart, the reader processes messages a second time if it already processed them
    before the release.

    A claim without messages is kept, because its reader might come back. At most 10,000 claims are kept. If the reader
    will not come back, delete the claim with --forget. The option --forget is refused while a reader uses the claim.
    After --forget, the query of the claim cannot continue from its checkpoint.

    \b
    waypost claim release orders 6f9c2a1e-8f57-4d0c-9a3b-5d2f1f6f0e11
    waypost claim release orders 6f9c2a1e-8f57-4d0c-9a3b-5d2f1f6f0e11 --forget
    """
    out = Output()
    with session(context) as manager, own_hint():
        held = [each for each in manager.claims(queue) if each.claim == claim]
        if held:
            ask(f"Release {counted(held[0].count, 'message')} of {held[0].queue}?", yes=yes)
        count = manager.release_claim(queue, claim, forget=forget)
    if as_json:
        write_json(out, {"count": count})
        out.flush()
    typer.echo(f"{counted(count, 'message')} released.", err=True)
