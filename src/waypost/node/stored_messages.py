"""Messages in memory and in the store: the MessageTable of the core, and the current batch.

An express message, and one that a transaction holds, is in memory only. A recoverable one is written with the batch and
stays in memory until the batch is durable; then every use reads it from the store, so that a million waiting messages
cost only their positions. The totals of a queue are written with every batch that changes them.
"""

from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import Queue
from waypost.core.serialization import packet_of
from waypost.errors import RecordDamaged, StoreError
from waypost.limits import MAX_SCAN_BYTES
from waypost.node.damaged import DamagedMessages, size_of
from waypost.node.message_records import head_of, message_of, unchecked_message_of, value_of
from waypost.store import keys
from waypost.store.descriptions import describe
from waypost.store.keys import message_key
from waypost.store.port import Action, Batch, Reader, Table
from waypost.store.records import EXPIRES, PURGE_PENDING, PositionRecord, TotalsRecord
from waypost.store.sealed_tables import seal
from waypost.wire.codec import INFINITE

_Key = tuple[int, int]
_PUT: Final = Action.PUT
_DELETE: Final = Action.DELETE
_MESSAGES: Final = Table.MESSAGES
_RECOVERABLE: Final = DeliveryGuarantee.RECOVERABLE
# Number of records to read together: so few that their bytes are still in the cache when they are decoded.
_PART: Final = 128


