"""Messages at the command line: how they are shown and named, and how one is sent again."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import typer

from waypost.api.properties import MESSAGE_ROWS, MessageProperties
from waypost.cli.program import Failure, Output, printable
from waypost.cli.tables import write_json, write_table
from waypost.errors import DecodeError, MessageNotFound
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.message_class import is_valid_custom_class
from waypost.wire.unknown_names import UNKNOWN

if TYPE_CHECKING:
    from waypost import Manager, Message, Queue

_EXCERPT = 40


def write_bodies(out: Output, messages: Iterable["Message"]) -> None:
    """The body of each on a line of its own; what else there is to say of it goes to standard error."""
    for message in messages:
        typer.echo(_title(message), err=True)
        out.write(_body(message) + "\n")
        out.flush()


def write_objects(out: Output, messages: Iterable["Message"]) -> None:
    """Their objects, as an array of JSON."""
    write_json(out, [message.to_dict() for message in messages])


def write_messages(out: Output, messages: Iterable["Message"]) -> None:
    """A table with one line for each."""
    columns = ("LOOKUP_ID", "ID", "SENT", "PRIORITY", "SIZE", "CLASS", "LABEL", "BODY")
    write_table(out, columns, [_row(message) for message in messages])


def find_messages(queue: "Queue", names: Iterable[str]) -> Iterator["Message"]:
    """The messages of a queue that people name by their ids or lookup ids, in this order."""
    for name in names:
        yield _find(queue, name)


# Those that a message says in another way, or not any more when it is sent again.
_NOT_TAKEN: Final = frozenset({"recoverable", "acknowledge", "admin_queue", "response_queue", "trace", "message_class"})


def properties_to_send(message: "Message") -> MessageProperties:
    """The properties that make the same message once more, under another id.

    The class of a dead letter or an acknowledgment stays behind: only the system gives those. So does a queue name that
    is not understood, and so does tracing: it was for the way that the message has gone.
    """
    properties: dict[str, Any] = {
        row.name: getattr(message, row.name) for row in MESSAGE_ROWS if row.name not in _NOT_TAKEN
    }
    properties["recoverable"] = message.delivery == "recoverable"
    properties["response_queue"] = _understood(message.response_queues) or None
    admin_queues = _understood(message.admin_queues)
    if admin_queues and message.acknowledge != "none":
        properties |= {"acknowledge": message.acknowledge, "admin_queue": admin_queues}
    if is_valid_custom_class(message.message_class) and not message.class_name:
        properties["message_class"] = message.message_class
    return MessageProperties(**properties)


def _understood(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if not name.startswith(UNKNOWN)]


def _find(queue: "Queue", name: str) -> "Message":
    if name.isdecimal():
        return queue.peek(0, lookup_id=int(name))
    try:
        wanted = str(MessageIdentifier.parse(name))
    except DecodeError:
        raise Failure(
            f"{name!r} names no message.", "a message is named by its id, {guid}\\number, or by its lookup_id."
        ) from None
    # Only the name of a queue of another computer is as long as that.
    is_elsewhere = queue.name.startswith("DIRECT=")
    # On the command line no queue is one of waypost.msmq.
    facts = cast("Manager", queue.manager).explain(wanted).facts
    for place in facts["places"]:
        with suppress(MessageNotFound):
            message = queue.peek(0, lookup_id=int(place["lookup_id"]))
            if message.id == wanted:
                return message
    # The queue manager knows its own messages, as soon as all of them can be searched.
    for message in queue.browse() if is_elsewhere or facts["not_searched"] else ():
        if message.id == wanted:
            return message
    raise Failure(
        f"There is no message {wanted} in {queue.name}.",
        "`waypost peek NAME --all` shows those that are there."
        if is_elsewhere
        else "`waypost explain` looks for a message in all queues.",
    )


def _title(message: "Message") -> str:
    label = f" {printable(message.label)!r}" if message.label else ""
    kind = f", {message.class_meaning}" if message.message_class else ""
    return f"{message.id}{label}, {len(message.body)} bytes, sent {message.sent_time:%Y-%m-%dT%H:%M:%SZ}{kind}"


def _body(message: "Message") -> str:
    """Text as it is, and what is no text as hexadecimal digits."""
    try:
        return printable_lines(message.text)
    except DecodeError:
        return message.body.hex()


def printable_lines(text: str) -> str:
    """The text with its lines and tabs, and without what a terminal could obey."""
    return "".join(letter if letter in "\n\t" else printable(letter) for letter in text)


def _row(message: "Message") -> tuple[object, ...]:
    body = _body(message)
    excerpt = body if len(body) <= _EXCERPT else f"{body[: _EXCERPT - 3]}..."
    return (
        message.lookup_id,
        message.id,
        f"{message.sent_time:%Y-%m-%dT%H:%M:%SZ}",
        message.priority,
        message.size,
        message.class_name.removeprefix("MQMSG_CLASS_") or f"{message.message_class:#06x}",
        message.label,
        excerpt,
    )
