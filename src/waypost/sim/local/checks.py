"""The invariants of node, store and model: those checked after every event, and the thorough ones."""
# ruff: noqa: SLF001, memory is what is checked

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.positions import START, PositionState
from waypost.core.queues import Queue
from waypost.core.serialization import size_in_bytes
from waypost.node.node import Node
from waypost.sim.bulk.checks import check_bulk_table
from waypost.sim.model.model import Model
from waypost.sim.model.records import BEHIND_ALL, Answer, ModelMessage, ModelQueue, State
from waypost.sim.violation import Violation
from waypost.store import keys
from waypost.store.keys import Counter
from waypost.store.memory import MemoryStore
from waypost.store.port import Table
from waypost.store.records import EXPIRES, PURGE_PENDING, CounterRecord, MessageRecord, PositionRecord, TotalsRecord
from waypost.wire.format_names import Suffix

_ALL: Final = 1_000_000
_STATES: Final = {
    PositionState.AVAILABLE: State.AVAILABLE,
    PositionState.LOCKED: State.LOCKED,
    PositionState.PURGE_PENDING: State.PURGE_PENDING,
    PositionState.DELETED: State.LATE,
}
_SYSTEM_KEYS: Final = {Suffix.JOURNAL: ";journal", Suffix.DEADLETTER: ";deadletter", Suffix.DEADXACT: ";deadxact"}


@dataclass(slots=True)
class Counters:
    """Numbers that are never given twice: SequentialID, ordinals of messages, numbers of queues."""

    sequential_id: int = 0
    ordinal: int = 0
    number: int = 0


def own_queues(node: Node) -> Iterator[tuple[int, str]]:
    """The queues that a new queue manager makes for itself."""
    system = {queue.number: _SYSTEM_KEYS[suffix] for suffix, queue in node.manager.system_queues.items()}
    for number, queue in node.manager.collection.by_number.items():
        yield number, system.get(number) or queue.pathname.queue


def stored_counters(store: MemoryStore) -> Counters:
    values = [
        store.get(Table.COUNTERS, counter.value)
        for counter in (Counter.SEQUENTIAL_ID, Counter.MESSAGE_ID_ORDINAL, Counter.QUEUE_ID)
    ]
    return Counters(*(0 if value is None else CounterRecord.decode(value).value for value in values))


def check_counters(counters: Counters, given: Counters) -> None:
    """After a restart: numbers that a client has seen are not given again."""
    for name in ("sequential_id", "ordinal", "number"):
        if getattr(counters, name) < getattr(given, name):
            raise Violation(
                f"after a restart, {name} continues at {getattr(counters, name)}, "
                f"but {getattr(given, name)} was used before"
            )


def check_touched(node: Node, model: Model) -> None:
    """Check that the queues that changed have the right messages, in order, and the right counts."""
    touched, queues = model.state.touched, node.manager.collection.by_number
    for number, due_queue in touched.items():
        queue = queues.get(number)
        if queue is None:
            raise Violation(f"the queue {due_queue.key} does not exist, but no client deleted it")
        _check_contents(queue, due_queue)
    touched.clear()


def check_counts(node: Node, model: Model) -> None:
    """After every event: bytes, numbers and memory correspond to the messages."""
    state, manager = model.state, node.manager
    if manager.total_bytes != state.total_bytes:
        raise Violation(
            f"the queue manager reports {manager.total_bytes} bytes, "
            f"but the total size of its messages is {state.total_bytes} bytes"
        )
    if manager.positions.sequential_id != state.sequential_id:
        raise Violation(
            f"SequentialID is {manager.positions.sequential_id}, "
            f"but the SequentialID of the last message is {state.sequential_id}"
        )
    volatile = len(node.messages._volatile)
    if volatile != state.volatile:
        raise Violation(
            f"{volatile} messages are only in memory, but {state.volatile} messages are express or in a transaction"
        )


