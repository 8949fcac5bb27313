"""Commits that are a repetition, a write for another destination, or a second write; and the rest of their stages."""

from typing import Any

import pytest

from tests.node.bulk_rig import BulkRig, batch_of, group
from tests.node.rig import direct
from waypost.api.bulk import BulkQueue, Committed, ListBatches, PlannedRange, PlanRange, ShowBulkQueue, Staged
from waypost.core.positions import SEQUENCE_MASK
from waypost.core.transaction_records import spans_of
from waypost.errors import LimitReached, TransactionSequence
from waypost.guid import NULL_GUID
from waypost.limits import ANONYMOUS_COMMIT_SECONDS, MAX_BATCHES, NAMED_COMMIT_SECONDS
from waypost.node import committed_batches
from waypost.node.committed_batches import BY_COLUMN, Key, destination_of
from waypost.store import keys
from waypost.store.bulk_records import BatchesRecord, CommitRecord, CommitsRecord, RunRecord, StageRecord
from waypost.store.port import Table
from waypost.wire.format_names import FormatName, PrivateFormatName

ONE, TWO, THREE = b"\x11" * 16, b"\x22" * 16, b"\x33" * 16
OLD = b"\x44" * 16
SECOND = r"batch 0 of the query q.* is already committed with 1 messages, so this write .* use another txnId"


@pytest.fixture
def rig() -> BulkRig:
    rig = BulkRig()
    rig.ledger()
    rig.create("books", transactional=True)
    return rig


def everything(rig: BulkRig) -> dict[str, list[str]]:
    """The messages in the queues, seen or not."""
    return {name: rig.labels(rig.queue(name)) for name in ("ledger", "books")}


def test_a_batch_is_whole_if_no_other_write_of_it_can_follow(rig: BulkRig) -> None:
    rig.commit_stages(rig.stage("a"), batch=0)
    rig.commit_stages(rig.stage("b", batch=1, run=ONE, write="first"), batch=1, run=ONE, write="first")
    found = rig.ask_for(ListBatches(query="q"))
    assert (found.batches, found.whole) == ([0, 1], [0])


# Destinations.


def test_a_batch_is_written_once_to_each_destination(rig: BulkRig) -> None:
    rig.commit_stages(rig.stage("a", to="ledger", run=ONE), to="ledger", run=ONE)
    # A checkpoint was copied, and the query goes on to another queue.
    stage = rig.stage("a", to="books", name="books", run=TWO)
    assert rig.commit_stages(stage, to="books", run=TWO) == Committed(1, is_repeated=False)
    by_column = rig.stage("a", to=BY_COLUMN, run=TWO)
    assert rig.commit_stages(by_column, to=BY_COLUMN, run=TWO).count == 1
    rig.stop()
    for to in ("ledger", "books", BY_COLUMN):
        assert rig.commit_stages(to=to, run=b"\x33" * 16).is_repeated
    assert everything(rig) == {"ledger": ["a", "a"], "books": ["a"]}
    assert rig.batches() == [0]


@pytest.mark.parametrize(
    "name", [r"DIRECT=OS:HOST\PRIVATE$\LEDGER", r"DIRECT=OS:host\private$\ledger", r"DIRECT=OS:.\private$\ledger"]
)
def test_all_names_of_a_queue_are_one_destination(rig: BulkRig, name: str) -> None:
    rig.commit_stages(rig.stage("a", to="ledger", run=ONE), to="ledger", run=ONE)
    assert rig.staged(group("a"), to=FormatName.parse(name), run=TWO) == Staged("", 0, is_committed=True)
    number = rig.queue("ledger").private_queue_number
    private = PrivateFormatName(rig.node.manager.collection.identity.identifier, number)
    assert rig.staged(group("a"), to=private, run=TWO) == Staged("", 0, is_committed=True)


def test_a_destination_elsewhere_is_known_by_its_path_or_its_name(rig: BulkRig) -> None:
    queues = rig.node.manager.collection
    far = FormatName.parse(r"DIRECT=OS:Far\private$\T")
    assert destination_of(far, queues) == r"far\private$\t"
    assert destination_of(FormatName.parse(r"DIRECT=OS:far\t"), queues) == r"far\t"
    number = FormatName.parse("PRIVATE=12345678-1234-1234-1234-123456789ABC\\1f")
    assert destination_of(number, queues) == str(number).casefold()
    both = FormatName.parse(r"DIRECT=OS:far\private$\t,DIRECT=OS:host\private$\ledger")
    assert destination_of(both, queues) == r"far\private$\t,host\private$\ledger"


