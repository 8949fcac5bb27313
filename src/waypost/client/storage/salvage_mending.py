"""Records from a damaged file, and repairs that make them a store of a queue manager again.

Messages go to the new store immediately, and only their numbers stay in memory; the other tables fit into memory. When
all are there, totals, positions and counters are made to agree with the messages, and queues with lost records are
created again for their messages.
"""

from array import array
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from waypost.client.storage.salvage_records import Found, Losses
from waypost.core.positions import SEQUENCE_MASK
from waypost.drive.new_guid import new_guid
from waypost.errors import StoreDamaged, StoreError, WaypostError
from waypost.node import any_record
from waypost.node.message_records import message_of
from waypost.node.reserves import BLOCK
from waypost.security.callers import FIRST_RID
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.port import Table
from waypost.store.queue_records import QueueKind, QueueManagerRecord, QueueRecord
from waypost.store.records import EXPIRES, CounterRecord, PositionRecord, TotalsRecord, decode_message
from waypost.store.user_records import (
    GROUP_PREFIX,
    LOST_KEY,
    STATE_KEY,
    USER_PREFIX,
    GroupRecord,
    LostUsersRecord,
    UserRecord,
    UsersRecord,
)
from waypost.wire.codec import INFINITE

# Distance from the last known number at which a counter with a lost record continues.
_FAR: Final = 16 * BLOCK
# The same for the numbers of accounts, below the largest that a user can be given.
_FAR_RID: Final = 1 << 20
_LARGEST_RID: Final = 1 << 30
# Names of lost users that the new store keeps.
_NAMED: Final = 100

Put = Callable[[Table, bytes, bytes], None]
Get = Callable[[Table, bytes], bytes | None]


