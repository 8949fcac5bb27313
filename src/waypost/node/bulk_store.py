"""Claims and stages in the store, and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.core.transaction_records import OperationType, Run
from waypost.errors import StoreDamaged
from waypost.node import scans
from waypost.store import keys
from waypost.store.bulk_records import BatchesRecord, ClaimRecord, CommitsRecord, RunRecord, StageRecord
from waypost.store.port import Reader, Table


@dataclass(slots=True)
class Kept:
    """Table BULK: claims by the number of their queue and their name, stages by their GUID, commits by query."""

    claims: dict[tuple[int, str], ClaimRecord] = field(default_factory=dict)
    stages: dict[bytes, StageRecord] = field(default_factory=dict)
    commits: list[tuple[str, CommitsRecord]] = field(default_factory=list)


def read(reader: Reader) -> Kept:
    kept = Kept()
    for key, value in scans.whole_table(reader, Table.BULK):
        try:
            if (claim := keys.claim_of(key)) is not None:
                kept.claims[claim] = ClaimRecord.decode(value)
            elif (stage := keys.stage_of(key)) is not None:
                kept.stages[stage] = StageRecord.decode(value)
            elif (query := keys.query_of(key)) is not None:
                kept.commits.append((query, BatchesRecord.decode(value).commits()))
            elif (query := keys.committing_query_of(key)) is not None:
                kept.commits.append((query, CommitsRecord.decode(value)))
            else:
                raise StoreDamaged(f"the store has a record of the unknown kind {key[0]} among claims and stages")
        except scans.UNDECODABLE as error:
            raise scans.undecodable(Table.BULK, key, error) from error
    return kept


def restore(kept: Kept, manager: QueueManager) -> None:
    """Lock the held messages, under the keys of the claims and the GUIDs of the stages."""
    queues = manager.collection.by_number
    for (number, name), claim in kept.claims.items():
        queue = queues.get(number)
        if queue is None:
            raise StoreDamaged(f"the claim {name} is on queue {number}, which is missing in the store")
        if claim.spans:
            manager.lasting.restore(keys.claim_key(number, name), [Run(OperationType.DEQUEUE, queue, claim.spans)])
    for identifier, stage in kept.stages.items():
        manager.lasting.restore(identifier, _runs(stage.runs, queues))
    manager.lasting.restored()


def _runs(records: list[RunRecord], queues: Mapping[int, Queue]) -> list[Run]:
    """The runs, without those of deleted queues, which lost their messages: such a stage is never committed."""
    return [
        Run(OperationType.ENQUEUE, queues[each.queue_id], each.spans, each.is_quiet)
        for each in records
        if each.queue_id in queues
    ]


def run_records(runs: list[Run]) -> list[RunRecord]:
    return [RunRecord(run.queue.number, run.is_quiet, run.spans) for run in runs]
