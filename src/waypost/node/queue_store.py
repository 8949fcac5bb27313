"""Queues of the core as records of the store, and back: MS-MQDMPR 3.1.1.2 and 3.1.1.3."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from waypost.core.outgoing import destination_path
from waypost.core.queues import OutgoingQueue, Queue, QueueAttributes, base_priority
from waypost.core.system import Identity
from waypost.errors import DecodeError, StoreDamaged
from waypost.store import keys, queue_records
from waypost.store.port import Batch, Table
from waypost.store.queue_records import AUTHENTICATION, JOURNALING, TRANSACTIONAL, QueueRecord
from waypost.wire.format_names import FormatName
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import QueuePrivacy, Scope

_KINDS: Final = {
    QueueKind.PRIVATE: queue_records.QueueKind.PRIVATE,
    QueueKind.PUBLIC: queue_records.QueueKind.PUBLIC,
    QueueKind.SYSTEM: queue_records.QueueKind.SYSTEM,
}


def write(batch: Batch, queue: Queue) -> None:
    batch.put(Table.QUEUES, keys.queue_key(queue.number), record_of(queue).encode())


def delete(batch: Batch, queue: Queue) -> None:
    batch.delete(Table.QUEUES, keys.queue_key(queue.number))
    batch.delete_range(Table.SEQUENCES, *keys.incoming_sequence_range(queue.number))
    batch.delete_range(Table.SEQUENCES, *keys.sequence_address_range(queue.number))
    batch.delete(Table.SEQUENCES, keys.outgoing_sequence_key(queue.number))
    if isinstance(queue, OutgoingQueue):
        batch.delete(Table.COUNTERS, keys.renumbering_key(queue.number))


def record_of(queue: Queue) -> QueueRecord:
    attributes = queue.attributes
    flags = (JOURNALING if attributes.journaling else 0) | (AUTHENTICATION if attributes.authentication else 0)
    return QueueRecord(
        kind=_kind(queue),
        privacy_level=attributes.privacy_level,
        scope=queue.scope,
        flags=flags | (TRANSACTIONAL if attributes.transactional else 0),
        base_priority=attributes.base_priority,
        private_queue_number=queue.private_queue_number,
        quota=attributes.quota,
        journal_quota=attributes.journal_quota,
        create_time=queue.create_time,
        modify_time=queue.modify_time,
        parent=0 if queue.parent is None else queue.parent.number,
        identifier=queue.identifier,
        type=attributes.type_guid,
        pathname=str(attributes.pathname),
        qualified_pathname=str(queue.qualified_pathname),
        label=attributes.label,
        multicast_address=attributes.multicast_address,
        full_path=queue.full_path,
        directory_path=queue.directory_path,
        destination_format_name=str(queue.destination_format_name) if isinstance(queue, OutgoingQueue) else "",
        security=attributes.security,
    )


def queue_of(number: int, record: QueueRecord, identity: Identity, queues: Mapping[int, Queue]) -> Queue:
    """A queue as it was. Its parent is among `queues`. The names of this computer may be others than they were."""
    try:
        is_outgoing = record.kind is queue_records.QueueKind.OUTGOING
        name = FormatName.parse(record.destination_format_name) if is_outgoing else None
        path = PathName.parse(record.pathname) if name is None else destination_path(name)
        attributes = QueueAttributes(
            pathname=path,
            label=record.label,
            type_guid=record.type,
            journaling=bool(record.flags & JOURNALING),
            quota=record.quota,
            journal_quota=record.journal_quota,
            authentication=bool(record.flags & AUTHENTICATION),
            privacy_level=QueuePrivacy(record.privacy_level),
            transactional=bool(record.flags & TRANSACTIONAL),
            multicast_address=record.multicast_address,
            security=record.security,
            base_priority=record.base_priority if is_outgoing else base_priority(path, record.base_priority),
        )
        queue: Queue
        if name is not None:
            queue = OutgoingQueue(number, record.identifier, attributes, path, destination_format_name=name)
        else:
            attributes.pathname = replace(path, computer=identity.computer_name)
            qualified = replace(path, computer=identity.qualified_computer_name)
            queue = Queue(number, record.identifier, attributes, qualified)
        queue.parent = queues[record.parent] if record.parent else None
    except (DecodeError, KeyError):
        raise StoreDamaged(f"the record of queue {number} does not say which queue it is") from None
    queue.private_queue_number = record.private_queue_number
    queue.create_time = record.create_time
    queue.modify_time = record.modify_time
    queue.scope = Scope(record.scope)
    queue.full_path = record.full_path
    queue.directory_path = record.directory_path
    return queue


def _kind(queue: Queue) -> queue_records.QueueKind:
    if isinstance(queue, OutgoingQueue):
        return queue_records.QueueKind.OUTGOING
    if queue.is_journal:
        return queue_records.QueueKind.JOURNAL
    if queue.parent is not None:
        return queue_records.QueueKind.SUBQUEUE
    return _KINDS[queue.pathname.kind]
