"""A commit that removes messages: with the stages in one step, all of them or none, and once."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.node.bulk_rig import BulkRig, batch_of, commit_of
from tests.node.rig import direct
from waypost.api.bulk import CommitStages, Committed, MessagesToRemove
from waypost.errors import InvalidParameter, MessageNotFound, QueueDeleted, SharingViolation, TransactionSequence
from waypost.guid import guid_text
from waypost.limits import MAX_BULK_REMOVED
from waypost.node.epochs import epoch_of

GONE = r"message \d+ is no longer in .*orders, so nothing is committed or removed; read the queue again"


@pytest.fixture
def rig() -> BulkRig:
    rig = BulkRig()
    rig.ledger()
    rig.send_all(["a", "b", "c"])
    return rig


def lookup_ids(rig: BulkRig, name: str = "orders") -> list[int]:
    return [message.lookup_identifier for message in rig.contents(rig.queue(name))]


def moving(rig: BulkRig, *stages: bytes, taken: list[int], name: str = "orders", **batch: Any) -> CommitStages:
    """A commit of these stages that removes these messages."""
    removes = [MessagesToRemove(queue=str(direct(name)), lookup_ids=taken)]
    return replace(commit_of(stages, batch_of(**batch)), removes=removes)


def test_a_commit_removes_messages_in_the_same_batch_of_the_store(rig: BulkRig) -> None:
    stage, taken = rig.stage("A", "C"), [lookup_ids(rig)[0], lookup_ids(rig)[2]]
    rig.hold_disk()
    before = len(rig.submitted)
    request = rig.do(moving(rig, stage, taken=taken))
    assert not rig.is_answered(request)
    assert len(rig.submitted) == before + 1
    rig.crash(written=1)
    assert (rig.seen(), rig.seen("ledger")) == (["b"], ["A", "C"])


def test_a_crash_before_the_commit_is_written_leaves_both_queues_as_they_were(rig: BulkRig) -> None:
    stage = rig.stage("A")
    rig.hold_disk()
    rig.do(moving(rig, stage, taken=lookup_ids(rig)[:1]))
    rig.crash(written=0)
    assert (rig.seen(), rig.seen("ledger")) == (["a", "b", "c"], [])


def test_of_two_commits_that_remove_the_same_message_only_the_first_is_done(rig: BulkRig) -> None:
    taken = lookup_ids(rig)[:2]
    one, two = rig.stage("A", "B", query="one"), rig.stage("A", "B", query="two")
    assert rig.ask_for(moving(rig, one, taken=taken, query="one")) == Committed(2, is_repeated=False)
    with pytest.raises(MessageNotFound, match=GONE):
        rig.ask_for(moving(rig, two, taken=taken[1:], query="two"))
    assert (rig.seen(), rig.seen("ledger"), rig.batches("two")) == (["c"], ["A", "B"], [])


def test_a_message_that_is_gone_refuses_all_of_the_commit(rig: BulkRig) -> None:
    stage, taken = rig.stage("A"), lookup_ids(rig)
    rig.done(rig.receive("orders"))
    with pytest.raises(MessageNotFound, match=GONE):
        rig.ask_for(moving(rig, stage, taken=taken[1:] + taken[:1]))
    for strange in (-1, 1 << 64):
        with pytest.raises(MessageNotFound):
            rig.ask_for(moving(rig, stage, taken=[strange]))
    assert (rig.seen(), rig.seen("ledger")) == (["b", "c"], [])
    # The stage is still there.
    assert rig.ask_for(moving(rig, stage, taken=taken[1:])).count == 1
    assert (rig.seen(), rig.seen("ledger")) == ([], ["A"])


def test_a_message_that_another_reader_holds_refuses_the_commit(rig: BulkRig) -> None:
    stage, taken = rig.stage("A"), lookup_ids(rig)
    rig.claim(max_messages=1)
    with pytest.raises(SharingViolation, match="another reader has locked the message"):
        rig.ask_for(moving(rig, stage, taken=taken))
    rig.return_claim()
    assert rig.ask_for(moving(rig, stage, taken=taken)).count == 1
    assert rig.seen() == []


def test_a_repeated_commit_removes_nothing_more_and_needs_nothing_to_be_there(rig: BulkRig) -> None:
    stage, taken = rig.stage("A"), lookup_ids(rig)[:1]
    wish = moving(rig, stage, taken=taken)
    rig.ask_for(wish)
    assert rig.ask_for(wish) == Committed(0, is_repeated=True)
    rig.stop()
    assert rig.ask_for(wish) == Committed(0, is_repeated=True)
    assert (rig.seen(), rig.seen("ledger")) == (["b", "c"], ["A"])


def test_a_commit_that_removes_other_messages_is_not_taken_for_a_repetition(rig: BulkRig) -> None:
    one, two, _ = lookup_ids(rig)
    assert rig.ask_for(moving(rig, taken=[one])) == Committed(0, is_repeated=False)
    with pytest.raises(TransactionSequence):
        rig.ask_for(moving(rig, taken=[two]))
    assert rig.seen() == ["b", "c"]


def test_removed_messages_leave_as_received_ones_do(rig: BulkRig) -> None:
    rig.create("kept", journaling=True)
    rig.send_all(["x"], "kept")
    rig.ask_for(moving(rig, rig.stage("A"), taken=lookup_ids(rig, "kept"), name="kept"))
    journal = rig.queue("kept").journal
    assert journal is not None
    assert (rig.labels(rig.queue("kept")), rig.labels(journal)) == ([], ["x"])


def test_the_queue_must_be_the_same_one(rig: BulkRig) -> None:
    taken, epoch = lookup_ids(rig), guid_text(epoch_of(rig.queue("orders")))
    other = guid_text(epoch_of(rig.queue("ledger")))
    wish = moving(rig, taken=taken)
    with pytest.raises(QueueDeleted):
        rig.ask_for(replace(wish, removes=[replace(wish.removes[0], epoch=other)]))
    rig.ask_for(replace(wish, removes=[replace(wish.removes[0], epoch=epoch)]))
    assert rig.seen() == []


def test_too_many_messages_and_one_message_twice_are_refused(rig: BulkRig) -> None:
    taken = lookup_ids(rig)
    with pytest.raises(InvalidParameter, match=f"at most {MAX_BULK_REMOVED} messages, not {MAX_BULK_REMOVED + 1}"):
        rig.ask_for(moving(rig, taken=list(range(MAX_BULK_REMOVED + 1))))
    wish = moving(rig, taken=taken[:1])
    again = MessagesToRemove(queue="orders", lookup_ids=taken[:1])
    with pytest.raises(InvalidParameter, match="a commit must not remove the same message twice"):
        rig.ask_for(replace(wish, removes=[*wish.removes, again]))
    assert rig.seen() == ["a", "b", "c"]
