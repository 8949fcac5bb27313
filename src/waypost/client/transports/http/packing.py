"""Messages, queues and errors as the structures of the schema, and back. The daemon and its clients share it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from waypost import errors
from waypost.api.messages import Copies
from waypost.api.properties import CopyObject
from waypost.client.message import copy_objects, sent_message
from waypost.client.transports.http.schema import ErrorObject, PacketRow, SentIds
from waypost.core.message import Message as CoreMessage
from waypost.core.message_values import AuthenticationLevel
from waypost.core.serialization import packet_of
from waypost.core.stored_message import messages_like, stored_message
from waypost.errors import DecodeError, EncodeError, WaypostError
from waypost.guid import guid_text, parse_guid
from waypost.wire.format_names import FormatName, MultipleElementFormatName
from waypost.wire.identifiers import MessageIdentifier


def packet_row(core: CoreMessage) -> PacketRow:
    return PacketRow(
        core.lookup_identifier,
        core.arrival_time,
        core.abort_count,
        core.move_count,
        packet_of(core),
        core.authentication_level,
    )


def message_of(row: PacketRow) -> CoreMessage:
    """The message. Its attributes are decoded on access, and raise DecodeError if they are malformed."""
    core = stored_message(row.packet)
    core.lookup_identifier = row.lookup_id
    core.arrival_time = row.arrival_time
    core.abort_count = row.abort_count
    core.move_count = row.move_count
    if row.authentication_level:
        # A newer daemon may verify more.
        with suppress(ValueError):
            core.authentication_level = AuthenticationLevel(row.authentication_level)
    return core


def sent_ids(sent: Sequence[CoreMessage | Copies]) -> SentIds:
    """The ids of the messages of one send, with consecutive ordinals."""
    several = sent[0]
    first = several.messages[0] if isinstance(several, Copies) else several
    return SentIds(
        source=guid_text(first.source_machine_identifier),
        sent_time=first.sent_time,
        arrival_time=first.arrival_time,
        time_to_reach_queue=first.time_to_reach_queue,
        first_ordinal=first.identifier.ordinal,
        lookup_ids=[0 if isinstance(each, Copies) else each.lookup_identifier for each in sent],
        copies=copy_objects(sent_message(several)) if isinstance(several, Copies) else [],
    )


def sent_messages(like: CoreMessage, bodies: Sequence[bytes], sent: SentIds) -> list[CoreMessage | Copies]:
    """The messages that were sent with these bodies. `like` must not be used afterwards."""
    if len(sent.lookup_ids) != len(bodies):
        raise DecodeError("HTTP", "lookup_ids", 0, f"only {len(sent.lookup_ids)} of {len(bodies)} messages were sent")
    like.sent_time = sent.sent_time
    like.arrival_time = sent.arrival_time
    like.time_to_reach_queue = sent.time_to_reach_queue
    source = parse_guid(sent.source)
    if len(bodies) == 1:
        # Its packet is made on access.
        like.identifier = MessageIdentifier(source, sent.first_ordinal)
        like.body = bodies[0]
        like.lookup_identifier = sent.lookup_ids[0]
        return [_copies(like, sent.copies) if sent.copies else like]
    messages = messages_like(like, bodies, source, sent.first_ordinal)
    for message, lookup_id in zip(messages, sent.lookup_ids, strict=True):
        message.lookup_identifier = lookup_id
    return list(messages)


def _copies(message: CoreMessage, found: Sequence[CopyObject]) -> Copies:
    """The copies of a message to several queues, with the names that the daemon reports."""
    names = tuple(FormatName.parse(copy.destination_queue) for copy in found)
    several = MultipleElementFormatName(names)
    return Copies(
        several,
        tuple(
            replace(
                message,
                destination_queue_format_name=name,
                destination_multi_queue_format_name=names,
                lookup_identifier=int(copy.lookup_id),
            )
            for name, copy in zip(names, found, strict=True)
        ),
    )


def sent_again(rows: Sequence[PacketRow]) -> CoreMessage | Copies:
    """The message of a resend, or a copy for each of several queues."""
    messages = tuple(map(message_of, rows))
    if len(messages) == 1:
        return messages[0]
    names = tuple(message.destination_queue_format_name for message in messages)
    return Copies(MultipleElementFormatName(names), messages)  # type: ignore[arg-type]  # each was sent to a queue


def error_of(found: ErrorObject) -> WaypostError:
    """The error of the daemon, with the same class; the hint is a note of it."""
    cls = getattr(errors, found.error, None)
    if not (isinstance(cls, type) and issubclass(cls, WaypostError)):
        cls = WaypostError
    if issubclass(cls, DecodeError | EncodeError):
        expected = 4 if issubclass(cls, DecodeError) else 3
        is_whole = len(found.arguments) == expected
        error: WaypostError = cls(*found.arguments) if is_whole else WaypostError(found.message)
    else:
        error = cls(found.message)
    if found.hint:
        error.add_note(found.hint)
    return error
