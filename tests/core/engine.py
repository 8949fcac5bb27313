"""A queue manager of the core with nothing around it: a table of messages in a dictionary, and a clock that stands."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.opening import Expand
from waypost.core.ports import Directory, Event, MessagePositionDeleted, QueueChanged, ReadEnded
from waypost.core.positions import PositionState
from waypost.core.queue_manager import Identity, QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue, QueueAttributes, ReadRequest, ShareMode
from waypost.core.reading import MessageSeekAction, Read, Waiting
from waypost.core.serialization import size_in_bytes
from waypost.core.writing import EnqueueStatus
from waypost.errors import RecordDamaged
from waypost.hresult import HResult
from waypost.wire.codec import INFINITE
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName

OK = HResult.MQ_OK
TX = b"\x71" * 16
OTHER_TX = b"\x72" * 16
ME = b"\x11" * 16
START = Now(monotonic=100.0, wall=1_000_000.0)

# The label of the message that was read, the status without one, or the number of the wait.
Outcome = str | HResult | int
AnyEvent = TypeVar("AnyEvent", bound=Event)


class Messages:
    """MessageTable. It hands out copies, so that a change which nobody puts back is lost, as it is on disk."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], Message] = {}

    @property
    def in_memory(self) -> int:
        return sum(message.delivery_guarantee is DeliveryGuarantee.EXPRESS for message in self.held.values())

    def put(self, queue: int, message: Message) -> None:
        self.held[queue, message.lookup_identifier] = replace(message)

    hold = update = put

    def publish(self, queue: int, lookup_id: int) -> Message:
        return self.get(queue, lookup_id)

    def get(self, queue: int, lookup_id: int) -> Message:
        return replace(self.held[queue, lookup_id])

    def put_all(self, queue: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self.put(queue, message)

    hold_all = put_all

    def put_packets(self, queue: int, lookup_ids: range, head: bytes, packets: Sequence[bytes]) -> None:
        raise NotImplementedError

    def get_all(self, queue: int, lookup_ids: Sequence[int]) -> list[Message]:
        return [self.get(queue, lookup_id) for lookup_id in lookup_ids]

    def publish_all(self, queue: int, lookup_ids: Sequence[int]) -> None:
        for lookup_id in lookup_ids:
            self.publish(queue, lookup_id)

    def set_aside(self, queue: Queue, lookup_id: int, damage: RecordDamaged) -> int:
        raise damage

    def delete(self, queue: int, message: Message) -> None:
        del self.held[queue, message.lookup_identifier]

    def delete_all(self, queue: int, messages: Sequence[Message]) -> int:
        for message in messages:
            self.delete(queue, message)
        return sum(map(size_in_bytes, messages))


def guids() -> Iterator[bytes]:
    return (number.to_bytes(16, "big") for number in count(1))


def same_name(name: FormatName) -> FormatName:
    """An expansion that finds nothing to expand."""
    return name


class Rig:
    """One queue manager with a private queue `orders`, and the words that tests talk to it with."""

    def __init__(self, directory: Directory | None = None, expand: Expand = same_name) -> None:
        self.now = START
        self.messages = Messages()
        new_guid = guids()
        identity = Identity(ME, "host", "host.example.org", frozenset({"10.0.0.1"}))
        self.manager = QueueManager(
            identity, self.messages, lambda: next(new_guid), directory=directory, expand=expand
        )  # fmt: skip
        self.manager.queue_manager_started(self.now)
        self.orders = self.create("orders")
        self.manager.take_events()

    def create(self, name: str, kind: str = "private$\\") -> Queue:
        """A queue of this computer; a public one with the kind "". Neither a directory nor the events tell of it."""
        attributes = QueueAttributes(PathName.parse(f"host\\{kind}{name}"))
        queue = self.manager.create_queue(attributes, self.now, skip_directory=True)
        events = self.manager.positions.events
        events[:] = [event for event in events if not isinstance(event, QueueChanged)]
        return queue

    def open(
        self,
        access: AccessType = AccessType.RECEIVE,
        share: ShareMode = ShareMode.DENY_NONE,
        name: str = "DIRECT=OS:host\\private$\\orders",
    ) -> OpenQueueDescriptor:
        return self.manager.open_queue(FormatName.parse(name), access, share, self.now)

    def message(self, label: str, ttbr: int = INFINITE, priority: int = 3) -> Message:
        wall = int(self.now.wall)
        return Message(label=label, priority=priority, time_to_be_received=ttbr, sent_time=wall)

    def enqueue(self, message: Message, queue: Queue | None = None, tx: bytes | None = None) -> EnqueueStatus:
        return self.manager.writing.enqueue_message(queue or self.orders, message, tx, self.now)

    def send(self, label: str, ttbr: int = INFINITE, priority: int = 3, tx: bytes | None = None) -> int:
        """The LookupIdentifier of a message that was put into `orders`."""
        message = self.message(label, ttbr, priority)
        assert self.enqueue(message, tx=tx) is EnqueueStatus.ACCEPTED
        return message.lookup_identifier

    def receive(self, handle: OpenQueueDescriptor, request: ReadRequest | None = None) -> Outcome:
        return outcome(self.manager.reading.dequeue_message(handle, request or ReadRequest(0), self.now))

    def begin(self, handle: OpenQueueDescriptor, request: ReadRequest | None = None) -> Outcome:
        return outcome(self.manager.reading.dequeue_message_begin(handle, request or ReadRequest(0), self.now))

    def peek(self, handle: OpenQueueDescriptor, request: ReadRequest | None = None) -> Outcome:
        return outcome(self.manager.reading.peek_message(handle, request or ReadRequest(0), self.now))

    def peek_next(self, handle: OpenQueueDescriptor, request: ReadRequest) -> Outcome:
        return outcome(self.manager.reading.peek_next_message(handle, request, self.now))

    def seek(
        self, handle: OpenQueueDescriptor, action: MessageSeekAction, lookup_id: int, request: ReadRequest | None = None
    ) -> Outcome:
        """A read by LookupIdentifier; a peek without a request."""
        reading = self.manager.reading
        return outcome(reading.read_message_by_lookup_identifier(handle, lookup_id, action, request))

    def end(
        self, handle: OpenQueueDescriptor, lookup_id: int, *, delete: bool, tx: bytes | None = None
    ) -> HResult:  # fmt: skip
        return self.manager.reading.dequeue_message_end(handle, lookup_id, delete_message=delete, transaction=tx)

    def move(self, lookup_id: int, target: Queue, tx: bytes | None = None) -> HResult:
        return self.manager.writing.move_message(self.orders, lookup_id, target, tx, self.now)

    def start(self, identifier: bytes = TX) -> bytes:
        self.manager.transactions.create_transaction(identifier)
        return identifier

    def commit(self, identifier: bytes = TX) -> HResult:
        return self.manager.transactions.transaction_commit(identifier, self.now.wall)

    def abort(self, identifier: bytes = TX) -> HResult:
        return self.manager.transactions.transaction_abort(identifier)

    def advance(self, seconds: float) -> None:
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)
        self.manager.expire(self.now)
        self.manager.timers.fire(self.now)

    def next_deadline(self) -> float | None:
        """When something is due, on the monotonic clock, as the clocks stand now."""
        if self.manager.timers.works:
            return self.now.monotonic
        deadlines = self.manager.timers.earliest(), self.manager.next_expiry(self.now)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def events(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        """The events of this kind since the last call."""
        return [event for event in self.manager.take_events() if isinstance(event, kind)]

    def ended(self) -> list[tuple[int, Outcome]]:
        """The waits that ended since the last call, and how."""
        return [(event.wait_id, outcome(Read(event.status, event.message))) for event in self.events(ReadEnded)]

    def deleted(self) -> list[tuple[str, MessageClass]]:
        """The messages that left a queue since the last call, and why."""
        return [(event.message.label, event.reason) for event in self.events(MessagePositionDeleted)]

    def labels(self, queue: Queue | None = None) -> list[str]:
        """All messages of a queue in list order, whatever their state."""
        held = queue or self.orders
        return [self.messages.get(held.number, lookup_id).label for lookup_id in held.positions]

    def state(self, lookup_id: int) -> PositionState:
        return self.orders.positions.state(lookup_id)


def outcome(read: Read | Waiting) -> Outcome:
    if isinstance(read, Waiting):
        return read.wait_id
    assert (read.message is not None) == (read.status is OK)
    return read.status if read.message is None else read.message.label
