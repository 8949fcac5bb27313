"""Transactional sequences as programs see them, at the sender."""

import pytest

import waypost
from tests.client import managers
from waypost.errors import InvalidParameter, QueueNotFound

manager, ledger = managers.manager, managers.ledger

FAR = r"DIRECT=TCP:192.0.2.1\PRIVATE$\far"


def send(manager: waypost.Manager, *bodies: str) -> list[str]:
    with manager.transaction() as transaction:
        return [manager.send(FAR, body, transaction=transaction).id for body in bodies]


def test_a_queue_manager_that_sends_nothing_has_no_sequence(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    assert list(manager.sequences()) == []
    assert list(manager.sequences("in", queue=ledger)) == []


def test_the_sequence_of_an_outgoing_queue_begins_again_with_what_is_not_acknowledged(
    manager: waypost.Manager,
) -> None:
    sent = send(manager, "1", "2")
    (before,) = manager.sequences()
    assert (before.direction, before.queue, before.source) == ("out", FAR, manager.guid)
    assert (before.ordinal, before.number, before.reason) == (1, 2, "")
    assert before.to_dict()["time_stamp"] == before.time_stamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    trial = manager.reset_sequences(queue=FAR, trial=True)
    assert list(manager.sequences("out")) == [before]
    done = manager.reset_sequences(queue=FAR)
    assert done == trial
    assert (done.sequences, done.renumbered, done.may_come_twice, done.identifiers) == (1, 2, 2, tuple(sent))
    assert sent[0] in done.warning
    (after,) = manager.sequences("out", queue=FAR)
    assert (after.ordinal, after.number) == (1, 2)
    assert after.time_stamp > before.time_stamp
    send(manager, "3")
    (after,) = manager.sequences("out", queue=FAR)
    assert after.number == 3
    assert list(manager.sequences(source="00000000-0000-0000-0000-000000000001")) == []


def test_no_reset_begins_a_sequence_that_another_has_begun(manager: waypost.Manager) -> None:
    send(manager, "1")
    begun = set()
    for _ in range(5):
        manager.reset_sequences(queue=FAR)
        (sequence,) = manager.sequences("out", queue=FAR)
        begun.add(sequence.time_stamp)
    assert len(begun) == 5


def test_nothing_is_reset_that_is_not_named(manager: waypost.Manager, ledger: waypost.Queue) -> None:
    assert manager.reset_sequences(queue=ledger).sequences == 0
    assert manager.reset_sequences(older_than=0).sequences == 0
    with pytest.raises(
        InvalidParameter, match="a reset requires at least one of the options queue, source, address and age"
    ):
        manager.reset_sequences()
    with pytest.raises(InvalidParameter, match="'nobody'"):
        manager.reset_sequences(source="nobody")
    with pytest.raises(InvalidParameter, match=r"'10\.0\.0' is not an IP address"):
        list(manager.sequences(address="10.0.0"))
    with pytest.raises(InvalidParameter, match="age must be a number of seconds"):
        manager.reset_sequences(older_than=-1)
    with pytest.raises(QueueNotFound):
        manager.reset_sequences(queue="none")
    send(manager, "1")
    with pytest.raises(
        InvalidParameter, match="the options source, address and age are not allowed for an outgoing queue"
    ):
        manager.reset_sequences(queue=FAR, older_than=5)
