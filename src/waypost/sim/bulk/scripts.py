"""Scripts of bulk clients. After a restart of the host they go on from their checkpoints."""

from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace as changed

from waypost.api.bulk import (
    DEFAULT_READ,
    DEFAULT_READ_BYTES,
    BatchRead,
    BulkQueue,
    Committed,
    DropStages,
    FindSeq,
    ListBatches,
    Locked,
    MessagesToRemove,
    PlannedRange,
    PlanRange,
    ReadRange,
    RemoveRange,
    ShowBulkQueue,
    Staged,
    StagedMessages,
)
from waypost.api.claims import (
    Claim,
    Claimed,
    KeepClaim,
    ListAllClaims,
    ListClaims,
    ReadClaim,
    ReturnClaim,
    TakeClaim,
    Taken,
)
from waypost.api.frames import Frame
from waypost.api.operations import DeleteQueue
from waypost.guid import NULL_GUID, guid_text, parse_guid
from waypost.hresult import HResult
from waypost.sim.bulk.arguments import PlannedBatch, group_of
from waypost.sim.bulk.checkpoints import Claiming, Query, Reading, Stream
from waypost.sim.client import Ask, Client, Pause, Result, Script
from waypost.sim.local.arguments import Draft, name_of
from waypost.sim.local.host import LocalHost
from waypost.sim.local.workloads import any_key, new_draft
from waypost.sim.model.records import SEQUENCE

_LEASES: Final = (0.2, 1.0, 3600.0)
_SIZES: Final = (1, 500, 1000, 1 << 20)
_WAIT: Final[Locked] = "wait"
_SKIP: Final[Locked] = "skip"

# The claim or its queue has changed.
_LOST: Final = (
    HResult.MQ_ERROR_TRANSACTION_SEQUENCE,
    HResult.MQ_ERROR_QUEUE_NOT_FOUND,
    HResult.MQ_ERROR_QUEUE_DELETED,
)

OnQueue = (
    ShowBulkQueue
    | PlanRange
    | ReadRange
    | FindSeq
    | RemoveRange
    | Claim
    | TakeClaim
    | KeepClaim
    | ReadClaim
    | ReturnClaim
    | ListClaims
)

Asked = Generator[Ask | Pause, Result, None]


def _ask(operation: OnQueue) -> Ask:
    """An operation on a queue that has its key for a name."""
    return Ask(changed(operation, name=name_of(operation.name)))


def streamer(client: Client[LocalHost]) -> Script:
    """Read new messages, up to the stable number, and remove them if the client drains the queue."""
    rng = client.host.rng
    streams = client.host.simulation.checkpoints.streams
    note = streams.setdefault(client.name, Stream(_some_key(client), is_draining=rng.random() < 0.4))
    for _ in range(rng.randint(2, 8)):
        skips = rng.random() < 0.2
        wanted = PlanRange(
            name=note.key,
            after=note.after,
            max_messages=rng.choice((UNSET, 1, 3)),
            max_bytes=rng.choice((UNSET, UNSET, *_SIZES)),
            parts=rng.randint(1, 3),
            part_bytes=rng.choice((UNSET, UNSET, *_SIZES)),
            locked="skip" if skips else "wait",
            epoch=note.epoch,
            marks_moves=note.is_draining,
        )
        planned = yield _ask(wanted)
        if not isinstance(planned.value, PlannedRange):
            note.begin_again(_some_key(client))
            yield Pause(0.05)
            continue
        note.epoch = planned.value.epoch
        for after, up_to in pairwise(planned.value.bounds):
            part = ReadRange(name=note.key, after=after, up_to=up_to, locked=wanted.locked, epoch=note.epoch)
            yield from _read(client, part)
        note.after = planned.value.bounds[-1]
        if note.is_draining:
            limit = rng.choice((1, 3, 20))
            removal = RemoveRange(name=note.key, up_to=note.after, max_messages=limit, epoch=note.epoch)
            if note.after % 2:
                plan = planned.value
                removal = changed(removal, after=plan.bounds[0], as_of=plan.as_of, fresh=plan.fresh)
            yield _ask(removal)
        if rng.random() < 0.2:
            # A query that starts again from its beginning, or from any number.
            note.after = rng.randint(0, note.after)
        yield Pause(rng.choice((0.0, 0.02, 0.2)))


