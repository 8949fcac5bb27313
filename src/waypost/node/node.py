"""One queue manager: the core on a store, with its directory, acknowledgments, journals and dead letters.

Facts come in as method calls that carry `now`; what must happen outside comes out of `take_effects`. All that an
operation changes goes into the batch that is being made, and its answer waits until this batch is durable. An answer
that shows a message which is not yet durable waits for that one's batch. The shell takes the effects when it has
nothing more to bring, so that what came together is one batch.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from waypost.clock import Now
from waypost.core.delivery import Delivery
from waypost.core.external_transactions import ExternalTransactions, Outgoing, ReenlistmentFailed
from waypost.core.message import Message
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
from waypost.core.writing import Purge
from waypost.errors import DecodeError, StoreDamaged, StoreError, WaypostError
from waypost.limits import PARTS_AHEAD, PURGE_PART
from waypost.node import bulk_store, manager_store, queue_store, transaction_store
from waypost.node.claims import Claims
from waypost.node.damaged import DamagedMessages
from waypost.node.destinations import Destinations
from waypost.node.directory import NodeDirectory
from waypost.node.effects import Commit, Effect, Failure, Reply, ToCoordinator
from waypost.node.failures import failure
from waypost.node.kept_acks import KeptAcks
from waypost.node.message_index import MessageIndex
from waypost.node.network.network import Network
from waypost.node.recovery import Settings, recover
from waypost.node.remote import RemoteReading
from waypost.node.reserves import Reserve
from waypost.node.sequences import Sequences
from waypost.node.stages import Stages
from waypost.node.stored_messages import StoredMessages
from waypost.node.transactional_acks import TransactionalAcks
from waypost.store.keys import Counter
from waypost.store.port import Reader
from waypost.store.room import PLENTY, Room

# To be done when something is durable, with the time that it is then.
Later = Callable[[Now], None]

# The deadlines of leases and of the index while there are none.
_NO_DEADLINES: Final = (None, None, None)


class Node:
    """See the module. waypost.node.application.Application has the operations of applications."""

    __slots__ = (
        "_durable",
        "_effects",
        "_held_back",
        "_is_integrated",
        "_later",
        "_mark",
        "_operation",
        "_purges",
        "_ready",
        "_reserves",
        "_waits",
        "claims",
        "damaged",
        "default_time_to_reach_queue",
        "delivery",
        "destinations",
        "directory",
        "external",
        "failure",
        "index",
        "kept_acks",
        "manager",
        "messages",
        "network",
        "remote",
        "room",
        "sequences",
        "stages",
        "transactional_acks",
        "trouble",
    )

    # Why the store cannot write now, and what it has room for: the shell says so, after every poll.
    trouble: StoreError | None
    room: Room
    # Why nothing more can be written in this life.
    failure: StoreError | None

    def __init__(self, reader: Reader, settings: Settings, new_guid: Callable[[], bytes], now: Now) -> None:
        """Start on what the store has; an empty store becomes a new queue manager.

        Raises a StoreError if the store holds what this queue manager cannot be made of, and a DirectoryError if the
        directory does not take it.
        """
        self.trouble = None
        self.room = PLENTY
        self.failure = None
        self._durable = 0
        self._effects: list[Effect] = []
        self._ready: list[Effect] = []
        self._held_back: dict[int, list[Effect]] = {}
        self._later: dict[int, list[Later]] = {}
        self._waits: dict[int, tuple[int, Callable[[Message], object]]] = {}
        self._purges: deque[tuple[Purge, Callable[[], None]]] = deque()
        self._operation: Final = _Operation(self, now)
        self.damaged: Final = DamagedMessages(reader, lambda: self._operation.now, self.do)
        self.messages: Final = StoredMessages(reader, self.damaged)
        self.begin()
        self.directory: Final = NodeDirectory(reader, settings.directory, new_guid, lambda: self._operation.now)
        self._is_integrated: Final = self.directory.is_integrated
        kept = bulk_store.read(reader)
        self.manager: Final = recover(
            reader, self.messages, settings, now, new_guid=new_guid, directory=self.directory, kept=kept
        )
        # What is kept for one reader, and what is seen by nobody yet.
        self.claims: Final = Claims(self, kept.claims, now)
        self.stages: Final = Stages(self, kept, new_guid, now)
        # TimeToReachQueue of a message that comes without one, and the longest there is (MS-MQDMPR 3.1.1.12); seconds.
        self.default_time_to_reach_queue: Final = (
            self.directory.default_time_to_reach_queue if settings.long_live_time is None else settings.long_live_time
        )
        self.index: Final = MessageIndex(
            self.manager.collection.by_number.values(), self.messages, self.manager.positions, now
        )
        self.delivery: Final = Delivery(self.manager)
        self._reserves: Final = (
            Reserve(Counter.SEQUENTIAL_ID, reader, lambda: self.manager.positions.sequential_id),
            Reserve(Counter.MESSAGE_ID_ORDINAL, reader, lambda: self.manager.last_ordinal),
            Reserve(Counter.TRANSACTION_NUMBER, reader, lambda: self.manager.transactions.last_number),
        )
        self.external: Final = ExternalTransactions(self.manager.transactions)
        self.external.initialize(self.manager.identity.identifier)
        self.sequences: Final = Sequences(reader, self.manager, self.messages, lambda: self._operation.now)
        self.transactional_acks: Final = TransactionalAcks(self.manager)
        # What acknowledgments of transactional messages are judged by, and those that are not judged yet.
        self.destinations: Final = Destinations(reader, self.messages)
        self.kept_acks: Final = KeptAcks(reader, self.messages)
        # What it does on the network; None for a queue manager that is by itself.
        self.network: Final = None if settings.transfer is None else Network(self, settings, reader, now)
        # The remote readers that it serves; None if it serves none.
        self.remote: Final = None if settings.remote is None else RemoteReading(self, settings.remote, new_guid)
        self.end(now)
        if self.network is not None:
            self.network.start(now)

    def persisted(self, token: int, now: Now) -> None:
        """A batch is durable, and with it all batches before it."""
        assert token == self._durable + 1, f"batch {token} is durable before batch {self._durable + 1}"
        self._durable = token
        self.messages.persisted(token)
        self.sequences.incoming.persisted(token)
        for reserve in self._reserves:
            reserve.persisted(token)
        self._effects += self._held_back.pop(token, ())
        if self.remote is not None:
            self.remote.persisted(token)
        later = self._later.pop(token, None)
        if later is not None and self.failure is None:
            with self.operation(now):
                for do in later:
                    do(now)

    def tick(self, now: Now) -> None:
        """Fire every timer that is due, unless this life is over."""
        if self.failure is not None:
            return
        with self.operation(now):
            is_behind = self._is_behind
            self.manager.tick(now, takes_late=not is_behind)
            self.directory.events.tick(now)
            self.claims.tick(now)
            self.stages.tick(now)
            if self._purges and not is_behind:
                self._continue_purge()
            self.index.tick(now)
            if self.network is not None:
                self.network.tick(now)
            if self.remote is not None:
                self.remote.tick(now)

    def next_deadline(self, now: Now) -> float | None:
        """The monotonic time at which `tick` has something to do, as the clocks stand now."""
        if self.failure is not None:
            return None
        is_behind = self._is_behind
        if self._purges and not is_behind:
            return now.monotonic
        deadline = self.manager.next_deadline(now, takes_late=not is_behind)
        leases = self.claims.next_deadline(), self.stages.next_deadline(), self.index.next_deadline()
        if self.network is None and self.remote is None and not self._is_integrated and leases == _NO_DEADLINES:
            return deadline
        deadlines = (
            deadline,
            *leases,
            self.directory.events.next_deadline if self._is_integrated else None,
            self.network.next_deadline() if self.network is not None else None,
            self.remote.next_deadline() if self.remote is not None else None,
        )
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def _is_behind(self) -> bool:
        """Whether work in parts waits for the store: a send would wait for all parts that were done before it."""
        return self.messages.token - 1 - self._durable > PARTS_AHEAD

    @property
    def long_work(self) -> str:
        """What is done in parts, one with every tick, in words for an operator; "" if nothing is."""
        if self._purges:
            return "a purge"
        return "expired messages" if self.manager.positions.has_late else ""

    @property
    def is_awaited(self) -> bool:
        """Whether anything waits for the batch that is being made."""
        return self.messages.token in self._held_back or self.messages.token in self._later

    def take_effects(self, *, ends_batch: bool = True) -> list[Effect]:
        """What is to be done, in this order. The batch that is being made ends here, if it shall."""
        if ends_batch and self.messages.batch.operations and self.failure is None:
            self._effects.append(Commit(*self.messages.seal()))
        effects, self._effects = self._effects, []
        return effects

    def operation(self, now: Now) -> "_Operation":
        """To be entered for everything that can be asked for, at its time. One comes after the other."""
        if self.failure is not None:
            raise self.failure
        self._operation.now = now
        if self.manager.positions.first_expiry <= now.wall:
            self.manager.expire(now)
        return self._operation

    def begin(self) -> None:
        """What an operation writes and reads from here decides what its answers wait for."""
        self._mark = len(self.messages.batch.operations)
        self.messages.read_token = 0

    def end(self, now: Now) -> None:
        """The operation is over: do what its events ask for, and give or hold back what was answered.

        Raises StoreDamaged if a message cannot be read for that. What is half done then never becomes durable: nothing
        more can be asked for, and the queue manager has to start again.
        """
        try:
            self._settle(now)
        except (DecodeError, StoreDamaged) as error:
            self._ready.clear()
            self.failure = StoreDamaged(f"a message of the store cannot be read: {error}")
            raise self.failure from error

    def _settle(self, now: Now) -> None:
        network = self.network
        while (
            (events := self.manager.take_events())
            or (self._is_integrated and self._settle_directory())
            or (network is not None and network.settle(now))
        ):
            for event in events:
                # Most are of two kinds, and nobody but transfer has to do anything about them.
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
        messages = self.messages
        self.sequences.write()
        if len(messages.batch.operations) > self._mark:
            self.destinations.write()
        token = messages.token if len(messages.batch.operations) > self._mark else messages.read_token
        for reserve in self._reserves:
            token = max(token, reserve.advance(messages.batch, messages.token))
        if self._ready:
            self._give(self._ready, token)
            self._ready = []
        if self.remote is not None:
            for effect, wait in self.remote.take_output(token, self._durable):
                self._give((effect,), wait)
        if told := self.external.take_messages():
            self._tell_coordinator(told)

    def do(self, effect: Effect) -> None:
        """Ask the shell for something that promises nothing, or nothing that is not durable."""
        self._effects.append(effect)

    def when_durable(self, later: "Later") -> None:
        """Have something done when all that was done so far is durable, which may be now."""
        token = self._last_token()
        if token <= self._durable:
            later(self._operation.now)
        else:
            self._later.setdefault(token, []).append(later)

    def _give(self, effects: Sequence[Effect], token: int) -> None:
        """Let effects go when this batch is durable."""
        if token <= self._durable:
            self._effects += effects
        else:
            self._held_back.setdefault(token, []).extend(effects)

    def _tell_coordinator(self, told: list[Outgoing]) -> None:
        """What is told now may have been done by an earlier operation, so all that was done has to be durable."""
        self._give([ToCoordinator(message) for message in told], self._last_token())
        if any(isinstance(message, ReenlistmentFailed) for message in told):
            # MS-MQDMPR 3.1.4.11: the start has come to nothing.
            self.manager.queue_manager_stopped()

    def purge(self, purge: Purge, then: Callable[[], None]) -> None:
        """Purge a queue in parts, one with every tick, and do the rest when nothing is left."""
        self._purges.append((purge, then))
        if len(self._purges) == 1:
            self._continue_purge()

    def _continue_purge(self) -> None:
        purge, then = self._purges[0]
        if not self.manager.writing.continue_purge(purge, PURGE_PART):
            self._purges.popleft()
            self.await_everything()
            then()

    def await_everything(self) -> None:
        """Let the answers of this operation wait for all that was done so far: they rest on it."""
        self.messages.read_token = self._last_token()

    def _last_token(self) -> int:
        """That of the last batch with something in it."""
        return self.messages.token if self.messages.batch.operations else self.messages.token - 1

    def check_store(self) -> None:
        """Raise what keeps the store from writing, for what would have to wait for it."""
        if self.trouble is not None:
            raise self.trouble

    def check_room(self, size: int = 0, largest: int = 0) -> None:
        """The same for what is to be stored, and raise StoreFull if the disk has no room beside its reserve.

        To be asked before anything has changed: what is refused is not stored later. `size` counts the bytes of all
        messages, and `largest` those of the largest. Receives and removals do not ask.
        """
        self.check_store()
        if not self.has_room(size, largest):
            raise self.room.refusal()

    def has_room(self, size: int, largest: int) -> bool:
        """Whether this much finds room on the disk behind all that was admitted before."""
        return self.room.takes(self.messages.admitted_bytes, size, largest)

    def reply(self, request: int, value: object = None) -> None:
        """Answer a request at the end of the operation."""
        self._ready.append(Reply(request, value))

    def fail(self, request: int, error: WaypostError) -> None:
        """The same for a request that has come to nothing."""
        self._ready.append(Failure(request, error))

    def await_read(self, request: int, wait_id: int, form: Callable[[Message], object]) -> None:
        """Answer a request with the message in this form when the read that waits has ended."""
        self._waits[wait_id] = request, form

    def _handle(self, event: Event, now: Now) -> None:
        match event:
            case MessagePositionDeleted(message=message) | MessageArrived(message=message):
                if message.asks_for_attention:
                    self.delivery.handle(event, now)
                    if isinstance(event, MessagePositionDeleted) and not event.queue.is_journal:
                        # A copy in a journal was received already: nobody is told of its end.
                        is_sent = self.transactional_acks.final_ack(message, event.reason, now)
                        if self.network is not None:
                            self.network.statistics.final_acks_sent += is_sent
            case ReadEnded() if self.remote is None or not self.remote.read_ended(event, now):
                self._end_read(event)
            case PurgePendingChanged(queue, lookup_id):
                # What happened since may have taken the message away.
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
            case QueueDeleted(queue):
                self.sequences.forget(queue)
                self.claims.forget(queue)
                self.transactional_acks.forget(queue)
                if self.network is not None:
                    self.network.forget(queue)
                queue_store.delete(self.messages.batch, queue)
                self.messages.delete_queue(queue.number)
            case QueuePaused(queue) if self.network is not None and isinstance(queue, OutgoingQueue):
                self.network.departures.paused(queue, now)
            case QueueResumed(queue) if self.network is not None and isinstance(queue, OutgoingQueue):
                self.network.departures.resumed(queue, now)
            case TransactionPrepared(transaction):
                transaction_store.write(self.messages.batch, transaction)
            case TransactionEnded(identifier):
                transaction_store.delete(self.messages.batch, identifier)

    def _settle_directory(self) -> bool:
        """Whether anything came of it: then the core may have more events."""
        return self.directory.settle(self.messages.batch, self._ready)

    def _end_read(self, ended: ReadEnded) -> None:
        request, form = self._waits.pop(ended.wait_id)
        if ended.message is not None:
            self._ready.append(Reply(request, form(ended.message)))
        else:
            self.fail(request, failure(ended.status))


class _Operation:
    """Between `begin` and `end` of one operation. What it did before an error is settled all the same."""

    __slots__ = ("_node", "now")

    def __init__(self, node: Node, now: Now) -> None:
        self._node = node
        self.now = now

    def __enter__(self) -> None:
        self._node.begin()

    def __exit__(self, *_: object) -> None:
        self._node.end(self.now)
