"""A node and the model beside it: both are asked the same, and have to agree."""

from collections.abc import Callable
from typing import Final

from waypost.clock import Now
from waypost.core.message import Message
from waypost.errors import StoreError, WaypostError
from waypost.hresult import HResult, hresult_text
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.node.recovery import Settings
from waypost.node.remote_reading import RemoteReading
from waypost.sim.bulk.checks import check_bulk
from waypost.sim.client import Ask, Result
from waypost.sim.local import checks
from waypost.sim.model.model import Model
from waypost.sim.model.records import SEQUENCE, Answer, Key, Refused
from waypost.sim.model.remote import ModelRemote, RemoteCall
from waypost.sim.operations import Surface
from waypost.sim.remote.replies import check_reply
from waypost.sim.violation import Violation
from waypost.store.memory import MemoryStore


class ComparedNode:
    """The node of one life after the other, all on one store, and the one model.

    After every `interval`th event the queues that changed are compared message by message, which takes a while.
    """

    node: Node
    _surface: Surface

    def __init__(self, store: MemoryStore, model: Model, settings: Settings, new_guid: Callable[[], bytes]) -> None:
        self.model: Final = model
        self.interval = 1
        self._store: Final = store
        self._settings: Final = settings
        self._draw_guid: Final = new_guid
        self._told: Final = checks.Counters()
        self._compared = 0

    def _new_guid(self) -> bytes:
        """The model is told: a stage is on the disk under its GUID, also if its answer never comes."""
        guid = self.model.known.last_guid = self._draw_guid()
        return guid

    def start(self, now: Now) -> Node:
        """After a crash, what the store has is what the model knows to be durable, and both begin with that."""
        model = self.model
        checks.check_store(self._store, model)
        try:
            self.node = Node(self._store, self._settings, self._new_guid, now)
        except StoreError as error:
            raise Violation(f"the queue manager does not start on its own store: {error}") from error
        self._surface = Surface(self.node)
        counters = checks.stored_counters(self._store)
        self._told.number = model.disk.highest_queue
        checks.check_counters(counters, self._told)
        if model.disk.queues:
            model.bring_back(counters.sequential_id, counters.number, now)
        else:
            model.start_anew(list(checks.own_queues(self.node)), now)
        checks.check_all(self.node, model, now)
        check_bulk(self.node, model)
        return self.node

    def ask(self, call: Call, ask: Ask) -> HResult:
        """How the operation ended, or that it is under way."""
        status, due = self._ask_node(call, ask), self._ask_model(call, ask)
        if status is not due:
            raise Violation(f"{ask} ended with {status.name}, and {due.name} was due")
        return status

    def tick(self, now: Now) -> None:
        works = not self.node.kernel.is_behind
        self.node.tick(now)
        self.model.tick(now, works=works)

    def compare(self, now: Now) -> float | None:
        """What was changed is the same on both sides. When the next tick is due, on the monotonic clock."""
        checks.check_counts(self.node, self.model)
        deadline = checks.due_with_index(self.node, self.model.next_deadline(now, works=not self.node.kernel.is_behind))
        self._compared += 1
        if self._compared % self.interval == 0:
            checks.check_touched(self.node, self.model)
            check_bulk(self.node, self.model)
            checks.check_deadline(self.node, deadline, now)
        return deadline

    def answered(self, key: Key, ask: object, result: Result) -> Answer:
        """The node has answered: that was due, it is the right answer, and what it says is durable."""
        answer = self.model.expected.pop(key)
        if answer.again is not None:
            self.model.expected[key] = answer.again
        if result.status is not answer.status:
            raise Violation(f"{ask} ended with {result.status.name}, and {answer.status.name} was due")
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

    # ModelRemote readers.

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
        """A fault has no reply."""
        answer = self.model.expected.pop(call.request)
        call.line.answers.pop(call.request, None)
        if status != answer.status or (reply is None) is not answer.is_fault:
            kind = "the fault" if reply is None else "the result"
            due = f"{'the fault' if answer.is_fault else 'the result'} {answer.status.name}"
            raise Violation(f"{call} ended with {kind} {hresult_text(status)}, and {due} was due")
        checks.check_durable(call, answer, self.model)
        if reply is not None:
            check_reply(call, answer, reply)
        if answer.learn is not None:
            answer.learn(reply)
        for message in answer.messages:
            self._told.sequential_id = max(self._told.sequential_id, message.lookup_id & SEQUENCE)
        return answer

    def _ask_node(self, call: Call, ask: Ask) -> HResult:
        try:
            self._surface.start(call, ask.operation)
        except WaypostError as error:
            return error.hresult
        return HResult.MQ_OK

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
        """Numbers that somebody knows are never given again."""
        self._told.sequential_id = max(self._told.sequential_id, message.lookup_identifier & SEQUENCE)
        # One that was not decoded yet stays so: that costs more than all else here.
        if type(message) is Message:
            self._told.ordinal = max(self._told.ordinal, message.identifier.ordinal)