def test_the_destination_of_a_queue_that_is_deleted_is_the_same(rig: BulkRig) -> None:
    before = destination_of(direct("ledger"), rig.node.manager.collection)
    rig.delete("ledger")
    rig.settle()
    assert rig.node.manager.collection.find(direct("ledger")) is None
    assert destination_of(direct("ledger"), rig.node.manager.collection) == before


def test_a_batch_without_a_destination_is_for_all_of_them(rig: BulkRig) -> None:
    rig.commit_stages(rig.stage("a"))
    assert rig.commit_stages(to="ledger", run=ONE).is_repeated
    rig.commit_stages(rig.stage("b", batch=1, to="ledger", run=ONE), batch=1, to="ledger", run=ONE)
    assert rig.commit_stages(batch=1, run=TWO).is_repeated
    assert everything(rig)["ledger"] == ["a", "b"]


def test_a_stage_of_another_destination_or_run_is_not_committed(rig: BulkRig) -> None:
    other = rig.stage("a", to="books", run=ONE)
    with pytest.raises(
        TransactionSequence,
        match=r"belongs to batch 0 of the query q to host\\private\$\\books, but the commit is for ",
    ):
        rig.commit_stages(other, to="ledger", run=ONE)
    with pytest.raises(TransactionSequence, match="belongs to another run of the query"):
        rig.commit_stages(other, to="books", run=TWO)
    assert rig.seen("ledger") == []


# Runs.


def test_what_another_run_has_committed_keeps_nothing(rig: BulkRig) -> None:
    rig.commit_stages(rig.stage("a", to="ledger", run=ONE), to="ledger", run=ONE)
    assert rig.staged(group("a"), to="ledger", run=TWO) == Staged("", 0, is_committed=True)
    assert rig.commit_stages(to="ledger", run=TWO) == Committed(0, is_repeated=True)
    rig.stop()
    assert rig.staged(group("a"), to="ledger", run=TWO) == Staged("", 0, is_committed=True)
    assert everything(rig)["ledger"] == ["a"]


@pytest.mark.parametrize("run", [ONE, NULL_GUID])
def test_a_second_write_is_refused_in_words(rig: BulkRig, run: bytes) -> None:
    """By the run that has committed the batch, or by one that nobody can tell from it."""
    other = rig.stage("b", to="ledger", run=run)
    stage = rig.stage("a", to="ledger", run=ONE)
    rig.commit_stages(stage, to="ledger", run=ONE)
    for _ in range(2):
        with pytest.raises(TransactionSequence, match=SECOND):
            rig.stage("c", to="ledger", run=run)
        with pytest.raises(TransactionSequence, match=SECOND):
            rig.commit_stages(other, to="ledger", run=run)
        assert rig.commit_stages(stage, to="ledger", run=run).is_repeated
        assert everything(rig)["ledger"] == ["a"]
        rig.stop()


def test_that_a_batch_is_committed_is_said_when_it_is_durable(rig: BulkRig) -> None:
    stage = rig.stage("a", to="ledger", run=ONE)
    rig.hold_disk()
    rig.commit_request(stage, to="ledger", run=ONE)
    request = rig.stage_request(group("a"), to="ledger", run=TWO)
    assert not rig.is_answered(request)
    rig.crash(written=0)
    assert rig.stage("a", to="ledger", run=TWO)


# Remains.


def test_a_commit_drops_what_else_is_staged_for_its_batch(rig: BulkRig) -> None:
    """A task that was killed left a stage behind, and another one has done its work."""
    rig.stage("orphan", to="ledger", run=ONE)
    old = rig.stage("of an old run", to="ledger", run=TWO)
    elsewhere = rig.stage("elsewhere", to="books", name="books", run=ONE)
    later = rig.stage("later", batch=1, to="ledger", run=ONE)
    assert rig.commit_stages(rig.stage("a", to="ledger", run=ONE), to="ledger", run=ONE).count == 1
    assert everything(rig) == {"ledger": ["a"], "books": []}
    assert set(rig.node.stages._stages) == {elsewhere, later}
    rig.stop()
    assert set(rig.node.stages._stages) == {elsewhere, later}
    with pytest.raises(TransactionSequence):
        rig.commit_stages(old, to="ledger", run=ONE)


