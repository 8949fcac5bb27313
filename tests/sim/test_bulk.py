"""The bulk interface in the simulator: its simulations, what its clients can know, and what of it is compared."""

from dataclasses import replace
from random import Random

import pytest
from msgspec import convert

from waypost.api.bulk import (
    BulkQueue,
    Committed,
    Locked,
    PlannedRange,
    PlanRange,
    ReadRange,
    Removed,
    RemoveRange,
    ShowBulkQueue,
    Stage,
    Staged,
)
from waypost.api.claims import Claim, Claimed, ReadClaim
from waypost.api.frames import Frame
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.sim.bulk.arguments import PlannedBatch, drafts_in, group_of
from waypost.sim.bulk.checks import check_bulk_table
from waypost.sim.client import Ask, Result
from waypost.sim.local.arguments import Draft
from waypost.sim.local.history import History
from waypost.sim.local.simulation import LocalSimulation
from waypost.sim.marks import Marks
from waypost.sim.model.bulk import Known
from waypost.sim.model.disk import BulkKey, Done, SavedBulk, SavedDone
from waypost.sim.model.rows import Row, check_rows
from waypost.sim.operations import Asked
from waypost.sim.patches import Patch, patched
from waypost.sim.run import run_seed
from waypost.sim.swarm import BulkLimits, draw
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.bulk_records import CommitRecord, DoneRecord
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch as StoreBatch
from waypost.store.port import Table
from waypost.store.records import encode_head

EPOCH = guid_text(b"e" * 16)
STAGE, OTHER = guid_text(b"s" * 16), guid_text(b"t" * 16)
BATCH = PlannedBatch("query", 1, "q1", b"r" * 16)
SEEDS = [seed for seed in range(200) if draw(seed, Random(seed)).bulk is not None]
SEED = SEEDS[0]


def frame(*uids: int, end: int = 9, moves: int = 0) -> Frame:
    """Messages whose SequentialIDs are their uids."""
    head = encode_head(0, 0, 1, 0, moves, 0, details=b"")
    packets = [Draft(uid).mark for uid in uids]
    return Frame.of((uids, head * len(uids), packets), end=end, epoch=b"e" * 16, is_last=True)


def part(number: int, count: int = 0) -> Claimed:
    return Claimed(number=number, count=count, bytes=0, epoch=EPOCH)


def staging(*uids: int, batch: PlannedBatch = BATCH) -> Stage:
    return batch.stage([group_of("q1", (), [Draft(uid) for uid in uids])], 1.0)


class Client:
    """One who uses the bulk interface of the queue q1."""

    def __init__(self) -> None:
        self.history = History()

    def did(self, asked: Asked, value: object = None) -> None:
        self.history.answered(Ask(asked), Result(0, HResult.MQ_OK, value))

    def was_refused(self, asked: Asked) -> None:
        self.history.answered(Ask(asked), Result(0, HResult.MQ_ERROR_SHARING_VIOLATION))

    def read(self, after: int, up_to: int, rows: Frame, *, locked: Locked = "wait") -> None:
        self.did(ReadRange(name="q1", after=after, up_to=up_to, locked=locked), value=rows)

    def planned(self, up_to: int) -> None:
        plan = PlannedRange(epoch=EPOCH, bounds=[0, up_to], counts=[1])
        self.did(PlanRange(name="q1"), value=plan)

    def staged(self, stage: str, *uids: int) -> None:
        self.did(staging(*uids), value=Staged(stage, len(uids)))

    def committed(self, *stages: str, is_repeated: bool = False) -> None:
        self.did(BATCH.commit(stages), value=Committed(1, is_repeated=is_repeated))

    def crashed(self, asked: Asked) -> None:
        self.history.crashed([Ask(asked)])

    def processed(self, claim: str, *uids: int) -> None:
        """A part with these messages, from its claim to its end."""
        self.claimed(claim, 0, part(1, len(uids)))
        self.read_part(claim, *uids)
        self.claimed(claim, 1, part(1))

    def claimed(self, claim: str, after: int, value: Claimed) -> None:
        self.did(Claim(name="q1", claim=claim, after=after), value=value)

    def read_part(self, claim: str, *uids: int) -> None:
        wanted = ReadClaim(name="q1", claim=claim, number=1, start=0, stop=9)
        self.did(wanted, value=frame(*uids))


