"""The ledger of all messages: the places where each is, was, and may be.

It is known from the durable records of each host, and from the answers to applications.

A batch is read when it is submitted to a disk, and counts when it is durable there. Always true:
- a message of a transaction is put into its queue once, in the order of the commits, and leaves its source after that;
- a recoverable one leaves a host only when the next one has it. It is put into its queue twice only if the host there
  could not know that it had come before;
- the position of a sequence never goes back, and no place in a sequence is given twice.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from waypost.api.operations import AbortTransaction, CommitTransaction, Receive, Send
from waypost.core.message import Message
from waypost.core.stored_message import is_transactional, sequence_of
from waypost.node.node import Node
from waypost.sim.client import Ask, Result
from waypost.sim.marks import Marks
from waypost.sim.net.arguments import ADMIN, SentMessage
from waypost.sim.net.facts import DEAD, JOURNAL, OUTGOING, Facts, Place, Put, facts_of
from waypost.sim.plans import MARK, uid_of, uids_of
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.port import Batch
from waypost.wire.message_class import MessageClass, is_negative_ack

if TYPE_CHECKING:
    from waypost.sim.net.protection_checks import ProtectionChecks
    from waypost.wire.identifiers import MessageIdentifier

_NORMAL: Final = MessageClass.MQMSG_CLASS_NORMAL
_RECEIVED: Final = MessageClass.MQMSG_CLASS_ACK_RECEIVE
_UNPROTECTED: Final = (
    MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE,
    MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION,
)


@dataclass(slots=True)
class HostRecords:
    """The durable records of one host, and those on their way to the disk."""

    places: dict[Place, tuple[str, SentMessage | None]] = field(default_factory=dict)
    pending: deque[Facts] = field(default_factory=deque)
    sequences: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # The highest position of each incoming sequence.
    accepted: dict[int, int] = field(default_factory=dict)
    # For each message that is not transactional, the count of messages when it first came.
    first_counts: dict[int, int] = field(default_factory=dict)
    # The uids that a transaction has received, and the number of receives that may have happened without an answer.
    receives: dict[str, list[int]] = field(default_factory=dict)
    lost_receives: int = 0
    # The number of ends of its process.
    ends: int = 0


class Ledger:
    def __init__(self, hosts: Iterable[str], marks: Marks, *, history: int, is_quota_limited: bool) -> None:
        self.messages: Final[dict[int, SentMessage]] = {}
        self._planned: Final[dict[int, SentMessage]] = {}
        self.records: Final = {host: HostRecords() for host in hosts}
        self.is_quota_limited: Final = is_quota_limited
        self._marks: Final = marks
        self._history: Final = history
        self._by_identifier: Final[dict[MessageIdentifier, SentMessage]] = {}
        # The checks of signed and encrypted messages, in simulations with keys.
        self.checks: ProtectionChecks | None = None
        self._commits = 0
        # Messages sent in transactions; the last one of each sequence that was put into its queue; the numbers given.
        self._sends: Final[dict[str, list[SentMessage]]] = {}
        self._last: Final[dict[tuple[str, str, str], tuple[int, int]]] = {}
        self._numbers: Final[dict[tuple[str, int, int], int]] = {}

    # Requests of applications, and their answers.

    def plan(self, sent: SentMessage) -> None:
        """A script is about to send the message."""
        self._planned[sent.uid] = sent

    def asked(self, host: str, ask: Ask) -> None:
        """An operation has begun, and may be done."""
        match ask.operation:
            case Send(transaction=transaction) as send:
                for uid in uids_of(send.bodies):
                    sent = self.messages[uid] = self._planned.pop(uid)
                    sent.ends = self.records[host].ends
                    if transaction is not UNSET:
                        self._sends.setdefault(transaction, []).append(sent)
            case CommitTransaction(identifier=identifier):
                self._commits += 1
                for number, sent in enumerate(self._sends.get(identifier, ())):
                    sent.order = self._commits, number
            case AbortTransaction(identifier=identifier):
                self._aborted(identifier)

    def answered(self, host: str, ask: Ask, result: Result) -> None:
        match ask.operation:
            case CommitTransaction(identifier=identifier) if not result.is_ok:
                self._aborted(identifier)
            case Send(transaction=transaction, bodies=bodies) if not result.is_ok and transaction is not UNSET:
                # It could not be signed. Its transaction goes on without it.
                failed = uids_of(bodies)
                if transaction in self._sends:
                    self._sends[transaction] = [each for each in self._sends[transaction] if each.uid not in failed]
            case _ if not result.is_ok:
                pass
            case Send(transaction=transaction) as send if transaction is UNSET:
                for uid in uids_of(send.bodies):
                    self._accepted(host, self.messages[uid])
                for uid, message in zip(uids_of(send.bodies), result.messages, strict=True):
                    self._by_identifier[message.identifier] = self.messages[uid]
                    if self.checks is not None:
                        self.checks.identified(message.identifier, self.messages[uid])
            case CommitTransaction(identifier=identifier):
                for sent in self._sends.pop(identifier, ()):
                    self._accepted(host, sent)
                for uid in self.records[host].receives.pop(identifier, ()):
                    self._received(host, uid)
            case AbortTransaction(identifier=identifier):
                self.records[host].receives.pop(identifier, None)
            case Receive(transaction=transaction):
                for message in result.messages:
                    self._read(host, message, None if transaction is UNSET else transaction)

    def crashed(self, host: str, asks: Iterable[Ask]) -> None:
        """The process of the host has ended with these requests under way. Transactions without a commit are gone."""
        records = self.records[host]
        records.pending.clear()
        records.ends += 1
        for ask in asks:
            match ask.operation:
                case CommitTransaction(identifier=identifier):
                    records.lost_receives += len(records.receives.get(identifier, ()))
                    self._sends.pop(identifier, None)
                case Receive(count=count, transaction=transaction) if transaction is UNSET:
                    records.lost_receives += count
        records.receives.clear()
        for identifier in [each for each, sends in self._sends.items() if sends and sends[0].source == host]:
            self._aborted(identifier)

    def _aborted(self, identifier: str) -> None:
        for sent in self._sends.pop(identifier, ()):
            sent.is_aborted = True

    def _accepted(self, host: str, sent: SentMessage) -> None:
        sent.is_accepted = True
        if sent.is_recoverable and not sent.seen_at and not sent.may_expire:
            raise Violation(f"{host} has accepted {sent}, but the message is not durable")

    def _read(self, host: str, message: Message, transaction: str | None) -> None:
        found = MARK.search(message.body)
        if message.message_class != _NORMAL:
            self._acknowledged(message)
        elif found is not None:
            sent = self.messages[int(found[1])]
            if host not in (sent.plan.host, sent.copy_host) or message.body != sent.body:
                raise Violation(f"{sent} was received on {host}, but on the wrong host or with a different body")
            if self.checks is not None:
                self.checks.check_shown(host, sent, message)
            if host == sent.copy_host:
                return
            if transaction is None:
                self._received(host, sent.uid)
            else:
                self.records[host].receives.setdefault(transaction, []).append(sent.uid)

    def _received(self, host: str, uid: int) -> None:
        sent = self.messages[uid]
        sent.received += 1
        if sent.is_aborted:
            raise Violation(f"{sent} was received on {host}, but the transaction that sent it was aborted")
        if sent.is_recoverable and sent.received > sent.reached:
            raise Violation(f"{sent} was received {sent.received} times, but reached its queue {sent.reached} times")

    # Batches for the disks.

    def places_of(self, host: str) -> dict[Place, SentMessage | None]:
        return {place: sent for place, (_, sent) in self.records[host].places.items()}

    def submitted(self, host: str, batch: Batch, node: Node, counts: tuple[int, int]) -> None:
        self.records[host].pending.append(facts_of(batch, node, counts))

    def durable(self, host: str, count: int) -> None:
        """The first submitted batches that were not durable are durable now."""
        records = self.records[host]
        for _ in range(count):
            facts = records.pending.popleft()
            for put in facts.puts:
                self._put(host, records, put)
            journaled = [records.places[put.place][1] for put in facts.puts if put.role == JOURNAL]
            self._gone(host, records, facts)
            for sent in filter(None, journaled):
                self._journaled(host, sent)
            self._advance(host, records, facts)

    def _put(self, host: str, records: HostRecords, put: Put) -> None:
        message = put.message
        if put.place in records.places:
            # The message has changed, but not moved.
            return
        uid = uid_of(message.packet)
        sent = self.messages.get(uid) if uid is not None else None
        if message.message_class != _NORMAL and put.role not in DEAD:
            sent = None
            if put.role == ADMIN:
                self._acknowledged(message)
        records.places[put.place] = put.role, sent
        if sent is None:
            return
        if sent.is_aborted:
            raise Violation(f"{sent} is durable on {host}, but the transaction that sent it was aborted")
        sent.seen_at[host] = None
        self._by_identifier.setdefault(message.identifier, sent)
        if put.role == OUTGOING:
            self._check_number(host, sent, message)
            if len(sent.seen_at) > 1:
                self._marks.sometimes("a message relayed by a third queue manager")
                if sent.is_transactional:
                    self._marks.sometimes("a transactional message relayed by a third queue manager")
        elif put.role == sent.plan.key and host == sent.plan.host:
            sent.reached += 1
            self._arrived(host, records, sent, put.counts)
        elif put.role in DEAD:
            sent.dead_class = message.message_class
            self._dead(host, sent)

    def _check_number(self, host: str, sent: SentMessage, message: Message) -> None:
        """Check that no place in a sequence is given twice, and that a message keeps its place."""
        if host != sent.source or not is_transactional(message.packet):
            return
        sequence_id, number, _ = sequence_of(message.packet)
        uid = self._numbers.setdefault((host, sequence_id.value, number), sent.uid)
        if uid != sent.uid:
            raise Violation(f"{sent} and <{uid}> have the same number {number} in a sequence of {host}")
        sent.place = sequence_id.value, number, message.identifier.ordinal

    def _arrived(self, host: str, records: HostRecords, sent: SentMessage, counts: tuple[int, int]) -> None:
        if sent.is_transactional:
            if sent.plan.is_doomed:
                # The records of its sequences go with the queue.
                return
            if sent.reached > 1:
                raise Violation(f"the transactional message {sent} arrived twice")
            assert sent.order is not None
            key = sent.source, sent.name, str(sent.plan)
            last = self._last.get(key)
            if last is not None and last >= sent.order:
                raise Violation(f"{sent} was committed before another message, but arrived after that message")
            self._last[key] = sent.order
            return
        before, now = counts
        first = records.first_counts.get(sent.uid)
        if first is None:
            records.first_counts[sent.uid] = before
        elif now - first < self._history and not self.is_quota_limited:
            raise Violation(f"{sent} arrived twice, although only {now - first} messages arrived at {host} in between")
        else:
            self._marks.sometimes("an undetectable duplicate")

    def _journaled(self, host: str, sent: SentMessage) -> None:
        sent.journaled += 1
        if sent.journaled > 1 or host != sent.source:
            raise Violation(f"{sent} is in source journals {sent.journaled} times; the last copy is on {host}")
        if not sent.is_transactional:
            return
        if not sent.consumed and not sent.is_lied_about:
            raise Violation(f"{sent} is in the source journal, but no client has received the message")
        if sent.ends != self.records[host].ends:
            self._marks.sometimes("a FinalAck that arrives after a restart of the source host")

    def _dead(self, host: str, sent: SentMessage) -> None:
        sent.dead += 1
        if sent.is_sure:
            raise Violation(f"{sent} is a dead-letter message on {host}, but its delivery did not fail")
        if sent.dead_class in _UNPROTECTED and sent.dead_class not in sent.refusals and sent.plan.is_sure:
            raise Violation(
                f"{sent} is a dead-letter message of class {sent.dead_class:#x}, but was not refused for that reason"
            )
        if sent.is_transactional:
            self._marks.sometimes("a transactional dead-letter message")
            if sent.dead > 1 or host != sent.source:
                raise Violation(f"{sent} became a dead-letter message {sent.dead} times; the last copy is on {host}")
        if sent.dead and sent.reached and sent.may_expire and host == sent.source != sent.plan.host:
            self._marks.sometimes("a message that expired at its source, but also arrived")

    def _gone(self, host: str, records: HostRecords, facts: Facts) -> None:
        left = []
        for first, end in facts.gone:
            is_one = end == (first[0], first[1] + 1)
            places = [first] if is_one else [each for each in records.places if first <= each < end]
            left += [records.places.pop(place) for place in places if place in records.places]
        for role, sent in left:
            if sent is None:
                continue
            if role == OUTGOING:
                self._left(host, sent)
            elif role == sent.plan.key and host == sent.plan.host:
                sent.consumed += 1

    def _left(self, host: str, sent: SentMessage) -> None:
        """Check a message that has left a host: it has to be at its destination or on its way."""
        if sent.may_expire and not sent.reached and sent.on_wire:
            self._marks.sometimes("a message that expired during transfer")
        if sent.reached or not sent.is_sure or sent.copy_host:
            return
        if sent.is_transactional:
            # A relay may drop it, as its source has it.
            if host == sent.source:
                raise Violation(f"{sent} was deleted from {host}, but never reached its queue")
        elif not self._is_further(host, sent):
            raise Violation(f"{sent} was deleted from {host}, but is not on another host")

    def _is_further(self, host: str, sent: SentMessage) -> bool:
        """Whether the message is on a host further along its path."""
        further = sent.path[sent.path.index(host) + 1 :]
        return any(kept is sent for other in further for _, kept in self.records[other].places.values())

    def _advance(self, host: str, records: HostRecords, facts: Facts) -> None:
        for key, record in facts.sequences:
            now = record.sequence_identifier, record.sequence_number
            if now < records.sequences.get(key, (0, 0)):
                raise Violation(f"a sequence of {host} goes backward, from {records.sequences[key]} to {now}")
            records.sequences[key] = now
            if keys.sequence_of(key)[1] is not None:
                records.accepted[now[0]] = max(records.accepted.get(now[0], 0), now[1])
                if record.reject_count:
                    self._marks.sometimes("a transactional message that arrived out of order")
            elif now[0] & 0xFFFF_FFFF > 1:
                self._marks.sometimes("a sequence that ended")
        for first, end in facts.forgotten:
            for key in [each for each in records.sequences if first <= each < end]:
                del records.sequences[key]

    # Acknowledgments for applications.

    def _acknowledged(self, message: Message) -> None:
        """Check an acknowledgment in its administration queue, or received from there: it may be seen twice."""
        sent = self._by_identifier.get(message.correlation_identifier)
        if sent is None or message.identifier in sent.acks:
            return
        ack = MessageClass(message.message_class)
        if sent.plan.host != sent.source:
            kind = "a negative" if is_negative_ack(ack) else "a positive"
            self._marks.sometimes(f"{kind} acknowledgment over the network")
        # Of an undetectable duplicate, one may have been rejected. A new queue does not know those of the one before.
        is_known = sent.is_transactional and not sent.plan.is_doomed
        is_single = is_known or (sent.reached == 1 and sent.plan.is_sure)
        # The message is rejected at each arrival, and may expire on its way and at its destination.
        is_repeated = is_negative_ack(ack) and (
            sent.may_expire or not sent.plan.is_sure or not sent.fits or bool(sent.refusals)
        )
        if is_single and ack in sent.acks.values() and not is_repeated:
            raise Violation(f"{ack.name} arrived twice for {sent}")
        sent.acks[message.identifier] = ack
        is_negative = any(is_negative_ack(MessageClass(each)) for each in sent.acks.values())
        if is_negative and sent.is_sure:
            raise Violation(f"{ack.name} arrived for {sent}, but was not expected")
        if is_single and is_negative and _RECEIVED in sent.acks.values() and not sent.may_expire and not sent.refusals:
            raise Violation(
                f"one acknowledgment reports that {sent} was received, but another acknowledgment reports a failure"
            )
