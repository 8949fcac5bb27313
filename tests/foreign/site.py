"""A daemon with queues for foreign clients to read, and our own client to compare them with."""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

import waypost
from tests.crash.daemons import Daemon, loopback
from waypost.drive.rpc_security import Credentials, initiator
from waypost.remote.interfaces.qm2qm import QM2QM
from waypost.remote.interfaces.qmcomm import QMCOMM
from waypost.remote.interfaces.remote_read import REMOTE_READ
from waypost.rpc.authentication import AuthLevel, AuthType
from waypost.rpc.client import ClientConnection
from waypost.rpc.client_binding import ClientSecurity
from waypost.rpc.endpoint_mapper_interface import EPMAPPER
from waypost.rpc.faults import RpcFault
from waypost.rpc.interface import Interface, Parameters

DOMAIN: Final = "CORP"
USER: Final = "alice"
PASSWORD: Final = "s3cret"

# Long enough for a machine that does much else; no test waits until it is over.
SECONDS: Final = 60

LEVELS: Final = [AuthLevel.NONE, AuthLevel.INTEGRITY, AuthLevel.PRIVACY]

# On which port of a site each interface is.
PORTS: Final = {REMOTE_READ.uuid: 2103, QMCOMM.uuid: 2103, QM2QM.uuid: 2105, EPMAPPER.uuid: 2135}

INTERFACES: Final = [REMOTE_READ, QM2QM, QMCOMM, EPMAPPER]

# 4 MB is the most that a message can have.
LONG_BODY: Final = bytes(range(256)) * 16 * 1000


@dataclass(frozen=True)
class Faulted:
    """The result of a call that ended in a fault."""

    status: int


Ask = Callable[[Interface, int, Parameters], Any]


class Client(Protocol):
    """A connection to one interface, of our own or of a foreign stack."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def ask(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        """The reply as a record of ours, or Faulted."""


class Site:
    """The facts about the daemon for tests: its address, and its queues by another way than RPC."""

    def __init__(self, address: str, manager: waypost.Manager) -> None:
        self.address: Final = address
        self.manager: Final = manager

    def endpoint(self, interface: Interface) -> tuple[str, int]:
        return self.address, PORTS[interface.uuid]

    @contextmanager
    def asking(self, connect: Callable[[Interface], Client]) -> Iterator[Ask]:
        """Calls over a connection for each interface."""
        with ExitStack() as stack:
            clients = {each.uuid: stack.enter_context(connect(each)) for each in INTERFACES}
            yield lambda interface, opnum, request: clients[interface.uuid].ask(interface, opnum, request)

    def put(self, queue: str, *bodies: bytes) -> list[int]:
        """Their lookup identifiers."""
        return [message.lookup_id for message in self.manager.queue(queue).send_many(bodies, label="a label")]

    def put_in_transaction(self, queue: str, *bodies: bytes) -> list[int]:
        with self.manager.transaction() as transaction:
            sent = self.manager.queue(queue).send_many(bodies, label="a label", transaction=transaction)
        return [message.lookup_id for message in sent]

    def bodies(self, queue: str) -> list[bytes]:
        return [message.body for message in self.manager.queue(queue).browse()]


@contextmanager
def site(folder: Path, number: int) -> Iterator[Site]:
    """A daemon at the loopback address `number` that knows one user and demands nothing of anybody."""
    users = folder / "users"
    users.write_text(f"{DOMAIN}:{USER}:{PASSWORD}\n", encoding="utf-8")
    settings = (
        "rpc.min_auth_level=none",
        # With users, new queues are closed to other readers otherwise.
        "security.new_queues=msmq",
        f"rpc.users_file={users}",
        "rpc.epm=true",
        f"rpc.epm_port={PORTS[EPMAPPER.uuid]}",
    )
    with Daemon(folder, "host", loopback(number), *settings) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            yield Site(daemon.address, manager)
        assert daemon.stop() == 0


class OurClient:
    """Our own client, on a socket that blocks."""

    def __init__(
        self,
        endpoint: tuple[str, int],
        interfaces: Sequence[Interface],
        level: AuthLevel = AuthLevel.NONE,
        auth_type: AuthType = AuthType.NTLM,
        *,
        user: str = f"{DOMAIN}\\{USER}",
        password: str | None = PASSWORD,
    ) -> None:
        security = None
        if level is not AuthLevel.NONE:
            credentials = Credentials(user, password)
            security = ClientSecurity(initiator(auth_type, level, endpoint[0], credentials), level)
        self.connection: Final = ClientConnection(interfaces, security)
        self._socket: Final = socket.create_connection(endpoint, SECONDS)
        self.connection.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, interface: Interface, opnum: int, request: Parameters) -> Any:
        """The reply, or Faulted."""
        (reply,) = self.ask_all(interface, opnum, [request])
        return reply

    def ask_all(self, interface: Interface, opnum: int, requests: Sequence[Parameters]) -> list[Any]:
        """The replies to calls that are made at once."""
        calls = [self.connection.call(interface, opnum, request) for request in requests]
        ended: dict[int, Any] = {}
        while True:
            ended |= self.connection.take_results()
            self._socket.sendall(self.connection.take_output())
            if len(ended) == len(calls):
                return [_outcome(ended[call]) for call in calls]
            data = self._socket.recv(65536)
            if data:
                self.connection.feed(data)
            else:
                self.connection.closed()


def _outcome(result: Any) -> Any:
    if isinstance(result, RpcFault):
        return Faulted(result.status)
    if isinstance(result, Exception):
        raise result
    return result
