"""One queue manager: MS-MQDMPR 3.1.1.1, its start and stop, its clock, and the parts that the events work on.

Creating and Opening make and find queues, Reading, Writing, Handles and Transactions work on their messages,
OutgoingQueues and Dispatch serve those who transfer. They share the one QueueCollection and the one list of events:
whoever raised an event of 3.1.7 takes what it led to with `take_events`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from waypost.clock import Now
from waypost.core.creating import Creating, DefaultSecurity
from waypost.core.dispatch import Dispatch
from waypost.core.final_acks import FinalAcks
from waypost.core.handles import Handles
from waypost.core.lasting_transactions import LastingTransactions
from waypost.core.opening import Expand, Opening
from waypost.core.outgoing import OutgoingQueues, Transport
from waypost.core.ports import Directory, Event, MessageTable, QueueManagerChanged
from waypost.core.position_events import PositionEvents
from waypost.core.queue_collection import QueueCollection
from waypost.core.queues import (
    AWAITING_FINAL_ACK,
    NOTIFICATION_QUEUE,
    ORDER_QUEUE,
    AccessType,
    OpenQueueDescriptor,
    OutgoingQueue,
    Queue,
    QueueAttributes,
    ShareMode,
)
from waypost.core.reading import Reading
from waypost.core.system import (
    STATES,
    SYSTEM_QUEUES,
    Identity,
    QueueManagerAttributes,
    QueueManagerState,
    Step,
)
from waypost.core.transactions import Transactions
from waypost.core.writing import Writing
from waypost.errors import ServiceNotAvailable
from waypost.guid import NULL_GUID
from waypost.limits import EXPIRY_PART
from waypost.timers import Timers
from waypost.wire.format_names import FormatName, PublicFormatName, Suffix
from waypost.wire.identifiers import MessageIdentifier
from waypost.wire.path_names import PathName, QueueKind
from waypost.wire.property_values import UNLIMITED
from waypost.wire.transactional_acks import ORDER_QUEUE_NUMBER

__all__ = ["Identity", "QueueManager"]

_MAX_ORDINAL: Final = 0xFFFF_FFFF

# Told of each state that the queue manager comes to: who serves requests begins with Ready, and ends with Stopping.
Subscriber = Callable[[QueueManagerState], None]


def _as_given(attributes: QueueAttributes) -> bytes:
    return attributes.security


def _as_it_is(name: FormatName) -> FormatName:
    return name


class QueueManager:
    """LocalQueueManager: there is one, and everybody works on it.

    Without a `directory` it is in workgroup mode. `machine_domain_id`, `connection_active` and `state` are volatile.
    """

    def __init__(
        self,
        identity: Identity,
        messages: MessageTable,
        new_guid: Callable[[], bytes],
        *,
        attributes: QueueManagerAttributes | None = None,
        directory: Directory | None = None,
        expand: Expand = _as_it_is,
        default_security: DefaultSecurity = _as_given,
        timers: Timers | None = None,
    ) -> None:
        self.identity = identity
        self.attributes = attributes or QueueManagerAttributes()
        self.machine_domain_id = NULL_GUID
        self.connection_active = True
        self.state = QueueManagerState.STOPPED
        # It counts on when the 32 bits of an ordinal are used up, so that it only grows.
        self.last_ordinal = 0
        self._subscribers: list[Subscriber] = []

        self.timers: Final = Timers() if timers is None else timers
        self.positions: Final = PositionEvents(messages)
        self.positions.quota = self.attributes.queue_manager_quota
        self.transactions: Final = Transactions(self.positions)
        self.lasting: Final = LastingTransactions(self.positions, self.transactions)
        self.reading: Final = Reading(self.positions, self.transactions, self.timers)
        self.writing: Final = Writing(self.positions, self.transactions)
        self.dispatch: Final = Dispatch()
        self.collection: Final = QueueCollection(identity, self.positions, new_guid)
        self.final_acks: Final = FinalAcks(self.collection, self.positions, self.writing)
        creating = Creating(
            self.collection,
            self.reading,
            self.writing,
            directory=directory,
            default_security=default_security,
            check_ready=self._check_ready,
        )
        self.outgoing: Final = OutgoingQueues(
            self.collection,
            self.positions,
            self.dispatch,
            directory=directory,
            hardened_security=lambda: self.attributes.hardened_security,
        )
        self._opening: Final = Opening(self.collection, creating, self.outgoing, self.reading, expand=expand)
        handles = Handles(self.writing, self.transactions, self._host_of)
        self._directory: Final = directory

        self.create_queue: Final = creating.create_queue
        self.modify_queue: Final = creating.modify_queue
        self.delete_queue: Final = creating.delete_queue
        self.check_deletable: Final = creating.check_deletable
        self.restore_queue: Final = self.collection.restore
        self.find_queue: Final = self.collection.find
        self.close_queue: Final = self._opening.close_queue
        self.open_cursor: Final = self._opening.open_cursor
        self.close_cursor: Final = self._opening.close_cursor
        self.enqueue_message_to_open_queue: Final = handles.enqueue_message_to_open_queue
        self.copies: Final = handles.copies
        self.enqueue_copies: Final = handles.enqueue_copies
        self.refusing: Final = handles.refusing
        self.purge_open_queue: Final = handles.purge_open_queue
        self.check_move: Final = handles.check_move
        self.move_to_open_queue: Final = handles.move_to_open_queue
        self.move_some_to_open_queue: Final = handles.move_some_to_open_queue
        self.pause_queue: Final = self.outgoing.pause_queue
        self.resume_queue: Final = self.outgoing.resume_queue

    @property
    def queues(self) -> dict[PathName, Queue]:
        """The queues of this computer by their path, without journals and subqueues."""
        return self.collection.by_path

    @property
    def system_queues(self) -> dict[Suffix, Queue]:
        """SystemJournalQueue, SystemDeadletterQueue and SystemTransactionalDeadletterQueue."""
        return self.collection.system

    @property
    def order_queue(self) -> Queue:
        return self.queues[self._private_path(ORDER_QUEUE)]

    @property
    def notification_queue(self) -> Queue:
        return self.queues[self._private_path(NOTIFICATION_QUEUE)]

    @property
    def awaiting_final_ack(self) -> Queue:
        """The queue that is AwaitingFinalACKTable of MS-MQQB 3.1.1.3.1."""
        return self.queues[self._private_path(AWAITING_FINAL_ACK)]

    @property
    def total_bytes(self) -> int:
        return self.positions.total_bytes

    def take_events(self) -> list[Event]:
        """What happened since the last call, in order."""
        events, self.positions.events = self.positions.events, []
        return events

    def set_addresses(self, addresses: frozenset[str]) -> None:
        """This queue manager is reached at these addresses now. Its queues keep their names."""
        self.identity = self.collection.identity = replace(self.identity, addresses=addresses)

    @property
    def last_number(self) -> int:
        """The number that the store knows the last new queue by."""
        return self.collection.last_number

    @last_number.setter
    def last_number(self, number: int) -> None:
        self.collection.last_number = number

    @property
    def last_private_number(self) -> int:
        """The PrivateQueueNumber that was given last."""
        return self.collection.last_private_number

    @last_private_number.setter
    def last_private_number(self, number: int) -> None:
        self.collection.last_private_number = number

    def expire(self, now: Now) -> None:
        """Let nobody have a message whose time is over, if it is Ready: to be called before anything is done."""
        if self.state is QueueManagerState.READY:
            self.positions.expire(now.wall)
            self._mind_late()

    def next_expiry(self, now: Now) -> float | None:
        """The monotonic time at which `expire` has something to do, as the clocks stand now."""
        expiry = self.positions.next_expiry if self.state is QueueManagerState.READY else None
        return None if expiry is None else now.monotonic + expiry - now.wall

    def _mind_late(self) -> None:
        if self.positions.has_late:
            self.timers.start_work(PositionEvents, self._take_late)

    def _take_late(self, _now: Now) -> None:
        """Of expired messages EXPIRY_PART are taken away at a time."""
        if self.state is QueueManagerState.READY:
            self.positions.take_late(EXPIRY_PART)
            self._mind_late()

    def message_identifier(self) -> MessageIdentifier:
        """The identifier of a new message. Ordinals begin again when 32 bits are used up; there is no 0."""
        return MessageIdentifier(self.identity.identifier, self.first_ordinal(1))

    def first_ordinal(self, count: int) -> int:
        """The first of the ordinals of `count` new messages, which have the following ones."""
        ordinal = self.last_ordinal % _MAX_ORDINAL + 1
        if ordinal + count - 1 > _MAX_ORDINAL:
            self.last_ordinal += _MAX_ORDINAL - ordinal + 1
            ordinal = 1
        self.last_ordinal += count
        return ordinal

    def open_queue(self, name: FormatName, access: AccessType, share: ShareMode, now: Now) -> OpenQueueDescriptor:
        """See Opening. Whatever is done with messages begins here, so a queue manager that is not Ready does nothing.

        Raises ServiceNotAvailable then.
        """
        self._check_ready()
        return self._opening.open_queue(name, access, share, now)

    def _host_of(self, descriptor: OpenQueueDescriptor) -> bytes:
        """The queue manager of the public queue that a handle was opened on; other names tell their own."""
        name = descriptor.format_name
        if not isinstance(name, PublicFormatName):
            return NULL_GUID
        if not isinstance(descriptor.queue, OutgoingQueue):
            return self.identity.identifier
        known = None if self._directory is None else self._directory.find_queue(name.guid)
        return NULL_GUID if known is None else known.queue_manager_identifier

    def _check_ready(self) -> None:
        """MS-MQDMPR 3.1.1.1: it performs no function but in Ready."""
        if self.state is not QueueManagerState.READY:
            raise ServiceNotAvailable(f"the queue manager is {self.state.name.lower()}")

    @property
    def answers_rpc(self) -> bool:
        """Whether it answers MSMQ RPC requests: whoever serves them asks first."""
        return self.state is QueueManagerState.READY and not self.attributes.hardened_security

    def accepts_transfer(self, transport: Transport) -> bool:
        """Whether messages may come and go this way: whoever transfers them asks first."""
        is_allowed = transport is Transport.HTTP or not self.attributes.hardened_security
        return self.state is QueueManagerState.READY and is_allowed

    def set_quota(self, kilobytes: int) -> None:
        """QueueManagerQuota (readings MQDMPR 3.F)."""
        self.attributes = replace(self.attributes, queue_manager_quota=kilobytes)
        self.positions.quota = kilobytes
        self.positions.events.append(QueueManagerChanged())

    def modify(self, attributes: QueueManagerAttributes, now: Now) -> None:
        """Give the queue manager other attributes.

        HardenedSecurity holds at once for outgoing queues that are made, and for the others from the next start.
        """
        self.attributes = replace(attributes, modify_time=int(now.wall))
        self.set_quota(attributes.queue_manager_quota)
        journal = self.system_queues.get(Suffix.JOURNAL)
        if journal is not None and journal.attributes.quota != attributes.journal_quota:
            journal.attributes.quota = attributes.journal_quota
            self.collection.changed(journal)

    def take_offline(self) -> None:
        """MS-MQDMPR 3.1.4.12."""
        self.connection_active = False

    def bring_online(self) -> None:
        """MS-MQDMPR 3.1.4.13."""
        self.connection_active = True

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have somebody told of every state that the queue manager comes to."""
        self._subscribers.append(subscriber)

    def queue_manager_started(self, now: Now) -> None:
        """MS-MQDMPR 3.1.4.1. What was kept is restored already. An error of the initialization ends the start."""
        self._go(Step.START)
        try:
            self._initialize(now)
        except Exception:
            self._go(Step.FAILED)
            raise
        self._go(Step.INITIALIZED)
        self._mind_late()

    def queue_manager_stopped(self) -> None:
        """MS-MQDMPR 3.1.4.2: those who serve requests shut down; the model stays as it is."""
        self._go(Step.STOP)
        self._go(Step.SHUT_DOWN)

    def _go(self, step: Step) -> None:
        self.state = STATES[self.state, step]
        for subscriber in self._subscribers:
            subscriber(self.state)

    def _initialize(self, now: Now) -> None:
        """MS-MQDMPR 3.1.3: the system queues are made at the first start, and restored like the others later."""
        name = self.identity.computer_name
        for suffix, system_name in SYSTEM_QUEUES.items():
            quota = self.attributes.journal_quota if suffix is Suffix.JOURNAL else UNLIMITED
            self._provide(QueueAttributes(PathName(name, QueueKind.SYSTEM, system_name), quota=quota), now)
        self._provide(QueueAttributes(self._private_path(ORDER_QUEUE)), now, ORDER_QUEUE_NUMBER)
        self._provide(QueueAttributes(self._private_path(NOTIFICATION_QUEUE)), now)
        self._provide(QueueAttributes(self._private_path(AWAITING_FINAL_ACK)), now)
        self.outgoing.initialize()

    def _provide(self, attributes: QueueAttributes, now: Now, private_queue_number: int = 0) -> None:
        if attributes.pathname not in self.queues:
            queue = self.collection.new_queue(attributes, now)
            queue.private_queue_number = private_queue_number
            self.collection.add(queue)

    def _private_path(self, name: str) -> PathName:
        return PathName(self.identity.computer_name, QueueKind.PRIVATE, name)
