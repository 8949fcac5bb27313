"""Committed batches of queries, by destination: they make a commit happen only once.

A commit is known by its query, its batch and its destination, so that a query that goes on to another queue writes
there what it has written elsewhere. Its record has the run of the query and a digest of the stages. They separate a
repetition, which changes nothing, from a second write under the same name, which is refused, never dropped (ADR 29).

Several writes of one batch to one destination have names, which are different in every run. They are counted: the n-th
write that a run commits is the n-th that every other run of the batch repeats (ADR 37). Versions are batches of which a
number at or below the last one is done.

The records are in the store, and read from there: the number of queries has no limit. Each is kept for a year after its
last commit; each commit looks at a few records, and deletes those that are over.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from waypost.core.queue_collection import QueueCollection
from waypost.errors import LimitReached, TransactionSequence
from waypost.guid import NULL_GUID
from waypost.limits import (
    ANONYMOUS_COMMIT_SECONDS,
    COMMITS_SWEPT,
    MAX_BATCHES,
    MAX_WRITES_OF_A_BATCH,
    NAMED_COMMIT_SECONDS,
)
from waypost.node import scans
from waypost.node.kernel import Kernel
from waypost.store import keys
from waypost.store.bulk_records import CommitRecord, DoneRecord, PassedWrite
from waypost.store.port import Reader, Table, after
from waypost.wire.format_names import DirectFormatName, FormatName, MultipleElementFormatName
from waypost.wire.path_names import PathName, QueueKind

# The destination of messages that each name a queue.
BY_COLUMN: Final = ""
# Of a write without a name.
NO_WRITE: Final = NULL_GUID


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


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a batch: a run of the query, NULL if unknown, and a digest of the name of the write, if it has one.

    `is_version`: the batch is done if one with its number or a greater one is. `is_anonymous`: nothing but a request
    with a lost answer repeats it.
    """

    run: bytes = NULL_GUID
    write: bytes = NO_WRITE
    is_version: bool = False
    is_anonymous: bool = False


_Place = tuple[str, str | None]


