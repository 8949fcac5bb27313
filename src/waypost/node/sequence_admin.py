"""What an administrator can ask about transactional sequences, at both ends, and how to begin them again.

Incoming sequences may be a million, so they are looked at in pages: whoever asks goes on where the page ended. A reset
at the receiver forgets what was taken of a source; one at the sender begins a new sequence with all messages that are
not acknowledged, in parts (waypost.node.renumbering). Either may lead to messages that come twice, which is why nothing
here happens by itself.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import sequence_of
from waypost.errors import QueueNotFound
from waypost.guid import NULL_GUID
from waypost.limits import MAX_SCAN_BYTES, MAX_SEQUENCE_PAGE, MAX_SEQUENCES_LOOKED_AT
from waypost.node.network.admission import Refused
from waypost.node.node import Node
from waypost.node.renumbering import numbered_part
from waypost.node.sequences import BEFORE_TRANSACTIONAL
from waypost.store import keys
from waypost.transfer.incoming import IncomingSequences
from waypost.transfer.order_acks import SequenceKey
from waypost.transfer.sequences import TxOutgoingSequence
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import TxSequenceId

_GUID_SIZE: Final = len(NULL_GUID)
_SOME: Final = 100
# The part of the reserve on the disk that may be written again without a question: pages are copied, two of them for a
# message at worst, and receives go on beside it.
_SMALL_PART: Final = 8
# Parts of a reset that take room on the disk at the same time: the pages of those before them are used again.
_PARTS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sequences: all that fit. `address` is as waypost.peers.peer_of gives it; times are in seconds."""

    queue: FormatName | None = None
    source: bytes | None = None
    address: str = ""
    older_than: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One sequence at one end. `number` is the last one that was taken, or the last one that was given."""

    direction: str
    queue: Queue
    source: bytes
    sequence_id: int
    number: int
    addresses: tuple[str, ...] = ()
    last_time: int = 0
    rejected: int = 0
    unacknowledged: int = 0
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is where to go on; empty at the end."""

    lines: list[Line]
    next: bytes = b""


@dataclass(frozen=True, slots=True)
class Reset:
    """What was reset, or would be. Of the messages that may come twice, the identifiers of the first are told."""

    sequences: int = 0
    renumbered: int = 0
    may_come_twice: int = 0
    identifiers: list[str] = field(default_factory=list)
    next: bytes = b""


