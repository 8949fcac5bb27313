"""Settings of the HTTP server."""

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

    `wanted` is the configured port, if another program uses it.
    """

    name: str
    address: str
    port: int
    wanted: int | None = None


@dataclass(frozen=True, slots=True)
class RpcAccess:
    """Access of remote readers, for `doctor`. `users_file` is the file that was imported, or "".

    `is_default`: only the account of the daemon may connect until the first user is added; then calls need a logon.
    `count_users` counts the users that may log on with NTLM.
    """

    is_default: bool
    users_file: str = ""
    kerberos: bool = False
    count_users: Callable[[], int] = lambda: 0
    has_kerberos_key: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Settings of the HTTP server. Clients must send the `token`; "" admits everybody who reaches the port.

    `hosts` are names that browsers may use to reach a server without a token, besides addresses, localhost and the
    name of the computer. `transaction_s` is the time until an unused transaction aborts, and `handle_s` until an unused
    handle, cursor or connection to a queue of another computer closes.
    """

    token: str = ""
    # Whether /metrics needs no token.
    metrics_open: bool = False
    # Address of this server for programs on this computer, and the account that runs it, for refusals; "" if unknown.
    url: str = ""
    account: str = ""
    hosts: frozenset[str] = frozenset()
    max_body: int = MAX_HTTP_BODY
    max_wait_s: float = MAX_HTTP_WAIT_SECONDS
    max_batch: int = MAX_HTTP_BATCH
    max_transactions: int = MAX_HTTP_TRANSACTIONS
    max_handles: int = MAX_HTTP_HANDLES
    max_streams: int = MAX_HTTP_STREAMS
    transaction_s: float = LEASE_SECONDS
    handle_s: float = LEASE_SECONDS
    # File with the certificate that clients see, "" without TLS.
    tls_cert: str = ""
    listeners: tuple[Listener, ...] = ()
    rpc: RpcAccess = RpcAccess(is_default=True)
    backup: BackupLimits = field(default_factory=BackupLimits)