class Recovered:
    """The recovered records. `put` writes to the new store, and `get` reads from it."""

    def __init__(self, put: Put, get: Get) -> None:
        self._put: Final = put
        self._get: Final = get
        self._older: Final[dict[Table, dict[bytes, bytes]]] = defaultdict(dict)
        self._bytes: Final[Tally[int]] = Tally()
        self._orphans: Final[set[bytes]] = set()
        # All records except the messages.
        self.tables: Final[dict[Table, dict[bytes, bytes]]] = {
            table: {} for table in Table if table is not Table.MESSAGES
        }
        # Numbers of the messages, by the ids of their queues.
        self.lookup_ids: Final[dict[int, array[int]]] = defaultdict(lambda: array("Q"))
        # Numbers of messages that may have been received already, and that the old store counted.
        self.uncertain: Final[Tally[int]] = Tally()
        self.counted: Final[dict[int, int]] = {}
        # Queues with lost records.
        self.made: Final[set[int]] = set()
        # True if users or groups may be lost.
        self.has_lost_users = False

    def take(self, found: Found) -> None:
        """Take a record that the trees lead to."""
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
        """Take a record that the trees no longer lead to. It may come twice if the free pages are unknown."""
        if found.table is Table.MESSAGES:
            if found.key in self._orphans:
                return
            self._orphans.add(found.key)
            if not found.is_sure:
                self.uncertain[keys.queue_id_of(found.key)] += 1
        self.take(found)

    def take_older(self, found: Found) -> None:
        """Take a record from before the last moment: better than none, for a queue with messages and for counters."""
        _keep_later(self._older[found.table], found)

    @property
    def is_empty(self) -> bool:
        """True if no record was found, of any moment."""
        return not (self.lookup_ids or any(self.tables.values()) or any(self._older.values()))

    @property
    def queues(self) -> dict[int, QueueRecord]:
        return {keys.queue_id_of(key): QueueRecord.decode(value) for key, value in self.tables[Table.QUEUES].items()}

    def mend(self, losses: Losses) -> None:
        """Make the other tables agree with the messages."""
        self._mend_queues()
        self._mend_users(losses)
        self._mend_counters(is_damaged=Table.COUNTERS in losses.tables)
        self._mend_positions(is_damaged=Table.POSITIONS in losses.tables)
        queues = self.queues
        sequences, bulk = self.tables[Table.SEQUENCES], self.tables[Table.BULK]
        for key in [key for key in sequences if keys.sequence_of(key)[0] not in queues]:
            del sequences[key]
        for key in [key for key in bulk if (claim := keys.claim_of(key)) is not None and claim[0] not in queues]:
            del bulk[key]

    def _mend_queues(self) -> None:
        """Make sure that every queue with messages has a record, and every parent too."""
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

    def _mend_users(self, losses: Losses) -> None:
        """Mark a store that may lack users, and keep the SIDs of lost ones from new users."""
        users = self.tables[Table.USERS]
        lost = [key for table, key, _ in losses.records if table is Table.USERS]
        for key in sorted(users):
            try:
                any_record.decode(Table.USERS, key, users[key])
            except StoreDamaged:
                del users[key]
                lost.append(key)
        if losses.users is not None and len(users) >= losses.users:
            return
        self.has_lost_users = True
        names = {key.partition(b":")[2].decode("utf-8", "replace") for key in lost if b":" in key}
        if LOST_KEY in users:
            names.update(LostUsersRecord.decode(users[LOST_KEY]).names)
        users[LOST_KEY] = LostUsersRecord(names=sorted(names)[:_NAMED]).encode()
        known = UsersRecord.decode(users[STATE_KEY]) if STATE_KEY in users else UsersRecord(last_rid=0, imported="")
        last = max(known.last_rid, FIRST_RID, *map(_last_rid, users.items()))
        users[STATE_KEY] = replace(known, last_rid=last + _FAR_RID).encode()

    def _made_queue(self, queue: int) -> QueueRecord:
        return QueueRecord(
            QueueKind.PRIVATE,
            private_queue_number=self._least(Counter.PRIVATE_QUEUE_NUMBER) + 1,
            identifier=new_guid(),
            pathname=f".\\private$\\salvaged-{queue}",
            qualified_pathname=f".\\private$\\salvaged-{queue}",
            label="Messages of a queue with a lost record",
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
        """Let a counter with a lost record continue far after the last number that it is known to have given."""
        counters = self.tables[Table.COUNTERS]
        known = max(0 if older is None else CounterRecord.decode(older).value, self._least(counter))
        if counter.value not in counters and known:
            is_time = counter in (Counter.SEQUENCE_TIME_STAMP, Counter.LATEST_TIME)
            counters[counter.value] = CounterRecord(known if is_time else known + _FAR).encode()

    def _least(self, counter: Counter) -> int:
        """The last number of this counter that appears in a record."""
        if counter is Counter.QUEUE_ID:
            return max(self.queues, default=0)
        if counter is Counter.PRIVATE_QUEUE_NUMBER:
            return max((record.private_queue_number for record in self.queues.values()), default=0)
        if counter in (Counter.SEQUENTIAL_ID, Counter.MESSAGE_ID_ORDINAL):
            return max((each & SEQUENCE_MASK for ids in self.lookup_ids.values() for each in ids), default=0)
        return 0

    def _mend_positions(self, *, is_damaged: bool) -> None:
        """Make sure that only messages have positions, and that every message that expires has one."""
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
    """Keep the later of two records with one key, by their content."""
    before = records.get(found.key)
    if before is None or _age(found.table, found.key, found.value) >= _age(found.table, found.key, before):
        records[found.key] = found.value


def _age(table: Table, key: bytes, value: bytes) -> int:
    """A number that grows with time: the time of the last change of a queue, or the value of a counter."""
    try:
        if table is Table.QUEUES:
            return QueueRecord.decode(value).modify_time
        if table is Table.COUNTERS and key == keys.QUEUE_MANAGER_KEY:
            return QueueManagerRecord.decode(value).modify_time
        return CounterRecord.decode(value).value if table is Table.COUNTERS else 0
    except StoreError:
        return 0


def _last_rid(item: tuple[bytes, bytes]) -> int:
    """The last number of the SID of a user or a group, 0 for other records and for large numbers of other domains."""
    key, value = item
    if key.startswith(USER_PREFIX):
        sid = UserRecord.decode(value).sid
    elif key.startswith(GROUP_PREFIX):
        sid = GroupRecord.decode(value).sid
    else:
        return 0
    last = int(sid.rpartition("-")[2])
    return last if last <= _LARGEST_RID else 0


def _last_number(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big")


def _expiry(value: bytes, lookup_id: int) -> int | None:
    """The time when the message expires, in seconds since 1970; None if it does not, or is malformed."""
    try:
        message = message_of(value, lookup_id)
        waits = message.time_to_be_received
        return None if waits == INFINITE else message.sent_time + waits
    except WaypostError:
        return None
