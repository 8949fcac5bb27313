"""The model as a whole: the operations of applications by the types of their records, and those of a coordinator.

Each raises Refused, or leads to an Answer in `expected`, now or when a wait ends. The model gets from the engine what
only the engine can know: the ids of handles and cursors, and the values of the counters at a start.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from msgspec import UNSET

from waypost.api.local import CancelReads
from waypost.api.operations import (
    AbortTransaction,
    BeginTransaction,
    CloseCursor,
    CloseQueue,
    CommitTransaction,
    CreateQueue,
    CursorNext,
    CursorPeek,
    CursorRead,
    CursorReceive,
    DeleteQueue,
    MoveMessage,
    OpenCursor,
    OpenQueue,
    Peek,
    PurgeQueue,
    Read,
    Receive,
    Send,
    SetQueue,
)
from waypost.api.reading import milliseconds, place_of
from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.guid import parse_guid
from waypost.hresult import HResult
from waypost.node.kernel import Call
from waypost.sim.local.arguments import Draft, drafts_of, key_of
from waypost.sim.marks import Marks
from waypost.sim.model.bulk import Bulk, Known, Openings
from waypost.sim.model.cursor import ModelCursor
from waypost.sim.model.delivery import ModelDelivery
from waypost.sim.model.disk import ModelDisk, StepKind
from waypost.sim.model.enlistments import ABORTED, ENLISTED, Enlistments
from waypost.sim.model.opened import ModelOpenedQueues
from waypost.sim.model.qm2qm import FarQueues, ModelQm2qm, ModelQmcomm
from waypost.sim.model.readers import Readers
from waypost.sim.model.records import Answer, Key, ModelHandle, ModelMessage, ModelQueue, Refused, State, Wait
from waypost.sim.model.recovery import bring_back
from waypost.sim.model.remote import ModelRemote, Parts
from waypost.sim.model.remote_read import ModelRemoteRead
from waypost.sim.model.state import DELETED, PURGED, ModelState
from waypost.sim.model.transactions import ModelTransactions, Step
from waypost.sim.operations import Asked, CancelRead, Coordinate, Phase
from waypost.sim.plans import Plan
from waypost.sim.swarm import BulkLimits, ReaderRates, Swarm
from waypost.wire.codec import INFINITE

PREPARED: Final = "PrepareRequestDone"
COMMITTED: Final = "CommitRequestDone"


class Model:
    """The model. `trouble` says that the disk is full, `is_low` that it is nearly full, as the shell reported them."""

    def __init__(self, marks: Marks, swarm: Swarm) -> None:
        self.marks: Final = marks
        self._patience: Final = swarm.readers
        self.known: Final = Known(swarm.bulk or BulkLimits())
        self.disk: Final = ModelDisk()
        self.state: Final = ModelState(self.disk, marks, swarm.limits)
        self.trouble = self.is_low = False
        self._post: Final = ModelDelivery(self.state)
        self._handlers: Final[dict[type[Asked], Callable[[Call, Any], None]]] = {
            CreateQueue: self._create_queue,
            SetQueue: self._set_queue,
            DeleteQueue: self._delete_queue,
            PurgeQueue: self._purge_queue,
            Send: self._send,
            Receive: self._receive,
            Peek: self._peek,
            MoveMessage: self._move_message,
            CancelReads: self._cancel_reads,
            OpenQueue: self._open_queue,
            CloseQueue: self._close_queue,
            OpenCursor: self._open_cursor,
            CloseCursor: self._close_cursor,
            CursorPeek: self._read_at_cursor,
            CursorNext: self._read_at_cursor,
            CursorReceive: self._read_at_cursor,
            BeginTransaction: self._begin_transaction,
            CommitTransaction: self._commit_transaction,
            AbortTransaction: self._abort_transaction,
            Coordinate: self._coordinate,
            CancelRead: self._cancel_read,
        }
        self._begin()

    def _begin(self) -> None:
        self.transactions = ModelTransactions(self.state)
        self.readers = Readers(self.state, self.transactions)
        self.opened = ModelOpenedQueues(self.readers, self._find, self._next_turn)
        openings = Openings(self._openable, self._check_store, self._check_room, self._post.rejected)
        self.bulk = Bulk(self.state, self.transactions, openings, self.known)
        patience = self._patience
        self.remote = ModelRemote(self.state, 0.0 if patience is None else patience.bind_s)
        if patience is not None:
            self._serve(patience)

    def _serve(self, patience: ReaderRates) -> None:
        enlistments = Enlistments(self.state, self.transactions, patience.enlistment_s)
        remote = self.remote
        parts = Parts(self.state, self.transactions, self.readers, self._find, remote.reply, enlistments)
        queues = FarQueues(parts)
        remote_read = ModelRemoteRead(parts, patience.pending_request_s)
        remote.serve(remote_read, ModelQmcomm(parts, queues), ModelQm2qm(parts, queues), enlistments)

    @property
    def expected(self) -> dict[Key, Answer]:
        return self.state.expected

    def crash(self) -> None:
        self.disk.crash()
        self.state.forget()
        self.trouble = self.is_low = False
        self._begin()

    def start_anew(self, queues: list[tuple[int, str]], now: Now) -> None:
        """Start on an empty disk: a new queue manager makes its own queues, with these numbers."""
        state = self.state
        state.sequential_id, state.last_number = 0, max(number for number, _ in queues)
        state.begin(now)
        for number, key in queues:
            queue = ModelQueue(number, key, Plan(key))
            state.add_queue(queue)
            state.save_queue(queue)
        self.end()

    def bring_back(self, sequential_id: int, last_number: int, now: Now) -> None:
        """Restore everything on the disk. The numbers are upper bounds of those in use."""
        state, disk = self.state, self.disk
        state.sequential_id, state.last_number = sequential_id, last_number
        state.begin(now)
        bring_back(state, disk, self.transactions, self.bulk.restore)
        self.end()

    def begin(self, now: Now) -> None:
        self.state.begin(now)

    def end(self) -> None:
        self._post.deliver()
        self.bulk.stages.look_for_room()
        self.state.end()

    def tick(self, now: Now, *, works: bool) -> None:
        """Go on with the work done in parts; without `works` it waits for the disk."""
        self.begin(now)
        self._fire(now)
        if works:
            self.state.do_parts()
        self.end()

    def _fire(self, now: Now) -> None:
        """Run all timers that are due, the earliest first."""
        while (at := self._next_timer()) is not None and at <= now.monotonic:
            moment = replace(now, monotonic=at)
            self.readers.tick(moment)
            self.bulk.tick(moment)
            self.remote.tick(moment)

    def _next_timer(self) -> float | None:
        deadlines = self.readers.next_deadline, self.bulk.next_deadline, self.remote.next_deadline
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def next_deadline(self, now: Now, *, works: bool) -> float | None:
        if works and self.state.has_parts:
            return now.monotonic
        expiry = self.state.next_expiry
        at = None if expiry is None else now.monotonic + expiry - now.wall
        return min((deadline for deadline in (at, self._next_timer()) if deadline is not None), default=None)

    # The operations.

    def start(self, call: Call, asked: Asked) -> None:
        """Raises Refused."""
        handler = self._handlers.get(type(asked)) or self.bulk.handlers[type(asked)]
        handler(call, asked)

    def _next_turn(self) -> None:
        """End one operation of the kernel: the next step is another."""
        self.end()
        self.begin(self.state.now)

    def _create_queue(self, call: Call, operation: CreateQueue) -> None:
        self._check_room()
        plan = Plan.of(operation)
        if plan.key in self.state.queues:
            raise Refused(HResult.MQ_ERROR_QUEUE_EXISTS)
        queue = self.state.new_queue(plan.key, plan, None)
        journal = f"{plan.key};journal"
        self.state.new_queue(journal, Plan(journal, quota=plan.journal_quota), queue)
        self._done(call)

    def _set_queue(self, call: Call, operation: SetQueue) -> None:
        queue = self._existing(operation.name)
        self._check_store()
        plan = queue.plan = queue.plan.changed(operation)
        self.state.save_queue(queue)
        journal = self.state.queues[f"{plan.key};journal"]
        if journal.plan.quota != plan.journal_quota:
            journal.plan = Plan(journal.key, quota=plan.journal_quota)
            self.state.save_queue(journal)
        self._done(call)

    def _delete_queue(self, call: Call, operation: DeleteQueue) -> None:
        queue = self._existing(operation.name)
        self._check_store()

        def purge() -> None:
            for part in self.state.parts(queue):
                self.state.purge(part, DELETED, _nothing)
            self.state.purge(queue, DELETED, delete)

        def delete() -> None:
            free = [
                message
                for part in (*self.state.parts(queue), queue)
                for message in part.messages.values()
                if message.state in (State.AVAILABLE, State.LATE)
            ]
            if not queue.is_deleted and len(free) > self.state.limits.purge_part:
                purge()
                return
            if not queue.is_deleted:
                for part in (*self.state.parts(queue), queue):
                    self._clear_away(part)
            self._done(call)

        purge()
        self._next_turn()
        self.opened.deleted(queue)

    def _existing(self, name: str) -> ModelQueue:
        queue = self.state.queues.get(key_of(name))
        if queue is None or queue.is_provisional:
            raise Refused(HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        return queue

    def _clear_away(self, queue: ModelQueue) -> None:
        if any(message.state is not State.AVAILABLE for message in queue.present()):
            self.marks.sometimes("a queue deleted while messages are locked or uncommitted")
        self.state.remove_queue(queue)
        self.bulk.queue_deleted(queue)
        self.readers.queue_deleted(queue)

    def _find(self, key: str, access: AccessType) -> ModelQueue:
        due_queue = self.state.queues.get(key)
        if due_queue is not None:
            return due_queue if access is AccessType.PEEK else self.state.keep(due_queue)
        queue, _, subqueue = key.partition(";")
        parent = self.state.queues.get(queue)
        if parent is None or access is AccessType.SEND or subqueue in ("", "journal"):
            raise Refused(HResult.MQ_ERROR_QUEUE_NOT_FOUND)
        plan = Plan(key, transactional=parent.plan.transactional)
        if access is AccessType.PEEK:
            self.marks.sometimes("a nonexistent subqueue opened with peek access")
            return self.state.new_provisional_queue(key, plan, parent)
        return self.state.new_queue(key, plan, parent)

    def _openable(self, key: str, access: AccessType) -> ModelQueue:
        """The queue, if this access is allowed beside the present handles of others."""
        queue = self._find(key, access)
        self.readers.check_sharing(ModelHandle(0, queue, access, ShareMode.DENY_NONE))
        return queue

    def _cancel_reads(self, call: Call, operation: CancelReads) -> None:
        self.opened.close(key_of(operation.name), keeps_sending=operation.keeps_sending)
        self._done(call)

    def _open_queue(self, call: Call, operation: OpenQueue) -> None:
        handle = self.opened.open(key_of(operation.queue), AccessType.RECEIVE, ShareMode.DENY_RECEIVE)
        exclusive = self.opened.exclusive
        self.state.answer(call.request, Answer(learn=lambda opened: exclusive.update({opened.id: handle})))

    def _close_queue(self, call: Call, operation: CloseQueue) -> None:
        handle = self.opened.own(operation.identifier)
        del self.opened.exclusive[operation.identifier]
        self.opened.close_handle(handle)
        self._done(call)

    def _purge_queue(self, call: Call, operation: PurgeQueue) -> None:
        def purge(handle: ModelHandle) -> None:
            self._check_store()
            self.state.purge(self.readers.open_queue(handle), PURGED, lambda: self._done(call))

        self.opened.use(key_of(operation.name), AccessType.RECEIVE, purge)

    def _send(self, call: Call, operation: Send) -> None:
        key, transaction = key_of(operation.name), self._joined(operation)
        drafts = drafts_of(operation.like, operation.bodies)
        if len(drafts) > 1:
            self.marks.sometimes("several messages sent with one request")
        for draft in drafts:
            draft.send_to(key, is_transactional=transaction is not None)
        self.opened.use(key, AccessType.SEND, lambda handle: self._enqueue(call, handle, drafts, transaction))

    def _enqueue(self, call: Call, handle: ModelHandle, drafts: tuple[Draft, ...], transaction: bytes | None) -> None:
        draft = drafts[0]
        if draft.recoverable if transaction is None else self.transactions.is_open(transaction):
            self._check_room()
        queue = self.readers.open_queue(handle)
        if queue.plan.transactional is (transaction is None):
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        if transaction is not None and not self.transactions.is_open(transaction):
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        size = draft.size
        if not self.state.has_room(size * len(drafts)):
            self.marks.sometimes("a send that exceeds the machine quota")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        if not queue.has_room(size * len(drafts)):
            self.marks.sometimes("a send that exceeds a queue quota")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)
        messages = [
            ModelMessage(each, size, each.recoverable or transaction is not None, transaction is not None)
            for each in drafts
        ]
        if draft.time_to_be_received != INFINITE:
            for message in messages:
                message.expiry = int(call.now.wall) + draft.time_to_be_received
        if transaction is None:
            self.state.put_all(queue, messages)
        else:
            for message in messages:
                message.is_held = message.is_uncertain = True
                self.state.identify(message)
                self.state.place(queue, message)
                self.transactions.record(transaction, Step(StepKind.SEND, message, queue))
        self._done(call)

    def _receive(self, call: Call, operation: Receive) -> None:
        transaction = self._joined(operation)

        def receive(handle: ModelHandle) -> None:
            if transaction is None:
                self._check_store()
            wait = Wait(call.request, handle, takes=True, transaction=transaction)
            found, timeout_ms = _place(operation), milliseconds(operation.timeout_s)
            if found is not None:
                self.readers.seek(wait, found)
            elif operation.count == 1:
                self.readers.read(wait, timeout_ms)
            else:
                self.readers.receive_many(wait, operation.count, timeout_ms)

        self._use(operation, AccessType.RECEIVE, receive)

    def _peek(self, call: Call, operation: Peek) -> None:
        def peek(handle: ModelHandle) -> None:
            wait, found = Wait(call.request, handle, takes=False), _place(operation)
            if found is not None:
                self.readers.seek(wait, found)
            else:
                self.readers.read(wait, milliseconds(operation.timeout_s))

        self._use(operation, AccessType.PEEK, peek)

    def _use(self, operation: Read, access: AccessType, work: Callable[[ModelHandle], None]) -> None:
        if operation.handle is UNSET:
            self.opened.use(key_of(operation.name), access, work)
        else:
            work(self.opened.own(operation.handle))

    def _cancel_read(self, _call: Call, cancel: CancelRead) -> None:
        wait = self.readers.waits.get(cancel.request)
        if wait is not None:
            self.marks.sometimes("a wait that is cancelled")
            self.readers.end(wait, HResult.MQ_ERROR_OPERATION_CANCELLED)

    def _move_message(self, call: Call, operation: MoveMessage) -> None:
        transaction = self._joined(operation)
        target = self.opened.open(key_of(operation.to), AccessType.MOVE)
        lookup_id = int(operation.lookup_id)
        try:
            self.opened.use(
                key_of(operation.name),
                AccessType.RECEIVE,
                lambda handle: self._move(call, handle, lookup_id, target, transaction=transaction),
            )
        finally:
            self._next_turn()
            self.opened.close_handle(target)

    def _move(
        self, call: Call, source: ModelHandle, lookup_id: int, destination: ModelHandle, *, transaction: bytes | None
    ) -> None:
        self._check_room()
        queue, target_queue = self.readers.open_queue(source), self.readers.open_queue(destination)
        if queue is target_queue or (queue.parent or queue) is not (target_queue.parent or target_queue):
            raise Refused(HResult.MQ_ERROR_INVALID_PARAMETER)
        if transaction is not None and not target_queue.plan.transactional:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_USAGE)
        message = queue.messages.get(lookup_id)
        if message is not None and self.transactions.takes(message):
            raise Refused(HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION)
        if message is None or message.state is not State.AVAILABLE:
            raise Refused(HResult.MQ_ERROR_MESSAGE_NOT_FOUND)
        if transaction is None:
            self.transactions.move(message, target_queue)
        elif self.transactions.is_open(transaction):
            self.state.lock(message)
            self.transactions.record(transaction, Step(StepKind.MOVE, message, queue, target_queue))
        else:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        self._done(call)

    def _open_cursor(self, call: Call, operation: OpenCursor) -> None:
        def place(handle: ModelHandle) -> None:
            pointer = ModelCursor(self.readers.open_queue(handle))
            self._next_turn()
            answer = Answer(learn=lambda opened: self.opened.add_cursor(opened.id, handle, pointer))
            self.state.answer(call.request, answer)

        self.opened.use(key_of(operation.queue), AccessType.RECEIVE, place)

    def _close_cursor(self, call: Call, operation: CloseCursor) -> None:
        self.opened.close_cursor(operation.identifier)
        self._done(call)

    def _read_at_cursor(self, call: Call, operation: CursorRead) -> None:
        handle, pointer = self.opened.cursor(operation.identifier)
        takes = isinstance(operation, CursorReceive)
        if takes:
            self._check_store()
        wait = Wait(call.request, handle, takes=takes, pointer=pointer)
        self.readers.read(wait, milliseconds(operation.timeout_s), goes_on=isinstance(operation, CursorNext))

    def _begin_transaction(self, call: Call, operation: BeginTransaction) -> None:
        assert isinstance(operation.id, str)
        self.transactions.begin(parse_guid(operation.id))
        self._done(call)

    def _commit_transaction(self, call: Call, operation: CommitTransaction) -> None:
        self._check_store()
        self.transactions.commit(self._own(operation.identifier))
        self._done(call)

    def _abort_transaction(self, call: Call, operation: AbortTransaction) -> None:
        self.transactions.abort(self._own(operation.identifier))
        self._done(call)

    def _own(self, text: str) -> bytes:
        """A transaction that an application may end."""
        identifier = parse_guid(text)
        transaction = self.transactions.transactions.get(identifier)
        if transaction is None or transaction.is_external:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        return identifier

    def _joined(self, operation: Send | Receive | MoveMessage) -> bytes | None:
        """The transaction of an operation, which begins with it if the operation says so."""
        if operation.transaction is UNSET:
            return None
        identifier = parse_guid(operation.transaction)
        if operation.begin_s is not UNSET and identifier not in self.transactions.transactions:
            self.transactions.begin(identifier)
            self._next_turn()
        return identifier

    # Requests of a coordinator.

    def _coordinate(self, _call: Call, asked: Coordinate) -> None:
        identifier, transactions = asked.identifier, self.transactions
        match asked.phase:
            case Phase.ENLIST:
                if transactions.in_doubt:
                    raise Refused(HResult.MQ_ERROR_TRANSACTION_ENLIST)
                transactions.begin(identifier).is_external = True
                self.state.answer((ENLISTED, identifier), Answer())
            case Phase.PREPARE:
                transaction = transactions.transactions.get(identifier)
                if transaction is not None:
                    transactions.prepare(transaction)
                self.state.answer((ABORTED if transaction is None else PREPARED, identifier), Answer())
            case Phase.COMMIT:
                if identifier in transactions.transactions:
                    transactions.commit(identifier)
                else:
                    self.marks.sometimes("a coordinator that repeats a commit request")
                self.state.answer((COMMITTED, identifier), Answer())
            case Phase.ABORT:
                if identifier in transactions.transactions:
                    transactions.abort(identifier)
                self.state.answer((ABORTED, identifier), Answer())
            case Phase.COMMIT_IN_DOUBT if identifier in transactions.in_doubt:
                self.marks.sometimes("an in-doubt transaction that is committed")
                transactions.commit(identifier)
            case Phase.ABORT_IN_DOUBT if identifier in transactions.in_doubt:
                self.marks.sometimes("an in-doubt transaction that is aborted")
                transactions.abort(identifier)

    def _check_store(self) -> None:
        if self.trouble:
            self.marks.sometimes("an operation refused because the disk is full")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def _check_room(self) -> None:
        self._check_store()
        if self.is_low:
            self.marks.sometimes("an operation refused because the disk is nearly full")
            raise Refused(HResult.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def _done(self, call: Call) -> None:
        self.state.answer(call.request, Answer())


def _nothing() -> None:
    """When a part of a queue is empty."""


def _place(operation: Read) -> tuple[int, MessageSeekAction] | None:
    number = operation.lookup_id
    return place_of(UNSET if number is UNSET else int(number), operation.seek)
