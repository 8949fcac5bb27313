"""One queue manager: the core on a store, with its directory, acknowledgments, journals and dead-letter messages.

Facts come in as method calls that carry `now`; effects come out of `kernel.take_effects`. All changes of an operation
go into the current batch, and its answer waits until this batch is durable. An answer that shows a message which is not
yet durable waits for the batch of that message. The shell takes the effects when it has no more facts, so that facts
which arrive together make one batch.
"""

from collections.abc import Callable
from math import inf
from typing import Final

from waypost.clock import Now
from waypost.core.delivery import Delivery
from waypost.core.external_transactions import ExternalTransactions, ReenlistmentFailed
from waypost.core.ports import (
    Event,
    MessageArrived,
    MessagePositionAvailable,
    MessagePositionDeleted,
    MessageSetAside,
    PurgePendingChanged,
    QueueChanged,
    QueueDeleted,
    QueueManagerChanged,
    QueuePaused,
    QueueResumed,
    ReadEnded,
    TransactionEnded,
    TransactionPrepared,
)
from waypost.core.positions import PositionState
from waypost.core.queues import OutgoingQueue
from waypost.node import bulk_store, manager_store, queue_store, transaction_store
from waypost.node.access import Access
from waypost.node.audit import AuditTrail
from waypost.node.claims import Claims
from waypost.node.destinations import Destinations
from waypost.node.directory import NodeDirectory
from waypost.node.effects import ToCoordinator
from waypost.node.kept_acks import KeptAcks
from waypost.node.kernel import Kernel
from waypost.node.lost_runs import LostRuns
from waypost.node.message_index import MessageIndex
from waypost.node.network.network import Network
from waypost.node.protection import Protection
from waypost.node.purging import Purges
from waypost.node.queue_security import QueueSecurity
from waypost.node.recovery import Settings, recover
from waypost.node.remote_reading import RemoteReading
from waypost.node.renumbering import Renumberings
from waypost.node.reserves import Reserves
from waypost.node.sending import Sending
from waypost.node.sequences import Sequences
from waypost.node.stages import Stages
from waypost.node.transactional_acks import OwnQueues, TransactionalAcks
from waypost.node.users import Users
from waypost.node.waiting_readers import WaitingReaders
from waypost.security.callers import local_administrator, machine_sid
from waypost.store.port import Reader


