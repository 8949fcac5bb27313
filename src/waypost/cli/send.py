"""`waypost send`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.api.properties import MESSAGE_ROWS, MessageProperties
from waypost.api.rows import Kind
from waypost.cli.daemon import Json, session
from waypost.cli.messages import write_objects
from waypost.cli.program import Failure, Output
from waypost.cli.progress import progress
from waypost.cli.property_options import Given, with_options

if TYPE_CHECKING:
    from waypost import Manager, Message, Transaction

# Messages that travel to the daemon together.
BATCH: Final = 500


@with_options(row for row in MESSAGE_ROWS if row.kind is not Kind.DELIVERY)
def send(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT_NAME",
            help="A queue, here or elsewhere: orders, DIRECT=OS:host\\private$\\orders, or several joined with commas.",
            show_default=False,
        ),
    ],
    *,
    body: Annotated[str | None, typer.Option(metavar="TEXT", help="The body, as text.")] = None,
    body_file: Annotated[
        str | None, typer.Option(metavar="F", help="The file with the body, as bytes; - is standard input.")
    ] = None,
    properties: Given,
    express: Annotated[bool, typer.Option("--express", help="Faster; lost if a queue manager stops.")] = False,
    recoverable: Annotated[bool, typer.Option("--recoverable", help="Safe on disk. The default.")] = False,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="In a transaction, all of --count together.")
    ] = False,
    sign: Annotated[bool, typer.Option("--sign", hidden=True)] = False,
    encrypt: Annotated[bool, typer.Option("--encrypt", hidden=True)] = False,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="Number of copies to send.")] = 1,
    as_json: Json = False,
) -> None:
    """Send a message, and print its id when it is safe.

    To several queues, whose names are joined with commas, a copy goes to each, all with this id: to all or to none.
    --json shows the copies.

    \b
    waypost send orders --body "42 bolts" --label order
    waypost send 'DIRECT=OS:other\\private$\\orders' --body-file order.xml --body-type 0 --ttrq 3600 --dead-letter
    waypost send ledger --transactional --body paid --ack full-receive --admin-queue acks
    """
    if sign or encrypt:
        what = "Signing" if sign else "Encryption"
        raise Failure(f"{what} is not offered yet.", f"send without --{'sign' if sign else 'encrypt'}.")
    if express + recoverable + transactional > 1:
        raise typer.BadParameter(
            "--express, --recoverable and --transactional are mutually exclusive", param_hint="--express"
        )
    if body is not None and body_file is not None:
        raise typer.BadParameter("--body and --body-file are mutually exclusive", param_hint="--body")
    if "extension" in properties:
        properties["extension"] = read_file(properties["extension"])
    record = MessageProperties(recoverable=not express, **properties)
    content = (body or "") if body_file is None else read_file(body_file)
    out = Output()
    with session(context) as manager:
        sent: list[Message] = []
        if transactional:
            with manager.transaction() as transaction:
                sent.extend(_send(manager, name, [content] * count, record, transaction))
        else:
            for message in _send(manager, name, [content] * count, record):
                if as_json:
                    sent.append(message)
                else:
                    out.write(f"{message.id}\n")
    if as_json:
        write_objects(out, sent)
    else:
        for message in sent:
            out.write(f"{message.id}\n")
    out.flush()


def _send(
    manager: "Manager",
    name: str,
    bodies: list[str | bytes],
    properties: MessageProperties,
    transaction: "Transaction | None" = None,
) -> Iterator["Message"]:
    queue = manager.queue(name)
    if len(bodies) == 1:
        yield queue.send_record(bodies[0], properties, transaction)
        return
    with progress("sending", len(bodies)) as advance:
        for start in range(0, len(bodies), BATCH):
            batch = bodies[start : start + BATCH]
            yield from queue.send_records(batch, properties, transaction)
            advance(len(batch))


def read_file(name: str) -> bytes:
    """What is in the file; - is standard input."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Failure(
            f"{name} cannot be read: {error.strerror or error}.", "check its name and its permissions."
        ) from None
