"""The records of table BULK: what is claimed and what is staged, over restarts; see waypost.store.records.

| key                                                      | value         |
|----------------------------------------------------------|---------------|
| 0 u8, queue id u64, text of a claim                      | ClaimRecord   |
| 1 u8, GUID of a stage                                    | StageRecord   |
| 2 u8, text of a query                                    | BatchesRecord |
| 3 u8, digest of a destination 16 bytes, text of a query  | CommitsRecord |

BatchesRecord is the old form of CommitsRecord, which is read and not written any more. waypost.store.keys makes the
keys. Lookup ids are written as spans: the first, and how many follow each other.
"""

from dataclasses import astuple, dataclass, field
from math import isfinite
from struct import Struct
from typing import Final

from waypost.guid import NULL_GUID
from waypost.limits import MAX_BULK_MESSAGES
from waypost.store.records import VERSION, damaged, decode_text, encode_text, unpack

# So that first + count is a number that a LookupIdentifier can be.
_MAX_LOOKUP_ID: Final = 1 << 63

_SPAN: Final = Struct("<QI")
_CLAIM: Final = Struct("<BdIQQQ")


@dataclass(slots=True)
class ClaimRecord:
    """A claim on a queue: the last part that was taken out of it, the last part that was given, and what that holds.

    Without spans, the part that was given last is over. `lease_s` is how long it may be unused.
    """

    lease_s: float
    max_aborts: int = 0
    settled: int = 0
    given: int = 0
    # Bytes of the messages when they were claimed.
    size: int = 0
    spans: list[range] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of messages that it holds."""
        return sum(map(len, self.spans))

    @classmethod
    def decode(cls, value: bytes) -> "ClaimRecord":
        lease_s, max_aborts, settled, given, size = unpack(_CLAIM, value, "claim")
        if not isfinite(lease_s):
            raise damaged("claim")
        return cls(lease_s, max_aborts, settled, given, size, _decode_spans(value[_CLAIM.size :], "claim"))

    def encode(self) -> bytes:
        head = _CLAIM.pack(VERSION, self.lease_s, self.max_aborts, self.settled, self.given, self.size)
        return head + _encode_spans(self.spans)


# Formats 1 and 2 of a stage. The first has neither destination nor run.
_STAGE_VERSION: Final = 2
_OLD_STAGE: Final = Struct("<BdQII")
_STAGE: Final = Struct("<BdQIIIB16s")
_RUN: Final = Struct("<Q?I")


@dataclass(slots=True)
class RunRecord:
    """Messages that were staged for one queue. Quiet ones ask for no attention."""

    queue_id: int
    is_quiet: bool
    spans: list[range]


@dataclass(slots=True)
class StageRecord:
    """Staged messages for a batch of a query, in their order.

    `destination` is the path that all of them go to, "" if a column says where each goes, or None if that is not known.
    `run` is the GUID of the run of the query, NULL if it is not known.
    """

    lease_s: float
    batch: int
    query: str
    runs: list[RunRecord] = field(default_factory=list)
    destination: str | None = None
    run: bytes = NULL_GUID

    @property
    def count(self) -> int:
        """Number of staged messages."""
        return sum(len(span) for run in self.runs for span in run.spans)

    @classmethod
    def decode(cls, value: bytes) -> "StageRecord":
        destination_length, has_destination, of_run = 0, 0, NULL_GUID
        if value[:1] == bytes([VERSION]):
            lease_s, batch, length, count = unpack(_OLD_STAGE, value, "stage")
            start = _OLD_STAGE.size
        else:
            fields = unpack(_STAGE, value, "stage", _STAGE_VERSION)
            lease_s, batch, length, count, destination_length, has_destination, of_run = fields
            start = _STAGE.size
        at = start + length + destination_length
        if (
            not isfinite(lease_s)
            or at > len(value)
            or has_destination > 1
            or (destination_length and not has_destination)
        ):
            raise damaged("stage")
        query = decode_text(value[start : start + length], "stage")
        destination = decode_text(value[start + length : at], "stage") if has_destination else None
        runs = []
        for _ in range(count):
            if at + _RUN.size > len(value) or value[at + 8] > 1:
                raise damaged("stage")
            queue_id, is_quiet, spans = _RUN.unpack_from(value, at)
            at += _RUN.size
            end = at + spans * _SPAN.size
            if end > len(value):
                raise damaged("stage")
            runs.append(RunRecord(queue_id, is_quiet, _decode_spans(value[at:end], "stage")))
            at = end
        if at != len(value):
            raise damaged("stage")
        return cls(lease_s, batch, query, runs, destination, of_run)

    def encode(self) -> bytes:
        query, destination = encode_text(self.query), encode_text(self.destination or "")
        counts = len(query), len(self.runs), len(destination), self.destination is not None
        parts = [_STAGE.pack(_STAGE_VERSION, self.lease_s, self.batch, *counts, self.run), query, destination]
        for run in self.runs:
            parts += (_RUN.pack(run.queue_id, run.is_quiet, len(run.spans)), _encode_spans(run.spans))
        return b"".join(parts)


_COMMITS: Final = Struct("<BQBI")
_COMMIT: Final = Struct("<Q16s16sI")


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A batch that is committed: by which run, with which stages, and how many messages.

    NULL is a run that is not known. A digest of NULL is that of a batch of which only the number is known.
    """

    batch: int
    run: bytes = NULL_GUID
    digest: bytes = NULL_GUID
    count: int = 0


