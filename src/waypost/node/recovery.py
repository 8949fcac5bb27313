"""The start of a queue manager on its store: MS-MQDMPR 3.1.3, with persistent and volatile attributes.

An empty store becomes a new queue manager. Otherwise queues, recoverable messages in their places, prepared external
transactions, claims, stages and counters come back as they were. A message that an unfinished transaction or two-phase
read held is Available again, because nothing about that was written; one that was purged meanwhile is removed. Express
messages, handles, cursors and waits are gone. Changes by the start itself are in the current batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel
from waypost.core.positions import PositionState
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import is_numbered
from waypost.core.system import Identity, QueueManagerAttributes
from waypost.errors import StoreDamaged, StoreError
from waypost.guid import NULL_GUID
from waypost.node import any_record, bulk_store, manager_store, queue_store, scans, transaction_store
from waypost.node.bulk_store import Kept
from waypost.node.directory import DirectoryMode, NodeDirectory
from waypost.node.message_records import message_of
from waypost.node.queue_security import QueueSecurity
from waypost.node.remote_reading import RemoteServing
from waypost.node.reserves import stored_end
from waypost.node.stored_messages import StoredMessages, undecodable
from waypost.routing.routes import Relays, Route
from waypost.store import keys
from waypost.store.descriptions import describe
from waypost.store.keys import Counter
from waypost.store.port import Item, Reader, Table, after
from waypost.store.queue_records import QueueManagerRecord, QueueRecord
from waypost.store.records import EXPIRES, PURGE_PENDING, PositionRecord, TotalsRecord, TransactionRecord
from waypost.timers import Timers
from waypost.transfer.settings import TransferSettings
from waypost.wire.algorithms import HashAlgorithm
from waypost.wire.message_class import MessageClass


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a queue manager, read at each start.

    None leaves an attribute as it is. `quota` is in kilobytes, and `source_share` the part of it that the messages of
    one peer may take. `long_live_time` is LongLiveTime of MS-MQDMPR 3.1.1.12, in seconds; None leaves it to the
    directory. `domain` is the GUID of the domain, NULL_GUID outside of one. Without `transfer` the queue manager has no
    network, and messages for others wait; without `remote` it serves no remote readers.
    `min_signature` is the oldest signature that counts; NONE lets all count. `hashes` are those that signatures of
    others may have. `rejects_short_rc2` refuses RC2 keys of 40 bits that were made 128 (MS-MQQB 3.1.1.3,
    RejectEnhancedRC2Using40BitKeys). With `trusts_unsigned_sender`, a SID that a sender merely wrote counts in access
    checks. With `closes_new_queues`, new queues are closed once users are known.
    `machine_security` is the security descriptor of the computer, empty for the default.
    """

    computer_name: str
    qualified_computer_name: str = ""
    addresses: frozenset[str] = field(default_factory=frozenset)
    quota: int | None = None
    source_share: float = 1.0
    directory: DirectoryMode = DirectoryMode.WORKGROUP
    hardened_security: bool | None = None
    long_live_time: int | None = None
    domain: bytes = NULL_GUID
    transfer: TransferSettings | None = None
    aliases: frozenset[str] = field(default_factory=frozenset)
    routes: tuple[Route, ...] = ()
    relays: Relays = field(default_factory=Relays)
    min_signature: AuthenticationLevel = AuthenticationLevel.NONE
    trusts_unsigned_sender: bool = False
    hashes: frozenset[int] = frozenset(HashAlgorithm)
    rejects_short_rc2: bool = False
    closes_new_queues: bool = True
    machine_security: bytes = b""
    remote: RemoteServing | None = None


