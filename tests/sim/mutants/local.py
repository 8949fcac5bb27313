"""Planted mistakes in simulations of one host: something forgotten, done twice, too early, or in the wrong place."""

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any, Final

from tests.sim.mutants.planting import Mutant, instead, nothing
from waypost.clock import Now
from waypost.core import position_events
from waypost.core.delivery import Delivery
from waypost.core.expiries import Expiries
from waypost.core.message import Message
from waypost.core.ports import Event, PurgePendingChanged, ReadEnded
from waypost.core.position_events import PositionEvents
from waypost.core.positions import PositionList, PositionState
from waypost.core.queues import OpenQueueDescriptor, Queue
from waypost.core.reading import Reading
from waypost.core.transactions import Transactions
from waypost.errors import StoreFull, WaypostError
from waypost.hresult import HResult
from waypost.node import manager_store, transaction_store
from waypost.node.kernel import Call, Kernel
from waypost.node.message_calls import MessageCalls
from waypost.node.message_records import value_of
from waypost.node.node import Node
from waypost.node.reserves import Reserve
from waypost.node.stored_messages import StoredMessages
from waypost.store import keys
from waypost.store.port import PLENTY, Action, Batch, Table
from waypost.timers import Handler, Timers


def _acknowledge_before_commit(end: Any) -> Callable[..., None]:
    def hasty(kernel: Kernel, *raised: object) -> None:
        end(kernel, *raised)
        for token in sorted(kernel._held_back):
            kernel._effects += kernel._held_back.pop(token)

    return hasty


def _answer_reads_at_once(get: Any) -> Callable[[StoredMessages, int, int], Message]:
    def careless(messages: StoredMessages, queue: int, lookup_id: int) -> Message:
        awaited = messages.read_token
        message: Message = get(messages, queue, lookup_id)
        messages.read_token = awaited
        return message

    return careless


def _delete_not_written(delete: Any) -> Callable[[StoredMessages, int, Message], None]:
    def forgetful(messages: StoredMessages, queue: int, message: Message) -> None:
        before = len(messages.batch.operations)
        delete(messages, queue, message)
        operations = messages.batch.operations
        operations[before:] = [each for each in operations[before:] if each[1] is not Table.MESSAGES]

    return forgetful


def _held_message_written(hold: Any) -> Callable[[StoredMessages, int, Message], None]:
    def early(messages: StoredMessages, queue: int, message: Message) -> None:
        hold(messages, queue, message)
        key = keys.message_key(queue, message.lookup_identifier)
        messages.batch.put(Table.MESSAGES, key, value_of(message))

    return early


def _unlock_without_wake_up(available: Any) -> Callable[[PositionEvents, Queue, int], None]:
    def silent(positions: PositionEvents, queue: Queue, lookup_id: int) -> None:
        offer = positions.offer
        if queue.positions.state(lookup_id) is PositionState.LOCKED:
            positions.offer = nothing(offer)
        available(positions, queue, lookup_id)
        positions.offer = offer

    return silent


def _lost_timer(start: Any) -> Callable[[Timers, Hashable, float, Handler], None]:
    def lossy(timers: Timers, key: Hashable, deadline: float, handler: Handler) -> None:
        if timers._order % 5 == 4:
            timers._order += 1
        else:
            start(timers, key, deadline, handler)

    return lossy


def _one_part(take_late: Any) -> Callable[[PositionEvents, int], None]:
    def forgetful(positions: PositionEvents, count: int) -> None:
        take_late(positions, count)
        positions._late.clear()

    return forgetful


def _expired_seen(expire_all: Any) -> Callable[[PositionList, Any], tuple[list[int], list[int]]]:
    def open_handed(positions: PositionList, lookup_ids: Any) -> tuple[list[int], list[int]]:
        late, held = expire_all(positions, lookup_ids)
        # Nothing but the last of them is kept from others.
        for band in positions._bands:
            for number in sorted(band.late)[:-1]:
                band.late.discard(number)
        return late, held

    return open_handed


def _lost_expiry(start: Any) -> Callable[[Expiries, int, int, Iterable[int]], None]:
    def lossy(expiries: Expiries, deadline: int, queue: int, lookup_ids: Iterable[int]) -> None:
        left = [each for each in lookup_ids if each % 5]
        if left:
            start(expiries, deadline, queue, left)

    return lossy