@dataclass(slots=True)
class CommitsRecord:
    """The last batches of a query that were committed to a destination, and when the last one was (seconds since 1970).

    Without a destination they are committed to all destinations. Commits are kept as the bytes that they have in the
    store, ascending by their batches: there may be a million of them in memory.
    """

    committed_time: int
    destination: str | None = None
    packed: bytes = b""
    # Read from a BatchesRecord, and in the store in that form.
    is_old: bool = field(default=False, compare=False)

    @property
    def batches(self) -> list[int]:
        return [commit[0] for commit in _COMMIT.iter_unpack(self.packed)]

    def find(self, batch: int) -> CommitRecord | None:
        for commit in _COMMIT.iter_unpack(self.packed):
            if commit[0] == batch:
                return CommitRecord(*commit)
        return None

    def add(self, commit: CommitRecord, most: int) -> None:
        """Add the commit of a batch that is not there. The oldest go if there are more than `most`."""
        commits = sorted((*_COMMIT.iter_unpack(self.packed), astuple(commit)))[-most:]
        self.packed = b"".join([_COMMIT.pack(*each) for each in commits])

    @classmethod
    def decode(cls, value: bytes) -> "CommitsRecord":
        committed_time, has_destination, length = unpack(_COMMITS, value, "commits")
        at = _COMMITS.size + length
        if at > len(value) or has_destination > 1 or (length and not has_destination):
            raise damaged("commits")
        if (len(value) - at) % _COMMIT.size:
            raise damaged("commits")
        destination = decode_text(value[_COMMITS.size : at], "commits") if has_destination else None
        found = cls(committed_time, destination, value[at:])
        if found.batches != sorted(set(found.batches)):
            raise damaged("commits")
        return found

    def encode(self) -> bytes:
        destination = encode_text(self.destination or "")
        head = _COMMITS.pack(VERSION, self.committed_time, self.destination is not None, len(destination))
        return head + destination + self.packed


_BATCHES: Final = Struct("<BQ")
_BATCH: Final = Struct("<Q")


@dataclass(slots=True)
class BatchesRecord:
    """The last batches of a query that were committed, ascending, and when the last one was (seconds since 1970)."""

    committed_time: int
    batches: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, value: bytes) -> "BatchesRecord":
        (committed_time,) = unpack(_BATCHES, value, "batches")
        if (len(value) - _BATCHES.size) % _BATCH.size:
            raise damaged("batches")
        batches = [batch for (batch,) in _BATCH.iter_unpack(value[_BATCHES.size :])]
        if batches != sorted(set(batches)):
            raise damaged("batches")
        return cls(committed_time, batches)

    def encode(self) -> bytes:
        return _BATCHES.pack(VERSION, self.committed_time) + b"".join(map(_BATCH.pack, self.batches))

    def commits(self) -> CommitsRecord:
        """The same in the new form: done for every destination."""
        packed = b"".join([_COMMIT.pack(*astuple(CommitRecord(batch))) for batch in self.batches])
        return CommitsRecord(self.committed_time, None, packed, is_old=True)


def _encode_spans(spans: list[range]) -> bytes:
    return b"".join([_SPAN.pack(span.start, len(span)) for span in spans])


def _decode_spans(value: bytes, what: str) -> list[range]:
    if len(value) % _SPAN.size:
        raise damaged(what)
    spans = [range(first, first + count) for first, count in _SPAN.iter_unpack(value)]
    if not all(span and span.stop <= _MAX_LOOKUP_ID for span in spans) or sum(map(len, spans)) > MAX_BULK_MESSAGES:
        raise damaged(what)
    return spans
