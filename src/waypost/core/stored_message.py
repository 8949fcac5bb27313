"""A message from the store: its packet and its local attributes, and the rest on demand.

A queue needs no more than that of most messages. To decode a packet with a body of 1 KiB takes 13 us, stored_message
takes 0.4 us, and the first use of an attribute in the packet decodes it. To all its users, it is a Message.
Other messages pay nothing for this: with a `__getattr__` in Message, a function of ten reads took twice as long.
"""

from codecs import utf_16_le_decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from waypost.core.message import LOCAL_ATTRIBUTES, Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee, QueueType
from waypost.core.plain_packets import plain_packets
from waypost.core.serialization import message_from_packet, packet_of
from waypost.errors import DecodeError
from waypost.guid import NULL_GUID
from waypost.limits import MAX_LABEL_LENGTH, MAX_PACKET_SIZE
from waypost.wire import base_header, message_properties, security_header, transaction_header, user_header
from waypost.wire.codec import cut_short
from waypost.wire.identifiers import OBJECT_ID, MessageIdentifier, TxSequenceId
from waypost.wire.remote_packet import Origin
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

# BaseHeader.Flags, UserHeader.Flags, and the Count of a direct name if DestinationQueue is one.
_FLAGS: Final = Struct("<2xH56xIH")
# LabelLength, BodyType, MessageSize and ExtensionSize of a MessagePropertiesHeader.
_PROPERTIES: Final = Struct("<xB22xI4xI16xI")
# The same header's LabelLength, MessageSize, AllocationBodySize and ExtensionSize.
_SIZES: Final = Struct("<xB30xII12xI")
# VersionNumber, Flags, Signature and PacketSize of a BaseHeader, and the last two of _FLAGS.
_OUTLINE: Final = Struct("<BxHII48xIH")
_USER_FLAGS_AT: Final = base_header.SIZE + 44
_IDENTIFIER: Final = Struct(f"<{base_header.SIZE}x16s24xI")
# SourceQueueManager and MessageID of the UserHeader.
_GUID: Final = slice(base_header.SIZE, base_header.SIZE + 16)
_ORDINAL: Final = slice(base_header.SIZE + 40, base_header.SIZE + 44)
_TIME_TO_REACH_QUEUE: Final = Struct("<12xI")
_TIME_TO_BE_RECEIVED: Final = Struct(f"<{base_header.SIZE + 32}xI")
_SENT_TIME: Final = Struct(f"<{base_header.SIZE + 36}xI")
_USER_FLAGS: Final = Struct(f"<{base_header.SIZE + 44}xI")
# TxSequenceID, TxSequenceNumber and PreviousTxSequenceNumber, behind the flags of a TransactionHeader.
_SEQUENCE: Final = Struct("<QII")
_SEQUENCE_AT: Final = 4
_PREVIOUS: Final = Struct("<I")
_PREVIOUS_AT: Final = _SEQUENCE_AT + 12
# The Flags at the start of a SecurityHeader.
_SECURITY_FLAGS: Final = Struct("<H")
# With these the body may be encrypted, or part of a compound message.
_OTHER_BODIES: Final = user_header.SH | user_header.AH | user_header.HH
_RECOVERABLE_FLAG: Final = user_header.RECOVERABLE << user_header.DM_SHIFT
# The flags of a BaseHeader that plain messages do not have, and those of a UserHeader that say which headers follow.
_RARE_BASE_FLAGS: Final = base_header.IN | base_header.SH | base_header.DH | base_header.TR
_SHAPE: Final = _OTHER_BODIES | user_header.MP | user_header.DM | user_header.TH | user_header.MQ
_PLAIN_SHAPES: Final = frozenset(
    {user_header.MP, user_header.MP | _RECOVERABLE_FLAG, user_header.MP | _RECOVERABLE_FLAG | user_header.TH}
)
_EXPRESS: Final = DeliveryGuarantee.EXPRESS
_RECOVERABLE: Final = DeliveryGuarantee.RECOVERABLE
_DESTINATION_AT: Final = base_header.SIZE + user_header.FIXED_SIZE
_QUEUES: Final = user_header.DQ | user_header.AQ | user_header.RQ | user_header.CQ
_ATTENTION: Final = user_header.JN | user_header.JP | user_header.AQ
_DIRECT_DESTINATION: Final = QueueType.DIRECT_QUEUE << user_header.DQ_SHIFT
_NAME_SIZES: Final = {
    QueueType.PRIVATE_QUEUE << user_header.DQ_SHIFT: 4,
    QueueType.PUBLIC_QUEUE << user_header.DQ_SHIFT: 16,
}

