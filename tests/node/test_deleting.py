"""A queue is deleted in parts, also if others go on to send to it."""

import pytest

from tests.node.rig import Rig
from waypost.core.writing import Writing
from waypost.node import deleting, purging

PART = 3


def test_what_is_sent_to_a_queue_that_is_being_deleted_goes_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (deleting, purging):
        monkeypatch.setattr(module, "PURGE_PART", PART)
    at_last: list[int] = []
    delete_messages = Writing.delete_messages

    def counted(writing: Writing, queue: object) -> None:
        at_last.append(len(queue.positions))  # type: ignore[attr-defined]
        delete_messages(writing, queue)  # type: ignore[arg-type]

    monkeypatch.setattr(Writing, "delete_messages", counted)
    rig = Rig()
    rig.done(rig.send_many([b"x"] * (2 * PART)))
    queue = rig.queue()
    request = rig.delete()
    rig.done(rig.send_many([b"x"] * (5 * PART)))
    ticks = 0
    while request not in rig.answers:
        before = len(queue.positions)
        rig.advance(0)
        rig.settle()
        ticks += 1
        assert before - len(queue.positions) <= 2 * PART
    assert queue.is_deleted
    assert ticks >= 5
    assert max(at_last) <= PART
