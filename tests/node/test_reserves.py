"""Numbers that are given from a block: what is told lies behind an end that is durable."""

import pytest

from tests.node.rig import EXPRESS, SEND, Rig, letter
from waypost.core.positions import SEQUENCE_MASK
from waypost.store.keys import Counter
from waypost.store.port import Table
from waypost.store.records import CounterRecord

BLOCK = 4


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr("waypost.node.reserves.BLOCK", BLOCK)
    rig = Rig()
    rig.open(access=SEND)
    rig.open()
    return rig


def express(rig: Rig) -> int:
    return rig.send(letter("x", delivery_guarantee=EXPRESS))


def end(rig: Rig, counter: Counter = Counter.SEQUENTIAL_ID) -> int:
    value = rig.store.get(Table.COUNTERS, counter.value)
    assert value is not None
    return CounterRecord.decode(value).value


def test_an_answer_that_tells_a_number_beyond_the_durable_end_waits_for_it(rig: Rig) -> None:
    durable = end(rig)
    assert durable == end(rig, Counter.MESSAGE_ID_ORDINAL) == BLOCK
    rig.hold_disk()
    requests = [express(rig) for _ in range(durable + 1)]
    rig.settle()
    assert requests[-1] not in rig.answers
    rig.release_disk()
    assert rig.message(requests[-1]).identifier.ordinal == durable + 1 <= end(rig)


def test_the_numbers_within_it_are_told_at_once(rig: Rig) -> None:
    rig.hold_disk()
    assert all(rig.is_answered(express(rig)) for _ in range(BLOCK // 2))
    assert not rig.pending


def test_they_are_so_while_the_next_end_is_being_written(rig: Rig) -> None:
    rig.hold_disk()
    for _ in range(BLOCK - 1):
        express(rig)
    rig.turn()
    assert rig.pending
    assert rig.is_answered(express(rig))
    assert not rig.is_answered(express(rig))


def test_a_batch_before_that_of_the_next_end_is_not_enough(rig: Rig) -> None:
    rig.hold_disk()
    rig.send("another batch")
    rig.turn()
    for _ in range(BLOCK - 1):
        express(rig)
    rig.turn()
    rig.write()
    assert not rig.is_answered(express(rig))
    rig.release_disk()
    assert rig.is_answered(express(rig))


def test_a_new_end_is_written_before_the_old_one_is_reached(rig: Rig) -> None:
    for number in range(1, 3 * BLOCK):
        rig.done(express(rig))
        assert end(rig) >= number + BLOCK // 2
        assert end(rig, Counter.MESSAGE_ID_ORDINAL) >= number + BLOCK // 2


def test_a_journal_copy_uses_a_number_too(rig: Rig) -> None:
    rig.modify("orders", journaling=True)
    rig.hold_disk()
    sent = [express(rig), express(rig)]
    received = [rig.receive(), rig.receive(), express(rig)]
    rig.settle()
    assert all(request in rig.answers for request in sent)
    assert received[-1] not in rig.answers
    rig.release_disk()
    assert received[-1] in rig.answers


def test_no_number_is_given_twice_whatever_is_lost(rig: Rig) -> None:
    given: list[tuple[int, int]] = []
    for lost in range(6):
        for _ in range(lost + 1):
            message = rig.message(rig.send("x"))
            given.append((message.lookup_identifier & SEQUENCE_MASK, message.identifier.ordinal))
        rig.hold_disk()
        for _ in range(lost):
            request = express(rig)
            if rig.is_answered(request):
                message = rig.message(request)
                given.append((message.lookup_identifier & SEQUENCE_MASK, message.identifier.ordinal))
        rig.crash(written=lost % 2)
    for numbers in zip(*given, strict=True):
        assert list(numbers) == sorted(set(numbers))


def test_an_express_answer_does_not_wait_because_a_block_is_extended(rig: Rig) -> None:
    rig.hold_disk()
    assert all(rig.is_answered(express(rig)) for _ in range(BLOCK))
    assert rig.pending
