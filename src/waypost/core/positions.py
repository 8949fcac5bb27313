"""The order of the messages in a queue: MessagePositionList (MS-MQDMPR 3.1.1.2) and MessagePosition.State (3.1.1.11).

A position is known by its LookupIdentifier. Its top byte is 7 minus the priority, and its other 56 bits are the
SequentialID that the queue manager gave on arrival (readings MQDMPR 3.A), so that list order is numeric order. A
million waiting messages must cost megabytes, so a position is not an object: the positions of one priority are an array
of numbers, and only those that are not Available have an entry. A position outside the list is Deleted. A parallel
array has the tags of the messages, for searches (waypost.core.stored_message): eight bytes each. Another one has their
sizes, four bytes each, so that bulk reads are bounded in bytes; a start reads no messages, so sizes are unknown at
first.

An expired message is Deleted from that moment on, so that no reader gets it. Its position stays in the list, and
counts, until its end was handled: many can expire at one time, and that takes a while.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, KeysView, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from heapq import merge
from itertools import compress, islice
from operator import not_
from struct import Struct
from typing import Final, NamedTuple

PRIORITIES: Final = 8
SEQUENCE_BITS: Final = 56
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1

# The reserved positions Start and End: before every LookupIdentifier, and behind every one.
START: Final = -1
END: Final = PRIORITIES << SEQUENCE_BITS

# An array is cleared of removed numbers when they are more than the others, and more than these few. Code that looks at
# ranges of it clears it earlier: when one in this many was removed.
_FEW: Final = 64
_ONE_IN: Final = 64
# To search for a number takes as long as to pass this many.
_MANY: Final = 16

# The tag of a message with an unknown identifier.
UNTAGGED: Final = 0
_TAG: Final = Struct("=q")
# The size of a message that was not read since the start.
UNKNOWN_SIZE: Final = 0
# Number of tags to search at a time.
_SEARCHED: Final = 0x1_0000


class PositionState(Enum):
    """MS-MQDMPR 3.1.1.11."""

    AVAILABLE = auto()
    LOCKED = auto()
    PURGE_PENDING = auto()
    DELETED = auto()


_AVAILABLE: Final = PositionState.AVAILABLE


def lookup_identifier(priority: int, sequential_id: int) -> int:
    """MS-MQDMPR 3.1.7.1.9, readings MQDMPR 3.A. `priority` is that of the packet, 0 for a transactional message."""
    return (PRIORITIES - 1 - priority) << SEQUENCE_BITS | sequential_id


class Numbers(NamedTuple):
    """The SequentialIDs of one priority, ascending: `ids` from `start` on, without those in `gone`.

    `base` makes LookupIdentifiers of them. Only valid until the list changes.
    """

    base: int
    ids: "array[int]"
    start: int
    gone: AbstractSet[int]
    sizes: "array[int]"


class PositionList:
    """The positions of one queue, in list order."""

    __slots__ = ("_bands", "_shown", "_states")

    def __init__(self) -> None:
        self._bands = tuple(_Band() for _ in range(PRIORITIES))
        self._states: dict[int, PositionState] = {}
        # Locked positions that peeks see all the same, ascending.
        self._shown: list[int] = []

    def __len__(self) -> int:
        return sum([band.count for band in self._bands])

    def __contains__(self, lookup_id: int) -> bool:
        return START < lookup_id < END and lookup_id & SEQUENCE_MASK in self._bands[lookup_id >> SEQUENCE_BITS]

    def __iter__(self) -> Iterator[int]:
        """All positions, in any state."""
        for number, band in enumerate(self._bands):
            for sequential_id in band:
                yield number << SEQUENCE_BITS | sequential_id

    def state(self, lookup_id: int) -> PositionState:
        if lookup_id in self and not self.is_late(lookup_id):
            return self._states.get(lookup_id, PositionState.AVAILABLE)
        return PositionState.DELETED

    def is_late(self, lookup_id: int) -> bool:
        """Whether it is in the list, and Deleted because its time is over."""
        return lookup_id & SEQUENCE_MASK in self._bands[lookup_id >> SEQUENCE_BITS].late

    def expire_all(self, lookup_ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Expire these positions, which are ascending; some may not be in the list.

        Available ones are Deleted from now on. Returns them, and the held ones.
        """
        states = self._states
        held = [lookup_id for lookup_id in lookup_ids if lookup_id in states] if states else []
        late: list[int] = []
        at = 0
        for number, band in enumerate(self._bands):
            end = bisect_left(lookup_ids, (number + 1) << SEQUENCE_BITS, at)
            if end > at:
                base = number << SEQUENCE_BITS
                free = [lookup_id - base for lookup_id in lookup_ids[at:end] if lookup_id not in states]
                late += map(base.__or__, band.expire_all(free))
                at = end
        return late, held

    def is_held(self, lookup_id: int) -> bool:
        """Whether it is in the list and not Available."""
        return lookup_id in self._states

    @property
    def held(self) -> KeysView[int]:
        """The positions that are not Available."""
        return self._states.keys()

    @property
    def first_held(self) -> int:
        """The smallest SequentialID of the held positions, 0 without any."""
        return min([min(band.busy) for band in self._bands if band.busy], default=0)

    def numbers(self) -> list[Numbers]:
        """All positions by their SequentialIDs, for each priority in use."""
        return [band.numbers(number << SEQUENCE_BITS) for number, band in enumerate(self._bands) if band.count]

    def insert(self, lookup_id: int, state: PositionState, tag: int = UNTAGGED, size: int = UNKNOWN_SIZE) -> None:
        """Put a new position at its place. `state` is AVAILABLE or LOCKED."""
        assert lookup_id not in self._states, f"{lookup_id:#x} is new in the list, but already has a state"
        band = self._bands[lookup_id >> SEQUENCE_BITS]
        band.insert(lookup_id & SEQUENCE_MASK, tag, size)
        if state is not _AVAILABLE:
            self._states[lookup_id] = state
            band.occupy(lookup_id & SEQUENCE_MASK)

    def restore(self, lookup_ids: Sequence[int]) -> None:
        """Fill an empty list with these positions, which are ascending, Available and not tagged yet."""
        at = 0
        for number, band in enumerate(self._bands):
            end = bisect_left(lookup_ids, (number + 1) << SEQUENCE_BITS, at)
            base = number << SEQUENCE_BITS
            band.restore(array("Q", [lookup_id - base for lookup_id in lookup_ids[at:end]]))
            at = end

    def set_state(self, lookup_id: int, state: PositionState) -> None:
        """Change the state of a position that is in the list, to any but DELETED."""
        assert state is not PositionState.DELETED, "remove a position, do not set it to Deleted"
        band = self._bands[lookup_id >> SEQUENCE_BITS]
        if self._shown:
            self._hide(lookup_id)
        if state is _AVAILABLE:
            if self._states.pop(lookup_id, None) is not None:
                band.release(lookup_id & SEQUENCE_MASK)
        else:
            self._states[lookup_id] = state
            band.occupy(lookup_id & SEQUENCE_MASK)

    def insert_all(
        self, lookup_ids: Sequence[int], state: PositionState, tags: Sequence[int] = (), sizes: Sequence[int] = ()
    ) -> None:
        """Insert positions of one priority, ascending and behind all of that priority, as `insert` does."""
        band = self._bands[lookup_ids[0] >> SEQUENCE_BITS]
        sequential_ids = [lookup_id & SEQUENCE_MASK for lookup_id in lookup_ids]
        count = len(sequential_ids)
        band.extend(sequential_ids, tags or (UNTAGGED,) * count, sizes or (UNKNOWN_SIZE,) * count)
        if state is not _AVAILABLE:
            self._states.update(dict.fromkeys(lookup_ids, state))
            band.occupy_all(sequential_ids)

    def lock_all(self, lookup_ids: Sequence[int]) -> None:
        """Lock positions that are Available."""
        self._states.update(dict.fromkeys(lookup_ids, PositionState.LOCKED))
        for band, sequential_ids in self._by_band(lookup_ids):
            band.occupy_all(sequential_ids)

    def release_all(self, lookup_ids: Sequence[int]) -> None:
        """Make positions Available that are in the list."""
        if self._shown:
            for lookup_id in lookup_ids:
                self.set_state(lookup_id, _AVAILABLE)
            return
        pop = self._states.pop
        held = [lookup_id for lookup_id in lookup_ids if pop(lookup_id, None) is not None]
        for band, sequential_ids in self._by_band(held):
            band.release_all(sequential_ids)

    def remove(self, lookup_id: int) -> None:
        """Take a position out of the list: it is Deleted from now on."""
        if self._shown:
            self._hide(lookup_id)
        self._states.pop(lookup_id, None)
        self._bands[lookup_id >> SEQUENCE_BITS].remove(lookup_id & SEQUENCE_MASK)

    def remove_all(self, lookup_ids: Sequence[int]) -> None:
        """Remove several positions from the list."""
        if self._shown:
            for lookup_id in lookup_ids:
                self.remove(lookup_id)
            return
        states, bands = self._states, self._bands
        for lookup_id in lookup_ids:
            states.pop(lookup_id, None)
            bands[lookup_id >> SEQUENCE_BITS].remove(lookup_id & SEQUENCE_MASK)

    def show_to_peeks(self, lookup_id: int) -> None:
        """Let peeks see a Locked position, for as long as it is Locked."""
        assert self._states.get(lookup_id) is PositionState.LOCKED, f"{lookup_id:#x} is visible, but not Locked"
        insort(self._shown, lookup_id)

    def is_shown(self, lookup_id: int) -> bool:
        at = bisect_left(self._shown, lookup_id)
        return at < len(self._shown) and self._shown[at] == lookup_id

    def next_available(self, after: int) -> int:
        """MS-MQDMPR 3.1.7.3.2 forwards: the first Available position behind `after`, or END."""
        if after >= END:
            return END
        behind = after & SEQUENCE_MASK if after > START else -1
        for number in range(max(after, 0) >> SEQUENCE_BITS, PRIORITIES):
            band = self._bands[number]
            if band.count:
                found = band.next_free(behind)
                if found >= 0:
                    return number << SEQUENCE_BITS | found
            behind = -1
        return END

    def first_available(self, count: int) -> list[int]:
        """The first `count` Available positions."""
        count = min(count, len(self))
        found: list[int] = []
        for number, band in enumerate(self._bands):
            if band.count and len(found) < count:
                base = number << SEQUENCE_BITS
                found += [base | sequential_id for sequential_id in islice(band.free(), count - len(found))]
        return found

    def first_arrived(self, count: int) -> list[int]:
        """The `count` Available positions that arrived first, in the order of arrival."""
        count = min(count, len(self))
        bands = [
            map((number << SEQUENCE_BITS).__or__, band.free()) for number, band in enumerate(self._bands) if band.count
        ]
        return list(islice(bands[0] if len(bands) == 1 else merge(*bands, key=SEQUENCE_MASK.__and__), count))

    def purged(self, lookup_ids: Iterable[int]) -> list[int]:
        """The positions among these that are PurgePending."""
        state = self._states.get
        return [lookup_id for lookup_id in lookup_ids if state(lookup_id) is PositionState.PURGE_PENDING]

    def previous_available(self, before: int) -> int:
        """MS-MQDMPR 3.1.7.3.2 backwards: the last Available position before `before`, or START."""
        number = min(before, END - 1) >> SEQUENCE_BITS
        if before <= START:
            return START
        found = self._bands[number].previous_free(before & SEQUENCE_MASK if before < END else SEQUENCE_MASK + 1)
        while found < 0:
            number -= 1
            if number < 0:
                return START
            found = self._bands[number].previous_free(SEQUENCE_MASK + 1)
        return number << SEQUENCE_BITS | found

    def next_peekable(self, after: int) -> int:
        """The next Available position for a peek, which also sees Locked positions that are shown to it."""
        at = bisect_right(self._shown, after)
        return min(self.next_available(after), self._shown[at] if at < len(self._shown) else END)

    def previous_peekable(self, before: int) -> int:
        """The previous Available position for a peek, which also sees Locked positions that are shown to it."""
        at = bisect_left(self._shown, before)
        return max(self.previous_available(before), self._shown[at - 1] if at else START)

    def next_arrived(self, since: int) -> int:
        """The first Available position, in list order, with a SequentialID above `since`, or END."""
        for number, band in enumerate(self._bands):
            found = band.next_free(since)
            if found >= 0:
                return number << SEQUENCE_BITS | found
        return END

    def next_any(self, after: int) -> int:
        """The first position behind `after`, in any state, or END."""
        number = max(after, 0) >> SEQUENCE_BITS
        found = self._bands[number].next(after & SEQUENCE_MASK if after > START else -1) if after < END else -1
        while found < 0:
            number += 1
            if number >= PRIORITIES:
                return END
            found = self._bands[number].next(-1)
        return number << SEQUENCE_BITS | found

    def tagged(self, tag: int) -> Iterator[int]:
        """The positions with this tag, in any state. The list must not change meanwhile."""
        for number, band in enumerate(self._bands):
            if band.count:
                for sequential_id in band.tagged(tag):
                    yield number << SEQUENCE_BITS | sequential_id

    def untagged(self, after: int, count: int) -> list[int]:
        """The first `count` positions behind `after` without a tag."""
        found: list[int] = []
        behind = after & SEQUENCE_MASK if after > START else -1
        for number in range(max(after, 0) >> SEQUENCE_BITS, PRIORITIES):
            band = self._bands[number]
            if band.count:
                base = number << SEQUENCE_BITS
                some = islice(band.tagged(UNTAGGED, behind), count - len(found))
                found += [base | sequential_id for sequential_id in some]
                if len(found) >= count:
                    break
            behind = -1
        return found

    def set_tag(self, lookup_id: int, tag: int) -> None:
        """Set the tag of a position in the list."""
        self._bands[lookup_id >> SEQUENCE_BITS].set_tag(lookup_id & SEQUENCE_MASK, tag)

    def set_size(self, lookup_id: int, size: int) -> None:
        """Set the size of the message at a position in the list."""
        self._bands[lookup_id >> SEQUENCE_BITS].set_size(lookup_id & SEQUENCE_MASK, size)

    def size(self, lookup_id: int) -> int:
        """Size of the message at a position in the list, or UNKNOWN_SIZE."""
        return self._bands[lookup_id >> SEQUENCE_BITS].size(lookup_id & SEQUENCE_MASK)

    def before(self, lookup_id: int) -> int:
        """Number of positions before one that is in the list."""
        number = lookup_id >> SEQUENCE_BITS
        ahead = sum([band.count for band in self._bands[:number]])
        return ahead + self._bands[number].before(lookup_id & SEQUENCE_MASK)

    def _by_band(self, lookup_ids: Sequence[int]) -> Iterator[tuple["_Band", list[int]]]:
        """The SequentialIDs of each priority among these."""
        numbers = {lookup_id >> SEQUENCE_BITS for lookup_id in lookup_ids}
        for number in numbers:
            yield (
                self._bands[number],
                [lookup_id & SEQUENCE_MASK for lookup_id in lookup_ids if lookup_id >> SEQUENCE_BITS == number],
            )

    def _hide(self, lookup_id: int) -> None:
        if self.is_shown(lookup_id):
            del self._shown[bisect_left(self._shown, lookup_id)]


