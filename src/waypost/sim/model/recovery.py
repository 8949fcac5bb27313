"""The model after a start: everything that was on its disk is there again."""

from collections.abc import Callable

from waypost.sim.model.disk import ModelDisk, StepKind
from waypost.sim.model.records import ModelMessage, ModelQueue, State
from waypost.sim.model.state import PURGED, ModelState
from waypost.sim.model.transactions import ModelTransaction, ModelTransactions, Step
from waypost.sim.plans import Plan


def bring_back(
    state: ModelState, disk: ModelDisk, transactions: ModelTransactions, restore_bulk: Callable[[], None]
) -> None:
    for number in sorted(disk.queues):
        saved = disk.queues[number]
        state.add_queue(ModelQueue(number, saved.key, saved.plan, state.by_number.get(saved.parent)))
    purged = [message for place in sorted(disk.messages) if (message := _message(state, disk, place)) is not None]
    for identifier in sorted(disk.transactions):
        _transaction(state, disk, transactions, identifier)
    restore_bulk()
    for message in purged:
        if message.state is State.LOCKED:
            message.state = State.PURGE_PENDING
            message.is_shown = False
        else:
            state.marks.sometimes("a purged message that was locked until a restart")
            state.deleted(message, PURGED)


def _message(state: ModelState, disk: ModelDisk, place: tuple[int, int]) -> ModelMessage | None:
    """Put a message into its queue. Returns it if it was purged."""
    saved = disk.messages[place]
    message = saved.message.copy()
    message.abort_count, message.move_count = saved.abort_count, saved.move_count
    message.is_purge_saved = saved.is_purged
    queue = state.by_number[place[0]]
    queue.put(message)
    state.touched[queue.number] = queue
    state.total_bytes += message.size
    state.start_timer(message)
    if message.expiry is not None and message.expiry <= state.now.wall:
        state.marks.sometimes("a message that expires while the host is down")
    return message if saved.is_purged else None


def _transaction(state: ModelState, disk: ModelDisk, transactions: ModelTransactions, identifier: bytes) -> None:
    """Restore a transaction that was prepared."""
    state.marks.sometimes("an in-doubt transaction after a restart")
    transaction = transactions.transactions[identifier] = ModelTransaction(
        identifier, is_external=True, is_prepared=True
    )
    transactions.in_doubt[identifier] = None
    by_number = state.by_number
    for saved in disk.transactions[identifier]:
        queue = by_number.get(saved.place[0])
        message = None if queue is None else queue.messages.get(saved.place[1])
        if queue is None or message is None:
            continue
        target = None
        if saved.kind is StepKind.MOVE:
            target = by_number.get(saved.target) or ModelQueue(saved.target, "", Plan(""), is_deleted=True)
        transaction.steps.append(Step(saved.kind, message, queue, target, saved.reason))
        state.lock(message)
        if saved.kind is StepKind.SEND:
            message.is_uncertain = True
            message.is_shown = False
