"""Commits that are a repetition, a write for another destination, or a second write; and the rest of their stages."""

from typing import Any

import pytest

from tests.node.bulk_rig import BulkRig, batch_of, group
from tests.node.rig import direct
from waypost.api.bulk import BulkQueue, Committed, PlannedRange, PlanRange, ShowBulkQueue, Staged
from waypost.core.positions import SEQUENCE_MASK
from waypost.errors import LimitReached, TransactionSequence
from waypost.guid import NULL_GUID
from waypost.limits import MAX_BATCHES, QUIET_QUERY_SECONDS
from waypost.node import committed_batches
from waypost.node.committed_batches import BY_COLUMN, Key, destination_of
from waypost.store import keys
from waypost.store.bulk_records import BatchesRecord, CommitsRecord, RunRecord, StageRecord
from waypost.store.port import Table
from waypost.wire.format_names import FormatName, PrivateFormatName

ONE, TWO = b"\x11" * 16, b"\x22" * 16
SECOND = r"batch 0 of the query q.* is committed already, with 1 messages: a second write .* needs another txnId"


@pytest.fixture
def rig() -> BulkRig:
    rig = BulkRig()
    rig.ledger()
    rig.create("books", transactional=True)
    return rig


def everything(rig: BulkRig) -> dict[str, list[str]]:
    """The messages in the queues, seen or not."""
    return {name: rig.labels(rig.queue(name)) for name in ("ledger", "books")}


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
        TransactionSequence, match=r"belongs to batch 0 of the query q to host\\private\$\\books, not to "
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
    assert everything(rig) == {"ledger": ["later", "a"], "books": ["elsewhere"]}
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
    orphan = rig.stage("orphan", to="ledger", run=ONE)
    assert (plan().held_by, plan().behind) == ("", 0)
    assert (state().held_by, state().behind) == ("", 0)
    rig.commit_stages(rig.stage("b", "c", batch=2), batch=2)
    words = r"messages that are staged for batch 0 of the query q to host\private$\ledger and not committed"
    for locked in ("wait", "skip"):
        planned = plan(locked=locked)
        assert (planned.counts, planned.held_by, planned.behind) == ([1], words, 2)
    # A reader that says where to end gets no such report.
    assert plan(up_to=SEQUENCE_MASK).held_by == ""
    assert (state().held_by, state().behind) == (words, 2)
    rig.drop(orphan)
    assert (plan().counts, plan().held_by) == ([3], "")
    rig.claim(name="ledger", claim="nightly", max_messages=1)
    assert (state().held_by, state().behind) == ("the claim nightly", 3)
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


def test_a_stage_of_the_old_form_goes_with_the_commit_of_its_batch(rig: BulkRig) -> None:
    stage = rig.stage("a")
    record = rig.node.stages._stages[stage]
    spans = [(run.queue_id, run.is_quiet, run.spans) for run in record.runs]
    assert len(spans) == 1
    ((number, _, ((lookup_ids),)),) = spans
    head = bytes([1]) + record.encode()[1:9]
    old = b"".join(
        (
            *(head, (0).to_bytes(8, "little"), (1).to_bytes(4, "little"), (1).to_bytes(4, "little"), b"q"),
            *(number.to_bytes(8, "little"), b"\1", (1).to_bytes(4, "little")),
            *(lookup_ids.start.to_bytes(8, "little"), len(lookup_ids).to_bytes(4, "little")),
        )
    )
    assert StageRecord.decode(old) == StageRecord(100.0, 0, "q", [RunRecord(number, True, [lookup_ids])])
    old_folder(rig, (keys.stage_key(stage), old))
    assert rig.commit_stages(rig.stage("a", to="ledger", run=ONE), to="ledger", run=ONE).count == 1
    assert everything(rig)["ledger"] == ["a"]


def test_a_query_is_forgotten_only_if_it_was_quiet_for_a_long_time(
    rig: BulkRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed_batches, "MAX_QUERIES", 2)
    old = rig.commit_stages(rig.stage("a", query="q", run=ONE), query="q", run=ONE)
    assert rig.commit_stages(query="r", run=ONE).count == 0
    for attempt in (lambda: rig.stage("b", query="s", run=ONE), lambda: rig.commit_stages(query="s", run=ONE)):
        with pytest.raises(LimitReached, match="the limit of 2 remembered queries and destinations is reached"):
            attempt()
    assert (old.count, rig.batches("q"), rig.batches("r"), rig.batches("s")) == (1, [0], [0], [])
    # Those that are known go on.
    assert not rig.commit_stages(query="r", batch=1, run=ONE).is_repeated
    rig.advance(QUIET_QUERY_SECONDS)
    assert not rig.commit_stages(rig.stage("b", query="s", run=ONE), query="s", run=ONE).is_repeated
    assert (rig.batches("q"), rig.batches("r"), rig.batches("s")) == ([], [0, 1], [0])


def test_what_was_quiet_for_the_longest_time_makes_room(rig: BulkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_batches, "MAX_QUERIES", 2)
    monkeypatch.setattr(committed_batches, "QUIET_QUERY_SECONDS", 0)
    old_folder(rig, (keys.batches_key("old"), BatchesRecord(5, [3]).encode()))
    for query, to in (("q", "ledger"), ("q", "books"), ("q", "ledger"), ("r", "ledger")):
        batch = {"query": query, "to": to, "batch": len(rig.batches(query)), "run": ONE}
        rig.advance(1)
        rig.commit_stages(**batch)
    found = {key: CommitsRecord.decode(value) for key, value in rig.store.scan(Table.BULK)}
    assert set(found) == {
        keys.commits_key(query, destination_of(direct("ledger"), rig.node.manager.collection)) for query in "qr"
    }
    assert rig.batches("old") == []
    assert rig.batches("q") == [0, 2]


def test_numbers_that_are_too_old_are_refused_for_each_destination(rig: BulkRig) -> None:
    for batch in range(3, 3 + MAX_BATCHES):
        rig.commit_stages(batch=batch, to="ledger", run=ONE)
    with pytest.raises(TransactionSequence, match="no record is left of whether batch 2 of the query q was committed"):
        rig.commit_stages(batch=2, to="ledger", run=ONE)
    assert not rig.commit_stages(batch=2, to="books", run=ONE).is_repeated


def test_a_key_names_the_batch_and_where_it_goes() -> None:
    assert str(Key("q", 1)) == str(Key("q", 1, BY_COLUMN)) == "batch 1 of the query q"
    assert str(Key("q", 1, r"host\private$\a")) == r"batch 1 of the query q to host\private$\a"
