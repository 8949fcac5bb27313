"""`waypost sequence ...`: the sequences of transactional messages between queue managers."""

from typing import Annotated

import typer

from waypost.cli.daemon import Json, session
from waypost.cli.program import Output
from waypost.cli.tables import write_json

app = typer.Typer(
    help="Admit addresses that acknowledge transactional messages.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def sequence() -> None:
    """Admit addresses that acknowledge transactional messages."""


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