def test_some_simulations_use_the_bulk_interface_and_the_others_do_not() -> None:
    assert 40 < len(SEEDS) < 120


def test_a_simulation_with_bulk_clients_tells_what_they_do() -> None:
    outcomes = [run_seed(seed, Marks()) for seed in SEEDS[:5]]
    assert [each.violation for each in outcomes] == [None] * 5
    told = [line for each in outcomes for line in each.trace.lines()]
    for asked in ("PlanRange(", "ReadRange(", "RemoveRange(", "Claim(", "ReadClaim(", "Stage(", "CommitStages("):
        assert any(f" {asked}" in line for line in told), asked


def test_it_is_the_same_simulation_each_time() -> None:
    assert run_seed(SEED, Marks()).digest == run_seed(SEED, Marks(), interval=1).digest


def test_nothing_appears_in_a_range_that_was_complete() -> None:
    client = Client()
    client.planned(9)
    client.read(0, 9, frame(3, 5))
    client.read(0, 9, frame(5))
    with pytest.raises(
        Violation, match=r"the range was complete up to 9, but the message 0x[0-9a-f]+ appeared in this range later"
    ):
        client.read(0, 9, frame(4, 5))


def test_a_part_of_a_claim_does_not_bring_what_a_complete_range_had_not() -> None:
    client = Client()
    client.planned(9)
    client.read(0, 9, frame(3))
    client.claimed("one", 0, part(1, 1))
    with pytest.raises(
        Violation, match=r"the range was complete up to 9, but the message 0x[0-9a-f]+ appeared in this range later"
    ):
        client.read_part("one", 4)


def test_what_was_moved_may_come_to_a_complete_range() -> None:
    client = Client()
    client.planned(9)
    client.read(0, 9, frame(3))
    client.read(0, 9, frame(3, 4, moves=1))


def test_a_range_beyond_the_stable_number_or_without_locked_messages_is_not_complete() -> None:
    client = Client()
    client.planned(3)
    client.read(0, 9, frame(3))
    client.read(0, 3, frame(3, end=3), locked="skip")
    client.read(0, 9, frame(2, 3, 4))


def test_a_described_queue_tells_how_far_it_is_stable() -> None:
    client = Client()
    names = {"format_name": "q1", "path": "q1", "kind": "private", "transactional": False, "epoch": EPOCH}
    numbers = {"first": 3, "last": 3, "stable": 9, "committed": 9, "oldest": 1, "held": 0, "held_s": 0.0}
    state = convert({**names, **numbers, "count": 1, "bytes": 1}, BulkQueue)
    client.did(ShowBulkQueue(name="q1"), value=state)
    client.read(0, 9, frame(3))
    with pytest.raises(
        Violation,
        match=r"the range was complete up to [0-9]+, but the message 0x[0-9a-f]+ appeared in this range later",
    ):
        client.read(3, 9, frame(4))


def test_what_is_processed_never_comes_again() -> None:
    client = Client()
    client.processed("one", 1, 2)
    with pytest.raises(Violation, match="<2> was received twice"):
        client.processed("two", 2)


def test_what_came_back_from_a_claim_may_be_processed_by_another() -> None:
    client = Client()
    client.claimed("one", 0, part(1, 1))
    client.read_part("one", 1)
    client.processed("two", 1)


def test_a_part_that_is_asked_for_again_is_the_same() -> None:
    client = Client()
    client.processed("one", 1)
    client.claimed("one", 1, part(2, 3))
    with pytest.raises(Violation, match="but previously had a different number of messages"):
        client.claimed("one", 1, part(2, 2))


def test_what_is_committed_comes_out_at_last() -> None:
    client = Client()
    client.staged(STAGE, 1)
    client.committed(STAGE)
    with pytest.raises(Violation, match=r"the recoverable messages \[1\] were acknowledged, but never received"):
        client.history.drained()
    client.processed("one", 1)
    client.history.drained()


