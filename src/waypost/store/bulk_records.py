"""The records of table BULK: what is claimed and what is staged, over restarts; see waypost.store.records.

| key                                                        | value         |
|------------------------------------------------------------|---------------|
| 0 u8, queue id u64, text of a claim                        | ClaimRecord   |
| 1 u8, GUID of a stage                                      | StageRecord   |
| 2 u8, text of a query                                      | BatchesRecord |
| 3 u8, digest of a destination 16 bytes, text of a query    | CommitsRecord |
| 4 u8, GUID of a stage, number u32                          | FrameRecord   |
| 5 u8, digest of a query, digest of a destination, 16 bytes | DoneRecord    |
| 6 u8, digest of a query 16 bytes, GUID of a run            | LostRunRecord |

BatchesRecord and CommitsRecord are old forms of DoneRecord, which are read and not written any more. Formats 1 and 2 of
a stage are those of messages that are in their queues, in spans of LookupIdentifiers: the first, and how many follow.
They are read, and written as they were. waypost.store.keys makes the keys.
"""

from dataclasses import astuple, dataclass, field
from enum import IntEnum
from itertools import accumulate, pairwise
from math import isfinite
from struct import Struct, pack, unpack_from
from typing import Final

from waypost.guid import NULL_GUID
from waypost.limits import MAX_BULK_MESSAGES
from waypost.store.records import VERSION, damaged, decode_text, encode_text, unpack

# So that first + count is a number that a LookupIdentifier can be.
_MAX_LOOKUP_ID: Final = 1 << 63

_SPAN: Final = Struct("<QI")
# Formats 1 and 2 of a claim. The first has neither a term nor a query.
_CLAIM_VERSION: Final = 2
_OLD_CLAIM: Final = Struct("<BdIQQQ")
_CLAIM: Final = Struct("<BdIQQQQdqBB16sBIII")


class Written(IntEnum):
    """The part of a batch that its query has committed on this computer."""

    NOTHING = 0
    SOME = 1
    ALL = 2


@dataclass(slots=True)
class ClaimRecord:
    """A claim on a queue: the last part that was taken out of it, the last part that was given, and what that holds.

    Without spans, the part that was given last is over. `lease_s` is how long it may be unused.

    `term` counts the starts of its reader, 0 if the reader has none; `driver` and `asked` identify the present start,
    and `leader` is the reader of the start that takes messages. `is_lost` if the part of the term was given back.
    `query` is the only query that may read it, and `run` the run of the present term. `batch` is the batch of the query
    that reads the part, None if none does, and `written` how much of it is committed. `past` are earlier runs, in
    records from before LostRunRecord.
    """

    lease_s: float
    max_aborts: int = 0
    settled: int = 0
    given: int = 0
    # Bytes of the messages when they were claimed.
    size: int = 0
    spans: list[range] = field(default_factory=list)
    term: int = 0
    driver: str = ""
    asked: float = 0.0
    leader: str = ""
    is_lost: bool = False
    query: str = ""
    batch: int | None = None
    written: Written = Written.NOTHING
    run: bytes = NULL_GUID
    past: tuple[bytes, ...] = ()

    @property
    def count(self) -> int:
        """Number of messages that it holds."""
        return sum(map(len, self.spans))

    @classmethod
    def decode(cls, value: bytes) -> "ClaimRecord":
        if value[:1] == bytes([VERSION]):
            lease_s, max_aborts, settled, given, size = unpack(_OLD_CLAIM, value, "claim")
            spans = _decode_spans(value[_OLD_CLAIM.size :], "claim")
            found = cls(lease_s, max_aborts, settled, given, size, spans)
        else:
            found = cls._decode(value)
        if not isfinite(found.lease_s):
            raise damaged("claim")
        return found

    @classmethod
    def _decode(cls, value: bytes) -> "ClaimRecord":
        fields = unpack(_CLAIM, value, "claim", _CLAIM_VERSION)
        lease_s, max_aborts, settled, given, size = fields[:5]
        term, asked, batch, is_lost, written, run, past, *lengths = fields[5:]
        ends = list(accumulate(lengths, initial=_CLAIM.size))
        end = ends[-1] + past * len(NULL_GUID)
        if end > len(value) or not isfinite(asked) or batch < -1 or is_lost > 1 or written > Written.ALL:
            raise damaged("claim")
        query, driver, leader = (decode_text(value[begin:stop], "claim") for begin, stop in pairwise(ends))
        return cls(
            lease_s=lease_s,
            max_aborts=max_aborts,
            settled=settled,
            given=given,
            size=size,
            spans=_decode_spans(value[end:], "claim"),
            term=term,
            driver=driver,
            asked=asked,
            leader=leader,
            is_lost=bool(is_lost),
            query=query,
            batch=None if batch < 0 else batch,
            written=Written(written),
            run=run,
            past=tuple(value[at : at + len(NULL_GUID)] for at in range(ends[-1], end, len(NULL_GUID))),
        )

    def encode(self) -> bytes:
        texts = [encode_text(text) for text in (self.query, self.driver, self.leader)]
        head = _CLAIM.pack(
            *(_CLAIM_VERSION, self.lease_s, self.max_aborts, self.settled, self.given, self.size),
            *(self.term, self.asked, -1 if self.batch is None else self.batch, self.is_lost, self.written),
            *(self.run, len(self.past), *map(len, texts)),
        )
        return b"".join((head, *texts, *self.past, _encode_spans(self.spans)))


