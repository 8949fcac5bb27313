"""RPC in the daemon: sockets, admission and authentication of remote readers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from socket import socket
from typing import Final

from waypost.clock import Now
from waypost.daemon.config import Rpc
from waypost.daemon.connection_guard import ConnectionGuard
from waypost.daemon.loading import ConfigError
from waypost.daemon.rpc_acceptors import acceptors
from waypost.errors import InvalidParameter
from waypost.node.remote_reading import RemoteReading, RemoteServing
from waypost.remote.context import RemoteSettings
from waypost.rpc.authentication import LEVELS, Acceptors, AuthLevel
from waypost.rpc.endpoint_mapper_interface import ANY_ADDRESS
from waypost.rpc.settings import RpcSettings


@dataclass(frozen=True, slots=True)
class RpcSockets:
    """The sockets of each listener; all empty if RPC is not enabled."""

    remote_read: Sequence[socket] = ()
    qm2qm: Sequence[socket] = ()
    mapper: Sequence[socket] = ()

    @property
    def by_port(self) -> list[tuple[int, socket]]:
        return [(_port([each]), each) for each in (*self.remote_read, *self.qm2qm, *self.mapper)]


def is_loopback_only(settings: Rpc) -> bool:
    """Whether only loopback may connect: no authentication, and no explicit level that allows this."""
    return not settings.min_auth_level and not _knows_users(settings)


class RpcGuard(ConnectionGuard):
    """Guard of remote readers. Without authentication, only programs on this computer may connect."""

    __slots__ = ("_is_loopback_only",)

    def __init__(self, settings: Rpc) -> None:
        super().__init__(settings.max_connections, settings.max_connections_per_peer, settings.refusals_per_minute)
        self._is_loopback_only: Final = is_loopback_only(settings)

    def admit(self, address: str, now: float) -> str | None:
        if self._is_loopback_only and not ip_address(address.partition("%")[0]).is_loopback:
            return "to allow remote readers, set rpc.users_file, rpc.kerberos or rpc.min_auth_level; see docs/config.md"
        return super().admit(address, now)


class RpcListener:
    """The facts of connections to one port: waypost.daemon.socket_facts.Facts for waypost.daemon.tcp."""

    __slots__ = ("_port", "_remote", "connection_lost", "data_received", "writing_paused", "writing_resumed")

    # A server does not wait for data of its clients.
    reading_paused: Final = None
    reading_resumed: Final = None
    # After its connection broke, a client gets no results of its calls.
    needs_answers: Final = True
    # A call takes as long as four messages of a session.
    packet_cost: Final = 4

    def __init__(self, remote: RemoteReading, port: int) -> None:
        self._remote: Final = remote
        self._port: Final = port
        self.data_received: Final = remote.data_received
        self.connection_lost: Final = remote.connection_lost
        self.writing_paused: Final = remote.writing_paused
        self.writing_resumed: Final = remote.writing_resumed

    def accept(self, address: str, now: Now) -> int | None:
        return self._remote.accept(self._port, address, now)


def serving(settings: Rpc, sockets: RpcSockets, bind: str) -> RemoteServing | None:
    """The RPC settings for the queue manager. Raises ConfigError for an invalid users file."""
    if not sockets.remote_read:
        return None
    default = AuthLevel.PRIVACY if _knows_users(settings) else AuthLevel.NONE
    level = LEVELS.get(settings.min_auth_level, default)
    return RemoteServing(
        RemoteSettings(pending_request_timeout_s=settings.pending_request_timeout_s, min_auth_level=level),
        RpcSettings(min_auth_level=level),
        _acceptors(settings.users_file),
        remote_read_port=_port(sockets.remote_read),
        qm2qm_port=_port(sockets.qm2qm),
        mapper_port=_port(sockets.mapper) if sockets.mapper else 0,
        mapper_address=IPv4Address(bind) if bind and ":" not in bind else ANY_ADDRESS,
    )


def stepped(settings: Rpc, sockets: RpcSockets) -> Iterator[str]:
    """A sentence for each port in use that another port replaces: firewalls need the new port."""
    for key, wanted, found in (
        ("rpc.port", settings.port, sockets.remote_read),
        ("rpc.qm2qm_port", settings.qm2qm_port, sockets.qm2qm),
    ):
        if wanted and found and _port(found) != wanted:
            yield f"TCP port {wanted} is in use; remote readers are served on port {_port(found)} instead ({key})."


def _acceptors(users_file: str) -> Acceptors:
    try:
        return acceptors(Path(users_file) if users_file else None)
    except InvalidParameter as error:
        sentence = str(error)
        raise ConfigError(f"{sentence[:1].upper()}{sentence[1:]}.", "check rpc.users_file.") from None


def _knows_users(settings: Rpc) -> bool:
    return bool(settings.users_file) or settings.kerberos


def _port(sockets: Sequence[socket]) -> int:
    port: int = sockets[0].getsockname()[1]
    return port
