"""A remote reader: a host with a script, the real clients of both protocols, and connections to the node.

It is the shell of waypost.remote.client.conversations. A script may read over several connections of one association
at a time. Now and then the reader does not end a message, says that it did not arrive, or dies.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from waypost.clock import Now
from waypost.core.queues import AccessType, ShareMode
from waypost.errors import WaypostError
from waypost.hresult import HResult
from waypost.remote.client.conversations import Ask, Conversation
from waypost.remote.client.qm2qm import Qm2QmClient
from waypost.remote.client.reads import ClientIdentity, Opening, RemoteQueue
from waypost.remote.client.remote_read import RemoteReadClient
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.remote_read import RemoteReadAck
from waypost.rpc.client import ClientConnection
from waypost.rpc.faults import RpcFault
from waypost.sim.client import Pause, Result
from waypost.sim.local.arguments import format_name
from waypost.sim.local.history import uid_in
from waypost.sim.remote.links import Link, interfaces_of
from waypost.sim.remote.replies import packet_of
from waypost.sim.remote.tasks import Await, Begin, Die, Do, Ending, GiveUp, Local, Script, Task, is_end, is_start
from waypost.sim.remote.terminal import Terminal

if TYPE_CHECKING:
    from waypost.sim.remote.readers import RemoteReaders

# Seconds of pause before a message is ended and between steps.
_LONG: Final = 0.6


class Neglected(WaypostError):
    """The reader has got a message and does not end it."""


class Reader(Terminal):
    """A remote reader. `life` counts its starts and ends. `links` has the connections of all lives."""

    rr: RemoteReadClient
    qp: Qm2QmClient

    def __init__(self, remote: "RemoteReaders", name: str, address: str, make: "Callable[[Reader], Script]") -> None:
        self.name, self.address = name, address
        self.remote: Final = remote
        self.simulation: Final = remote.simulation
        self.rng: Final = remote.simulation.rng
        self.links: Final[dict[int, Link]] = {}
        self._identity: Final = ClientIdentity(self.rng.randbytes(16))
        self._make: Final = make
        self._numbers: Final = count(1)
        self._life = 0
        self._script: Script | None = None
        # The script waits for this: a conversation, or the node's answer to an application.
        self._awaited: Task | None = None
        self._asks_locally = False

    @property
    def life(self) -> int:
        return self._life

    def note(self, number: int, /, *words: object) -> None:
        self.remote.host.note(number, *words)

    def later(self, delay: float, action: Callable[[], None]) -> None:
        self.simulation.schedule(delay, action, self)

    # Lives.

    def start(self) -> None:
        if self.simulation.is_healing:
            return
        self._life += 1
        self.rr = RemoteReadClient(self._identity, lambda: self.rng.randbytes(16), REMOTE_READ_PORT)
        self.qp = Qm2QmClient(self._identity)
        self._script = self._make(self)
        self._go_on_later(None)

    def stop(self) -> None:
        """Stop without cleaning up."""
        if not self.is_up:
            return
        self._life += 1
        if self._script is not None:
            self._script.close()
        self._script = self._awaited = None
        self._asks_locally = False
        for link in self.links.values():
            link.is_over = True
            for task in link.tasks.values():
                task.conversation.close()
            link.tasks.clear()
        self.remote.wires.went_down(self)

    def die(self) -> None:
        self.note(0, self.name, "dies")
        self.simulation.marks.sometimes("a remote reader that crashes")
        self.stop()
        self.later(self.rng.uniform(0.0, 1.0), self.start)

    # The script.

    def open(
        self, key: str, access: AccessType = AccessType.RECEIVE, share: ShareMode = ShareMode.DENY_NONE
    ) -> Conversation[RemoteQueue]:
        """Open a queue over one of the two protocols."""
        opening = Opening(format_name(key), access, share)
        return self.rr.open(opening) if self.rng.random() < 0.6 else self.qp.open(opening)

    def _go_on_later(self, sent: object, delay: float | None = None) -> None:
        think = self.rng.random() * self.remote.host.faults.think
        self.later(think if delay is None else delay, lambda: self._go_on(sent))

    def _go_on(self, sent: Any) -> None:
        script = self._script
        if script is None:
            return
        try:
            step = script.send(sent)
        except StopIteration:
            self._script = None
            self._end_life()
            return
        match step:
            case Pause(seconds):
                self._go_on_later(None, seconds)
            case Do(task):
                self._awaited = task
                self._step(task, None)
            case Begin(task):
                self._step(task, None)
                self._go_on_later(task)
            case Await(task) if task.is_over:
                self._go_on_later(task)
            case Await(task):
                self._awaited = task
            case GiveUp(task):
                if task.link is not None and not task.link.is_over:
                    task.link.connection.cancel(task.call_id)
                    self._pump(task.link)
                self._go_on_later(None)
            case Local(ask):
                self._asks_locally = True
                host = self.remote.host
                result = host.perform(self, ask) if host.is_up else _unavailable()
                if result is not None:
                    self.answered(result)
            case Die():
                self.die()

    def _end_life(self) -> None:
        """Close the connections at the end of the script, or leave them open."""
        if self.rng.random() < 0.5:
            for link in [link for link in self.links.values() if not link.is_over]:
                link.connection.closed()
                link.is_over = True
                link.connection.take_results()
                link.tasks.clear()
                self.remote.wires.close(self, link.number)
        self.stop()
        self.later(self.rng.uniform(0.0, 0.3), self.start)

    def answered(self, result: Result) -> None:
        """Take the answer of the node to a local request."""
        if self._asks_locally:
            self._asks_locally = False
            self._go_on_later(result)

    def host_went_down(self) -> None:
        if self._asks_locally:
            self.answered(_unavailable())

    # Conversations.

    def _step(self, task: Task, value: object, error: WaypostError | None = None) -> None:
        try:
            ask = task.conversation.send(value) if error is None else task.conversation.throw(error)
        except StopIteration as stop:
            self._over(task, stop.value, None)
        except WaypostError as failure:
            self._over(task, None, failure)
        else:
            if is_end(ask):
                self._think_about(task, ask)
            else:
                self._ask(task, ask)

    def _over(self, task: Task, value: object, error: WaypostError | None) -> None:
        task.is_over, task.value, task.error = True, value, error
        if self._awaited is task:
            self._awaited = None
            self._go_on_later(task)

    def _think_about(self, task: Task, ask: Ask) -> None:
        """Decide, at once or after a while, what the reader does with a message."""
        drawn, chance = self.remote.drawn, self.rng.random()
        ending = Ending.ACK
        if task.ending is not None:
            ending = task.ending
        elif chance < drawn.death:
            ending = Ending.DIE
        elif chance < drawn.death + drawn.neglect:
            ending = Ending.NEGLECT
        elif chance < drawn.death + drawn.neglect + drawn.nack:
            ending = Ending.NACK
        delay = self.rng.random() * _LONG if self.rng.random() < 0.3 else 0.0
        self.later(delay, lambda: self._end(task, ask, ending))

    def _end(self, task: Task, ask: Ask, ending: Ending) -> None:
        match ending:
            case Ending.DIE:
                self.die()
            case Ending.NEGLECT:
                self._step(task, None, Neglected())
            case Ending.NACK:
                request: Any = ask.request
                self._ask(task, replace(ask, request=replace(request, ack=RemoteReadAck.RR_NACK)))
            case Ending.ACK:
                if task.uid is not None:
                    self.remote.host.history.ending(task.uid)
                self._ask(task, ask)

    def _ask(self, task: Task, ask: Ask) -> None:
        timeout = ask.timeout_s if self.remote.drawn.call_timeout is None else self.remote.drawn.call_timeout
        deadline = None if timeout is None else self.simulation.time + timeout
        port = ask.port or (QM2QM_PORT if ask.interface is QM2QM else REMOTE_READ_PORT)
        link = self._link(port, task.lane)
        call_id = link.connection.call(ask.interface, ask.opnum, ask.request, deadline)
        link.asked[call_id], link.tasks[call_id] = ask, task
        task.link, task.call_id = link, call_id
        if deadline is not None:
            self.later(deadline - self.simulation.time + 0.001, lambda: self._expire(link))
        self._pump(link)

    def _answered(self, task: Task, ask: Ask, result: object) -> None:
        """Pass the result of a call to its task, and before to the history."""
        if isinstance(result, WaypostError):
            if is_end(ask) and isinstance(result, RpcFault):
                self._ended(task, ask, HResult.MQ_ERROR)
            self._step(task, None, result)
            return
        if is_start(ask):
            task.uid = uid_in(packet_of(result), task.key)
        elif is_end(ask):
            self._ended(task, ask, getattr(result, "hresult", HResult.MQ_ERROR))
        self._step(task, result)

    def _ended(self, task: Task, ask: Ask, status: int) -> None:
        request: Any = ask.request
        if task.uid is None or request.ack != RemoteReadAck.RR_ACK:
            return
        history = self.remote.host.history
        if status == HResult.MQ_OK:
            history.ended(task.uid, None if task.transaction is None else task.transaction.identifier)
        else:
            history.not_ended(task.uid)

    # Connections.

    def _link(self, port: int, lane: int) -> Link:
        mine = [link for link in self.links.values() if link.port == port and not link.is_over]
        for link in mine:
            if link.lane == lane and link.connection.is_open_for_calls:
                return link
        group_id = next((link.connection.assoc_group_id for link in mine if link.connection.is_bound), 0)
        number = next(self._numbers)
        connection = ClientConnection(interfaces_of(port), assoc_group_id=group_id)
        link = self.links[number] = Link(self.name, number, port, lane, connection)
        self.remote.wires.connect(self, number, f"{self.remote.host.name}:{port}")
        return link

    def _pump(self, link: Link) -> None:
        """Carry the output of the client, and report the results of calls to their waiters."""
        connection = link.connection
        while True:
            output = connection.take_output()
            if output and not link.is_over:
                self.remote.wires.write(self, link.number, output)
            results = connection.take_results()
            if connection.is_closed and not link.is_over:
                link.is_over = True
                self.remote.wires.close(self, link.number)
            if not results:
                return
            for call_id, result in results:
                task = link.tasks.pop(call_id, None)
                if task is not None:
                    self._answered(task, link.asked[call_id], result)

    def _expire(self, link: Link) -> None:
        deadline = link.connection.next_deadline
        if not link.is_over and deadline is not None and deadline <= self.simulation.time:
            self.simulation.marks.sometimes("a remote call that times out")
            link.connection.expire(Now(self.simulation.time, 0.0))
            self._pump(link)

    def connected(self, connection: int, /) -> None:
        self.links[connection].connection.start()
        self._pump(self.links[connection])

    def connect_failed(self, connection: int, reason: str, /) -> None:  # noqa: ARG002
        self._gone(self.links[connection])

    def data_received(self, connection: int, data: bytes, /) -> None:
        link = self.links[connection]
        link.connection.feed(data)
        self._pump(link)

    def connection_lost(self, connection: int, /) -> None:
        self._gone(self.links[connection])

    def _gone(self, link: Link) -> None:
        link.is_over = True
        if link.tasks:
            self.simulation.marks.sometimes("a remote call whose connection is lost")
        link.connection.closed()
        self._pump(link)


def _unavailable() -> Result:
    return Result(0, HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE)
