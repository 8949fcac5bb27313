"""`waypost message ...`: move, export, import, resend and delete single messages."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, TextIO

import typer

from waypost.cli.asking import DryRun, Yes, ask, counted, say
from waypost.cli.completion import queue_names
from waypost.cli.daemon import Json, Outgoing, own_hint, queue_of, session
from waypost.cli.messages import find_messages, write_objects
from waypost.cli.program import Failure, Output
from waypost.cli.progress import progress, waiting
from waypost.cli.queue import Name

if TYPE_CHECKING:
    from waypost import Message

app = typer.Typer(
    help="Move, export, import, resend and delete single messages.", add_completion=False, rich_markup_mode=None
)

_NAMED: Final = "Message ids ({guid}\\number), short ids as shown by `peek --all`, or lookup_ids"
Identifier = Annotated[
    str,
    typer.Argument(metavar="MESSAGE", help="Message id ({guid}\\number), short id or lookup_id.", show_default=False),
]
Identifiers = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MESSAGE]...", help=f"{_NAMED} (default: all messages).", show_default=False),
]


@app.command()
def move(
    context: typer.Context,
    name: Name,
    message: Identifier,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="Destination: either the queue itself or one of its subqueues.",
            autocompletion=queue_names,
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Move a message between a queue and its subqueues. The message keeps all its properties.

    To send a message to any other queue, use `waypost message resend --to`.

    \b
    waypost message move orders 72057594037927937 'orders;retry'
    """
    out = Output()
    with session(context) as manager:
        queue = manager.queue(name)
        for each in find_messages(queue, [message]):
            with own_hint():
                queue.move(each, to)
            if as_json:
                write_objects(out, [each])
            say(f"1 message moved to {to}: {each.id}.")
    out.flush()


@app.command()
def export(
    context: typer.Context,
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write, or - for standard output.")],
    messages: Identifiers = None,
    *,
    outgoing: Outgoing = False,
    as_json: Json = False,
) -> None:
    """Write messages to a file as MSMQ network packets, without removing them from the queue.

    `waypost decode` shows the content of the file. `waypost message import` sends the messages in the file.

    \b
    waypost message export orders orders.packets
    waypost message export 'system$;deadletter' - 72057594037927937 > dead.packets
    """
    if as_json and file == "-":
        raise typer.BadParameter(
            "--json is not possible when the packets go to standard output; specify a file name", param_hint="--json"
        )
    with session(context) as manager, _opened(file, sys.stdout, "written") as target:
        queue = queue_of(manager, name, outgoing=outgoing)
        with waiting(f"reading {name}"):
            chosen = queue.export_messages(target, find_messages(queue, messages) if messages else None)
    if as_json:
        out = Output()
        write_objects(out, chosen)
        out.flush()
    say(f"{counted(len(chosen), 'message')} written.")


@app.command("import")
def import_messages(
    context: typer.Context,
    name: Name,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="File that `waypost message export` has written, or - for standard input."),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Send the messages in a file to a queue. Each message gets a new id.

    Messages to a transactional queue are sent in one transaction.

    \b
    waypost message import orders orders.packets
    """
    out = Output()
    with (
        session(context) as manager,
        _opened(file, sys.stdin, "read") as source,
        own_hint(),
        waiting(f"sending to {name}"),
    ):
        sent = manager.import_messages(name, source)
    if as_json:
        write_objects(out, sent)
    else:
        for message in sent:
            out.write(f"{message.id}\n")
    out.flush()
    say(f"{counted(len(sent), 'message')} sent to {name}.")


@app.command()
def resend(
    context: typer.Context,
    name: Name,
    messages: Identifiers = None,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Send the messages to this queue (default: their original destination).",
            autocompletion=queue_names,
        ),
    ] = None,
    outgoing: Outgoing = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove messages from a queue, and send them again to their original destination or to another queue.

    Each message is received and sent in one transaction. The new message has a new id. Transactional messages can
    be sent only to transactional queues, and nontransactional messages only to nontransactional queues.

    \b
    waypost message resend 'system$;deadletter'
    waypost message resend orders 72057594037927937 --to 'orders-of-tomorrow'
    waypost message resend 'system$;deadxact' 72057594037927937 --to 'DIRECT=OS:other\\private$\\orders'
    """
    out = Output()
    sent: list[Message] = []
    try:
        with session(context) as manager:
            queue = queue_of(manager, name, outgoing=outgoing)
            with waiting(f"reading {name}"):
                chosen = list(find_messages(queue, messages) if messages else queue.browse())
            if dry_run:
                say(f"{counted(len(chosen), 'message')} of {name} would be sent again.")
                return
            if chosen and not messages:
                ask(f"Send {counted(len(chosen), 'message')} of {name} again?", yes=yes)
            with progress("sending again", len(chosen), writes=not as_json) as advance:
                for message in chosen:
                    with own_hint():
                        sent.append(queue.resend(message, to))
                    if not as_json:
                        out.write(f"{sent[-1].id}\n")
                        out.flush()
                    advance(1)
    finally:
        # Also after an error: these are sent.
        if as_json:
            write_objects(out, sent)
        out.flush()
    say(f"{counted(len(sent), 'message')} of {name} sent again.")


@app.command()
def delete(
    context: typer.Context,
    name: Name,
    messages: Annotated[list[str], typer.Argument(metavar="MESSAGE...", help=f"{_NAMED}.")],
    *,
    outgoing: Outgoing = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Receive messages from a queue and discard them.

    \b
    waypost message delete orders 72057594037927937
    """
    out = Output()
    deleted: list[Message] = []
    try:
        with session(context) as manager:
            queue = queue_of(manager, name, outgoing=outgoing)
            with waiting(f"looking into {name}"):
                chosen = list(find_messages(queue, messages))
            if dry_run:
                say(f"{counted(len(chosen), 'message')} of {name} would be deleted.")
                return
            ask(f"Delete {counted(len(chosen), 'message')} of {name}?", yes=yes)
            with progress("deleting", len(chosen)) as advance:
                for message in chosen:
                    deleted.append(queue.receive(lookup_id=message.lookup_id))
                    advance(1)
    finally:
        # Also after an error: these are removed from their queue.
        if as_json:
            write_objects(out, deleted)
        out.flush()
        if deleted:
            say(f"{counted(len(deleted), 'message')} of {name} deleted.")


@contextmanager
def _opened(file: str, standard: TextIO, done: str) -> Iterator[str | BinaryIO]:
    """A file that is read or written; - is a standard stream."""
    try:
        yield standard.buffer if file == "-" else file
    except OSError as error:
        raise Failure(
            f"{file} was not {done}: {error.strerror or error}.",
            "check the name and permissions of the file, and the disk.",
        ) from None
