"""Which incoming sequence a transactional message belongs to, and whether it is taken: MS-MQQB 3.1.5.8.6, ADR 23.

A GUID in a handshake proves nothing, because everybody who connects learns it. So a sequence that somebody else begins
in the name of a source must not move the source's own. All sequences with one TimeStamp are one line of a source: its
ordinals and numbers only grow, whatever address they come from. For a TimeStamp that is not known, the address counts:

- An address that was met before begins a line above its own last one.
- An address that was not met before begins a line above all others of the source.
- A line that ended is refused from everywhere, as long as it is among the last that its address has left.

After a reset, and in a store that is older than its queue manager (ADR 32), the next message is taken wherever its line
is, unless it is known to be taken already.

So a stranger shuts out only addresses that were never met, and nothing is taken twice.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from waypost.limits import MAX_ENDED_SEQUENCES, MAX_SEQUENCE_ADDRESSES, SILENT_SECONDS
from waypost.transfer.sequences import IncomingSequence
from waypost.wire.identifiers import TIME_STAMP_SHIFT
from waypost.wire.transaction_header import TransactionHeader

# The address of a record that was kept without one: it is of the first address that needs it.
ANY_ADDRESS: Final = ""


class Verdict(Enum):
    """What becomes of a transactional message. The values are words of the log, of `explain` and of `doctor`."""

    NEXT = "next"
    NEW = "new"
    # Of a line that is known, and not the next one: an OrderAck says how far the line is.
    BEFORE = "before"
    # The rest are not acknowledged, so their source sends them again.
    ENDED = "ended"
    IN_THE_MIDDLE = "in the middle"
    BELOW_OWN = "below its own"
    NOT_MET = "address not met"
    NO_ROOM = "too many addresses"
    AHEAD = "ahead of the clock"
    TOO_MANY = "too many new sequences"
    DOUBTED = "after too many wrong TimeStamps"
    DAMAGED = "what was taken before is not known"

    @property
    def is_taken(self) -> bool:
        return self is Verdict.NEXT or self is Verdict.NEW


@dataclass(slots=True)
class AddressPlace:
    """Where an address is: its line, when it was heard last (seconds since 1970), and the lines that ended with it."""

    time_stamp: int
    last_access_time: int = 0
    ended: list[int] = field(default_factory=list)


@dataclass(slots=True)
class IncomingSequences:
    """All lines of one source queue manager to one queue under one name, by their TimeStamps.

    Every line has an address that is at it. `takes_any` after a reset or a restore: the next message is taken whatever
    its PreviousTxSequenceNumber. `went_on` when more than one message was taken. `unguarded` is the TimeStamp of a line
    that has ended and was forgotten though an address is behind it, which could begin it again; 0 if there is none.
    """

    lines: dict[int, IncomingSequence] = field(default_factory=dict)
    places: dict[str, AddressPlace] = field(default_factory=dict)
    takes_any: bool = False
    went_on: bool = False
    unguarded: int = field(default=0, compare=False)
    # Nobody knows what was taken: the record of it is damaged. Nothing is taken until it is reset.
    is_damaged: bool = False

    def line_of(self, header: TransactionHeader) -> IncomingSequence | None:
        return self.lines.get(header.tx_sequence_id >> TIME_STAMP_SHIFT)

    def judge(self, address: str, header: TransactionHeader, wall: float) -> Verdict:
        """What the message is, without taking it."""
        if self.is_damaged:
            return Verdict.DAMAGED
        time_stamp = header.tx_sequence_id >> TIME_STAMP_SHIFT
        line = self.lines.get(time_stamp)
        if line is not None:
            is_taken = line.is_later(header) if self.takes_any else line.is_next(header)
            return Verdict.NEXT if is_taken else Verdict.BEFORE
        if any(time_stamp in place.ended for place in self.places.values()):
            return Verdict.ENDED
        if header.previous_tx_sequence_number and not self.takes_any:
            return Verdict.IN_THE_MIDDLE
        own = self.places.get(address)
        if own is not None:
            return Verdict.NEW if time_stamp > own.time_stamp else Verdict.BELOW_OWN
        return self._judge_new_address(time_stamp, wall)

    def _judge_new_address(self, time_stamp: int, wall: float) -> Verdict:
        if time_stamp <= max(self.lines, default=-1) and not self._is_of_any(time_stamp):
            return Verdict.NOT_MET
        if len(self.places) >= MAX_SEQUENCE_ADDRESSES and self._silent(wall) is None:
            return Verdict.NO_ROOM
        return Verdict.NEW

    def take(self, address: str, header: TransactionHeader, wall: float) -> IncomingSequence:
        """Take a message that was judged as NEXT or NEW. Returns its line."""
        time_stamp = header.tx_sequence_id >> TIME_STAMP_SHIFT
        self.went_on = bool(self.lines)
        line = self.lines.get(time_stamp)
        if line is None:
            line = self.lines[time_stamp] = IncomingSequence()
            is_above = time_stamp == max(self.lines)
            self._meet(address, time_stamp, wall, is_of_any=not is_above and self._is_of_any(time_stamp))
        else:
            self._meet(address, time_stamp, wall, is_of_any=self._is_at(ANY_ADDRESS, time_stamp))
        line.advance(header, wall)
        self.takes_any = False
        assert self.lines.keys() == {place.time_stamp for place in self.places.values()}
        return line

    def forget_address(self, address: str) -> bool:
        """Whether it was met. Its line goes if nobody else is at it."""
        place = self.places.pop(address, None)
        if place is None:
            return False
        if not self._is_anybody_at(place.time_stamp):
            del self.lines[place.time_stamp]
        return True

    def _meet(self, address: str, time_stamp: int, wall: float, *, is_of_any: bool) -> None:
        """The address is at this line now, unless it is at a later one."""
        place = self.places.get(address)
        if is_of_any and (place is None or self._is_at(ANY_ADDRESS, time_stamp)):
            of_any = self.places.pop(ANY_ADDRESS)
            place = self.places.setdefault(address, of_any)
        if place is None:
            if len(self.places) >= MAX_SEQUENCE_ADDRESSES and not self._make_room(time_stamp, wall):
                # Others are at the line: that is enough to know it.
                return
            place = self.places[address] = AddressPlace(time_stamp)
        place.last_access_time = int(wall)
        left = place.time_stamp
        if time_stamp > left:
            place.time_stamp = time_stamp
            if not self._is_anybody_at(left):
                del self.lines[left]
                self._note_end(place, left)

    def _note_end(self, place: AddressPlace, time_stamp: int) -> None:
        """A line has ended with an address, which forgets the first of those that ended with it."""
        place.ended.append(time_stamp)
        if len(place.ended) > MAX_ENDED_SEQUENCES:
            forgotten = place.ended.pop(0)
            if self.address_behind(forgotten) is not None:
                self.unguarded = forgotten

    def address_behind(self, time_stamp: int) -> str | None:
        """An address that could begin this line if it is not known to have ended."""
        return next((address for address, place in self.places.items() if place.time_stamp < time_stamp), None)

    def _make_room(self, time_stamp: int, wall: float) -> bool:
        """Forget an address that was silent for long and has the lowest line.

        No address begins a line below that one, so what came in it cannot come again.
        """
        silent = self._silent(wall)
        if silent is None or self.places[silent].time_stamp == time_stamp:
            return False
        self.forget_address(silent)
        return True

    def _silent(self, wall: float) -> str | None:
        address, place = min(self.places.items(), key=lambda each: (each[1].time_stamp, each[1].last_access_time))
        return address if place.last_access_time + SILENT_SECONDS < wall else None

    def _is_of_any(self, time_stamp: int) -> bool:
        """Whether a record that was kept without an address lets this line begin."""
        place = self.places.get(ANY_ADDRESS)
        return place is not None and time_stamp > place.time_stamp

    def _is_at(self, address: str, time_stamp: int) -> bool:
        place = self.places.get(address)
        return place is not None and place.time_stamp == time_stamp

    def is_at(self, address: str, header: TransactionHeader) -> bool:
        """Whether the address has brought messages of this line, and none of a later one."""
        return self._is_at(address, header.tx_sequence_id >> TIME_STAMP_SHIFT)

    def _is_anybody_at(self, time_stamp: int) -> bool:
        return any(place.time_stamp == time_stamp for place in self.places.values())