def recover(
    reader: Reader,
    messages: StoredMessages,
    settings: Settings,
    now: Now,
    *,
    new_guid: Callable[[], bytes],
    directory: NodeDirectory,
    kept: Kept,
    timers: Timers,
    security: QueueSecurity,
) -> QueueManager:
    """`kept` are the claims and stages."""
    _check_counters(reader)
    record = manager_store.read(reader) or _provision(new_guid, now)
    identity = Identity(
        record.identifier,
        settings.computer_name,
        settings.qualified_computer_name or settings.computer_name,
        settings.addresses,
        settings.aliases,
    )
    attributes = replace(_configured(manager_store.attributes_of(record), settings), last_domain=settings.domain)
    manager = QueueManager(
        identity,
        messages,
        new_guid,
        timers=timers,
        attributes=attributes,
        directory=directory.core if directory.is_integrated else None,
        expand=directory.core.expand_format_name,
        default_security=lambda queue: security.descriptor_of(queue, receives_srmp=attributes.srmp_http_support),
    )
    manager.machine_domain_id = settings.domain
    manager_store.write(messages.batch, manager)
    _restore_queues(reader, manager)
    queues = manager.collection.by_number.values()
    scans.check_count(
        reader, Table.MESSAGES, sum([_restore_messages(reader, messages, manager, queue) for queue in queues])
    )
    manager.positions.inexact.update(messages.inexact)
    purged = dict(_restore_positions(reader, messages, manager))
    for queue in queues:
        if isinstance(queue, OutgoingQueue) or queue.is_internal:
            _restore_unfinished(reader, manager, queue)
    unfinished = _restore_transactions(reader, manager)
    bulk_store.restore(kept, manager)
    manager.positions.sequential_id = stored_end(reader, Counter.SEQUENTIAL_ID)
    if manager.positions.sequential_id:
        manager.positions.moves.begin_again(now.wall)
    manager.last_ordinal = stored_end(reader, Counter.MESSAGE_ID_ORDINAL)
    manager.transactions.last_number = stored_end(reader, Counter.TRANSACTION_NUMBER)
    manager.last_number = max(manager.last_number, stored_end(reader, Counter.QUEUE_ID))
    manager.last_private_number = max(
        manager.last_private_number, stored_end(reader, Counter.PRIVATE_QUEUE_NUMBER)
    )  # fmt: skip
    _finish_purges(manager, purged)
    for identifier in unfinished:
        manager.transactions.transaction_abort(identifier)
        transaction_store.delete(messages.batch, identifier)
    manager.positions.sources.share = settings.source_share
    directory.start(manager, settings.quota)
    manager.queue_manager_started(now)
    return manager


def _check_counters(reader: Reader) -> None:
    """Check the keys of all counters: a missing record counts as new, so none may have changed its key.

    Later reads find decodable records. An unknown kind of record is left alone.
    """
    for key, value in scans.whole_table(reader, Table.COUNTERS):
        with suppress(LookupError):
            try:
                any_record.decode(Table.COUNTERS, key, value)
            except StoreError as error:
                raise scans.undecodable(Table.COUNTERS, key, error) from error


def _configured(attributes: QueueManagerAttributes, settings: Settings) -> QueueManagerAttributes:
    attributes = replace(attributes, directory_integrated=settings.directory is not DirectoryMode.WORKGROUP)
    if settings.quota is not None:
        attributes = replace(attributes, queue_manager_quota=settings.quota)
    if settings.hardened_security is not None:
        attributes = replace(attributes, hardened_security=settings.hardened_security)
    return attributes


def _provision(new_guid: Callable[[], bytes], now: Now) -> QueueManagerRecord:
    return QueueManagerRecord(identifier=new_guid(), create_time=int(now.wall), modify_time=int(now.wall))


def _restore_queues(reader: Reader, manager: QueueManager) -> None:
    """Restore the queues in the order of their numbers: a journal and a subqueue are younger than their queue."""
    for key, value in scans.whole_table(reader, Table.QUEUES):
        try:
            record = QueueRecord.decode(value)
            queues = manager.collection.by_number
            manager.restore_queue(queue_store.queue_of(keys.queue_id_of(key), record, manager.identity, queues))
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.QUEUES, key, error) from error


def _restore_messages(reader: Reader, messages: StoredMessages, manager: QueueManager, queue: Queue) -> int:
    """Returns the number of records in the store."""
    lookup_ids: Sequence[int] = scans.lookup_ids(reader, queue.number)
    value = reader.get(Table.COUNTERS, keys.totals_key(queue.number))
    # All of COUNTERS was decoded before.
    totals = TotalsRecord() if value is None else TotalsRecord.decode(value)
    messages.restore(queue.number, totals)
    count = len(lookup_ids)
    if totals.message_count != count:
        lookup_ids = _whole_messages(reader, messages, queue)
    if totals.message_count != len(lookup_ids):
        raise StoreDamaged(
            f"{queue} has {len(lookup_ids)} messages, but its record contains the count {totals.message_count}"
        )
    manager.positions.restore(queue, lookup_ids, totals.total_bytes)
    return count