def check_index(node: Node) -> None:
    """Thorough: every searchable message is found by its identifier, at its place."""
    unknown = 0
    for queue in node.manager.collection.by_number.values():
        untagged = set(queue.positions.untagged(START, _ALL))
        unknown += len(untagged)
        for before, lookup_id in enumerate(queue.positions):
            if lookup_id in untagged:
                continue
            identifier = node.messages.get(queue.number, lookup_id).identifier
            found, _ = node.index.find([queue], identifier, _ALL)
            if lookup_id not in [message.lookup_identifier for _, message in found]:
                raise Violation(
                    f"{queue} contains the message {identifier}, but a search by identifier does not find the message"
                )
            count = queue.positions.before(lookup_id)
            if count != before:
                raise Violation(f"{queue}: expected {before} messages before {identifier}, but found {count}")
    if unknown > node.index.unknown:
        raise Violation(
            f"the index reports {node.index.unknown} messages that are not searchable, but {unknown} were found"
        )


def due_with_index(node: Node, due: float | None) -> float | None:
    """The time of the next tick, including those for messages that are read after a start."""
    deadlines = (due, node.index.deadline)
    return min((deadline for deadline in deadlines if deadline is not None), default=None)


def check_deadline(node: Node, due: float | None, now: Now) -> None:
    """Check that the node wakes up when a wait or the time of a message ends: not later, and not without need.

    A time in the past means now.
    """
    deadline = node.next_deadline(now)
    if deadline is None or due is None:
        if deadline is not due:
            raise Violation(f"expected the next deadline of the node to be {due}, but found {deadline}")
    elif abs(max(deadline, now.monotonic) - max(due, now.monotonic)) > 1e-5:
        raise Violation(
            f"expected the node to wake up in {due - now.monotonic:.6f} s, but found {deadline - now.monotonic:.6f} s"
        )


def check_durable(ask: object, answer: Answer, model: Model) -> None:
    if answer.needs > model.disk.durable:
        raise Violation(
            f"{ask} was answered too early: expected {answer.needs} durable batches, but found {model.disk.durable}"
        )


def check_value(ask: object, answer: Answer, messages: Sequence[Message]) -> None:
    """Check that an answer brings the right messages."""
    if len(messages) != len(answer.messages):
        raise Violation(f"{ask}: expected {len(answer.messages)} messages, but found {len(messages)}")
    for due, counts, message in zip(answer.messages, answer.counts, messages, strict=True):
        _check_message(ask, due, counts, message)


def _check_message(ask: object, message: ModelMessage, counts: tuple[int, int], value: Message) -> None:
    if value.lookup_identifier != message.lookup_id:
        raise Violation(f"{ask}: expected {message}, but found the message {value.lookup_identifier:#x}")
    if not message.is_acknowledgment and message.draft.mark not in value.packet:
        raise Violation(f"{ask}: expected {message}, but found another message with the same LookupIdentifier")
    if (value.abort_count, value.move_count) != counts:
        found = value.abort_count, value.move_count
        raise Violation(f"{message}: expected the abort and move counts {counts}, but found {found}")
    if message.message_class and value.message_class != message.message_class:
        raise Violation(f"{message}: expected the class {message.message_class:#x}, but found {value.message_class:#x}")
    marks = message.is_first, message.is_last
    if message.transactional and (value.first_in_transaction, value.last_in_transaction) != marks:
        raise Violation(f"{message}: expected the first and last marks {marks}, but found different marks")


def check_all(node: Node, model: Model, now: Now) -> None:
    """Thorough: every queue with its attributes, every message with its state, every transaction, every wait."""
    queues, due_queues = node.manager.collection.by_number, model.state.by_number
    if queues.keys() != due_queues.keys():
        raise Violation(f"expected the queues {sorted(due_queues)}, but found {sorted(queues)}")
    for number, queue in due_queues.items():
        _check_contents(queues[number], queue)
        _check_states(queues[number], queue)
        _check_attributes(queues[number], queue)
    model.state.touched.clear()
    check_counts(node, model)
    check_index(node)
    check_deadline(node, due_with_index(node, model.next_deadline(now, works=not node.kernel.is_behind)), now)
    transactions, entries = node.manager.transactions.collection, model.transactions.transactions
    if transactions.keys() != entries.keys():
        raise Violation(f"expected {len(entries)} open transactions, but found {len(transactions)}")
    for identifier, transaction in entries.items():
        if transactions[identifier].is_kept is not transaction.is_kept:
            raise Violation(
                f"the node and the model disagree on whether the transaction {identifier.hex()[:8]} is prepared"
            )


