"""The records of the store: what the keys and values of its tables are made of.

| table        | key                                                    | value               |
|--------------|--------------------------------------------------------|---------------------|
| MESSAGES     | queue id u64, LookupIdentifier u64                     | MessageRecord       |
| POSITIONS    | queue id u64, LookupIdentifier u64                     | PositionRecord      |
| QUEUES       | queue id u64                                           | QueueRecord         |
| SEQUENCES    | 0 u8, queue id u64, GUID of the source queue manager,  |                     |
|              | 8 bytes for the name that it uses                      | IncomingRecord      |
|              | 1 u8, queue id u64                                     | SequenceRecord, of what goes out  |
|              | 2 u8, queue id u64, an address                         | AddressRecord       |
| TRANSACTIONS | GUID of the transaction                                | TransactionRecord   |
| DUPLICATES   | number u64, consecutive, of a block                    | DuplicatesRecord    |
| COUNTERS     | a Counter                                              | CounterRecord       |
|              | "queue_manager"                                        | QueueManagerRecord  |
|              | "restored"                                             | RestoredRecord, until the next start |
|              | "queue:", queue id u64                                 | TotalsRecord        |
|              | "renumbering:", queue id u64                           | RenumberingRecord, of a reset under way |
|              | "met_host:", name or address of a host                 | CounterRecord, when it was met first |
|              | "destination:", 16 bytes of a digest of a format name  | DestinationRecord   |
|              | "kept_ack:", TxSequenceID u64, TxSequenceNumber u32,   |                     |
|              | MessageID u32, an address                              | KeptAckRecord       |
|              | "admitted:", GUID, an address                          | AdmittedRecord      |
| DIRECTORY    | object type u8, GUID                                   | an object of waypost.directory |
| BULK         | see waypost.store.bulk_records                         | what is claimed and staged |
| DAMAGED      | queue id u64, LookupIdentifier u64                     | DamagedRecord       |
|              | the same, 1 u8                                         | the bytes that were found |
| USERS, AUDIT | see waypost.store.user_records                         | users, and who changed what |

waypost.store.keys makes the keys. The queue id is the store's own number for a queue of any kind (also a subqueue, a
journal, an outgoing queue) and never given twice. The totals of a queue change with every message, and therefore are
not a part of its record. QueueRecord and QueueManagerRecord are in waypost.store.queue_records, RestoredRecord in
waypost.store.restored, DestinationRecord, KeptAckRecord and AdmittedRecord in waypost.store.ack_records,
IncomingRecord, AddressRecord and RenumberingRecord in waypost.store.sequence_records, DamagedRecord in
waypost.store.damaged_records. The common parts are here: the version byte, texts, parts with their lengths.

Every value starts with a format version. `decode(value)` gives the record, StoreTooNew if a newer Waypost wrote it, and
StoreDamaged for all bytes that `encode()` cannot have made; what it gives encodes to the same bytes.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from waypost.errors import StoreDamaged, StoreError, StoreTooNew
from waypost.guid import NULL_GUID

VERSION: Final = 1
_LENGTH: Final = Struct("<I")
_MESSAGE: Final = Struct("<BBBIIII")
_MESSAGE_SIZE: Final = _MESSAGE.size
_DETAILS: Final = Struct("<?16s16sIIIII")
_DETAILS_END: Final = _MESSAGE_SIZE + _DETAILS.size
# Lengths of the address and the texts, at the end of the fixed part of the details.
_LENGTHS: Final = Struct("<IIII")
_LENGTHS_AT: Final = _DETAILS_END - _LENGTHS.size

# MessageRecord.flags.
ALLOW_PEEK_WHEN_LOCKED: Final = 0x01
ASKS_FOR_NOTHING: Final = 0x02
_HAS_DETAILS: Final = 0x80


def unpack(layout: Struct, value: bytes, what: str, version: int = VERSION) -> list[Any]:
    """The fixed fields behind the version; `version` is the newest that this kind of record has."""
    if len(value) < layout.size or value[0] != version:
        raise bad(value, what, version)
    return list(layout.unpack_from(value)[1:])


def unpack_whole(layout: Struct, value: bytes, what: str) -> list[Any]:
    """The same, of a record that has no others."""
    if len(value) > layout.size:
        raise bad(value, what)
    return unpack(layout, value, what)


def join(parts: list[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def split(value: bytes, at: int, what: str) -> list[bytes]:
    """Split what `join` joined, to the end of the value."""
    parts = []
    while at < len(value):
        start = at + _LENGTH.size
        at = start + int.from_bytes(value[at:start], "little")
        if at > len(value):
            raise damaged(what)
        parts.append(value[start:at])
    return parts


def encode_text(text: str) -> bytes:
    """Names come from packets, which can hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise damaged(what) from None


