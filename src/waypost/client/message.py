"""Message, as readers and senders get it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from operator import attrgetter
from types import NoneType
from typing import Any, Final

from msgspec import UNSET, UnsetType, to_builtins

from waypost.api.bodies import decode_text
from waypost.api.framework_headers import message_headers
from waypost.api.message_attributes import acknowledge_text
from waypost.api.messages import Copies
from waypost.api.properties import MESSAGE_ROWS, CopyObject, MessageObject, ShownProperties
from waypost.api.protection import ALGORITHM_WORDS, SIGNATURE_WORDS
from waypost.api.times import iso_8601
from waypost.core.message import NO_IDENTIFIER
from waypost.core.message import Message as CoreMessage
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee, SenderIdentifierType
from waypost.core.serialization import packet_of, size_in_bytes
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID, guid_text
from waypost.wire import base_header, security_header, user_header
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName, PublicFormatName
from waypost.wire.message_class import MessageClass, meaning
from waypost.wire.sid import Sid
from waypost.wire.user_message import UserMessage

# UserHeader.Flags in a packet.
_USER_FLAGS: Final = slice(base_header.SIZE + 44, base_header.SIZE + 48)

_CLASSES: Final = {int(each): each.name for each in MessageClass}


class Message(ShownProperties):
    """A message that was sent, peeked at or received.

    Attributes are decoded on access, so forwarding a message is cheap. All queue names in a message are format names,
    which `manager.queue` and `manager.send` accept.
    """

    __slots__ = ("_core",)

    def __init__(self, core: CoreMessage) -> None:
        self._core: Final = core

    def __repr__(self) -> str:
        label = f" {self.label!r}" if self.label else ""
        return f"<Message {self.id}{label}, {len(self.body)} bytes>"

    @property
    def id(self) -> str:
        """The identifier, ``{guid}\\number``. A message has the same id on every computer and in acknowledgments."""
        return str(self._core.identifier)

    @property
    def lookup_id(self) -> int:
        """The position of the message in this queue, for `receive(lookup_id=...)`, `peek(lookup_id=...)` and `move`.

        The value is 0 in the result of a send to several queues, because each copy in `copies` has its own lookup_id.
        """
        return self._core.lookup_identifier

    @property
    def copies(self) -> "tuple[Message, ...]":
        """The copies of the message, if the message is the result of a send to several queues.

        All copies have the same `id`. Each copy has its own `destination_queue`, `lookup_id` and `packet`. For other
        messages, the tuple is empty.
        """
        return ()

    @property
    def body(self) -> bytes:
        """The body, as bytes."""
        return self._core.body

    @property
    def text(self) -> str:
        """The body as text.

        Bodies of type VT_BSTR, VT_LPSTR and VT_LPWSTR are decoded according to their type, other bodies as UTF-8. XML
        is decoded with the encoding in its declaration, or with the encoding that its first bytes indicate, such as
        UTF-16. Raises DecodeError if the body is not text.
        """
        return decode_text(self._core.body, self._core.body_type)

    @property
    def body_text(self) -> str | None:
        """The body as text, like `text`, or None if the body is not text."""
        try:
            return self.text
        except DecodeError:
            return None

    @property
    def headers(self) -> dict[str, str] | None:
        """The headers from NServiceBus or Rebus in the extension, or from MassTransit in the body. The value is None if
        the message has no such headers.
        """
        return message_headers(self._core.extension, self._core.body)

    @property
    def class_name(self) -> str:
        """The name of the message class, such as MQMSG_CLASS_NORMAL, or an empty string for a class that the
        application defines.
        """
        return _CLASSES.get(self._core.message_class, "")

    @property
    def class_meaning(self) -> str:
        """The meaning of the class. For a dead-letter message, the reason why delivery failed."""
        number = self._core.message_class
        if number == MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION and self._security_flags() & security_header.UNSENT:
            return "the sender could not encrypt the message"
        return meaning(number)

    def _security_flags(self) -> int:
        packet = self.packet
        if not int.from_bytes(packet[_USER_FLAGS], "little") & user_header.SH:
            return 0
        security = UserMessage.decode(packet).security
        return 0 if security is None else security.flags

    @property
    def priority(self) -> int:
        """The priority, from 0 to 7. The priority of a transactional message is always 0."""
        return self._core.effective_priority

    @property
    def delivery(self) -> str:
        """ "recoverable" if the message survives a restart of the queue manager, otherwise "express"."""
        return "recoverable" if self._core.delivery_guarantee is DeliveryGuarantee.RECOVERABLE else "express"

    @property
    def transactional(self) -> bool:
        """True if the message was sent in a transaction."""
        return self._core.is_transactional

    @property
    def sent_time(self) -> datetime:
        """The time at which the message was sent, in UTC, without fractions of a second."""
        return datetime.fromtimestamp(self._core.sent_time, UTC)

    @property
    def arrived_time(self) -> datetime:
        """The time at which the message arrived at this queue manager, in UTC, without fractions of a second."""
        return datetime.fromtimestamp(self._core.arrival_time, UTC)

    @property
    def source_machine(self) -> str:
        """The GUID of the queue manager that sent the message."""
        return guid_text(self._core.source_machine_identifier)

    @property
    def sender_sid(self) -> str | None:
        """The SID that the sender claims to have, such as S-1-5-..., or None. See `sender_verified`."""
        core = self._core
        if core.sender_identifier_type is SenderIdentifierType.SID and core.sender_identifier:
            with suppress(DecodeError):
                return str(Sid.decode(core.sender_identifier, 0)[0])
        return None

    @property
    def sender_verified(self) -> bool:
        """True if the message is signed with a certificate that is registered for `sender_sid`."""
        return self.authenticated and self.sender_sid is not None

    @property
    def authenticated(self) -> bool:
        """True if the queue manager has verified the signature."""
        return self._core.authentication_level is not AuthenticationLevel.NONE

    @property
    def signature(self) -> str:
        """The version of the verified signature, which is "msmq10", "msmq20" or "msmq30". The value is "none" if no
        signature was verified.
        """
        return SIGNATURE_WORDS.get(self._core.authentication_level, "none")

    @property
    def certificate_subject(self) -> str | None:
        """The subject of the certificate of a signed message, or None if the message has no certificate."""
        certificate = self._core.sender_certificate
        if not certificate:
            return None
        # Only programs that look at signed messages have to wait for this import.
        subject: str | None = import_module("waypost.security.certificates").subject_of(certificate)
        return subject

    @property
    def encrypted(self) -> str | None:
        """The algorithm with which the body was encrypted during transfer. The value is "aes256", "aes192", "aes128",
        "rc2" or "rc4".

        The value is None if the message was not encrypted, or if it was not sent because its encryption failed. A
        message in an outgoing queue is encrypted only when it is sent. If this computer forwards a message from another
        computer, only the destination of the message can decrypt the body.
        """
        flags = self._security_flags()
        if flags & security_header.UNSENT or not flags & (security_header.EB | security_header.PRIVATE):
            return None
        return ALGORITHM_WORDS.get(self._core.encryption_algorithm, "unknown")

    @property
    def correlation_id(self) -> str | None:
        """The `id` of the message that this message answers or acknowledges."""
        identifier = self._core.correlation_identifier
        return None if identifier == NO_IDENTIFIER else str(identifier)

    @property
    def acknowledge(self) -> str:
        """The acknowledgments that the sender requested, in the form of the argument `acknowledge` of `send`."""
        return acknowledge_text(self._core.acknowledgements_requested)

    @property
    def admin_queue(self) -> str | None:
        """The queue for acknowledgments, or the first of several queues.

        If Waypost does not understand the name, the value is "UNKNOWN=" followed by the bytes of the name. In this
        case, Waypost sends no acknowledgments.
        """
        return _text(self._core.administration_queue_format_name)

    @property
    def admin_queues(self) -> tuple[str, ...]:
        """All queues for acknowledgments."""
        return tuple(map(str, self._core.administration_queues))

    @property
    def response_queue(self) -> str | None:
        """The queue for replies, or the first of several queues.

        If Waypost does not understand the name, the value is "UNKNOWN=" followed by the bytes of the name.
        """
        return _text(self._core.response_queue_format_name)

    @property
    def response_queues(self) -> tuple[str, ...]:
        """All queues for replies."""
        return tuple(map(str, self._core.response_queues))

    @property
    def destination_queue(self) -> str | None:
        """The destination queue.

        In the result of a send to several queues, the value contains all format names, separated by commas.
        """
        return _text(self._core.destination_queue_format_name)

    @property
    def trace(self) -> str | None:
        """The queue that receives the tracing reports. The value is an empty string if the message is traced without
        a queue, and None if the message is not traced.
        """
        guid = self._core.tracing_queue_identifier
        if guid != NULL_GUID:
            return str(PublicFormatName(guid))
        return "" if self._core.tracing_requested else None

    @property
    def connector_type(self) -> str | None:
        """The GUID of the connector to another system, or None if the message has no connector."""
        guid = self._core.connector_type_identifier
        return None if guid == NULL_GUID else guid_text(guid)

    @property
    def time_to_reach_queue(self) -> int | None:
        """Maximum time from sending until the message reaches the queue, in seconds, or None for no limit."""
        return _span(self._core.time_to_reach_queue)

    @property
    def time_to_be_received(self) -> int | None:
        """Maximum time from sending until the message is received, in seconds, or None for no limit."""
        return _span(self._core.time_to_be_received)

    @property
    def time_to_reach_queue_ends(self) -> datetime | None:
        """The end of `time_to_reach_queue`, in UTC, or None for no limit."""
        return _end(self._core.sent_time, self._core.time_to_reach_queue)

    @property
    def time_to_be_received_ends(self) -> datetime | None:
        """The end of `time_to_be_received`, in UTC, or None for no limit."""
        return _end(self._core.sent_time, self._core.time_to_be_received)

    @property
    def first_in_transaction(self) -> bool:
        """True if this message is the first message that was sent to this queue in its transaction."""
        return self._core.first_in_transaction

    @property
    def last_in_transaction(self) -> bool:
        """True if this message is the last message that was sent to this queue in its transaction."""
        return self._core.last_in_transaction

    @property
    def abort_count(self) -> int:
        """Number of transactions that received the message and were then aborted."""
        return self._core.abort_count

    @property
    def move_count(self) -> int:
        """Number of moves between a queue and its subqueues."""
        return self._core.move_count

    @property
    def size(self) -> int:
        """Size of the headers and the body, in bytes. Quotas count this size."""
        return size_in_bytes(self._core)

    @property
    def packet(self) -> bytes:
        """The message as an MSMQ network packet. `waypost decode` shows the fields of the packet."""
        return packet_of(self._core)

    def to_dict(self) -> dict[str, object]:
        """Return the message as a dict that `json.dumps` accepts. The keys are the same as in message objects of the
        command line and of HTTP.

        The dict contains `admin_queues` and `response_queues` if the message has several of these queues. After a send
        to several queues, the dict contains `copies`.
        """
        found: dict[str, object] = to_builtins(message_object(self))
        return found


for _row in MESSAGE_ROWS:
    if _row.name in ShownProperties.__annotations__:
        setattr(
            Message,
            _row.name,
            property(
                attrgetter(f"_core.{_row.attribute}"),
                doc=f"{_row.help} The argument `{_row.name}` of `send` sets this value.",
            ),
        )


class SentToSeveral(Message):
    """A message that was sent to several queues at once. All other attributes are the attributes of the first copy."""

    __slots__ = ("_several",)

    def __init__(self, several: Copies) -> None:
        super().__init__(several.messages[0])
        self._several: Final = several

    @property
    def lookup_id(self) -> int:
        return 0

    @property
    def copies(self) -> tuple[Message, ...]:
        return tuple(map(Message, self._several.messages))

    @property
    def destination_queue(self) -> str:
        return str(self._several.name)


def message_object(message: Message) -> MessageObject:
    """The message object of HTTP, for JSON."""
    values: dict[str, Any] = {name: _form(name, getattr(message, source)) for name, source in _KEYS}
    return MessageObject(**values, copies=copy_objects(message) or UNSET)


def copy_objects(message: Message) -> list[CopyObject]:
    """The `copies` of a message object."""
    return [
        CopyObject(destination_queue=str(copy.destination_queue), lookup_id=str(copy.lookup_id), size=copy.size)
        for copy in message.copies
    ]


def sent_message(sent: CoreMessage | Copies) -> Message:
    """The Message that a send returns."""
    return SentToSeveral(sent) if isinstance(sent, Copies) else Message(sent)


def sent_together(sent: Sequence[CoreMessage | Copies]) -> list[Message]:
    """The Messages that `send_many` returns."""
    return [SentToSeveral(each) if isinstance(each, Copies) else Message(each) for each in sent]


def _text(name: FormatName | None) -> str | None:
    return None if name is None else str(name)


def _end(sent_time: int, seconds: int) -> datetime | None:
    return None if seconds == INFINITE else datetime.fromtimestamp(sent_time + seconds, UTC)


def _form(name: str, value: object) -> object:
    """A value as the message object has it."""
    if type(value) in (str, int, bool, bytes, NoneType) and name not in _FORMS:
        return value
    if isinstance(value, datetime):
        return iso_8601(value)
    return _FORMS[name](value) if name in _FORMS else value


def _several(names: tuple[str, ...]) -> list[str] | UnsetType:
    return list(names) if len(names) > 1 else UNSET


# Keys of the message object that differ from the names of the attributes.
_SOURCES: Final = {"body_base64": "body", "extension_base64": "extension"}
# Keys that come from an attribute of Message; the others are for MessagePack, or computed.
_KEYS: Final = tuple(
    (name, _SOURCES.get(name, name))
    for name in MessageObject.__struct_fields__
    if name not in ("body", "extension", "copies")
)
_FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "lookup_id": str,
    "message_class": "{:#06x}".format,
    "admin_queues": _several,
    "response_queues": _several,
}


def _span(seconds: int) -> int | None:
    return None if seconds == INFINITE else seconds


def last_move_second(message: Message) -> int:
    """LastMoveTime (MS-MQRR 2.2.5.3) of a message that was read from an MSMQ host; 0 if it was not moved."""
    return message._core.last_move_time if message.move_count else 0  # noqa: SLF001, the module is the same