def _some_key(client: Client[LocalHost]) -> str:
    """More often than not a transactional queue, so that numbers are not stable at once."""
    rng = client.host.rng
    keys = [plan.key for plan in client.host.swarm.plans if plan.transactional]
    return rng.choice(keys) if keys and rng.random() < 0.5 else any_key(client)


def _read(client: Client[LocalHost], wanted: ReadRange) -> Asked:
    rng = client.host.rng
    for _ in range(20):
        limits = rng.choice((DEFAULT_READ, 1, 2, 10_000)), rng.choice((DEFAULT_READ_BYTES, *_SIZES))
        result = yield _ask(changed(wanted, max_messages=limits[0], max_bytes=limits[1]))
        if not isinstance(result.value, Frame) or result.value.is_last:
            return
        wanted = changed(wanted, after=result.value.end)


def claimer(client: Client[LocalHost]) -> Script:
    """Claim parts and read them; the next request says that they are processed, or does not."""
    rng = client.host.rng
    note = client.host.simulation.checkpoints.claims.setdefault(client.name, Claiming(client.name, _some_key(client)))
    for _ in range(rng.randint(3, 10)):
        wish = Claim(
            name=note.key,
            claim=note.claim,
            after=note.after,
            epoch=note.epoch if rng.random() < 0.5 else "",
            max_messages=rng.choice((0, 1, 2, 3, 3, 10)),
            max_bytes=rng.choice((UNSET, UNSET, *_SIZES)),
            lease_s=rng.choice(_LEASES),
            max_aborts=rng.choice((0, 1, 2)),
        )
        result = yield _ask(wish)
        claimed = result.value
        if not isinstance(claimed, Claimed):
            if result.status in _LOST:
                note.begin_again(_some_key(client))
            yield Pause(0.05)
            continue
        note.epoch = claimed.epoch
        if claimed.count:
            yield from _process(client, note, claimed, wish)
        else:
            note.after = claimed.number
            yield Pause(rng.choice((0.02, 0.2)))


def _process(client: Client[LocalHost], note: Claiming, claimed: Claimed, wish: Claim) -> Asked:
    rng = client.host.rng
    wish = changed(wish, epoch=note.epoch)
    part = ReadClaim(
        name=note.key, claim=note.claim, number=claimed.number, start=0, stop=claimed.count, epoch=note.epoch
    )  # fmt: skip
    if rng.random() < 0.2:
        yield _ask(changed(wish, max_messages=rng.choice((0, 1, 10))))
    if rng.random() < 0.1:
        other = claimed.number + rng.choice((-1, 1))
        yield _ask(changed(part, number=other, stop=1, max_bytes=1000))
    if rng.random() < 0.9:
        for _ in range(claimed.count):
            part = changed(part, max_bytes=rng.choice(_SIZES))
            result = yield _ask(part)
            if not isinstance(result.value, Frame) or result.value.is_last:
                break
            part = changed(part, start=result.value.end)
    outcome = rng.random()
    if outcome < 0.6:
        note.after = claimed.number
    elif outcome < 0.75:
        yield _ask(ReturnClaim(name=note.key, claim=note.claim, forget=rng.random() < 0.3))
    elif outcome < 0.9:
        yield Pause(rng.choice((0.3, 1.2)))


