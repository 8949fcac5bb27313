"""Records out of a damaged file, and what makes a queue manager of them again.

Messages go into the new store at once, and of each only its number is kept; the other tables fit into memory. When all
are there, totals, positions and counters are made to agree with the messages, and queues whose records are lost are
made for the messages that they had.
"""

from array import array
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from waypost.client.storage.salvage_records import Found, Losses
from waypost.core.positions import SEQUENCE_MASK
from waypost.drive.new_guid import new_guid
from waypost.errors import StoreError, WaypostError
from waypost.node.message_records import message_of
from waypost.node.reserves import BLOCK
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.port import Table
from waypost.store.queue_records import QueueKind, QueueManagerRecord, QueueRecord
from waypost.store.records import EXPIRES, CounterRecord, PositionRecord, TotalsRecord, decode_message
from waypost.wire.codec import INFINITE

# Counters whose records are lost go on this far behind everything that is known to have been given.
_FAR: Final = 16 * BLOCK

Put = Callable[[Table, bytes, bytes], None]
Get = Callable[[Table, bytes], bytes | None]


class Recovered:
    """What was brought back. `put` writes to the new store, and `get` reads what was put."""

    def __init__(self, put: Put, get: Get) -> None:
        self._put: Final = put
        self._get: Final = get
        self._older: Final[dict[Table, dict[bytes, bytes]]] = defaultdict(dict)
        self._bytes: Final[Tally[int]] = Tally()
        self._orphans: Final[set[bytes]] = set()
        # All records but the messages.
        self.tables: Final[dict[Table, dict[bytes, bytes]]] = {
            table: {} for table in Table if table is not Table.MESSAGES
        }
        # Of the messages, by the ids of their queues.
        self.lookup_ids: Final[dict[int, array[int]]] = defaultdict(lambda: array("Q"))
        # How many of them may have been received already, and how many the old store had counted.
        self.uncertain: Final[Tally[int]] = Tally()
        self.counted: Final[dict[int, int]] = {}
        # Queues whose records are lost.
        self.made: Final[set[int]] = set()

    def take(self, found: Found) -> None:
        """A record that the trees lead to."""
        if found.table is not Table.MESSAGES:
            _keep_later(self.tables[found.table], found)
            return
        queue = keys.queue_id_of(found.key)
        try:
            size = len(decode_message(found.value)[-1])
        except StoreError:
            return
        self.lookup_ids[queue].append(keys.lookup_id_of(found.key))
        self._bytes[queue] += size
        self._put(Table.MESSAGES, found.key, found.value)

    def take_orphan(self, found: Found) -> None:
        """A record that they do not lead to any more. It may be there twice where free pages are not known."""
        if found.table is Table.MESSAGES:
            if found.key in self._orphans:
                return
            self._orphans.add(found.key)
            if not found.is_sure:
                self.uncertain[keys.queue_id_of(found.key)] += 1
        self.take(found)

    def take_older(self, found: Found) -> None:
        """A record from before the last moment: better than none, for a queue that has messages and for counters."""
        _keep_later(self._older[found.table], found)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found, of any moment."""
        return not (self.lookup_ids or any(self.tables.values()) or any(self._older.values()))

    @property
    def queues(self) -> dict[int, QueueRecord]:
        return {keys.queue_id_of(key): QueueRecord.decode(value) for key, value in self.tables[Table.QUEUES].items()}

    def mend(self, losses: Losses) -> None:
        """Make the other tables agree with the messages."""
        self._mend_queues()
        self._mend_counters(is_damaged=Table.COUNTERS in losses.tables)
        self._mend_positions(is_damaged=Table.POSITIONS in losses.tables)
        queues = self.queues
        sequences, bulk = self.tables[Table.SEQUENCES], self.tables[Table.BULK]
        for key in [key for key in sequences if keys.sequence_of(key)[0] not in queues]:
            del sequences[key]
        for key in [key for key in bulk if (claim := keys.claim_of(key)) is not None and claim[0] not in queues]:
            del bulk[key]

    def _mend_queues(self) -> None:
        """Every queue with messages has a record, and so has every parent."""
        wanted = [queue for queue, ids in sorted(self.lookup_ids.items()) if ids]
        wanted += [record.parent for record in self.queues.values() if record.parent]
        records = self.tables[Table.QUEUES]
        while wanted:
            key = keys.queue_key(queue := wanted.pop())
            if key in records:
                continue
            value = self._older[Table.QUEUES].get(key)
            if value is None:
                self.made.add(queue)
                value = self._made_queue(queue).encode()
            records[key] = value
            parent = QueueRecord.decode(value).parent
            wanted += [parent] if parent else []

    def _made_queue(self, queue: int) -> QueueRecord:
        return QueueRecord(
            QueueKind.PRIVATE,
            private_queue_number=self._least(Counter.PRIVATE_QUEUE_NUMBER) + 1,
            identifier=new_guid(),
            pathname=f".\\private$\\salvaged-{queue}",
            qualified_pathname=f".\\private$\\salvaged-{queue}",
            label="Messages of a queue whose record is lost",
        )

    def _mend_counters(self, *, is_damaged: bool) -> None:
        counters, older = self.tables[Table.COUNTERS], self._older[Table.COUNTERS]
        if is_damaged:
            for counter in Counter:
                self._mend_counter(counter, older.get(counter.value))
            if keys.QUEUE_MANAGER_KEY in older:
                counters.setdefault(keys.QUEUE_MANAGER_KEY, older[keys.QUEUE_MANAGER_KEY])
        for key in [key for key in counters if key == keys.totals_key(_last_number(key))]:
            self.counted[_last_number(key)] = TotalsRecord.decode(counters.pop(key)).message_count
        for queue, lookup_ids in self.lookup_ids.items():
            totals = TotalsRecord(len(lookup_ids), self._bytes[queue])
            counters[keys.totals_key(queue)] = totals.encode()

    def _mend_counter(self, counter: Counter, older: bytes | None) -> None:
        """One whose record is lost goes on far behind all that it has given, as far as that is known."""
        counters = self.tables[Table.COUNTERS]
        known = max(0 if older is None else CounterRecord.decode(older).value, self._least(counter))
        if counter.value not in counters and known:
            is_time = counter in (Counter.SEQUENCE_TIME_STAMP, Counter.LATEST_TIME)
            counters[counter.value] = CounterRecord(known if is_time else known + _FAR).encode()

    def _least(self, counter: Counter) -> int:
        """What this counter has given at least, by what there is."""
        if counter is Counter.QUEUE_ID:
            return max(self.queues, default=0)
        if counter is Counter.PRIVATE_QUEUE_NUMBER:
            return max((record.private_queue_number for record in self.queues.values()), default=0)
        if counter in (Counter.SEQUENTIAL_ID, Counter.MESSAGE_ID_ORDINAL):
            return max((each & SEQUENCE_MASK for ids in self.lookup_ids.values() for each in ids), default=0)
        return 0

    def _mend_positions(self, *, is_damaged: bool) -> None:
        """Only messages have positions, and those that expire all have one."""
        positions = self.tables[Table.POSITIONS]
        sets: dict[int, set[int]] = {}
        for key in list(positions):
            queue = keys.queue_id_of(key)
            if queue not in sets:
                sets[queue] = set(self.lookup_ids.get(queue, ()))
            if keys.lookup_id_of(key) not in sets[queue]:
                del positions[key]
        if not is_damaged:
            return
        for queue, lookup_ids in self.lookup_ids.items():
            for lookup_id in lookup_ids:
                key = keys.message_key(queue, lookup_id)
                value = None if key in positions else self._get(Table.MESSAGES, key)
                if value is not None and (expiry := _expiry(value, lookup_id)) is not None:
                    positions[key] = PositionRecord(EXPIRES, expiry).encode()


def _keep_later(records: dict[bytes, bytes], found: Found) -> None:
    """Of two records under one key, the later one, as far as they say."""
    before = records.get(found.key)
    if before is None or _age(found.table, found.key, found.value) >= _age(found.table, found.key, before):
        records[found.key] = found.value


def _age(table: Table, key: bytes, value: bytes) -> int:
    """Grows with time: queues say when they were changed, and counters only grow."""
    try:
        if table is Table.QUEUES:
            return QueueRecord.decode(value).modify_time
        if table is Table.COUNTERS and key == keys.QUEUE_MANAGER_KEY:
            return QueueManagerRecord.decode(value).modify_time
        return CounterRecord.decode(value).value if table is Table.COUNTERS else 0
    except StoreError:
        return 0


def _last_number(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big")


def _expiry(value: bytes, lookup_id: int) -> int | None:
    """When the message expires, in seconds since 1970; None if it does not, or cannot be read."""
    try:
        message = message_of(value, lookup_id)
        waits = message.time_to_be_received
        return None if waits == INFINITE else message.sent_time + waits
    except WaypostError:
        return None
