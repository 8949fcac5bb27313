"""The records of table BULK: what is claimed and what is staged, over restarts; see waypost.store.records.

| key                                  | value         |
|--------------------------------------|---------------|
| 0 u8, queue id u64, text of a claim  | ClaimRecord   |
| 1 u8, GUID of a stage                | StageRecord   |
| 2 u8, text of a query                | BatchesRecord |

waypost.store.keys makes the keys. Lookup ids are written as spans: the first, and how many follow each other.
"""

from dataclasses import dataclass, field
from math import isfinite
from struct import Struct
from typing import Final

from waypost.limits import MAX_BULK_MESSAGES
from waypost.store.codec import VERSION, damaged, decode_text, encode_text, unpack

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
        """How many messages it holds."""
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


_STAGE: Final = Struct("<BdQII")
_RUN: Final = Struct("<Q?I")


@dataclass(slots=True)
class RunRecord:
    """Messages that were staged for one queue. Quiet ones ask for no attention."""

    queue_id: int
    is_quiet: bool
    spans: list[range]


@dataclass(slots=True)
class StageRecord:
    """What is staged for a batch of a query: messages in their order."""

    lease_s: float
    batch: int
    query: str
    runs: list[RunRecord] = field(default_factory=list)

    @classmethod
    def decode(cls, value: bytes) -> "StageRecord":
        lease_s, batch, length, count = unpack(_STAGE, value, "stage")
        at = _STAGE.size + length
        if not isfinite(lease_s) or at > len(value):
            raise damaged("stage")
        query = decode_text(value[_STAGE.size : at], "stage")
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
        return cls(lease_s, batch, query, runs)

    def encode(self) -> bytes:
        query = encode_text(self.query)
        parts = [_STAGE.pack(VERSION, self.lease_s, self.batch, len(query), len(self.runs)), query]
        for run in self.runs:
            parts += (_RUN.pack(run.queue_id, run.is_quiet, len(run.spans)), _encode_spans(run.spans))
        return b"".join(parts)


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
