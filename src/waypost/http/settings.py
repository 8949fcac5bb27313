"""What the HTTP server is told of itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from waypost.api.defaults import LEASE_SECONDS
from waypost.client.backups.source import BackupLimits
from waypost.limits import (
    MAX_HTTP_BATCH,
    MAX_HTTP_BODY,
    MAX_HTTP_HANDLES,
    MAX_HTTP_STREAMS,
    MAX_HTTP_TRANSACTIONS,
    MAX_HTTP_WAIT_SECONDS,
)


@dataclass(frozen=True, slots=True)
class Listener:
    """A port of this daemon, for `doctor` and `status`: "transfer", "ping", "rpc", "http", ...

    `wanted` is the port that was configured, if another program had it.
    """

    name: str
    address: str
    port: int
    wanted: int | None = None


@dataclass(frozen=True, slots=True)
class RpcAccess:
    """Who may read over RPC, for `doctor`. `users_file` is "" if nobody logs on by NTLM.

    `count_users` reads that file, and raises InvalidParameter with what is wrong with it.
    """

    is_loopback_only: bool
    users_file: str = ""
    kerberos: bool = False
    count_users: Callable[[], int] = lambda: 0
    has_kerberos_key: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`token` is what a client has to show; without one everybody who reaches the port is let in.

    `hosts` are the names under which browsers may reach a server without a token, besides addresses, localhost and the
    name of the computer. `transaction_s` and `handle_s` are how long what a client has opened stays open unused,
    and `handle_s` also how long a queue of another computer does.
    """

    token: str = ""
    hosts: frozenset[str] = frozenset()
    max_body: int = MAX_HTTP_BODY
    max_wait_s: float = MAX_HTTP_WAIT_SECONDS
    max_batch: int = MAX_HTTP_BATCH
    max_transactions: int = MAX_HTTP_TRANSACTIONS
    max_handles: int = MAX_HTTP_HANDLES
    max_streams: int = MAX_HTTP_STREAMS
    transaction_s: float = LEASE_SECONDS
    handle_s: float = LEASE_SECONDS
    listeners: tuple[Listener, ...] = ()
    rpc: RpcAccess = RpcAccess(is_loopback_only=True)
    backup: BackupLimits = field(default_factory=BackupLimits)