def test_what_is_removed_may_be_missing_but_no_more() -> None:
    client = Client()
    client.staged(STAGE, 1, 2)
    client.committed(STAGE)
    client.did(RemoveRange(name="q1", up_to=9, max_messages=5), value=Removed(1, 0))
    with pytest.raises(Violation, match="were acknowledged, but never received"):
        client.history.drained()
    client.crashed(RemoveRange(name="q1", up_to=9, max_messages=1))
    client.history.drained()


def test_what_is_staged_and_not_committed_never_comes_out() -> None:
    client = Client()
    client.staged(STAGE, 1)
    with pytest.raises(Violation, match="<1> was received, but its send was not committed"):
        client.processed("one", 1)


def test_what_was_staged_in_a_crash_never_comes_out() -> None:
    client = Client()
    client.crashed(staging(1))
    with pytest.raises(Violation, match="<1> was received, but its send was not committed"):
        client.processed("one", 1)


def test_a_batch_is_not_committed_twice() -> None:
    client = Client()
    client.staged(STAGE, 1)
    client.committed(STAGE)
    client.committed(STAGE, is_repeated=True)
    with pytest.raises(Violation, match="the batch was committed twice"):
        client.committed(STAGE)


def test_a_batch_is_not_done_before_somebody_commits_it() -> None:
    client = Client()
    with pytest.raises(
        Violation, match="the queue manager reports that a batch is committed, but no client has committed this batch"
    ):
        client.committed(is_repeated=True)


def test_a_repetition_tells_that_the_commit_in_a_crash_was_done() -> None:
    client = Client()
    client.staged(STAGE, 1)
    client.crashed(BATCH.commit((STAGE,)))
    client.history.drained()
    client.staged(OTHER, 2)
    client.committed(OTHER, is_repeated=True)
    with pytest.raises(Violation, match=r"the recoverable messages \[1\] were acknowledged, but never received"):
        client.history.drained()
    with pytest.raises(Violation, match="<2> was received, but its send was not committed"):
        client.processed("one", 2)


def test_a_commit_that_is_no_repetition_tells_that_the_one_in_a_crash_was_not_done() -> None:
    client = Client()
    client.staged(STAGE, 1)
    client.crashed(BATCH.commit((STAGE,)))
    client.staged(OTHER, 2)
    client.processed("one", 1)
    with pytest.raises(Violation, match="<1> was received, but its batch was never committed"):
        client.committed(OTHER)


def test_a_claim_that_was_refused_may_have_ended_its_part() -> None:
    client = Client()
    client.staged(STAGE, 1)
    client.committed(STAGE)
    client.claimed("one", 0, part(1, 1))
    client.read_part("one", 1)
    with pytest.raises(Violation, match="were acknowledged, but never received"):
        client.history.drained()
    client.was_refused(Claim(name="q1", claim="one", after=1))
    client.history.drained()


class Silent:
    """A client that hears nothing."""

    name = "silent"

    def answered(self, _result: Result) -> None: ...


def test_a_claim_that_is_refused_is_told_to_the_history_even_if_its_client_hears_nothing() -> None:
    simulation = LocalSimulation(SEED, Marks())
    with patched(*simulation.patches()):
        simulation._set_up()
        host = simulation.hosts[0]
        told: list[Ask] = []
        with patched(Patch(History, "_refused", lambda _history, ask: told.append(ask))):
            asked = Ask(Claim(name="nowhere", claim="one", after=1))
            result = host.perform(Silent(), asked)
    assert result is not None
    assert result.status is HResult.MQ_ERROR_QUEUE_NOT_FOUND
    assert told == [asked]


ROWS = [Row(uid, Draft(uid).mark, (0, 0), 12) for uid in (1, 2)]


def test_a_frame_has_the_first_messages_that_are_due() -> None:
    assert check_rows("it", frame(1, 2), ROWS, 1000) == 2
    assert check_rows("it", frame(1), ROWS, 12) == 1
    assert check_rows("it", frame(), [], 1000) == 0


