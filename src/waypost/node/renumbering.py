"""New sequence numbers for the messages in an outgoing queue, in parts, one with every tick: MS-MQQB 3.1.1.3.1.

The new sequence begins at once, and messages that commit from now on get its numbers, behind those that are reserved
for the waiting messages. A part is one batch with a mark of the progress, so that a start continues from there. Nothing
leaves the queue before the last part is done. A sequence with gaps is legal (MS-MQQB 3.1.1.5).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import is_numbered, set_sequence
from waypost.errors import ResetUnderWay, StoreDamaged
from waypost.limits import MAX_SCAN_BYTES, RENUMBERED_PART
from waypost.node import scans
from waypost.node.kernel import Kernel
from waypost.node.network.network import Network
from waypost.node.sequences import BEFORE_TRANSACTIONAL, Sequences, outgoing_sequence
from waypost.store import keys
from waypost.store.port import Reader, Table
from waypost.store.sequence_records import RenumberingRecord
from waypost.transfer.sequences import OutgoingSequence


def give_number(message: Message, sequence: OutgoingSequence) -> None:
    """Make the message the next one of this sequence."""
    number = sequence.number()
    set_sequence(message, sequence.sequence_id, number, number - 1)


def numbered_part(manager: QueueManager, queue: OutgoingQueue, after: int, end: int) -> tuple[list[Message], int]:
    """The messages with numbers among the next positions up to `end`, and the last of these positions.

    It is `end` if there are no more.
    """
    own = manager.identity.identifier
    found: list[Message] = []
    size = 0
    for _ in range(RENUMBERED_PART):
        after = queue.positions.next_any(after)
        if after >= end:
            after = end
            if end not in queue.positions:
                break
        message = manager.positions.find(queue, after)
        if message is not None:
            size += len(message.packet)
            if is_numbered(message, own):
                found.append(message)
        if after == end or size >= MAX_SCAN_BYTES:
            break
    return found, after


@dataclass(slots=True)
class Renumbering:
    """An active reset. Messages up to `lookup_id` have numbers of `sequence`; the last one to get one is at `end`."""

    queue: OutgoingQueue
    sequence: OutgoingSequence
    lookup_id: int
    end: int
    # Called with the messages of each part, before they get their numbers, and at the end; None after a start.
    each: Callable[[list[Message]], None] | None = None
    then: Callable[[], None] | None = None
    count: int = field(default=0, init=False)

    @property
    def progress(self) -> str:
        return f"{self.sequence.next_number - 1} of its messages have new numbers"


class Renumberings:
    """The active resets, one after the other."""

    __slots__ = ("_kernel", "_manager", "_network", "_sequences", "_works")

    def __init__(
        self, kernel: Kernel, manager: QueueManager, sequences: Sequences, reader: Reader, network: Network | None
    ) -> None:  # fmt: skip
        """Continue the resets that the process before this one has begun."""
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._sequences: Final = sequences
        self._network: Final = network
        self._works: Final[dict[int, Renumbering]] = {}
        for number, (sequence, lookup_id, end) in _read(reader).items():
            queue = manager.collection.by_number.get(number)
            if not isinstance(queue, OutgoingQueue):
                raise StoreDamaged(
                    f"the sequence of queue {number} is being reset, but the queue is not an outgoing queue"
                )
            self._add(Renumbering(queue, sequence, lookup_id, end))

    def __bool__(self) -> bool:
        return bool(self._works)

    def find(self, queue: Queue) -> Renumbering | None:
        return self._works.get(queue.number)

    def check(self, queue: OutgoingQueue) -> None:
        """Raises ResetUnderWay."""
        work = self.find(queue)
        if work is not None:
            raise ResetUnderWay(f"the sequence of {queue} is being reset: {work.progress}")

    def begin(
        self, queue: OutgoingQueue, now: Now, each: Callable[[list[Message]], None], then: Callable[[], None]
    ) -> None:  # fmt: skip
        """Begin a new sequence with the waiting messages of the queue. Raises ResetUnderWay.

        Messages that the destination has acknowledged leave with the session; the others get new numbers.
        """
        self.check(queue)
        network, link = self._network, queue.link
        if network is not None and link is not None and link.session is not None:
            network.close(link.session, f"the sequence of {queue} is being reset", now)
        sequence = self._sequences.begin_again(queue, len(queue.positions))
        work = Renumbering(queue, sequence, BEFORE_TRANSACTIONAL, queue.last_committed, each, then)
        self._add(work)
        self._write_mark(work)
        if network is not None:
            network.departures.begun_again(queue)

    def forget(self, queue: Queue) -> None:
        """Forget the reset of a deleted queue, and its mark."""
        work = self._works.pop(queue.number, None)
        if work is not None and work.then is not None:
            work.then()

    def _add(self, work: Renumbering) -> None:
        work.queue.awaits_numbers = True
        self._works[work.queue.number] = work
        self._kernel.timers.start_work(Renumberings, self._go_on)

    def _go_on(self, _now: Now) -> None:
        work = next(iter(self._works.values()), None)
        if work is None:
            return
        messages, work.lookup_id = numbered_part(self._manager, work.queue, work.lookup_id, work.end)
        if work.each is not None:
            work.each(messages)
        for message in messages:
            give_number(message, work.sequence)
            self._kernel.messages.update(work.queue.number, message)
        work.count += len(messages)
        if work.lookup_id >= work.end:
            self._end(work)
        else:
            self._write_mark(work)
        if self._works:
            self._kernel.timers.start_work(Renumberings, self._go_on)

    def _end(self, work: Renumbering) -> None:
        queue = work.queue
        del self._works[queue.number]
        queue.awaits_numbers = False
        self._kernel.messages.batch.delete(Table.COUNTERS, keys.renumbering_key(queue.number))
        if self._network is not None:
            self._network.departures.want(queue)
        self._kernel.notice("sequence reset", queue=str(queue), renumbered=work.count)
        if work.then is not None:
            work.then()

    def _write_mark(self, work: Renumbering) -> None:
        record = RenumberingRecord(
            work.sequence.sequence_id.value, work.sequence.next_number, work.lookup_id, work.end
        )  # fmt: skip
        self._kernel.messages.batch.put(Table.COUNTERS, keys.renumbering_key(work.queue.number), record.encode())


def _read(reader: Reader) -> dict[int, tuple[OutgoingSequence, int, int]]:
    """Active resets, by the numbers of the queues: the new sequence, and the positions between which they continue."""
    found: dict[int, tuple[OutgoingSequence, int, int]] = {}
    for key, value in scans.items(reader, Table.COUNTERS, *keys.renumbering_range()):
        # All of COUNTERS was decoded before.
        record = RenumberingRecord.decode(value)
        sequence = outgoing_sequence(record.sequence_identifier, record.next_number)
        found[keys.renumbering_queue_of(key)] = sequence, record.lookup_id, record.end
    return found
