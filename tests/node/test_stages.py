"""Stages: what is on disk and seen by nobody, and the commit that happens once, over restarts at every point."""

from itertools import count

import pytest

from tests.node.bulk_rig import LEASE, BulkRig, commit_of, group
from tests.node.hosts import Host, Net
from tests.node.rig import RECEIVE, ReadOptions, direct, letter
from waypost.api.bulk import Committed
from waypost.core.message_values import Acknowledgements
from waypost.errors import (
    InsufficientResources,
    InvalidParameter,
    QueueDeleted,
    Timeout,
    TransactionSequence,
    TransactionUsage,
    WaypostError,
)
from waypost.node.bulk_writing import BulkWriting
from waypost.node.kernel import Call
from waypost.node.stages import Batch, Group
from waypost.store.port import Table
from waypost.wire.format_names import FormatName
from waypost.wire.user_message import UserMessage

FAR = r"DIRECT=OS:b\private$\t"
# Numbers that a host does not use itself.
CALLS = count(1_000_000)


@pytest.fixture
def rig() -> BulkRig:
    rig = BulkRig()
    rig.ledger()
    return rig


def alike(bodies: list[bytes], name: str = "ledger") -> Group:
    return Group(direct(name), letter("alike"), bodies)


def test_nobody_sees_what_is_staged_until_its_commit(rig: BulkRig) -> None:
    stage = rig.stage("a", "b")
    assert rig.seen("ledger") == []
    with pytest.raises(Timeout):
        rig.receive("ledger")
    assert rig.commit_stages(stage) == Committed(2, is_repeated=False)
    assert rig.seen("ledger") == ["a", "b"]


def test_messages_stand_in_the_order_of_their_groups_and_stages(rig: BulkRig) -> None:
    rig.create("books", transactional=True)
    groups = [alike([b"1", b"2"]), group("other", name="books"), group("own"), alike([b"3"])]
    first = rig.stage_of(*groups)
    second = rig.stage("later")
    rig.commit_stages(second, first)
    assert [message.body for message in rig.contents(rig.queue("ledger"))] == [b"1", b"2", b"", b"3", b""]
    assert rig.labels(rig.queue("ledger")) == ["alike", "alike", "own", "alike", "later"]
    assert rig.labels(rig.queue("books")) == ["other"]


def test_each_stage_is_a_transaction_with_its_first_and_last_message(rig: BulkRig) -> None:
    first = rig.stage_of(alike([b"1", b"2", b"3"]))
    second = rig.stage("x")
    rig.commit_stages(first, second)
    messages = rig.contents(rig.queue("ledger"))
    marks = [(each.first_in_transaction, each.last_in_transaction) for each in messages]
    assert marks == [(True, False), (False, False), (False, True), (True, True)]
    numbers = [each.transaction_identifier for each in messages]
    assert numbers[0] == numbers[1] == numbers[2] != numbers[3]
    assert all(numbers)


def test_stages_of_a_batch_are_seen_in_one_moment(rig: BulkRig) -> None:
    stages = [rig.stage(label) for label in "abc"]
    rig.hold_disk()
    before = len(rig.submitted)
    request = rig.commit_request(*stages)
    assert not rig.is_answered(request)
    assert len(rig.submitted) == before + 1
    rig.crash(written=1)
    assert rig.seen("ledger") == ["a", "b", "c"]


def test_a_repeated_commit_changes_nothing(rig: BulkRig) -> None:
    stage = rig.stage("a")
    rig.commit_stages(stage)
    assert rig.commit_stages(stage) == Committed(0, is_repeated=True)
    assert rig.commit_stages(stage, stage) == Committed(0, is_repeated=True)
    assert rig.labels(rig.queue("ledger")) == ["a"]
    other = rig.stage("b", batch=1)
    with pytest.raises(TransactionSequence, match="txnId"):
        rig.commit_stages(other, batch=0)
    assert rig.commit_stages(other, batch=1).count == 1


def test_batches_of_a_query_are_remembered_over_a_restart_for_long_enough(rig: BulkRig) -> None:
    for batch in range(200):
        rig.commit_stages(batch=batch)
    assert rig.batches() == list(range(72, 200))
    assert rig.batches("other") == []
    rig.stop()
    assert rig.batches() == list(range(72, 200))
    assert rig.commit_stages(batch=199).is_repeated
    assert rig.commit_stages(batch=199, to="ledger").is_repeated
    with pytest.raises(TransactionSequence, match="it is no longer known whether batch 3 of the query q was committed"):
        rig.commit_stages(batch=3)


