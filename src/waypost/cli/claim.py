"""`waypost claim ...`: the messages that readers such as Spark queries have claimed, and how to release them."""

from typing import TYPE_CHECKING, Annotated

import typer

from waypost.cli.asking import Yes, ask, counted
from waypost.cli.daemon import Json, session
from waypost.cli.program import Output
from waypost.cli.tables import write_json, write_table

if TYPE_CHECKING:
    from waypost.api.bulk import ClaimObject

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
    as_json: Json = False,
) -> None:
    """List claimed messages: the claim, its query and batch, and the seconds that its lease has left.

    HELD BY says why messages stay claimed though the lease has ended.

    \b
    waypost claim list
    waypost claim list orders --json
    """
    out = Output()
    with session(context) as manager:
        found = manager.claims(queue)
    if as_json:
        write_json(out, [claim.to_dict() for claim in found])
    else:
        columns = ("QUEUE", "CLAIM", "PART", "MESSAGES", "BYTES", "LEASE S", "TERM", "QUERY", "BATCH", "HELD BY")
        write_table(out, columns, [_row(claim) for claim in found])
    out.flush()


def _row(claim: "ClaimObject") -> tuple[object, ...]:
    return (
        *(claim.queue, claim.claim, claim.number, claim.count, claim.bytes, round(claim.lease_left_s)),
        *(claim.term or None, claim.query or None, claim.batch, claim.held_by or None),
    )


@app.command()
def release(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue of the messages.", show_default=False)],
    claim: Annotated[
        str, typer.Argument(metavar="CLAIM", help="The claim, as `claim list` shows it.", show_default=False)
    ],
    *,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Release the messages of a claim, so that other readers can receive them.

    A reader that works on the messages is stopped, and goes on when it starts again. Messages of which it has processed
    some already are processed twice.

    \b
    waypost claim release orders 6f9c2a1e-8f57-4d0c-9a3b-5d2f1f6f0e11
    """
    out = Output()
    with session(context) as manager:
        held = [each for each in manager.claims(queue) if each.claim == claim]
        if held:
            ask(f"Release {counted(held[0].count, 'message')} of {held[0].queue}?", yes=yes)
        count = manager.release_claim(queue, claim)
    if as_json:
        write_json(out, {"count": count})
        out.flush()
    typer.echo(f"{counted(count, 'message')} released.", err=True)