def _whole_messages(reader: Reader, messages: StoredMessages, queue: Queue) -> list[int]:
    """The readable messages of a queue, after a look at all of them. The others were never counted here.

    This happens when the key of a record has changed: the message is missing in its place, and was set aside.
    """
    found: list[int] = []
    for page, damage in scans.messages_and_damage(reader, queue.number):
        found += [keys.lookup_id_of(key) for key, _ in page]
        if damage is not None:
            messages.set_stray_aside(queue, keys.lookup_id_of(damage.key), damage)
    return found


def _restore_unfinished(reader: Reader, manager: QueueManager, queue: Queue) -> None:
    """Read the messages on their way to other computers, and those that their sources wait for, once.

    A record of every deadline would be one more write for each message.
    """
    key = keys.outgoing_sequence_key(queue.number)
    has_sequence = bool(reader.keys(Table.SEQUENCES, key, after(key), 1)) or not isinstance(queue, OutgoingQueue)
    for page, damage in scans.messages_and_damage(reader, queue.number):
        restored = [message for item in page if (message := _readable(manager, queue, item)) is not None]
        manager.final_acks.restore(queue, restored)
        if isinstance(queue, OutgoingQueue):
            manager.positions.restore_timers(queue, restored)
        if damage is not None:
            manager.positions.set_aside(queue, keys.lookup_id_of(damage.key), damage)
        if not has_sequence and any(_is_ours(message, manager) for message in restored):
            # In another sequence the destination would not accept its messages.
            raise StoreDamaged(f"{queue} has messages of a sequence, but {describe(Table.SEQUENCES, key)} is missing")


def _readable(manager: QueueManager, queue: Queue, item: Item) -> Message | None:
    """The message of a record; None if it does not decode: then it is set aside."""
    key, value = item
    lookup_id = keys.lookup_id_of(key)
    try:
        return message_of(value, lookup_id)
    except StoreError as error:
        manager.positions.set_aside(queue, lookup_id, undecodable(key, value, error))
        return None


def _is_ours(message: Message, manager: QueueManager) -> bool:
    """Whether it is a message of one of our transactions with a place in its sequence."""
    return message.origin is None and is_numbered(message, manager.identity.identifier)


def _restore_positions(
    reader: Reader, messages: StoredMessages, manager: QueueManager
) -> Iterator[tuple[tuple[int, int], Queue]]:
    """Start the timers again. Returns the positions that were purged while they were held."""
    for key, value in scans.whole_table(reader, Table.POSITIONS):
        try:
            record = PositionRecord.decode(value)
            queue = manager.collection.by_number.get(keys.queue_id_of(key))
            lookup_id = keys.lookup_id_of(key)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.POSITIONS, key, error) from error
        if queue is None or lookup_id not in queue.positions:
            raise StoreDamaged(f"message {lookup_id} of queue {keys.queue_id_of(key)} is missing, but has a position")
        messages.restore_position(queue.number)
        if record.flags & EXPIRES and not isinstance(queue, OutgoingQueue):
            manager.positions.restore_timer(queue, lookup_id, record.expiry)
        if record.flags & PURGE_PENDING:
            yield (queue.number, lookup_id), queue


def _restore_transactions(reader: Reader, manager: QueueManager) -> list[bytes]:
    """Returns the transactions without a coordinator that ends them: MS-MQDMPR 3.1.3 aborts them."""
    unfinished = []
    for identifier, value in scans.whole_table(reader, Table.TRANSACTIONS):
        try:
            record = TransactionRecord.decode(value)
            by_number = manager.collection.by_number
            manager.transactions.restore(transaction_store.transaction_of(identifier, record, by_number))
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.TRANSACTIONS, identifier, error) from error
        if record.single_phase:
            unfinished.append(identifier)
    return unfinished


def _finish_purges(manager: QueueManager, purged: Mapping[tuple[int, int], Queue]) -> None:
    """Continue MS-MQDMPR 3.1.7.1.7 where it was interrupted: remove messages that nothing holds any more."""
    for (_, lookup_id), queue in purged.items():
        if queue.positions.state(lookup_id) is PositionState.LOCKED:
            queue.positions.set_state(lookup_id, PositionState.PURGE_PENDING)
        else:
            manager.positions.deleted(queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_Q_PURGED)