def test_queries_have_batches_of_their_own(rig: BulkRig) -> None:
    rig.commit_stages(rig.stage("a", query="one"), query="one")
    assert rig.commit_stages(rig.stage("b", query="two"), query="two").count == 1
    assert rig.seen("ledger") == ["a", "b"]


def test_a_commit_of_what_is_not_there_makes_nothing_seen(rig: BulkRig) -> None:
    stage, other = rig.stage("a"), rig.stage("b", batch=7)
    with pytest.raises(
        TransactionSequence, match=r"the stage .* does not exist: it was dropped, or not committed in time"
    ):
        rig.commit_stages(stage, b"\x55" * 16)
    with pytest.raises(
        TransactionSequence, match="belongs to batch 7 of the query q, but the commit is for batch 0 of the query q"
    ):
        rig.commit_stages(stage, other)
    assert rig.seen("ledger") == []
    assert rig.batches() == []
    assert rig.commit_stages(stage).count == 1


def test_a_stage_that_is_named_twice_is_committed_once(rig: BulkRig) -> None:
    stage = rig.stage("a")
    assert rig.commit_stages(stage, stage).count == 1
    assert rig.labels(rig.queue("ledger")) == ["a"]


def test_what_is_dropped_was_never_there(rig: BulkRig) -> None:
    stage = rig.stage("a", "b")
    rig.drop(stage, b"\x55" * 16)
    rig.drop(stage)
    assert rig.labels(rig.queue("ledger")) == []
    assert rig.node.manager.total_bytes == rig.queue("ledger").total_bytes == 0
    assert rig.store.scan(Table.BULK) == []
    rig.stop()
    assert rig.labels(rig.queue("ledger")) == []


def test_a_stage_that_nobody_commits_in_time_is_gone(rig: BulkRig) -> None:
    stage = rig.stage("a")
    rig.advance(LEASE - 1)
    assert rig.staged_bytes > 0
    rig.advance(1)
    assert rig.staged_bytes == 0
    rig.settle()
    assert rig.store.scan(Table.BULK) == []
    with pytest.raises(TransactionSequence, match="does not exist"):
        rig.commit_stages(stage)


def test_a_lease_begins_anew_with_a_restart(rig: BulkRig) -> None:
    rig.stage("a")
    rig.advance(LEASE - 1)
    rig.stop()
    rig.advance(LEASE - 1)
    assert rig.staged_bytes > 0
    rig.advance(1)
    assert rig.staged_bytes == 0


def test_a_reader_that_waits_gets_what_is_committed(rig: BulkRig) -> None:
    request = rig.receive("ledger", ReadOptions(timeout_ms=10_000))
    stage = rig.stage("a", "b")
    assert not rig.is_answered(request)
    rig.commit_stages(stage)
    assert rig.message(request).label == "a"
    assert rig.seen("ledger") == ["b"]


def test_what_asks_for_an_acknowledgment_gets_it_at_the_commit(rig: BulkRig) -> None:
    rig.create("admin")
    asks = letter(
        "a",
        acknowledgements_requested=Acknowledgements.ACK_POS_ARRIVAL,
        administration_queue_format_name=direct("admin"),
    )
    stage = rig.stage_of(Group(direct("ledger"), asks, [b"1", b"2"]))
    rig.stop()
    assert rig.labels(rig.queue("admin")) == []
    rig.commit_stages(stage)
    assert len(rig.labels(rig.queue("admin"))) == 2


# Messages that are refused.


def test_a_queue_that_is_not_transactional_is_refused_with_what_to_do(rig: BulkRig) -> None:
    sentence = "orders is not transactional, .*create it with --transactional, or write with delivery=at-least-once"
    with pytest.raises(TransactionUsage, match=sentence):
        rig.stage("a", name="orders")


def test_all_groups_are_staged_or_none(rig: BulkRig) -> None:
    for bad, error in (
        (group("x", name="orders"), TransactionUsage),
        (group("x", name="DIRECT=OS:host\\private$\\ledger;journal"), WaypostError),
        (Group(direct("ledger"), None, [b"without properties"]), InvalidParameter),
    ):
        with pytest.raises(error):
            rig.stage_request(group("a"), alike([b"1"]), bad)
        rig.settle()
        assert rig.labels(rig.queue("ledger")) == []
    assert rig.node.manager.transactions.collection == {}
    assert rig.node.manager.lasting.collection == {}
    assert rig.store.scan(Table.BULK) == []


