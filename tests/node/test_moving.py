"""All messages of a queue are moved in parts: each part is one batch, and each message is in one place."""

import pytest

from tests.node.rig import Rig, letter
from waypost.api.operations import MoveAll
from waypost.api.queues import MovedObject
from waypost.clock import Now
from waypost.core.queues import Queue
from waypost.core.writing import MovedPart
from waypost.errors import InvalidParameter
from waypost.node import message_calls

PART = 3
MANY = 2 * PART + 1
RETRY = "orders;retry"


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(message_calls, "MOVE_PART", PART)
    rig = Rig()
    for number in range(MANY):
        rig.done(rig.send(letter(str(number), priority=number % 2)))
    return rig


def move(rig: Rig, part: MovedPart, source: str = "orders", target: str = RETRY) -> int:
    if part == MovedPart():
        return rig.do(MoveAll(name=source, to=target))
    return rig.do(MoveAll(name=source, to=target, after=str(part.after), up_to=str(part.up_to)))


def moved(rig: Rig, part: MovedPart) -> MovedPart:
    found = rig.done(move(rig, part))
    assert isinstance(found, MovedObject)
    return MovedPart(found.moved, int(found.next or 0), int(found.up_to), is_last=not found.next)


def retry(rig: Rig) -> Queue:
    return rig.queue().subqueues["retry"]


def test_every_part_moves_so_many_messages_and_the_last_says_so(rig: Rig) -> None:
    before = rig.labels()
    parts = [moved(rig, MovedPart())]
    while not parts[-1].is_last:
        parts.append(moved(rig, parts[-1]))
    assert [part.count for part in parts] == [3, 3, 1]
    assert (rig.labels(), rig.labels(retry(rig))) == ([], before)
    assert {message.move_count for message in rig.contents(retry(rig))} == {1}
    again = moved(rig, MovedPart())
    assert (again.count, again.is_last) == (0, True)


def test_an_empty_queue_is_done_at_once(rig: Rig) -> None:
    while rig.labels():
        rig.done(rig.receive())
    found = moved(rig, MovedPart())
    assert (found.count, found.is_last) == (0, True)


def test_what_comes_meanwhile_and_what_is_held_stays(rig: Rig) -> None:
    held = rig.message(rig.begin_receive()).label
    part = moved(rig, MovedPart())
    for label in ("new", "newer"):
        rig.done(rig.send(letter(label, priority=1)))
    while not part.is_last:
        part = moved(rig, part)
    assert rig.labels() == [held, "new", "newer"]
    assert len(rig.labels(retry(rig))) == MANY - 1


def test_a_part_is_moved_as_a_whole_or_not_at_all(rig: Rig) -> None:
    everything = sorted(rig.labels())
    part = moved(rig, MovedPart())
    rig.hold_disk()
    request = move(rig, part)
    assert not rig.is_answered(request)
    rig.crash()
    assert (len(rig.labels()), len(rig.labels(retry(rig)))) == (MANY - PART, PART)
    rig.hold_disk()
    move(rig, part)
    rig.settle()
    rig.crash(written=1)
    assert (len(rig.labels()), len(rig.labels(retry(rig)))) == (MANY - 2 * PART, 2 * PART)
    assert sorted(rig.labels() + rig.labels(retry(rig))) == everything


def test_only_a_queue_and_its_subqueues_exchange_messages(rig: Rig) -> None:
    rig.create("other")
    with pytest.raises(InvalidParameter):
        move(rig, MovedPart(), target="other;sub")
    with pytest.raises(InvalidParameter):
        move(rig, MovedPart(), source=RETRY, target=RETRY)
    assert len(rig.labels()) == MANY


def test_what_has_expired_is_not_moved(rig: Rig) -> None:
    while rig.labels():
        rig.done(rig.receive())
    rig.done(rig.send(letter("short", time_to_be_received=10)))
    rig.done(rig.send("long"))
    rig.now = Now(rig.now.monotonic + 10, rig.now.wall + 10)
    part = moved(rig, MovedPart())
    assert (part.count, rig.labels(retry(rig))) == (1, ["long"])
