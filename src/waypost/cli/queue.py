"""`waypost queue ...`: make queues, look at them, change them, empty and delete them."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.api.properties import QUEUE_ROWS
from waypost.api.times import iso_8601
from waypost.cli.daemon import Json, Outgoing, own_hint, queue_of, session
from waypost.cli.program import Output
from waypost.cli.progress import progress
from waypost.cli.property_options import Given, with_options
from waypost.cli.tables import write_json, write_pairs, write_table

if TYPE_CHECKING:
    from waypost import Queue, QueueInfo
    from waypost.api.queues import ConnectionInfo

SYSTEM_QUEUES: Final = ("system$;deadletter", "system$;deadxact", "system$;journal")

app = typer.Typer(
    help="Make queues, look at them, change them, empty and delete them.", add_completion=False, rich_markup_mode=None
)


NAME_HELP: Final = "orders, 'orders;retry', 'system$;deadletter', a path name or a format name."
Name = Annotated[str, typer.Argument(metavar="NAME", help=NAME_HELP, show_default=False)]


@app.command()
@with_options(QUEUE_ROWS)
def create(
    context: typer.Context,
    name: Name,
    *,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="Create a transactional queue. Cannot be changed later.")
    ] = False,
    properties: Given,
    as_json: Json = False,
) -> None:
    """Make a queue, and print its format name: what other computers call it.

    \b
    waypost queue create orders --journal --label "Orders of the shop"
    waypost queue create ledger --transactional --quota-kb 1024
    """
    with session(context) as manager, _notes():
        queue = manager.create_queue(name, transactional=transactional, **properties)
        _show(queue.info(), as_json=as_json)


@app.command("list")
def list_queues(
    context: typer.Context,
    *,
    system: Annotated[bool, typer.Option("--system", help="The dead-letter queues and the journal, too.")] = False,
    as_json: Json = False,
) -> None:
    """List the queues that were created here, and the outgoing queues with what waits for other computers.

    \b
    waypost queue list
    waypost queue list --system --json
    """
    out = Output()
    with session(context) as manager:
        infos = [(queue.name, queue.info()) for queue in [*manager.queues(), *manager.outgoing_queues()]]
        if system:
            infos += [(name, manager.queue(name).info()) for name in SYSTEM_QUEUES]
    if as_json:
        write_json(out, [info.to_dict() for _, info in infos])
    else:
        columns = ("NAME", "KIND", "MESSAGES", "BYTES", "JOURNAL", "TX", "STATE", "LABEL")
        write_table(out, columns, [_row(name, info) for name, info in infos])
    out.flush()


def _row(name: str, info: "QueueInfo") -> tuple[object, ...]:
    journal = info.journal_count if info.journal or info.journal_count else None
    label = "" if info.kind == "outgoing" else info.label
    return name, info.kind, info.message_count, info.bytes, journal, info.transactional, info.state, label


@app.command()
def show(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Show everything about one queue.

    \b
    waypost queue show orders
    waypost queue show 'DIRECT=OS:other\\private$\\orders' --json
    """
    out = Output()
    with session(context) as manager:
        info = manager.queue(name).info()
    if as_json:
        write_json(out, info.to_dict())
    else:
        pairs = [(key, value) for key, value in info.to_dict().items() if key != "connections"]
        write_pairs(out, [*pairs, *(("connection", _connection(each)) for each in info.connections or ())])
    out.flush()


def _connection(event: "ConnectionInfo") -> str:
    error = f", error {event.error}" if int(event.error, 16) else ""
    return f"{event.status} at {iso_8601(event.time)} ({', '.join(event.addresses)}){error}"


@app.command("set")
@with_options(QUEUE_ROWS)
def set_queue(
    context: typer.Context,
    name: Name,
    *,
    properties: Given,
    as_json: Json = False,
) -> None:
    """Change properties of a queue; the others stay.

    \b
    waypost queue set orders --quota-kb 4096 --no-journal
    """
    if not properties:
        raise typer.BadParameter("give at least one property to change", param_hint="OPTIONS")
    with session(context) as manager, _notes():
        queue = manager.queue(name)
        queue.set(**properties)
        _show(queue.info(), as_json=as_json)


@app.command()
def pause(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Put an outgoing queue on hold: nothing of it is sent until it is resumed.

    \b
    waypost queue pause 'DIRECT=OS:other\\private$\\orders'
    """
    with session(context) as manager:
        queue = manager.queue(name)
        queue.pause()
        if as_json:
            _show(queue.info(), as_json=True)
        typer.echo(f"{name} is on hold.", err=True)


@app.command()
def resume(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Let an outgoing queue send again.

    \b
    waypost queue resume 'DIRECT=OS:other\\private$\\orders'
    """
    with session(context) as manager:
        queue = manager.queue(name)
        queue.resume()
        if as_json:
            _show(queue.info(), as_json=True)
        typer.echo(f"{name} sends again.", err=True)


@app.command()
def move(
    context: typer.Context,
    name: Name,
    to: Annotated[str, typer.Argument(metavar="TO", help="A subqueue of the queue, or the queue itself.")],
    *,
    as_json: Json = False,
) -> None:
    """Move all messages between a queue and its subqueues, with all that belongs to them.

    Others use both queues meanwhile. If it is interrupted, each message is in one of them; move again for the rest.

    \b
    waypost queue move 'orders;retry' orders
    """
    out = Output()
    with session(context) as manager:
        queue = manager.queue(name)
        with progress("moving", queue.info().message_count) as advance, own_hint():
            moved = queue.move_all(to, progress=advance)
    if as_json:
        write_json(out, {"moved": moved})
    out.flush()
    typer.echo(f"{'1 message is' if moved == 1 else f'{moved} messages are'} in {to}.", err=True)


@app.command()
def purge(context: typer.Context, name: Name, *, outgoing: Outgoing = False, as_json: Json = False) -> None:
    """Delete all messages of a queue, which leaves the queue itself.

    \b
    waypost queue purge 'system$;deadletter'
    waypost queue purge 'DIRECT=OS:other\\private$\\orders' --outgoing
    """
    with session(context) as manager:
        queue = queue_of(manager, name, outgoing=outgoing)
        queue.purge()
        _name(queue, as_json=as_json)
        typer.echo(f"{name} is empty.", err=True)


@app.command()
def delete(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Delete a queue with its messages, its subqueues and its journal.

    \b
    waypost queue delete orders
    """
    with session(context) as manager:
        queue = manager.queue(name)
        queue.delete()
        _name(queue, as_json=as_json)
        typer.echo(f"{name} is deleted.", err=True)


def _name(queue: "Queue", *, as_json: bool) -> None:
    """What can be said of a queue that is elsewhere, or gone."""
    if as_json:
        out = Output()
        write_json(out, {"format_name": queue.format_name})
        out.flush()


def _show(info: "QueueInfo", *, as_json: bool) -> None:
    out = Output()
    if as_json:
        write_json(out, info.to_dict())
    else:
        out.write(f"{info.format_name}\n")
    out.flush()


@contextmanager
def _notes() -> Iterator[None]:
    """Show what was given and changes nothing."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        yield
    for each in noted:
        typer.echo(f"note: {each.message}.", err=True)