def test_all_that_a_run_has_staged_for_a_batch_can_be_dropped(rig: BulkRig) -> None:
    rig.stage("orphan", to="ledger", run=ONE)
    known = rig.stage("known", batch=7, to="ledger", run=ONE)
    others = {
        rig.stage("of another run", to="ledger", run=TWO),
        rig.stage("elsewhere", to="books", name="books", run=ONE),
        rig.stage("later", batch=1, to="ledger", run=ONE),
    }
    rig.drop(known, batch=batch_of(to="ledger", run=ONE))
    assert set(rig.node.stages._stages) == others
    rig.stop()
    assert set(rig.node.stages._stages) == others


def test_a_reader_that_ends_short_is_told_why(rig: BulkRig) -> None:
    def plan(**wanted: Any) -> PlannedRange:
        return rig.ask_for(PlanRange(name="ledger", **wanted))

    def state() -> BulkQueue:
        return rig.ask_for(ShowBulkQueue(name="ledger"))

    rig.commit_stages(rig.stage("a", batch=1), batch=1)
    # A stage is not in the queue, and holds nothing back.
    rig.stage("orphan", to="ledger", run=ONE)
    rig.commit_stages(rig.stage("b", "c", batch=2), batch=2)
    assert (plan().counts, plan().held_by, state().held_by) == ([3], "", "")
    rig.claim(name="ledger", claim="nightly", max_messages=1)
    assert (state().held_by, state().behind) == ("the claim nightly", 3)
    # A reader that says where to end gets no such report.
    assert plan(up_to=SEQUENCE_MASK).held_by == ""
    rig.done(rig.begin(TWO))
    rig.done(rig.send("d", "ledger", TWO))
    rig.return_claim("ledger", "nightly")
    rig.commit_stages(rig.stage("e", batch=3), batch=3)
    assert state().held_by.endswith(", which has sent a message")
    assert state().behind == 1


# Records from before.


def old_folder(rig: BulkRig, *records: tuple[bytes, bytes]) -> None:
    with rig.node.kernel.operation(rig.now):
        for key, value in records:
            rig.node.messages.batch.put(Table.BULK, key, value)
    rig.settle()
    rig.stop()


def test_batches_of_the_old_form_are_done_for_every_destination(rig: BulkRig) -> None:
    old_folder(rig, (keys.batches_key("q"), BatchesRecord(5, [3, 4]).encode()))
    assert rig.batches() == [3, 4]
    for batch in ({"to": "ledger", "run": ONE}, {"to": BY_COLUMN, "run": ONE}, {"to": "ledger"}, {}):
        assert rig.staged(group("a"), batch=4, **batch) == Staged("", 0, is_committed=True)
        assert rig.commit_stages(batch=4, **batch).is_repeated
    assert everything(rig)["ledger"] == []
    rig.commit_stages(rig.stage("b", batch=5, to="ledger", run=ONE), batch=5, to="ledger", run=ONE)
    rig.commit_stages(rig.stage("c", batch=6), batch=6)
    assert keys.batches_key("q") not in dict(rig.store.scan(Table.BULK))
    rig.stop()
    assert rig.batches() == [3, 4, 5, 6]
    assert rig.commit_stages(batch=3, to="books", run=TWO).is_repeated


def old_stage(rig: BulkRig, *labels: str, version: int = 2, run: bytes = NULL_GUID) -> bytes:
    """A stage as it was before frames: with its messages in the queue."""
    rig.done(rig.begin(TWO))
    for label in labels:
        rig.done(rig.send(label, "ledger", TWO))
    rig.done(rig.commit(TWO))
    queue = rig.queue("ledger")
    spans = spans_of(list(queue.positions)[-len(labels) :])
    record = StageRecord(100.0, 0, "q", [RunRecord(queue.number, True, spans)], run=run)
    value = record.encode()
    if version == 1:
        (span,) = spans
        value = b"".join(
            (
                *(b"\1" + value[1:17], (1).to_bytes(4, "little"), (1).to_bytes(4, "little"), b"q"),
                *(queue.number.to_bytes(8, "little"), b"\1", (1).to_bytes(4, "little")),
                *(span.start.to_bytes(8, "little"), len(span).to_bytes(4, "little")),
            )
        )
    assert StageRecord.decode(value) == record
    old_folder(rig, (keys.stage_key(OLD), value))
    return OLD


