"""Bulk operations of a manager, which tests.client.test_remote_same runs on a daemon too."""

import re
from typing import Any

import pytest

import waypost
from tests.client import managers
from waypost.api.bulk import (
    CommitStages,
    FindSeq,
    ListBatches,
    ListBulkQueues,
    PlanRange,
    ReadRange,
    RemoveRange,
    ShowBulkQueue,
    Stage,
    StagedMessages,
)
from waypost.api.claims import Claim, ListClaims, ReadClaim, ReturnClaim
from waypost.api.frames import Frame
from waypost.api.local import CancelReads
from waypost.api.operations import Operation
from waypost.api.properties import MessageProperties
from waypost.core.stored_message import stored_message
from waypost.errors import InvalidParameter, QueueNotFound, TransactionSequence

manager, orders, ledger = managers.manager, managers.orders, managers.ledger

# For the places in which it is wrong.
NUMBER: Any = 5
TEXT: Any = "eA=="


def bodies(frame: Frame) -> list[bytes]:
    return [stored_message(packet).body for packet in frame.each_packet()]


def test_a_range_is_planned_read_and_removed(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send_many([b"%d" % number for number in range(10)])
    plan = manager.call(PlanRange(name="orders", parts=2))
    assert plan.counts == [5, 5]
    first, second = (
        manager.call(ReadRange(name="orders", after=after, up_to=up_to, epoch=plan.epoch))
        for after, up_to in zip(plan.bounds, plan.bounds[1:], strict=False)
    )
    assert bodies(first) + bodies(second) == [b"%d" % number for number in range(10)]
    assert manager.call(RemoveRange(name="orders", up_to=plan.bounds[1])).count == 5
    shown = manager.call(ShowBulkQueue(name="orders"))
    assert (shown.count, shown.epoch) == (5, plan.epoch)
    assert [queue.path for queue in manager.call(ListBulkQueues(pattern="order?")).queues] == [shown.path]
    assert manager.call(FindSeq(name="orders", time=0)).seq == 0
    with pytest.raises(QueueNotFound, match="nothing is not a queue of this computer"):
        manager.call(PlanRange(name="nothing"))


def test_a_part_is_claimed_read_and_returned(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send_many([b"a", b"b", b"c"])
    part = manager.call(Claim(name="orders", claim="mine", max_messages=2))
    wanted = ReadClaim(name="orders", claim="mine", number=part.number, start=0, stop=part.count, epoch=part.epoch)
    assert bodies(manager.call(wanted)) == [b"a", b"b"]
    assert [each.claim for each in manager.call(ListClaims(name="orders")).claims] == ["mine"]
    assert manager.call(ReturnClaim(name="orders", claim="mine")).count == 2
    assert orders.receive(0).body == b"a"
    with pytest.raises(TransactionSequence, match="part 1 of the claim mine has ended"):
        manager.call(wanted)


def test_a_batch_is_staged_and_committed_once(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    group = StagedMessages(queue="ledger", like=MessageProperties(label="row"), bodies=[b"1", b"2"])
    staged = manager.call(Stage(query="q", batch=0, groups=[group]))
    assert manager.call(ReadRange(name="ledger", up_to=1 << 50)).count == 0
    commit = CommitStages(query="q", batch=0, stages=[staged.stage])
    assert manager.call(commit).count == 2
    assert manager.call(commit).is_repeated
    assert manager.call(ListBatches(query="q")).batches == [0]
    assert [ledger.receive(0).body for _ in range(2)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (None, "`operation` must be a waypost.api record such as ListQueues(), not None"),
        (PlanRange, "`operation` must be a waypost.api record such as ListQueues()"),
        (Operation(), "`operation` must be a waypost.api record such as ListQueues()"),
        (CancelReads(name="orders"), "the operation 'cancel reads' is internal to the queue manager"),
        (
            PlanRange(name=NUMBER),
            "invalid fields for the operation 'plan range': Expected `str`, got `int` - at `$.name`",
        ),
        (PlanRange(name="orders", parts=0), "Expected `int` >= 1 - at `$.parts`"),
        (ListBulkQueues(pattern=NUMBER), "Expected `str`, got `int` - at `$.pattern`"),
        (
            Stage(query="q", batch=1, groups=[StagedMessages(queue="ledger", messages=[NUMBER])]),
            "Expected `object`, got `int` - at `$.groups[0].messages[0]`",
        ),
        (
            Stage(query="q", batch=1, groups=[StagedMessages(queue="ledger", like=MessageProperties(), bodies=[TEXT])]),
            "Expected `bytes`, got `str` - at `$.groups[0].bodies[0]`",
        ),
    ],
)
def test_a_wrong_operation_is_refused_and_the_manager_goes_on(
    manager: waypost.Manager, wrong: Any, sentence: str
) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(sentence)):
        manager.call(wrong)
    assert manager.call(ListBulkQueues()).queues == []