_CARRIED: Final = tuple(field.name for field in fields(Message) if field.name not in (*LOCAL_ATTRIBUTES, "packet"))
_NOT_AUTHENTICATED: Final = AuthenticationLevel.NONE
_FILL: Final[dict[str, Callable[[Message, object], None]]] = {name: Message.__dict__[name].__set__ for name in _CARRIED}
_set_packet: Final[Callable[[Message, bytes], None]] = Message.__dict__["packet"].__set__
_packet_of: Final[Callable[[Message], bytes]] = Message.__dict__["packet"].__get__


def quiet_message(packet: bytes, origin: Origin | None = None) -> Message:
    """A stored message with a packet that is known to ask for no attention."""
    message = stored_message(packet, origin)
    message.__class__ = _QuietMessage
    return message


def stored_message(packet: bytes, origin: Origin | None = None) -> Message:
    """A message with the packet that it had when it was stored, and with the local attributes of a new one.

    The first use of another attribute raises DecodeError if the packet does not decode, which check_message finds.
    """
    message = object.__new__(Message)
    message.lookup_identifier = 0
    message.allow_peek_when_locked = False
    message.application_deadletter_queue = ""
    message.arrival_time = 0
    message.authentication_level = _NOT_AUTHENTICATED
    message.transaction_status_queue_format_name = None
    message.unit_of_work = NULL_GUID
    message.abort_count = 0
    message.move_count = 0
    message.last_move_time = 0
    message.target_subqueue_name = ""
    message.origin = origin
    message.packet = packet
    message.__class__ = _StoredMessage
    return message


def check_packet(packet: bytes) -> None:
    """Raise DecodeError if the packet does not decode. Most packets take a fifth of the time of a decoder."""
    if not _is_plainly_readable(packet):
        message_from_packet(UserMessage.decode(packet))


def check_message(message: Message) -> None:
    """Raise DecodeError if a message of stored_message or quiet_message does not decode."""
    if isinstance(message, _StoredMessage) and not _is_plainly_readable(message.packet):
        _decode(message)


def copied(message: Message) -> Message:
    """Another message with the same attributes. One that is not decoded stays so."""
    if not isinstance(message, _StoredMessage):
        return replace(message)
    copy = object.__new__(Message)
    copy.lookup_identifier = message.lookup_identifier
    copy.allow_peek_when_locked = message.allow_peek_when_locked
    copy.application_deadletter_queue = message.application_deadletter_queue
    copy.arrival_time = message.arrival_time
    copy.authentication_level = message.authentication_level
    copy.transaction_status_queue_format_name = message.transaction_status_queue_format_name
    copy.unit_of_work = message.unit_of_work
    copy.abort_count = message.abort_count
    copy.move_count = message.move_count
    copy.last_move_time = message.last_move_time
    copy.target_subqueue_name = message.target_subqueue_name
    copy.origin = message.origin
    copy.packet = message.packet
    copy.__class__ = message.__class__
    return copy


def mark_in_transaction(message: Message, *, is_first: bool, is_last: bool) -> None:
    """Set FirstInTransaction and LastInTransaction, in the packet too if it is not decoded."""
    if isinstance(message, _StoredMessage):
        packet = message.packet
        at = _transaction_header_at(packet)
        if at is not None:
            marks = (transaction_header.FM if is_first else 0) | (transaction_header.LM if is_last else 0)
            flags = packet[at] & ~(transaction_header.FM | transaction_header.LM) | marks
            _set_packet(message, b"".join((packet[:at], bytes((flags,)), packet[at + 1 :])))
            return
    message.first_in_transaction = is_first
    message.last_in_transaction = is_last
    message.packet = b""


def is_transactional(packet: bytes) -> bool:
    """Whether the packet has a TransactionHeader."""
    return len(packet) >= _FLAGS.size and _USER_FLAGS.unpack_from(packet)[0] & user_header.TH != 0


def sequence_of(packet: bytes) -> tuple[TxSequenceId, int, int]:
    """TxSequenceID, TxSequenceNumber and PreviousTxSequenceNumber of a transactional packet."""
    value, number, previous = _SEQUENCE.unpack_from(packet, _sequence_at(packet))
    return TxSequenceId.of(value), number, previous


