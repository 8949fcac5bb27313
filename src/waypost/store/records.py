"""The records of the store: what the keys and values of its tables are made of.

| table        | key                                                    | value               |
|--------------|--------------------------------------------------------|---------------------|
| MESSAGES     | queue id u64, LookupIdentifier u64                     | MessageRecord       |
| QUEUES       | queue id u64                                           | QueueRecord         |
| SEQUENCES    | 0 u8, queue id u64, GUID of the source queue manager   | SequenceRecord, of what comes in  |
|              | 1 u8, queue id u64                                     | SequenceRecord, of what goes out  |
| TRANSACTIONS | GUID of the transaction                                | TransactionRecord   |
| DUPLICATES   | message identifier: GUID, ordinal u32                  | DuplicateRecord     |
| COUNTERS     | a Counter                                              | CounterRecord       |
|              | "queue_manager"                                        | QueueManagerRecord  |
|              | "queue:", queue id u64                                 | TotalsRecord        |

waypost.store.keys makes the keys. The queue id is the store's own number for a queue of any kind (also a subqueue, a
journal, an outgoing queue) and never given twice. The totals of a queue change with every message, and therefore are
not a part of its record. QueueRecord, TotalsRecord and QueueManagerRecord are in waypost.store.queue_records.

Every value starts with a format version. `decode(value)` gives the record, StoreTooNew if a newer Waypost wrote it, and
StoreDamaged for all bytes that `encode()` cannot have made; what it gives encodes to the same bytes.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final

from waypost.guid import NULL_GUID
from waypost.store.codec import VERSION, bad, damaged, decode_text, encode_text, unpack, unpack_whole

_MESSAGE: Final = Struct("<BBIIQQ16s16sHH")
_MESSAGE_SIZE: Final = _MESSAGE.size

PURGE_PENDING: Final = 0x01


@dataclass(slots=True)
class MessageRecord:
    """A recoverable message in its place (MS-MQDMPR 3.1.1.11, 3.1.1.12): what its packet does not say, and its packet.

    `flags` has PURGE_PENDING; other bits are kept for those who write them. `transaction_id` is that of a prepared
    external transaction which holds the message, else NULL_GUID. Abort count, move count, last move time and target
    subqueue are those of MS-MQRR 2.2.5.3 (readings MQDMPR 3.Z). `origin_guid` and `origin_address` are the queue
    manager that the packet came from, NULL_GUID and "" for a message of this computer. `packet` is as it was received.
    """

    packet: bytes
    arrival_time_ms: int = 0
    flags: int = 0
    abort_count: int = 0
    move_count: int = 0
    last_move_time_ms: int = 0
    transaction_id: bytes = NULL_GUID
    target_subqueue: str = ""
    origin_guid: bytes = NULL_GUID
    origin_address: str = ""

    @classmethod
    def decode(cls, value: bytes) -> "MessageRecord":
        try:
            version, flags, aborts, moves, moved, arrived, transaction, origin, n, m = _MESSAGE.unpack_from(value)
        except struct.error:
            raise bad(value, "message") from None
        if version != VERSION:
            raise bad(value, "message")
        target = address = ""
        at = _MESSAGE_SIZE
        if n or m:
            at += n + m
            if at > len(value):
                raise bad(value, "message")
            target = decode_text(value[at - m - n : at - m], "message")
            address = decode_text(value[at - m : at], "message")
        return cls(value[at:], arrived, flags, aborts, moves, moved, transaction, target, origin, address)

    def encode(self) -> bytes:
        target = encode_text(self.target_subqueue) if self.target_subqueue else b""
        address = encode_text(self.origin_address) if self.origin_address else b""
        head = _MESSAGE.pack(
            VERSION,
            self.flags,
            self.abort_count,
            self.move_count,
            self.last_move_time_ms,
            self.arrival_time_ms,
            self.transaction_id,
            self.origin_guid,
            len(target),
            len(address),
        )
        return b"".join((head, target, address, self.packet))


_SEQUENCE: Final = Struct("<BQIIII")


@dataclass(slots=True)
class SequenceRecord:
    """How far a sequence of transactional messages has come.

    Incoming: MS-MQDMPR 3.1.1.5. Outgoing: the sequence that messages get next. `details` belongs to the protocol.
    """

    sequence_identifier: int = 0
    sequence_number: int = 0
    previous_number: int = 0
    last_access_time: int = 0
    reject_count: int = 0
    details: bytes = b""

    @classmethod
    def decode(cls, value: bytes) -> "SequenceRecord":
        return cls(*[*unpack(_SEQUENCE, value, "sequence"), value[_SEQUENCE.size :]])

    def encode(self) -> bytes:
        head = _SEQUENCE.pack(
            VERSION,
            self.sequence_identifier,
            self.sequence_number,
            self.previous_number,
            self.last_access_time,
            self.reject_count,
        )
        return head + self.details


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


_DUPLICATE: Final = Struct("<BI")


@dataclass(slots=True)
class DuplicateRecord:
    """MessageIDHistoryEntry (MS-MQQB 3.1.1.3): a message that was received at `time_stamp`, seconds since 1970."""

    time_stamp: int

    @classmethod
    def decode(cls, value: bytes) -> "DuplicateRecord":
        return cls(*unpack_whole(_DUPLICATE, value, "duplicate"))

    def encode(self) -> bytes:
        return _DUPLICATE.pack(VERSION, self.time_stamp)


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
