"""Which batches of which queries are committed, to which destinations: what makes a commit happen once.

A commit is known by its query, its batch and its destination, so that a query that goes on to another queue writes
there what it has written elsewhere. With it stand the run of the query and a digest of the stages: they tell a
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

# The destination of messages that each say themselves where they go.
BY_COLUMN: Final = ""


@dataclass(frozen=True, slots=True)
class Key:
    """What is committed once. Without a destination it is for every destination that there is."""

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
    """Those of one node.

    A query and destination that were quiet for QUIET_QUERY_SECONDS make room for others; sooner, nothing is forgotten.
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
        """The last ones of a query that were committed to any destination, ascending."""
        return sorted({batch for record in self._by_query.get(query, {}).values() for batch in record.batches})

    def check_is_known(self, key: Key) -> None:
        """Raise TransactionSequence if the batch is older than all that are remembered."""
        for record in self._records(key):
            done = record.batches
            if len(done) >= MAX_BATCHES and key.batch < done[0]:
                raise TransactionSequence(
                    f"whether batch {key.batch} of the query {key.query} was committed is not known any more, but of "
                    f"its batches from {done[0]} on"
                )

    def check_room(self, key: Key, wall: float) -> None:
        """Raise LimitReached if the batches of one more query and destination cannot be remembered."""
        if len(self._quiet) < MAX_QUERIES or (key.query, key.destination) in self._quiet:
            return
        query, destination = next(iter(self._quiet))
        if wall - self._by_query[query][destination].committed_time < QUIET_QUERY_SECONDS:
            raise LimitReached(
                f"the commits of {MAX_QUERIES} queries and destinations are remembered, and none was quiet for "
                f"{QUIET_QUERY_SECONDS // 86_400} days, so that {key} finds no place; write under a query that is known"
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
        """Those that a commit under this key may be in."""
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
    """Raise TransactionSequence unless that is a repetition of what is done: by another run, or with the same stages.

    Of a batch of which only the number is known every other write is a repetition.
    """
    if done.digest in (NULL_GUID, digest) or run not in (NULL_GUID, done.run):
        return
    raise TransactionSequence(
        f"{key} is committed already, with {done.count} messages: a second write under its name, or a task that was "
        "given up, is refused, and nothing of it is kept; a write that is not a repetition needs another txnId"
    )


def digest_of(stages: Iterable[bytes]) -> bytes:
    """The same for the same stages, in whatever order, and never NULL."""
    return blake2b(b"".join(sorted(set(stages))), digest_size=len(NULL_GUID)).digest()


def destination_of(name: FormatName, queues: QueueCollection) -> str:
    """The full path of the queue that a name means here, the same for all its names and in whatever case.

    A queue of another computer of which the path is not known has its format name.
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