def bad(value: bytes, what: str, newest: int = VERSION) -> StoreError:
    if value and value[0] > newest:
        return StoreTooNew(
            f"a {what} record has format {value[0]}, but this version of Waypost supports only formats up to {newest}"
        )
    return damaged(what)


def damaged(what: str) -> StoreDamaged:
    return StoreDamaged(f"a {what} record of the store is damaged")


@dataclass(frozen=True, slots=True)
class MessageDetails:
    """Optional details of a message: attributes of MS-MQDMPR 3.1.1.12 and MS-MQRR 2.2.5 that are in no packet.

    `origin_queue_manager` is where the packet came from, None for a message of this computer; then the address, of 0, 4
    or 16 bytes, and its scope mean nothing.
    """

    unit_of_work: bytes = NULL_GUID
    origin_queue_manager: bytes | None = None
    origin_address: bytes = b""
    origin_scope: int = 0
    target_subqueue: str = ""
    application_deadletter_queue: str = ""
    transaction_status_queue: str = ""

    @classmethod
    def decode(cls, data: bytes) -> "MessageDetails":
        """The details that are these bytes."""
        has_origin, unit_of_work, origin, scope, *lengths = _DETAILS.unpack_from(data)
        if data[0] > 1 or (not has_origin and origin != NULL_GUID):
            raise damaged("message")
        at, parts = _DETAILS.size, []
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        texts = [decode_text(part, "message") for part in parts[1:]]
        return cls(unit_of_work, origin if has_origin else None, parts[0], scope, *texts)

    def encode(self) -> bytes:
        texts = self.target_subqueue, self.application_deadletter_queue, self.transaction_status_queue
        parts = [self.origin_address, *map(encode_text, texts)]
        head = _DETAILS.pack(
            self.origin_queue_manager is not None,
            self.unit_of_work,
            self.origin_queue_manager or NULL_GUID,
            self.origin_scope,
            *map(len, parts),
        )
        return b"".join((head, *parts))


def encode_head(*fields: int, details: bytes) -> bytes:
    """A MessageRecord with these fields, from `flags` to `last_move_time`, up to its packet.

    Without making one: there are a hundred thousand a second. `details` are encoded; without them they are empty.
    """
    if not details:
        return _MESSAGE.pack(VERSION, *fields)
    return _MESSAGE.pack(VERSION, fields[0] | _HAS_DETAILS, *fields[1:]) + details


def decode_message(value: bytes) -> tuple[int, int, int, int, int, int, MessageDetails | None, bytes]:
    """The fields of a MessageRecord from `flags` on, and then its packet. The same errors."""
    try:
        version, flags, level, arrived, aborts, moves, moved = _MESSAGE.unpack_from(value)
    except struct.error:
        raise bad(value, "message") from None
    if version != VERSION:
        raise bad(value, "message")
    if not flags & _HAS_DETAILS:
        return flags, level, arrived, aborts, moves, moved, None, value[_MESSAGE_SIZE:]
    try:
        at = _DETAILS_END + sum(_LENGTHS.unpack_from(value, _LENGTHS_AT))
    except struct.error:
        raise bad(value, "message") from None
    if at > len(value):
        raise damaged("message")
    details = _details(value[_MESSAGE_SIZE:at])
    return flags & ~_HAS_DETAILS, level, arrived, aborts, moves, moved, details, value[at:]


# All that came from one host has the same.
_details: Final = lru_cache(maxsize=1024)(MessageDetails.decode)
_head: Final = itemgetter(slice(_MESSAGE_SIZE))
_rest: Final = itemgetter(slice(_MESSAGE_SIZE, None))
_details_part: Final = itemgetter(slice(_MESSAGE_SIZE, _DETAILS_END))


