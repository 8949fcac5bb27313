"""Files of messages as packets, which an export writes and an import sends again."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from waypost.api.properties import MESSAGE_ROWS, MessageProperties
from waypost.api.rows import Kind
from waypost.client.message import Message
from waypost.core.serialization import message_from_packet
from waypost.errors import DecodeError, InvalidParameter
from waypost.limits import MAX_TRANSACTION_OPERATIONS
from waypost.wire.message_class import is_valid_custom_class
from waypost.wire.packets import Splitter
from waypost.wire.unknown_names import UNKNOWN
from waypost.wire.user_message import UserMessage

# A name, or an open binary file.
PacketFile: TypeAlias = str | os.PathLike[str] | BinaryIO
# Called after every message with the number so far.
Counted: TypeAlias = Callable[[int], object]

# Properties with another attribute of the message, or that a message sent again does not keep.
_NOT_TAKEN: Final = frozenset({"recoverable", "acknowledge", "admin_queue", "response_queue", "trace", "message_class"})


def write_packets(file: PacketFile, messages: Iterable[Message]) -> None:
    data = b"".join(message.packet for message in messages)
    if isinstance(file, str | os.PathLike):
        Path(file).write_bytes(data)
    else:
        file.write(data)
        file.flush()


def read_packets(file: PacketFile) -> list[Message]:
    """Read the messages of a file. Raises InvalidParameter if it is not a file of packets."""
    if isinstance(file, str | os.PathLike):
        name, data = os.fspath(file), Path(file).read_bytes()
    else:
        name, data = "the file", file.read()
    splitter = Splitter()
    try:
        packets = splitter.feed(data)
        found = [Message(message_from_packet(UserMessage.decode(packet))) for packet in packets]
    except DecodeError as error:
        raise _no_packets(name, str(error)) from None
    if splitter.error is not None:
        raise _no_packets(name, str(splitter.error))
    if splitter.pending:
        raise _no_packets(name, "the last packet is incomplete")
    return found


def check_count(messages: list[Message]) -> None:
    """Raise InvalidParameter for more messages than one transaction can have."""
    if len(messages) > MAX_TRANSACTION_OPERATIONS:
        error = InvalidParameter(
            f"{len(messages)} messages are too many for one transaction: the limit is {MAX_TRANSACTION_OPERATIONS}"
        )
        error.add_note("export and import the messages in several files")
        raise error


def properties_to_send(message: Message) -> MessageProperties:
    """The properties to send the same message again, with another id.

    They lack the class of a dead-letter message or an acknowledgment, which only the system gives, names of queues that
    are not understood, and tracing, which was for the route of the old message.
    """
    properties: dict[str, Any] = {
        row.name: getattr(message, row.name)
        for row in MESSAGE_ROWS
        if row.name not in _NOT_TAKEN and row.kind is not Kind.PROTECTION
    }
    properties["recoverable"] = message.delivery == "recoverable"
    properties["response_queue"] = _understood(message.response_queues) or None
    admin_queues = _understood(message.admin_queues)
    if admin_queues and message.acknowledge != "none":
        properties |= {"acknowledge": message.acknowledge, "admin_queue": admin_queues}
    if is_valid_custom_class(message.message_class) and not message.class_name:
        properties["message_class"] = message.message_class
    if message.encrypted is not None:
        # A body that was secret on its way stays so.
        properties |= {"encrypt": True, "algorithm": message.encrypted}
    return MessageProperties(**properties)


def _understood(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if not name.startswith(UNKNOWN)]


def _no_packets(name: str, reason: str) -> InvalidParameter:
    error = InvalidParameter(f"{name} contains data that is not a message: {reason}")
    error.add_note(f"`waypost decode {name}` shows its content")
    return error
