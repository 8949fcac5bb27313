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
from waypost.daemon.rpc_users import Logons, read_users
from waypost.drive.local_daemons import account_name, own_account
from waypost.drive.socket_owners import account_of_peer
from waypost.errors import InvalidParameter
from waypost.node.remote_reading import RemoteReading, RemoteServing
from waypost.remote.context import RemoteSettings
from waypost.rpc.authentication import LEVELS, AuthLevel
from waypost.rpc.endpoint_mapper_interface import ANY_ADDRESS
from waypost.rpc.settings import RpcSettings
from waypost.rpc.statistics import RpcStatistics

_ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class RpcSockets:
    """The sockets of each listener; all empty if RPC is not enabled."""

    remote_read: Sequence[socket] = ()
    qm2qm: Sequence[socket] = ()
    mapper: Sequence[socket] = ()

    @property
    def by_port(self) -> list[tuple[int, socket]]:
        return [(_port([each]), each) for each in (*self.remote_read, *self.qm2qm, *self.mapper)]


def is_default(settings: Rpc) -> bool:
    """Whether users alone decide about access: no level, Kerberos or users file is configured.

    Then only the account of the daemon may connect, over loopback, until the first user is added.
    """
    return not settings.min_auth_level and not _knows_users(settings)


class RpcGuard(ConnectionGuard):
    """Guard of remote readers. Without authentication, only the account of the daemon and root may connect, from here.

    The account is checked before the first byte is answered. Only Linux reports the account; on other systems nobody
    may connect without authentication.
    """

    __slots__ = ("_is_default", "_logons", "_statistics")

    def __init__(self, settings: Rpc, logons: Logons, statistics: RpcStatistics) -> None:
        super().__init__(settings.max_connections, settings.max_connections_per_peer, settings.refusals_per_minute)
        self._is_default: Final = is_default(settings)
        self._logons: Final = logons
        self._statistics: Final = statistics

    def refuses(self, connection: socket) -> str | None:
        reason = self._refuses(connection)
        if reason is not None:
            self._statistics.connections_refused += 1
        return reason

    def _refuses(self, connection: socket) -> str | None:
        if not self._is_default or self._logons.had_users:
            return None
        try:
            address = ip_address(connection.getpeername()[0].partition("%")[0])
        except (OSError, ValueError):
            return "the peer closed the connection"
        if not address.is_loopback:
            return (
                "to allow remote readers, add users with `waypost user add NAME --ntlm`, or set rpc.kerberos or "
                "rpc.min_auth_level; see docs/security.md"
            )
        account = account_of_peer(connection)
        if account in (own_account(), _ROOT) and account is not None:
            return None
        who = "an unknown account" if account is None else f"the account {account_name(account)}"
        return (
            f"a program under {who} may not read without authentication; add users with "
            '`waypost user add NAME --ntlm`, set rpc.kerberos, or allow every program with rpc.min_auth_level = "none"'
        )


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


def serving(settings: Rpc, sockets: RpcSockets, bind: str, logons: Logons) -> RemoteServing | None:
    """The RPC settings for the queue manager. Raises ConfigError for an invalid users file."""
    if not sockets.remote_read:
        return None
    if settings.users_file:
        _check_users(Path(settings.users_file))
    default = AuthLevel.PRIVACY if _knows_users(settings) else AuthLevel.NONE
    level = LEVELS.get(settings.min_auth_level, default)
    return RemoteServing(
        RemoteSettings(
            pending_request_timeout_s=settings.pending_request_timeout_s,
            min_auth_level=level,
            allows_nonauthenticated_rpc=settings.allow_nonauthenticated,
            denies_workgroup_client=settings.deny_workgroup_clients,
            allows_none_security_client=settings.allow_none_security_clients,
        ),
        RpcSettings(min_auth_level=level),
        acceptors(logons),
        is_own_account=is_default(settings),
        level_with_users=None if settings.min_auth_level else AuthLevel.PRIVACY,
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


def _check_users(path: Path) -> None:
    try:
        read_users(path)
    except InvalidParameter as error:
        sentence = str(error)
        raise ConfigError(f"{sentence[:1].upper()}{sentence[1:]}.", "check rpc.users_file.") from None


def _knows_users(settings: Rpc) -> bool:
    return bool(settings.users_file) or settings.kerberos


def _port(sockets: Sequence[socket]) -> int:
    port: int = sockets[0].getsockname()[1]
    return port
