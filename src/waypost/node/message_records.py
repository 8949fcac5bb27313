"""A message of the core as a record of the store, and back: its packet, and the local attributes of the message."""

from functools import lru_cache
from typing import Final

from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel
from waypost.core.serialization import packet_of
from waypost.core.stored_message import check_message, quiet_message, stored_message
from waypost.errors import DecodeError, IllegalFormatName, StoreDamaged
from waypost.guid import NULL_GUID
from waypost.store.records import (
    ALLOW_PEEK_WHEN_LOCKED,
    ASKS_FOR_NOTHING,
    MessageDetails,
    decode_message,
    encode_head,
)
from waypost.wire.format_names import FormatName
from waypost.wire.remote_packet import Origin
from waypost.wire.remote_trailers import HostAddress

_LEVELS: Final = {int(level): level for level in AuthenticationLevel}


def value_of(message: Message) -> bytes:
    """The value in the store: a MessageRecord."""
    return head_of(message) + (message.packet or packet_of(message))


def head_of(message: Message) -> bytes:
    """The part of the value before the packet. Messages with the same local attributes have the same."""
    flags = ALLOW_PEEK_WHEN_LOCKED if message.allow_peek_when_locked else 0
    return encode_head(
        flags if message.asks_for_attention else flags | ASKS_FOR_NOTHING,
        message.authentication_level,
        message.arrival_time,
        message.abort_count,
        message.move_count,
        message.last_move_time,
        details=_details_of(message),
    )


def message_of(value: bytes, lookup_id: int) -> Message:
    """The message of such a value. Its packet is decoded at the first use, which raises nothing.

    Raises StoreDamaged for a value that does not decode, and StoreTooNew.
    """
    message = unchecked_message_of(value, lookup_id)
    try:
        check_message(message)
    except DecodeError as error:
        raise StoreDamaged(f"cannot decode the packet of a message in the store: {error}") from error
    return message


def unchecked_message_of(value: bytes, lookup_id: int) -> Message:
    """The message of a possibly damaged value: the first use of an attribute of the packet may raise DecodeError."""
    flags, level, arrival_time, abort_count, move_count, last_move_time, details, packet = decode_message(value)
    message = quiet_message(packet) if flags & ASKS_FOR_NOTHING else stored_message(packet)
    message.lookup_identifier = lookup_id
    message.arrival_time = arrival_time
    if flags & ALLOW_PEEK_WHEN_LOCKED:
        message.allow_peek_when_locked = True
    if abort_count or move_count:
        message.abort_count = abort_count
        message.move_count = move_count
        message.last_move_time = last_move_time
    if level:
        message.authentication_level = _level(level)
    if details is not None:
        _add_details(message, details)
    return message


def _details_of(message: Message) -> bytes:
    """The MessageDetails of the message, encoded."""
    origin = message.origin
    if (
        message.unit_of_work == NULL_GUID
        and not message.target_subqueue_name
        and not message.application_deadletter_queue
        and message.transaction_status_queue_format_name is None
    ):
        if origin is None:
            return b""
        return _origin_details(origin.queue_manager, origin.host.address, origin.host.scope)
    host = HostAddress() if origin is None else origin.host
    return MessageDetails(
        message.unit_of_work,
        None if origin is None else origin.queue_manager,
        host.address,
        host.scope,
        message.target_subqueue_name,
        message.application_deadletter_queue,
        str(message.transaction_status_queue_format_name or ""),
    ).encode()


@lru_cache(maxsize=1024)
def _origin_details(queue_manager: bytes, address: bytes, scope: int) -> bytes:
    """The details of most messages from another host: the same for all messages of one."""
    return MessageDetails(NULL_GUID, queue_manager, address, scope).encode()


def _add_details(message: Message, details: MessageDetails) -> None:
    message.unit_of_work = details.unit_of_work
    message.target_subqueue_name = details.target_subqueue
    message.application_deadletter_queue = details.application_deadletter_queue
    if details.transaction_status_queue:
        try:
            message.transaction_status_queue_format_name = FormatName.parse(details.transaction_status_queue)
        except IllegalFormatName:
            raise StoreDamaged("a message in the store refers to an invalid queue") from None
    if details.origin_queue_manager is not None:
        message.origin = _origin(details.origin_queue_manager, details.origin_address, details.origin_scope)


@lru_cache(maxsize=1024)
def _origin(queue_manager: bytes, address: bytes, scope: int) -> Origin:
    """The one Origin of all messages of one host: messages are many, and in memory while they are in use."""
    return Origin(queue_manager, HostAddress(address, scope))


def _level(number: int) -> AuthenticationLevel:
    level = _LEVELS.get(number)
    if level is None:
        raise StoreDamaged(f"a message in the store has the unknown authentication level {number}")
    return level
