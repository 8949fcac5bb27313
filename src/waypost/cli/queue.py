"""`waypost queue ...`: make queues, look at them, change them, empty and delete them."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from waypost.api.names import format_name, short_name
from waypost.api.properties import QUEUE_ROWS
from waypost.api.times import iso_8601
from waypost.cli.ages import age_text
from waypost.cli.asking import DryRun, Yes, ask, counted, say
from waypost.cli.completion import queue_names
from waypost.cli.daemon import Json, Outgoing, is_elsewhere, own_hint, queue_of, session
from waypost.cli.program import MOST, Output
from waypost.cli.program_options import not_empty
from waypost.cli.progress import progress, waiting
from waypost.cli.property_options import Given, with_options
from waypost.cli.tables import Column, write_fitting, write_json, write_pairs
from waypost.errors import AccessDenied

if TYPE_CHECKING:
    from waypost import Queue, QueueInfo
    from waypost.api.queues import ConnectionInfo

app = typer.Typer(help="Create, show, change, empty and delete queues.", add_completion=False, rich_markup_mode=None)


NAME_HELP: Final = (
    "Name of a queue, such as orders, 'orders;retry' or 'system$;deadletter', or a path name or a format name."
)
Name = Annotated[str, typer.Argument(metavar="NAME", help=NAME_HELP, show_default=False, autocompletion=queue_names)]


@app.command()
@with_options(QUEUE_ROWS)
def create(
    context: typer.Context,
    name: Name,
    *,
    transactional: Annotated[
        bool, typer.Option("--transactional", help="Create a transactional queue. You cannot change this later.")
    ] = False,
    properties: Given,
    as_json: Json = False,
) -> None:
    """Create a queue and print its format name. Other computers use this name to send messages to the queue.

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
    system: Annotated[
        bool, typer.Option("--system", help="Include the dead-letter queues and the journal of the queue manager.")
    ] = False,
    sort: Annotated[
        Literal["name", "messages", "bytes", "age"],
        typer.Option(help="Sort by name, by messages or bytes (largest first), or by age (oldest first)."),
    ] = "name",
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST, help="Number of queues to show (default: all).")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the local queues, and the outgoing queues with messages for other computers.

    The column AGE shows the age of the oldest message. The column QUOTA shows the percentage of the quota that is in
    use. A narrow terminal shows fewer columns. Output to a file or a pipe has all columns.

    \b
    waypost queue list
    waypost queue list --sort age --limit 10
    waypost queue list --system --json
    """
    out = Output()
    with session(context) as manager, waiting("listing queues"):
        infos = [*manager.list_queues(), *manager.list_queues("outgoing")]
        infos += manager.list_queues("system") if system else ()
        computer = manager.name
    if sort != "name":
        infos.sort(key=_ORDERS[sort])
    shown = infos[:limit]
    if as_json:
        write_json(out, [info.to_dict() for info in shown])
    else:
        write_fitting(out, _COLUMNS, [_row(computer, info) for info in shown])
    out.flush()
    if len(shown) < len(infos):
        say(f"{counted(len(infos) - len(shown), 'more queue')} not shown.")


_COLUMNS: Final = (
    Column("NAME", least=26, middle=True),
    Column("KIND", drop=5),
    Column("MESSAGES", right=True),
    Column("BYTES", drop=3, right=True),
    Column("JOURNAL", drop=7, right=True),
    Column("TX", drop=6),
    Column("STATE", drop=1),
    Column("AGE", drop=2, right=True),
    Column("QUOTA", drop=4, right=True),
    Column("LABEL", drop=8, least=8),
)
_FUTURE: Final = datetime.max.replace(tzinfo=UTC)
_ORDERS: Final[dict[str, Callable[["QueueInfo"], Any]]] = {
    "messages": lambda info: -info.message_count,
    "bytes": lambda info: -info.bytes,
    "age": lambda info: info.oldest_time or _FUTURE,
}


def _row(computer: str, info: "QueueInfo") -> tuple[object, ...]:
    journal = info.journal_count if info.journal or info.journal_count else None
    quota = f"{info.bytes / (info.quota_kb * 1024):.0%}" if info.quota_kb else None
    return (
        short_name(format_name(info.format_name, computer), computer),
        info.kind,
        info.message_count,
        info.bytes,
        journal,
        info.transactional,
        info.state,
        age_text(info.oldest_time),
        quota,
        "" if info.kind == "outgoing" else info.label,
    )


@app.command()
def show(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Show all properties and the current state of one queue.

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
    """Change properties of a queue. Properties that you do not specify stay unchanged.

    \b
    waypost queue set orders --quota-kb 4096 --no-journal
    """
    if not properties:
        raise typer.BadParameter(
            "no property is specified: specify at least one property to change", param_hint="OPTIONS"
        )
    with session(context) as manager, _notes():
        queue = manager.queue(name)
        queue.set(**properties)
        _show(queue.info(), as_json=as_json)


@app.command()
def acl(
    context: typer.Context,
    name: Name,
    *,
    grant: Annotated[
        list[str] | None, typer.Option(metavar="WHO:RIGHT,...", help="Grant rights. This option can be repeated.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(metavar="WHO:RIGHT,...", help="Deny rights. This option can be repeated.")
    ] = None,
    revoke: Annotated[
        list[str] | None, typer.Option(metavar="WHO", help="Remove all entries for WHO. This option can be repeated.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(metavar="WHO", help="Make WHO the owner of the queue.", callback=not_empty)
    ] = None,
    sddl: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Replace all entries with this security descriptor in SDDL.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Apply the new rights even if nobody can change them afterwards.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show or change the rights on a queue.

    WHO is a user, a group, a SID, everyone, anonymous or administrators. RIGHT is receive, peek, send, receive-journal,
    set-properties, get-properties, delete, get-permissions, set-permissions, take-ownership or full. Denied rights take
    precedence over granted rights. The changes are made in this order: revoke, owner, deny, grant.

    \b
    waypost queue acl orders
    waypost queue acl orders --grant alice:send,receive --deny anonymous:send
    waypost queue acl orders --revoke everyone --owner alice
    waypost queue acl orders --sddl 'D:(A;;0xf003f;;;BA)(A;;0x4;;;WD)' --json
    """
    out = Output()
    with session(context) as manager:
        queue = manager.queue(name)
        if grant or deny or revoke or owner or sddl is not None:
            found = queue.set_acl(
                grant=grant or (), deny=deny or (), revoke=revoke or (), owner=owner or "", sddl=sddl, force=force
            )
        else:
            found = queue.acl()
    if as_json:
        write_json(out, found.to_dict())
    else:
        write_pairs(out, [("owner", found.owner), ("sddl", found.sddl)])
        rows = [(each.who, "allow" if each.allow else "deny", ", ".join(each.rights)) for each in found.entries]
        write_fitting(out, _ENTRY_COLUMNS, rows)
    out.flush()


