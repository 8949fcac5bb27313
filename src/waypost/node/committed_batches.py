"""Committed batches of queries, by destination: they make a commit happen only once.

A commit is known by its query, its batch and its destination, so that a query that goes on to another queue writes
there what it has written elsewhere. Its record has the run of the query and a digest of the stages. They separate a
repetition, which changes nothing, from a second write under the same name, which is refused, never dropped (ADR 29).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from waypost.core.queue_collection import QueueCollection
from waypost.errors import LimitReached, TransactionSequence
from waypost.guid import NULL_GUID
from waypost.limits import MAX_BATCHES, MAX_QUERIES, QUIET_QUERY_SECONDS
from waypost.node.kernel import Kernel
from waypost.store import keys
from waypost.store.bulk_records import CommitRecord, CommitsRecord
from waypost.store.port import Table
from waypost.wire.format_names import DirectFormatName, FormatName, MultipleElementFormatName
from waypost.wire.path_names import PathName, QueueKind

# The destination of messages that each name a queue.
BY_COLUMN: Final = ""


@dataclass(frozen=True, slots=True)
class Key:
    """A commit that happens once. Without a destination it applies to all destinations."""

    query: str
    batch: int
    destination: str | None = None

    def matches(self, other: "Key") -> bool:
        return (self.query, self.batch) == (other.query, other.batch) and (
            self.destination == other.destination or None in (self.destination, other.destination)
        )

    def __str__(self) -> str:
        to = "" if not self.destination else f" to {self.destination}"
        return f"batch {self.batch} of the query {self.query}{to}"


class CommittedBatches:
    """The committed batches of one node.

    A query and destination without commits for QUIET_QUERY_SECONDS make room for others; no other is forgotten.
    """

    __slots__ = ("_by_query", "_kernel", "_quiet")

    def __init__(self, kernel: Kernel, kept: Iterable[tuple[str, CommitsRecord]]) -> None:
        self._kernel: Final = kernel
        self._by_query: Final[dict[str, dict[str | None, CommitsRecord]]] = {}
        self._quiet: Final[dict[tuple[str, str | None], None]] = {}
        for query, record in sorted(kept, key=lambda each: each[1].committed_time):
            self._by_query.setdefault(query, {})[record.destination] = record
            self._quiet[query, record.destination] = None

    def find(self, key: Key) -> CommitRecord | None:
        for record in self._records(key):
            found = record.find(key.batch)
            if found is not None:
                return found
        return None

    def batches(self, query: str) -> list[int]:
        """The last committed batches of a query, to any destination, ascending."""
        return sorted({batch for record in self._by_query.get(query, {}).values() for batch in record.batches})

    def check_is_known(self, key: Key) -> None:
        """Raise TransactionSequence if the batch is older than all that are remembered."""
        for record in self._records(key):
            done = record.batches
            if len(done) >= MAX_BATCHES and key.batch < done[0]:
                raise TransactionSequence(
                    f"no record is left of whether batch {key.batch} of the query {key.query} was committed: the first "
                    f"batch on record is {done[0]}"
                )

    def check_room(self, key: Key, wall: float) -> None:
        """Raise LimitReached if the batches of one more query and destination find no room."""
        if len(self._quiet) < MAX_QUERIES or (key.query, key.destination) in self._quiet:
            return
        query, destination = next(iter(self._quiet))
        if wall - self._by_query[query][destination].committed_time < QUIET_QUERY_SECONDS:
            raise LimitReached(
                f"the limit of {MAX_QUERIES} remembered queries and destinations is reached, and none was quiet for "
                f"{QUIET_QUERY_SECONDS // 86_400} days, so {key} finds no place; use the name of a known query"
            )

    def remember(self, key: Key, commit: CommitRecord, wall: float) -> None:
        batch = self._kernel.messages.batch
        place = key.query, key.destination
        record = self._by_query.setdefault(key.query, {}).setdefault(key.destination, CommitsRecord(0, key.destination))
        if record.is_old:
            batch.delete(Table.BULK, keys.batches_key(key.query))
            record.is_old = False
        record.committed_time = int(wall)
        record.add(commit, MAX_BATCHES)
        self._quiet.pop(place, None)
        self._quiet[place] = None
        batch.put(Table.BULK, keys.commits_key(*place), record.encode())
        if len(self._quiet) > MAX_QUERIES:
            self._forget(*next(iter(self._quiet)))

    def _records(self, key: Key) -> Iterator[CommitsRecord]:
        """The records that may hold a commit under this key."""
        records = self._by_query.get(key.query, {})
        if key.destination is None:
            yield from records.values()
            return
        for destination in (key.destination, None):
            if destination in records:
                yield records[destination]

    def _forget(self, query: str, destination: str | None) -> None:
        del self._quiet[query, destination]
        record = self._by_query[query].pop(destination)
        if not self._by_query[query]:
            del self._by_query[query]
        key = keys.batches_key(query) if record.is_old else keys.commits_key(query, destination)
        self._kernel.messages.batch.delete(Table.BULK, key)


def check_repeats(done: CommitRecord, key: Key, run: bytes, digest: bytes = NULL_GUID) -> None:
    """Raise TransactionSequence unless this is a repetition of the done commit: another run, or the same stages.

    If only the number of the batch is known, every other write counts as a repetition.
    """
    if done.digest in (NULL_GUID, digest) or run not in (NULL_GUID, done.run):
        return
    raise TransactionSequence(
        f"{key} is committed already, with {done.count} messages: a second write under its name, or one of an "
        "abandoned task, is refused and dropped; a write that is not a repetition needs another txnId"
    )


def digest_of(stages: Iterable[bytes]) -> bytes:
    """A digest of these stages, in any order; never NULL."""
    return blake2b(b"".join(sorted(set(stages))), digest_size=len(NULL_GUID)).digest()


def destination_of(name: FormatName, queues: QueueCollection) -> str:
    """The full path of the queue that a name means here, the same for all its names and in any case.

    A queue of another computer with an unknown path has its format name.
    """
    if isinstance(name, MultipleElementFormatName):
        return ",".join(destination_of(each, queues) for each in name.elements)
    queue = queues.find(name)
    if queue is not None:
        return str(queue).casefold()
    if isinstance(name, DirectFormatName) and name.kind is not QueueKind.SYSTEM:
        host = queues.identity.computer_name if queues.identity.is_local(name.host) else name.host
        return str(PathName(host, name.kind, name.queue, name.subqueue)).casefold()
    return str(name).casefold()
