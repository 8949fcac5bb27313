"""`waypost send`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from waypost.cli.daemon import Json, session
from waypost.cli.messages import write_objects
from waypost.cli.program import Failure, Output
from waypost.cli.progress import progress

if TYPE_CHECKING:
    from waypost import Manager, Message, Transaction

# Messages that travel to the daemon together.
BATCH: Final = 500


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
    body_type: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The VARTYPE of the body: 8 for text, 4113 for bytes.")
    ] = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="A title.")] = "",
    express: Annotated[bool, typer.Option("--express", help="Faster; lost if a queue manager stops.")] = False,
    recoverable: Annotated[bool, typer.Option("--recoverable", help="Safe on disk. The default.")] = False,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="In a transaction, all of --count together.")
    ] = False,
    priority: Annotated[int, typer.Option(metavar="0-7", min=0, max=7, help="The highest is received first.")] = 3,
    ttrq: Annotated[float | None, typer.Option(metavar="S", min=0, help="Seconds to reach the queue.")] = None,
    ttbr: Annotated[float | None, typer.Option(metavar="S", min=0, help="Seconds to be received.")] = None,
    ack: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="Acknowledgments to send to --admin-queue: none, full-reach-queue, full-receive, nack-reach-queue, "
            "nack-receive, or some of pos-arrival, pos-receive, neg-arrival, neg-receive, joined with commas.",
        ),
    ] = None,
    admin_queue: Annotated[
        list[str] | None,
        typer.Option(metavar="FN", help="The queue for acknowledgments; each of several gets them. Repeatable."),
    ] = None,
    response_queue: Annotated[
        list[str] | None, typer.Option(metavar="FN", help="The queue for an answer. Repeatable.")
    ] = None,
    journal: Annotated[bool, typer.Option("--journal", help="Keep a copy in system$;journal.")] = False,
    dead_letter: Annotated[
        bool, typer.Option("--dead-letter", help="Keep it as a dead letter if it cannot be delivered.")
    ] = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FN", help="The public queue for reports, PUBLIC=guid; needs a directory.")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(metavar="HEX40", help="The message that this one answers.")
    ] = None,
    app_tag: Annotated[int | None, typer.Option(metavar="N", min=0, help="A number of your own.")] = None,
    extension_file: Annotated[str | None, typer.Option(metavar="F", help="A file with bytes of your own.")] = None,
    sign: Annotated[bool, typer.Option("--sign", hidden=True)] = False,
    encrypt: Annotated[bool, typer.Option("--encrypt", hidden=True)] = False,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="How many of it to send.")] = 1,
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
            "it goes with none of --express, --recoverable, --transactional", param_hint="--express"
        )
    if body is not None and body_file is not None:
        raise typer.BadParameter("it cannot go with --body-file", param_hint="--body")
    given: dict[str, Any] = {
        "body_type": body_type,
        "time_to_reach_queue": ttrq,
        "time_to_be_received": ttbr,
        "acknowledge": ack,
        "admin_queue": admin_queue or None,
        "response_queue": response_queue or None,
        "trace": trace,
        "correlation_id": correlation_id,
        "app_tag": app_tag,
        "extension": None if extension_file is None else read_file(extension_file),
        "journal": journal or None,
        "dead_letter": dead_letter or None,
    }
    properties = {key: value for key, value in given.items() if value is not None}
    properties |= {"label": label, "priority": priority, "recoverable": not express}
    content = (body or "") if body_file is None else read_file(body_file)
    out = Output()
    with session(context) as manager:
        sent: list[Message] = []
        if transactional:
            with manager.transaction() as transaction:
                sent.extend(_send(manager, name, [content] * count, properties, transaction))
        else:
            for message in _send(manager, name, [content] * count, properties):
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
    properties: dict[str, Any],
    transaction: "Transaction | None" = None,
) -> Iterator["Message"]:
    queue = manager.queue(name)
    if len(bodies) == 1:
        yield queue.send(bodies[0], transaction=transaction, **properties)
        return
    with progress("sending", len(bodies)) as advance:
        for start in range(0, len(bodies), BATCH):
            batch = bodies[start : start + BATCH]
            yield from queue.send_many(batch, transaction=transaction, **properties)
            advance(len(batch))


def read_file(name: str) -> bytes:
    """What is in the file; - is standard input."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Failure(
            f"{name} cannot be read: {error.strerror or error}.", "check its name and its permissions."
        ) from None
