"""A node on a store whose disk the test drives, with a virtual clock, and the words that tests talk to it with.

Every operation gives the number of its request. `settle` lets the shell and the disk work until nothing happens.
Requests between two `turn`s go into one batch. A handle is opened when it is used first, which takes a turn: a test
that looks at batches opens its handles before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from tests.store.engines import Engine, MemoryEngine
from waypost.api.messages import Received, Sent
from waypost.api.operations import AbortTransaction, BeginTransaction, CommitTransaction, DeleteQueue, Operation
from waypost.clock import Now
from waypost.core.cursors import Cursor
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue, QueueAttributes, ReadRequest, ShareMode
from waypost.core.reading import Read
from waypost.errors import WaypostError
from waypost.guid import guid_text
from waypost.hresult import HResult
from waypost.node.effects import Commit, Failure, Reply, ToCoordinator
from waypost.node.failures import failure
from waypost.node.kernel import Call
from waypost.node.message_index import MessageIndex
from waypost.node.node import Node
from waypost.node.operation_handlers import Handlers
from waypost.node.recovery import Settings
from waypost.store.memory import MemoryStore
from waypost.store.port import Batch, Store
from waypost.wire.format_names import FormatName, Suffix
from waypost.wire.path_names import PathName

TX = b"\x71" * 16
OTHER_TX = b"\x72" * 16
START = Now(monotonic=100.0, wall=1_000_000.0)
SETTINGS = Settings("host", "host.example.org")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read. `timeout_ms` is None without a limit; a transaction locks the message until its outcome."""

    timeout_ms: int | None = 0
    cursor: Cursor | None = None
    transaction: bytes | None = None

    def request(self, call: Call) -> ReadRequest:
        return ReadRequest(self.timeout_ms, self.cursor, call.request, self.transaction)


NO_WAIT = ReadOptions()
IN_TX = ReadOptions(transaction=TX)

EXPRESS = DeliveryGuarantee.EXPRESS
RECOVERABLE = DeliveryGuarantee.RECOVERABLE
SEND, RECEIVE = AccessType.SEND, AccessType.RECEIVE


def guids() -> Iterator[bytes]:
    return (number.to_bytes(16, "big") for number in count(1))


def path(name: str) -> PathName:
    return PathName.parse(f"host\\private$\\{name}")


def direct(name: str) -> FormatName:
    return FormatName.parse(name if "=" in name else f"DIRECT=OS:host\\private$\\{name}")


def letter(label: str, /, **changes: object) -> Message:
    """A recoverable message."""
    return replace(Message(label=label, delivery_guarantee=RECOVERABLE), **changes)  # type: ignore[arg-type]


