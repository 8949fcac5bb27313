"""The bulk interface in the store and in memory, compared with the model."""

# ruff: noqa: SLF001, memory is what is checked
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from waypost.node.node import Node
from waypost.sim.bulk.arguments import PlannedBatch
from waypost.sim.model.disk import BulkKey, Done, Holder, SavedBulk, SavedClaim, SavedDone, SavedLostRun, SavedStage
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.bulk_records import ClaimRecord, DoneRecord, FrameRecord, LostRunRecord, StageRecord
from waypost.store.memory import MemoryStore
from waypost.store.port import Table

if TYPE_CHECKING:
    from waypost.sim.model.model import Model

_ALL: Final = 1_000_000


def check_bulk_table(store: MemoryStore, due: Mapping[BulkKey, SavedBulk]) -> None:
    """When nothing is pending: claims, stages and batches that are done are on the disk, and no others."""
    records = store.scan(Table.BULK, limit=_ALL)
    _check_frames(records)
    found = dict(_saved(key, value) for key, value in records if keys.frame_of(key) is None)
    for key in sorted(due.keys() | found.keys(), key=str):
        if found.get(key) != _without_write(due.get(key)):
            raise Violation(f"expected {due.get(key)} under {key} in the store, but found {found.get(key)}")


def _check_frames(records: Sequence[tuple[bytes, bytes]]) -> None:
    """Every stage has its frames, with the messages that are left, and no frame is left over."""
    frames: dict[bytes, list[int]] = {}
    for key, value in records:
        if (frame := keys.frame_of(key)) is not None:
            count = sum(len(run.packets) for run in FrameRecord.decode(value).runs)
            frames.setdefault(frame[0], []).append(count)
    for key, value in records:
        if (identifier := keys.stage_of(key)) is not None:
            stage = StageRecord.decode(value)
            counts = frames.pop(identifier, [])
            if sum(counts) - stage.messages_done != stage.left or len(counts) != stage.frames - stage.frames_done:
                raise Violation(
                    f"the frames of the stage {identifier.hex()} contain {counts} messages, "
                    f"but the record of the stage is {stage}"
                )
    if frames:
        raise Violation(f"the store still contains frames of deleted stages: {frames}")


def check_bulk(node: Node, model: "Model") -> None:
    """Check the records that hold messages over restarts, and which messages they hold."""
    claims = model.bulk.claims.claims
    due = {
        keys.claim_key(*key): [step.message.lookup_id for step in claim.steps]
        for key, claim in claims.items()
        if claim.lookup_ids
    }
    stages = model.bulk.stages.stages
    found = {
        identifier: [lookup_id for run in runs if not run.queue.is_deleted for lookup_id in run.lookup_ids()]
        for identifier, runs in node.manager.lasting.collection.items()
    }
    if found != due:
        raise Violation(f"expected the claims and stages to contain {due}, but found {found}")
    staged = node.manager.positions.staged_bytes
    if staged != model.state.staged_bytes:
        raise Violation(f"expected {model.state.staged_bytes} staged bytes, but found {staged}")
    if list(node.claims._claims) != list(claims) or node.stages._stages.keys() != stages.keys():
        found_keys, due_keys = (list(node.claims._claims), sorted(node.stages._stages)), (list(claims), sorted(stages))
        raise Violation(f"expected the claims and stages {due_keys}, but found {found_keys}")


def _saved(key: bytes, value: bytes) -> tuple[BulkKey, SavedBulk]:
    if (claim := keys.claim_of(key)) is not None:
        record = ClaimRecord.decode(value)
        lookup_ids = tuple(lookup_id for span in record.spans for lookup_id in span)
        counts = record.settled, record.given, record.size
        holder = Holder(**{each.name: getattr(record, each.name) for each in fields(Holder)})
        return BulkKey(*claim), SavedClaim(record.lease_s, record.max_aborts, *counts, lookup_ids, holder)
    if (identifier := keys.stage_of(key)) is not None:
        stage = StageRecord.decode(value)
        batch = PlannedBatch(stage.query, stage.batch, _key_of(stage.destination), stage.run)
        return BulkKey(0, identifier), SavedStage(stage.lease_s, batch, stage.left, stage.size, bool(stage.commit))
    if (run := keys.lost_run_of(key)) is not None:
        lost = LostRunRecord.decode(value)
        return BulkKey(0, (lost.query, run)), SavedLostRun(lost.claim)
    assert keys.is_done(key)
    done = DoneRecord.decode(value)
    commits = [Done(each.batch, each.run, each.digest, each.count, each.ordinal, each.write) for each in done.commits]
    passed = tuple((each.batch, each.run, each.write) for each in done.passed)
    return BulkKey(0, (done.query, _key_of(done.destination))), SavedDone(tuple(commits), passed)


def _key_of(destination: str | None) -> str | None:
    """The key of the queue that has this path."""
    return destination and destination.rpartition("\\")[2]


def _without_write(saved: SavedBulk | None) -> SavedBulk | None:
    """The store has only a digest of the name of a write."""
    if isinstance(saved, SavedStage):
        return replace(saved, batch=replace(saved.batch, write=""))
    return saved