def test_the_quota_of_the_machine_counts_what_is_staged(rig: BulkRig) -> None:
    rig.node.manager.set_quota(3)
    body = bytes(1024)
    first = rig.stage_of(alike([body]))
    rig.stop()
    rig.done(rig.stage_request(alike([body]), batch=1))
    with pytest.raises(InsufficientResources, match="this queue manager has reached its quota"):
        rig.stage_request(alike([body]))
    with pytest.raises(InsufficientResources, match="this queue manager has reached its quota"):
        rig.send(letter("x", body=body), "orders")
    assert rig.staged_bytes > 2048
    rig.commit_stages(first)
    assert 1024 < rig.staged_bytes < 2048
    assert rig.node.manager.total_bytes == rig.queue("ledger").total_bytes > 1024
    rig.stop()
    assert 1024 < rig.staged_bytes < 2048


def test_a_message_that_never_fits_into_its_queue_is_refused_at_once(rig: BulkRig) -> None:
    rig.modify("ledger", quota=2)
    with pytest.raises(InvalidParameter, match=r"has a quota of 2 KB, so a message of .* never fits; nothing was"):
        rig.stage_request(alike([b"", bytes(2048)]))
    assert rig.staged_bytes == 0


@pytest.mark.parametrize("query", ["", "x" * 256])
def test_a_query_has_a_name_that_can_be_kept(rig: BulkRig, query: str) -> None:
    for ask in (lambda: rig.stage("a", query=query), lambda: rig.commit_stages(query=query)):
        with pytest.raises(InvalidParameter, match="the name of a query must have 1 to 255 bytes"):
            ask()


def test_nobody_else_ends_a_stage(rig: BulkRig) -> None:
    stage = rig.stage("a")
    for end in (rig.commit, rig.abort):
        with pytest.raises(TransactionSequence):
            end(stage)
    with rig.node.kernel.operation(rig.now):
        rig.node.external.dtc_transaction_commit(stage, rig.now.wall)
        rig.node.external.dtc_transaction_abort(stage)
        rig.node.external.dtc_reenlistment_abort(stage)
    rig.stop()
    rig.settle()
    assert [type(each).__name__ for each in rig.told] == ["EnlistResourceManager"]
    assert rig.commit_stages(stage).count == 1


# Events meanwhile.


def test_a_purge_takes_nothing_of_what_is_staged(rig: BulkRig) -> None:
    stage = rig.stage("a")
    rig.done(rig.purge("ledger"))
    rig.stop()
    rig.commit_stages(stage)
    assert rig.seen("ledger") == ["a"]
    rig.stop()
    assert rig.seen("ledger") == ["a"]


def delete(rig: BulkRig, name: str) -> None:
    request = rig.delete(name)
    while not rig.is_answered(request):
        rig.advance(0)
    rig.settle()


@pytest.mark.parametrize("is_created_again", [False, True])
@pytest.mark.parametrize("is_started_again", [False, True])
def test_a_commit_into_a_queue_that_was_deleted_is_refused_whole(
    rig: BulkRig, *, is_created_again: bool, is_started_again: bool
) -> None:
    rig.create("books", transactional=True)
    first = rig.stage_of(group("a"), group("b", name="books"))
    delete(rig, "ledger")
    if is_created_again:
        rig.ledger()
    second = rig.stage("c", name="books")
    if is_started_again:
        rig.stop()
    with pytest.raises(
        QueueDeleted, match=r"a queue was deleted, or deleted and created again, .*batch 0 of the query q"
    ):
        rig.commit_stages(first, second)
    assert rig.seen("books") == []
    assert rig.batches() == []
    # The batch is written again, and what is left of the first time goes with its commit.
    if not is_created_again:
        rig.ledger()
    assert rig.commit_stages(rig.stage_of(group("a"), group("b", name="books"))).count == 2
    assert rig.labels(rig.queue("books")) == ["b"]
    assert rig.labels(rig.queue("ledger")) == ["a"]


def test_a_stage_is_dropped_after_its_queue(rig: BulkRig) -> None:
    stage = rig.stage("a", to="ledger")
    delete(rig, "ledger")
    rig.stop()
    with pytest.raises(QueueDeleted, match=r"host\\private\$\\ledger was deleted"):
        rig.commit_stages(stage, to="ledger")
    rig.drop(stage)
    assert rig.store.scan(Table.BULK) == []


def test_what_expires_while_it_is_staged_is_gone_at_the_commit(rig: BulkRig) -> None:
    stage = rig.stage_of(Group(direct("ledger"), letter("", time_to_be_received=10), [b"1"]))
    rig.advance(20)
    rig.commit_stages(stage)
    assert rig.labels(rig.queue("ledger")) == []


# Crashes.


