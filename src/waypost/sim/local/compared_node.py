"""A node and the model beside it: both get the same requests, and have to agree."""

from collections.abc import Callable
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.hresult import HResult, hresult_text
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.remote_reading import RemoteReading
from waypost.sim.bulk.checks import check_bulk
from waypost.sim.client import Ask, Result
from waypost.sim.local import checks
from waypost.sim.model.model import Model
from waypost.sim.model.records import SEQUENCE, Answer, Key, Refused
from waypost.sim.model.remote import ModelRemote, RemoteCall
from waypost.sim.remote.replies import check_reply
from waypost.sim.violation import Violation
from waypost.store.memory import MemoryStore


class ComparedNode:
    """The nodes of all lives, one after the other on one store, and the one model.

    After every `interval`th event the queues that changed are compared message by message, which takes a while.
    """

    node: Node

    def __init__(self, model: Model, interval: int) -> None:
        self.model: Final = model
        self._interval: Final = interval
        self._told: Final = checks.Counters()
        self._compared = 0

    def start(self, node: Node, store: MemoryStore, now: Now) -> None:
        """Start both from the durable state."""
        self.node, model = node, self.model
        counters = checks.stored_counters(store)
        self._told.number = model.disk.highest_queue
        checks.check_counters(counters, self._told)
        if model.disk.queues:
            model.bring_back(counters.sequential_id, counters.number, now)
        else:
            model.start_anew(list(checks.own_queues(node)), now)
        checks.check_all(node, model, now)
        check_bulk(node, model)

    def asked(self, call: Call, ask: Ask, status: HResult) -> None:
        """Pass to the model a request that the node got, with the node's outcome, or MQ_OK if it is under way."""
        due = self._ask_model(call, ask)
        if status is not due:
            raise Violation(f"{ask}: expected {due.name}, but found {status.name}")

    def tick(self, now: Now) -> None:
        works = not self.node.kernel.is_behind
        self.node.tick(now)
        self.model.tick(now, works=works)

    def compare(self, now: Now) -> float | None:
        """Compare the changes of both sides. Returns the time of the next tick, on the monotonic clock."""
        checks.check_counts(self.node, self.model)
        deadline = checks.due_with_index(self.node, self.model.next_deadline(now, works=not self.node.kernel.is_behind))
        self._compared += 1
        if self._compared % self._interval == 0:
            checks.check_touched(self.node, self.model)
            check_bulk(self.node, self.model)
            checks.check_deadline(self.node, deadline, now)
        return deadline

    def answered(self, key: Key, ask: object, result: Result) -> Answer:
        """Check an answer of the node: it was due, it is the right one, and the changes behind it are durable."""
        answer = self.model.expected.pop(key)
        if answer.again is not None:
            self.model.expected[key] = answer.again
        if result.status is not answer.status:
            raise Violation(f"{ask}: expected {answer.status.name}, but found {result.status.name}")
        if result.is_ok:
            checks.check_durable(ask, answer, self.model)
            if answer.check is not None:
                answer.check(result.value)
                self._told.sequential_id = max(self._told.sequential_id, answer.told)
            if answer.messages:
                checks.check_value(ask, answer, result.messages)
            if answer.learn is not None:
                answer.learn(result.value)
            for message in result.messages:
                self._tell(message)
        return answer

    # Remote readers.

    def tell(
        self,
        tell_node: Callable[[RemoteReading, Now], object],
        tell_model: Callable[[ModelRemote], None] | None,
        now: Now,
    ) -> None:
        assert self.node.remote is not None
        tell_node(self.node.remote, now)
        if tell_model is not None:
            self.model.begin(now)
            tell_model(self.model.remote)
            self.model.end()

    def stop_remote(self, now: Now) -> None:
        assert self.node.remote is not None
        self.node.remote.stop(now)
        for connection in self.model.remote.connections:
            self.model.begin(now)
            self.model.remote.lost(connection)
            self.model.end()

    def remote_answered(self, call: RemoteCall, status: int, reply: object) -> Answer:
        """Compare the end of a remote call. A fault has no reply."""
        answer = self.model.expected.pop(call.request)
        call.line.answers.pop(call.request, None)
        if status != answer.status or (reply is None) is not answer.is_fault:
            kind = "the fault" if reply is None else "the result"
            due = f"{'the fault' if answer.is_fault else 'the result'} {answer.status.name}"
            raise Violation(f"{call}: expected {due}, but found {kind} {hresult_text(status)}")
        checks.check_durable(call, answer, self.model)
        if reply is not None:
            check_reply(call, answer, reply)
        if answer.learn is not None:
            answer.learn(reply)
        for message in answer.messages:
            self._told.sequential_id = max(self._told.sequential_id, message.lookup_id & SEQUENCE)
        return answer

    def _ask_model(self, call: Call, ask: Ask) -> HResult:
        self.model.begin(call.now)
        try:
            self.model.start(call, ask.operation)
        except Refused as refused:
            return refused.status
        finally:
            self.model.end()
        return HResult.MQ_OK

    def _tell(self, message: Message) -> None:
        """Check that numbers a client knows are never given again."""
        self._told.sequential_id = max(self._told.sequential_id, message.lookup_identifier & SEQUENCE)
        # A message that is not decoded yet stays so: decoding costs more than everything else here.
        if type(message) is Message:
            self._told.ordinal = max(self._told.ordinal, message.identifier.ordinal)