class SequenceAdmin:
    """Every method is a part of an operation of the node."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node: Final = node

    def outgoing(self, wanted: Wanted) -> Page:
        """Sequences of what is sent from here."""
        return Page([self._outgoing_line(queue) for queue in self._outgoing_queues(wanted)])

    def refused(self, wanted: Wanted, now: Now) -> Page:
        """Sequences whose messages were not taken lately."""
        by_number = self._node.manager.collection.by_number
        return Page(
            [
                Line(
                    "refused",
                    by_number[each.queue],
                    each.source,
                    TxSequenceId(0, each.time_stamp).value,
                    0,
                    (each.address,),
                    each.last_time,
                    each.count,
                    refused=each,
                )
                for each in self._fitting_refused(wanted, now)
            ]
        )

    def incoming(self, wanted: Wanted, start: bytes, now: Now) -> Page:
        """Sequences of what comes from others, from a place on."""
        found, following = self._found(wanted, start, MAX_SEQUENCE_PAGE, now)
        by_number = self._node.manager.collection.by_number
        lines = [
            line
            for (source, number), sequences in found
            if number in by_number
            for line in _incoming_lines(by_number[number], source, sequences)
        ]
        return Page(lines, following)

    def reset_incoming(self, wanted: Wanted, start: bytes, now: Now, *, is_trial: bool) -> Reset:
        """Forget sources, from a place on. Nothing happens if it is a trial.

        The next message of a source that is named is taken, whatever comes before it. With an address, only what came
        from there is forgotten.
        """
        found, following = self._found(wanted, start, MAX_SEQUENCES_LOOKED_AT, now)
        reset = dict.fromkeys(key for key, _ in found)
        if not start and wanted.source is not None:
            reset |= dict.fromkeys(each.key for each in self._fitting_refused(wanted, now))
        if not is_trial:
            for key in reset:
                self._reset(key, wanted)
        return Reset(len(reset), next=following)

    def reset_outgoing(self, queue: OutgoingQueue, now: Now, then: Callable[[Reset], None]) -> None:
        """Begin a new sequence with the messages of an outgoing queue that are not acknowledged.

        They are written once more. If that is more than a small part of the reserve on the disk, there has to be room
        for it: raises StoreFull before anything has changed, and ResetUnderWay.
        """
        node, size = self._node, min(queue.total_bytes, _PARTS_AT_ONCE * MAX_SCAN_BYTES)
        node.renumberings.check(queue)
        if size > node.kernel.room.reserve // _SMALL_PART:
            node.kernel.check_room(size, min(size, MAX_SCAN_BYTES))
        tally = _Tally.of(queue)
        node.renumberings.begin(queue, now, tally.add, lambda: then(tally.reset))

    def try_outgoing(self, queue: OutgoingQueue, then: Callable[[Reset], None]) -> None:
        """Find out what such a reset would lead to. Raises ResetUnderWay."""
        node, tally, at = self._node, _Tally.of(queue), BEFORE_TRANSACTIONAL
        node.renumberings.check(queue)
        end = queue.last_committed

        def look(_: Now) -> None:
            nonlocal at
            messages, at = numbered_part(node.manager, queue, at, end)
            tally.add([message for message in messages if not tally.is_acknowledged(message)])
            if at < end:
                node.kernel.timers.start_work(look, look)
            else:
                then(tally.reset)

        look(node.kernel.now)

    def find(self, name: FormatName) -> Queue:
        """Raises QueueNotFound."""
        manager = self._node.manager
        queue = manager.find_queue(name) or manager.collection.outgoing.get(name)
        if queue is None:
            raise QueueNotFound(f"{name} is not a queue of this computer")
        return queue

    def _reset(self, key: SequenceKey, wanted: Wanted) -> None:
        incoming, network = self._node.sequences.incoming, self._node.network
        if wanted.address:
            incoming.forget_address(key, wanted.address)
        elif wanted.source is not None:
            incoming.expect_any(key)
        else:
            incoming.delete(key)
        if network is not None:
            network.arrivals.admission.reset(key)

    def _found(
        self, wanted: Wanted, start: bytes, limit: int, now: Now
    ) -> tuple[list[tuple[SequenceKey, IncomingSequences]], bytes]:
        """Sources from a place on that fit, and where to go on."""
        incoming, number = self._node.sequences.incoming, self._incoming_number(wanted)
        following: bytes | None = None
        if number is not None and number < 0:
            return [], b""
        if wanted.source is not None:
            found = [(key, incoming.find(key)) for key in self._keys_of(wanted.source, number)]
        else:
            first, stop = (b"", None) if number is None else keys.incoming_sequence_range(number)
            page, following = incoming.page(max(start, first), stop, limit)
            found = list(page)
        fitting = [
            (key, sequences)
            for key, sequences in found
            if sequences is not None and _fits(wanted, number, key, sequences.places, _heard(sequences), now)
        ]
        return fitting, following or b""

    def _keys_of(self, source: bytes, number: int | None) -> Iterator[SequenceKey]:
        incoming, queues = self._node.sequences.incoming, self._node.manager.queues.values()
        for queue in queues:
            if queue.attributes.transactional and number in (None, queue.number):
                yield from incoming.of_source(queue.number, source)

    def _incoming_number(self, wanted: Wanted) -> int | None:
        """The number of the queue that is wanted; None for every queue, and -1 if it is an outgoing one."""
        if wanted.queue is None:
            return None
        queue = self.find(wanted.queue)
        return -1 if isinstance(queue, OutgoingQueue) else queue.number

    def _outgoing_queues(self, wanted: Wanted) -> list[OutgoingQueue]:
        if wanted.address or wanted.older_than is not None:
            return []
        if wanted.source not in (None, self._node.manager.identity.identifier):
            return []
        if wanted.queue is not None:
            queue = self.find(wanted.queue)
            return [queue] if isinstance(queue, OutgoingQueue) else []
        queues = self._node.manager.collection.outgoing.values()
        return [queue for queue in queues if self._node.sequences.has_numbered(queue)]

    def _outgoing_line(self, queue: OutgoingQueue) -> Line:
        sequence = self._node.sequences.outgoing_of(queue)
        info = queue.outgoing_transfer_info
        own = self._node.manager.identity.identifier
        hops = tuple(queue.next_hops)
        return Line(
            "out",
            queue,
            own,
            sequence.sequence_id.value,
            sequence.next_number - 1,
            hops,
            info.last_ack_time,
            unacknowledged=info.no_ack_count,
        )

    def _fitting_refused(self, wanted: Wanted, now: Now) -> list[Refused]:
        network, number = self._node.network, self._incoming_number(wanted)
        found = [] if network is None else network.arrivals.admission.refused
        return [each for each in found if _fits(wanted, number, each.key, (each.address,), each.last_time, now)]


def _incoming_lines(queue: Queue, source: bytes, sequences: IncomingSequences) -> Iterator[Line]:
    for time_stamp, line in sequences.lines.items():
        addresses = tuple(address for address, place in sequences.places.items() if place.time_stamp == time_stamp)
        yield Line(
            "in",
            queue,
            source[:_GUID_SIZE],
            line.sequence_id,
            line.number,
            addresses,
            line.last_access_time,
            line.reject_count,
        )


def _heard(sequences: IncomingSequences) -> int:
    """When a message of the source came last."""
    return max((line.last_access_time for line in sequences.lines.values()), default=0)


def _fits(
    wanted: Wanted, number: int | None, key: SequenceKey, addresses: Container[str], heard: int, now: Now
) -> bool:
    source, queue = key
    return (
        number in (None, queue)
        and wanted.source in (None, source[:_GUID_SIZE])
        and (not wanted.address or wanted.address in addresses)
        and (wanted.older_than is None or heard < now.wall - wanted.older_than)
    )


@dataclass(slots=True)
class _Tally:
    """What a reset of an outgoing queue leads to, part by part. `sent` is what was sent before it; None if unknown."""

    sent: TxOutgoingSequence | None
    renumbered: int = 0
    may_come_twice: int = 0
    identifiers: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, queue: OutgoingQueue) -> "_Tally":
        return cls(None if queue.link is None else queue.link.sequence)

    @property
    def reset(self) -> Reset:
        return Reset(1, self.renumbered, self.may_come_twice, self.identifiers)

    def add(self, messages: Sequence[Message]) -> None:
        twice = [message for message in messages if self._may_be_sent(message)]
        self.renumbered += len(messages)
        self.may_come_twice += len(twice)
        room = _SOME - len(self.identifiers)
        self.identifiers += [str(message.identifier) for message in twice[:room]]

    def is_acknowledged(self, message: Message) -> bool:
        """Whether the destination has said that it has the message, which is still here for its session."""
        sequence_id, number, _ = sequence_of(message.packet)
        sent = self.sent
        return sent is not None and sequence_id == sent.sequence_id and sent.is_acknowledged(number)

    def _may_be_sent(self, message: Message) -> bool:
        """Whether the message was written to a session, as far as is known: a process before this one may have."""
        sequence_id, number, _ = sequence_of(message.packet)
        sent = self.sent
        return sent is None or sequence_id != sent.sequence_id or number <= sent.highest_number
