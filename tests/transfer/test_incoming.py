"""Which incoming sequence a message belongs to, and whether it is taken: ADR 23."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from waypost.limits import MAX_ENDED_SEQUENCES, MAX_SEQUENCE_ADDRESSES, SILENT_SECONDS
from waypost.transfer.incoming import ANY_ADDRESS, AddressPlace, IncomingSequences, Verdict
from waypost.transfer.sequences import IncomingSequence
from waypost.wire.transaction_header import TransactionHeader

WALL = 1_700_000_000.0
HOME, AWAY, STRANGER, OTHER = "10.0.0.1", "10.0.0.2", "10.6.6.6", "10.7.7.7"


def header(time_stamp: int, ordinal: int = 1, number: int = 1, previous: int | None = None) -> TransactionHeader:
    previous = number - 1 if previous is None else previous
    return TransactionHeader(0, time_stamp << 32 | ordinal, number, previous)


def offered(sequences: IncomingSequences, address: str, message: TransactionHeader, wall: float = WALL) -> Verdict:
    """Take a message if it is to be taken."""
    verdict = sequences.judge(address, message, wall)
    if verdict.is_taken:
        sequences.take(address, message, wall)
    return verdict


# Each step: the address, TimeStamp, ordinal, number, and what becomes of the message.
Step = tuple[str, int, int, int, Verdict]
NEW, NEXT, BEFORE, ENDED = Verdict.NEW, Verdict.NEXT, Verdict.BEFORE, Verdict.ENDED
TABLE: dict[str, list[Step]] = {
    "one address": [
        (HOME, 100, 1, 1, NEW),
        (HOME, 100, 1, 2, NEXT),
        (HOME, 100, 1, 2, BEFORE),
        (HOME, 100, 1, 4, BEFORE),
        (HOME, 100, 2, 1, NEXT),
        (HOME, 100, 1, 3, BEFORE),
        (HOME, 200, 1, 1, NEW),
        (HOME, 100, 2, 2, ENDED),
        (HOME, 150, 1, 1, Verdict.BELOW_OWN),
        (HOME, 300, 1, 2, Verdict.IN_THE_MIDDLE),
    ],
    "two addresses in turn": [
        (HOME, 100, 1, 1, NEW),
        (AWAY, 100, 1, 2, NEXT),
        (HOME, 100, 1, 3, NEXT),
        (AWAY, 100, 1, 3, BEFORE),
        (AWAY, 100, 2, 1, NEXT),
        (HOME, 100, 1, 4, BEFORE),
        (HOME, 200, 1, 1, NEW),
        (AWAY, 200, 1, 2, NEXT),
        (AWAY, 100, 2, 2, ENDED),
        (HOME, 100, 2, 2, ENDED),
    ],
    "a host that moves between two sequences": [
        (HOME, 100, 1, 1, NEW),
        (AWAY, 100, 2, 1, NEXT),
        (OTHER, 200, 1, 1, NEW),
        (OTHER, 100, 2, 2, NEXT),
    ],
    "a stranger a minute ahead": [
        (HOME, 100, 1, 1, NEW),
        (STRANGER, 160, 1, 1, NEW),
        (HOME, 100, 1, 2, NEXT),
        (HOME, 100, 2, 1, NEXT),
        (HOME, 120, 1, 1, NEW),
        (AWAY, 120, 1, 2, NEXT),
        (HOME, 130, 1, 1, NEW),
        (OTHER, 140, 1, 1, Verdict.NOT_MET),
        (OTHER, 161, 1, 1, NEW),
        (STRANGER, 140, 1, 1, Verdict.BELOW_OWN),
        (STRANGER, 170, 1, 1, NEW),
        (HOME, 150, 1, 1, NEW),
        (HOME, 130, 1, 1, ENDED),
        (HOME, 160, 1, 1, ENDED),
    ],
    "a relay with an old copy": [
        (HOME, 100, 1, 1, NEW),
        (AWAY, 110, 1, 1, NEW),
        (HOME, 120, 1, 1, NEW),
        (HOME, 130, 1, 1, NEW),
        (AWAY, 120, 1, 1, ENDED),
        (OTHER, 120, 1, 1, ENDED),
        (AWAY, 130, 1, 1, BEFORE),
    ],
}


@pytest.mark.parametrize("name", TABLE)
def test_the_rule(name: str) -> None:
    sequences = IncomingSequences()
    for number, (address, time_stamp, ordinal, place, expected) in enumerate(TABLE[name]):
        assert offered(sequences, address, header(time_stamp, ordinal, place)) is expected, number


def test_the_last_sequences_that_an_address_has_left_are_refused_from_everywhere() -> None:
    sequences = IncomingSequences()
    offered(sequences, AWAY, header(1))
    for time_stamp in range(100, 101 + MAX_ENDED_SEQUENCES):
        assert offered(sequences, HOME, header(time_stamp)) is NEW
    for time_stamp in range(100, 100 + MAX_ENDED_SEQUENCES):
        assert {sequences.judge(each, header(time_stamp), WALL) for each in (HOME, AWAY, OTHER)} == {ENDED}
    # Another address does not make room for its own.
    for time_stamp in range(1000, 1100):
        assert offered(sequences, STRANGER, header(time_stamp)) is NEW
    assert sequences.judge(AWAY, header(100), WALL) is ENDED


def test_an_end_that_is_forgotten_is_noted_if_an_address_could_begin_the_sequence_again() -> None:
    sequences = IncomingSequences()
    for time_stamp in range(100, 110 + MAX_ENDED_SEQUENCES):
        offered(sequences, HOME, header(time_stamp))
    # An address that was never met begins nothing below the last one.
    assert sequences.unguarded == 0
    assert sequences.judge(AWAY, header(100), WALL) is Verdict.NOT_MET
    sequences = IncomingSequences()
    offered(sequences, AWAY, header(1))
    for time_stamp in range(100, 101 + MAX_ENDED_SEQUENCES):
        offered(sequences, HOME, header(time_stamp))
    assert sequences.unguarded == 0
    offered(sequences, HOME, header(500))
    assert (sequences.unguarded, sequences.address_behind(100)) == (100, AWAY)
    assert sequences.judge(AWAY, header(100), WALL) is NEW


def kept_before(number: int = 5) -> IncomingSequences:
    return IncomingSequences(
        {100: IncomingSequence(100 << 32 | 1, number)}, {ANY_ADDRESS: AddressPlace(100)}, went_on=True
    )


def test_a_record_without_an_address_goes_on_from_the_first_address_that_has_its_sequence() -> None:
    sequences = kept_before()
    assert offered(sequences, STRANGER, header(160)) is NEW
    assert offered(sequences, HOME, header(100, 1, 5)) is BEFORE
    assert offered(sequences, HOME, header(100, 1, 6)) is NEXT
    assert ANY_ADDRESS not in sequences.places
    assert offered(sequences, HOME, header(120)) is NEW
    assert offered(sequences, AWAY, header(130)) is Verdict.NOT_MET


def test_a_record_without_an_address_lets_one_address_begin_its_next_sequence() -> None:
    sequences = kept_before()
    assert offered(sequences, STRANGER, header(160)) is NEW
    assert offered(sequences, AWAY, header(90)) is Verdict.NOT_MET
    assert offered(sequences, HOME, header(120)) is NEW
    assert offered(sequences, AWAY, header(130)) is Verdict.NOT_MET
    assert offered(sequences, HOME, header(100, 1, 6)) is ENDED


def test_after_a_reset_the_next_message_is_taken_whatever_comes_before_it() -> None:
    sequences = IncomingSequences(takes_any=True)
    assert offered(sequences, HOME, header(50, 3, 9)) is NEW
    assert offered(sequences, HOME, header(50, 3, 10)) is NEXT
    assert offered(sequences, HOME, header(60, 1, 2)) is Verdict.IN_THE_MIDDLE


def test_there_are_so_many_addresses_and_those_that_were_silent_for_long_make_room() -> None:
    sequences = IncomingSequences()
    offered(sequences, HOME, header(100))
    for number in range(1, MAX_SEQUENCE_ADDRESSES):
        assert offered(sequences, f"10.9.0.{number}", header(100 + number)) is NEW
    assert offered(sequences, OTHER, header(500)) is Verdict.NO_ROOM
    # A sequence that is known goes on from an address that there is no room for.
    assert offered(sequences, OTHER, header(100, 1, 2)) is NEXT
    assert len(sequences.places) == MAX_SEQUENCE_ADDRESSES
    later = WALL + SILENT_SECONDS + 1
    offered(sequences, HOME, header(100, 1, 3), later)
    assert offered(sequences, OTHER, header(500), later) is Verdict.NO_ROOM
    offered(sequences, HOME, header(600), later)
    assert offered(sequences, OTHER, header(700), later) is NEW
    assert len(sequences.places) == MAX_SEQUENCE_ADDRESSES
    # What made room is below all others, so that it cannot come again.
    assert offered(sequences, AWAY, header(101), later) is Verdict.NOT_MET
    assert offered(sequences, HOME, header(101), later) is Verdict.BELOW_OWN


def test_what_came_from_an_address_can_be_forgotten() -> None:
    sequences = IncomingSequences()
    offered(sequences, HOME, header(100))
    offered(sequences, STRANGER, header(160))
    offered(sequences, STRANGER, header(100, 1, 2))
    assert not sequences.forget_address(OTHER)
    assert sequences.forget_address(STRANGER)
    assert offered(sequences, AWAY, header(120)) is NEW
    assert sequences.places == {HOME: AddressPlace(100, int(WALL)), AWAY: AddressPlace(120, int(WALL))}


@given(
    st.lists(st.tuples(st.sampled_from((HOME, AWAY, OTHER)), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3)))
)
def test_nothing_is_taken_twice_whatever_comes(offers: list[tuple[str, int, int, int]]) -> None:
    sequences = IncomingSequences()
    taken = []
    for address, time_stamp, ordinal, number in offers:
        message = header(time_stamp, ordinal, number, 0)
        if offered(sequences, address, message).is_taken:
            taken.append((message.tx_sequence_id, number))
    assert len(set(taken)) == len(taken)


@dataclass
class Source:
    """A queue manager that sends as ours does: ordinals and numbers without gaps, and again what nobody has."""

    time_stamp: int = 1000
    ordinal: int = 1
    number: int = 0
    delivered: list[tuple[int, int, int]] = field(default_factory=list)


class Honest(RuleBasedStateMachine):
    """A source at two addresses, which others have met, and a stranger that knows its GUID and not its TimeStamps."""

    def __init__(self) -> None:
        super().__init__()
        self.sequences = IncomingSequences()
        self.source = Source()
        self.clock = 1000
        self.taken: list[tuple[int, int]] = []
        for address in (HOME, AWAY):
            self.deliver(address)

    @rule(address=st.sampled_from((HOME, AWAY)))
    def deliver(self, address: str) -> None:
        """The next message comes, from whichever address, and an OrderAck says so."""
        source = self.source
        source.number += 1
        self.offer(address, header(source.time_stamp, source.ordinal, source.number))
        assert self.taken[-1] == (source.time_stamp << 32 | source.ordinal, source.number), "the source stands still"
        source.delivered.append((source.time_stamp, source.ordinal, source.number))

    @rule(address=st.sampled_from((HOME, AWAY)))
    def next_sequence(self, address: str) -> None:
        self.source.ordinal += 1
        self.source.number = 0
        self.deliver(address)

    @rule(address=st.sampled_from((HOME, AWAY)), seconds=st.integers(1, 400))
    def next_line(self, address: str, seconds: int) -> None:
        """Its outgoing queue was gone, and there is another one."""
        self.clock += 2 * seconds
        self.source = Source(self.clock, delivered=self.source.delivered)
        self.deliver(address)

    @rule(address=st.sampled_from((HOME, AWAY, OTHER)), back=st.integers(1, 12), bridged=st.booleans())
    @precondition(lambda self: self.source.delivered)
    def again(self, address: str, back: int, *, bridged: bool) -> None:
        """A copy that was under way for long."""
        delivered = self.source.delivered
        time_stamp, ordinal, number = delivered[-min(back, len(delivered))]
        self.offer(address, header(time_stamp, ordinal, number, 0 if bridged else number - 1))

    @rule(address=st.sampled_from((STRANGER, "10.6.6.7")), ahead=st.integers(-500, 5000), number=st.integers(1, 9))
    def forge(self, address: str, ahead: int, number: int) -> None:
        # Odd, where the source has even ones.
        self.offer(address, header((self.clock + ahead) | 1, number, number, 0))

    def offer(self, address: str, message: TransactionHeader) -> None:
        if offered(self.sequences, address, message).is_taken:
            self.taken.append((message.tx_sequence_id, message.tx_sequence_number))

    @invariant()
    def nothing_is_taken_twice(self) -> None:
        assert len(set(self.taken)) == len(self.taken)


TestHonest = Honest.TestCase