def is_numbered(message: Message, own: bytes) -> bool:
    """Whether it is a message of a transaction of this queue manager with a place in a sequence.

    One that is not committed has none yet.
    """
    packet = message.packet
    return (
        message.identifier.queue_manager_guid == own
        and is_transactional(packet)
        and sequence_of(packet)[0].time_stamp > 0
    )  # fmt: skip


def with_previous(packet: bytes, previous: int) -> bytes:
    """A transactional packet with another PreviousTxSequenceNumber."""
    at = _sequence_at(packet) - _SEQUENCE_AT + _PREVIOUS_AT
    return b"".join((packet[:at], _PREVIOUS.pack(previous), packet[at + _PREVIOUS.size :]))


def with_security_flags(packet: bytes, flags: int) -> bytes | None:
    """A packet with other Flags in its SecurityHeader; None if only a decoder can find them."""
    at = _security_header_at(packet)
    if at is None:
        return None
    return b"".join((packet[:at], _SECURITY_FLAGS.pack(flags), packet[at + _SECURITY_FLAGS.size :]))


def security_flags(packet: bytes) -> int | None:
    """The Flags of the SecurityHeader; None if only a decoder can find them."""
    at = _security_header_at(packet)
    return None if at is None else int(_SECURITY_FLAGS.unpack_from(packet, at)[0])


def _security_header_at(packet: bytes) -> int | None:
    (flags,) = _USER_FLAGS.unpack_from(packet)
    at = _behind_transaction_header(packet, flags) if flags & user_header.SH else None
    return at if at is not None and at + security_header.FIXED_SIZE <= len(packet) else None


def set_sequence(message: Message, sequence_id: TxSequenceId, number: int, previous: int) -> None:
    """Give a message its place in a sequence, in its packet too."""
    packet = message.packet
    if is_transactional(packet):
        at = _sequence_at(packet)
        values = _SEQUENCE.pack(sequence_id.value, number, previous)
        packet = b"".join((packet[:at], values, packet[at + _SEQUENCE.size :]))
        if isinstance(message, _StoredMessage):
            _set_packet(message, packet)
            return
    message.transactional_message_sequence_identifier = sequence_id
    message.transaction_sequence_number = number
    message.transaction_previous_sequence_number = previous
    message.packet = packet


def tag_of(message: Message) -> int:
    """Eight bytes for the identifier of a message, so that it is found among a million of them.

    A position keeps the tag of its message (waypost.core.positions). Two identifiers have the same tag once in 2**64
    pairs, and nobody can choose one that collides, because every process keys the hash differently; a search for a tag
    checks the message all the same. Tags are not stored.
    """
    packet = message.packet
    return tag_of_packet(packet) if packet else tag_of_identifier(message.identifier)


def tags_of(messages: Iterable[Message]) -> list[int]:
    """The tags of many messages, in half of the time."""
    return [
        hash(packet[_GUID] + packet[_ORDINAL]) if (packet := message.packet) else tag_of_identifier(message.identifier)
        for message in messages
    ]


def tags_of_packets(packets: Iterable[bytes]) -> list[int]:
    """The tags of messages with these packets."""
    return [hash(packet[_GUID] + packet[_ORDINAL]) for packet in packets]


def tag_of_packet(packet: bytes) -> int:
    return hash(packet[_GUID] + packet[_ORDINAL])


def tag_of_identifier(identifier: MessageIdentifier) -> int:
    return hash(OBJECT_ID.pack(identifier.queue_manager_guid, identifier.ordinal))


