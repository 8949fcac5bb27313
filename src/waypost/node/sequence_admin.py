"""What an administrator can ask about transactional sequences, at both ends, and how to begin them again.

Incoming sequences may be a million, so they are looked at in pages: whoever asks goes on where the page ended. A reset
at the receiver forgets what was taken of a source; one at the sender begins a new sequence with all messages that are
not acknowledged. Either may lead to messages that come twice, which is why nothing here happens by itself.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import is_transactional, sequence_of, set_sequence
from waypost.errors import QueueNotFound
from waypost.guid import NULL_GUID
from waypost.limits import MAX_SEQUENCE_PAGE, MAX_SEQUENCES_LOOKED_AT
from waypost.node.network.admission import Refused
from waypost.node.node import Node
from waypost.store import keys
from waypost.transfer.incoming import IncomingSequences
from waypost.transfer.order_acks import SequenceKey
from waypost.wire.format_names import FormatName

_GUID_SIZE: Final = len(NULL_GUID)
_SOME: Final = 100
# The part of the reserve on the disk that may be written again without a question: pages are copied, two of them for a
# message at worst, and receives go on beside it.
_SMALL_PART: Final = 8


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
                    each.time_stamp << 32,
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

    def reset_outgoing(self, queue: OutgoingQueue, now: Now, *, is_trial: bool) -> Reset:
        """Begin a new sequence with the messages of an outgoing queue that are not acknowledged.

        They are written once more, in one batch. If that is more than a small part of the reserve on the disk, there
        has to be room for it: raises StoreFull before anything has changed.
        """
        messages = [message for message in self._numbered(queue) if not _is_acknowledged(queue, message)]
        sent = [message for message in messages if _may_be_sent(queue, message)]
        if not is_trial:
            sizes = [len(message.packet) for message in messages]
            if sum(sizes) > self._node.kernel.room.reserve // _SMALL_PART:
                self._node.check_room(sum(sizes), max(sizes))
            self._begin_again(queue, now)
        return Reset(1, len(messages), len(sent), [str(message.identifier) for message in sent[:_SOME]])

    def find(self, name: FormatName) -> Queue:
        """Raises QueueNotFound."""
        manager = self._node.manager
        queue = manager.find_queue(name) or manager.collection.outgoing.get(name)
        if queue is None:
            raise QueueNotFound(f"{name} is not a queue of this computer")
        return queue

    def _begin_again(self, queue: OutgoingQueue, now: Now) -> None:
        """Messages that the destination has acknowledged leave with the session; the others get new numbers."""
        node, link = self._node, queue.link
        if node.network is not None and link is not None and link.session is not None:
            node.network.close(link.session, f"the sequence of {queue} begins again", now)
        messages = list(self._numbered(queue))
        sequence = node.sequences.begin_again(queue)
        for message in messages:
            number = sequence.number()
            set_sequence(message, sequence.sequence_id, number, number - 1)
            node.messages.update(queue.number, message)
        node.sequences.write_outgoing(queue)
        if node.network is not None:
            node.network.departures.begun_again(queue)

    def _numbered(self, queue: OutgoingQueue) -> Iterator[Message]:
        """The messages of our transactions that have a number, in their order."""
        own = self._node.manager.identity.identifier
        for lookup_id in queue.positions:
            message = self._node.manager.positions.find(queue, lookup_id)
            if message is None or message.identifier.queue_manager_guid != own or not is_transactional(message.packet):
                continue
            # One that is not committed has no number yet.
            if self._node.sequences.queue_of(sequence_of(message.packet)[0].value) is queue:
                yield message

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


def _is_acknowledged(queue: OutgoingQueue, message: Message) -> bool:
    """Whether the destination has said that it has the message, which is still here for its session."""
    sequence_id, number, _ = sequence_of(message.packet)
    link = queue.link
    return link is not None and sequence_id == link.sequence.sequence_id and link.sequence.is_acknowledged(number)


def _may_be_sent(queue: OutgoingQueue, message: Message) -> bool:
    """Whether the message was written to a session, as far as is known: a process before this one may have."""
    sequence_id, number, _ = sequence_of(message.packet)
    link = queue.link
    return link is None or sequence_id != link.sequence.sequence_id or number <= link.sequence.highest_number
