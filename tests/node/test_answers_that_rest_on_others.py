"""Answers that rest on what an earlier operation did, operations that must not be half done, and odd arguments."""

from unittest.mock import patch

import pytest

from tests.node.rig import EXPRESS, IN_TX, OTHER_TX, TX, Rig, letter, path
from waypost.errors import InvalidParameter, StoreDamaged, Timeout, TransactionSequence
from waypost.limits import PURGE_PART
from waypost.store.keys import message_key
from waypost.store.port import Batch, Table
from waypost.wire.property_values import QueuePrivacy


def delete(rig: Rig, name: str = "orders") -> int:
    return rig.delete(name)


def test_a_commit_waits_for_the_deletion_that_left_it_nothing_to_do() -> None:
    rig = Rig()
    rig.done(rig.send("m"))
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.hold_disk()
    deleted, committed = delete(rig), rig.commit()
    rig.turn()
    assert not rig.is_answered(committed)
    rig.release_disk()
    assert rig.is_answered(deleted)
    assert rig.is_answered(committed)


def test_a_purge_of_an_empty_queue_waits_for_the_purge_that_emptied_it() -> None:
    rig = Rig()
    rig.done(rig.send("m"))
    rig.open()
    rig.hold_disk()
    first, second = rig.purge(), rig.purge()
    rig.turn()
    assert not rig.is_answered(first)
    assert not rig.is_answered(second)
    rig.crash()
    assert rig.labels() == ["m"]


def test_a_long_purge_waits_for_its_first_part() -> None:
    rig = Rig()
    rig.done(rig.send_many([b""] * PURGE_PART))
    rig.done(rig.send(letter("express", delivery_guarantee=EXPRESS)))
    rig.open()
    rig.hold_disk()
    purged = rig.purge()
    rig.turn()
    rig.advance(0)
    rig.turn()
    assert rig.labels() == []
    assert not rig.is_answered(purged)
    rig.release_disk()
    assert rig.is_answered(purged)


def test_a_purge_ends_though_messages_keep_coming() -> None:
    rig = Rig()
    rig.done(rig.send_many([b""] * (PURGE_PART + 1)))
    rig.open()
    purged = rig.purge()
    for _ in range(2):
        rig.send_many([b"new"] * PURGE_PART)
        rig.advance(0)
    rig.settle()
    assert rig.is_answered(purged)
    assert len(rig.queue().positions) == 2 * PURGE_PART


def test_a_message_is_forwarded_in_the_transaction_that_received_it() -> None:
    rig = Rig()
    rig.create("in", transactional=True)
    rig.create("out", transactional=True)
    rig.done(rig.begin(OTHER_TX))
    rig.done(rig.send("m", "in", OTHER_TX))
    rig.done(rig.commit(OTHER_TX))
    rig.done(rig.begin())
    message = rig.message(rig.receive("in", IN_TX))
    sent = rig.message(rig.send(message, "out", TX))
    rig.done(rig.commit())
    rig.crash()
    assert rig.labels(rig.queue("in")) == []
    (kept,) = rig.contents(rig.queue("out"))
    assert kept.identifier == sent.identifier != message.identifier


def test_what_is_sent_again_says_nothing_of_its_time_in_another_queue() -> None:
    rig = Rig()
    rig.create("other")
    rig.done(rig.send("m"))
    rig.done(rig.begin())
    rig.done(rig.receive(options=IN_TX))
    rig.done(rig.abort())
    message = rig.message(rig.receive())
    assert message.abort_count == 1
    rig.done(rig.send(message, "other"))
    assert rig.contents(rig.queue("other"))[0].abort_count == 0


def test_a_message_whose_packet_cannot_be_decoded_is_set_aside_and_stops_nothing() -> None:
    rig = Rig()
    rig.done(rig.send(letter("m", negative_journaling_requested=True)))
    number, (lookup_id,) = rig.queue().number, rig.queue().positions
    rig.crash()
    batch = Batch()
    value = rig.store.get(Table.MESSAGES, message_key(number, lookup_id))
    assert value is not None
    batch.put(Table.MESSAGES, message_key(number, lookup_id), value[:19] + b"\xff" + value[20:])
    rig.store.commit(batch, 10_000)
    rig.open()
    with pytest.raises(Timeout):
        rig.receive()
    rig.done(rig.send("another"))
    assert rig.message(rig.receive()).label == "another"
    (kept,) = rig.node.damaged.all()
    assert (kept.lookup_id, kept.has_bytes) == (lookup_id, True)


def test_damage_in_the_middle_of_an_operation_stops_everything_and_answers_nothing() -> None:
    """Messages do not lead there any more. Half-done work must not become durable, whatever the cause."""
    rig = Rig()
    rig.done(rig.send(letter("m", negative_journaling_requested=True)))
    rig.open()
    rig.node.kernel.take_effects()
    with (
        patch.object(type(rig.node.delivery), "handle", side_effect=StoreDamaged("a page is unreadable")),
        pytest.raises(StoreDamaged),
    ):
        rig.receive()
    with pytest.raises(StoreDamaged):
        rig.send("another")
    assert rig.node.kernel.take_effects() == []


@pytest.mark.parametrize(
    "attributes",
    [
        {"quota": -1},
        {"quota": 1 << 40},
        {"journal_quota": 1 << 40},
        {"base_priority": 0x8000},
        {"type_guid": b"1"},
        {"privacy_level": 7},
        {"label": "x" * 125},
    ],
)
def test_a_queue_cannot_have_attributes_that_no_queue_can_have(attributes: dict[str, object]) -> None:
    rig = Rig()
    with pytest.raises(InvalidParameter):
        rig.create("odd", **attributes)
    with pytest.raises(InvalidParameter):
        rig.modify("orders", **attributes)
    assert path("odd") not in rig.node.manager.queues
    assert rig.queue().attributes.privacy_level is QueuePrivacy.MQ_PRIV_LEVEL_OPTIONAL
    rig.crash()


def test_an_application_cannot_end_what_a_coordinator_began() -> None:
    rig = Rig()
    rig.enlist()
    for end in (rig.commit, rig.abort):
        with pytest.raises(TransactionSequence):
            end()
    rig.prepare()
    rig.settle()
    assert TX in rig.node.manager.transactions.collection


def test_a_queue_manager_that_has_stopped_wants_no_wake_up() -> None:
    rig = Rig()
    rig.done(rig.send(letter("m", time_to_be_received=5)))
    assert rig.node.next_deadline(rig.now) is not None
    rig.node.manager.queue_manager_stopped()
    assert rig.node.next_deadline(rig.now) is None