@pytest.mark.parametrize("written", [0, 1])
def test_a_stage_is_answered_when_it_is_durable(rig: BulkRig, written: int) -> None:
    rig.open("ledger", RECEIVE)
    rig.hold_disk()
    request = rig.stage_request(alike([b"1", b"2"]))
    assert not rig.is_answered(request)
    (stage,) = rig.node.stages._stages
    rig.crash(written=written)
    assert (rig.staged_bytes > 0) == bool(written)
    assert rig.seen("ledger") == []
    if written:
        assert rig.commit_stages(stage).count == 2
    else:
        with pytest.raises(TransactionSequence):
            rig.commit_stages(stage)


@pytest.mark.parametrize("written", [0, 1])
def test_a_commit_is_answered_when_it_is_durable_and_can_be_repeated(rig: BulkRig, written: int) -> None:
    stages = rig.stage("a"), rig.stage("b")
    rig.hold_disk()
    request, repeated = rig.commit_request(*stages), rig.commit_request(*stages)
    assert not rig.is_answered(request)
    assert not rig.is_answered(repeated)
    rig.crash(written=written)
    assert rig.seen("ledger") == (["a", "b"] if written else [])
    assert rig.commit_stages(*stages) == (
        Committed(0, is_repeated=True) if written else Committed(2, is_repeated=False)
    )
    assert rig.seen("ledger") == ["a", "b"]


# Destinations on other computers.


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def a(net: Net) -> Host:
    return net.add("a")


@pytest.fixture
def b(net: Net, a: Host) -> Host:
    assert a.is_up
    host = net.add("b")
    host.create("t", transactional=True)
    return host


def stage_at(host: Host, *labels: str, batch: int = 0) -> bytes:
    before = set(host.node.stages._stages)
    messages = [letter(label) for label in labels]
    groups = [Group(FormatName.parse(FAR), messages=messages)]
    BulkWriting(host.node).stage_groups(
        Call(next(CALLS), host.net.now, host.node.administrator), Batch("q", batch), groups, 1000.0
    )
    host.net.settle()
    (stage,) = set(host.node.stages._stages) - before
    return stage


def commit_at(host: Host, *stages: bytes, batch: int = 0) -> None:
    BulkWriting(host.node).commit(
        Call(next(CALLS), host.net.now, host.node.administrator), commit_of(stages, Batch("q", batch))
    )
    host.net.settle()


def numbers(net: Net) -> list[int]:
    packets = net.packets(UserMessage)
    return [packet.transaction.tx_sequence_number for packet in packets if packet.transaction is not None]


def test_what_is_staged_for_another_computer_leaves_at_its_commit(net: Net, a: Host, b: Host) -> None:
    stage = stage_at(a, "1", "2")
    net.advance(30)
    assert net.packets(UserMessage) == []
    commit_at(a, stage)
    net.advance(30)
    assert b.bodies("t") == ["1", "2"]
    assert numbers(net) == [1, 2]
    assert a.messages(FAR) == []


def test_transfer_is_in_the_order_of_the_commits(net: Net, a: Host, b: Host) -> None:
    first, second, third = stage_at(a, "1"), stage_at(a, "2", batch=1), stage_at(a, "3", batch=1)
    commit_at(a, third, second, batch=1)
    transaction = a.begin()
    a.send(FAR, "between", transaction)
    a.commit(transaction)
    commit_at(a, first)
    net.advance(60)
    assert b.bodies("t") == ["2", "3", "between", "1"]
    assert numbers(net) == [1, 2, 3, 4]


def test_stages_keep_their_order_over_a_restart_whatever_their_guids(
    net: Net, a: Host, b: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    guids = iter((b"\x33" * 16, b"\x11" * 16, b"\x22" * 16))
    monkeypatch.setattr(a.node.stages, "_new_guid", lambda: next(guids))
    stages = [stage_at(a, label) for label in "012"]
    a.crash_and_start()
    commit_at(a, *reversed(stages))
    net.advance(60)
    assert b.bodies("t") == ["0", "1", "2"]


def test_a_restart_between_stage_and_commit_changes_nothing_for_another_computer(net: Net, a: Host, b: Host) -> None:
    first, second = stage_at(a, "1", "2"), stage_at(a, "3", batch=1)
    a.crash_and_start()
    net.advance(60)
    assert b.bodies("t") == []
    commit_at(a, second, batch=1)
    net.advance(60)
    a.crash_and_start()
    commit_at(a, first)
    net.advance(60)
    assert b.bodies("t") == ["3", "1", "2"]
    a.crash_and_start()
    net.advance(60)
    assert b.bodies("t") == ["3", "1", "2"]
