"""Claims and stages in the store, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.core.transaction_records import OperationType, Run
from waypost.errors import StoreDamaged
from waypost.limits import NAMED_COMMIT_SECONDS
from waypost.node import scans
from waypost.store import keys
from waypost.store.bulk_records import (
    BatchesRecord,
    ClaimRecord,
    CommitRecord,
    CommitsRecord,
    DoneRecord,
    RunRecord,
    StageRecord,
)
from waypost.store.port import Reader, Table


@dataclass(slots=True)
class Kept:
    """Table BULK: claims by the number of their queue and their name, and stages by their GUID.

    `commits` are commits of queries that the store has in an old form, with their keys. Others stay there.
    """

    claims: dict[tuple[int, str], ClaimRecord] = field(default_factory=dict)
    stages: dict[bytes, StageRecord] = field(default_factory=dict)
    commits: list[tuple[bytes, DoneRecord]] = field(default_factory=list)


def read(reader: Reader) -> Kept:
    kept = Kept()
    _check_kinds(reader)
    for key, value in scans.items(reader, Table.BULK, *keys.held_range()):
        try:
            if (claim := keys.claim_of(key)) is not None:
                kept.claims[claim] = ClaimRecord.decode(value)
            elif (stage := keys.stage_of(key)) is not None:
                kept.stages[stage] = StageRecord.decode(value)
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.BULK, key, error) from error
    for key, value in scans.items(reader, Table.BULK, *keys.old_commits_range()):
        try:
            kept.commits.append((key, _done(key, value)))
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.BULK, key, error) from error
    return kept


def _check_kinds(reader: Reader) -> None:
    """Raise StoreDamaged for a record of a kind that is not known."""
    last = reader.last(Table.BULK)
    if last is not None and last[0] >= keys.lost_run_range()[1]:
        raise StoreDamaged(f"the table of claims and stages contains a record of the unknown kind {last[0][0]}")


def _done(key: bytes, value: bytes) -> DoneRecord:
    """The commits in an old form as they are written now. The oldest form has no destination: it is for all of them."""
    query = keys.query_of(key)
    if query is not None:
        batches = BatchesRecord.decode(value)
        commits = [CommitRecord(batch) for batch in batches.batches]
        return DoneRecord(query, None, batches.committed_time, NAMED_COMMIT_SECONDS, commits)
    query = keys.committing_query_of(key)
    assert query is not None, "the range contains a key of an unknown kind"
    old = CommitsRecord.decode(value)
    return DoneRecord(query, old.destination, old.committed_time, NAMED_COMMIT_SECONDS, old.commits)


def restore(kept: Kept, manager: QueueManager) -> None:
    """Lock the held messages, under the keys of the claims and the GUIDs of the stages."""
    queues = manager.collection.by_number
    for (number, name), claim in kept.claims.items():
        queue = queues.get(number)
        if queue is None:
            raise StoreDamaged(f"the claim {name} refers to queue {number}, which is missing in the store")
        if claim.spans:
            manager.lasting.restore(keys.claim_key(number, name), [Run(OperationType.DEQUEUE, queue, claim.spans)])
    for identifier, stage in kept.stages.items():
        if stage.runs:
            manager.lasting.restore(identifier, _runs(stage.runs, queues))
        manager.positions.staged_bytes += stage.size
    manager.lasting.restored()


def _runs(records: list[RunRecord], queues: Mapping[int, Queue]) -> list[Run]:
    """The runs, without those of deleted queues, which lost their messages: such a stage is never committed."""
    return [
        Run(OperationType.ENQUEUE, queues[each.queue_id], each.spans, each.is_quiet)
        for each in records
        if each.queue_id in queues
    ]