def split_messages(values: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """The fields before the packets of MessageRecords, 19 bytes each as if none had details, and the packets.

    The same errors. Bulk reads need nothing of a single message, so little is done for each.
    """
    heads = b"".join(map(_head, values))
    versions, flags = heads[::_MESSAGE_SIZE], heads[1::_MESSAGE_SIZE]
    if len(heads) != len(values) * _MESSAGE_SIZE or versions != bytes([VERSION]) * len(values):
        # One of them is damaged or too new, and says so.
        for value in values:
            decode_message(value)
    if not flags or max(flags) < _HAS_DETAILS:
        return heads, list(map(_rest, values))
    clear = bytearray(heads)
    clear[1::_MESSAGE_SIZE] = flags.translate(_WITHOUT_DETAILS)
    return bytes(clear), _packets_behind_details(values, flags)


_WITHOUT_DETAILS: Final = bytes(flags & ~_HAS_DETAILS for flags in range(256))


def _packets_behind_details(values: Sequence[bytes], flags: bytes) -> list[bytes]:
    """The packets of records of which some have details.

    Those of one host have the same, so most parts of a queue have one or a few.
    """
    parts: list[bytes | None] = list(map(_details_part, values))
    if min(flags) < _HAS_DETAILS:
        parts = [part if flag & _HAS_DETAILS else None for part, flag in zip(parts, flags, strict=True)]
    starts = {part: _packet_at(part) for part in set(parts)}
    at = max(starts.values())
    if 0 < min(starts.values()) == at <= min(map(len, values)):
        return list(map(itemgetter(slice(at, None)), values))
    return [
        value[at:] if 0 < at <= len(value) else decode_message(value)[-1]
        for value, at in zip(values, map(starts.__getitem__, parts), strict=True)
    ]


def _packet_at(part: bytes | None) -> int:
    """Where the packet is behind details that start like this, or none; 0 if it takes a decoder to be sure."""
    if part is None:
        return _MESSAGE_SIZE
    if len(part) < _DETAILS.size:
        return 0
    has_origin, *_, address, subqueue, dead_letter_queue, status_queue = _DETAILS.unpack(part)
    is_simple = has_origin and part[0] == 1 and not (subqueue or dead_letter_queue or status_queue)
    return _DETAILS_END + address if is_simple else 0


@dataclass(slots=True)
class MessageRecord:
    """A recoverable message in its place (MS-MQDMPR 3.1.1.11, 3.1.1.12): what its packet does not say, and its packet.

    Abort count, move count and last move time are those of MS-MQRR 2.2.5.3 (readings MQDMPR 3.Z). Times are seconds
    since 1970. `packet` is as it was received.
    """

    packet: bytes
    flags: int = 0
    authentication_level: int = 0
    arrival_time: int = 0
    abort_count: int = 0
    move_count: int = 0
    last_move_time: int = 0
    details: MessageDetails | None = None

    @classmethod
    def decode(cls, value: bytes) -> "MessageRecord":
        flags, level, arrived, aborts, moves, moved, details, packet = decode_message(value)
        return cls(packet, flags, level, arrived, aborts, moves, moved, details)

    def encode(self) -> bytes:
        head = encode_head(
            self.flags,
            self.authentication_level,
            self.arrival_time,
            self.abort_count,
            self.move_count,
            self.last_move_time,
            details=b"" if self.details is None else self.details.encode(),
        )
        return head + self.packet


_POSITION: Final = Struct("<BBQ")

# PositionRecord.flags.
PURGE_PENDING: Final = 0x01
EXPIRES: Final = 0x02


@dataclass(slots=True)
class PositionRecord:
    """Facts that a start needs of a position without reading its message. Most positions have no such record.

    With EXPIRES, `expiry` is when TimeToBeReceived is over, in seconds since 1970.
    """

    flags: int
    expiry: int = 0

    @classmethod
    def decode(cls, value: bytes) -> "PositionRecord":
        return cls(*unpack_whole(_POSITION, value, "position"))

    def encode(self) -> bytes:
        return _POSITION.pack(VERSION, self.flags, self.expiry)


_SEQUENCE: Final = Struct("<BQIII")


@dataclass(slots=True)
class SequenceRecord:
    """State of a sequence of transactional messages: MS-MQQB 3.1.1.3.1, MS-MQDMPR 3.1.1.5.

    Incoming: the last message that was accepted. Outgoing: the number that the next message gets; the last two are 0.
    """

    sequence_identifier: int = 0
    sequence_number: int = 0
    reject_count: int = 0
    last_access_time: int = 0

    @classmethod
    def decode(cls, value: bytes) -> "SequenceRecord":
        return cls(*unpack_whole(_SEQUENCE, value, "sequence"))

    def encode(self) -> bytes:
        return _SEQUENCE.pack(
            VERSION, self.sequence_identifier, self.sequence_number, self.reject_count, self.last_access_time
        )


class OperationType(IntEnum):
    """MS-MQDMPR 3.1.1.13."""

    ENQUEUE = 0
    DEQUEUE = 1
    MOVE = 2


_TRANSACTION: Final = Struct("<B?I")
_OPERATION: Final = Struct("<BQQQH")


@dataclass(slots=True)
class OperationRecord:
    """MS-MQDMPR 3.1.1.13: the queue id and LookupIdentifier of a message, and what is to happen to it."""

    operation_type: OperationType
    queue_id: int
    lookup_id: int
    target_queue_id: int = 0
    dequeue_reason: int = 0


@dataclass(slots=True)
class TransactionRecord:
    """A transaction whose outcome is open (MS-MQDMPR 3.1.1.14): its operations, first in first out.

    `enlistment` is what it takes to ask the coordinator for the outcome.
    """

    single_phase: bool = False
    operations: list[OperationRecord] = field(default_factory=list)
    enlistment: bytes = b""

    @classmethod
    def decode(cls, value: bytes) -> "TransactionRecord":
        single_phase, count = unpack(_TRANSACTION, value, "transaction")
        end = _TRANSACTION.size + count * _OPERATION.size
        if end > len(value) or value[1] > 1:
            raise damaged("transaction")
        operations = []
        for kind, *rest in _OPERATION.iter_unpack(value[_TRANSACTION.size : end]):
            if kind >= len(OperationType):
                raise damaged("transaction")
            operations.append(OperationRecord(OperationType(kind), *rest))
        return cls(single_phase, operations, value[end:])

    def encode(self) -> bytes:
        operations = (
            _OPERATION.pack(
                each.operation_type, each.queue_id, each.lookup_id, each.target_queue_id, each.dequeue_reason
            )
            for each in self.operations
        )
        return b"".join(
            (_TRANSACTION.pack(VERSION, self.single_phase, len(self.operations)), *operations, self.enlistment)
        )


_DUPLICATES: Final = Struct("<BI")
_DUPLICATES_OF_A_PEER: Final = Struct("<BIB")
_WITH_PEER: Final = 2
_IDENTIFIER_SIZE: Final = 28


@dataclass(slots=True)
class DuplicatesRecord:
    """Entries of MessageIDHistoryTable (MS-MQQB 3.1.1.3): the messages that came at `time_stamp`, seconds since 1970.

    Their identifiers, 28 bytes each (that of the packet, and eight for the destination), stand one behind the other.
    `peer` is the address that brought them (waypost.peers). Format 1 does not name it, and "" is written in format 1.
    """

    time_stamp: int
    identifiers: bytes
    peer: str = ""

    @classmethod
    def decode(cls, value: bytes) -> "DuplicatesRecord":
        if value[:1] == bytes([VERSION]):
            (time_stamp,) = unpack(_DUPLICATES, value, "duplicates")
            peer, at = b"", _DUPLICATES.size
        elif value[:1] == bytes([_WITH_PEER]) and len(value) >= _DUPLICATES_OF_A_PEER.size:
            _, time_stamp, length = _DUPLICATES_OF_A_PEER.unpack_from(value)
            at = _DUPLICATES_OF_A_PEER.size + length
            peer = value[_DUPLICATES_OF_A_PEER.size : at]
            if not length or len(peer) != length:
                raise damaged("duplicates")
        else:
            raise bad(value, "duplicates", _WITH_PEER)
        identifiers = value[at:]
        if len(identifiers) % _IDENTIFIER_SIZE:
            raise damaged("duplicates")
        return cls(time_stamp, identifiers, decode_text(peer, "duplicates"))

    def encode(self) -> bytes:
        if not self.peer:
            return _DUPLICATES.pack(VERSION, self.time_stamp) + self.identifiers
        peer = encode_text(self.peer)
        return _DUPLICATES_OF_A_PEER.pack(_WITH_PEER, self.time_stamp, len(peer)) + peer + self.identifiers


_COUNTER: Final = Struct("<BQ")


@dataclass(slots=True)
class CounterRecord:
    """See waypost.store.keys.Counter."""

    value: int

    @classmethod
    def decode(cls, value: bytes) -> "CounterRecord":
        return cls(*unpack_whole(_COUNTER, value, "counter"))

    def encode(self) -> bytes:
        return _COUNTER.pack(VERSION, self.value)


_TOTALS_VALUE: Final = Struct("<BQQ")


@dataclass(slots=True)
class TotalsRecord:
    """Number and bytes of the recoverable messages of a queue, so that a start needs no scan."""

    message_count: int = 0
    total_bytes: int = 0

    @classmethod
    def decode(cls, value: bytes) -> "TotalsRecord":
        return cls(*unpack_whole(_TOTALS_VALUE, value, "totals"))

    def encode(self) -> bytes:
        return _TOTALS_VALUE.pack(VERSION, self.message_count, self.total_bytes)