class StoredMessages:
    """The MessageTable of waypost.core.ports. `batch` collects what becomes durable together, under `token`."""

    __slots__ = (
        "_damaged",
        "_heads",
        "_pending",
        "_positions",
        "_puts",
        "_reader",
        "_sizes",
        "_submitted",
        "_totals",
        "_touched",
        "_volatile",
        "batch",
        "checks_packets",
        "held_bytes",
        "read_token",
        "token",
        "unwritten_bytes",
    )

    def __init__(self, reader: Reader, damaged: DamagedMessages) -> None:
        self._reader: Final = reader
        self._damaged: Final = damaged
        self.batch = Batch()
        # Whether a packet may be one that was not decoded since the start.
        self.checks_packets = True
        self.token = 1
        # The latest batch that must become durable before the messages read may be shown.
        self.read_token = 0
        self._volatile: dict[_Key, Message] = {}
        # The head of the record, before the packet, of each held message that does not expire.
        self._heads: dict[_Key, bytes] = {}
        # Messages that are written and not durable, with the token of the batch; the keys of each batch, to forget it.
        # A message is a MessageRecord here if nobody has looked at it.
        self._pending: dict[_Key, tuple[int, Message | bytes]] = {}
        self._puts: list[_Key] = []
        self._submitted: deque[tuple[int, list[_Key]]] = deque()
        # Bytes of messages that transactions have sent, and of the batches that are not durable, with the size of each.
        self.held_bytes = 0
        self.unwritten_bytes = 0
        self._sizes: deque[int] = deque()
        self._totals: dict[int, TotalsRecord] = {}
        self._touched: set[int] = set()
        # The queues that have or had PositionRecords.
        self._positions: set[int] = set()

    @property
    def in_memory(self) -> int:
        return len(self._volatile)

    @property
    def inexact(self) -> set[int]:
        """The queues that may count too many bytes, because the size of a damaged message is unknown."""
        return self._damaged.inexact

    @property
    def admitted_bytes(self) -> int:
        """Number of bytes that were admitted and are not on disk yet."""
        return self.held_bytes + self.unwritten_bytes + self.batch.size

    def put(self, queue: int, message: Message) -> None:
        assert message.lookup_identifier, "a message must have its LookupIdentifier before it is stored"
        if message.delivery_guarantee is not _RECOVERABLE:
            self._volatile[queue, message.lookup_identifier] = message
            return
        self._write(queue, message)
        totals = self._count(queue)
        totals.message_count += 1
        totals.total_bytes += len(message.packet)
        if message.time_to_be_received != INFINITE:
            self._write_position(queue, message, EXPIRES)

    def put_all(self, queue: int, messages: Sequence[Message]) -> None:
        if messages[0].delivery_guarantee is not _RECOVERABLE:
            self._volatile.update(_by_key(queue, messages))
            return
        if messages[0].time_to_be_received != INFINITE:
            for message in messages:
                self.put(queue, message)
            return
        head = head_of(messages[0])
        pending, token, operations, puts = self._pending, self.token, self.batch.operations, self._puts
        size = 0
        for message in messages:
            lookup_id = message.lookup_identifier
            packet = message.packet or packet_of(message)
            operations.append((_PUT, _MESSAGES, message_key(queue, lookup_id), head + packet))
            key = queue, lookup_id
            pending[key] = token, message
            puts.append(key)
            size += len(packet)
        self.batch.size += size + len(head) * len(messages)
        totals = self._count(queue)
        totals.message_count += len(messages)
        totals.total_bytes += size

    def put_packets(self, queue: int, lookup_ids: range, head: bytes, packets: Sequence[bytes]) -> None:
        """Put recoverable messages that do not expire, and have this head of their records, by their packets."""
        values = [head + packet for packet in packets]
        by_key = list(zip(repeat(queue), lookup_ids, strict=False))
        self.batch.operations.extend(
            zip(repeat(_PUT), repeat(_MESSAGES), keys.message_keys(queue, lookup_ids), values, strict=False)
        )
        self._pending.update(zip(by_key, zip(repeat(self.token), values, strict=False), strict=True))
        self._puts.extend(by_key)
        size = sum(map(len, packets))
        self.batch.size += size + len(head) * len(packets)
        totals = self._count(queue)
        totals.message_count += len(packets)
        totals.total_bytes += size

    def hold(self, queue: int, message: Message) -> None:
        key = queue, message.lookup_identifier
        # It may be held already, and have changed.
        if key not in self._volatile:
            self.held_bytes += len(message.packet)
        self._volatile[key] = message

    def hold_all(self, queue: int, messages: Sequence[Message]) -> None:
        by_key = _by_key(queue, messages)
        self._volatile.update(by_key)
        self.held_bytes += sum([len(message.packet) for message in messages])
        if messages[0].time_to_be_received == INFINITE:
            self._heads.update(dict.fromkeys(by_key, head_of(messages[0])))

    def publish(self, queue: int, lookup_id: int) -> Message:
        message = self._volatile.pop((queue, lookup_id))
        assert message.lookup_identifier == lookup_id, f"{lookup_id:#x} is published under another number"
        self._heads.pop((queue, lookup_id), None)
        self.put(queue, message)
        # It has its packet again now.
        self.held_bytes -= len(message.packet)
        return message

    def publish_all(self, queue: int, lookup_ids: Sequence[int]) -> None:
        volatile, heads, pending, token = self._volatile, self._heads, self._pending, self.token
        operations, puts = self.batch.operations, self._puts
        count = size = heads_size = 0
        for lookup_id in lookup_ids:
            key = queue, lookup_id
            head = heads.pop(key, None)
            if head is None:
                self.publish(queue, lookup_id)
                continue
            message = volatile.pop(key)
            packet = message.packet or packet_of(message)
            operations.append((_PUT, _MESSAGES, message_key(queue, lookup_id), head + packet))
            pending[key] = token, message
            puts.append(key)
            count += 1
            size += len(packet)
            heads_size += len(head)
        self.batch.size += size + heads_size
        self.held_bytes -= size
        totals = self._count(queue)
        totals.message_count += count
        totals.total_bytes += size

    def update(self, queue: int, message: Message) -> None:
        if (queue, message.lookup_identifier) in self._volatile:
            self._volatile[queue, message.lookup_identifier] = message
        else:
            assert message.lookup_identifier, "a message must have its LookupIdentifier before it is stored"
            self._write(queue, message)

    def is_pending(self, queue: int, lookup_id: int) -> bool:
        """Whether the message is recoverable and not durable yet."""
        return (queue, lookup_id) in self._pending

    def get(self, queue: int, lookup_id: int) -> Message:
        message = self._volatile.get((queue, lookup_id))
        if message is not None:
            return message
        pending = self._pending.get((queue, lookup_id))
        if pending is not None:
            self.read_token = max(self.read_token, pending[0])
            return pending[1] if isinstance(pending[1], Message) else message_of(pending[1], lookup_id)
        key = keys.message_key(queue, lookup_id)
        value = self._reader.get(Table.MESSAGES, key)
        if value is None:
            raise _missing(key)
        return self._read(key, value, lookup_id)

    def get_all(self, queue: int, lookup_ids: Sequence[int]) -> list[Message]:
        volatile, pending = self._volatile, self._pending
        held: set[int] = set()
        if volatile or pending:
            held = {each for each in lookup_ids if (queue, each) in volatile or (queue, each) in pending}
        stored = [each for each in lookup_ids if each not in held] if held else lookup_ids
        wanted = keys.message_keys(queue, stored)
        values: list[bytes] = []
        while len(values) < len(wanted):
            more = self._reader.values(_MESSAGES, wanted[len(values) :])
            if not more:
                raise _missing(wanted[len(values)])
            values += more
        found = map(self._read, wanted, values, stored)
        if not held:
            return list(found)
        return [self.get(queue, each) if each in held else next(found) for each in lookup_ids]

    def _read(self, key: bytes, value: bytes, lookup_id: int) -> Message:
        try:
            return message_of(value, lookup_id) if self.checks_packets else unchecked_message_of(value, lookup_id)
        except StoreError as error:
            raise undecodable(key, value, error) from error

    def records(self, queue: int, lookup_ids: Sequence[int], at: int) -> Sequence[bytes]:
        """The MessageRecords of some of these messages from a place on, in order, at least one.

        They end soon after MAX_SCAN_BYTES, and before a damaged one, which raises RecordDamaged if it is the first.
        Messages in memory are encoded for the call.
        """
        lookup_ids = lookup_ids[at : at + _PART]
        volatile, pending = self._volatile, self._pending
        held: set[int] = set()
        if volatile or pending:
            held = {each for each in lookup_ids if (queue, each) in volatile or (queue, each) in pending}
        stored = [each for each in lookup_ids if each not in held] if held else lookup_ids
        values: Sequence[bytes] = ()
        try:
            values = self._reader.values(_MESSAGES, keys.message_keys(queue, stored))
        except RecordDamaged:
            if not held or lookup_ids[0] not in held:
                raise
        if held:
            values = self._with_held(queue, lookup_ids, held, values)
        if not values:
            raise _missing(message_key(queue, lookup_ids[0]))
        return values

    def _with_held(
        self, queue: int, lookup_ids: Sequence[int], held: set[int], values: Sequence[bytes]
    ) -> list[bytes]:  # fmt: skip
        """Insert the records of messages in memory between those of the others, as far as those go."""
        found: list[bytes] = []
        size = 0
        stored = iter(values)
        for lookup_id in lookup_ids:
            value = value_of(self.get(queue, lookup_id)) if lookup_id in held else next(stored, None)
            if value is None or size >= MAX_SCAN_BYTES:
                break
            found.append(value)
            size += len(value)
        return found

    def delete(self, queue: int, message: Message) -> None:
        lookup_id = message.lookup_identifier
        if self._volatile.pop((queue, lookup_id), None) is not None:
            self._let_go(queue, message)
            return
        self._pending.pop((queue, lookup_id), None)
        key = keys.message_key(queue, lookup_id)
        self.batch.delete(Table.MESSAGES, key)
        if queue in self._positions:
            self.batch.delete(Table.POSITIONS, key)
        totals = self._count(queue)
        totals.message_count -= 1
        totals.total_bytes -= len(message.packet)

    def delete_all(self, queue: int, messages: Sequence[Message]) -> int:
        volatile, pending, operations = self._volatile, self._pending, self.batch.operations
        has_positions = queue in self._positions
        size = volatile_size = count = 0
        for message in messages:
            lookup_id = message.lookup_identifier
            if volatile.pop((queue, lookup_id), None) is not None:
                self._let_go(queue, message)
                volatile_size += len(message.packet)
                continue
            pending.pop((queue, lookup_id), None)
            key = message_key(queue, lookup_id)
            operations.append((_DELETE, _MESSAGES, key, b""))
            if has_positions:
                operations.append((_DELETE, Table.POSITIONS, key, b""))
            count += 1
            size += len(message.packet)
        totals = self._count(queue)
        totals.message_count -= count
        totals.total_bytes -= size
        return size + volatile_size

    def _let_go(self, queue: int, message: Message) -> None:
        """Forget a message that was in memory only. A recoverable one was held."""
        self._heads.pop((queue, message.lookup_identifier), None)
        if message.delivery_guarantee is _RECOVERABLE:
            self.held_bytes -= len(message.packet)

    def set_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> int:
        """See waypost.core.ports.MessageTable. All changes are part of the current batch."""
        key = keys.message_key(queue.number, lookup_id)
        self._damaged.keep(self.batch, queue, lookup_id, damage)
        if damage.value is not None:
            # An unreachable record stays: a salvage may still find it.
            self.batch.delete(Table.MESSAGES, key)
        self.batch.delete(Table.POSITIONS, key)
        totals = self._count(queue.number)
        totals.message_count -= 1
        size = min(size_of(damage.value, lookup_id), totals.total_bytes)
        totals.total_bytes -= size
        return size

    def set_stray_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> None:
        """Set aside a record that is among the messages of a queue and was never counted as one of them."""
        self._damaged.keep(self.batch, queue, lookup_id, damage)
        self.batch.delete(Table.MESSAGES, damage.key)

    def set_purge_pending(self, queue: int, message: Message, *, is_pending: bool) -> None:
        """Set whether the message is removed when its lock ends, also after a restart."""
        lookup_id = message.lookup_identifier
        if (queue, lookup_id) in self._volatile:
            return
        flags = 0 if message.time_to_be_received == INFINITE else EXPIRES
        if is_pending:
            flags |= PURGE_PENDING
        if flags:
            self._write_position(queue, message, flags)
        else:
            self.batch.delete(Table.POSITIONS, message_key(queue, lookup_id))

    def delete_queue(self, queue: int) -> None:
        """Remove the totals and positions of a queue. Its messages are deleted already."""
        self.batch.delete(Table.COUNTERS, keys.totals_key(queue))
        self._touched.discard(queue)
        self._totals.pop(queue, None)
        self._positions.discard(queue)

    def restore(self, queue: int, totals: TotalsRecord) -> None:
        self._totals[queue] = totals

    def restore_position(self, queue: int) -> None:
        """Note that the queue has PositionRecords."""
        self._positions.add(queue)

    def seal(self) -> tuple[Batch, int]:
        """End the batch, and start the next."""
        for queue in sorted(self._touched):
            totals = self._totals[queue]
            if not totals.message_count:
                # The size of a missing message was unknown.
                totals.total_bytes = 0
            assert totals.message_count >= 0, f"more messages of queue {queue} were deleted than were stored"
            self.batch.put(Table.COUNTERS, keys.totals_key(queue), totals.encode())
        sealed = self.batch, self.token
        if self._puts:
            self._submitted.append((self.token, self._puts))
            self._puts = []
        self._touched.clear()
        self._sizes.append(self.batch.size)
        self.unwritten_bytes += self.batch.size
        self.batch = Batch()
        self.token += 1
        return sealed

    def persisted(self, token: int) -> None:
        """Note that this batch, the next one, is durable: its messages are read from the store from now on."""
        self.unwritten_bytes -= self._sizes.popleft()
        assert token < self.token, f"batch {token} is durable, but is still the current batch"
        assert self.unwritten_bytes >= 0, "more bytes are durable than were waiting for the disk"
        while self._submitted and self._submitted[0][0] <= token:
            written, puts = self._submitted.popleft()
            for key in puts:
                pending = self._pending.get(key)
                if pending is not None and pending[0] == written:
                    del self._pending[key]

    def _write(self, queue: int, message: Message) -> None:
        key = queue, message.lookup_identifier
        self.batch.put(Table.MESSAGES, keys.message_key(*key), value_of(message))
        self._pending[key] = self.token, message
        self._puts.append(key)

    def _write_position(self, queue: int, message: Message, flags: int) -> None:
        self._positions.add(queue)
        expiry = message.sent_time + message.time_to_be_received if flags & EXPIRES else 0
        record = PositionRecord(flags, expiry)
        self.batch.put(Table.POSITIONS, keys.message_key(queue, message.lookup_identifier), record.encode())

    def _count(self, queue: int) -> TotalsRecord:
        self._touched.add(queue)
        totals = self._totals.get(queue)
        if totals is None:
            totals = self._totals[queue] = TotalsRecord()
        return totals


def _missing(key: bytes) -> RecordDamaged:
    return RecordDamaged(f"{describe(_MESSAGES, key)} is missing in the store", _MESSAGES, key)


def undecodable(key: bytes, value: bytes, error: StoreError) -> RecordDamaged:
    """The error for the record of a message with a right checksum that Waypost does not understand."""
    reason = f"cannot decode {describe(_MESSAGES, key)}: {error}"
    return RecordDamaged(reason, _MESSAGES, key, seal(_MESSAGES, key, value))


def _by_key(queue: int, messages: Sequence[Message]) -> dict[_Key, Message]:
    return {(queue, message.lookup_identifier): message for message in messages}
