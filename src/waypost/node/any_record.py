"""Decode any record of the store by its table and key."""

import struct
from collections.abc import Callable
from typing import Final

from waypost.directory.records import Entry, ObjectType
from waypost.errors import StoreDamaged
from waypost.store import keys
from waypost.store.ack_records import AdmittedRecord, DestinationRecord, KeptAckRecord
from waypost.store.bulk_records import (
    BatchesRecord,
    ClaimRecord,
    CommitsRecord,
    DoneRecord,
    FrameRecord,
    LostRunRecord,
    StageRecord,
)
from waypost.store.damaged_records import DamagedRecord
from waypost.store.port import Table
from waypost.store.queue_records import QueueManagerRecord, QueueRecord
from waypost.store.records import (
    CounterRecord,
    DuplicatesRecord,
    MessageRecord,
    PositionRecord,
    SequenceRecord,
    TotalsRecord,
    TransactionRecord,
)
from waypost.store.restored import RestoredRecord
from waypost.store.sequence_records import AddressRecord, IncomingRecord, RenumberingRecord
from waypost.store.user_records import (
    GROUP_PREFIX,
    LOST_KEY,
    STATE_KEY,
    AuditRecord,
    GroupRecord,
    LostUsersRecord,
    UserRecord,
    UsersRecord,
    audit_number_of,
    group_key,
    user_key,
)

_GUID_SIZE: Final = 16


def decode(table: Table, key: bytes, value: bytes) -> object:
    """The record. Raises StoreDamaged for a value that does not fit the table, StoreTooNew, and LookupError for an
    unknown kind of record.
    """
    decoder = _DECODERS.get(table)
    if decoder is None:
        raise LookupError(table)
    try:
        return decoder(key, value)
    except (struct.error, ValueError):
        raise StoreDamaged(f"a record of the table {table.name.lower()} is damaged") from None


def _message(key: bytes, value: bytes) -> MessageRecord:
    _demand(len(key) == len(keys.message_key(0, 0)))
    return MessageRecord.decode(value)


def _queue(key: bytes, value: bytes) -> QueueRecord:
    _demand(len(key) == len(keys.queue_key(0)))
    return QueueRecord.decode(value)


def _sequence(key: bytes, value: bytes) -> object:
    _demand(len(key) >= len(keys.outgoing_sequence_key(0)))
    queue, source = keys.sequence_of(key)
    if source is not None:
        _demand(len(source) >= _GUID_SIZE)
        return IncomingRecord.decode(value)
    if keys.is_sequence_address(key):
        return AddressRecord.decode(value)
    _demand(key == keys.outgoing_sequence_key(queue))
    return SequenceRecord.decode(value)


def _transaction(key: bytes, value: bytes) -> TransactionRecord:
    _demand(len(key) == _GUID_SIZE)
    return TransactionRecord.decode(value)


def _duplicates(key: bytes, value: bytes) -> DuplicatesRecord:
    _demand(len(key) == len(keys.duplicates_key(0)))
    return DuplicatesRecord.decode(value)


def _counter(key: bytes, value: bytes) -> object:
    if key == keys.QUEUE_MANAGER_KEY:
        return QueueManagerRecord.decode(value)
    if key == keys.RESTORED_KEY:
        return RestoredRecord.decode(value)
    if key == keys.totals_key(int.from_bytes(key[-8:], "big")):
        return TotalsRecord.decode(value)
    for (start, stop), decoder in _COUNTER_RANGES:
        if start <= key < stop:
            return decoder(value)
    if key not in _COUNTERS:
        raise LookupError(key)
    return CounterRecord.decode(value)


def _position(key: bytes, value: bytes) -> PositionRecord:
    _demand(len(key) == len(keys.message_key(0, 0)))
    return PositionRecord.decode(value)


def _directory(key: bytes, value: bytes) -> object:
    _demand(len(key) == 1 + _GUID_SIZE)
    return Entry.decode(ObjectType(keys.object_type_of(key)), keys.object_identifier_of(key), value)


def _bulk(key: bytes, value: bytes) -> object:
    if keys.claim_of(key) is not None:
        return ClaimRecord.decode(value)
    if keys.stage_of(key) is not None:
        return StageRecord.decode(value)
    if keys.frame_of(key) is not None:
        return FrameRecord.decode(value)
    if keys.is_done(key):
        return DoneRecord.decode(value)
    if keys.lost_run_of(key) is not None:
        return LostRunRecord.decode(value)
    if keys.query_of(key) is not None:
        return BatchesRecord.decode(value)
    _demand(keys.committing_query_of(key) is not None)
    return CommitsRecord.decode(value)


def _damaged(key: bytes, value: bytes) -> object:
    """A message that was set aside. The bytes found in its place are kept as they are."""
    return value if keys.is_damaged_bytes(key) else DamagedRecord.decode(value)


def _user(key: bytes, value: bytes) -> object:
    if key == STATE_KEY:
        return UsersRecord.decode(value)
    if key == LOST_KEY:
        return LostUsersRecord.decode(value)
    if key.startswith(GROUP_PREFIX):
        group = GroupRecord.decode(value)
        _demand(group_key(group.name) == key)
        return group
    user = UserRecord.decode(value)
    _demand(user_key(user.name) == key)
    return user


def _demand(holds: bool) -> None:  # noqa: FBT001
    if not holds:
        raise ValueError


_COUNTERS: Final = frozenset(counter.value for counter in keys.Counter)
_COUNTER_RANGES: Final[tuple[tuple[tuple[bytes, bytes], Callable[[bytes], object]], ...]] = (
    (keys.renumbering_range(), RenumberingRecord.decode),
    (keys.met_host_range(), CounterRecord.decode),
    (keys.destination_range(), DestinationRecord.decode),
    (keys.kept_ack_range(), KeptAckRecord.decode),
    (keys.admitted_range(), AdmittedRecord.decode),
)

_DECODERS: Final[dict[Table, Callable[[bytes, bytes], object]]] = {
    Table.MESSAGES: _message,
    Table.QUEUES: _queue,
    Table.SEQUENCES: _sequence,
    Table.TRANSACTIONS: _transaction,
    Table.DUPLICATES: _duplicates,
    Table.COUNTERS: _counter,
    Table.POSITIONS: _position,
    Table.DIRECTORY: _directory,
    Table.BULK: _bulk,
    Table.DAMAGED: _damaged,
    Table.USERS: _user,
    Table.AUDIT: lambda key, value: (audit_number_of(key), AuditRecord.decode(value)),
}