def check_states(node: Node, model: Model) -> None:
    """Check that a message is locked if and only if something holds it."""
    for number, due_queue in model.state.by_number.items():
        queue = node.manager.collection.by_number[number]
        _check_states(queue, due_queue)
        _check_attributes(queue, due_queue)


def check_connections(node: Node, model: Model) -> None:
    """Check that the node has exactly the present connections of remote readers."""
    if node.remote is not None and list(node.remote.connections) != model.remote.connections:
        due = len(model.remote.connections)
        raise Violation(f"expected {due} connections of remote readers, but found {len(node.remote.connections)}")


def check_left_behind(node: Node) -> None:
    """When no remote reader is left: check that nothing of them is in memory."""
    remote = node.remote
    if remote is None:
        return
    left = (
        len(remote.connections),
        len(remote._waits),
        len(remote._rpc._connections),
        len(remote._remote_read._pending),
    )
    if any(left):
        raise Violation(
            f"all remote readers have left, but the node still has {left[0]} connections, {left[1]} waits, "
            f"{left[2]} RPC connections and {left[3]} pending requests"
        )


def check_store(store: MemoryStore, model: Model) -> None:
    """Thorough, when nothing is pending: the store holds all durable records, complete, and nothing else."""
    disk = model.disk
    found = store.scan(Table.MESSAGES, limit=_ALL)
    due = {keys.message_key(*place): saved for place, saved in disk.messages.items()}
    for key in sorted(due.keys() - {key for key, _ in found}):
        raise Violation(f"the recoverable message {due[key].message} is missing from the store")
    totals: dict[int, TotalsRecord] = {number: TotalsRecord() for number in disk.queues}
    for key, value in found:
        saved = due.get(key)
        if saved is None:
            place = keys.queue_id_of(key), keys.lookup_id_of(key)
            raise Violation(f"the store contains a message at {place}, but this message was deleted or never sent")
        record = MessageRecord.decode(value)
        if (record.abort_count, record.move_count) != (saved.abort_count, saved.move_count):
            raise Violation(f"expected the last state of {saved.message} in the store, but found an older state")
        if not saved.message.is_acknowledgment and saved.message.draft.mark not in record.packet:
            raise Violation(f"expected {saved.message} in the store, but found another message in its place")
        total = totals[keys.queue_id_of(key)]
        total.message_count += 1
        total.total_bytes += len(record.packet)
    _check_totals(store, totals)
    _check_positions(store, model)
    check_bulk_table(store, disk.bulk)
    for table, expected in (
        (Table.QUEUES, sorted(keys.queue_key(number) for number in disk.queues)),
        (Table.TRANSACTIONS, sorted(disk.transactions)),
    ):
        if store.keys(table, limit=_ALL) != expected:
            raise Violation(f"the table {table.name.lower()} of the store differs from its durable records")


def check_memory(node: Node) -> None:
    """When nothing is pending: durable messages are not in memory."""
    if node.messages._pending:
        raise Violation(f"{len(node.messages._pending)} durable messages are still in memory")
    if node.messages._submitted or node.messages.unwritten_bytes:
        raise Violation("the node still keeps batches that are already durable")
    volatile = node.messages._volatile.values()
    held = sum(size_in_bytes(each) for each in volatile if each.delivery_guarantee is DeliveryGuarantee.RECOVERABLE)
    if held != node.messages.held_bytes:
        raise Violation(
            f"the node reports {node.messages.held_bytes} bytes in transactions, but the transactions hold {held} bytes"
        )


