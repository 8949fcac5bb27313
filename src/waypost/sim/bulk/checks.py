"""The bulk interface in the store and in memory, compared with the model."""
# ruff: noqa: SLF001, memory is what is checked

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from waypost.node.node import Node
from waypost.sim.bulk.arguments import PlannedBatch
from waypost.sim.model.disk import BulkKey, Done, SavedBulk, SavedClaim, SavedStage
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord, CommitsRecord, StageRecord
from waypost.store.memory import MemoryStore
from waypost.store.port import Table

if TYPE_CHECKING:
    from waypost.sim.model.model import Model

_ALL: Final = 1_000_000


def check_bulk_table(store: MemoryStore, due: Mapping[BulkKey, SavedBulk]) -> None:
    """When nothing is pending: claims, stages and batches that are done are on the disk, and no others."""
    found = dict(_saved(key, value) for key, value in store.scan(Table.BULK, limit=_ALL))
    for key in sorted(due.keys() | found.keys(), key=str):
        if found.get(key) != due.get(key):
            raise Violation(f"the store has {found.get(key)} under {key}, and {due.get(key)} is durable")


def check_bulk(node: Node, model: "Model") -> None:
    """Check the records that hold messages over restarts, and which messages they hold."""
    claims = model.bulk.claims.claims
    due = {
        keys.claim_key(*key): [step.message.lookup_id for step in claim.steps]
        for key, claim in claims.items()
        if claim.lookup_ids
    }
    stages = model.bulk.stages.stages
    due |= {identifier: [message.lookup_id for message in stage.messages] for identifier, stage in stages.items()}
    found = {
        identifier: [lookup_id for run in runs if not run.queue.is_deleted for lookup_id in run.lookup_ids()]
        for identifier, runs in node.manager.lasting.collection.items()
    }
    if found != due:
        raise Violation(f"claims and stages hold {found}, and {due} was due")
    if list(node.claims._claims) != list(claims) or node.stages._stages.keys() != stages.keys():
        raise Violation("other claims and stages are known than those that are due")


def _saved(key: bytes, value: bytes) -> tuple[BulkKey, SavedBulk]:
    if (claim := keys.claim_of(key)) is not None:
        record = ClaimRecord.decode(value)
        lookup_ids = tuple(lookup_id for span in record.spans for lookup_id in span)
        counts = record.settled, record.given, record.size
        return BulkKey(*claim), SavedClaim(record.lease_s, record.max_aborts, *counts, lookup_ids)
    if (identifier := keys.stage_of(key)) is not None:
        stage = StageRecord.decode(value)
        places = [(run.queue_id, lookup_id) for run in stage.runs for span in run.spans for lookup_id in span]
        batch = PlannedBatch(stage.query, stage.batch, _key_of(stage.destination), stage.run)
        return BulkKey(0, identifier), SavedStage(stage.lease_s, batch, tuple(places))
    query = keys.committing_query_of(key)
    assert query is not None
    commits = CommitsRecord.decode(value)
    found = [commit for batch in commits.batches if (commit := commits.find(batch)) is not None]
    done = tuple(Done(each.batch, each.run, each.digest, each.count) for each in found)
    return BulkKey(0, (query, _key_of(commits.destination))), done


def _key_of(destination: str | None) -> str | None:
    """The key of the queue that has this path."""
    return destination and destination.rpartition("\\")[2]
