"""Give a copied store a new identity, because the original queue manager lives on (ADR 32).

The new queue manager has another GUID. It has the queues and their messages, and continues none of the exchanges that
the original has with others:

- Messages in outgoing queues are the original's to send. They go to the dead-letter queues, with the class that MS-MQMQ
  2.2.18.1.6 has for them: the GUID of the source computer has changed. Acknowledgments that wait there are dropped.
- Messages that were delivered and wait for a FinalAck are dropped: the original waits for it.
- Prepared transactions are aborted at the next start, and stages end there: their coordinators know the original.
- Knowledge of destinations, and of acknowledgments from them, is dropped.

All of this happens before anything else opens the store, so it may take several batches.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from waypost.core.queues import AWAITING_FINAL_ACK
from waypost.core.source_journal import lasting_copy
from waypost.core.system import SYSTEM_QUEUES
from waypost.directory.records import ObjectType
from waypost.errors import IllegalPathName, StoreDamaged, StoreError
from waypost.node import manager_store, scans
from waypost.node.message_records import message_of, value_of
from waypost.store import keys, records
from waypost.store.bulk_records import StageRecord
from waypost.store.port import Batch, Store, Table
from waypost.store.queue_records import QueueKind, QueueRecord
from waypost.store.records import TotalsRecord, TransactionRecord
from waypost.store.whole import whole_pages
from waypost.wire.format_names import Suffix
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName

_GUID_CHANGED: Final = MessageClass.MQMSG_CLASS_NACK_SOURCE_COMPUTER_GUID_CHANGED


@dataclass(slots=True)
class Cloned:
    """Numbers of messages that became dead-letter messages, and of dropped ones: acknowledgments or delivered."""

    set_aside: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Queues:
    """The queues with messages that others wait for, and the queues to move these to."""

    outgoing: list[int] = field(default_factory=list)
    awaiting: list[int] = field(default_factory=list)
    dead_letters: dict[Suffix, int] = field(default_factory=dict)


def change_identity(store: Store, identifier: bytes) -> Cloned:
    """Give this GUID to a store that no queue manager has open. Everything is durable on return."""
    record = manager_store.read(store)
    if record is None:
        raise StoreDamaged("the store does not contain the name of its queue manager")
    cloned = Cloned()
    queues = _queues(store)
    held = _end_unfinished(store)
    for queue in queues.outgoing:
        _set_aside(store, queue, queues.dead_letters, held.get(queue, []), cloned)
    for queue in queues.awaiting:
        _drop(store, queue, cloned)
    batch = Batch()
    for queue in queues.outgoing:
        batch.delete(Table.SEQUENCES, keys.outgoing_sequence_key(queue))
    batch.delete_range(Table.COUNTERS, *keys.destination_range())
    batch.delete_range(Table.COUNTERS, *keys.kept_ack_range())
    own = keys.directory_key(ObjectType.QUEUE_MANAGER, record.identifier)
    value = store.get(Table.DIRECTORY, own)
    if value is not None:
        batch.delete(Table.DIRECTORY, own)
        batch.put(Table.DIRECTORY, keys.directory_key(ObjectType.QUEUE_MANAGER, identifier), value)
    batch.put(Table.COUNTERS, keys.QUEUE_MANAGER_KEY, replace(record, identifier=identifier).encode())
    store.commit(batch, 1)
    return cloned


def _queues(store: Store) -> _Queues:
    found = _Queues()
    suffixes = {SYSTEM_QUEUES[suffix]: suffix for suffix in (Suffix.DEADLETTER, Suffix.DEADXACT)}
    for key, value in scans.items(store, Table.QUEUES):
        record, number = QueueRecord.decode(value), keys.queue_id_of(key)
        if record.kind is QueueKind.OUTGOING:
            found.outgoing.append(number)
            continue
        try:
            name = PathName.parse(record.pathname).queue
        except IllegalPathName:
            raise StoreDamaged(f"the record of queue {number} does not identify its queue") from None
        if record.kind is QueueKind.PRIVATE and name == AWAITING_FINAL_ACK:
            found.awaiting.append(number)
        elif record.kind is QueueKind.SYSTEM and name in suffixes:
            found.dead_letters[suffixes[name]] = number
    return found


def _end_unfinished(store: Store) -> dict[int, list[range]]:
    """Let prepared transactions and stages end at the next start. Returns the messages that they sent, by queue.

    The start removes these itself.
    """
    held: dict[int, list[range]] = {}
    batch = Batch()
    for identifier, value in scans.items(store, Table.TRANSACTIONS):
        transaction = TransactionRecord.decode(value)
        transaction.single_phase = True
        batch.put(Table.TRANSACTIONS, identifier, transaction.encode())
        for operation in transaction.operations:
            if operation.operation_type is records.OperationType.ENQUEUE:
                span = range(operation.lookup_id, operation.lookup_id + 1)
                held.setdefault(operation.queue_id, []).append(span)
    for key, value in scans.items(store, Table.BULK):
        if keys.stage_of(key) is not None:
            stage = StageRecord.decode(value)
            stage.lease_s = 0.0
            batch.put(Table.BULK, key, stage.encode())
            for run in stage.runs:
                held.setdefault(run.queue_id, []).extend(run.spans)
    store.commit(batch, 1)
    return held


def _set_aside(
    store: Store, queue: int, dead_letters: dict[Suffix, int], held: list[range], cloned: Cloned
) -> None:  # fmt: skip
    for page in whole_pages(store, Table.MESSAGES, *keys.message_range(queue)):
        batch = Batch()
        totals = _Totals(store, batch)
        for key, value in page:
            lookup_id = keys.lookup_id_of(key)
            if any(lookup_id in span for span in held):
                continue
            try:
                message = message_of(value, lookup_id)
                is_normal = message.message_class == MessageClass.MQMSG_CLASS_NORMAL
                letter = lasting_copy(message, _GUID_CHANGED)
            except StoreError:
                # The first reader sets it aside (ADR 30).
                continue
            batch.delete(Table.MESSAGES, key)
            batch.delete(Table.POSITIONS, key)
            totals.add(queue, -1, -len(message.packet))
            if is_normal:
                target = dead_letters[Suffix.DEADXACT if message.is_transactional else Suffix.DEADLETTER]
                batch.put(Table.MESSAGES, keys.message_key(target, lookup_id), value_of(letter))
                totals.add(target, 1, len(letter.packet))
            cloned.set_aside += is_normal
            cloned.dropped += not is_normal
        totals.write()
        store.commit(batch, 1)


def _drop(store: Store, queue: int, cloned: Cloned) -> None:
    batch = Batch()
    start, stop = keys.message_range(queue)
    cloned.dropped += sum(map(len, whole_pages(store, Table.MESSAGES, start, stop)))
    batch.delete_range(Table.MESSAGES, start, stop)
    batch.delete_range(Table.POSITIONS, start, stop)
    batch.put(Table.COUNTERS, keys.totals_key(queue), TotalsRecord().encode())
    store.commit(batch, 1)


class _Totals:
    """The totals of the queues that one batch changes."""

    def __init__(self, store: Store, batch: Batch) -> None:
        self._store: Final = store
        self._batch: Final = batch
        self._changed: dict[int, TotalsRecord] = {}

    def add(self, queue: int, count: int, size: int) -> None:
        totals = self._changed.get(queue)
        if totals is None:
            value = self._store.get(Table.COUNTERS, keys.totals_key(queue))
            totals = self._changed[queue] = TotalsRecord() if value is None else TotalsRecord.decode(value)
        totals.message_count += count
        totals.total_bytes += size

    def write(self) -> None:
        for queue, totals in self._changed.items():
            self._batch.put(Table.COUNTERS, keys.totals_key(queue), totals.encode())
