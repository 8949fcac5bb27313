"""MS-MQQB 3.1.1.5, 3.1.5.6, 3.1.5.8.6 and 3.1.6.5: sequences of transactional messages at both ends."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waypost.clock import Now
from waypost.transfer.ascending import Ascending
from waypost.transfer.sequences import (
    IncomingSequence,
    OutgoingSequence,
    SentEntry,
    TxOutgoingSequence,
    final_ack_body,
)
from waypost.transfer.settings import ResendTimeouts
from waypost.wire.identifiers import MessageIdentifier, SequenceInfo, TxSequenceId
from waypost.wire.transaction_header import TransactionHeader

TABLE = ResendTimeouts().resend_timer_table
ID = TxSequenceId(1, 0x6000_0000)
SECOND = TxSequenceId(2, 0x6000_0000)
WALL = 1_700_000_000.0


def at(seconds: float) -> Now:
    return Now(monotonic=1000.0 + seconds, wall=WALL + seconds)


def sent(*numbers: int) -> TxOutgoingSequence:
    """A sequence in which these messages were sent at 0; the LookupIdentifier of each is a hundred above its number."""
    sequence = TxOutgoingSequence(ID, TABLE)
    for number in numbers:
        sequence.sent(number, 100 + number, at(0))
    return sequence


def numbers(entries: Sequence[SentEntry]) -> list[int]:
    return [entry.number for entry in entries]


def deadline(sequence: TxOutgoingSequence) -> float | None:
    return sequence.deadline


def header(number: int, previous: int | None = None, sequence_id: TxSequenceId = ID) -> TransactionHeader:
    return TransactionHeader(0, sequence_id.value, number, number - 1 if previous is None else previous)


def received(*headers: TransactionHeader) -> IncomingSequence:
    sequence = IncomingSequence()
    for each in headers:
        assert sequence.accept(each, WALL)
    return sequence


@pytest.mark.spec("MQQB-3.1.1.5-01")
def test_the_first_message_of_a_sequence_has_number_1() -> None:
    sequence = OutgoingSequence.first(0x6000_0000)
    pairs = [(sequence.number(), sequence.sequence_id) for _ in range(3)]
    assert pairs == [(1, ID), (2, ID), (3, ID)]
    sequence.begin_next()
    assert (sequence.number(), sequence.sequence_id) == (1, SECOND)


@pytest.mark.spec("MQQB-3.1.1.3.1-02", "MQQB-3.1.1.3.1-03", "MQQB-3.1.1.5-04")
def test_every_sequence_is_greater_than_those_before() -> None:
    sequence = OutgoingSequence.first(7)
    assert (sequence.sequence_id.ordinal, sequence.sequence_id.time_stamp) == (1, 7)
    before = [sequence.sequence_id]
    for _ in range(3):
        sequence.number()
        sequence.begin_next()
        assert sequence.next_number == 1
        assert sequence.sequence_id.ordinal == before[-1].ordinal + 1
        assert all(each < sequence.sequence_id for each in before)
        before.append(sequence.sequence_id)
    fresh = OutgoingSequence.first(8)
    assert fresh.sequence_id.ordinal == 1
    assert all(each < fresh.sequence_id for each in before)


def test_a_sequence_that_runs_out_of_numbers_is_followed_by_the_next() -> None:
    sequence = OutgoingSequence(ID, 0xFFFF_FFFE)
    assert (sequence.number(), sequence.sequence_id) == (0xFFFF_FFFE, ID)
    assert sequence.next_number <= 0xFFFF_FFFF
    assert (sequence.number(), sequence.sequence_id, sequence.next_number) == (1, SECOND, 2)


@pytest.mark.spec("MQQB-3.1.1.3.1.1-01", "MQQB-3.1.1.5-03")
def test_what_was_sent_is_unacked_in_the_order_of_its_numbers() -> None:
    outgoing = OutgoingSequence(ID, 5)
    sequence = TxOutgoingSequence.of(outgoing, TABLE, (ID, outgoing.next_number - 1))
    sequence.last_ack_number = 4
    for _ in range(3):
        number = outgoing.number()
        info = SequenceInfo.of(sequence.sequence_id, number, sequence.previous_of(number))
        assert info == SequenceInfo.of(ID, number, number - 1)
        sequence.sent(number, 100 + number, at(0))
    assert sequence.unacked_sequence == [5, 6, 7]
    sequence.sent(6, 106, at(1))
    assert sequence.unacked_sequence == [5, 6, 7]
    assert (sequence.unacked_ends, sequence.unacked_count) == ((5, 7), 3)


@pytest.mark.spec("MQQB-3.1.3.2-03")
def test_a_new_session_starts_with_everything_unsent() -> None:
    sequence = sent(1, 2, 3)
    sequence.order_acknowledged(ID.value, 1, at(2))
    sequence.timed_out()
    sequence.sent(2, 102, at(40))
    sequence.reset(at(60))
    assert sequence.last_ack_number == 0
    assert sequence.time_of_last_ack == WALL + 60
    assert sequence.last_ack_count == 0
    assert (sequence.resend_interval_index, sequence.resend_interval) == (0, TABLE[0])
    assert sequence.resend_time == 0
    assert deadline(sequence) is None


def test_a_new_session_lets_go_of_what_only_waited_for_the_old_one() -> None:
    sequence = sent(1, 2, 3)
    assert sequence.order_acknowledged(ID.value, 2, at(1)) == []
    assert numbers(sequence.reset(at(2))) == [1, 2]
    assert (len(sequence), sequence.unacked_sequence) == (1, [3])


def test_an_order_ack_frees_what_no_session_has_at_once() -> None:
    sequence = sent(1, 2)
    sequence.reset(at(1))
    assert numbers(sequence.order_acknowledged(ID.value, 2, at(2))) == [1, 2]
    assert len(sequence) == 0


@pytest.mark.spec("MQQB-3.1.2.6-01")
def test_the_resend_timer_starts_with_a_message_and_runs_for_the_interval() -> None:
    sequence = TxOutgoingSequence(ID, TABLE)
    assert deadline(sequence) is None
    sequence.sent(1, 101, at(5))
    assert deadline(sequence) == at(5 + 30).monotonic
    assert sequence.resend_time == at(5 + 30).wall
    sequence.sent(2, 102, at(20))
    assert deadline(sequence) == at(5 + 30).monotonic, "steady traffic does not put it off"
    sequence.timed_out()
    sequence.timed_out()
    sequence.timed_out()
    sequence.sent(1, 101, at(100))
    assert deadline(sequence) == at(100 + 300).monotonic
    assert sequence.resend_time == at(100 + 300).wall


@pytest.mark.spec("MQQB-3.1.1.3-10", "MQQB-3.1.3.1-01")
def test_there_are_ten_steps_of_resending_and_all_are_configurable() -> None:
    assert list(TABLE) == [30, 30, 30, 300, 300, 300, 1800, 1800, 1800, 21600]
    assert list(ResendTimeouts(1, 2, 3, 4).resend_timer_table) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]


@pytest.mark.spec("MQQB-3.1.5.6-04")
def test_the_interval_grows_with_each_time_out_and_starts_again_with_progress() -> None:
    """readings MQQB 3.16."""
    sequence = sent(1, 2)
    intervals = [sequence.resend_interval]
    for _ in range(11):
        sequence.timed_out()
        intervals.append(sequence.resend_interval)
    assert intervals == [*TABLE, TABLE[-1], TABLE[-1]]
    assert sequence.resend_count == 11
    sequence.sent(1, 101, at(0))
    sequence.order_acknowledged(ID.value, 1, at(7))
    assert sequence.resend_interval == TABLE[0]
    assert deadline(sequence) == at(7 + 30).monotonic
    sequence.timed_out()
    sequence.sent(2, 102, at(40))
    sequence.order_acknowledged(ID.value, 2, at(41))
    assert (sequence.resend_interval_index, sequence.resend_count) == (0, 0)
    assert (deadline(sequence), sequence.resend_time) == (None, 0)


@pytest.mark.spec("MQQB-3.1.5.6-02")
def test_an_order_ack_is_counted_and_its_number_kept_if_it_is_greater() -> None:
    sequence = sent(1, 2, 3)
    sequence.order_acknowledged(ID.value, 2, at(3))
    assert (sequence.time_of_last_ack, sequence.last_ack_count, sequence.last_ack_number) == (WALL + 3, 1, 2)
    sequence.order_acknowledged(ID.value, 1, at(4))
    assert (sequence.time_of_last_ack, sequence.last_ack_count, sequence.last_ack_number) == (WALL + 4, 2, 2)
    sequence.order_acknowledged(ID.value, 3, at(5))
    assert (sequence.time_of_last_ack, sequence.last_ack_count, sequence.last_ack_number) == (WALL + 5, 3, 3)


@pytest.mark.spec("MQQB-3.1.5.6-03")
def test_an_order_ack_removes_all_up_to_its_number_from_the_unacked() -> None:
    sequence = sent(1, 2, 4, 5, 9)
    sequence.order_acknowledged(ID.value, 4, at(1))
    assert sequence.unacked_sequence == [5, 9]


@pytest.mark.parametrize("times", [1, 2])
def test_a_duplicate_order_ack_frees_nothing_twice(times: int) -> None:
    sequence = sent(1, 2, 3)
    for number in (1, 2):
        assert sequence.session_acknowledged(ID, number) is None
    assert numbers(sequence.order_acknowledged(ID.value, 2, at(1))) == [1, 2]
    before = deadline(sequence)
    for _ in range(times):
        assert sequence.order_acknowledged(ID.value, 2, at(9)) == []
    assert sequence.unacked_sequence == [3]
    assert deadline(sequence) == before


def test_a_message_leaves_when_both_acknowledgments_are_there_in_either_order() -> None:
    """readings MQQB 3.7."""
    sequence = sent(1, 2, 3)
    assert sequence.session_acknowledged(ID, 1) is None
    assert numbers(sequence.order_acknowledged(ID.value, 2, at(1))) == [1]
    entry = sequence.session_acknowledged(ID, 2)
    assert entry is not None
    assert (entry.number, entry.lookup_id) == (2, 102)
    assert sequence.session_acknowledged(ID, 2) is None
    assert sequence.session_acknowledged(ID, 3) is None
    assert (len(sequence), sequence.unacked_sequence) == (1, [3])


def test_a_session_ack_of_another_sequence_changes_nothing() -> None:
    """readings MQQB 3.7."""
    sequence = sent(1, 2)
    sequence.order_acknowledged(ID.value, 2, at(1))
    for other in (SECOND, TxSequenceId(0, 0), TxSequenceId(1, 1)):
        assert sequence.session_acknowledged(other, 1) is None
    assert len(sequence) == 2
    entry = sequence.session_acknowledged(ID, 1)
    assert entry is not None
    assert entry.lookup_id == 101


def test_an_order_ack_of_another_sequence_changes_nothing() -> None:
    """readings MQQB 3.17."""
    sequence = sent(1, 2)
    for other in (SECOND, TxSequenceId(0, 0), TxSequenceId(1, 1)):
        assert sequence.order_acknowledged(other.value, 2, at(1)) == []
    assert (sequence.unacked_sequence, sequence.last_ack_number, sequence.last_ack_count) == ([1, 2], 0, 0)


def test_an_order_ack_of_what_was_never_sent_changes_nothing() -> None:
    sequence = sent(1, 2)
    assert sequence.order_acknowledged(ID.value, 3, at(1)) == []
    assert (sequence.unacked_sequence, sequence.last_ack_number) == ([1, 2], 0)


def test_after_a_start_an_order_ack_spares_sending_what_had_arrived() -> None:
    sequence = TxOutgoingSequence.of(OutgoingSequence(ID, 51), TABLE, (ID, 50))
    assert sequence.order_acknowledged(ID.value, 40, at(1)) == []
    assert sequence.is_acknowledged(40)
    assert not sequence.is_acknowledged(41)
    assert sequence.previous_of(41) == 40
    sequence.sent(40, 140, at(2))
    assert (sequence.unacked_sequence, deadline(sequence)) == ([], None)
    assert sequence.session_acknowledged(ID, 40) is not None
    assert sequence.order_acknowledged(ID.value, 51, at(3)) == []
    assert sequence.last_ack_number == 40


def test_the_next_sequence_knows_nothing_of_the_numbers_before() -> None:
    outgoing = OutgoingSequence.first(ID.time_stamp)
    sequence = TxOutgoingSequence.of(outgoing, TABLE, (ID, outgoing.next_number - 1))
    sequence.sent(outgoing.number(), 101, at(0))
    sequence.session_acknowledged(ID, 1)
    assert numbers(sequence.order_acknowledged(ID.value, 1, at(1))) == [1]
    outgoing.begin_next()
    sequence.begin(outgoing.sequence_id)
    number = outgoing.number()
    assert not sequence.is_acknowledged(number)
    assert sequence.previous_of(number) == 0
    sequence.sent(number, 102, at(2))
    assert sequence.order_acknowledged(ID.value, 1, at(3)) == []
    assert sequence.unacked_sequence == [1]


def test_a_time_out_gives_everything_unacked_in_its_order() -> None:
    sequence = sent(1, 2, 3, 4)
    sequence.session_acknowledged(ID, 2)
    sequence.order_acknowledged(ID.value, 1, at(1))
    again = sequence.timed_out()
    assert [(entry.number, entry.lookup_id) for entry in again] == [(2, 102), (3, 103), (4, 104)]
    assert not any(entry.awaits_session_ack for entry in again)
    assert deadline(sequence) is None


def test_what_is_sent_again_waits_for_the_session_again() -> None:
    sequence = sent(1)
    sequence.session_acknowledged(ID, 1)
    sequence.timed_out()
    sequence.sent(1, 101, at(31))
    assert sequence.order_acknowledged(ID.value, 1, at(32)) == []
    assert sequence.session_acknowledged(ID, 1) is not None


@pytest.mark.spec("MQQB-3.1.1.5-02")
def test_an_expired_message_leaves_a_gap_that_the_next_one_bridges() -> None:
    """readings MQQB 3.19."""
    sequence = sent(1, 2, 3, 4)
    sequence.removed(3)
    assert [sequence.previous_of(number) for number in (1, 2, 4)] == [0, 1, 2]
    incoming = received(header(1), header(2))
    assert incoming.accept(header(4, sequence.previous_of(4)), WALL)
    sequence.order_acknowledged(ID.value, 2, at(1))
    assert sequence.previous_of(4) == 2
    sequence.removed(4)
    assert (len(sequence), deadline(sequence)) == (2, None)


def test_after_a_time_out_a_destination_that_forgot_the_sequence_is_reached() -> None:
    sequence = sent(1, 2, 3)
    sequence.order_acknowledged(ID.value, 1, at(1))
    assert sequence.previous_of(2) == 1
    assert not IncomingSequence().accept(header(2, sequence.previous_of(2)), WALL)
    sequence.timed_out()
    incoming = received(header(2, sequence.previous_of(2)), header(3, sequence.previous_of(3)))
    assert incoming.number == 3


def test_a_hundred_thousand_unacked_messages_are_no_burden() -> None:
    sequence = sent(*range(1, 100_001))
    for number in range(50_000, 60_000):
        assert sequence.previous_of(number) == number - 1
    for number in range(1, 20_001):
        sequence.removed(number)
    for number in range(20_001, 100_001):
        sequence.session_acknowledged(ID, number)
    left = [len(sequence.order_acknowledged(ID.value, number, at(1))) for number in range(29_999, 100_000, 100)]
    assert sum(left) == 100_000 - 20_001
    assert sequence.unacked_sequence == [100_000]


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "take", "before"]), st.integers(0, 30)), max_size=60))
def test_ascending_numbers_are_a_sorted_set(steps: list[tuple[str, int]]) -> None:
    ascending, model = Ascending(), set[int]()
    for step, number in steps:
        if step == "add" and number not in model:
            ascending.add(number)
            model.add(number)
        elif step == "discard":
            ascending.discard(number)
            model.discard(number)
        elif step == "take":
            assert ascending.take_through(number) == sorted(each for each in model if each <= number)
            model = {each for each in model if each > number}
        elif step == "before":
            assert ascending.before(number) == max((each for each in model if each < number), default=None)
        assert (ascending.all(), len(ascending)) == (sorted(model), len(model))
        assert ascending.ends() == (min(model, default=0), max(model, default=0))


@pytest.mark.spec("MQQB-3.1.5.8.6-02")
@pytest.mark.parametrize(("number", "previous"), [(4, 3), (4, 0), (9, 3), (0xFFFF_FFFF, 2)])
def test_the_next_message_of_the_sequence_is_accepted_over_a_gap_too(number: int, previous: int) -> None:
    assert received(header(1), header(2), header(3)).accept(header(number, previous), WALL)


@pytest.mark.spec("MQQB-3.1.5.8.6-03")
@pytest.mark.parametrize("later", [SECOND, TxSequenceId(0, ID.time_stamp + 1), TxSequenceId(0xFFFF_FFFF, 0xFFFF_FFFF)])
@pytest.mark.parametrize("number", [1, 7])
def test_a_later_sequence_is_accepted_from_its_start(later: TxSequenceId, number: int) -> None:
    sequence = received(header(1), header(2))
    assert sequence.accept(header(number, 0, later), WALL)
    assert (sequence.sequence_id, sequence.number) == (later.value, number)


REJECTED = [
    pytest.param(header(3), marks=pytest.mark.spec("MQQB-3.1.5.8.6-04"), id="the last one again"),
    pytest.param(header(1), marks=pytest.mark.spec("MQQB-3.1.5.8.6-04"), id="an earlier one again"),
    pytest.param(header(5, 4), marks=pytest.mark.spec("MQQB-3.1.5.8.6-05"), id="one before it is missing"),
    pytest.param(header(2, 1, SECOND), marks=pytest.mark.spec("MQQB-3.1.5.8.6-05"), id="not the start of the next"),
    pytest.param(
        header(4, 3, TxSequenceId(0, ID.time_stamp)), marks=pytest.mark.spec("MQQB-3.1.5.8.6-06"), id="an older ordinal"
    ),
    pytest.param(
        header(1, 0, TxSequenceId(9, ID.time_stamp - 1)),
        marks=pytest.mark.spec("MQQB-3.1.5.8.6-06"),
        id="an older time",
    ),
]


@pytest.mark.spec("MQQB-3.1.5.8.6-08")
@pytest.mark.parametrize("rejected", REJECTED)
def test_anything_else_is_rejected_and_moves_nothing(rejected: TransactionHeader) -> None:
    """readings MQQB 3.5."""
    sequence = received(header(1), header(2), header(3))
    assert (sequence.sequence_id, sequence.number) == (ID.value, 3)
    assert not sequence.accept(rejected, WALL)
    assert (sequence.sequence_id, sequence.number) == (ID.value, 3)
    assert sequence.accept(header(4), WALL)
    assert (sequence.sequence_id, sequence.number) == (ID.value, 4)


def test_rejections_are_counted_until_a_message_is_accepted() -> None:
    sequence = received(header(1))
    assert (sequence.reject_count, sequence.last_access_time) == (0, int(WALL))
    sequence.accept(header(1), WALL + 1)
    sequence.accept(header(3), WALL + 2.5)
    assert (sequence.reject_count, sequence.last_access_time) == (2, int(WALL) + 2)
    sequence.accept(header(2), WALL + 9)
    assert (sequence.reject_count, sequence.last_access_time) == (0, int(WALL) + 9)


def test_the_count_of_rejections_stays_a_number_of_32_bits() -> None:
    sequence = IncomingSequence(ID.value, 1, reject_count=0xFFFF_FFFF)
    sequence.accept(header(1), WALL)
    assert sequence.reject_count == 0xFFFF_FFFF


@pytest.mark.spec("MQQB-2.2.4.1-02", "MQQB-2.2.4.1-03", "MQQB-3.1.7.17-02")
def test_an_order_ack_tells_the_incoming_sequence_and_its_last_number() -> None:
    """readings MQQB 3.6."""
    for number in (1, 5, 0xFFFF_FFFF):
        body = IncomingSequence(ID.value, number).order_ack_body()
        assert body is not None
        assert (body.tx_sequence_id, body.tx_sequence_number) == (ID.value, number)
        assert body.tx_previous_sequence_number == number - 1
        assert body.encode()[:16] == ID.encode() + number.to_bytes(4, "little") + (number - 1).to_bytes(4, "little")


def test_before_the_first_message_there_is_nothing_to_acknowledge() -> None:
    sequence = IncomingSequence()
    assert not sequence.accept(header(2), WALL)
    assert sequence.order_ack_body() is None


@pytest.mark.spec("MQQB-3.1.1.6.2-01")
def test_a_message_is_not_acknowledged_before_the_one_that_it_follows() -> None:
    sequence = IncomingSequence()
    acknowledged = []
    for number in (1, 2, 4, 3, 4):
        sequence.accept(header(number), WALL)
        body = sequence.order_ack_body()
        assert body is not None
        acknowledged.append(body.tx_sequence_number)
    assert acknowledged == [1, 2, 2, 3, 4]


@pytest.mark.spec("MQQB-2.2.5.1-02", "MQQB-2.2.5.1-03", "MQQB-3.1.7.17-03")
def test_a_final_ack_tells_which_message_it_is_about() -> None:
    source = bytes(range(16))
    body = final_ack_body(header(9, 4), MessageIdentifier(source, 0x0102_0304))
    assert (body.tx_sequence_id, body.tx_sequence_number) == (ID.value, 9)
    assert body.tx_previous_sequence_number == 4, "there was a gap"
    assert (body.source_guid, body.message_id) == (source, 0x0102_0304)
    assert body.encode() == ID.encode() + b"\x09\0\0\0\x04\0\0\0" + source + b"\x04\x03\x02\x01"


@given(st.lists(st.integers(1, 12), max_size=80), st.sets(st.integers(1, 12), max_size=6))
def test_any_order_of_arrival_delivers_each_message_once_and_in_order(arrivals: list[int], expired: set[int]) -> None:
    """The sender sends everything again in the end, and each header names the message before that is still there."""
    there = [number for number in range(1, 13) if number not in expired]
    previous = dict(zip(there, [0, *there], strict=False))
    incoming = IncomingSequence()
    came = [*(number for number in arrivals if number in previous), *there]
    assert [number for number in came if incoming.accept(header(number, previous[number]), WALL)] == there
