"""MS-MQDMPR 3.1.1.2 MessagePositionList and 3.1.1.11, against a sorted dictionary."""

from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from waypost.core.positions import END, SEQUENCE_MASK, START, PositionList, PositionState, lookup_identifier
from waypost.core.ranges import Arrivals

AVAILABLE, LOCKED, PURGE_PENDING = PositionState.AVAILABLE, PositionState.LOCKED, PositionState.PURGE_PENDING


def test_the_identifier_is_7_minus_priority_and_the_sequential_id() -> None:
    assert lookup_identifier(7, 5) == 5
    assert lookup_identifier(0, 5) == 0x07_00000000000005
    assert lookup_identifier(3, (1 << 56) - 1) == 0x04_FFFFFFFFFFFFFF


def test_a_later_message_of_higher_priority_comes_first() -> None:
    positions = PositionList()
    arrivals = [(3, 1), (0, 2), (7, 3), (3, 4), (7, 5)]
    for priority, number in arrivals:
        positions.insert(lookup_identifier(priority, number), AVAILABLE)
    assert [lookup & 0xFF for lookup in positions] == [3, 5, 1, 4, 2]


class Positions(RuleBasedStateMachine):
    """The list and its model do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = PositionList()
        self.model: dict[int, PositionState] = {}
        self.sequential_id = 0

    def available(self) -> list[int]:
        return sorted(lookup for lookup, state in self.model.items() if state is AVAILABLE)

    @rule(priority=st.sampled_from([0, 3, 7]), state=st.sampled_from([AVAILABLE, LOCKED]), count=st.integers(1, 90))
    def enqueue(self, priority: int, state: PositionState, count: int) -> None:
        for _ in range(count):
            self.sequential_id += 1
            lookup_id = lookup_identifier(priority, self.sequential_id)
            self.positions.insert(lookup_id, state)
            self.model[lookup_id] = state

    @precondition(lambda self: self.model)
    @rule(data=st.data(), state=st.sampled_from([AVAILABLE, LOCKED, PURGE_PENDING]))
    def change(self, data: st.DataObject, state: PositionState) -> None:
        lookup_id = data.draw(st.sampled_from(sorted(self.model)))
        self.positions.set_state(lookup_id, state)
        self.model[lookup_id] = state

    @precondition(lambda self: self.model)
    @rule(data=st.data(), count=st.integers(1, 60))
    def delete(self, data: st.DataObject, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            lookup_id = data.draw(st.sampled_from(sorted(self.model)))
            self.positions.remove(lookup_id)
            del self.model[lookup_id]
            assert self.positions.state(lookup_id) is PositionState.DELETED

    @rule(count=st.integers(1, 120))
    def receive(self, count: int) -> None:
        for lookup_id in self.available()[:count]:
            assert self.positions.next_available(START) == lookup_id
            self.positions.remove(lookup_id)
            del self.model[lookup_id]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        lookup_id = data.draw(st.sampled_from(sorted(self.model)))
        self.positions.remove(lookup_id)
        self.positions.insert(lookup_id, AVAILABLE)
        self.model[lookup_id] = AVAILABLE

    @rule(data=st.data())
    def seek(self, data: st.DataObject) -> None:
        places = [START, END, *sorted(self.model), *(lookup + 1 for lookup in self.model)]
        place = data.draw(st.sampled_from(places))
        available = self.available()
        assert self.positions.next_available(place) == min((p for p in available if p > place), default=END)
        assert self.positions.previous_available(place) == max((p for p in available if p < place), default=START)
        since = data.draw(st.integers(0, self.sequential_id))
        newer = [p for p in available if p & SEQUENCE_MASK > since]
        assert self.positions.next_arrived(since) == min(newer, default=END)
        assert self.positions.next_any(place) == min((p for p in self.model if p > place), default=END)

    @rule()
    def look_at_all(self) -> None:
        arrived = sorted(self.model, key=lambda lookup: lookup & SEQUENCE_MASK)
        assert Arrivals(self.positions).take(0, SEQUENCE_MASK, len(arrived)) == arrived

    @rule(count=st.integers(0, 120))
    def claim(self, count: int) -> None:
        arrived = sorted(self.available(), key=lambda lookup: lookup & SEQUENCE_MASK)
        assert self.positions.first_arrived(count) == arrived[:count]
        purged = [lookup for lookup, state in self.model.items() if state is PositionState.PURGE_PENDING]
        assert sorted(self.positions.purged(list(self.model))) == sorted(purged)

    @invariant()
    def equal(self) -> None:
        assert list(self.positions) == sorted(self.model)
        assert len(self.positions) == len(self.model)
        for lookup_id, state in self.model.items():
            assert self.positions.state(lookup_id) is state


TestPositions = Positions.TestCase
TestPositions.settings = settings(max_examples=60, stateful_step_count=30)


class OneByOne(PositionList):
    """The same for several positions, one after the other."""

    def insert_all(
        self, lookup_ids: Sequence[int], state: PositionState, tags: Sequence[int] = (), sizes: Sequence[int] = ()
    ) -> None:
        none = [0] * len(lookup_ids)
        for lookup_id, tag, size in zip(lookup_ids, tags or none, sizes or none, strict=True):
            self.insert(lookup_id, state, tag, size)

    def lock_all(self, lookup_ids: Iterable[int]) -> None:
        for lookup_id in lookup_ids:
            self.set_state(lookup_id, PositionState.LOCKED)

    def release_all(self, lookup_ids: Iterable[int]) -> None:
        for lookup_id in lookup_ids:
            self.set_state(lookup_id, PositionState.AVAILABLE)

    def remove_all(self, lookup_ids: Sequence[int]) -> None:
        for lookup_id in lookup_ids:
            self.remove(lookup_id)

    def first_available(self, count: int) -> list[int]:
        found: list[int] = []
        position = self.next_available(START)
        while position != END and len(found) < count:
            found.append(position)
            position = self.next_available(position)
        return found


def seen(positions: PositionList, ever: list[int]) -> object:
    """Also of those that are gone."""
    return (
        list(positions),
        [(each, positions.state(each), positions.is_held(each), positions.is_shown(each)) for each in ever],
        len(positions),
        positions.next_available(START),
        positions.previous_available(END),
        positions.next_peekable(START),
        positions.first_available(3),
        positions.first_available(1000),
    )


steps = st.tuples(
    st.sampled_from(("insert", "insert", "insert locked", "lock", "release", "remove", "purge", "show")),
    st.integers(1, 90),
    st.integers(0, 7),
    st.integers(0, 3),
)


@settings(max_examples=60)
@given(st.lists(steps, max_size=14))
def test_many_positions_in_one_go_are_the_same_as_one_by_one(scenario: list[tuple[str, int, int, int]]) -> None:
    lists = PositionList(), OneByOne()
    ever: list[int] = []
    for what, count, priority, offset in scenario:
        some = [each for each in lists[0] if lists[0].is_held(each)][offset : offset + count]
        free = lists[1].first_available(count + offset)[offset:]
        first = lookup_identifier(priority, len(ever) + 1)
        new = range(first, first + count)
        for positions in lists:
            match what:
                case "insert":
                    positions.insert_all(new, PositionState.AVAILABLE)
                case "insert locked":
                    positions.insert_all(new, PositionState.LOCKED)
                case "lock":
                    positions.lock_all(free)
                case "release":
                    positions.release_all(some + free)
                case "remove":
                    positions.remove_all((some + free)[:count])
                case "purge":
                    for each in some:
                        positions.set_state(each, PositionState.PURGE_PENDING)
                case "show":
                    for each in some[:2]:
                        if positions.state(each) is PositionState.LOCKED and not positions.is_shown(each):
                            positions.show_to_peeks(each)
        ever += new
        assert seen(lists[0], ever) == seen(lists[1], ever)


def test_positions_that_are_released_together_are_no_longer_shown_as_locked() -> None:
    positions = PositionList()
    positions.insert_all(range(1, 4), LOCKED)
    positions.show_to_peeks(2)
    positions.release_all([1, 2])
    assert not positions.is_shown(2)
    positions.lock_all([1, 2])
    assert positions.next_peekable(START) == END


class Tags(RuleBasedStateMachine):
    """Positions are found by their tags, whatever else happens to the list."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = PositionList()
        self.model: dict[int, int] = {}
        self.sequential_id = 0

    def insert(self, priority: int) -> int:
        self.sequential_id += 1
        return lookup_identifier(priority, self.sequential_id)

    @rule(priority=st.sampled_from([0, 3]), tag=st.integers(-3, 3), count=st.integers(1, 90))
    def arrive(self, priority: int, tag: int, count: int) -> None:
        for number in range(count):
            lookup_id = self.insert(priority)
            self.positions.insert(lookup_id, AVAILABLE, tag + number % 2)
            self.model[lookup_id] = tag + number % 2

    @rule(priority=st.sampled_from([0, 3]), tags=st.lists(st.integers(-3, 3), min_size=1, max_size=90))
    def arrive_together(self, priority: int, tags: list[int]) -> None:
        new = [self.insert(priority) for _ in tags]
        self.positions.insert_all(new, LOCKED, tags)
        self.model.update(zip(new, tags, strict=True))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), count=st.integers(1, 90))
    def leave(self, data: st.DataObject, count: int) -> None:
        start = data.draw(st.integers(0, len(self.model) - 1))
        for lookup_id in sorted(self.model)[start : start + count]:
            self.positions.remove(lookup_id)
            del self.model[lookup_id]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), tag=st.integers(-3, 3))
    def come_back(self, data: st.DataObject, tag: int) -> None:
        lookup_id = data.draw(st.sampled_from(sorted(self.model)))
        self.positions.remove(lookup_id)
        self.positions.insert(lookup_id, AVAILABLE, tag)
        self.model[lookup_id] = tag

    @rule(tag=st.integers(1, 3), count=st.integers(1, 50))
    def become_known(self, tag: int, count: int) -> None:
        for lookup_id in self.positions.untagged(START, count):
            self.positions.set_tag(lookup_id, tag)
            self.model[lookup_id] = tag

    @rule(after=st.integers(-1, 300), count=st.integers(1, 50), priority=st.sampled_from([0, 3]))
    def look_for_untagged(self, after: int, count: int, priority: int) -> None:
        place = START if after < 0 else lookup_identifier(priority, after)
        expected = sorted(each for each, tag in self.model.items() if not tag and each > place)
        assert self.positions.untagged(place, count) == expected[:count]

    @rule()
    def restart(self) -> None:
        self.positions = PositionList()
        self.positions.restore(sorted(self.model))
        self.model = dict.fromkeys(self.model, 0)

    @invariant()
    def found(self) -> None:
        ordered = sorted(self.model)
        for tag in range(-3, 5):
            assert list(self.positions.tagged(tag)) == [each for each in ordered if self.model[each] == tag]
        for number in range(0, len(ordered), 37):
            assert self.positions.before(ordered[number]) == number


TestTags = Tags.TestCase
TestTags.settings = settings(max_examples=40, stateful_step_count=30)


def test_bytes_between_two_tags_are_no_tag() -> None:
    positions = PositionList()
    # Little-endian, the end of the first and the beginning of the second are the tag that is looked for.
    positions.insert(1, AVAILABLE, 0x0102_0304_0506_0708)
    positions.insert(2, AVAILABLE, 0x0102_0304_0506_0708)
    wanted = int.from_bytes(bytes.fromhex("0807060504030201" * 2)[3:11], "little")
    assert list(positions.tagged(wanted)) == []
    positions.insert(3, AVAILABLE, wanted)
    assert list(positions.tagged(wanted)) == [3]
