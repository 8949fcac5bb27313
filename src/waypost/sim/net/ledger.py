"""Where every message of a networked simulation is, was, and may be.

That is known from what is durable on each host, and from what applications were told.

A batch is read when it goes to a disk, and counts when it is durable there. Always true:
- a message of a transaction is put into its queue once, in the order of the commits, and leaves its source after that;
- a recoverable one leaves a host only when the next one has it. It is put into its queue twice only if the host there
  could not know that it had come before;
- what a sequence has counted is never taken back, and no place in a sequence is given twice.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from waypost.core.message import Message
from waypost.core.stored_message import is_transactional, sequence_of
from waypost.node.application import ReadOptions
from waypost.node.node import Node
from waypost.sim.client import Ask, Result
from waypost.sim.marks import Marks
from waypost.sim.net.facts import DEAD, JOURNAL, Facts, Place, Put, facts_of
from waypost.sim.net.roles import OUTGOING
from waypost.sim.net.words import ADMIN, Letter
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.port import Batch
from waypost.wire.message_class import MessageClass, is_negative_ack

if TYPE_CHECKING:
    from waypost.wire.identifiers import MessageIdentifier

MARK: Final = re.compile(rb"<uid (\d{6})>")

_NORMAL: Final = MessageClass.MQMSG_CLASS_NORMAL
_RECEIVED: Final = MessageClass.MQMSG_CLASS_ACK_RECEIVE
_RECEIVES: Final = ("receive", "receive_many")


@dataclass(slots=True)
class Books:
    """What is durable on one host, and what is on its way to the disk."""

    places: dict[Place, tuple[str, Letter | None]] = field(default_factory=dict)
    pending: deque[Facts] = field(default_factory=deque)
    sequences: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # How far each incoming sequence ever was.
    accepted: dict[int, int] = field(default_factory=dict)
    # For each message that is not transactional the count of messages when it first came.
    first_counts: dict[int, int] = field(default_factory=dict)
    # The uids that a transaction has received, and receives that may have been and that nobody was told of.
    receives: dict[bytes, list[int]] = field(default_factory=dict)
    lost_receives: int = 0
    # How often its process has ended.
    ends: int = 0


class Ledger:
    def __init__(self, hosts: Iterable[str], marks: Marks, *, history: int, is_quota_limited: bool) -> None:
        self.letters: Final[dict[int, Letter]] = {}
        self.books: Final = {host: Books() for host in hosts}
        self.is_quota_limited: Final = is_quota_limited
        self._marks: Final = marks
        self._history: Final = history
        self._by_identifier: Final[dict[MessageIdentifier, Letter]] = {}
        self._commits = 0
        # What transactions have sent; the last one of each sequence that was put into its queue; the numbers given.
        self._sends: Final[dict[bytes, list[Letter]]] = {}
        self._last: Final[dict[tuple[str, str, str], tuple[int, int]]] = {}
        self._numbers: Final[dict[tuple[str, int, int], int]] = {}

    # What applications ask, and what they are told.

    def asked(self, host: str, ask: Ask) -> None:
        """It was begun, and may be done."""
        match ask.name, ask.arguments:
            case "send", (int(), Letter() as letter, transaction):
                self.letters[letter.uid] = letter
                letter.ends = self.books[host].ends
                if isinstance(transaction, bytes):
                    self._sends.setdefault(transaction, []).append(letter)
            case "commit", (bytes(identifier),):
                self._commits += 1
                for number, letter in enumerate(self._sends.get(identifier, ())):
                    letter.order = self._commits, number
            case "abort", (bytes(identifier),):
                for letter in self._sends.pop(identifier, ()):
                    letter.is_aborted = True

    def answered(self, host: str, ask: Ask, result: Result) -> None:
        if not result.is_ok:
            if ask.name == "commit":
                self._aborted(ask.arguments[0])
            return
        match ask.name, ask.arguments:
            case "send", (int(), Letter() as letter, None):
                self._accepted(host, letter)
                if isinstance(result.value, Message):
                    self._by_identifier[result.value.identifier] = letter
            case "commit", (bytes(identifier),):
                for letter in self._sends.pop(identifier, ()):
                    self._accepted(host, letter)
                for uid in self.books[host].receives.pop(identifier, ()):
                    self._received(host, uid)
            case "abort", (bytes(identifier),):
                self.books[host].receives.pop(identifier, None)
            case name, (int(), *_, ReadOptions(transaction=transaction)) if name in _RECEIVES:
                for message in result.value if isinstance(result.value, list) else [result.value]:
                    assert isinstance(message, Message)
                    self._read(host, message, transaction)

    def crashed(self, host: str, asks: Iterable[Ask]) -> None:
        """The process of the host is gone; these were under way. Nobody commits what was not asked to be."""
        books = self.books[host]
        books.pending.clear()
        books.ends += 1
        for ask in asks:
            match ask.name, ask.arguments:
                case "commit", (bytes(identifier),):
                    books.lost_receives += len(books.receives.get(identifier, ()))
                    self._sends.pop(identifier, None)
                case "receive", (_, ReadOptions(transaction=None)):
                    books.lost_receives += 1
                case "receive_many", (_, int(count), ReadOptions(transaction=None)):
                    books.lost_receives += count
        books.receives.clear()
        for identifier in [each for each, sends in self._sends.items() if sends[0].source == host]:
            self._aborted(identifier)

    def _aborted(self, identifier: object) -> None:
        assert isinstance(identifier, bytes)
        for letter in self._sends.pop(identifier, ()):
            letter.is_aborted = True

    def _accepted(self, host: str, letter: Letter) -> None:
        letter.is_accepted = True
        if letter.is_recoverable and not letter.seen_at and not letter.may_expire:
            raise Violation(f"{host} was told that {letter} is accepted, and it is not durable")

    def _read(self, host: str, message: Message, transaction: bytes | None) -> None:
        found = MARK.search(message.body)
        if message.message_class != _NORMAL:
            self._acknowledged(message)
        elif found is not None:
            letter = self.letters[int(found[1])]
            if letter.plan.host != host or message.body != letter.body:
                raise Violation(f"{letter} was received on {host}, or with another body")
            if transaction is None:
                self._received(host, letter.uid)
            else:
                self.books[host].receives.setdefault(transaction, []).append(letter.uid)

    def _received(self, host: str, uid: int) -> None:
        letter = self.letters[uid]
        letter.received += 1
        if letter.is_aborted:
            raise Violation(f"{letter} was received on {host}, and its transaction was aborted")
        if letter.is_recoverable and letter.received > letter.reached:
            raise Violation(
                f"{letter} was received {letter.received} times, and was {letter.reached} times in its queue"
            )

    # What goes to the disks.

    def places_of(self, host: str) -> dict[Place, Letter | None]:
        return {place: letter for place, (_, letter) in self.books[host].places.items()}

    def submitted(self, host: str, batch: Batch, node: Node, counts: tuple[int, int]) -> None:
        self.books[host].pending.append(facts_of(batch, node, counts))

    def durable(self, host: str, count: int) -> None:
        """The first batches that were submitted and were not durable are so now."""
        books = self.books[host]
        for _ in range(count):
            facts = books.pending.popleft()
            for put in facts.puts:
                self._put(host, books, put)
            journaled = [books.places[put.place][1] for put in facts.puts if put.role == JOURNAL]
            self._gone(host, books, facts)
            for letter in filter(None, journaled):
                self._journaled(host, letter)
            self._advance(host, books, facts)

    def _put(self, host: str, books: Books, put: Put) -> None:
        message = put.message
        if put.place in books.places:
            # It has changed, but not moved.
            return
        found = MARK.search(message.packet)
        letter = self.letters.get(int(found[1])) if found is not None else None
        if message.message_class != _NORMAL and put.role not in DEAD:
            letter = None
            if put.role == ADMIN:
                self._acknowledged(message)
        books.places[put.place] = put.role, letter
        if letter is None:
            return
        if letter.is_aborted:
            raise Violation(f"{letter} is durable on {host}, and its transaction was aborted")
        letter.seen_at[host] = None
        self._by_identifier.setdefault(message.identifier, letter)
        if put.role == OUTGOING:
            self._check_number(host, letter, message)
            if len(letter.seen_at) > 1:
                self._marks.sometimes("a message through a third queue manager")
                if letter.is_transactional:
                    self._marks.sometimes("a transactional message through a third queue manager")
        elif put.role == letter.plan.key and host == letter.plan.host:
            letter.reached += 1
            self._arrived(host, books, letter, put.counts)
        elif put.role in DEAD:
            self._dead(host, letter)

    def _check_number(self, host: str, letter: Letter, message: Message) -> None:
        """No place in a sequence is given twice, and a message that has one keeps it."""
        if host != letter.source or not is_transactional(message.packet):
            return
        sequence_id, number, _ = sequence_of(message.packet)
        uid = self._numbers.setdefault((host, sequence_id.value, number), letter.uid)
        if uid != letter.uid:
            raise Violation(f"{letter} and <{uid}> have the same place {number} in a sequence of {host}")
        letter.place = sequence_id.value, number, message.identifier.ordinal

    def _arrived(self, host: str, books: Books, letter: Letter, counts: tuple[int, int]) -> None:
        if letter.is_transactional:
            if letter.plan.is_doomed:
                # With the queue goes what was known of its sequences.
                return
            if letter.reached > 1:
                raise Violation(f"{letter} of a transaction came twice")
            assert letter.order is not None
            key = letter.source, letter.name, str(letter.plan)
            last = self._last.get(key)
            if last is not None and last >= letter.order:
                raise Violation(f"{letter} came behind a message that was committed later")
            self._last[key] = letter.order
            return
        before, now = counts
        first = books.first_counts.get(letter.uid)
        if first is None:
            books.first_counts[letter.uid] = before
        elif now - first < self._history and not self.is_quota_limited:
            raise Violation(f"{letter} came twice, and only {now - first} messages had come to {host} in between")
        else:
            self._marks.sometimes("a duplicate that nobody could know")

    def _journaled(self, host: str, letter: Letter) -> None:
        letter.journaled += 1
        if letter.journaled > 1 or host != letter.source:
            raise Violation(f"{letter} is {letter.journaled} times in source journals, now in that of {host}")
        if not letter.is_transactional:
            return
        if not letter.consumed and not letter.is_lied_about:
            raise Violation(f"{letter} is in the source journal, and nobody has received it")
        if letter.ends != self.books[host].ends:
            self._marks.sometimes("a FinalAck after its sender had started again")

    def _dead(self, host: str, letter: Letter) -> None:
        letter.dead += 1
        if letter.is_sure:
            raise Violation(f"{letter} is a dead letter on {host} for no reason")
        if letter.is_transactional:
            self._marks.sometimes("a dead letter of a transaction")
            if letter.dead > 1 or host != letter.source:
                raise Violation(f"{letter} is {letter.dead} times a dead letter, now on {host}")
        if letter.dead and letter.reached and letter.may_expire and host == letter.source != letter.plan.host:
            self._marks.sometimes("a message that expired at its source and arrived")

    def _gone(self, host: str, books: Books, facts: Facts) -> None:
        left = []
        for first, end in facts.gone:
            is_one = end == (first[0], first[1] + 1)
            places = [first] if is_one else [each for each in books.places if first <= each < end]
            left += [books.places.pop(place) for place in places if place in books.places]
        for role, letter in left:
            if letter is None:
                continue
            if role == OUTGOING:
                self._left(host, letter)
            elif role == letter.plan.key and host == letter.plan.host:
                letter.consumed += 1

    def _left(self, host: str, letter: Letter) -> None:
        """A message has left a host for good: then it has to be where it was to go to."""
        if letter.may_expire and not letter.reached and letter.on_wire:
            self._marks.sometimes("a message that expired on its way")
        if letter.reached or not letter.is_sure:
            return
        if letter.is_transactional:
            # Whoever takes it on may drop it, as its source has it.
            if host == letter.source:
                raise Violation(f"{letter} has left {host}, and never came into its queue")
        elif not self._is_further(host, letter):
            raise Violation(f"{letter} has left {host}, and is nowhere else")

    def _is_further(self, host: str, letter: Letter) -> bool:
        """Whether it is on a host further on its way."""
        further = letter.path[letter.path.index(host) + 1 :]
        return any(kept is letter for other in further for _, kept in self.books[other].places.values())

    def _advance(self, host: str, books: Books, facts: Facts) -> None:
        for key, record in facts.sequences:
            now = record.sequence_identifier, record.sequence_number
            if now < books.sequences.get(key, (0, 0)):
                raise Violation(f"a sequence of {host} goes back from {books.sequences[key]} to {now}")
            books.sequences[key] = now
            if keys.sequence_of(key)[1] is not None:
                books.accepted[now[0]] = max(books.accepted.get(now[0], 0), now[1])
                if record.reject_count:
                    self._marks.sometimes("a transactional message that came out of order")
            elif now[0] & 0xFFFF_FFFF > 1:
                self._marks.sometimes("a sequence that ended")
        for first, end in facts.forgotten:
            for key in [each for each in books.sequences if first <= each < end]:
                del books.sequences[key]

    # Acknowledgments for applications.

    def _acknowledged(self, message: Message) -> None:
        """One is in its administration queue, or was received from there: it may be seen twice."""
        letter = self._by_identifier.get(message.correlation_identifier)
        if letter is None or message.identifier in letter.acks:
            return
        ack = MessageClass(message.message_class)
        if letter.plan.host != letter.source:
            kind = "a negative" if is_negative_ack(ack) else "a positive"
            self._marks.sometimes(f"{kind} acknowledgment over the network")
        # Of a duplicate that nobody could know, one may have been rejected. A queue knows nothing of the one before it.
        is_known = letter.is_transactional and not letter.plan.is_doomed
        is_single = is_known or (letter.reached == 1 and letter.plan.is_sure)
        # It is rejected whenever it comes, and may expire on its way and where it comes to.
        is_repeated = is_negative_ack(ack) and (letter.may_expire or not letter.plan.is_sure or not letter.fits)
        if is_single and ack in letter.acks.values() and not is_repeated:
            raise Violation(f"{ack.name} came twice for {letter}")
        letter.acks[message.identifier] = ack
        is_negative = any(is_negative_ack(MessageClass(each)) for each in letter.acks.values())
        if is_negative and letter.is_sure:
            raise Violation(f"{ack.name} came for {letter}, and there is no reason for that")
        if is_single and is_negative and _RECEIVED in letter.acks.values() and not letter.may_expire:
            raise Violation(f"{letter} was received by its acknowledgments, and was not")