@pytest.mark.parametrize(
    ("found", "max_bytes", "told"),
    [
        (frame(), 1000, "it: expected 2 messages, but found none"),
        (frame(1, 2, 3), 1000, "it: expected 2 messages, but found 3"),
        (frame(2), 1000, "it: expected the message 0x1, but found 0x2"),
        (frame(1, moves=1), 1000, r"it: expected the abort and move counts \(0, 0\), but found \(0, 1\)"),
        (frame(1, 2), 20, "it: expected at most 20 bytes, but found 24"),
        (
            Frame.of(([1], bytes(frame(2).attributes), frame(2).each_packet()), end=9, epoch=b"e" * 16, is_last=True),
            1000,
            "it: expected the message 0x1, but found another message with that LookupIdentifier",
        ),
    ],
)
def test_a_wrong_frame_is_told(found: Frame, max_bytes: int, told: str) -> None:
    with pytest.raises(Violation, match=told):
        check_rows("it", found, ROWS, max_bytes)


def test_a_queue_has_one_epoch_and_no_other_queue_has_it() -> None:
    known = Known(BulkLimits())
    known.check_epoch(7, EPOCH)
    known.check_epoch(7, EPOCH)
    for box, epoch in ((8, EPOCH), (7, guid_text(b"f" * 16))):
        with pytest.raises(Violation, match="the queue had another epoch before, or another queue has this epoch"):
            known.check_epoch(box, epoch)


def test_what_another_run_has_committed_is_committed() -> None:
    client = Client()
    with pytest.raises(
        Violation, match="the queue manager reports that a batch is committed, but no client has committed this batch"
    ):
        client.staged("", 1)
    client.staged(STAGE, 1)
    client.crashed(BATCH.commit((STAGE,)))
    client.staged("", 2)
    with pytest.raises(Violation, match=r"the recoverable messages \[1\] were acknowledged, but never received"):
        client.history.drained()


def test_each_destination_has_batches_of_its_own() -> None:
    client = Client()
    client.staged(STAGE, 1)
    client.committed(STAGE)
    there = replace(BATCH, to="q2")
    client.did(staging(2, batch=there), value=Staged(OTHER, 1))
    client.did(there.commit((OTHER,)), value=Committed(1, is_repeated=False))
    with pytest.raises(Violation, match=r"the recoverable messages \[1, 2\] were acknowledged, but never received"):
        client.history.drained()


def test_a_batch_matches_one_without_a_destination() -> None:
    assert BATCH.matches(replace(BATCH, to=None, run=b"s" * 16))
    assert not BATCH.matches(replace(BATCH, to=""))
    assert str(BATCH) == "query 1 to q1 by 7272"


def test_the_store_has_the_commits_that_are_durable() -> None:
    store, batch = MemoryStore(), StoreBatch()
    record = DoneRecord("query", r"sim\private$\q1", 5, 5, [CommitRecord(1, b"r" * 16, b"d" * 16, 7)])
    batch.put(Table.BULK, keys.done_key("query", record.destination), record.encode())
    store.submit(batch, 1)
    store.close()
    key, done = BulkKey(0, ("query", "q1")), Done(1, b"r" * 16, b"d" * 16, 7)
    check_bulk_table(store, {key: SavedDone((done,))})
    wrong: list[dict[BulkKey, SavedBulk]] = [
        {},
        {key: SavedDone((replace(done, run=bytes(16)),))},
        {key: SavedDone((done,), ((1, bytes(16), bytes(16)),))},
        {key: SavedDone((done,)), BulkKey(0, ("query", None)): SavedDone((done,))},
        {BulkKey(0, ("query", "q2")): SavedDone((done,))},
    ]
    for due in wrong:
        with pytest.raises(Violation, match=r"expected .* under .* in the store, but found .*"):
            check_bulk_table(store, due)


def test_messages_that_are_alike_stand_before_the_others_of_a_group() -> None:
    one, two, three = (Draft(uid) for uid in (1, 2, 3))
    staged = BATCH.stage([group_of("q1", (one, two), (three,)), group_of("q2", (), ())], 1.0)
    assert [(key, draft.uid) for key, draft in drafts_in(staged)] == [("q1", 1), ("q1", 2), ("q1", 3)]
    assert PlannedBatch.of(staged) == BATCH