def _totals_not_updated(seal: Any) -> Callable[[StoredMessages], tuple[Batch, int]]:
    def forgetful(messages: StoredMessages) -> tuple[Batch, int]:
        messages._touched.clear()
        sealed: tuple[Batch, int] = seal(messages)
        return sealed

    return forgetful


def _reserve_not_written(advance: Any) -> Callable[[Reserve, int, Batch, int], int]:
    def forgetful(reserve: Reserve, current: int, batch: Batch, token: int) -> int:
        advance(reserve, current, Batch(), token)
        return 0

    return forgetful


def _purge_forgets_locked(set_state: Any) -> Callable[[PositionList, int, PositionState], None]:
    def careless(positions: PositionList, lookup_id: int, state: PositionState) -> None:
        if state is not PositionState.PURGE_PENDING:
            set_state(positions, lookup_id, state)

    return careless


def _purge_pending_not_written(handle: Any) -> Callable[[Node, Event, Now], None]:
    def forgetful(node: Node, event: Event, now: Now) -> None:
        if not isinstance(event, PurgePendingChanged):
            handle(node, event, now)

    return forgetful


def _commit_in_two_batches(seal: Any) -> Callable[[StoredMessages], tuple[Batch, int]]:
    """The last message of a batch is written with the next one."""

    def torn(messages: StoredMessages) -> tuple[Batch, int]:
        operations = messages.batch.operations
        writes = [at for at, each in enumerate(operations) if each[1] is Table.MESSAGES and each[0] is Action.PUT]
        late = operations.pop(writes[-1]) if len(writes) > 1 else None
        sealed: tuple[Batch, int] = seal(messages)
        if late is not None:
            messages.batch.operations.append(late)
        return sealed

    return torn


def _overlay_dropped_early(seal: Any) -> Callable[[StoredMessages], tuple[Batch, int]]:
    def hasty(messages: StoredMessages) -> tuple[Batch, int]:
        sealed: tuple[Batch, int] = seal(messages)
        messages._pending.clear()
        return sealed

    return hasty


def _overlay_kept(persisted: Any) -> Callable[[StoredMessages, int], None]:
    def hoarding(messages: StoredMessages, token: int) -> None:
        kept = dict(messages._pending)
        persisted(messages, token)
        messages._pending.update(kept)

    return hoarding


def _delivered_twice(offer: Any) -> Callable[[Reading, Queue, int], None]:
    """The next one who waits to receive gets the message too."""

    def generous(reading: Reading, queue: Queue, lookup_id: int) -> None:
        message = reading._positions.messages.get(queue.number, lookup_id)
        offer(reading, queue, lookup_id)
        if queue.waiting and queue.positions.state(lookup_id) is not PositionState.AVAILABLE:
            descriptor = next(iter(queue.waiting.values()))
            wait = next(iter(descriptor.waiting.values()))
            reading._forget(wait)
            reading._positions.events.append(ReadEnded(wait.wait_id, HResult.MQ_OK, message))

    return generous


def _last_in_first_out(offer: Any) -> Callable[[Reading, Queue, int], None]:
    def unfair(reading: Reading, queue: Queue, lookup_id: int) -> None:
        if queue.waiting:
            queue.waiting.move_to_end(next(reversed(queue.waiting)), last=False)
        offer(reading, queue, lookup_id)

    return unfair


def _acknowledged_twice(acknowledge: Any) -> Callable[..., None]:
    def chatty(*arguments: object) -> None:
        acknowledge(*arguments)
        acknowledge(*arguments)

    return chatty


def _always(_original: Any) -> Callable[..., bool]:
    return lambda *_: True


def _refused_send_stored(send: Any) -> Callable[..., None]:
    def stubborn(
        calls: MessageCalls, call: Call, handle: OpenQueueDescriptor, message: Message, transaction: bytes | None
    ) -> None:
        try:
            send(calls, call, handle, message, transaction)
        except StoreFull:
            node = calls._node
            kept = node.kernel.room, node.kernel.trouble
            node.kernel.room, node.kernel.trouble = PLENTY, None
            with suppress(WaypostError):
                calls._prepare(call, handle, message, transaction)
                with node.kernel.operation(call.now):
                    node.sending.enqueue(handle, message, transaction, call.now)
            node.kernel.room, node.kernel.trouble = kept
            raise

    return stubborn


def _priorities_ignored(lookup_identifier: Any) -> Callable[[int, int], int]:
    return lambda _priority, sequential_id: lookup_identifier(3, sequential_id)