@pytest.mark.parametrize("version", [1, 2])
def test_a_stage_of_an_old_form_is_committed_before_the_others(rig: BulkRig, version: int) -> None:
    stage = old_stage(rig, "a", "b", version=version)
    assert rig.seen("ledger") == []
    rig.stop()
    assert rig.commit_stages(rig.stage("c"), stage).count == 3
    assert rig.seen("ledger") == ["a", "b", "c"]
    rig.stop()
    assert rig.seen("ledger") == ["a", "b", "c"]


def test_a_stage_of_the_old_form_goes_with_the_commit_of_its_batch(rig: BulkRig) -> None:
    old_stage(rig, "a", version=1)
    assert rig.commit_stages(rig.stage("b", to="ledger", run=ONE), to="ledger", run=ONE).count == 1
    assert everything(rig)["ledger"] == ["b"]


def test_commits_of_the_form_before_go_on(rig: BulkRig) -> None:
    place = destination_of(direct("ledger"), rig.node.manager.collection)
    old = CommitsRecord(5, place, [CommitRecord(3, ONE, b"d" * 16, 7), CommitRecord(4, ONE, b"e" * 16, 1)])
    assert CommitsRecord.decode(old.encode()) == old
    rig.advance(10)
    old_folder(rig, (keys.commits_key("q", place), old.encode()))
    assert rig.batches() == [3, 4]
    assert rig.commit_stages(batch=4, to="ledger", run=TWO).is_repeated
    with pytest.raises(TransactionSequence, match="is already committed with 7 messages"):
        rig.stage("a", batch=3, to="ledger", run=ONE)
    assert not rig.commit_stages(batch=5, to="ledger", run=ONE).is_repeated
    rig.stop()
    assert rig.batches() == [3, 4, 5]
    assert keys.commits_key("q", place) not in dict(rig.store.scan(Table.BULK))


# Names.


def written(rig: BulkRig, label: str, write: str, run: bytes, batch: int = 0) -> bool:
    """Write a message as one of several writes of a batch. Returns whether that was new."""
    of: dict[str, Any] = {"to": "ledger", "run": run, "write": write, "batch": batch}
    stage = rig.stage(label, **of)
    committed = rig.commit_stages(*([stage] if stage else []), **of)
    assert committed.is_repeated == (not stage)
    return bool(stage)


def test_writes_of_a_batch_are_counted_whatever_their_names_are_in_a_run(rig: BulkRig) -> None:
    assert written(rig, "a", "7", ONE)
    assert written(rig, "b", "9", ONE)
    # The driver has died, and repeats the batch with a third write.
    rig.stop()
    assert not written(rig, "a", "3", TWO)
    rig.stop()
    assert not written(rig, "b", "4", TWO)
    rig.stop()
    assert written(rig, "c", "9", TWO)
    assert not any(written(rig, label, label, THREE) for label in "abc")
    assert written(rig, "d", "d", THREE)
    assert written(rig, "next", "7", THREE, batch=1)
    assert everything(rig)["ledger"] == ["a", "b", "c", "d", "next"]


def test_a_write_that_failed_does_not_count(rig: BulkRig) -> None:
    failed = rig.stage("a", to="ledger", run=ONE, write="1")
    rig.drop(failed)
    assert written(rig, "a", "2", ONE)
    # Its repetition fails once too, after it was told that it is a repetition.
    assert rig.staged(group("a"), to="ledger", run=TWO, write="1").is_committed
    assert not written(rig, "a", "2", TWO)
    assert written(rig, "b", "3", TWO)
    assert everything(rig)["ledger"] == ["a", "b"]


def test_a_task_of_a_write_that_is_committed_is_refused(rig: BulkRig) -> None:
    late = rig.stage("late", to="ledger", run=ONE, write="1")
    assert written(rig, "a", "1", ONE)
    assert late not in rig.node.stages._stages
    with pytest.raises(TransactionSequence, match="with 1 messages, so this write is refused and dropped"):
        rig.stage("a", to="ledger", run=ONE, write="1")
    other = rig.stage("b", to="ledger", run=ONE, write="2")
    assert written(rig, "c", "3", ONE)
    # The stages of another write of the run stay.
    assert rig.commit_stages(other, to="ledger", run=ONE, write="2").count == 1


