"""`waypost receive` and `waypost peek`."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from waypost.cli.ages import seconds_of
from waypost.cli.asking import counted, say
from waypost.cli.daemon import Json, Outgoing, TimedOut, is_elsewhere, queue_of, session
from waypost.cli.messages import came, write_bodies, write_messages, write_objects
from waypost.cli.program import MOST, Output
from waypost.cli.progress import is_watched, waiting
from waypost.cli.queue import Name
from waypost.errors import Timeout

if TYPE_CHECKING:
    from waypost import Manager, Message, Queue

# Messages that are taken together, if so many are there.
BATCH: Final = 100

Lookup = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Read the message with this lookup_id, without waiting.")
]
Wait = Annotated[
    float | None,
    typer.Option("--timeout", metavar="S", min=0, help="Time to wait for a message, in seconds (default: no limit)."),
]


def receive(
    context: typer.Context,
    name: Name,
    *,
    timeout: Wait = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST, help="Number of messages to receive (default: 1).")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Receive messages until you interrupt the command, or until no message has arrived for "
            "--timeout seconds.",
        ),
    ] = False,
    lookup: Lookup = None,
    outgoing: Outgoing = False,
    as_json: Json = False,
) -> None:
    """Receive messages from a local or remote queue and print their bodies.

    The command waits for a message. If no message arrives within --timeout seconds, the exit code is 4. Bodies are
    written to standard output, as text if possible, otherwise as hexadecimal digits. Properties are written to standard
    error. --json writes an array of message objects. With --follow, --json writes each message as one line, as soon as
    the message arrives.

    \b
    waypost receive orders --timeout 5
    waypost receive orders --count 100 --timeout 0 --json
    waypost receive orders --follow
    waypost receive 'DIRECT=OS:other\\private$\\orders'
    """
    if lookup is not None and (follow or count is not None or timeout is not None):
        raise typer.BadParameter(
            "--lookup is mutually exclusive with --count, --follow and --timeout", param_hint="--lookup"
        )
    out = Output()
    wanted = None if follow and count is None else count or 1
    received: list[Message] = []
    try:
        with session(context) as manager:
            # Messages that are received and not yet shown are lost if the command is interrupted.
            batch = 1 if follow else BATCH
            queue = queue_of(manager, name, outgoing=outgoing)
            advice = _advice(context, manager)
            messages = _receive(queue, timeout, wanted, batch) if lookup is None else [queue.receive(lookup_id=lookup)]
            if lookup is None and is_watched() and timeout != 0 and not _has_messages(context, manager, queue):
                say(f"Waiting for a message in {name}. Press Ctrl-C to stop.")
            for message in messages:
                received.append(message)
                if follow and as_json:
                    out.write(json.dumps(message.to_dict()) + "\n")
                    out.flush()
                elif not as_json:
                    write_bodies(out, [message])
    finally:
        # Also after an error: these are removed from their queue.
        if as_json and not follow:
            write_objects(out, received)
        out.flush()
    if not follow and len(received) < (wanted or 0):
        raise TimedOut(_nothing_came(name, len(received), timeout), advice)


def peek(
    context: typer.Context,
    name: Name,
    *,
    every: Annotated[bool, typer.Option("--all", help="Show all messages, in a table.")] = False,
    sort: Annotated[
        Literal["place", "age", "size", "priority", "aborts"] | None,
        typer.Option(
            help="With --all, sort by place in the queue (the default), age (oldest first), size (largest first), "
            "priority (highest first) or aborts (most first)."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="With --all, show only messages older than this age, such as 90s, 15m, 12h or 30d."
        ),
    ] = None,
    min_aborts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="With --all, show only messages that were returned to the queue by at least N aborted transactions.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MOST, help="Number of messages to show with --all (default: all)."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", min=0, help="Time to wait for a message, in seconds."),
    ] = 0,
    lookup: Lookup = None,
    outgoing: Outgoing = False,
    as_json: Json = False,
) -> None:
    """Show the first message or all messages of a queue, without removing them.

    With --all, the column AGE shows the time since each message arrived in the queue. The column ABORTS shows the
    number of transactions that received the message and were then aborted. A terminal shows one line per message, with
    a short id. A narrow terminal shows fewer columns. Output to a file or a pipe has all columns and the full ids.

    \b
    waypost peek orders
    waypost peek orders --all --sort age --limit 20
    waypost peek 'system$;deadletter' --all --json
    waypost peek 'DIRECT=OS:other\\private$\\orders' --all --outgoing
    """
    if lookup is not None and (every or timeout):
        raise typer.BadParameter("--lookup is mutually exclusive with --all and --timeout", param_hint="--lookup")
    given = {"--sort": sort, "--older-than": older_than, "--min-aborts": min_aborts, "--limit": limit}
    if not every and (alone := [option for option, value in given.items() if value is not None]):
        raise typer.BadParameter(f"{alone[0]} is only valid with --all", param_hint=alone[0])
    before = None if older_than is None else _before(seconds_of(older_than, "--older-than"))
    out = Output()
    more = 0
    with session(context) as manager:
        queue = queue_of(manager, name, outgoing=outgoing)
        advice = _advice(context, manager)
        if lookup is not None:
            messages = [queue.peek(lookup_id=lookup)]
        elif every:
            with waiting(f"reading {name}"):
                chosen = _chosen(queue, before, min_aborts or 0)
                if sort in (None, "place"):
                    # Those behind are not read, and not counted.
                    messages = list(chosen if limit is None else islice(chosen, limit))
                    more = 0 if limit is None else sum(1 for _ in islice(chosen, 1))
                else:
                    found = sorted(chosen, key=_ORDERS[sort])
                    messages, more = found[:limit], len(found[limit:]) if limit else 0
        else:
            messages = _first(queue, timeout)
    if as_json:
        write_objects(out, messages)
    elif every:
        write_messages(out, messages)
    else:
        write_bodies(out, messages)
    out.flush()
    if more:
        say(f"Only {counted(len(messages), 'message')} shown. The queue contains more messages.")
    if not messages and not every:
        raise TimedOut(_nothing_came(name, 0, timeout), advice)


_ORDERS: Final[dict[str, "Callable[[Message], Any]"]] = {
    "age": came,
    "size": lambda message: -message.size,
    "priority": lambda message: -message.priority,
    "aborts": lambda message: -message.abort_count,
}


def _before(seconds: float) -> datetime:
    now = datetime.now(UTC)
    # Nothing is older than the calendar.
    return now - timedelta(seconds=min(seconds, now.timestamp()))


def _chosen(queue: "Queue", before: datetime | None, min_aborts: int) -> "Iterator[Message]":
    for message in queue.browse():
        if message.abort_count >= min_aborts and (before is None or came(message) < before):
            yield message


def _receive(queue: "Queue", timeout: float | None, wanted: int | None, batch: int) -> Iterator["Message"]:
    """Receive up to this number of messages, or without end. Stop if no message arrives for `timeout` seconds."""
    left = wanted
    while left is None or left > 0:
        try:
            messages = queue.receive_many(batch if left is None else min(left, batch), timeout)
        except Timeout:
            return
        yield from messages
        left = None if left is None else left - len(messages)


def _has_messages(context: typer.Context, manager: "Manager", queue: "Queue") -> bool:
    """As far as it is known here."""
    return is_elsewhere(context, manager) or queue.info().message_count > 0


def _first(queue: "Queue", timeout: float | None) -> "list[Message]":
    try:
        return [queue.peek(timeout)]
    except Timeout:
        return []


def _nothing_came(name: str, received: int, timeout: float | None) -> str:
    if not timeout and not received:
        return f"{name} has no messages."
    waited = f" within {timeout:g} second{'' if timeout == 1 else 's'}" if timeout else ""
    came_here = f"Only {counted(received, 'message')}" if received else "No message"
    return f"{came_here} arrived in {name}{waited}."


def _advice(context: typer.Context, manager: "Manager") -> str:
    if is_elsewhere(context, manager):
        return "wait longer with --timeout."
    return "wait longer with --timeout. `waypost explain` explains why no message arrives."