LOCAL_MUTANTS: Final = (
    Mutant(
        "acknowledge-before-commit",
        "answers before what it did is durable",
        instead(Kernel, "__exit__", _acknowledge_before_commit),
    ),
    Mutant(
        "show-before-commit",
        "shows messages that a crash can still take away",
        instead(StoredMessages, "get", _answer_reads_at_once),
    ),
    Mutant(
        "delete-not-written",
        "does not write that a message was received",
        instead(StoredMessages, "delete", _delete_not_written),
    ),
    Mutant(
        "held-message-written",
        "writes what a transaction sends before its outcome",
        instead(StoredMessages, "hold", _held_message_written),
    ),
    Mutant(
        "abort-does-not-unlock",
        "leaves messages locked when their transaction aborts",
        (*instead(Transactions, "_release", nothing), *instead(Transactions, "_give_back", nothing)),
    ),
    Mutant(
        "unlock-without-wake-up",
        "does not tell waiting readers of a message that is free again",
        instead(PositionEvents, "available", _unlock_without_wake_up),
    ),
    Mutant("lost-timer", "loses some timers", instead(Timers, "start", _lost_timer)),
    Mutant("lost-expiry", "lets some messages never expire", instead(Expiries, "start", _lost_expiry)),
    Mutant(
        "expires-one-part",
        "forgets expired messages that one tick could not take away",
        instead(PositionEvents, "take_late", _one_part),
    ),
    Mutant(
        "gives-out-expired",
        "lets others have expired messages until they are taken away",
        instead(PositionList, "expire_all", _expired_seen),
    ),
    Mutant("never-expires", "lets no message expire", instead(PositionEvents, "expire", nothing)),
    Mutant(
        "timers-not-restored",
        "forgets at a start when messages expire",
        instead(PositionEvents, "restore_timer", nothing),
    ),
    Mutant("journal-copy-forgotten", "keeps no journal", instead(PositionEvents, "_copy_to_journal", nothing)),
    Mutant(
        "totals-not-updated",
        "does not write how much a queue holds",
        instead(StoredMessages, "seal", _totals_not_updated),
    ),
    Mutant(
        "reserve-not-written",
        "does not write how far its counters are",
        instead(Reserve, "advance", _reserve_not_written),
    ),
    Mutant(
        "queue-numbers-reused",
        "forgets the numbers of queues that are gone",
        instead(manager_store, "write_queue_numbers", nothing),
    ),
    Mutant(
        "purge-forgets-locked",
        "purges only messages that nobody holds",
        instead(PositionList, "set_state", _purge_forgets_locked),
    ),
    Mutant(
        "purge-not-written",
        "forgets in a restart that a locked message was purged",
        instead(Node, "_handle", _purge_pending_not_written),
    ),
    Mutant(
        "commit-in-two-batches",
        "writes what belongs together apart",
        instead(StoredMessages, "seal", _commit_in_two_batches),
    ),
    Mutant(
        "overlay-dropped-early",
        "looks for messages on the disk before they are there",
        instead(StoredMessages, "seal", _overlay_dropped_early),
    ),
    Mutant("overlay-kept", "keeps durable messages in memory", instead(StoredMessages, "persisted", _overlay_kept)),
    Mutant(
        "delivered-twice",
        "gives a message to two waiting receivers",
        instead(Reading, "_offer", _delivered_twice),
    ),
    Mutant(
        "last-in-first-out",
        "serves the reader first that began to wait last",
        instead(Reading, "_offer", _last_in_first_out),
    ),
    Mutant("dead-letter-lost", "keeps no dead-letter message or source copy", instead(Delivery, "_journal", nothing)),
    Mutant("acknowledged-twice", "acknowledges twice", instead(Delivery, "_acknowledge", _acknowledged_twice)),
    Mutant("marks-wrong", "does not mark first and last messages", instead(Transactions, "mark", nothing)),
    Mutant(
        "prepared-not-written",
        "forgets prepared transactions in a restart",
        instead(transaction_store, "write", nothing),
    ),
    Mutant(
        "aborts-not-counted",
        "does not write that a receive was taken back",
        instead(StoredMessages, "update", nothing),
    ),
    Mutant(
        "refused-send-stored",
        "stores later what it has refused because the disk is nearly full",
        instead(MessageCalls, "send_message", _refused_send_stored),
    ),
    Mutant("quota-ignored", "takes more than a queue may hold", instead(PositionEvents, "fits", _always)),
    Mutant(
        "priorities-ignored",
        "puts all messages into one order",
        instead(position_events, "lookup_identifier", _priorities_ignored),
    ),
)
