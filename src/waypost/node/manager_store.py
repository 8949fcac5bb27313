"""The queue manager itself in the store: MS-MQDMPR 3.1.1.1."""

from waypost.core.queue_manager import QueueManager
from waypost.core.system import QueueManagerAttributes
from waypost.node import scans
from waypost.store import keys
from waypost.store.port import Batch, Reader, Table
from waypost.store.queue_records import (
    DIRECTORY_INTEGRATED,
    HARDENED_SECURITY,
    SRMP_HTTP_SUPPORT,
    SRMP_PGM_SUPPORT,
    QueueManagerRecord,
)
from waypost.store.records import CounterRecord


def read(reader: Reader) -> QueueManagerRecord | None:
    key = keys.QUEUE_MANAGER_KEY
    value = reader.get(Table.COUNTERS, key)
    return None if value is None else scans.decoded(Table.COUNTERS, key, value, QueueManagerRecord.decode)


def write(batch: Batch, manager: QueueManager) -> None:
    attributes = manager.attributes
    record = QueueManagerRecord(
        (DIRECTORY_INTEGRATED if attributes.directory_integrated else 0)
        | (SRMP_HTTP_SUPPORT if attributes.srmp_http_support else 0)
        | (SRMP_PGM_SUPPORT if attributes.srmp_pgm_support else 0)
        | (HARDENED_SECURITY if attributes.hardened_security else 0),
        attributes.create_time,
        attributes.modify_time,
        attributes.queue_manager_quota,
        attributes.journal_quota,
        attributes.initialization_retry_timer_duration,
        manager.identity.identifier,
        attributes.last_domain,
        manager.identity.computer_name,
        attributes.security,
        list(attributes.directory_server_list),
    )
    batch.put(Table.COUNTERS, keys.QUEUE_MANAGER_KEY, record.encode())


def write_queue_numbers(batch: Batch, manager: QueueManager) -> None:
    """Write the counter of queue numbers, which are never used twice, even after the last queue is deleted."""
    batch.put(Table.COUNTERS, keys.Counter.QUEUE_ID.value, CounterRecord(manager.last_number).encode())
    private = CounterRecord(manager.last_private_number)
    batch.put(Table.COUNTERS, keys.Counter.PRIVATE_QUEUE_NUMBER.value, private.encode())


def attributes_of(record: QueueManagerRecord) -> QueueManagerAttributes:
    return QueueManagerAttributes(
        record.create_time,
        record.modify_time,
        record.queue_manager_quota,
        record.journal_quota,
        record.security,
        record.last_domain,
        tuple(record.directory_server_list),
        bool(record.flags & DIRECTORY_INTEGRATED),
        bool(record.flags & SRMP_HTTP_SUPPORT),
        bool(record.flags & SRMP_PGM_SUPPORT),
        bool(record.flags & HARDENED_SECURITY),
        record.initialization_retry_timer_duration,
    )
