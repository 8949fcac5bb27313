"""Messages at the command line: how they are shown and named."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

import typer

from waypost.cli.ages import age_text
from waypost.cli.program import Failure, Output, printable
from waypost.cli.tables import Column, is_drawn, write_fitting, write_json
from waypost.errors import DecodeError, MessageNotFound
from waypost.wire.identifiers import MessageIdentifier

if TYPE_CHECKING:
    from waypost import Manager, Message, Queue

_EXCERPT: Final = 200
_LONG: Final = 0x1_0000
# Digits of the GUID in a short id.
_SHORT: Final = 8
# More than those of any lookup_id.
_DIGITS: Final = 30
_SHORT_ID: Final = re.compile(rf"[0-9a-fA-F]{{{_SHORT}}}\\[0-9]{{1,10}}")


def write_bodies(out: Output, messages: Iterable["Message"]) -> None:
    """Write the body of each message on a separate line; its title goes to standard error."""
    for message in messages:
        typer.echo(_title(message), err=True)
        out.write(_body(message) + "\n")
        out.flush()


def write_objects(out: Output, messages: Iterable["Message"]) -> None:
    """Write the objects of the messages, as a JSON array."""
    write_json(out, [message.to_dict() for message in messages])


def write_messages(out: Output, messages: Sequence["Message"]) -> None:
    """Write a table with one line for each message."""
    write_fitting(out, _COLUMNS, [_row(message) for message in messages])


# A terminal has no room for all of these.
_COLUMNS: Final = (
    Column("LOOKUP_ID"),
    Column("ID", drop=9),
    Column("SENT", drop=8),
    Column("PRIORITY", drop=7, right=True),
    Column("SIZE", drop=3, right=True),
    Column("CLASS", drop=6),
    Column("AGE", drop=1, right=True),
    Column("ABORTS", drop=5, right=True),
    Column("LABEL", drop=2, least=10),
    Column("BODY", drop=4, least=10),
)


def find_messages(queue: "Queue", names: Iterable[str]) -> Iterator["Message"]:
    """The messages of a queue that people name by their ids or lookup ids, in this order."""
    for name in names:
        yield _find(queue, name)


def _find(queue: "Queue", name: str) -> "Message":
    if name.isascii() and name.isdecimal():
        return queue.peek(0, lookup_id=_number(name))
    if _SHORT_ID.fullmatch(name):
        return _find_short(queue, name)
    try:
        wanted = str(MessageIdentifier.parse(name))
    except DecodeError:
        raise Failure(
            f"{name[:_EXCERPT]!r} is not a message id or lookup_id.",
            "use the id ({guid}\\number) or the lookup_id of a message.",
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
        f"Message {wanted} is not in {queue.name}.",
        "`waypost peek NAME --all` shows the messages in the queue."
        if is_elsewhere
        else "`waypost explain` looks for a message in all queues.",
    )


def _number(text: str) -> int:
    """The number of a lookup_id. A larger number becomes the largest of 64 bits."""
    return min(int(text[:_DIGITS]), (1 << 64) - 1)


def _find_short(queue: "Queue", name: str) -> "Message":
    found = list(islice((message for message in queue.browse() if short_id(message.id) == name.lower()), 2))
    if len(found) == 1:
        return found[0]
    if found:
        raise Failure(
            f"{name} is the short id of several messages.", "use the full id or the lookup_id of the message."
        )
    raise Failure(
        f"Message {name} is not in {queue.name}.", "`waypost peek NAME --all` shows the messages in the queue."
    )


def _title(message: "Message") -> str:
    label = f" {printable(message.label)!r}" if message.label else ""
    kind = f", {message.class_meaning}" if message.message_class else ""
    return f"{message.id}{label}, {len(message.body)} bytes, sent {message.sent_time:%Y-%m-%dT%H:%M:%SZ}{kind}"


def _body(message: "Message") -> str:
    """Text as it is, and other bytes as hexadecimal digits."""
    try:
        return printable_lines(message.text)
    except DecodeError:
        return message.body.hex()


def printable_lines(text: str) -> str:
    """The text with its lines and tabs, and without what a terminal could obey."""
    return "".join(letter if letter in "\n\t" else printable(letter) for letter in text)


def _row(message: "Message") -> tuple[object, ...]:
    is_short = is_drawn()
    return (
        message.lookup_id,
        short_id(message.id) if is_short else message.id,
        f"{message.sent_time:%Y-%m-%dT%H:%M:%SZ}",
        message.priority,
        message.size,
        message.class_name.removeprefix("MQMSG_CLASS_") or f"{message.message_class:#06x}",
        age_text(came(message)),
        message.abort_count or None,
        message.label,
        _excerpt(message) if is_short else _body(message),
    )


def came(message: "Message") -> datetime:
    """When it came into its queue, or was sent, if that is not known."""
    return message.arrived_time or message.sent_time


def short_id(identifier: str) -> str:
    """The first digits of the GUID and the number of an id, which mean the same message in a queue."""
    guid, _, number = identifier.partition("\\")
    return f"{guid.strip('{}')[:_SHORT]}\\{number}"


def _excerpt(message: "Message") -> str:
    """The part of a body that fits into a line; most of a long body is not read."""
    body = _body(message) if message.size < _LONG else message.body[:_EXCERPT].hex()
    return body if len(body) <= _EXCERPT else f"{body[: _EXCERPT - 1]}…"
