"""Claims of messages: what is given, kept, taken out and given back, over restarts at every point."""

from pathlib import Path
from typing import Any

import pytest

from tests.node.bulk_rig import LEASE, BulkRig
from tests.node.rig import EXPRESS, ReadOptions, direct, letter
from tests.store.engines import LmdbEngine
from waypost.core.message_values import Acknowledgements
from waypost.core.queues import AccessType, ShareMode
from waypost.core.transaction_records import OperationType
from waypost.errors import (
    InvalidParameter,
    QueueDeleted,
    QueueNotFound,
    SharingViolation,
    StoreDamaged,
    Timeout,
    TransactionSequence,
)
from waypost.guid import guid_text
from waypost.node.epochs import epoch_of
from waypost.node.explain import explain_message
from waypost.store.bulk_records import ClaimRecord
from waypost.store.port import Batch, Table


@pytest.fixture
def rig() -> BulkRig:
    return BulkRig()


def test_a_claim_keeps_messages_from_others_in_the_order_of_arrival(rig: BulkRig) -> None:
    rig.done(rig.send(letter("low", priority=1)))
    rig.done(rig.send(letter("high", priority=7)))
    rig.send_all(["last"])
    assert rig.claim(max_messages=2) == (1, 2)
    assert rig.claimed(1) == ["low", "high"]
    assert rig.seen() == ["last"]
    assert rig.message(rig.receive()).label == "last"


def test_the_next_question_takes_the_part_before_out_of_the_queue(rig: BulkRig) -> None:
    rig.send_all("abcd")
    assert rig.claim(max_messages=3) == (1, 3)
    assert rig.claim(1) == (2, 1)
    assert rig.labels() == ["d"]
    assert rig.claim(2) == (2, 0)
    assert rig.labels() == []
    rig.send_all("e")
    assert rig.claim(2) == (3, 1)
    assert rig.claimed(3) == ["e"]


def test_the_same_question_has_the_same_answer(rig: BulkRig) -> None:
    rig.send_all("ab")
    assert rig.claim(max_messages=1) == (1, 1)
    assert rig.claim(max_messages=2) == (1, 1)
    assert rig.claimed(1) == ["a"]
    assert rig.seen() == ["b"]
    rig.claim(1)
    assert rig.claim(1) == (2, 1)
    assert rig.claimed(2) == ["b"]


def test_nothing_to_claim_is_part_of_nothing_and_leaves_nothing_behind(rig: BulkRig) -> None:
    assert rig.claim() == (0, 0)
    assert rig.store.scan(Table.BULK) == []
    assert rig.node.next_deadline(rig.now) is None