def query(client: Client[LocalHost]) -> Script:
    """Read a claim as a query with a checkpoint does, which another program may have too, and commit its batches."""
    rng, name = client.host.rng, f"query{client.host.rng.randint(0, 1)}"
    note = client.host.simulation.checkpoints.claimants.setdefault(name, Reading(name, _some_key(client)))
    for _ in range(rng.randint(2, 4)):
        # A start of the program: the clock says which readers belong together.
        clock = client.host.now.monotonic
        take = TakeClaim(
            name=note.key,
            claim=note.query,
            driver=rng.choice((client.name, "anybody")),
            started=clock,
            asked=clock + 0.001,
            is_new=not note.after and rng.random() < 0.5,
            epoch=note.epoch,
        )
        result = yield _ask(take)
        taken = result.value
        if not isinstance(taken, Taken):
            if result.status in _LOST or rng.random() < 0.3:
                note.begin_again(_some_key(client))
            yield Pause(0.05)
            continue
        if rng.random() < 0.3:
            # A second reader of this start.
            yield _ask(changed(take, started=clock - 1.0, is_new=False))
        yield from _run(client, note, taken.term)
        yield Pause(rng.choice((0.0, 0.3, 1.2)))
        if rng.random() < 0.1:
            # Somebody thinks that the query does not come back.
            yield _ask(ReturnClaim(name=note.key, claim=note.query, forget=True))


def _run(client: Client[LocalHost], note: Reading, term: int) -> Asked:
    """A run of a query, until its claim is lost, or it has had enough."""
    rng = client.host.rng
    run = guid_text(rng.randbytes(16))
    for _ in range(rng.randint(2, 6)):
        wish = Claim(
            name=note.key,
            claim=note.query,
            after=note.after,
            max_messages=rng.choice((0, 1, 2, 3)),
            lease_s=rng.choice((0.2, 0.2, 1.0)),
            max_aborts=0,
            epoch=note.epoch,
            term=term,
            reader="first",
        )
        result = yield _ask(wish)
        claimed = result.value
        if not isinstance(claimed, Claimed):
            if result.status in _LOST:
                note.begin_again(_some_key(client))
            else:
                # A run that does not know yet that it has lost its claim.
                yield Ask(PlannedBatch(note.query, note.batch, "", parse_guid(run)).commit(()))
            return
        note.epoch = claimed.epoch
        if rng.random() < 0.3:
            yield _ask(changed(wish, reader="second", max_messages=3))
        if not claimed.count:
            yield Pause(rng.choice((0.02, 0.2)))
            continue
        part = ReadClaim(
            name=note.key,
            claim=note.query,
            number=claimed.number,
            start=0,
            stop=claimed.count,
            epoch=note.epoch,
            term=term,
            query=note.query if rng.random() < 0.95 else "another",
            batch=note.batch,
            run=run,
        )
        read = yield _ask(part)
        if not isinstance(read.value, Frame):
            return
        batch = PlannedBatch(note.query, note.batch, "", parse_guid(run))
        for _ in range(rng.choice((0, 0, 1, 2))):
            if rng.random() < 0.2:
                # A write with the name of an application.
                within = BatchRead(query=note.query, batch=note.batch, run=run)
                named = PlannedBatch(f"{note.query} application", note.batch, "", parse_guid(run))
                yield Ask(changed(named.commit(()), within=within))
            else:
                yield Ask(changed(batch.commit(()), is_whole=rng.random() < 0.5))
        for _ in range(rng.choice((0, 0, 3))):
            yield Pause(0.15)
            yield _ask(KeepClaim(name=note.key, claim=note.query, term=term, epoch=note.epoch))
        if rng.random() < 0.5:
            yield Pause(rng.choice((0.1, 0.3, 1.2)))
        if rng.random() < 0.2:
            # It dies before its batch is recorded.
            return
        if note.after < claimed.number:
            note.after = claimed.number
            note.batch += 1