class Node:
    """One queue manager. waypost.node.operation_handlers has the operations of applications.

    It assembles the components and passes each the events of the core that concern it; none of them knows the node.
    """

    __slots__ = (
        "_is_integrated",
        "_readers",
        "_reserves",
        "access",
        "administrator",
        "audit",
        "claims",
        "damaged",
        "delivery",
        "destinations",
        "directory",
        "external",
        "index",
        "kept_acks",
        "kernel",
        "machine",
        "manager",
        "messages",
        "network",
        "new_guid",
        "protection",
        "purges",
        "remote",
        "renumberings",
        "security",
        "sending",
        "sequences",
        "stages",
        "transactional_acks",
        "users",
    )

    def __init__(self, reader: Reader, settings: Settings, new_guid: Callable[[], bytes], now: Now) -> None:
        """Start on the contents of the store; an empty store becomes a new queue manager.

        Raises a StoreError if the contents do not make a queue manager, and a DirectoryError if the directory does not
        accept it.
        """
        kernel = Kernel(reader, now, self._expire, self._settle)
        self.kernel: Final = kernel
        self.new_guid: Final = new_guid
        self.damaged: Final = kernel.damaged
        self.messages: Final = kernel.messages
        self.directory: Final = NodeDirectory(kernel, reader, settings.directory, new_guid)
        self._is_integrated: Final = self.directory.is_integrated
        kept = bulk_store.read(reader)
        self.security: Final = QueueSecurity(kernel, self.directory, is_closed=settings.closes_new_queues)
        self.manager: Final = recover(
            reader,
            self.messages,
            settings,
            now,
            new_guid=new_guid,
            directory=self.directory,
            kept=kept,
            timers=kernel.timers,
            security=self.security,
        )
        # The SID of this queue manager, and the caller that programs in its process are.
        self.machine: Final = machine_sid(self.manager.identity.identifier)
        self.administrator: Final = local_administrator(self.machine, "embedded")
        self.users: Final = Users(kernel, reader, self.machine)
        self.security.users = self.users
        self.access: Final = Access(
            kernel,
            self.manager,
            self.directory,
            self.users,
            administrator=self.administrator,
            machine=settings.machine_security,
        )
        self._readers: Final = WaitingReaders(kernel, self.manager.reading, self.users, self.access)
        self.audit: Final = AuditTrail(kernel, reader)
        # Keys and certificates of this computer and others.
        self.protection: Final = Protection(
            kernel, self.users, self.directory, trusts_unsigned=settings.trusts_unsigned_sender
        )
        # Messages that are reserved for one reader.
        self.claims: Final = Claims(kernel, self.manager, kept.claims, LostRuns(kernel, reader), now)
        self.index: Final = MessageIndex(kernel, self.manager.collection.by_number.values(), self.manager.positions)
        self.purges: Final = Purges(kernel, self.manager)
        self._reserves: Final = Reserves(self.manager, reader)
        self.external: Final = ExternalTransactions(self.manager.transactions)
        self.sequences: Final = Sequences(kernel, self.manager, reader)
        # The facts that judge acknowledgments of transactional messages, and the acknowledgments not judged yet.
        self.destinations: Final = Destinations(reader, self.messages)
        self.kept_acks: Final = KeptAcks(reader, self.messages)
        # TimeToReachQueue of a message without one, and the longest possible (MS-MQDMPR 3.1.1.12); seconds.
        longest = settings.long_live_time
        if longest is None:
            longest = self.directory.default_time_to_reach_queue
        # The network side; None for a queue manager without transfer.
        self.network: Final = (
            None
            if settings.transfer is None
            else Network(
                kernel,
                self.manager,
                settings,
                reader,
                access=self.access,
                directory=self.directory,
                sequences=self.sequences,
                destinations=self.destinations,
                kept_acks=self.kept_acks,
                protection=self.protection,
                longest_time_to_reach_queue=longest,
            )
        )
        if self.network is None:
            self.delivery: Delivery = Delivery(self.manager)
            self.transactional_acks: TransactionalAcks = TransactionalAcks(self.manager, OwnQueues(self.manager))
        else:
            self.delivery = self.network.delivery
            self.transactional_acks = self.network.transactional_acks
        self.renumberings: Final = Renumberings(kernel, self.manager, self.sequences, reader, self.network)
        self.sending: Final = Sending(kernel, self.manager, self.directory, self.delivery, longest)
        # Messages that are not visible yet.
        self.stages: Final = Stages(
            kernel,
            self.manager,
            self.sending,
            kept,
            new_guid,
            reader=reader,
            rejected=self.delivery.rejected,
            access=self.access,
        )
        # The remote readers that it serves; None if it serves none.
        self.remote: Final = (
            None
            if settings.remote is None
            else RemoteReading(
                kernel,
                self.manager,
                settings.remote,
                new_guid,
                access=self.access,
                users=self.users,
                external=self.external,
                purges=self.purges,
            )
        )
        with kernel:
            self.external.initialize(self.manager.identity.identifier)
        if self.network is not None:
            self.network.start(now)

    # Calls of the shell.

    @property
    def long_work(self) -> str:
        """The work that is done in parts, one with every tick, in words for an operator; "" if there is none."""
        if self.purges:
            return "a purge"
        if self.renumberings:
            return "a reset of a sequence"
        if self.stages.delivery.is_under_way:
            return "a commit of staged messages"
        return "expired messages" if self.manager.positions.has_late else ""

    def persisted(self, token: int, now: Now) -> None:
        """Note that a batch is durable, and with it all batches before it."""
        self.kernel.persisted(token)
        incoming = self.sequences.incoming
        if incoming.kept.order or incoming.met.order:
            incoming.persisted(token)
        self._reserves.persisted(token)
        if self.remote is not None and token in self.remote.waiting:
            self.remote.persisted(token)
        self.kernel.go_on(token, now)

    def tick(self, now: Now) -> None:
        """Fire every timer that is due, unless the store has failed."""
        if self.kernel.failure is not None:
            return
        with self.kernel.operation(now):
            self.kernel.timers.fire(now, works=not self.kernel.is_behind)

    def next_deadline(self, now: Now) -> float | None:
        """The monotonic time at which `tick` has something to do, as the clocks stand now."""
        if self.kernel.failure is not None:
            return None
        if self.kernel.timers.works and not self.kernel.is_behind:
            return now.monotonic
        deadline = self.kernel.timers.earliest()
        if self.manager.positions.expiries.first < inf:
            deadline = _earlier(deadline, self.manager.next_expiry(now))
        return deadline

    # One operation.

    def _expire(self, now: Now) -> None:
        if self.manager.positions.expiries.first <= now.wall:
            self.manager.expire(now)

    def _settle(self, now: Now) -> None:
        kernel, network, positions = self.kernel, self.network, self.manager.positions
        while (
            (events := positions.events)
            or (self._is_integrated and self._settle_directory())
            or (network is not None and network.settle(now))
        ):
            positions.events = []
            for event in events:
                # Most are of two kinds, and only transfer handles them.
                if type(event) is MessagePositionAvailable:
                    if network is not None and type(event.queue) is OutgoingQueue:
                        network.departures.available(event.queue, event.lookup_id)
                    continue
                if type(event) is MessagePositionDeleted:
                    if network is not None and type(event.queue) is OutgoingQueue:
                        network.departures.removed(event.queue, event.message)
                    if not event.message.asks_for_attention:
                        continue
                self._handle(event, now)
        if self.stages.delivery:
            self.stages.delivery.look_for_room()
        messages = self.messages
        self.sequences.write()
        token = messages.read_token
        if len(messages.batch.operations) > kernel.mark:
            if self.destinations.unwritten:
                self.destinations.write()
            token = messages.token
        token = max(token, self._reserves.advance(messages.batch, messages.token))
        if kernel.ready:
            kernel.release(token)
        remote = self.remote
        if remote is not None and (remote.connections or remote.coordinator.begun):
            for effect, wait in remote.take_output(token, kernel.durable):
                kernel.hold((effect,), wait)
        if self.external.messages:
            self._tell_coordinator()

    def _tell_coordinator(self) -> None:
        """Send messages to the coordinator. Earlier operations may have caused them, so all work has to be durable."""
        told = self.external.take_messages()
        self.kernel.hold([ToCoordinator(message) for message in told], self.kernel.last_token)
        if any(isinstance(message, ReenlistmentFailed) for message in told):
            # MS-MQDMPR 3.1.4.11: the start has failed.
            self.manager.queue_manager_stopped()

    def _settle_directory(self) -> bool:
        if not self.directory.settle():
            return False
        self.protection.directory_changed()
        self._readers.look_again()
        return True

    def _handle(self, event: Event, now: Now) -> None:
        match event:
            case MessagePositionDeleted(message=message) | MessageArrived(message=message):
                if message.asks_for_attention:
                    self.delivery.handle(event, now)
                    if isinstance(event, MessagePositionDeleted) and not event.queue.is_journal:
                        # A copy in a journal was received already: its end is not reported.
                        is_sent = self.transactional_acks.final_ack(message, event.reason, now)
                        if self.network is not None:
                            self.network.statistics.final_acks_sent += is_sent
            case ReadEnded() if self.remote is None or not self.remote.read_ended(event, now):
                self.kernel.end_read(event)
            case PurgePendingChanged(queue, lookup_id):
                # Events since then may have removed the message.
                state = queue.positions.state(lookup_id)
                if state is not PositionState.DELETED:
                    found = self.manager.positions.find(queue, lookup_id)
                    if found is not None:
                        is_pending = state is PositionState.PURGE_PENDING
                        self.messages.set_purge_pending(queue.number, found, is_pending=is_pending)
            case MessageSetAside(queue, lookup_id):
                if self.network is not None and isinstance(queue, OutgoingQueue):
                    self.network.departures.set_aside(queue, lookup_id)
            case QueueManagerChanged():
                manager_store.write(self.messages.batch, self.manager)
            case QueueChanged(queue):
                self.directory.publish(queue)
                queue_store.write(self.messages.batch, queue)
                manager_store.write_queue_numbers(self.messages.batch, self.manager)
                self._readers.look_again()
            case QueueDeleted(queue):
                self.sequences.forget(queue)
                self.renumberings.forget(queue)
                self.claims.forget(queue)
                self.transactional_acks.forget(queue)
                if self.network is not None:
                    self.network.forget(queue)
                queue_store.delete(self.messages.batch, queue)
                self.messages.delete_queue(queue.number)
            case QueuePaused(queue) if self.network is not None and isinstance(queue, OutgoingQueue):
                self.network.paused(queue, now)
            case QueueResumed(queue) if self.network is not None and isinstance(queue, OutgoingQueue):
                self.network.resumed(queue, now)
            case TransactionPrepared(transaction):
                transaction_store.write(self.messages.batch, transaction)
            case TransactionEnded(identifier):
                transaction_store.delete(self.messages.batch, identifier)


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
