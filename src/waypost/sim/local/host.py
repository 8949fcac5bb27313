"""The one host of a local simulation, with the model beside its node, and remote readers.

Node and model get the same requests; see waypost.sim.local.compared_node.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.core.external_transactions import EnlistResourceManager, ReenlistTransaction
from waypost.hresult import HResult
from waypost.node.effects import (
    Close,
    Commit,
    Connect,
    Effect,
    HoldReading,
    Notice,
    Resolve,
    SendDatagram,
    ToCoordinator,
    Write,
)
from waypost.node.kernel import Call
from waypost.node.recovery import Settings
from waypost.node.remote_reading import RemoteReading
from waypost.sim.client import Ask, Asker, Result
from waypost.sim.clock import Clock
from waypost.sim.host import Host
from waypost.sim.local import checks
from waypost.sim.local.arguments import COMPUTER
from waypost.sim.local.compared_node import ComparedNode
from waypost.sim.local.history import History
from waypost.sim.model.enlistments import ABORTED, TIMED_OUT
from waypost.sim.model.model import Model
from waypost.sim.model.remote import ModelRemote, RemoteCall
from waypost.sim.operations import Coordinate
from waypost.sim.violation import Violation
from waypost.store.port import Batch

if TYPE_CHECKING:
    from waypost.sim.local.simulation import LocalSimulation


class LocalHost(Host["LocalSimulation"]):
    def __init__(self, simulation: "LocalSimulation") -> None:
        rng = simulation.rng
        clock = Clock(rng.uniform(0, 1e6), 1.7e9 + rng.uniform(0, 1e6), rng.uniform(0.97, 1.03))
        super().__init__(COMPUTER, simulation, clock)
        self._remote: Final = simulation.remote
        self.model: Final = Model(simulation.marks, self.swarm)
        self.history: Final = History()
        # The transactions that were in doubt at the last start.
        self.reenlisted: list[bytes] = []
        self._compared_node: Final = ComparedNode(self.model, simulation.interval)
        self.start()

    def think(self) -> float:
        """Let applications leave some time to remote readers, which need a round trip for every step."""
        pace = 1 if self._remote is None or self.simulation.is_healing else 8
        return super().think() * pace

    def _settings(self) -> Settings:
        serving = None if self._remote is None else self._remote.serving
        return Settings(COMPUTER, quota=self.swarm.limits.quota, remote=serving)

    def _new_guid(self) -> bytes:
        """A new GUID, which the model learns too: a stage is on the disk under its GUID, even without an answer."""
        guid = self.model.known.last_guid = super()._new_guid()
        return guid

    def _starting(self) -> None:
        """Check that the store has exactly what the model knows to be durable."""
        self.reenlisted = []
        checks.check_store(self.disk.store, self.model)

    def _started(self, now: Now) -> None:
        self._compared_node.start(self.node, self.disk.store, now)

    def _crashing(self) -> None:
        if self.model.readers.waits:
            self.simulation.marks.sometimes("a crash while clients wait for messages")

    def _ended(self, asks: Sequence[Ask]) -> None:
        self.history.crashed(asks)
        self.model.crash()

    def _went_down(self) -> None:
        if self._remote is not None:
            self._remote.went_down()

    def _close_connections(self) -> None:
        """The node closes all connections."""
        if self._remote is not None:
            self._stop_remote()

    def sealed(self, batch: Batch) -> None:  # noqa: ARG002
        self.model.disk.seal()

    def completed(self, count: int) -> None:
        self.model.disk.complete(count)

    # Operations and timers.

    def _ask(self, client: Asker, ask: Ask, call: Call) -> HResult:
        status = super()._ask(client, ask, call)
        self._compared_node.asked(call, ask, status)
        return status

    def _key(self, ask: Ask, request: int) -> object:
        """The answer to a coordinator has no request number: it is a promise about a transaction."""
        asked = ask.operation
        return asked.identifier if isinstance(asked, Coordinate) and not asked.is_in_doubt else request

    def _asked(self, ask: Ask, result: Result) -> None:
        if not result.is_ok:
            self.history.answered(ask, result)

    def _tick(self, now: Now) -> None:
        self._compared_node.tick(now)

    def _next_deadline(self, now: Now) -> float | None:
        """After every change of node and model: check that they agree, and wake up in time."""
        return self._compared_node.compare(now)

    # Effects.

    def _reported(self) -> None:
        store, node = self.disk.store, self.node
        self.model.trouble, self.model.is_low = node.kernel.trouble is not None, node.kernel.room.is_low
        if not store.pending and not node.messages.batch.operations:
            checks.check_memory(node)

    def _taking(self, effects: Sequence[Effect]) -> None:
        if self.model.disk.making and not any(type(effect) is Commit for effect in effects):
            raise Violation("durable state was changed, but no batch contains this change")

    def _carry(self, effect: Connect | Write | Close | HoldReading | Resolve | SendDatagram | Notice) -> None:
        if self._remote is None:
            raise Violation(f"{self.name} requests {effect!r}, but the simulation has no network")
        self._remote.carry(self, effect)

    def _tell_coordinator(self, effect: ToCoordinator) -> None:
        message = effect.message
        match message:
            case ReenlistTransaction(identifier):
                self.note(identifier[0], "reenlist", identifier.hex()[:8])
                self.reenlisted.append(identifier)
            case EnlistResourceManager():
                pass
            case _:
                self._tell_outcome(type(message).__name__, message.transaction)

    def _tell_outcome(self, message: str, transaction: bytes) -> None:
        expected = self.model.expected
        key = message, transaction
        if message == ABORTED and (TIMED_OUT, transaction) in expected:
            key = TIMED_OUT, transaction
        if key in expected and expected[key].is_notice:
            self.note(transaction[0], "the coordinator hears", message, "of", transaction.hex()[:8])
            self._compared_node.answered(key, f"{message} of {transaction.hex()[:8]}", Result(0))
        else:
            self._answered(key, HResult.MQ_OK, message)

    def _check_answer(self, key: object, ask: Ask, result: Result) -> Sequence[object]:
        if key not in self.model.expected:
            raise Violation(f"request {key}: expected no answer, but found {result.status.name}")
        answer = self._compared_node.answered(key, ask, result)
        if answer.needs:
            self.simulation.marks.sometimes("an answer that depends on a durable batch")
        self.history.answered(ask, result)
        return answer.messages

    # Remote readers.

    @property
    def remote_model(self) -> ModelRemote:
        return self.model.remote

    def accept_remote(self, port: int, address: str) -> int | None:
        """The number of the connection."""
        accepted: list[int] = []

        def accept(remote: RemoteReading, now: Now) -> None:
            number = remote.accept(port, address, now)
            if number is not None:
                accepted.append(number)

        life = self.life
        self.tell_remote(accept, lambda model: model.accept(accepted[0], address))
        return accepted[0] if life == self.life else None

    def tell_remote(
        self, tell_node: Callable[[RemoteReading, Now], object], tell_model: Callable[[ModelRemote], None] | None = None
    ) -> None:
        """Pass a fact of a connection to the node and to the model."""
        self.tell(lambda now: self._compared_node.tell(tell_node, tell_model, now))

    def remote_lost(self, connection: int) -> None:
        self.tell_remote(
            lambda remote, now: remote.connection_lost(connection, now), lambda model: model.lost(connection)
        )
        if self.is_up:
            checks.check_states(self.node, self.model)
            checks.check_connections(self.node, self.model)

    def _stop_remote(self) -> None:
        now = self.now
        self._tick_if_due(now)
        self._compared_node.stop_remote(now)
        self._schedule_tick(now)

    def answer_number(self, call: RemoteCall) -> int:
        """The place of the answer to a call among all answers."""
        answer = self.model.expected.get(call.request)
        if answer is None:
            raise Violation(f"{call}: expected no answer, but found an answer")
        return answer.number

    def remote_answered(self, call: RemoteCall, reply: object) -> None:
        status = getattr(reply, "hresult", HResult.MQ_OK)
        answer = self._compared_node.remote_answered(call, status, reply)
        self.note(status, call.request, "is answered", f"{status:#x}", *answer.messages)

    def remote_faulted(self, call: RemoteCall, status: int) -> None:
        self._compared_node.remote_answered(call, status, None)
        self.note(status, call.request, "ends with fault", f"{status:#x}")

    # Healing.

    def _healing(self) -> None:
        if self._remote is not None:
            self._remote.heal()

    @property
    def is_healed(self) -> bool:
        return self.is_up and self.clients[0].is_done

    def check_healed(self) -> None:
        """Check the end: the queues are empty, no client waits, nothing is left in memory or on the disk."""
        model, node = self.model, self.node
        if model.expected or model.readers.waits:
            raise Violation(f"the simulation has ended, but these requests have no answer: {self.unanswered}")
        left = [queue.key for queue in model.state.queues.values() if queue.order]
        if left or model.state.total_bytes:
            raise Violation(f"the queues {left} did not become empty")
        self._persisted(self.disk.finish())
        checks.check_all(node, model, self.now)
        checks.check_store(self.disk.store, model)
        checks.check_memory(node)
        checks.check_left_behind(node)
        self.history.drained()