def stager(client: Client[LocalHost]) -> Script:
    """Write batches, each until its commit is confirmed."""
    host, rng = client.host, client.host.rng
    keys = [plan.key for plan in host.swarm.plans if plan.transactional]
    if not keys:
        yield Pause(60.0)
        return
    to = rng.choice((None, "", *keys))
    first = Query(to, rng.randbytes(16), writes=1 if to is None else rng.choice((1, 1, 2, 3)))
    note = host.simulation.checkpoints.queries.setdefault(client.name, first)
    if rng.random() < 0.5:
        note.begin_again(rng.randbytes(16))
    for _ in range(rng.randint(2, 5)):
        if note.writes > 1 and not note.write:
            note.write = f"{note.at}:{rng.randbytes(4).hex()}"
        batch = PlannedBatch(client.name, note.batch, note.to, note.run, note.write)
        if not note.stages or rng.random() < 0.4:
            note.stages = yield from _write(client, batch, keys)
        if rng.random() < 0.3:
            # Others commit meanwhile, and some leases end.
            yield Pause(rng.choice((0.1, 0.1, 0.3, 1.2)))
        if rng.random() < 0.2:
            # A killed task leaves its stages behind.
            yield from _write(client, batch, keys)
        if rng.random() < 0.2:
            plan = rng.choice([plan for plan in host.swarm.plans if plan.transactional])
            yield Ask(DeleteQueue(name=plan.key))
            if rng.random() < 0.7:
                yield Ask(plan.creation)
        removes = yield from _removes(client)
        committed = yield Ask(batch.commit(note.stages, removes))
        if committed.is_ok:
            if note.writes == 1 and rng.random() < 0.3:
                yield from _repeat(client, batch, keys, note.stages)
            if note.writes == 1 and note.to is not None and rng.random() < 0.2:
                yield from _copy(client, batch, keys)
            note.end_write()
        elif committed.status is HResult.MQ_ERROR_INSUFFICIENT_RESOURCES and rng.random() < 0.5:
            yield Pause(0.1)
            continue
        else:
            is_unknown = note.writes == 1 and rng.random() < 0.1
            note.begin_again(NULL_GUID if is_unknown else rng.randbytes(16))
        note.stages = []
        yield Pause(rng.choice((0.0, 0.02, 0.2)))


def _removes(client: Client[LocalHost]) -> Generator[Ask | Pause, Result, list[MessagesToRemove]]:
    """Messages of a queue for the commit to remove: all are there when they are read, and perhaps not afterwards."""
    rng = client.host.rng
    if rng.random() < 0.5:
        return []
    key, locked = _some_key(client), rng.choice((_WAIT, _SKIP))
    read = yield _ask(ReadRange(name=key, up_to=SEQUENCE, max_messages=rng.choice((1, 2, 3)), locked=locked))
    if not isinstance(read.value, Frame) or not read.value.count:
        return []
    lookup_ids = read.value.numbers()
    if rng.random() < 0.2:
        yield Pause(rng.choice((0.02, 0.2)))
    if rng.random() < 0.3:
        # A message that was never there.
        lookup_ids[-1] += 1000
    return [MessagesToRemove(queue=name_of(key), lookup_ids=lookup_ids, epoch=guid_text(read.value.epoch))]


def _write(
    client: Client[LocalHost], batch: PlannedBatch, keys: list[str]
) -> Generator[Ask | Pause, Result, list[str]]:  # fmt: skip
    """The stages of a batch."""
    rng = client.host.rng
    stages: list[str] = []
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        staged = yield Ask(batch.stage(_groups(client, keys), rng.choice(_LEASES), rng.choice((0, 0, 1, 2))))
        if isinstance(staged.value, Staged) and staged.value.stage:
            stages.append(staged.value.stage)
    if stages and rng.random() < 0.2:
        dropped = rng.choice(stages)
        yield Ask(DropStages(stages=[dropped]))
        if rng.random() < 0.8:
            stages.remove(dropped)
    return stages