_ENTRY_COLUMNS: Final = (Column("WHO", least=12, middle=True), Column("ACCESS"), Column("RIGHTS", least=20))


@app.command()
def pause(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Pause an outgoing queue. Its messages wait until you run `waypost queue resume`.

    \b
    waypost queue pause 'DIRECT=OS:other\\private$\\orders'
    """
    with session(context) as manager:
        queue = manager.queue(name)
        queue.pause()
        if as_json:
            _show(queue.info(), as_json=True)
        say(f"{name} is paused.")


@app.command()
def resume(context: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Resume an outgoing queue that was paused.

    \b
    waypost queue resume 'DIRECT=OS:other\\private$\\orders'
    """
    with session(context) as manager:
        queue = manager.queue(name)
        queue.resume()
        if as_json:
            _show(queue.info(), as_json=True)
        say(f"{name} is resumed.")


@app.command()
def move(
    context: typer.Context,
    name: Name,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="Destination: either the queue itself or one of its subqueues.",
            autocompletion=queue_names,
        ),
    ],
    *,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Move all messages between a queue and its subqueues. The messages keep all their properties.

    Other programs can use both queues during the move. If the move is interrupted, each message is in exactly one of
    the two queues. To move the remaining messages, run the command again.

    \b
    waypost queue move 'orders;retry' orders
    """
    out = Output()
    with session(context) as manager:
        queue = manager.queue(name)
        total = _count(queue, _messages_of, is_needed=dry_run) or 0
        if dry_run:
            moved = 0
        else:
            with progress("moving", total) as advance, own_hint():
                moved = queue.move_all(to, progress=advance)
    if as_json:
        write_json(out, {"moved": moved})
    out.flush()
    say(
        f"{counted(total, 'message')} would be moved to {to}."
        if dry_run
        else f"{counted(moved, 'message')} moved to {to}."
    )


@app.command()
def purge(
    context: typer.Context,
    name: Name,
    *,
    outgoing: Outgoing = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Delete all messages in a queue, but keep the queue itself.

    \b
    waypost queue purge 'system$;deadletter'
    waypost queue purge orders --dry-run
    waypost queue purge 'DIRECT=OS:other\\private$\\orders' --outgoing --yes
    """
    with session(context) as manager:
        queue = queue_of(manager, name, outgoing=outgoing)
        # The messages of another computer are counted there.
        count = None if is_elsewhere(context, manager) else _count(queue, _messages_of, is_needed=dry_run)
        messages = "all messages" if count is None else counted(count, "message")
        if not dry_run:
            ask(f"Delete {messages} of {name}?", yes=yes or count == 0)
            with waiting(f"deleting {messages} of {name}"):
                queue.purge()
        _name(queue, count, as_json=as_json)
    say(f"{messages.capitalize()} of {name} {'would be deleted' if dry_run else 'deleted'}.")


@app.command()
def delete(
    context: typer.Context, name: Name, *, yes: Yes = False, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Delete a queue with its messages, its subqueues and its journal.

    \b
    waypost queue delete orders
    waypost queue delete orders --yes
    """
    with session(context) as manager:
        queue = manager.queue(name)
        count = _count(queue, _messages_with, is_needed=dry_run)
        messages = "all its messages" if count is None else counted(count, "message")
        if not dry_run:
            ask(f"Delete {name} with {messages}?", yes=yes)
            with waiting(f"deleting {name} with {messages}"):
                queue.delete()
        _name(queue, count, as_json=as_json)
    say(f"{name} with {messages} would be deleted." if dry_run else f"{name} was deleted with {messages}.")


def _count(queue: "Queue", count: Callable[["Queue"], int], *, is_needed: bool) -> int | None:
    """The number of messages, or None if the caller may not see it: the right to remove them is enough."""
    try:
        return count(queue)
    except AccessDenied:
        if is_needed:
            raise
        return None


def _messages_of(queue: "Queue") -> int:
    return queue.info().message_count


def _messages_with(queue: "Queue") -> int:
    """The messages of a queue, its journal and its subqueues."""
    info = queue.info()
    subqueues = sum(queue.subqueue(each).info().message_count for each in info.subqueues)
    return info.message_count + info.journal_count + subqueues


def _name(queue: "Queue", count: int | None, *, as_json: bool) -> None:
    """Print the name of a queue that is elsewhere, empty or gone, and the number of messages that it had."""
    if as_json:
        out = Output()
        counts = {} if count is None else {"message_count": count}
        write_json(out, {"format_name": queue.format_name, **counts})
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
        say(f"note: {each.message}.")
