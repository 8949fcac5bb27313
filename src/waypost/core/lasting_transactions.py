"""Transactions that outlive the process and end by this queue manager alone: stages and claims.

A stage is a transaction that sends and is prepared at once (MS-MQDMPR 3.1.4.3): its messages are in the store, in their
places and Locked. A claim is one that receives. Either has thousands of operations, so they are Runs, and everything
is done with all messages of a Run together. The outcome is that of MS-MQDMPR 3.1.4.4 and 3.1.4.5, for several of them
in one step. Code that keeps the Runs in the store writes them with the batch of the messages.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from waypost.core.message import Message
from waypost.core.ports import PurgePendingChanged
from waypost.core.position_events import PositionEvents
from waypost.core.positions import END
from waypost.core.queues import OutgoingQueue, Queue
from waypost.core.stored_message import copied
from waypost.core.transaction_records import OperationType, Run, TransactionalOperation, spans_of
from waypost.core.transactions import Transactions, move, sends_of
from waypost.wire.message_class import MessageClass

# The queue for messages of a queue that were given back too often; None if they stay.
PoisonQueue = Callable[[Queue], Queue | None]


class LastingTransactions:
    """The lasting transactions of one queue manager, by their identifiers, which are unique."""

    __slots__ = ("_positions", "_transactions", "collection")

    def __init__(self, positions: PositionEvents, transactions: Transactions) -> None:
        self._positions: Final = positions
        self._transactions: Final = transactions
        self.collection: Final = transactions.lasting

    def keep(self, identifier: bytes) -> list[Run]:
        """Turn a transaction that has only sent, in this operation, into a lasting one: its messages are stored."""
        transaction = self._transactions.collection.pop(identifier)
        self._transactions.mark(sends_of(transaction))
        runs = []
        for (queue, is_quiet), operations in groupby(transaction.operations.values(), _alike):
            lookup_ids = [operation.lookup_id for operation in operations]
            self._positions.messages.publish_all(queue.number, lookup_ids)
            runs.append(Run(OperationType.ENQUEUE, queue, spans_of(lookup_ids), is_quiet))
        self.collection[identifier] = runs
        return runs

    def claim(self, identifier: bytes, queue: Queue, lookup_ids: Sequence[int]) -> tuple[Run, list[Message]]:
        """Lock Available messages of a queue. Returns the readable ones too."""
        messages = self._positions.lock_all(queue, lookup_ids)
        run = Run(OperationType.DEQUEUE, queue, spans_of([message.lookup_identifier for message in messages]))
        self.collection[identifier] = [run]
        return run, messages

    def restore(self, identifier: bytes, runs: list[Run]) -> None:
        """Restore one that outlived the process. Express messages have not: no Run has them any more."""
        for run in runs:
            there = [lookup_id for lookup_id in run.lookup_ids() if lookup_id in run.queue.positions]
            if run.operation_type is OperationType.DEQUEUE:
                there = [message.lookup_identifier for message in self._positions.lock_all(run.queue, there)]
            else:
                run.queue.positions.lock_all(there)
            if len(there) < len(run):
                run.spans = spans_of(there)
        self.collection[identifier] = runs

    def restored(self) -> None:
        """Finish restoring: stages for another computer are not committed, so others need not come behind them."""
        for queue in {run.queue for runs in self.collection.values() for run in runs}:
            if isinstance(queue, OutgoingQueue):
                queue.last_committed = max(queue.positions.previous_available(END), 0)

    def commit(self, identifiers: Iterable[bytes], wall: float) -> None:
        """Commit all of these, in this order. Their messages become visible in one step.

        None of their queues is deleted: messages that went with one can never be committed.
        """
        runs = [run for identifier in identifiers for run in self.collection.pop(identifier) if run.spans]
        assert not any(run.queue.is_deleted for run in runs), "a commit contains messages for a deleted queue"
        for run in runs:
            if isinstance(run.queue, OutgoingQueue):
                messages = self._positions.find_all(run.queue, run.lookup_ids())
                run.spans = spans_of(self._transactions.send_out(run.queue, messages, is_kept=True))
        self._positions.expire(wall)
        for run in runs:
            if run.operation_type is OperationType.ENQUEUE:
                self._arrived(run)
            else:
                messages = self._positions.find_all(run.queue, run.lookup_ids())
                self._positions.received_all(run.queue, messages)

    def drop(self, identifier: bytes) -> None:
        """Abort one that has sent: none of its messages was ever visible."""
        for run in self.collection.pop(identifier):
            if not run.queue.is_deleted:
                messages = self._positions.find_all(run.queue, run.lookup_ids())
                self._positions.remove_all(run.queue, messages)

    def give_back(self, identifier: bytes, max_aborts: int, poison_queue: PoisonQueue, wall: float) -> int:
        """Abort one that has received. A message that has come back `max_aborts` times is moved away; 0 means never.

        Returns the number of messages that were given back or moved.
        """
        count = 0
        for run in self.collection.pop(identifier):
            if run.queue.is_deleted:
                continue
            count += len(run)
            lookup_ids = run.lookup_ids()
            purged = run.queue.positions.purged(lookup_ids)
            poison = self._attempts_failed(run.queue, lookup_ids, max_aborts).difference(purged)
            target = poison_queue(run.queue) if poison else None
            for lookup_id in purged:
                self._positions.deleted(run.queue, lookup_id, MessageClass.MQMSG_CLASS_NACK_Q_PURGED)
            if target is not None:
                for lookup_id in sorted(poison):
                    move(self._positions, run.queue, lookup_id, target, wall)
            self._positions.available_all(run.queue, list(filter(run.queue.positions.is_held, lookup_ids)))
        return count

    def _attempts_failed(self, queue: Queue, lookup_ids: Sequence[int], max_aborts: int) -> set[int]:
        """Count a failed read of Locked messages. Returns those with too many.

        readings MQDMPR 3.Z, MQRR 3.28.
        """
        poison = set()
        for message in map(copied, self._positions.find_all(queue, lookup_ids)):
            message.abort_count += 1
            self._positions.messages.update(queue.number, message)
            if 0 < max_aborts <= message.abort_count:
                poison.add(message.lookup_identifier)
        return poison

    def _arrived(self, run: Run) -> None:
        queue, lookup_ids = run.queue, run.lookup_ids()
        # They were not in the queue yet when it was purged.
        purged = queue.positions.purged(lookup_ids)
        self._positions.events += [PurgePendingChanged(queue, lookup_id) for lookup_id in purged]
        if run.is_quiet:
            self._positions.arrived_unheard(queue, lookup_ids)
            return
        for message in self._positions.find_all(queue, lookup_ids):
            self._positions.arrived(queue, message)


def _alike(operation: TransactionalOperation) -> tuple[Queue, bool]:
    return operation.queue, operation.is_quiet