class _Band:
    """The SequentialIDs of one priority, ascending.

    Numbers before `_head` and those in `_gone` were removed; those in `busy` are not Available, and those in `late`
    have expired. None before `_free` is Available, so that a receive does not walk over the messages of a long
    transaction.
    """

    __slots__ = ("_free", "_gone", "_head", "_ids", "_sizes", "_tags", "busy", "count", "late")

    def __init__(self) -> None:
        self._ids = array("Q")
        # Tag of the message at the same place in `_ids`.
        self._tags = array("q")
        self._sizes = array("I")
        self._head = 0
        self._free = 0
        self._gone: set[int] = set()
        self.busy: set[int] = set()
        self.late: set[int] = set()
        self.count = 0

    def __contains__(self, sequential_id: int) -> bool:
        at = bisect_left(self._ids, sequential_id, self._head)
        return at < len(self._ids) and self._ids[at] == sequential_id and sequential_id not in self._gone

    def __iter__(self) -> Iterator[int]:
        return (number for number in self._ids[self._head :] if number not in self._gone)

    def numbers(self, base: int) -> Numbers:
        if len(self._gone) > max(self.count // _ONE_IN, _FEW):
            self._clear()
        gone = self._gone | self.late if self.late else self._gone
        return Numbers(base, self._ids, self._head, gone, self._sizes)

    def restore(self, ids: "array[int]") -> None:
        assert not self.count, "cannot restore positions: the list is not empty"
        self._ids = ids
        self._tags = array("q", (UNTAGGED,)) * len(ids)
        self._sizes = array("I", (UNKNOWN_SIZE,)) * len(ids)
        self.count = len(ids)

    def insert(self, sequential_id: int, tag: int, size: int) -> None:
        self.count += 1
        if not self._ids or self._ids[-1] < sequential_id:
            self._ids.append(sequential_id)
            self._tags.append(tag)
            self._sizes.append(size)
            return
        at = bisect_left(self._ids, sequential_id, self._head)
        self._free = min(self._free, at)
        # A number that was just removed and comes back, as in a move within one queue.
        if sequential_id in self._gone:
            self._gone.remove(sequential_id)
            self._tags[at] = tag
            self._sizes[at] = size
        else:
            self._ids.insert(at, sequential_id)
            self._tags.insert(at, tag)
            self._sizes.insert(at, size)

    def extend(self, sequential_ids: Sequence[int], tags: Sequence[int], sizes: Sequence[int]) -> None:
        assert len(tags) == len(sizes) == len(sequential_ids), "the numbers of positions, tags and sizes differ"
        assert not self._ids or self._ids[-1] < sequential_ids[0], f"{sequential_ids[0]} comes before {self._ids[-1]}"
        self.count += len(sequential_ids)
        self._ids.extend(sequential_ids)
        self._tags.extend(tags)
        self._sizes.extend(sizes)

    def remove(self, sequential_id: int) -> None:
        assert self.count > 0, f"cannot remove {sequential_id}: the list is empty"
        self.count -= 1
        self.busy.discard(sequential_id)
        if self.late:
            self.late.discard(sequential_id)
        if self._ids[self._head] != sequential_id:
            self._gone.add(sequential_id)
        else:
            self._head += 1
            while self._gone and self._ids[self._head] in self._gone:
                self._gone.remove(self._ids[self._head])
                self._head += 1
        assert self.count == len(self._ids) - self._head - len(self._gone), (
            "the count of the list differs from its content"
        )
        if self._head + len(self._gone) > max(len(self._ids) // 2, _FEW):
            self._clear()

    def _clear(self) -> None:
        """Clear the array of removed numbers."""
        ids, tags, sizes = self._ids[self._head :], self._tags[self._head :], self._sizes[self._head :]
        if self._gone:
            is_there = bytearray(map(not_, map(self._gone.__contains__, ids)))
            ids, tags = array("Q", compress(ids, is_there)), array("q", compress(tags, is_there))
            sizes = array("I", compress(sizes, is_there))
        self._ids, self._tags, self._sizes = ids, tags, sizes
        self._head = self._free = 0
        self._gone.clear()
        assert len(ids) == len(tags) == len(sizes) == self.count, "the numbers of positions, tags and sizes differ"

    def tagged(self, tag: int, after: int = -1) -> Iterator[int]:
        """The numbers above `after` of messages with this tag. They must not be changed meanwhile."""
        wanted = _TAG.pack(tag)
        start = bisect_right(self._ids, after, self._head) if after >= 0 else self._head
        for start_of_part in range(start, len(self._tags), _SEARCHED):
            part = self._tags[start_of_part : start_of_part + _SEARCHED].tobytes()
            found = part.find(wanted)
            while found >= 0:
                # A match between two tags does not count.
                at, is_between = divmod(found, _TAG.size)
                if not is_between and (number := self._ids[start_of_part + at]) not in self._gone:
                    yield number
                found = part.find(wanted, (at + 1) * _TAG.size)

    def set_tag(self, sequential_id: int, tag: int) -> None:
        at = bisect_left(self._ids, sequential_id, self._head)
        assert self._ids[at] == sequential_id, f"{sequential_id} gets a tag, but is not in the list"
        self._tags[at] = tag

    def set_size(self, sequential_id: int, size: int) -> None:
        at = bisect_left(self._ids, sequential_id, self._head)
        assert self._ids[at] == sequential_id, f"{sequential_id} gets a size, but is not in the list"
        self._sizes[at] = size

    def size(self, sequential_id: int) -> int:
        return self._sizes[bisect_left(self._ids, sequential_id, self._head)]

    def before(self, sequential_id: int) -> int:
        """Number of numbers below this one, which is in the list."""
        if len(self._gone) > max(self.count // _ONE_IN, _FEW):
            self._clear()
        gone = sum([number < sequential_id for number in self._gone])
        return bisect_left(self._ids, sequential_id, self._head) - self._head - gone

    def expire_all(self, sequential_ids: Sequence[int]) -> list[int]:
        """Expire these numbers. Returns those that are in the list and were not late before."""
        if len(sequential_ids) * _MANY > len(self._ids):
            there = set(sequential_ids).intersection(self._ids[self._head :]).difference(self._gone)
            found = [number for number in sequential_ids if number in there and number not in self.late]
        else:
            found = [number for number in sequential_ids if number in self and number not in self.late]
        self.late.update(found)
        assert len(self.late) <= self.count, "more positions have expired than exist"
        return found

    def occupy(self, sequential_id: int) -> None:
        self.busy.add(sequential_id)
        assert len(self.busy) <= self.count, "more positions are held than exist"

    def occupy_all(self, sequential_ids: Iterable[int]) -> None:
        self.busy.update(sequential_ids)
        assert len(self.busy) <= self.count, "more positions are held than exist"

    def release(self, sequential_id: int) -> None:
        self.busy.discard(sequential_id)
        if self._free >= len(self._ids) or self._ids[self._free] > sequential_id:
            self._free = bisect_left(self._ids, sequential_id, self._head)

    def release_all(self, sequential_ids: Sequence[int]) -> None:
        self.busy.difference_update(sequential_ids)
        self.release(min(sequential_ids))

    def next_free(self, after: int) -> int:
        """The first Available number above `after`, or -1."""
        at = max(self._head, self._free)
        from_the_front = at >= len(self._ids) or after < self._ids[at]
        if not from_the_front:
            at = bisect_right(self._ids, after, at)
        busy, gone, late = self.busy, self._gone, self.late
        while at < len(self._ids) and ((number := self._ids[at]) in busy or number in gone or number in late):
            at += 1
        if from_the_front:
            self._free = at
        return self._ids[at] if at < len(self._ids) else -1

    def free(self) -> Iterator[int]:
        """The Available numbers, as long as nothing changes."""
        self.next_free(-1)
        for at in range(self._free, len(self._ids)):
            number = self._ids[at]
            if number not in self.busy and number not in self._gone and number not in self.late:
                yield number

    def previous_free(self, before: int) -> int:
        """The last Available number below `before`, or -1."""
        at = bisect_left(self._ids, before, self._head) - 1 if before <= SEQUENCE_MASK else len(self._ids) - 1
        busy, gone, late = self.busy, self._gone, self.late
        while at >= self._head and ((number := self._ids[at]) in busy or number in gone or number in late):
            at -= 1
        return self._ids[at] if at >= self._head else -1

    def next(self, after: int) -> int:
        """The first number above `after`, Available or not, or -1."""
        at = bisect_right(self._ids, after, self._head) if after >= 0 else self._head
        while at < len(self._ids) and self._ids[at] in self._gone:
            at += 1
        return self._ids[at] if at < len(self._ids) else -1
