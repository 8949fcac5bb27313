"""`waypost receive` and `waypost peek`."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from waypost.cli.daemon import Json, Outgoing, TimedOut, is_elsewhere, queue_of, session
from waypost.cli.messages import write_bodies, write_messages, write_objects
from waypost.cli.program import Output
from waypost.cli.queue import Name
from waypost.errors import Timeout

if TYPE_CHECKING:
    from waypost import Manager, Message, Queue

# Messages that are taken together, if so many are there.
BATCH: Final = 100

Lookup = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="The message with this lookup_id, if it is there now.")
]
Wait = Annotated[float | None, typer.Option("--timeout", metavar="S", min=0, help="Seconds to wait for a message.")]


def receive(
    context: typer.Context,
    name: Name,
    *,
    timeout: Wait = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many to receive, 1 unless given.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until it is interrupted, or nothing comes for --timeout seconds.")
    ] = False,
    lookup: Lookup = None,
    outgoing: Outgoing = False,
    as_json: Json = False,
) -> None:
    """Take messages out of a queue, here or of another computer, and print their bodies.

    It waits until there is one, or for --timeout seconds; then the exit code is 4. The body of each message is written
    to standard output, as hexadecimal digits if it is no text, and the rest that people want to know to standard error.
    --json gives an array of message objects, and with --follow one object on each line as it comes.

    \b
    waypost receive orders --timeout 5
    waypost receive orders --count 100 --timeout 0 --json
    waypost receive orders --follow
    waypost receive 'DIRECT=OS:other\\private$\\orders'
    """
    if lookup is not None and (follow or count is not None or timeout is not None):
        raise typer.BadParameter("one message is looked up, without a wait", param_hint="--lookup")
    out = Output()
    wanted = None if follow and count is None else count or 1
    received: list[Message] = []
    try:
        with session(context) as manager:
            # What is taken and not yet shown is lost if somebody interrupts it.
            batch = 1 if follow else BATCH
            queue = queue_of(manager, name, outgoing=outgoing)
            advice = _advice(context, manager)
            messages = _receive(queue, timeout, wanted, batch) if lookup is None else [queue.receive(lookup_id=lookup)]
            for message in messages:
                received.append(message)
                if follow and as_json:
                    out.write(json.dumps(message.to_dict()) + "\n")
                    out.flush()
                elif not as_json:
                    write_bodies(out, [message])
    finally:
        # Whatever went wrong: these are out of their queue.
        if as_json and not follow:
            write_objects(out, received)
        out.flush()
    if not follow and len(received) < (wanted or 0):
        raise TimedOut(_nothing_came(name, len(received), timeout), advice)


def peek(
    context: typer.Context,
    name: Name,
    *,
    every: Annotated[bool, typer.Option("--all", help="All messages, in a table.")] = False,
    timeout: Wait = 0,
    lookup: Lookup = None,
    outgoing: Outgoing = False,
    as_json: Json = False,
) -> None:
    """Look at the first message of a queue, or at all, and leave them there.

    \b
    waypost peek orders
    waypost peek 'system$;deadletter' --all --json
    waypost peek 'DIRECT=OS:other\\private$\\orders' --all --outgoing
    """
    if lookup is not None and (every or timeout):
        raise typer.BadParameter("one message is looked up, without a wait", param_hint="--lookup")
    out = Output()
    with session(context) as manager:
        queue = queue_of(manager, name, outgoing=outgoing)
        advice = _advice(context, manager)
        if lookup is not None:
            messages = [queue.peek(lookup_id=lookup)]
        else:
            messages = list(queue.browse()) if every else _first(queue, timeout)
    if as_json:
        write_objects(out, messages)
    elif every:
        write_messages(out, messages)
    else:
        write_bodies(out, messages)
    out.flush()
    if not messages and not every:
        raise TimedOut(_nothing_came(name, 0, timeout), advice)


def _receive(queue: "Queue", timeout: float | None, wanted: int | None, batch: int) -> Iterator["Message"]:
    """Up to so many messages, or without end; it is over when none has come for `timeout` seconds."""
    left = wanted
    while left is None or left > 0:
        try:
            messages = queue.receive_many(batch if left is None else min(left, batch), timeout)
        except Timeout:
            return
        yield from messages
        left = None if left is None else left - len(messages)


def _first(queue: "Queue", timeout: float | None) -> "list[Message]":
    try:
        return [queue.peek(timeout)]
    except Timeout:
        return []


def _nothing_came(name: str, received: int, timeout: float | None) -> str:
    waited = f" for {timeout:g} second{'' if timeout == 1 else 's'}" if timeout else ""
    messages = "1 message" if received == 1 else f"{received} messages"
    what = f"Only {messages} came to" if received else "There is no message in"
    return f"{what} {name}{waited}."


def _advice(context: typer.Context, manager: "Manager") -> str:
    if is_elsewhere(context, manager):
        return "--timeout waits longer."
    return "--timeout waits longer, and `waypost explain` tells why none comes."
