"""Runs of queries that have lost a claim: what they still write is refused.

A run loses a claim when its lease ends, when a later start of its program takes it, or when it is released. A run that
was paused meanwhile may come back at any time, so that each is remembered for a year, as the commits of its query are
(waypost.node.committed_batches). The records are in the store, and read from there: their number has no limit, and they
outlive the claim.
"""

from typing import Final

from waypost.guid import NULL_GUID
from waypost.limits import COMMITS_SWEPT, NAMED_COMMIT_SECONDS
from waypost.node import scans
from waypost.node.kernel import Kernel
from waypost.store import keys
from waypost.store.bulk_records import LostRunRecord
from waypost.store.port import Reader, Table, after


class LostRuns:
    """The lost runs of one node."""

    __slots__ = ("_kernel", "_reader", "_recent", "_swept")

    def __init__(self, kernel: Kernel, reader: Reader) -> None:
        self._kernel: Final = kernel
        self._reader: Final = reader
        # Records that are written and not durable, with their batches: the store does not show them yet.
        self._recent: dict[bytes, tuple[int, LostRunRecord]] = {}
        # The last key of the store that was looked at.
        self._swept = b""

    def add(self, query: str, run: bytes, claim: str, wall: float) -> None:
        """Remember that a run has lost a claim."""
        if run == NULL_GUID:
            return
        messages, durable = self._kernel.messages, self._kernel.durable
        key, record = keys.lost_run_key(query, run), LostRunRecord(query, claim, int(wall))
        messages.batch.put(Table.BULK, key, record.encode())
        self._recent = {each: recent for each, recent in self._recent.items() if recent[0] > durable}
        self._recent[key] = messages.token, record
        self._sweep(wall)

    def claim_of(self, query: str, run: bytes) -> str | None:
        """The claim that this run of the query has lost; None if it has lost none."""
        if run == NULL_GUID or not query:
            return None
        key = keys.lost_run_key(query, run)
        recent = self._recent.get(key)
        if recent is not None and recent[0] > self._kernel.durable:
            return recent[1].claim
        value = self._reader.get(Table.BULK, key)
        if value is None:
            return None
        record = scans.decoded(Table.BULK, key, value, LostRunRecord.decode)
        return None if _is_over(record, self._kernel.now.wall) else record.claim

    def _sweep(self, wall: float) -> None:
        """Delete records that are over among the next few."""
        start, stop = keys.lost_run_range()
        page = self._reader.scan(Table.BULK, self._swept or start, stop, COMMITS_SWEPT)
        self._swept = after(page[-1][0]) if len(page) == COMMITS_SWEPT else b""
        for key, value in page:
            record = scans.decoded(Table.BULK, key, value, LostRunRecord.decode)
            if _is_over(record, wall) and key not in self._recent:
                self._kernel.messages.batch.delete(Table.BULK, key)


def _is_over(record: LostRunRecord, wall: float) -> bool:
    return wall > record.lost_time + NAMED_COMMIT_SECONDS
