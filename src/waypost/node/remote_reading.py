"""The server of remote readers: MS-MQRR and MS-MQQP over RPC, joined with the core.

The shell reports facts, each as one operation of the node, as for waypost.node.network. The answers of the servers
leave when all changes of the operation are durable, and in the order in which they were written on a connection: the
signatures of a secured connection have numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import Final

from waypost.clock import Now
from waypost.core.external_transactions import ExternalTransactions
from waypost.core.ports import ReadEnded
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, Queue
from waypost.core.reading import Read
from waypost.node.access import QUEUE_RIGHTS, Access
from waypost.node.effects import Close, Effect, HoldReading, Write
from waypost.node.kernel import Kernel
from waypost.node.purging import Purges
from waypost.node.turns import Work
from waypost.node.users import Users
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT, ReadThen, RemoteSettings
from waypost.remote.cursors import RemoteCursors
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.remote.qm2qm.qmcomm import QmcommServer
from waypost.remote.qm2qm.remote_queues import RemoteQueues
from waypost.remote.qm2qm.server import Qm2qmServer
from waypost.remote.remote_read.coordinator import LocalCoordinator, NoCoordinator
from waypost.remote.remote_read.server import RemoteReadServer
from waypost.rpc.authentication import Acceptors, AuthLevel, Caller
from waypost.rpc.endpoint_mapper import Registration, endpoint_mapper
from waypost.rpc.endpoint_mapper_interface import ANY_ADDRESS
from waypost.rpc.server import ALL, RpcServer
from waypost.rpc.settings import RpcSettings
from waypost.rpc.statistics import RpcStatistics
from waypost.security.access import caller_of
from waypost.security.callers import Caller as Account

# Seconds that a client may take to bind.
BIND_SECONDS: Final = 20.0


def _nobody(_auth_type: int) -> None:
    return None


def _unknown(_caller: Caller) -> None:
    return None


def _origin(caller: Caller) -> str:
    return f"rpc {caller.address}"


@dataclass(frozen=True, slots=True)
class RemoteServing:
    """Settings and ports of the server of remote readers. `mapper_port` 0: no endpoint mapper.

    `identify` gives the account of a caller that the shell knows, with its SID and groups. Others have the account that
    a Kerberos ticket names, or are users of this queue manager by name, or one of the authenticated users of the
    network, or anonymous. `is_own_account`: the shell lets only its own account connect without a name, which is the
    local administrator until the first user is added.

    `level_with_users` is the least protection of calls from the first user on, until the next start; None if users
    do not change it.

    `has_coordinator`: a coordinator gets the transactions of remote readers (ToCoordinator) and decides their outcome.
    Without one they are refused.
    """

    settings: RemoteSettings = field(default_factory=RemoteSettings)
    rpc: RpcSettings = field(default_factory=RpcSettings)
    acceptors: Acceptors = _nobody
    identify: Callable[[Caller], Account | None] = _unknown
    is_own_account: bool = False
    level_with_users: AuthLevel | None = None
    remote_read_port: int = REMOTE_READ_PORT
    qm2qm_port: int = QM2QM_PORT
    mapper_port: int = 0
    mapper_address: IPv4Address = ANY_ADDRESS
    has_coordinator: bool = False


class RemoteReading:
    """RemoteHost of waypost.remote.context, and the calls of a shell about connections of remote readers."""

    __slots__ = (
        "_access",
        "_addresses",
        "_identify",
        "_is_own_account",
        "_kernel",
        "_last_connection",
        "_purges",
        "_queues",
        "_remote_read",
        "_rpc",
        "_settings",
        "_settings_with_users",
        "_users",
        "_waits",
        "connections",
        "coordinator",
        "cursors",
        "manager",
        "new_guid",
        "qm2qm_port",
        "remote_read_port",
        "waiting",
    )

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        serving: RemoteServing,
        new_guid: Callable[[], bytes],
        *,
        access: Access,
        users: Users,
        external: ExternalTransactions,
        purges: Purges,
    ) -> None:
        self._kernel: Final = kernel
        self.manager: Final = manager
        self._access: Final = access
        self._identify: Final = serving.identify
        self._is_own_account: Final = serving.is_own_account
        self._users: Final = users
        self._purges: Final = purges
        level = serving.level_with_users
        self._settings: Final = serving.settings
        self._settings_with_users: Final = (
            serving.settings if level is None else replace(serving.settings, min_auth_level=level)
        )
        rpc = serving.rpc if level is None else replace(serving.rpc, level_now=lambda: self.settings.min_auth_level)
        self.new_guid: Final = new_guid
        self.remote_read_port: Final = serving.remote_read_port
        self.qm2qm_port: Final = serving.qm2qm_port
        self.coordinator: Final = (
            LocalCoordinator(manager.transactions, external, serving.settings.transaction_timeout_s, kernel.timers)
            if serving.has_coordinator
            else NoCoordinator()
        )
        self.cursors: Final = RemoteCursors(manager)
        self._waits: dict[int, ReadThen] = {}
        # Negative numbers, unlike those of waypost.node.network; with the last batch that an answer waits for.
        self.connections: dict[int, int] = {}
        self._addresses: dict[int, str] = {}
        # Answers that wait for the disk, by the batch that they wait for: connection and size.
        self.waiting: dict[int, list[tuple[int, int]]] = {}
        self._last_connection = 0
        self._remote_read: Final = RemoteReadServer(self)
        self._queues: Final = RemoteQueues(manager, new_guid)
        qm2qm, qmcomm = Qm2qmServer(self, self._queues).service, QmcommServer(self, self._queues).service
        listeners = {
            self.remote_read_port: [self._remote_read.service, qmcomm],
            self.qm2qm_port: [qm2qm],
        }
        if serving.mapper_port:
            address = serving.mapper_address
            listeners[serving.mapper_port] = [
                endpoint_mapper(
                    [
                        Registration(REMOTE_READ, self.remote_read_port, address),
                        Registration(QMCOMM, self.remote_read_port, address),
                        Registration(QM2QM, self.qm2qm_port, address),
                    ]
                )
            ]
        self._rpc: Final = RpcServer(
            {str(port): services for port, services in listeners.items()}, serving.acceptors, new_guid, rpc
        )

    # Calls of the shell.

    def accept(self, port: int, address: str, now: Now) -> int | None:
        """Accept a connection to one of the ports. None if the shell has to close it at once."""
        if self._kernel.failure is not None:
            return None
        self._last_connection -= 1
        number = self._last_connection
        with self._kernel.operation(now):
            self.connections[number] = 0
            self._addresses[number] = address
            self._rpc.connected(number, str(port), address, now)
        deadline = now.monotonic + BIND_SECONDS
        self._kernel.timers.start((RemoteReading, number), deadline, lambda now: self._give_up(number, now))
        return number

    def data_received(self, connection: int, data: bytes, now: Now, most: int = ALL) -> Work:
        """Process received bytes: at most `most` fragments; the others wait for a call without data."""
        if connection not in self.connections:
            return Work(0, 0)
        with self._kernel.operation(now):
            failures = self.statistics.authentication_failures
            work = Work(*self._rpc.received(connection, data, now, most))
            if self.statistics.authentication_failures > failures:
                self._kernel.notice("remote reader refused", address=self._addresses[connection])
        return work

    def connection_lost(self, connection: int, now: Now) -> None:
        if connection in self.connections and self._kernel.failure is None:
            with self._kernel.operation(now):
                self._forget(connection)
                self._rpc.closed(connection, now)
                self._mind_turns()

    def writing_paused(self, connection: int, _now: Now) -> None:
        """Note that the client does not take its answers."""
        self._rpc.pause(connection)
        self._mind_turns()

    def writing_resumed(self, connection: int, _now: Now) -> None:
        self._rpc.resume(connection)
        self._mind_turns()

    def stop(self, now: Now) -> None:
        """Close every connection: messages that were locked for a reader are free again."""
        for connection in tuple(self.connections):
            self.connection_lost(connection, now)
            self._kernel.emit(Close(connection))

    @property
    def locked_messages(self) -> int:
        """Number of messages that were given to readers and not yet confirmed by them."""
        return self._remote_read.given_out + self._queues.given_out

    def _forget(self, connection: int) -> None:
        del self.connections[connection]
        del self._addresses[connection]

    # Calls of the node.

    def _give_up(self, connection: int, now: Now) -> None:
        """Close the connection of a client that did not bind in time."""
        if connection in self.connections and not self._rpc.is_known(connection):
            self._forget(connection)
            self._rpc.closed(connection, now)
            self._mind_turns()
            self._kernel.emit(Close(connection))

    def _mind_turns(self) -> None:
        """Give received bytes without a turn one with the next tick."""
        if self._rpc.can_go_on:
            self._kernel.timers.start(RpcServer, self._kernel.now.monotonic, self._rpc.go_on)
        else:
            self._kernel.timers.stop(RpcServer)

    def read_ended(self, ended: ReadEnded, now: Now) -> bool:
        """Whether the read was one of a remote reader."""
        then = self._waits.pop(ended.wait_id, None)
        if then is None:
            return False
        then(Read(ended.status, ended.message), now)
        return True

    def persisted(self, token: int) -> None:
        """Release the answers that waited for this batch."""
        for connection, size in self.waiting.pop(token):
            self._rpc.sent(connection, size)
        self._mind_turns()

    def take_output(self, token: int, durable: int) -> list[tuple[Effect, int]]:
        """The effects to carry out, each with the batch that must be durable before; `token` is that of the operation.

        Call it while there are connections, or transactions of readers without an outcome.
        """
        made = self._rpc.take_output()
        self.coordinator.settle()
        if self._rpc.cut_off:
            self._tell_cut_off()
        output: list[tuple[Effect, int]] = [
            (HoldReading(connection, is_held), 0) for connection, is_held in self._rpc.take_holds()
        ]
        connections = self.connections
        for connection, data in made:
            before = connections.get(connection)
            if before is None:
                continue
            wait = max(before, token)
            if data is None:
                self._forget(connection)
                output.append((Close(connection), wait))
            else:
                connections[connection] = wait
                output.append((Write(connection, data), wait))
                if wait <= durable:
                    self._rpc.sent(connection, len(data))
                else:
                    self.waiting.setdefault(wait, []).append((connection, len(data)))
        self._mind_turns()
        return output

    def _tell_cut_off(self) -> None:
        for connection, size in self._rpc.cut_off:
            address = self._addresses.get(connection, "")
            reason = "the unread answers of all remote readers exceed the limit, and this reader has the most of them"
            self._kernel.notice("remote reader cut off", address=address, bytes=size, reason=reason)
        self._rpc.cut_off.clear()

    # RemoteHost.

    @property
    def settings(self) -> RemoteSettings:
        """The settings of now: with the first user, calls need more protection."""
        return self._settings_with_users if self._users.had_any else self._settings

    @property
    def statistics(self) -> RpcStatistics:
        return self._rpc.statistics

    def may(self, caller: Caller, queue: Queue, access: AccessType) -> bool:
        known = self._account(caller)
        if known is None:
            return self._access.may_as(caller_of(caller.name), queue, QUEUE_RIGHTS[access])
        return self._access.may(known, queue, QUEUE_RIGHTS[access])

    def refused(self, caller: Caller, queue: Queue, access: AccessType) -> None:
        known = self._account(caller) or self._users.remote_caller(caller.name, _origin(caller))
        self._access.refusal(known, queue, QUEUE_RIGHTS[access])

    def _account(self, caller: Caller) -> Account | None:
        """The account of a caller; None for one without a known SID."""
        found = self._identify(caller)
        if found is not None:
            return found
        if caller.account is not None and caller.name is not None:
            account = self._users.domain_caller(caller.account, caller.name, _origin(caller))
            if account is not None:
                return account
        if caller.name is None:
            return self._access.administrator if self._is_own_account and not self._users.had_any else None
        known = self._users.remote_caller(caller.name, _origin(caller))
        return None if self._users.of_sid(known.sid) is None else known

    def await_read(self, wait_id: int, then: ReadThen) -> None:
        self._waits[wait_id] = then

    def purge(self, descriptor: OpenQueueDescriptor, then: Callable[[], None]) -> None:
        assert descriptor.queue is not None
        assert descriptor.access_type.can_receive
        self._purges.begin(self.manager.writing.begin_purge(descriptor.queue), then)