def _repeat(client: Client[LocalHost], batch: PlannedBatch, keys: list[str], stages: list[str]) -> Asked:
    """Write the same batch again, with the same stages or new ones, or one that was done long ago."""
    rng = client.host.rng
    run = rng.choice((batch.run, rng.randbytes(16), NULL_GUID))
    again = replace(batch, run=run)
    if rng.random() < 0.5:
        stages = yield from _write(client, again, keys)
    yield Ask(again.commit(stages))
    yield Ask(ListBatches(query=batch.query))
    if batch.number:
        yield Ask(replace(again, number=batch.number - 1).commit(()))


def _copy(client: Client[LocalHost], batch: PlannedBatch, keys: list[str]) -> Asked:
    """A copy of the query writes the batch to another destination."""
    rng = client.host.rng
    to = rng.choice([each for each in ("", *keys) if each != batch.to])
    copy = replace(batch, to=to, run=rng.randbytes(16))
    stages = yield from _write(client, copy, keys)
    copied = yield Ask(copy.commit(stages))
    if isinstance(copied.value, Committed) and copied.value.count:
        client.host.simulation.marks.sometimes("a batch that is also written to another destination")


def _groups(client: Client[LocalHost], keys: list[str]) -> list[StagedMessages]:
    rng = client.host.rng
    groups = []
    for _ in range(rng.choice((0, 1, 1, 2))):
        key = rng.choice(keys) if rng.random() < 0.95 else rng.choice(client.host.swarm.plans).key
        alike: list[Draft] = []
        if rng.random() < 0.6:
            like = new_draft(client)
            uids = [client.host.simulation.new_uid() for _ in range(rng.randint(0, 3))]
            alike = [like, *(replace(like, uid=uid) for uid in uids)]
        groups.append(group_of(key, alike, [new_draft(client) for _ in range(rng.choice((0, 1, 2)))]))
    return groups


def watcher(client: Client[LocalHost]) -> Script:
    """Look at queues without changing them."""
    rng = client.host.rng
    for _ in range(rng.randint(2, 8)):
        key = _some_key(client)
        shown = yield _ask(ShowBulkQueue(name=key))
        yield _ask(ListClaims(name=key, idle=rng.random() < 0.5))
        yield Ask(ListAllClaims())
        yield _ask(FindSeq(name=key, time=rng.choice((0.0, client.host.now.wall - 0.5, float("inf")))))
        stable = shown.value.stable if isinstance(shown.value, BulkQueue) else 0
        up_to, skips = rng.choice((stable, SEQUENCE)), rng.random() < 0.3
        yield _ask(ReadRange(name=key, up_to=up_to, locked="skip" if skips else "wait"))
        yield Pause(rng.choice((0.02, 0.2)))


BULK_SCRIPTS: Final[dict[str, Callable[[Client[LocalHost]], Script]]] = {
    script.__name__: script for script in (streamer, claimer, query, stager, watcher)
}


def end_bulk(client: Client[LocalHost]) -> Asked:
    """Release all claims and stages, and read every queue once more from its start."""
    host, rng = client.host, client.host.rng
    if host.swarm.bulk is None:
        return
    bulk, state = host.model.bulk, host.model.state
    for number, name in list(bulk.claims.claims):
        key = state.by_number[number].key
        claim = bulk.claims.claims[number, name]
        if claim.lookup_ids and not claim.holder.term and rng.random() < 0.3:
            yield _ask(Claim(name=key, claim=name, after=claim.given, max_messages=0))
        else:
            yield _ask(ReturnClaim(name=key, claim=name))
    for query, note in host.simulation.checkpoints.queries.items():
        write = note.write or (f"{note.at}:healed" if note.writes > 1 else "")
        yield Ask(PlannedBatch(query, note.batch, note.to, note.run, write).commit(note.stages))
    yield Ask(DropStages(stages=list(map(guid_text, bulk.stages.stages))))
    for key in [queue.key for queue in state.queues.values() if not queue.key.endswith("$")]:
        yield _ask(PlanRange(name=key))
        yield from _read(client, ReadRange(name=key, up_to=SEQUENCE))