class CommittedBatches:
    """The committed batches of one node."""

    __slots__ = ("_kernel", "_reader", "_recent", "_swept")

    def __init__(self, kernel: Kernel, reader: Reader, old: Iterable[tuple[bytes, DoneRecord]]) -> None:
        """`old` are records that the store has in another form, under these keys."""
        self._kernel: Final = kernel
        self._reader: Final = reader
        # Records that are written and not durable, with their batches: the store does not show them yet.
        self._recent: dict[_Place, tuple[int, DoneRecord]] = {}
        # The last key of the store that was looked at.
        self._swept = b""
        for key, record in old:
            kernel.messages.batch.delete(Table.BULK, key)
            self._put(record)

    def find(self, key: Key, writer: Writer) -> CommitRecord | None:
        """The commit that this one repeats, or a second write under its name."""
        for record in self._records(key):
            if writer.is_version:
                if record.commits and key.batch <= record.commits[-1].batch:
                    return record.commits[-1]
                continue
            ordinal = _ordinal(record, key.batch, writer)
            for commit in record.commits:
                if (commit.batch, commit.ordinal) == (key.batch, ordinal):
                    return commit
        return None

    def batches(self, query: str) -> list[int]:
        """The last committed batches of a query, to any destination, ascending."""
        return sorted({commit.batch for record in self._of(query) for commit in record.commits})

    def whole(self, query: str) -> list[int]:
        """Those of the last committed batches that were written in one commit, ascending."""
        commits = (commit for record in self._of(query) for commit in record.commits)
        return sorted({commit.batch for commit in commits if commit.write == NO_WRITE})

    def check_is_known(self, key: Key) -> None:
        """Raise TransactionSequence if the batch is older than all that are remembered."""
        for record in self._records(key):
            done = _batches(record)
            if len(done) >= MAX_BATCHES and key.batch < done[0]:
                raise TransactionSequence(
                    f"it is no longer known whether batch {key.batch} of the query {key.query} was committed: the "
                    f"oldest known batch is {done[0]}"
                )

    def remember(self, key: Key, writer: Writer, commit: CommitRecord, wall: float) -> None:
        """Remember a new commit. Raises LimitReached if the batch has too many."""
        record = self._get(key.query, key.destination) or DoneRecord(key.query, key.destination)
        ordinal = _ordinal(record, key.batch, writer)
        new = CommitRecord(key.batch, writer.run, commit.digest, commit.count, ordinal, writer.write)
        commits = sorted((*record.commits, new), key=lambda each: (each.batch, each.ordinal))
        kept = set(_batches(DoneRecord("", None, commits=commits))[-MAX_BATCHES:])
        record.commits = commits[-1:] if writer.is_version else [each for each in commits if each.batch in kept]
        record.passed = [each for each in record.passed if each.batch == key.batch]
        record.committed_time = int(wall)
        record.keep_s = ANONYMOUS_COMMIT_SECONDS if writer.is_anonymous else NAMED_COMMIT_SECONDS
        self._put(record)
        self._sweep(wall)

    def check_room(self, key: Key, writer: Writer) -> None:
        """Raise LimitReached if the batch has too many writes."""
        record = self._get(key.query, key.destination)
        if record is not None and _ordinal(record, key.batch, writer) >= MAX_WRITES_OF_A_BATCH:
            raise LimitReached(
                f"{key} has reached the limit of {MAX_WRITES_OF_A_BATCH} writes; combine several frames into one"
            )

    def pass_by(self, key: Key, writer: Writer) -> None:
        """Remember that a run has repeated a write: its next write is the next one of the batch."""
        record = self._get(key.query, key.destination)
        if record is None or writer.write == NO_WRITE or writer.is_version:
            return
        if any(_is_of(each, key.batch, writer) and each.write == writer.write for each in record.commits):
            return
        passed = PassedWrite(key.batch, writer.run, writer.write)
        if passed not in record.passed:
            same = [each for each in record.passed if (each.batch, each.run) == (key.batch, writer.run)]
            record.passed = [*same, passed]
            self._put(record)

    def _records(self, key: Key) -> Iterator[DoneRecord]:
        """The records that may hold a commit under this key."""
        if key.destination is None:
            yield from self._of(key.query)
            return
        for destination in (key.destination, None):
            record = self._get(key.query, destination)
            if record is not None:
                yield record

    def _get(self, query: str, destination: str | None) -> DoneRecord | None:
        recent = self._recent.get((query, destination))
        if recent is not None and recent[0] > self._kernel.durable:
            return recent[1]
        key = keys.done_key(query, destination)
        value = self._reader.get(Table.BULK, key)
        record = None if value is None else scans.decoded(Table.BULK, key, value, DoneRecord.decode)
        return None if record is None or record.is_over(self._kernel.now.wall) else record

    def _of(self, query: str) -> list[DoneRecord]:
        """All records of a query."""
        found: dict[_Place, DoneRecord] = {}
        for key, value in scans.items(self._reader, Table.BULK, *keys.done_range(query)):
            record = scans.decoded(Table.BULK, key, value, DoneRecord.decode)
            if not record.is_over(self._kernel.now.wall):
                found[record.query, record.destination] = record
        durable = self._kernel.durable
        for place, (token, record) in self._recent.items():
            if place[0] == query and token > durable:
                found[place] = record
        return list(found.values())

    def _put(self, record: DoneRecord) -> None:
        messages, durable = self._kernel.messages, self._kernel.durable
        messages.batch.put(Table.BULK, keys.done_key(record.query, record.destination), record.encode())
        self._recent = {place: recent for place, recent in self._recent.items() if recent[0] > durable}
        self._recent[record.query, record.destination] = messages.token, record

    def _sweep(self, wall: float) -> None:
        """Delete records that are over among the next few."""
        start, stop = keys.done_range()
        page = self._reader.scan(Table.BULK, self._swept or start, stop, COMMITS_SWEPT)
        self._swept = after(page[-1][0]) if page else b""
        for key, value in page:
            record = scans.decoded(Table.BULK, key, value, DoneRecord.decode)
            if record.is_over(wall) and (record.query, record.destination) not in self._recent:
                self._kernel.messages.batch.delete(Table.BULK, key)


def _batches(record: DoneRecord) -> list[int]:
    """The numbers of the batches, ascending, each once."""
    return list(dict.fromkeys(commit.batch for commit in record.commits))


def _is_of(commit: CommitRecord | PassedWrite, batch: int, writer: Writer) -> bool:
    return (commit.batch, commit.run) == (batch, writer.run)


def _ordinal(record: DoneRecord, batch: int, writer: Writer) -> int:
    """The number of this write among those of its run: those that it has repeated come first, then its own.

    A write that failed was neither, and does not count.
    """
    if writer.write == NO_WRITE:
        return 0
    passed = [each.write for each in record.passed if _is_of(each, batch, writer)]
    if writer.write in passed:
        return passed.index(writer.write)
    own = [each for each in record.commits if _is_of(each, batch, writer)]
    for commit in own:
        if commit.write == writer.write:
            return commit.ordinal
    return len(passed) + len(own)


def check_repeats(done: CommitRecord, key: Key, run: bytes, digest: bytes = NULL_GUID) -> None:
    """Raise TransactionSequence unless this is a repetition of the done commit: another run, or the same stages.

    If only the number of the batch is known, every other write counts as a repetition.
    """
    if done.digest in (NULL_GUID, digest) or run not in (NULL_GUID, done.run):
        return
    raise TransactionSequence(
        f"{key} is already committed with {done.count} messages, so this write is refused and dropped; if the write "
        "is not a repetition, use another txnId"
    )


def digest_of_write(name: str) -> bytes:
    """A digest of the name of a write."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=len(NO_WRITE)).digest() if name else NO_WRITE


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