class Rig:
    """One queue manager with a private queue `orders`, settled."""

    def __init__(self, engine: Engine | None = None, settings: Settings = SETTINGS) -> None:
        self.engine: Engine = engine or MemoryEngine()
        self.settings = settings
        self.now = START
        self._guids = guids()
        self._requests = count(1)
        self._start()
        if path("orders") not in self.node.manager.queues:
            self.create("orders")
        self.settle()

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def memory(self) -> MemoryStore:
        assert isinstance(self.engine, MemoryEngine)
        return self.engine.memory

    def _start(self) -> None:
        self.node = Node(self.store, self.settings, lambda: next(self._guids), self.now)
        self.handlers = Handlers(self.node)
        self.disk_is_held = False
        self.answers: dict[int, object] = {}
        self.told: list[object] = []
        self.submitted: list[Batch] = []
        self.pending = 0
        self._handles: dict[tuple[str, AccessType], OpenQueueDescriptor] = {}
        # Requests whose answers are lists of messages.
        self._of_many: set[int] = set()

    # The shell and the disk.

    def turn(self) -> None:
        """Carry out the effects that are there now."""
        for effect in self.node.kernel.take_effects():
            match effect:
                case Commit(batch, token):
                    self.submitted.append(batch)
                    self.store.submit(batch, token)
                    self.pending += 1
                case Reply(request, value):
                    assert request not in self.answers, "answered twice"
                    self.answers[request] = self._shown(request, value)
                case Failure(request, error):
                    assert request not in self.answers, "answered twice"
                    self.answers[request] = error
                case ToCoordinator(message):
                    self.told.append(message)

    def _shown(self, request: int, value: object) -> object:
        """The message or the messages of an answer that has some, or the value."""
        if not isinstance(value, Sent | Received):
            return value
        return value.messages if request in self._of_many else value.messages[0]

    def settle(self) -> None:
        """Turn until it is quiet. Batches stay pending while the disk is held."""
        self.turn()
        while self.pending and not self.disk_is_held:
            self.write(self.pending)

    def hold_disk(self) -> None:
        """Nothing becomes durable from now on, but by `write` and `release_disk`."""
        self.settle()
        self.disk_is_held = True

    def release_disk(self) -> None:
        self.disk_is_held = False
        self.settle()

    def write(self, batches: int = 1) -> None:
        """These many of the pending batches become durable, and the node is told."""
        for token in self.engine.finish(batches):
            self.pending -= 1
            self.node.persisted(token, self.now)
        self.turn()

    def crash(self, *, written: int = 0) -> None:
        """The process dies. Of the pending batches these many are durable all the same, though nobody was told."""
        self.memory.complete(written)
        self.memory.crash()
        self._start()

    def stop(self) -> None:
        """Stop in order, and start again."""
        self.release_disk()
        self.node.manager.queue_manager_stopped()
        self.engine.restart()
        self._start()

    def finish_index(self) -> None:
        """Every message can be found by its identifier, and nothing is due because of that."""
        now = self.now
        while not self.node.index.is_complete:
            now = Now(now.monotonic + 1, now.wall)
            self.node.kernel.timers.stop(MessageIndex)
            self.node.index._go_on(now)

    def advance(self, seconds: float) -> None:
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)
        self.node.tick(self.now)

    # Operations.

    def call(self) -> Call:
        return Call(next(self._requests), self.now, self.node.administrator)

    def call_for_many(self) -> Call:
        """A call whose answer is a list of messages."""
        call = self.call()
        self._of_many.add(call.request)
        return call

    def do(self, operation: Operation[Any]) -> int:
        call = self.call()
        self.handlers.start(call, operation)
        return call.request

    def ask(self, name: str, access: AccessType, share: ShareMode = ShareMode.DENY_NONE) -> int:
        """Open a queue. Its name is that of a private queue, or a whole format name."""
        call = self.call()
        with self.node.kernel.operation(call.now):
            handle = self.node.manager.open_queue(direct(name), access, share, call.now)
            self.node.kernel.reply(call.request, handle)
        return call.request

    def open(self, name: str = "orders", access: AccessType = RECEIVE) -> OpenQueueDescriptor:
        """The handle with which operations on this queue are done."""
        if (name, access) not in self._handles:
            handle = self.done(self.ask(name, access))
            assert isinstance(handle, OpenQueueDescriptor)
            self._handles[name, access] = handle
        return self._handles[name, access]

    def close(self, handle: OpenQueueDescriptor) -> None:
        with self.node.kernel.operation(self.now):
            self.node.manager.close_queue(handle)

    def open_cursor(self, name: str = "orders") -> Cursor:
        handle = self.open(name)
        with self.node.kernel.operation(self.now):
            cursor = self.node.manager.open_cursor(handle)
        assert cursor is not None
        return cursor

    def create(self, name: str, /, **attributes: object) -> Queue:
        self.node.kernel.check_room()
        with self.node.kernel.operation(self.now):
            given = QueueAttributes(path(name), **attributes)  # type: ignore[arg-type]
            queue = self.node.manager.create_queue(given, self.now)
        self.settle()
        return queue

    def modify(self, name: str, /, **changes: object) -> None:
        queue = self.queue(name)
        self.node.kernel.check_store()
        with self.node.kernel.operation(self.now):
            given = replace(queue.attributes, **changes)  # type: ignore[arg-type]
            self.node.manager.modify_queue(queue, given, self.now)
        self.settle()

    def delete(self, name: str = "orders") -> int:
        return self.do(DeleteQueue(name=name))

    def send(self, message: Message | str, name: str = "orders", tx: bytes | None = None) -> int:
        handle, call = self.open(name, SEND), self.call()
        self.handlers.messages.send_message(call, handle, letter(message) if isinstance(message, str) else message, tx)
        return call.request

    def send_many(self, bodies: Sequence[bytes], name: str = "orders", tx: bytes | None = None) -> int:
        handle, call = self.open(name, SEND), self.call_for_many()
        self.handlers.messages.send_messages(call, handle, letter(""), bodies, tx)
        return call.request

    def receive_many(self, count: int, name: str = "orders", options: ReadOptions = NO_WAIT) -> int:
        handle, call = self.open(name), self.call_for_many()
        self.handlers.reading.receive_messages(call, handle, count, options.request(call))
        return call.request

    def receive(self, name: str = "orders", options: ReadOptions = NO_WAIT) -> int:
        handle, call = self.open(name), self.call()
        self.handlers.reading.receive_message(call, handle, options.request(call))
        return call.request

    def begin_receive(self, name: str = "orders") -> int:
        """As a remote reader does."""
        handle, call = self.open(name), self.call()
        with self.node.kernel.operation(call.now):
            begin = self.node.manager.reading.dequeue_message_begin
            read = begin(handle, NO_WAIT.request(call), call.now)
            assert isinstance(read, Read)
            if read.status is not HResult.MQ_OK:
                raise failure(read.status)
            self.node.kernel.reply(call.request, read.message)
        return call.request

    def end_receive(self, lookup_id: int, *, delete: bool) -> int:
        handle, call = self.open(), self.call()
        self.node.kernel.check_store()
        with self.node.kernel.operation(call.now):
            end = self.node.manager.reading.dequeue_message_end
            status = end(handle, lookup_id, delete_message=delete)
            if status is not HResult.MQ_OK:
                raise failure(status)
            self.node.kernel.reply(call.request)
        return call.request

    def peek(self, name: str = "orders", options: ReadOptions = NO_WAIT) -> int:
        handle, call = self.open(name), self.call()
        self.handlers.reading.peek_message(call, handle, options.request(call))
        return call.request

    def purge(self, name: str = "orders", access: AccessType = RECEIVE) -> int:
        handle, call = self.open(name, access), self.call()
        self.handlers.messages.purge_messages(call, handle)
        return call.request

    def move(self, lookup_id: int, target: str, tx: bytes | None = None, source: str = "orders") -> int:
        handle, to = self.open(source), self.open(target, AccessType.MOVE)
        call = self.call()
        self.handlers.messages.move_message(call, handle, lookup_id, to, tx)
        return call.request

    def begin(self, tx: bytes = TX) -> int:
        return self.do(BeginTransaction(id=guid_text(tx)))

    def commit(self, tx: bytes = TX) -> int:
        return self.do(CommitTransaction(identifier=guid_text(tx)))

    def abort(self, tx: bytes = TX) -> int:
        return self.do(AbortTransaction(identifier=guid_text(tx)))

    def enlist(self, tx: bytes = TX) -> None:
        """A transaction of an outside coordinator."""
        with self.node.kernel.operation(self.now):
            self.node.external.enlist(tx)

    def prepare(self, tx: bytes = TX) -> None:
        with self.node.kernel.operation(self.now):
            self.node.external.dtc_transaction_prepare(tx, 0, self.now.wall)

    # Results.

    def done(self, request: int) -> object:
        """The answer, once it is quiet."""
        self.settle()
        assert request in self.answers, "not answered"
        value = self.answers[request]
        if isinstance(value, WaypostError):
            raise value
        return value

    def message(self, request: int) -> Message:
        message = self.done(request)
        assert isinstance(message, Message)
        return message

    def is_answered(self, request: int) -> bool:
        """Whether it is answered as far as the disk has come."""
        self.settle()
        return request in self.answers

    def queue(self, name: str = "orders") -> Queue:
        return self.node.manager.queues[path(name)]

    def contents(self, queue: Queue | None = None) -> list[Message]:
        return contents(self.node, queue or self.queue())

    def labels(self, queue: Queue | None = None) -> list[str]:
        return [message.label for message in self.contents(queue)]

    def system(self, suffix: Suffix) -> Queue:
        return self.node.manager.system_queues[suffix]


def contents(node: Node, queue: Queue) -> list[Message]:
    """All messages of a queue in list order, whatever their state."""
    return [node.messages.get(queue.number, lookup_id) for lookup_id in queue.positions]


def transactions(node: Node) -> list[object]:
    """The persistent parts of the transactions that a node knows."""
    return [
        (
            transaction.identifier,
            transaction.single_phase,
            [
                (
                    each.operation_type,
                    each.queue.number,
                    each.lookup_id,
                    each.dequeue_reason,
                    number_of(each.target_queue),
                )
                for each in transaction.operations.values()
            ],
        )
        for transaction in node.manager.transactions.collection.values()
    ]


def number_of(queue: Queue | None) -> int:
    return 0 if queue is None else queue.number