# Formats 1, 2 and 3 of a stage. The first has neither destination nor run; the last has its messages in frames.
_OLD_STAGE_VERSION: Final = 2
_STAGE_VERSION: Final = 3
_OLDEST_STAGE: Final = Struct("<BdQII")
_OLD_STAGE: Final = Struct("<BdQIIIB16s")
_STAGE: Final = Struct("<BdQIIIB16s16sIIQIIQQIII")
_RUN: Final = Struct("<Q?I")
_QUEUE: Final = Struct("<Q")
_NO_WRITE: Final = bytes(16)


@dataclass(slots=True)
class RunRecord:
    """Messages that were staged for one queue, in their places there. Quiet ones ask for no attention."""

    queue_id: int
    is_quiet: bool
    spans: list[range]


@dataclass(slots=True)
class StageRecord:
    """Staged messages for a batch of a query, in their order.

    `destination` is the path that all of them go to, "" if a column says where each goes, or None if that is not known.
    `run` is the GUID of the run of the query, NULL if it is not known, and `write` a digest of the name of the write.
    A stage has runs if it is of an old format, and frames otherwise.
    """

    lease_s: float
    batch: int
    query: str
    runs: list[RunRecord] = field(default_factory=list)
    destination: str | None = None
    run: bytes = NULL_GUID
    write: bytes = _NO_WRITE
    # The place in a commit: by partition, by serial number in it, then in the order of staging.
    partition: int = 0
    serial: int = 0
    number: int = 0
    # Number of frames, of messages that are left in them, and their bytes; numbers of the queues of this computer.
    frames: int = 0
    left: int = 0
    size: int = 0
    queues: list[int] = field(default_factory=list)
    # Number of the commit, 0 before it, and place in it; frames that were delivered, and messages of the next one.
    commit: int = 0
    place: int = 0
    frames_done: int = 0
    messages_done: int = 0
    # Whether a frame was unreadable. A start finds that out again.
    is_damaged: bool = field(default=False, compare=False)

    @property
    def count(self) -> int:
        """Number of staged messages that are not delivered."""
        return sum(len(span) for run in self.runs for span in run.spans) + self.left

    @property
    def order(self) -> tuple[int, int, int]:
        """Its place among the stages of a commit."""
        return self.partition, self.serial, self.number

    @classmethod
    def decode(cls, value: bytes) -> "StageRecord":
        if value[:1] > bytes([_OLD_STAGE_VERSION]):
            return cls._decode_framed(value)
        destination_length, has_destination, of_run = 0, 0, NULL_GUID
        if value[:1] == bytes([VERSION]):
            lease_s, batch, length, count = unpack(_OLDEST_STAGE, value, "stage")
            start = _OLDEST_STAGE.size
        else:
            fields = unpack(_OLD_STAGE, value, "stage", _OLD_STAGE_VERSION)
            lease_s, batch, length, count, destination_length, has_destination, of_run = fields
            start = _OLD_STAGE.size
        query, destination, at = _decode_names(value, start, length, destination_length, has_destination)
        if not isfinite(lease_s):
            raise damaged("stage")
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

    @classmethod
    def _decode_framed(cls, value: bytes) -> "StageRecord":
        fields = unpack(_STAGE, value, "stage", _STAGE_VERSION)
        lease_s, batch, length, queues, destination_length, has_destination, of_run, *rest = fields
        query, destination, at = _decode_names(value, _STAGE.size, length, destination_length, has_destination)
        if not isfinite(lease_s) or at + queues * _QUEUE.size != len(value):
            raise damaged("stage")
        found = cls(lease_s, batch, query, [], destination, of_run)
        found.write, found.partition, found.serial, found.number, found.frames, found.left, found.size = rest[:7]
        found.commit, found.place, found.frames_done, found.messages_done = rest[7:]
        found.queues = [number for (number,) in _QUEUE.iter_unpack(value[at:])]
        if found.left > MAX_BULK_MESSAGES or found.frames_done > found.frames:
            raise damaged("stage")
        return found

    def encode(self) -> bytes:
        query, destination = encode_text(self.query), encode_text(self.destination or "")
        has_destination = self.destination is not None
        if self.runs:
            counts = len(query), len(self.runs), len(destination), has_destination
            parts = [_OLD_STAGE.pack(_OLD_STAGE_VERSION, self.lease_s, self.batch, *counts, self.run)]
            parts += (query, destination)
            for run in self.runs:
                parts += (_RUN.pack(run.queue_id, run.is_quiet, len(run.spans)), _encode_spans(run.spans))
            return b"".join(parts)
        counts = len(query), len(self.queues), len(destination), has_destination
        head = _STAGE.pack(
            _STAGE_VERSION,
            self.lease_s,
            self.batch,
            *counts,
            self.run,
            self.write,
            self.partition,
            self.serial,
            self.number,
            self.frames,
            self.left,
            self.size,
            self.commit,
            self.place,
            self.frames_done,
            self.messages_done,
        )
        return b"".join((head, query, destination, *map(_QUEUE.pack, self.queues)))


