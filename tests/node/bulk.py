"""Two ways to do the same: a queue manager that sends and receives many messages in one go, and one that does it one by
one. What they hold is told without the numbers that depend on the order of giving them: messages are known by their
bodies, of which there are no two alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

from tests.node.rig import RECOVERABLE, SEND, ReadOptions, Rig, direct
from tests.store.engines import MemoryEngine
from waypost.core.message import LOCAL_ATTRIBUTES, NO_IDENTIFIER, Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.positions import SEQUENCE_BITS
from waypost.core.queues import Queue
from waypost.core.serialization import packet_of
from waypost.core.stored_message import stored_message
from waypost.core.transaction_records import TransactionalOperation
from waypost.errors import Timeout
from waypost.node.message_records import message_of
from waypost.store import keys
from waypost.store.port import Table
from waypost.store.records import TotalsRecord
from waypost.wire.codec import INFINITE
from waypost.wire.user_message import UserMessage

ADMIN = "DIRECT=OS:host\\private$\\admin"
DEAD = "host\\private$\\dead"
PART = "DIRECT=OS:host\\private$\\orders;part"
FAR = "DIRECT=OS:far\\private$\\orders"
ORDINARY = ("orders", "journaled", FAR)
TRANSACTIONAL = ("ledger", "books")
READABLE = ("orders", "journaled", "ledger", "books", "admin", PART)


@dataclass(frozen=True, slots=True)
class Kind:
    """What messages that are sent together are like."""

    delivery_guarantee: DeliveryGuarantee = RECOVERABLE
    time_to_be_received: int = INFINITE
    priority: int = 3
    acknowledgements: int = 0
    positive_journaling: bool = False
    negative_journaling: bool = False
    application_deadletter_queue: str = ""
    allow_peek_when_locked: bool = False
    sender_certificate: bytes = b""

    def message(self) -> Message:
        return Message(
            label="bulk",
            delivery_guarantee=self.delivery_guarantee,
            time_to_be_received=self.time_to_be_received,
            priority=self.priority,
            acknowledgements_requested=self.acknowledgements,
            administration_queue_format_name=direct(ADMIN) if self.acknowledgements else None,
            positive_journaling_requested=self.positive_journaling,
            negative_journaling_requested=self.negative_journaling,
            application_deadletter_queue=self.application_deadletter_queue,
            allow_peek_when_locked=self.allow_peek_when_locked,
            sender_certificate=self.sender_certificate,
        )


def _never_together(operation: TransactionalOperation) -> tuple[int, None]:
    """Every operation of a transaction is committed by itself."""
    return operation.queue.number, None


class Workshop(Rig):
    """The words of a scenario, one by one."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine())
        self.create("admin")
        self.create("dead")
        self.create("journaled", journaling=True)
        self.create("ledger", transactional=True)
        self.create("books", transactional=True, journaling=True)
        self.open(FAR, SEND)
        self.open(PART)
        self.external: set[bytes] = set()
        self.bodies: dict[bytes, bytes] = {NO_IDENTIFIER.encode(): b""}
        # What came of the reads: messages as `known` tells them.
        self.got: list[object] = []
        self.waits: list[int] = []

    def transaction(self, tx: bytes | None, *, external: bool) -> bytes | None:
        """The transaction, begun if it is not under way."""
        if tx is not None and tx not in self.node.manager.transactions.collection:
            self.external.discard(tx)
            if external:
                self.external.add(tx)
                self.enlist(tx)
            else:
                self.begin(tx)
        return tx

    def send_all(self, name: str, kind: Kind, bodies: Sequence[bytes], tx: bytes | None) -> None:
        self.note([self.message(self.send(replace(kind.message(), body=body), name, tx)) for body in bodies])

    def note(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.bodies[message.identifier.encode()] = message.body

    def receive_all(self, name: str, count: int, tx: bytes | None) -> None:
        for _ in range(count):
            try:
                self.got.append(self.known(self.message(self.receive(name, ReadOptions(transaction=tx)))))
            except Timeout:
                break

    def wait(self, name: str, tx: bytes | None) -> None:
        self.waits.append(self.receive(name, ReadOptions(timeout_ms=None, transaction=tx)))

    def hold_first(self, name: str) -> None:
        try:
            self.begin_receive(name)
        except Timeout:
            self.got.append(None)

    def move_first(self, tx: bytes | None) -> None:
        first = self.queue().positions.first_available(1)
        if first and tx is None:
            self.move(first[0], PART)
        elif first:
            # An application moves in no transaction here: the event itself (MS-MQDMPR 3.1.7.1.16).
            with self.node.kernel.operation(self.now):
                move = self.node.manager.writing.move_message
                move(self.queue(), first[0], self.queue().subqueues["part"], tx, self.now)

    def end(self, tx: bytes, *, commits: bool) -> None:
        with patch("waypost.core.transactions._simple_type", _never_together):
            self.end_transaction(tx, commits=commits)

    def end_transaction(self, tx: bytes, *, commits: bool) -> None:
        if tx not in self.node.manager.transactions.collection:
            return
        if tx not in self.external:
            self.done(self.commit(tx) if commits else self.abort(tx))
            return
        with self.node.kernel.operation(self.now):
            external = self.node.external
            external.dtc_transaction_prepare(tx, 0, self.now.wall)
            if commits:
                external.dtc_transaction_commit(tx, self.now.wall)
            else:
                external.dtc_transaction_abort(tx)
        self.settle()

    # What there is.

    def known(self, message: Message) -> object:
        """A message without the numbers that depend on the order of giving them."""
        packet = UserMessage.decode(packet_of(message))
        assert packet.user.message_id
        packet.user.message_id = 0
        about = self.bodies[packet.properties.correlation_id]
        packet.properties.correlation_id = NO_IDENTIFIER.encode()
        local = [getattr(message, name) for name in LOCAL_ATTRIBUTES if name != "lookup_identifier"]
        return packet.encode(), about, message.lookup_identifier >> SEQUENCE_BITS, local

    def in_queues(self) -> dict[str, object]:
        """Of each queue its messages in their order, with their states, and its size."""
        queues = self.node.manager.collection.by_number.values()
        return {f"{queue} {queue.is_journal}": self._in_queue(queue) for queue in queues}

    def _in_queue(self, queue: Queue) -> object:
        positions = queue.positions
        messages = [
            (self.known(message), positions.state(lookup_id), positions.is_shown(lookup_id))
            for lookup_id, message in zip(positions, self.contents(queue), strict=True)
        ]
        assert sum(len(packet_of(message)) for message in self.contents(queue)) == queue.total_bytes
        return messages, queue.total_bytes, len(positions), positions.first_available(2) == list(positions)[:2]

    def in_transactions(self) -> list[object]:
        return [
            (
                tx,
                transaction.number,
                [(each.operation_type, str(each.queue)) for each in transaction.operations.values()],
            )
            for tx, transaction in self.node.manager.transactions.collection.items()
        ]

    def in_store(self) -> list[object]:
        """Messages and positions in the order of their keys, the totals of queues, and transactions."""
        store = self.store
        totals = {
            number: store.get(Table.COUNTERS, keys.totals_key(number)) or TotalsRecord().encode()
            for number in self.node.manager.collection.by_number
        }
        return [
            [
                (keys.queue_id_of(key), self._stored(key, value))
                for key, value in store.scan(Table.MESSAGES, limit=10_000)
            ],
            [(keys.queue_id_of(key), value) for key, value in store.scan(Table.POSITIONS, limit=10_000)],
            totals,
            [(key, len(value)) for key, value in store.scan(Table.TRANSACTIONS)],
        ]

    def _stored(self, key: bytes, value: bytes) -> object:
        return self.known(message_of(value, keys.lookup_id_of(key)))

    def in_memory(self) -> tuple[int, int, int]:
        """How many messages are kept in memory, wait for the disk, and are to go because their time was over."""
        messages = self.node.messages
        assert messages._heads.keys() <= messages._volatile.keys()
        return len(messages._volatile), len(messages._pending), len(self.node.manager.positions._expired)

    def everything(self) -> list[object]:
        self.settle()
        # Every operation notes what has expired before it, and one of them has had more operations.
        self.node.manager.expire(self.now)
        ended = [self._ended(self.answers[request]) for request in self.waits if request in self.answers]
        return [
            self.in_queues(),
            self.in_transactions(),
            self.in_store(),
            self.in_memory(),
            self.node.manager.total_bytes,
            self.node.next_deadline(self.now),
            self.got,
            len(self.waits),
            ended,
        ]

    def _ended(self, answer: object) -> object:
        if isinstance(answer, list):
            (answer,) = answer
        return self.known(answer) if isinstance(answer, Message) else type(answer)


class Bulk(Workshop):
    """The same in one go. Some of the messages that were sent are looked at, which decodes them."""

    def send_all(self, name: str, kind: Kind, bodies: Sequence[bytes], tx: bytes | None) -> None:
        handle, call = self.open(name, SEND), self.call_for_many()
        self.handlers.messages.send_messages(call, handle, kind.message(), bodies, tx)
        messages = self.done(call.request)
        assert isinstance(messages, list)
        if len(bodies) % 2:
            assert [message.body for message in messages] == list(bodies)
        self.note(messages if len(bodies) % 2 else [stored_message(message.packet) for message in messages])

    def end(self, tx: bytes, *, commits: bool) -> None:
        self.end_transaction(tx, commits=commits)

    def receive_all(self, name: str, count: int, tx: bytes | None) -> None:
        try:
            messages = self.done(self.receive_many(count, name, ReadOptions(transaction=tx)))
        except Timeout:
            return
        assert isinstance(messages, list)
        self.got += map(self.known, messages)

    def wait(self, name: str, tx: bytes | None) -> None:
        # One that waits for several takes what comes together, which is nothing that one receive does.
        self.waits.append(self.receive_many(1, name, ReadOptions(timeout_ms=None, transaction=tx)))
