"""Transactions of the model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from waypost.hresult import HResult
from waypost.sim.model.disk import SavedStep, StepKind
from waypost.sim.model.records import ModelMessage, ModelQueue, Refused, State
from waypost.sim.model.state import DELETED, PURGED, RECEIVED, ModelState
from waypost.wire.message_class import MessageClass

# Whether something holds a message.
Holds = Callable[[ModelMessage], bool]


@dataclass(slots=True, eq=False)
class Step:
    """One operation of a transaction on a message that is locked for it in `queue`. `reason` is that of a receive."""

    kind: StepKind
    message: ModelMessage
    queue: ModelQueue
    target: ModelQueue | None = None
    reason: MessageClass = RECEIVED

    @property
    def is_alive(self) -> bool:
        """Whether the message is still in the queue: a deleted queue loses its messages."""
        return self.message.queue is self.queue


@dataclass(slots=True, eq=False)
class ModelTransaction:
    """A transaction. One of a coordinator `is_external`, and outlives the process when it is prepared."""

    identifier: bytes
    is_external: bool = False
    is_prepared: bool = False
    steps: list[Step] = field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        return self.is_prepared and self.is_external


class ModelTransactions:
    def __init__(self, state: ModelState) -> None:
        self._state: Final = state
        self.transactions: dict[bytes, ModelTransaction] = {}
        self.in_doubt: dict[bytes, None] = {}
        # The claims replace this function.
        self.is_claimed: Holds = _nobody_claims

    def begin(self, identifier: bytes) -> ModelTransaction:
        if identifier in self.transactions:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        transaction = self.transactions[identifier] = ModelTransaction(identifier)
        return transaction

    def is_open(self, identifier: bytes) -> bool:
        transaction = self.transactions.get(identifier)
        return transaction is not None and not transaction.is_prepared

    def record(self, identifier: bytes, step: Step) -> None:
        self.transactions[identifier].steps.append(step)

    def received(self, identifier: bytes, message: ModelMessage) -> Step | None:
        """The receive of this message in the transaction, if the message is still there."""
        transaction = self.transactions.get(identifier)
        for step in () if transaction is None else transaction.steps:
            if step.message is message and step.kind is StepKind.RECEIVE and step.is_alive:
                return step
        return None

    def take_back(self, identifier: bytes, message: ModelMessage) -> None:
        """Undo a receive in a transaction that goes on: the message did not reach its receiver."""
        step = self.received(identifier, message)
        assert step is not None
        self.transactions[identifier].steps.remove(step)
        self.release(message, PURGED)

    def takes(self, message: ModelMessage) -> bool:
        """Whether a transaction or claim is about to remove the message from its queue."""
        return self.is_claimed(message) or any(
            step.message is message and step.is_alive and step.kind is not StepKind.SEND
            for transaction in self.transactions.values()
            for step in transaction.steps
        )

    def taken(self, message: ModelMessage) -> Step | None:
        """The receive of the message in a transaction that has not decided yet."""
        for identifier, transaction in self.transactions.items():
            if not transaction.is_prepared and (step := self.received(identifier, message)) is not None:
                return step
        return None

    def prepare(self, transaction: ModelTransaction) -> None:
        """Prepare an external transaction; the messages that it sends are written now."""
        if transaction.is_prepared:
            return
        transaction.is_prepared = True
        mark(transaction)
        for step in transaction.steps:
            if step.kind is StepKind.SEND and step.is_alive:
                self._state.publish(step.message)
        saved = (
            SavedStep(
                step.kind,
                (step.queue.number, step.message.lookup_id),
                0 if step.target is None else step.target.number,
                step.reason,
            )
            for step in transaction.steps
        )
        self._state.disk.write(transaction.identifier, tuple(saved))

    def commit(self, identifier: bytes) -> None:
        transaction = self._end(identifier)
        if not transaction.is_prepared:
            mark(transaction)
        if len({step.queue.number for step in transaction.steps}) > 1:
            self._state.marks.sometimes("a commit that affects several queues")
        for step in transaction.steps:
            if step.is_alive:
                self.commit_step(step)

    def abort(self, identifier: bytes) -> None:
        for step in self._end(identifier).steps:
            if step.is_alive:
                self._abort(step)

    def _end(self, identifier: bytes) -> ModelTransaction:
        transaction = self.transactions.pop(identifier, None)
        if transaction is None:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
        self.in_doubt.pop(identifier, None)
        if transaction.is_kept:
            self._state.disk.write(identifier, None)
        return transaction

    def commit_step(self, step: Step) -> None:
        state, message = self._state, step.message
        if step.kind is StepKind.SEND:
            if message.is_held:
                state.publish(message)
            elif message.is_purge_saved:
                # The purge did not see it yet, and the next restart must not lose it.
                state.save_purge(message, is_purged=False)
            state.arrived(message)
        elif step.kind is StepKind.RECEIVE:
            if step.reason is RECEIVED:
                state.received(message)
            else:
                state.deleted(message, step.reason)
        else:
            state.marks.sometimes("a message moved in a transaction")
            assert step.target is not None
            self.move(message, step.target)

    def _abort(self, step: Step) -> None:
        state, message = self._state, step.message
        if step.kind is StepKind.SEND:
            state.remove(message)
            return
        message.abort_count += 1
        if not message.is_volatile:
            state.save(message)
        state.marks.sometimes("an abort that returns a message to its queue")
        if step.queue.waiting and message.state is not State.PURGE_PENDING and not message.is_expired:
            state.marks.sometimes("an abort that makes a message available to a waiting reader")
        # The text: a client that receives and aborts after a purge has received the message all the same.
        self.release(message, step.reason if step.kind is StepKind.RECEIVE else PURGED)

    def release(self, message: ModelMessage, reason_if_purged: MessageClass) -> None:
        if message.state is State.PURGE_PENDING:
            self._state.deleted(message, reason_if_purged)
        else:
            self._state.available(message)

    def move(self, message: ModelMessage, target: ModelQueue) -> None:
        state = self._state
        if target.is_deleted:
            state.marks.sometimes("a move to a queue that was deleted")
            state.deleted(message, DELETED)
            return
        state.remove(message)
        message.move_count += 1
        message.abort_count = 0
        message.is_shown = message.is_purge_saved = False
        state.place(target, message)
        state.end_late([message])
        if message.queue is not None:
            state.available(message)


def mark(transaction: ModelTransaction) -> None:
    """Mark the first and the last message of the transaction to each queue."""
    sends: dict[int, list[ModelMessage]] = {}
    for step in transaction.steps:
        if step.kind is StepKind.SEND and step.is_alive:
            sends.setdefault(step.queue.number, []).append(step.message)
    for messages in sends.values():
        messages[0].is_first = True
        messages[-1].is_last = True


def _nobody_claims(_message: ModelMessage) -> bool:
    return False