def _decode_names(
    value: bytes, start: int, length: int, destination_length: int, has_destination: int
) -> tuple[str, str | None, int]:
    """The query, the destination, and where they end."""
    at = start + length + destination_length
    if at > len(value) or has_destination > 1 or (destination_length and not has_destination):
        raise damaged("stage")
    query = decode_text(value[start : start + length], "stage")
    return query, decode_text(value[start + length : at], "stage") if has_destination else None, at


_FRAME: Final = Struct("<BI")
_FRAME_RUN: Final = Struct("<QBIH")
_QUIET: Final = 1


@dataclass(slots=True)
class FrameRun:
    """Messages for one queue, which share the head of their records: all but the packets.

    `queue_id` is that of a queue of this computer, 0 for another one.
    """

    queue_id: int
    is_quiet: bool
    head: bytes
    packets: list[bytes]


@dataclass(slots=True)
class FrameRecord:
    """Messages of a stage: as many as enter their queues in one turn."""

    runs: list[FrameRun] = field(default_factory=list)

    @classmethod
    def decode(cls, value: bytes) -> "FrameRecord":
        (count,) = unpack(_FRAME, value, "frame")
        runs = []
        at = _FRAME.size
        for _ in range(count):
            if at + _FRAME_RUN.size > len(value):
                raise damaged("frame")
            queue_id, flags, messages, head_size = _FRAME_RUN.unpack_from(value, at)
            at += _FRAME_RUN.size
            start = at + head_size + 4 * messages
            if flags & ~_QUIET or not messages or start > len(value):
                raise damaged("frame")
            head = value[at : at + head_size]
            sizes = unpack_from(f"<{messages}I", value, at + head_size)
            packets = []
            for size in sizes:
                packets.append(value[start : start + size])
                start += size
            if start > len(value):
                raise damaged("frame")
            runs.append(FrameRun(queue_id, bool(flags & _QUIET), head, packets))
            at = start
        if at != len(value):
            raise damaged("frame")
        return cls(runs)

    def encode(self) -> bytes:
        parts = [_FRAME.pack(VERSION, len(self.runs))]
        for run in self.runs:
            flags = _QUIET if run.is_quiet else 0
            sizes = pack(f"<{len(run.packets)}I", *map(len, run.packets))
            parts += (_FRAME_RUN.pack(run.queue_id, flags, len(run.packets), len(run.head)), run.head, sizes)
            parts += run.packets
        return b"".join(parts)