def _check_contents(queue: Queue, due_queue: ModelQueue) -> None:
    order = list(queue.positions)
    if order != due_queue.order:
        _explain(order, due_queue)
    if queue.total_bytes != due_queue.total_bytes:
        raise Violation(
            f"the queue {due_queue.key} reports {queue.total_bytes} bytes, "
            f"but the total size of its messages is {due_queue.total_bytes} bytes"
        )
    messages = due_queue.messages
    first = next(
        (lookup_id for lookup_id in due_queue.order if messages[lookup_id].state is State.AVAILABLE), BEHIND_ALL
    )
    if queue.positions.next_available(START) != first:
        raise Violation(f"the queue {due_queue.key} offers the wrong message first")


def _explain(order: list[int], queue: ModelQueue) -> None:
    if order != sorted(order):
        raise Violation(f"the messages in {queue.key} are not in the order of their LookupIdentifiers")
    lost = [message for lookup_id, message in queue.messages.items() if lookup_id not in order]
    if lost:
        raise Violation(
            f"expected {', '.join(map(str, lost))} in the queue {queue.key}, but these messages are missing"
        )
    extra = [f"{lookup_id:#x}" for lookup_id in order if lookup_id not in queue.messages]
    raise Violation(f"the queue {queue.key} contains {', '.join(extra)}, but these messages were removed or never sent")


def _check_states(queue: Queue, due_queue: ModelQueue) -> None:
    for lookup_id, message in due_queue.messages.items():
        state = queue.positions.state(lookup_id)
        if _STATES.get(state) is not message.state:
            raise Violation(
                f"{message} in {due_queue.key}: expected the state {message.state.name}, but found {state.name}"
            )
        if queue.positions.is_shown(lookup_id) is not message.is_shown:
            problem = "hidden, but must be visible" if message.is_shown else "visible, but must be hidden"
            raise Violation(f"{message} in {due_queue.key} is {problem}")


def _check_attributes(queue: Queue, due_queue: ModelQueue) -> None:
    attributes, plan = queue.attributes, due_queue.plan
    found = attributes.quota, attributes.journaling, attributes.transactional
    if found != (plan.quota, plan.journaling, plan.transactional):
        raise Violation(f"{due_queue.key}: expected the attributes {plan}, but found {found}")
    waiting = [len(handle.waits) for handle in due_queue.waiting.values()]
    if [len(descriptor.waiting) for descriptor in queue.waiting.values()] != waiting:
        raise Violation(
            f"{due_queue.key}: expected the numbers of waiting reads {waiting}, but found different numbers"
        )
    if len(queue.descriptors) != len(due_queue.handles):
        raise Violation(
            f"{due_queue.key}: expected {len(due_queue.handles)} handles, but found {len(queue.descriptors)}"
        )


def _check_totals(store: MemoryStore, totals: dict[int, TotalsRecord]) -> None:
    for number, due in totals.items():
        value = store.get(Table.COUNTERS, keys.totals_key(number))
        found = TotalsRecord() if value is None else TotalsRecord.decode(value)
        if found != due:
            raise Violation(
                f"the store has the totals {found} for the queue {number}, but the correct totals are {due}"
            )


def _check_positions(store: MemoryStore, model: Model) -> None:
    """Check for a record of the position of each message that expires, and of each that was purged and is locked."""
    due: list[tuple[bytes, int]] = []
    for place, saved in sorted(model.disk.messages.items()):
        flags = (PURGE_PENDING if saved.is_purged else 0) | (0 if saved.message.expiry is None else EXPIRES)
        if flags:
            due.append((keys.message_key(*place), flags))
    found = [(key, PositionRecord.decode(value).flags) for key, value in store.scan(Table.POSITIONS, limit=_ALL)]
    wrong = [_place(key, flags) for key, flags in found if (key, flags) not in due]
    if wrong:
        raise Violation(f"the store contains unexpected position records: {', '.join(wrong)}")
    lost = [_place(key, flags) for key, flags in due if (key, flags) not in found]
    if lost:
        raise Violation(f"position records are missing from the store: {', '.join(lost)}")


def _place(key: bytes, flags: int) -> str:
    said = {EXPIRES: "expires", PURGE_PENDING: "is purged"}.get(flags, "expires and is purged")
    return f"that message {keys.lookup_id_of(key):#x} of queue {keys.queue_id_of(key)} {said}"
