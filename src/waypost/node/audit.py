"""The audit trail: who changed what, from where, with which result; in the store, with the changes themselves.

An entry goes into the batch of the change that it is about, and the answer waits for both. Refusals are noted too; a
flood of them is cut short, and the next entry says by how many. The trail keeps a number of entries; older ones are
removed in blocks, and an entry says so.
"""

from datetime import UTC, datetime
from typing import Final

from waypost.api.users import AuditEntry
from waypost.clock import Now
from waypost.limits import AUDIT_BLOCK, MAX_AUDIT_ENTRIES, MAX_AUDIT_TEXT, REFUSALS_PER_MINUTE
from waypost.node import scans
from waypost.node.kernel import Kernel
from waypost.node.noted import Noted
from waypost.security.callers import QUEUE_MANAGER
from waypost.store.port import Reader, Table
from waypost.store.user_records import AuditRecord, audit_key, audit_number_of


class AuditTrail:
    """The audit trail of one queue manager."""

    __slots__ = ("_first", "_kernel", "_minute", "_next", "_reader", "_refusals", "_skipped", "_unwritten", "denied")

    def __init__(self, kernel: Kernel, reader: Reader) -> None:
        self._kernel: Final = kernel
        self._reader: Final = reader
        # The keys alone: a damaged entry must not prevent a start.
        numbers = [audit_number_of(key) for key in scans.keys(reader, Table.AUDIT) if len(key) == len(audit_key(0))]
        self._first = numbers[0] if numbers else 0
        self._next = numbers[-1] + 1 if numbers else 0
        # Entries that may not be in the store yet, by their batches.
        self._unwritten: list[tuple[int, int, AuditRecord]] = []
        # Refusals in the present minute, by a monotonic clock, and those that were not noted.
        self._minute = 0
        self._refusals = 0
        self._skipped = 0
        # Callers without the role or the right, since the start.
        self.denied = 0

    def __len__(self) -> int:
        return self._next - self._first

    @property
    def oldest(self) -> int:
        return self._first

    def note(self, noted: Noted) -> None:
        """Add an entry to the current batch."""
        if self._skipped:
            more = Noted(QUEUE_MANAGER, "refuse", "")
            more.count, self._skipped = self._skipped, 0
            more.result = "more refusals, without entries"
            self._put(more)
        if self._next - self._first >= MAX_AUDIT_ENTRIES:
            batch = self._kernel.messages.batch
            batch.delete_range(Table.AUDIT, audit_key(self._first), audit_key(self._first + AUDIT_BLOCK))
            self._first += AUDIT_BLOCK
            rotated = Noted(QUEUE_MANAGER, "rotate audit trail", "")
            rotated.count = AUDIT_BLOCK
            rotated.result = f"ok: the oldest {AUDIT_BLOCK} entries were removed"
            self._put(rotated)
            self._kernel.notice("audit trail rotated", removed=AUDIT_BLOCK, kept=len(self))
        self._put(noted)

    def refused(self, now: Now) -> bool:
        """Whether to note one more refusal, in view of those of the last minute."""
        minute = int(now.monotonic // 60)
        if minute != self._minute:
            self._minute, self._refusals = minute, 0
        self._refusals += 1
        if self._refusals > REFUSALS_PER_MINUTE:
            self._skipped += 1
            return False
        return True

    def _put(self, noted: Noted) -> None:
        messages, caller = self._kernel.messages, noted.caller
        record = AuditRecord(
            time=int(self._kernel.now.wall * 1000),
            who=caller.name,
            sid=str(caller.sid),
            origin=caller.origin,
            action=noted.what,
            object=noted.object[:MAX_AUDIT_TEXT],
            count=noted.count,
            result=noted.result[:MAX_AUDIT_TEXT],
        )
        messages.batch.put(Table.AUDIT, audit_key(self._next), record.encode())
        self._unwritten = [each for each in self._unwritten if each[0] > self._kernel.durable]
        self._unwritten.append((messages.token, self._next, record))
        self._next += 1

    def entries(self, limit: int, after: int) -> list[AuditEntry]:
        """The last entries, or the first ones after a number. Damaged ones are left out."""
        first = max(self._first, self._next - limit if after < 0 else after + 1)
        last = min(self._next, first + limit)
        found = {
            audit_number_of(key): scans.decoded(Table.AUDIT, key, value, AuditRecord.decode)
            for key, value in scans.whole_items(self._reader, Table.AUDIT, audit_key(first), audit_key(last))
        }
        found |= {number: record for _, number, record in self._unwritten if first <= number < last}
        return [_entry(number, found[number]) for number in sorted(found)]


def _entry(number: int, record: AuditRecord) -> AuditEntry:
    return AuditEntry(
        number=number,
        time=datetime.fromtimestamp(record.time / 1000, UTC),
        who=record.who,
        sid=record.sid,
        origin=record.origin,
        what=record.action,
        object=record.object,
        count=record.count,
        result=record.result,
    )