_DONE: Final = Struct("<BQBIIQII")
_DONE_COMMIT: Final = Struct("<QI16s16s16sI")
_PASS: Final = Struct("<Q16s16s")


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A write of a batch that is committed: by which run, with which stages, and how many messages.

    NULL is a run that is not known. A digest of NULL is that of a batch of which only the number is known. `ordinal`
    counts the writes of a batch that have names, and `write` is a digest of the name that this one had in its run.
    """

    batch: int
    run: bytes = NULL_GUID
    digest: bytes = NULL_GUID
    count: int = 0
    ordinal: int = 0
    write: bytes = _NO_WRITE


@dataclass(frozen=True, slots=True)
class PassedWrite:
    """A write of a run that repeats a committed one: the ordinals of a run count on behind it."""

    batch: int
    run: bytes
    write: bytes


@dataclass(slots=True)
class DoneRecord:
    """The last commits of a query to a destination, ascending, and the time of the last one (seconds since 1970).

    Without a destination they are committed to all destinations. `keep_s`: seconds for which they are remembered from
    then on. `passed`: the writes of the last batch that its last run has repeated.
    """

    query: str
    destination: str | None
    committed_time: int = 0
    keep_s: int = 0
    commits: list[CommitRecord] = field(default_factory=list)
    passed: list[PassedWrite] = field(default_factory=list)

    def is_over(self, wall: float) -> bool:
        return wall > self.committed_time + self.keep_s

    @classmethod
    def decode(cls, value: bytes) -> "DoneRecord":
        committed_time, has_destination, length, destination_length, keep_s, commits, passed = unpack(
            _DONE, value, "commits"
        )
        at = _DONE.size
        end = at + length + destination_length
        whole = end + commits * _DONE_COMMIT.size + passed * _PASS.size
        if whole != len(value) or has_destination > 1 or (destination_length and not has_destination):
            raise damaged("commits")
        query = decode_text(value[at : at + length], "commits")
        destination = decode_text(value[at + length : end], "commits") if has_destination else None
        at = end + commits * _DONE_COMMIT.size
        found = cls(query, destination, committed_time, keep_s)
        for batch, ordinal, run, digest, write, count in _DONE_COMMIT.iter_unpack(value[end:at]):
            found.commits.append(CommitRecord(batch, run, digest, count, ordinal, write))
        found.passed = [PassedWrite(*each) for each in _PASS.iter_unpack(value[at:])]
        places = [(commit.batch, commit.ordinal) for commit in found.commits]
        if places != sorted(set(places)):
            raise damaged("commits")
        return found

    def encode(self) -> bytes:
        query, destination = encode_text(self.query), encode_text(self.destination or "")
        has_destination = self.destination is not None
        lengths = len(query), len(destination)
        counts = len(self.commits), len(self.passed)
        head = _DONE.pack(VERSION, self.committed_time, has_destination, *lengths, self.keep_s, *counts)
        commits = [
            _DONE_COMMIT.pack(each.batch, each.ordinal, each.run, each.digest, each.write, each.count)
            for each in self.commits
        ]
        return b"".join((head, query, destination, *commits, *(_PASS.pack(*astuple(each)) for each in self.passed)))


_LOST_RUN: Final = Struct("<BQI")


@dataclass(frozen=True, slots=True)
class LostRunRecord:
    """A run of a query that has lost a claim, and when (seconds since 1970): what it still writes is refused."""

    query: str
    claim: str
    lost_time: int = 0

    @classmethod
    def decode(cls, value: bytes) -> "LostRunRecord":
        lost_time, length = unpack(_LOST_RUN, value, "lost run")
        end = _LOST_RUN.size + length
        if end > len(value):
            raise damaged("lost run")
        return cls(
            decode_text(value[_LOST_RUN.size : end], "lost run"), decode_text(value[end:], "lost run"), lost_time
        )

    def encode(self) -> bytes:
        query = encode_text(self.query)
        return _LOST_RUN.pack(VERSION, self.lost_time, len(query)) + query + encode_text(self.claim)


_COMMITS: Final = Struct("<BQBI")
_COMMIT: Final = Struct("<Q16s16sI")


@dataclass(slots=True)
class CommitsRecord:
    """The last batches of a query that were committed to a destination, in the form before DoneRecord."""

    committed_time: int
    destination: str | None = None
    commits: list[CommitRecord] = field(default_factory=list)

    @classmethod
    def decode(cls, value: bytes) -> "CommitsRecord":
        committed_time, has_destination, length = unpack(_COMMITS, value, "commits")
        at = _COMMITS.size + length
        if at > len(value) or has_destination > 1 or (length and not has_destination):
            raise damaged("commits")
        if (len(value) - at) % _COMMIT.size:
            raise damaged("commits")
        destination = decode_text(value[_COMMITS.size : at], "commits") if has_destination else None
        commits = [CommitRecord(*each) for each in _COMMIT.iter_unpack(value[at:])]
        batches = [commit.batch for commit in commits]
        if batches != sorted(set(batches)):
            raise damaged("commits")
        return cls(committed_time, destination, commits)

    def encode(self) -> bytes:
        destination = encode_text(self.destination or "")
        head = _COMMITS.pack(VERSION, self.committed_time, self.destination is not None, len(destination))
        commits = [_COMMIT.pack(each.batch, each.run, each.digest, each.count) for each in self.commits]
        return b"".join((head, destination, *commits))


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


def _encode_spans(spans: list[range]) -> bytes:
    return b"".join([_SPAN.pack(span.start, len(span)) for span in spans])


def _decode_spans(value: bytes, what: str) -> list[range]:
    if len(value) % _SPAN.size:
        raise damaged(what)
    spans = [range(first, first + count) for first, count in _SPAN.iter_unpack(value)]
    if not all(span and span.stop <= _MAX_LOOKUP_ID for span in spans) or sum(map(len, spans)) > MAX_BULK_MESSAGES:
        raise damaged(what)
    return spans