class _StoredMessage(Message):  # noqa: PLW1641, no Message has a hash
    """A Message that is not decoded. It adds no slots, so that _decode can make it a Message."""

    __slots__ = ()

    def _take_packet(self, packet: bytes) -> None:
        """Replace the packet. Code that takes the packet away relies on the attributes."""
        _decode(self)
        self.packet = packet

    # Reads of it are the most frequent of all, and this takes half of the time of a function of Python.
    packet = property(_packet_of, _take_packet)

    @property
    def asks_for_attention(self) -> bool:
        if _asks_for_nothing(self.packet):
            return False
        _decode(self)
        return self.asks_for_attention

    @property
    def is_transactional(self) -> bool:
        return is_transactional(_packet_of(self))

    @property
    def effective_priority(self) -> int:
        packet = _packet_of(self)
        if len(packet) < _FLAGS.size:
            _decode(self)
            return self.effective_priority
        base_flags, flags, _ = _FLAGS.unpack_from(packet)
        # MS-MQMQ 2.2.19.1: PR means nothing in a transactional message.
        return 0 if flags & user_header.TH else int(base_flags & base_header.PR)

    def __eq__(self, other: object) -> bool:
        _decode(self)
        return self == other

    def __repr__(self) -> str:
        _decode(self)
        return repr(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Support copy and pickle."""
        _decode(self)
        return self.__reduce_ex__(protocol)


class _QuietMessage(_StoredMessage):
    __slots__ = ()

    asks_for_attention = False


class _Carried:
    """Replaces the slot of an attribute that the packet carries."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, message: Message, _owner: type[Message]) -> object:
        _decode(message)
        return getattr(message, self._name)

    def __set__(self, message: Message, value: object) -> None:
        _decode(message)
        setattr(message, self._name, value)


class _Fixed(_Carried):
    """An attribute that most packets give without decoding; `read` gives None for the others."""

    __slots__ = ("_read",)

    def __init__(self, name: str, read: Callable[[bytes], object]) -> None:
        super().__init__(name)
        self._read = read

    def __get__(self, message: Message, _owner: type[Message]) -> object:
        packet = _packet_of(message)
        found = self._read(packet) if len(packet) >= _FLAGS.size else None
        return super().__get__(message, _owner) if found is None else found


class _Number(_Carried):
    """A number at a fixed place in all packets."""

    __slots__ = ("_place",)

    def __init__(self, name: str, place: Struct) -> None:
        super().__init__(name)
        self._place = place

    def __get__(self, message: Message, _owner: type[Message]) -> object:
        packet = _packet_of(message)
        if len(packet) < _FLAGS.size:
            return super().__get__(message, _owner)
        return self._place.unpack_from(packet)[0]


def _delivery_guarantee(packet: bytes) -> DeliveryGuarantee:
    (flags,) = _USER_FLAGS.unpack_from(packet)
    return _RECOVERABLE if flags & _RECOVERABLE_FLAG else _EXPRESS


def _identifier(packet: bytes) -> MessageIdentifier:
    return MessageIdentifier(*_IDENTIFIER.unpack_from(packet))


def _body_type(packet: bytes) -> int | None:
    at = _properties_at(packet)
    return None if at is None else int(_PROPERTIES.unpack_from(packet, at)[1])


def _body(packet: bytes) -> bytes | None:
    at = _properties_at(packet)
    if at is None:
        return None
    label_length, _, size, extension_size = _PROPERTIES.unpack_from(packet, at)
    start = at + message_properties.FIXED_SIZE + 2 * label_length + extension_size
    return packet[start : start + size] if start + size <= len(packet) else None


def _properties_at(packet: bytes) -> int | None:
    """The start of the MessagePropertiesHeader; None if only a decoder can find it."""
    (flags,) = _USER_FLAGS.unpack_from(packet)
    if flags & _OTHER_BODIES or not flags & user_header.MP:
        return None
    at = _behind_transaction_header(packet, flags)
    return at if at is not None and at + message_properties.FIXED_SIZE <= len(packet) else None


_NUMBERS: Final = {
    "time_to_reach_queue": _TIME_TO_REACH_QUEUE,
    "time_to_be_received": _TIME_TO_BE_RECEIVED,
    "sent_time": _SENT_TIME,
}
_FOUND: Final[dict[str, Callable[[bytes], object]]] = {
    "delivery_guarantee": _delivery_guarantee,
    "identifier": _identifier,
    "body_type": _body_type,
    "body": _body,
}


for _name in _CARRIED:
    setattr(_StoredMessage, _name, _Carried(_name))
for _name, _read in _FOUND.items():
    setattr(_StoredMessage, _name, _Fixed(_name, _read))
for _name, _place in _NUMBERS.items():
    setattr(_StoredMessage, _name, _Number(_name, _place))


def _decode(message: Message) -> None:
    """Make it a plain Message. The slots are filled first: two threads may look at the same message."""
    decoded = message_from_packet(UserMessage.decode(_packet_of(message)))
    for name, fill in _FILL.items():
        fill(message, getattr(decoded, name))
    message.__class__ = Message


def _is_plainly_readable(packet: bytes) -> bool:
    """Whether it is the packet of a plain message that decodes; False if only a decoder can find out."""
    size = len(packet)
    if size < _OUTLINE.size:
        return False
    version, base_flags, signature, packet_size, flags, count = _OUTLINE.unpack_from(packet)
    if (
        version != base_header.VERSION
        or signature != base_header.SIGNATURE
        or packet_size != size
        or size > MAX_PACKET_SIZE
        or base_flags & _RARE_BASE_FLAGS
        or flags & _SHAPE not in _PLAIN_SHAPES
    ):
        return False
    queues = flags & _QUEUES
    name_size = count + 5 & ~3 if queues == _DIRECT_DESTINATION else _NAME_SIZES.get(queues)
    if name_size is None:
        return False
    at = _DESTINATION_AT + name_size
    if not _has_readable_names(packet[_USER_FLAGS_AT:at]):
        return False
    if flags & user_header.TH:
        if at >= size or packet[at] & transaction_header.CG:
            return False
        at += transaction_header.FIXED_SIZE
    return at + message_properties.FIXED_SIZE <= size and _has_readable_properties(packet, at)


@lru_cache(maxsize=1024)
def _has_readable_names(flags_and_names: bytes) -> bool:
    """Whether UserHeader.Flags and the names behind them decode. Most messages go to few queues."""
    buf = bytes(_USER_FLAGS_AT) + flags_and_names
    try:
        return UserHeader.decode(buf, base_header.SIZE)[1] == len(buf)
    except DecodeError:
        return False


def _has_readable_properties(packet: bytes, at: int) -> bool:
    """Whether a MessagePropertiesHeader with a complete fixed part decodes, and is the end of the packet."""
    label_length, size, allocated, extension_size = _SIZES.unpack_from(packet, at)
    label_at = at + message_properties.FIXED_SIZE
    label_end = label_at + 2 * label_length
    end = label_end + extension_size + size
    if allocated != size or label_length > MAX_LABEL_LENGTH or end + (at - end & 3) != len(packet):
        return False
    if not label_length:
        return True
    label, used = utf_16_le_decode(packet[label_at:label_end], "surrogatepass")
    return used == 2 * label_length and label.find("\0") == len(label) - 1


def _asks_for_nothing(packet: bytes) -> bool:
    """Whether the flags ask for nothing. False also if only a decoder can find them."""
    if len(packet) < _FLAGS.size:
        return False
    base_flags, flags, _ = _FLAGS.unpack_from(packet)
    if base_flags & base_header.TR or flags & _ATTENTION:
        return False
    if not flags & user_header.TH:
        return True
    at = _transaction_header_at(packet)
    return at is not None and not packet[at] & transaction_header.FA


def _sequence_at(packet: bytes) -> int:
    """The place of TxSequenceID in a transactional packet."""
    at = _transaction_header_at(packet) if len(packet) >= _FLAGS.size else None
    if at is None:
        _, at = UserHeader.decode(packet, base_header.SIZE)
    if at + transaction_header.FIXED_SIZE > len(packet):
        raise cut_short(transaction_header.SECTION, "TransactionHeader", at, len(packet))
    return at + _SEQUENCE_AT


def _transaction_header_at(packet: bytes) -> int | None:
    """The start of the TransactionHeader, which the packet has; None if only a decoder can find it."""
    _, flags, count = _FLAGS.unpack_from(packet)
    queues = flags & _QUEUES
    name_size = count + 5 & ~3 if queues == _DIRECT_DESTINATION else _NAME_SIZES.get(queues)
    if name_size is None or _DESTINATION_AT + name_size >= len(packet):
        return None
    return _DESTINATION_AT + name_size


def _behind_transaction_header(packet: bytes, flags: int) -> int | None:
    """The end of the TransactionHeader, or of the UserHeader without one; None if only a decoder can find it."""
    at = _transaction_header_at(packet)
    if at is None or not flags & user_header.TH:
        return at
    return None if packet[at] & transaction_header.CG else at + transaction_header.FIXED_SIZE


def messages_like(like: Message, bodies: Sequence[bytes], source: bytes, ordinal: int) -> list[Message]:
    """Messages for these bodies, each with its packet and identifier. `like` is used up."""
    like.identifier = MessageIdentifier(source, ordinal)
    packets = plain_packets(like, bodies, ordinal)
    if packets is not None:
        form = stored_message if like.asks_for_attention else quiet_message
        messages = [form(packet) for packet in packets]
        for name in LOCAL_ATTRIBUTES:
            value = getattr(like, name)
            if value != getattr(messages[0], name):
                for message in messages:
                    setattr(message, name, value)
        return messages
    messages = []
    for number, body in enumerate(bodies, ordinal):
        identifier = MessageIdentifier(source, number)
        message = replace(like, identifier=identifier, body=body, packet=b"")
        packet_of(message)
        messages.append(message)
    return messages