def test_to_ask_again_writes_nothing(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim()
    rig.settle()
    before = len(rig.submitted)
    assert rig.claim() == (1, 1)
    rig.claim(1)
    assert len(rig.submitted) == before + 1
    assert rig.claim(1) == (1, 0)
    assert len(rig.submitted) == before + 1


def test_what_was_processed_can_be_said_without_claiming_more(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.claim(max_messages=1)
    assert rig.claim(1, max_messages=0) == (1, 0)
    assert rig.seen() == rig.labels() == ["b"]
    assert rig.claim(1) == (2, 1)


def test_claims_of_several_readers_have_different_messages(rig: BulkRig) -> None:
    rig.send_all("abc")
    assert rig.claim(max_messages=1, claim="one") == (1, 1)
    assert rig.claim(max_messages=1, claim="two") == (1, 1)
    assert rig.claimed(1, claim="one") == ["a"]
    assert rig.claimed(1, claim="two") == ["b"]
    assert rig.claim(1, claim="two") == (2, 1)
    assert rig.labels() == ["a", "c"]


def test_the_limit_in_bytes_goes_by_the_average_and_gives_one_at_least(rig: BulkRig) -> None:
    rig.send_all("abcd")
    average = rig.queue().total_bytes // 4
    assert rig.claim(max_bytes=2 * average, claim="two") == (1, 2)
    assert rig.claim(max_bytes=1, claim="one") == (1, 1)


def test_a_part_is_divided_by_the_real_sizes_of_its_messages(rig: BulkRig) -> None:
    for size in (10, 10, 3000, 10, 10, 10):
        rig.done(rig.send(letter("x", body=bytes(size))))
    small = rig.queue().positions.size(rig.contents()[0].lookup_identifier)
    wish: dict[str, Any] = {"part_bytes": 2 * small, "claim": "c", "term": 1}
    rig.take()
    assert rig.asked_claim(**wish).places == [0, 2, 3, 5, 6]
    assert rig.asked_claim(**wish).places == [0, 2, 3, 5, 6], "a part that is requested again"
    rig.stop()
    assert rig.take("next", part_bytes=2 * small).places == [0, 2, 3, 5, 6]
    assert rig.take("next", started=0.0, part_bytes=1).places == [0, 1, 2, 3, 4, 5, 6]
    assert rig.take("third").places == []


def test_places_of_a_part_are_read_as_far_as_the_bytes_go(rig: BulkRig) -> None:
    rig.send_all("abcde")
    rig.claim()
    assert rig.claimed(1, range(1, 3)) == ["b", "c"]
    rows = rig.read_claim(1, range(1, 5), max_bytes=1)
    assert (rows.count, rows.end, rows.is_last) == (1, 2, False)
    rows = rig.read_claim(1, range(4, 9))
    assert (rows.count, rows.end, rows.is_last) == (1, 5, True)
    assert rows.epoch == epoch_of(rig.queue())
    assert rig.claimed(1, range(7, 9)) == []


# The end of a lease.


def test_a_claim_that_nobody_uses_gives_its_messages_back(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.claim(max_messages=1)
    rig.advance(LEASE - 1)
    assert rig.seen() == ["b"]
    rig.advance(1)
    assert rig.seen() == ["a", "b"]
    assert [message.abort_count for message in rig.contents()] == [1, 0]
    for use in (lambda: rig.claim(1), lambda: rig.claimed(1)):
        with pytest.raises(TransactionSequence, match=r"part 1 of the claim c has ended, .* unused for 100 s"):
            use()


def test_who_had_not_come_to_the_part_whose_lease_ended_gets_another(rig: BulkRig) -> None:
    rig.send_all("abc")
    rig.claim(max_messages=1)
    rig.claim(1, max_messages=1)
    rig.advance(LEASE)
    assert rig.claim(1) == (3, 2)
    assert rig.claimed(3) == ["b", "c"]
    with pytest.raises(TransactionSequence, match="part 2 of the claim c has ended"):
        rig.claim(2)
    assert rig.claim(3) == (3, 0)
    assert rig.labels() == []


@pytest.mark.parametrize("use", ["claim", "read"])
def test_to_use_a_claim_puts_the_end_of_its_lease_off(rig: BulkRig, use: str) -> None:
    rig.send_all("a")
    rig.claim()
    for _ in range(3):
        rig.advance(LEASE - 1)
        assert rig.claim() == (1, 1) if use == "claim" else rig.claimed(1) == ["a"]
    assert rig.held()[0].lease_left_s == LEASE
    rig.advance(LEASE)
    assert rig.seen() == ["a"]


def test_a_message_that_came_back_too_often_is_poison(rig: BulkRig) -> None:
    rig.send_all("ab")
    for number in (1, 2):
        assert rig.claim(max_messages=1, max_aborts=3) == (number, 1)
        rig.advance(LEASE)
    assert rig.poison() == []
    assert rig.claim(max_aborts=3) == (3, 2)
    rig.advance(LEASE)
    assert (rig.poison(), rig.seen()) == (["a"], ["b"])
    rig.stop()
    assert (rig.poison(), rig.seen()) == (["a"], ["b"])


def test_poison_is_never_offered_to_a_reader_that_waits(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim(max_aborts=1)
    request = rig.receive(options=ReadOptions(timeout_ms=1_000_000))
    rig.advance(LEASE)
    assert not rig.is_answered(request)
    assert rig.poison() == ["a"]


def test_what_comes_back_is_offered_to_a_reader_that_waits(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim()
    request = rig.receive(options=ReadOptions(timeout_ms=1_000_000))
    rig.advance(LEASE)
    assert rig.message(request).label == "a"


def test_without_a_limit_messages_come_back_for_ever(rig: BulkRig) -> None:
    rig.send_all("a")
    for _ in range(7):
        rig.claim(max_aborts=0)
        assert rig.return_claim() == 1
    assert (rig.seen(), rig.poison()) == (["a"], [])


def test_more_aborts_than_can_be_counted_are_no_limit(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim(max_aborts=1 << 40, lease_s=float("inf"))
    rig.stop()
    assert rig.return_claim() == 1
    assert rig.seen() == ["a"]


def test_the_poison_queue_has_no_poison_queue_itself(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim(max_aborts=1)
    rig.return_claim()
    assert rig.claim(name="orders;poison", max_aborts=1) == (1, 1)
    rig.return_claim("orders;poison")
    assert rig.poison() == ["a"]


def test_a_journal_has_no_poison_queue(rig: BulkRig) -> None:
    rig.modify("orders", journaling=True)
    rig.send_all("a")
    rig.done(rig.receive())
    assert rig.claim(name="orders;journal", max_aborts=1) == (1, 1)
    rig.return_claim("orders;journal")
    assert rig.labels(rig.queue().journal) == ["a"]


def test_to_return_a_claim_ends_its_part_and_no_other(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.claim(max_messages=1)
    rig.claim(max_messages=1, claim="other")
    assert rig.return_claim() == 1
    assert rig.return_claim() == 0
    assert rig.return_claim(claim="unknown") == 0
    assert rig.seen() == ["a"]
    assert [held.claim for held in rig.held()] == ["other"]


# Effects of taking messages out, as for any receive.


def test_what_was_processed_is_journaled_and_acknowledged_as_received(rig: BulkRig) -> None:
    rig.create("admin")
    rig.modify("orders", journaling=True)
    asks = letter(
        "a",
        acknowledgements_requested=Acknowledgements.ACK_POS_RECEIVE,
        administration_queue_format_name=direct("admin"),
    )
    rig.done(rig.send(asks))
    rig.claim()
    assert rig.labels(rig.queue("admin")) == []
    rig.claim(1)
    assert len(rig.labels(rig.queue("admin"))) == 1
    assert rig.labels(rig.queue().journal) == ["a"]


def test_a_claim_counts_for_quotas_until_it_is_processed(rig: BulkRig) -> None:
    rig.send_all("ab")
    before = rig.queue().total_bytes
    rig.claim()
    assert rig.queue().total_bytes == before
    rig.claim(1)
    assert rig.queue().total_bytes == rig.node.manager.total_bytes == 0


def test_what_was_purged_while_it_was_claimed_is_gone_when_it_comes_back(rig: BulkRig) -> None:
    rig.send_all("ab")
    rig.claim(max_messages=1)
    rig.done(rig.purge())
    assert rig.claimed(1) == ["a"]
    rig.stop()
    assert rig.claimed(1) == ["a"]
    rig.advance(LEASE)
    assert rig.labels() == []


def test_what_expired_while_it_was_claimed_is_gone_when_it_comes_back(rig: BulkRig) -> None:
    rig.done(rig.send(letter("a", time_to_be_received=10)))
    rig.claim()
    rig.advance(20)
    assert rig.claimed(1) == ["a"]
    rig.return_claim()
    assert rig.labels() == []


def test_a_queue_that_is_deleted_takes_its_claims_along(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim()
    request = rig.delete()
    while not rig.is_answered(request):
        rig.advance(0)
    assert rig.store.scan(Table.BULK) == []
    rig.stop()
    rig.create("orders")
    rig.send_all(["new"])
    assert rig.claim() == (1, 1)
    rig.advance(LEASE)
    assert rig.seen() == ["new"]
    rig.stop()
    assert rig.seen() == ["new"]


# Impossible requests.


def test_a_question_that_no_reader_can_have_is_refused(rig: BulkRig) -> None:
    rig.send_all("abc")
    with pytest.raises(TransactionSequence, match="this queue has no claim c"):
        rig.claim(1)
    with pytest.raises(TransactionSequence, match="this queue has no claim c"):
        rig.claimed(1)
    rig.claim(max_messages=1)
    with pytest.raises(TransactionSequence, match="has no part 2; its last part is 1"):
        rig.claim(2)
    rig.claim(1, max_messages=1)
    with pytest.raises(TransactionSequence, match="is already processed up to part 1, so"):
        rig.claim(0)
    with pytest.raises(TransactionSequence, match="part 1 of the claim c is already processed"):
        rig.claimed(1)
    assert rig.claimed(2) == ["b"]
    for name in ("", "x" * 256):
        with pytest.raises(InvalidParameter, match="the name of a claim must have 1 to 255 bytes"):
            rig.claim(claim=name)
    assert rig.seen() == ["c"]


def test_a_queue_of_another_computer_or_of_nobody_cannot_be_claimed(rig: BulkRig) -> None:
    for name in ("DIRECT=OS:far\\private$\\q", "nothing"):
        with pytest.raises(QueueNotFound):
            rig.claim(name=name)


def test_another_queue_under_the_name_is_noticed_by_its_epoch(rig: BulkRig) -> None:
    rig.send_all("a")
    for epoch in (guid_text(epoch_of(rig.queue())), ""):
        rig.claim_request(epoch=epoch)
    with pytest.raises(QueueDeleted):
        rig.claim_request(epoch=guid_text(b"\x55" * 16))


def test_a_reader_that_has_the_queue_for_itself_is_respected(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.done(rig.ask("orders", AccessType.RECEIVE, ShareMode.DENY_RECEIVE))
    with pytest.raises(SharingViolation):
        rig.claim()
    assert rig.node.claims._claims == {}
    assert rig.claim(max_messages=0) == (0, 0)


def test_what_was_claimed_before_a_reader_has_the_queue_for_itself_is_processed_all_the_same(rig: BulkRig) -> None:
    rig.send_all("abc")
    rig.claim(max_messages=1)
    rig.done(rig.ask("orders", AccessType.RECEIVE, ShareMode.DENY_RECEIVE))
    assert rig.claim(max_messages=1) == (1, 1)
    assert rig.claimed(1) == ["a"]
    with pytest.raises(SharingViolation, match="open exclusively; close the queue in that reader first"):
        rig.claim(1, max_messages=1)
    rig.stop()
    assert rig.labels() == ["b", "c"]
    assert rig.claim(1, max_messages=1) == (2, 1)
    rig.done(rig.ask("orders", AccessType.RECEIVE, ShareMode.DENY_RECEIVE))
    assert rig.claim(2, max_messages=0) == (2, 0)
    assert rig.labels() == ["c"]


def test_a_part_is_not_so_large_that_others_have_no_turn(rig: BulkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waypost.node.claims.MAX_CLAIMED", 2)
    rig.send_all("abc")
    assert rig.claim(max_messages=3) == (1, 2)
    assert rig.claim(1, max_messages=3) == (2, 1)


def test_a_coordinator_hears_nothing_of_claims(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim()
    rig.stop()
    rig.settle()
    assert [type(each).__name__ for each in rig.told] == ["EnlistResourceManager"]
    assert rig.node.manager.transactions.collection == {}
    assert rig.held()[0].count == 1


def test_remote_readers_see_a_claimed_message_as_one_that_a_transaction_has_received(rig: BulkRig) -> None:
    message = rig.message(rig.send("a"))
    operation_on = rig.node.manager.transactions.operation_on
    assert operation_on(rig.queue(), message.lookup_identifier) is None
    rig.claim()
    found = operation_on(rig.queue(), message.lookup_identifier)
    assert found is not None
    assert (found[0].is_prepared, found[1].operation_type) == (True, OperationType.DEQUEUE)


def test_an_explanation_names_the_claim_that_holds_a_message(rig: BulkRig) -> None:
    message = rig.message(rig.send("a"))
    rig.claim(claim="nightly")
    told = explain_message(rig.node, message.identifier, rig.now)
    assert any("claim nightly" in sentence for sentence in told.sentences), told.sentences


# Restarts.


def test_a_claim_is_kept_by_the_store_that_a_daemon_has(tmp_path: Path) -> None:
    engine = LmdbEngine(tmp_path)
    rig = BulkRig(engine)
    rig.ledger()
    rig.send_all("abc")
    rig.claim(max_messages=1)
    assert rig.claim(1, max_messages=1) == (2, 1)
    stage = rig.stage("staged")
    rig.stop()
    assert (rig.seen(), rig.claimed(2), rig.seen("ledger")) == (["c"], ["b"], [])
    assert rig.claim(2) == (3, 1)
    assert rig.commit_stages(stage).count == 1
    rig.stop()
    assert (rig.labels(), rig.seen("ledger"), rig.batches()) == (["c"], ["staged"], [0])
    engine.stop()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\x00" + bytes(8) + b"c", ClaimRecord(1.0).encode()),
        (b"\x07", b"\x01"),
        (b"\x02q", b"\x01"),
        (b"\x01" + bytes(16), b""),
    ],
)
def test_what_no_queue_manager_has_written_is_damage(rig: BulkRig, key: bytes, value: bytes) -> None:
    batch = Batch()
    batch.put(Table.BULK, key, value)
    rig.memory.submit(batch, 1000)
    with pytest.raises(StoreDamaged):
        rig.crash(written=1)


def test_a_claim_outlives_the_process(rig: BulkRig) -> None:
    rig.send_all("abc")
    rig.claim(max_messages=1)
    rig.claim(1, max_messages=1)
    rig.stop()
    assert rig.seen() == ["c"]
    assert rig.claim(1) == (2, 1)
    assert rig.claimed(2) == ["b"]
    assert rig.claim(2) == (3, 1)
    rig.stop()
    assert rig.labels() == ["c"]
    with pytest.raises(Timeout):
        rig.receive()


def test_a_lease_begins_anew_with_a_restart(rig: BulkRig) -> None:
    rig.send_all("a")
    rig.claim()
    rig.advance(LEASE - 1)
    rig.stop()
    rig.advance(LEASE - 1)
    assert rig.seen() == []
    rig.advance(1)
    assert rig.seen() == ["a"]
    rig.settle()
    rig.stop()
    assert rig.seen() == ["a"]
    assert [message.abort_count for message in rig.contents()] == [1]


def test_express_messages_of_a_claim_are_lost_with_the_process_but_its_number_is_not(rig: BulkRig) -> None:
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS)))
    rig.send_all("a")
    rig.claim()
    rig.stop()
    assert rig.claimed(1) == ["a"]
    assert rig.claim(1) == (1, 0)
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS)))
    assert rig.claim(1) == (2, 1)
    rig.stop()
    assert rig.claimed(2) == []
    assert rig.claim(2) == (2, 0)


@pytest.mark.parametrize("written", [0, 1])
def test_a_claim_is_answered_when_it_is_durable_and_a_crash_before_leaves_nothing(rig: BulkRig, written: int) -> None:
    rig.send_all("ab")
    rig.hold_disk()
    request = rig.claim_request(max_messages=1)
    repeated = rig.claim_request(max_messages=1)
    assert not rig.is_answered(request)
    assert not rig.is_answered(repeated)
    rig.crash(written=written)
    assert rig.seen() == (["b"] if written else ["a", "b"])
    assert rig.claim(max_messages=1) == (1, 1)
    assert rig.claimed(1) == ["a"]


@pytest.mark.parametrize("written", [0, 1])
def test_a_crash_in_the_moment_of_the_next_question_takes_all_or_nothing_out(rig: BulkRig, written: int) -> None:
    rig.send_all("abc")
    rig.claim(max_messages=2)
    rig.hold_disk()
    request = rig.claim_request(1)
    assert not rig.is_answered(request)
    rig.crash(written=written)
    assert rig.labels() == (["c"] if written else ["a", "b", "c"])
    assert rig.claim(1) == (2, 1)
    assert rig.claimed(2) == ["c"]
    assert rig.labels() == ["c"]


@pytest.mark.parametrize("written", [0, 1])
def test_a_crash_in_the_moment_in_which_a_lease_ends(rig: BulkRig, written: int) -> None:
    rig.send_all("a")
    rig.claim(max_aborts=1)
    rig.hold_disk()
    rig.advance(LEASE)
    rig.turn()
    rig.crash(written=written)
    rig.settle()
    assert (rig.seen(), rig.poison()) == ([], ["a"] if written else [])
    assert rig.labels() == ([] if written else ["a"])
