"""`waypost send`."""

import io
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from waypost.api.properties import MESSAGE_ROWS, MessageProperties
from waypost.api.rows import Kind
from waypost.cli.completion import queue_names
from waypost.cli.daemon import Json, session
from waypost.cli.key_files import certificate_of
from waypost.cli.messages import write_objects
from waypost.cli.program import MOST, Failure, Output
from waypost.cli.progress import progress
from waypost.cli.property_options import Given, with_options
from waypost.limits import MAX_PACKET_SIZE

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
            help="A local or remote queue, such as orders or DIRECT=OS:host\\private$\\orders. Separate several queue "
            "names with commas.",
            show_default=False,
            autocompletion=queue_names,
        ),
    ],
    *,
    body: Annotated[str | None, typer.Option(metavar="TEXT", help="Send this text as the body.")] = None,
    body_file: Annotated[
        str | None,
        typer.Option(
            metavar="F", help="Send the bytes of this file as the body. The file name - means standard input."
        ),
    ] = None,
    properties: Given,
    express: Annotated[
        bool,
        typer.Option(
            "--express",
            help="Keep the message only in memory. This option is faster, but the message is lost if its queue manager "
            "stops.",
        ),
    ] = False,
    recoverable: Annotated[bool, typer.Option("--recoverable", help="Store the message on disk (default).")] = False,
    transactional: Annotated[bool, typer.Option("--transactional", help="Send all copies in one transaction.")] = False,
    password_file: Annotated[
        Path | None, typer.Option(metavar="F", help="File with the password of the certificate file, on one line.")
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", min=1, max=MOST, help="Number of copies to send.")] = 1,
    as_json: Json = False,
) -> None:
    """Send a message, and print its id as soon as the message is stored.

    Without --body and --body-file, the command reads the bytes of the body from standard input until the input ends.
    The command does not wait for the first byte: if standard input has no data yet, the body is empty. To send to
    several queues, separate their names with commas. Either every queue gets a copy, or no queue gets a copy. All
    copies have the same id. With --json, the output lists the copies.

    \b
    waypost send orders --body "42 bolts" --label order
    waypost send 'DIRECT=OS:other\\private$\\orders' --body-file order.xml --body-type 0 --ttrq 3600 --dead-letter
    waypost send ledger --transactional --body paid --ack full-receive --admin-queue acks
    waypost send 'DIRECT=OS:other\\private$\\orders' --body secret --sign --encrypt
    """
    if express + recoverable + transactional > 1:
        raise typer.BadParameter(
            "--express, --recoverable and --transactional are mutually exclusive", param_hint="--express"
        )
    if body is not None and body_file is not None:
        raise typer.BadParameter("--body and --body-file are mutually exclusive", param_hint="--body")
    if "extension" in properties:
        properties["extension"] = read_file(properties["extension"])
    if "certificate" in properties:
        properties["certificate"] = certificate_of(properties["certificate"], password_file)
    elif password_file is not None:
        raise typer.BadParameter("--password-file requires --certificate", param_hint="--password-file")
    record = MessageProperties(recoverable=not express, **properties)
    content = body if body is not None else (piped() or "") if body_file is None else read_file(body_file)
    out = Output()
    with session(context) as manager:
        sent: list[Message] = []
        if transactional:
            with manager.transaction() as transaction:
                sent.extend(_send(manager, name, (content, count), record, transaction))
        else:
            for message in _send(manager, name, (content, count), record, writes=not as_json):
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
    copies: tuple[str | bytes, int],
    properties: MessageProperties,
    transaction: "Transaction | None" = None,
    *,
    writes: bool = False,
) -> Iterator["Message"]:
    queue = manager.queue(name)
    body, count = copies
    if count == 1:
        yield queue.send_record(body, properties, transaction)
        return
    with progress("sending", count, writes=writes) as advance:
        for start in range(0, count, BATCH):
            batch = [body] * min(BATCH, count - start)
            yield from queue.send_records(batch, properties, transaction)
            advance(len(batch))


def read_file(name: str) -> bytes:
    """The content of the file; - is standard input, read to its end."""
    try:
        if name == "-":
            return _bounded(_standard_input(), "standard input")
        with Path(name).open("rb") as file:
            return _bounded(file, name)
    except (OSError, ValueError) as error:
        raise Failure(
            f"Cannot read {name}: {getattr(error, 'strerror', None) or error}.",
            "check the name and permissions of the file.",
        ) from None


def piped() -> bytes:
    """The bytes of standard input, if there are any: does not wait, and does not read from a terminal."""
    if sys.stdin is None or sys.stdin.isatty() or not _has_bytes():
        return b""
    return read_file("-")


def _has_bytes() -> bool:
    try:
        number = sys.stdin.fileno()
        return S_ISREG(os.fstat(number).st_mode) or bool(select.select([number], [], [], 0)[0])
    except io.UnsupportedOperation:
        # It is not one of the operating system, and does not wait.
        return True
    except (OSError, ValueError):
        return False


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise Failure("Standard input is closed.", "pipe a file into the command, or specify the file name.")
    return sys.stdin.buffer


def _bounded(file: BinaryIO, name: str) -> bytes:
    """A file without an end, such as a device, is longer than any message."""
    content = file.read(MAX_PACKET_SIZE + 1)
    if len(content) > MAX_PACKET_SIZE:
        raise Failure(
            f"{name} is longer than {MAX_PACKET_SIZE} bytes, which is the maximum size of a message.",
            "split the body into several messages.",
        )
    return content