def test_a_repeated_commit_of_a_named_write_changes_nothing(rig: BulkRig) -> None:
    of: dict[str, Any] = {"to": "ledger", "run": ONE, "write": "1"}
    stage = rig.stage("a", **of)
    assert rig.commit_stages(stage, **of).count == 1
    assert rig.commit_stages(stage, **of).is_repeated
    assert written(rig, "b", "2", ONE)
    assert rig.commit_stages(stage, **of).is_repeated
    assert everything(rig)["ledger"] == ["a", "b"]


def test_a_batch_has_a_limit_of_writes(rig: BulkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_batches, "MAX_WRITES_OF_A_BATCH", 2)
    assert written(rig, "a", "1", ONE)
    assert written(rig, "b", "2", ONE)
    with pytest.raises(LimitReached, match="has reached the limit of 2 writes"):
        written(rig, "c", "3", ONE)


def test_a_version_at_or_below_the_last_one_is_done(rig: BulkRig) -> None:
    def put(label: str, version: int, to: str = "ledger") -> bool:
        of: dict[str, Any] = {"query": "app", "batch": version, "to": to, "is_version": True}
        stage = rig.stage(label, name=to, **of)
        return not rig.commit_stages(*([stage] if stage else []), **of).is_repeated

    assert put("five", 5)
    rig.stop()
    assert not put("five", 5)
    assert not put("three", 3)
    assert put("six", 6)
    assert put("one", 1, to="books")
    assert everything(rig) == {"ledger": ["five", "six"], "books": ["one"]}


# Time.


def test_a_named_commit_is_remembered_for_a_year_and_a_nameless_one_for_a_day(rig: BulkRig) -> None:
    rig.commit_stages(rig.stage("a", query="named"), query="named")
    rig.commit_stages(rig.stage("b", query="x", is_anonymous=True), query="x", is_anonymous=True)
    rig.advance(ANONYMOUS_COMMIT_SECONDS)
    assert rig.commit_stages(query="x", run=ONE).is_repeated
    rig.advance(1)
    assert rig.batches("x") == []
    rig.advance(NAMED_COMMIT_SECONDS - ANONYMOUS_COMMIT_SECONDS - 2)
    assert rig.commit_stages(query="named", run=ONE).is_repeated
    rig.advance(2)
    assert rig.batches("named") == []


def test_commits_that_are_over_leave_the_store_a_few_at_a_time(rig: BulkRig) -> None:
    for query in range(30):
        rig.commit_stages(query=f"old {query}", run=ONE)
    rig.advance(NAMED_COMMIT_SECONDS + 1)
    assert len(rig.store.scan(Table.BULK)) == 30
    for batch in range(10):
        before = len(rig.store.scan(Table.BULK))
        rig.commit_stages(query="new", batch=batch, run=ONE)
        assert before - len(rig.store.scan(Table.BULK)) <= 8
    assert [key for key, _ in rig.store.scan(Table.BULK)] == [keys.done_key("new", None)]
    assert rig.batches("new") == list(range(10))


def test_no_query_makes_room_for_another(rig: BulkRig) -> None:
    for query in range(300):
        rig.commit_stages(query=str(query), run=ONE)
    rig.stop()
    assert all(rig.commit_stages(query=str(query), run=TWO).is_repeated for query in range(300))


def test_numbers_that_are_too_old_are_refused_for_each_destination(rig: BulkRig) -> None:
    for batch in range(3, 3 + MAX_BATCHES):
        rig.commit_stages(batch=batch, to="ledger", run=ONE)
    with pytest.raises(TransactionSequence, match="it is no longer known whether batch 2 of the query q was committed"):
        rig.commit_stages(batch=2, to="ledger", run=ONE)
    assert not rig.commit_stages(batch=2, to="books", run=ONE).is_repeated


def test_a_key_names_the_batch_and_where_it_goes() -> None:
    assert str(Key("q", 1)) == str(Key("q", 1, BY_COLUMN)) == "batch 1 of the query q"
    assert str(Key("q", 1, r"host\private$\a")) == r"batch 1 of the query q to host\private$\a"
