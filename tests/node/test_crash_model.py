"""Any operations, any progress of the disk, a crash at any point: what was answered holds, and nothing is half done.

A start on a store reads and changes nothing before its first batch, so after every batch that becomes durable another
node starts on the same store and shows what a crash would have left at this point.
"""

from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.node.model import DONE, LEDGER, ORDERS, PAID, QUEUES, Entry, Model, View
from tests.node.rig import (
    EXPRESS,
    OTHER_TX,
    RECOVERABLE,
    SEND,
    SETTINGS,
    TX,
    ReadOptions,
    Rig,
    contents,
    direct,
    letter,
)
from waypost.core.message import Message
from waypost.core.positions import START
from waypost.core.queues import AccessType
from waypost.errors import Timeout
from waypost.node.node import Node

TRANSACTIONS = st.sampled_from((TX, OTHER_TX))
READ_QUEUES = st.sampled_from(QUEUES)
PHASE = b"two-phase read"


class Crashes(RuleBasedStateMachine):
    """A node beside the model of what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.rig.modify(ORDERS, journaling=True)
        self.rig.create(LEDGER, transactional=True)
        self.model = Model()
        self.bodies = map(str.encode, map(str, count(1)))
        self.started()

    def started(self) -> None:
        """Open what the rules use, and hold the disk."""
        for name in (ORDERS, LEDGER):
            self.rig.open(name, SEND)
        for name in QUEUES:
            self.rig.open(name)
        for name in (DONE, PAID):
            self.rig.open(name, AccessType.MOVE)
        self.rig.hold_disk()
        self.two_phase: Entry | None = None
        self.read_id = 0
        # For every request the batch that has to be durable before the answer, and the bodies that are to be told.
        self.asked: dict[int, tuple[int, list[bytes]]] = {}
        self.views: dict[int, tuple[View, Model]] = {len(self.rig.submitted): self.snapshot()}
        self.model.batch = len(self.rig.submitted) + 1

    def snapshot(self) -> tuple[View, Model]:
        return self.model.view(), self.model.after_a_crash()

    def note(self, request: int, before: View, *told: Entry) -> None:
        """The answer waits for the batch if something durable has changed, and for the messages that it shows."""
        changed = self.model.batch if self.model.view() != before else 0
        batch = max(changed, *(entry.written for entry in told), 0)
        self.asked[request] = batch, [entry.body for entry in told]

    # Operations.

    @rule(priority=st.integers(0, 7), recoverable=st.booleans())
    def send(self, priority: int, *, recoverable: bool) -> None:
        before, body = self.model.view(), next(self.bodies)
        guarantee = RECOVERABLE if recoverable else EXPRESS
        request = self.rig.send(letter("", body=body, priority=priority, delivery_guarantee=guarantee))
        self.note(request, before, self.model.send(ORDERS, body, priority, recoverable=recoverable))

    @rule()
    def send_two(self) -> None:
        before, bodies = self.model.view(), [next(self.bodies), next(self.bodies)]
        request = self.rig.send_many(bodies)
        self.note(request, before, *(self.model.send(ORDERS, body, 3, recoverable=True) for body in bodies))

    @rule(tx=TRANSACTIONS)
    def send_in(self, tx: bytes) -> None:
        self.begin(tx)
        body = next(self.bodies)
        self.rig.send(letter("", body=body), LEDGER, tx)
        self.model.send_in(tx, LEDGER, body)

    @rule(tx=TRANSACTIONS)
    def send_two_in(self, tx: bytes) -> None:
        self.begin(tx)
        bodies = [next(self.bodies), next(self.bodies)]
        self.rig.send_many(bodies, LEDGER, tx)
        for body in bodies:
            self.model.send_in(tx, LEDGER, body)

    def begin(self, tx: bytes) -> None:
        if tx not in self.model.transactions:
            self.rig.begin(tx)
            self.model.transactions[tx] = []

    @rule(name=READ_QUEUES)
    def receive(self, name: str) -> None:
        before, entry = self.model.view(), self.model.first(name)
        if entry is None:
            with pytest.raises(Timeout):
                self.rig.receive(name)
            return
        request = self.rig.receive(name)
        self.model.receive(name, entry)
        self.note(request, before, entry)

    @rule(name=READ_QUEUES, tx=st.none() | TRANSACTIONS)
    def receive_two(self, name: str, tx: bytes | None) -> None:
        before, entries = self.model.view(), self.model.available(name)[:2]
        if not entries:
            return
        if tx is not None:
            self.begin(tx)
        request = self.rig.receive_many(2, name, ReadOptions(transaction=tx))
        for entry in entries:
            if tx is None:
                self.model.receive(name, entry)
            else:
                self.model.lock(entry, tx, "receive")
        self.note(request, before, *entries)

    @rule(name=READ_QUEUES)
    def peek(self, name: str) -> None:
        entry = self.model.first(name)
        if entry is not None:
            self.note(self.rig.peek(name), self.model.view(), entry)

    @rule(name=READ_QUEUES, tx=TRANSACTIONS)
    def receive_in(self, name: str, tx: bytes) -> None:
        entry = self.model.first(name)
        if entry is not None:
            self.begin(tx)
            request = self.rig.receive(name, ReadOptions(transaction=tx))
            self.note(request, self.model.view(), entry)
            self.model.lock(entry, tx, "receive")

    @rule()
    def move(self) -> None:
        entry, before = self.model.first(ORDERS), self.model.view()
        if entry is not None:
            request = self.rig.move(self.rig.queue(ORDERS).positions.next_available(START), DONE)
            self.model.move(entry)
            self.note(request, before)

    @rule(tx=TRANSACTIONS)
    def move_in(self, tx: bytes) -> None:
        entry, before = self.model.first(LEDGER), self.model.view()
        if entry is not None:
            self.begin(tx)
            request = self.rig.move(self.rig.queue(LEDGER).positions.next_available(START), PAID, tx, LEDGER)
            self.model.lock(entry, tx, "move")
            self.note(request, before)

    @precondition(lambda self: self.two_phase is None)
    @rule()
    def begin_receive(self) -> None:
        entry = self.model.first(ORDERS)
        if entry is not None:
            self.read_id = self.rig.queue(ORDERS).positions.next_available(START)
            self.note(self.rig.begin_receive(), self.model.view(), entry)
            self.model.lock(entry, PHASE)
            self.two_phase = entry

    @precondition(lambda self: self.two_phase is not None)
    @rule(delete=st.booleans())
    def end_receive(self, *, delete: bool) -> None:
        assert self.two_phase is not None
        before = self.model.view()
        request = self.rig.end_receive(self.read_id, delete=delete)
        self.model.end_receive(self.two_phase, delete=delete)
        self.two_phase = None
        self.note(request, before)

    @rule(name=READ_QUEUES)
    def purge(self, name: str) -> None:
        before = self.model.view()
        request = self.rig.purge(name)
        self.model.purge(name)
        self.note(request, before)

    @rule(tx=TRANSACTIONS, commit=st.booleans())
    def end_transaction(self, tx: bytes, *, commit: bool) -> None:
        if tx in self.model.transactions:
            before = self.model.view()
            request = self.rig.commit(tx) if commit else self.rig.abort(tx)
            (self.model.commit if commit else self.model.abort)(tx)
            self.note(request, before)

    # The shell, the disk, and the end.

    @rule()
    def turn(self) -> None:
        before = len(self.rig.submitted)
        self.rig.turn()
        if len(self.rig.submitted) > before:
            self.views[self.model.batch] = self.snapshot()
            self.model.batch += 1
        self.check_answers()

    @rule()
    def write(self) -> None:
        self.turn()
        if self.rig.pending:
            self.rig.write()
        self.check_answers()
        node = Node(self.rig.store, SETTINGS, lambda: b"\xff" * 16, self.rig.now)
        assert durable(node) == self.views[self.written][0]

    @rule(rarely=st.sampled_from((False, False, False, True)), share=st.integers(0, 3))
    def crash(self, *, rarely: bool, share: int) -> None:
        if not rarely:
            return
        written = min(share, self.rig.pending)
        view, model = self.views[self.written + written]
        self.rig.crash(written=written)
        assert durable(self.rig.node) == view
        self.model = model
        self.started()

    @property
    def written(self) -> int:
        """Number of durable batches, as far as the node knows."""
        return len(self.rig.submitted) - self.rig.pending

    def check_answers(self) -> None:
        """Nothing is told too early, and when the disk has nothing to do everything is told."""
        for request in [request for request in self.asked if request in self.rig.answers]:
            batch, bodies = self.asked.pop(request)
            assert batch <= self.written
            answer = self.rig.answers[request]
            told = answer if isinstance(answer, list) else [answer] if isinstance(answer, Message) else []
            assert [message.body for message in told] == bodies
        assert self.rig.pending or not self.asked


def durable(node: Node) -> View:
    """Contents of a node that has just started. Its totals are those of its messages."""
    view: View = {}
    for name in QUEUES:
        queue = node.manager.find_queue(direct(name))
        messages = [] if queue is None else contents(node, queue)
        view[name] = [(message.body, message.abort_count, message.move_count) for message in messages]
        assert queue is None or queue.total_bytes == sum(len(message.packet) for message in messages)
    assert node.manager.total_bytes == sum(queue.total_bytes for queue in node.manager.collection.by_number.values())
    return view


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=60, stateful_step_count=60)
