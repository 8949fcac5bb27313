"""Queues of the core as records of the store, and back: MS-MQDMPR 3.1.1.2 and 3.1.1.3."""

from collections.abc import Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Final

from waypost.core.outgoing import destination_path
from waypost.core.queues import OutgoingQueue, Queue, QueueAttributes, base_priority
from waypost.core.system import Identity
from waypost.errors import DecodeError, StoreDamaged
from waypost.store import keys, queue_records
from waypost.store.port import Batch, Table
from waypost.store.queue_records import FLAGS, QueueRecord
from waypost.wire.format_names import FormatName
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import QueuePrivacy, Scope

_KINDS: Final = {
    QueueKind.PRIVATE: queue_records.QueueKind.PRIVATE,
    QueueKind.PUBLIC: queue_records.QueueKind.PUBLIC,
    QueueKind.SYSTEM: queue_records.QueueKind.SYSTEM,
}
# Fields that a record has under the same name: of the properties of a queue, and of the queue itself.
_PROPERTIES: Final = tuple(
    each.name for each in fields(QueueAttributes) if each.name in QueueRecord.__slots__ and each.name != "pathname"
)
_FACTS: Final = ("scope", "private_queue_number", "create_time", "modify_time", "full_path", "directory_path")
_properties_of, _facts_of = attrgetter(*_PROPERTIES), attrgetter(*_FACTS)


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
    return QueueRecord(
        kind=_kind(queue),
        flags=sum(bit for name, bit in FLAGS.items() if getattr(attributes, name)),
        parent=0 if queue.parent is None else queue.parent.number,
        identifier=queue.identifier,
        pathname=str(attributes.pathname),
        qualified_pathname=str(queue.qualified_pathname),
        destination_format_name=str(queue.destination_format_name) if isinstance(queue, OutgoingQueue) else "",
        **dict(zip(_PROPERTIES, _properties_of(attributes), strict=True)),
        **dict(zip(_FACTS, _facts_of(queue), strict=True)),
    )


def queue_of(number: int, record: QueueRecord, identity: Identity, queues: Mapping[int, Queue]) -> Queue:
    """The queue of a record. Its parent is among `queues`. The names of this computer may have changed since."""
    try:
        is_outgoing = record.kind is queue_records.QueueKind.OUTGOING
        name = FormatName.parse(record.destination_format_name) if is_outgoing else None
        path = PathName.parse(record.pathname) if name is None else destination_path(name)
        attributes = QueueAttributes(path, **dict(zip(_PROPERTIES, _properties_of(record), strict=True)))
        for flag, bit in FLAGS.items():
            setattr(attributes, flag, record.flags & bit != 0)
        attributes.privacy_level = QueuePrivacy(record.privacy_level)
        if not is_outgoing:
            attributes.base_priority = base_priority(path, record.base_priority)
        queue: Queue
        if name is not None:
            queue = OutgoingQueue(number, record.identifier, attributes, path, destination_format_name=name)
        else:
            attributes.pathname = replace(path, computer=identity.computer_name)
            qualified = replace(path, computer=identity.qualified_computer_name)
            queue = Queue(number, record.identifier, attributes, qualified)
        queue.parent = queues[record.parent] if record.parent else None
    except (DecodeError, KeyError):
        raise StoreDamaged(f"the record of queue {number} does not identify its queue") from None
    for each in _FACTS:
        setattr(queue, each, getattr(record, each))
    queue.scope = Scope(record.scope)
    return queue


def _kind(queue: Queue) -> queue_records.QueueKind:
    if isinstance(queue, OutgoingQueue):
        return queue_records.QueueKind.OUTGOING
    if queue.is_journal:
        return queue_records.QueueKind.JOURNAL
    if queue.parent is not None:
        return queue_records.QueueKind.SUBQUEUE
    return _KINDS[queue.pathname.kind]
