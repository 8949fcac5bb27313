"""Every key of the configuration with its type, bounds, default and meaning: the source of docs/config.md.

A section is a struct and a key is a field of it. waypost.daemon.loading fills them.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

from msgspec import Meta, Struct, field
from msgspec.structs import fields

from waypost.api.defaults import BACKUP_SECONDS
from waypost.daemon.config_http import Http as Http
from waypost.daemon.config_security import Security
from waypost.daemon.config_types import Count, Milliseconds, PeerPort, Port, Seconds
from waypost.daemon.configured_hosts import parse_ack_addresses
from waypost.limits import MAX_STORE_SIZE
from waypost.remote.context import QM2QM_PORT, REMOTE_READ_PORT, RemoteSettings
from waypost.rpc.authentication import Level
from waypost.rpc.settings import MAPPER_PORT
from waypost.transfer.handshake import MAX_TIMEOUT, MIN_ACK_TIMEOUT
from waypost.transfer.settings import ACK_HOSTS_ANY, ResendTimeouts, TransferSettings
from waypost.wire.ping import PING_PORT
from waypost.wire.property_values import UNLIMITED
from waypost.wire.session_header import DEFAULT_WINDOW_SIZE, SESSION_PORT

_TRANSFER: Final = TransferSettings()
_MEGABYTE: Final = 1 << 20
_GIGABYTE: Final = 1 << 30


class Names(Struct, frozen=True, forbid_unknown_fields=True):
    """Names of this queue manager."""

    computer: Annotated[
        str,
        Meta(description="Name of the computer, with or without its domain. If empty, Waypost uses the host name."),
    ] = ""
    aliases: Annotated[
        tuple[str, ...],
        Meta(
            description="Additional names of this computer for use in `DIRECT=OS:` names, such as the name of a "
            "cluster."
        ),
    ] = ()


class StoreSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Storage on disk: queues, messages and state."""

    path: Annotated[
        str,
        Meta(
            description="Data folder. On Windows, the default is `%LOCALAPPDATA%\\waypost`. On other systems, the "
            "default is `$XDG_STATE_HOME/waypost`, or `~/.local/state/waypost` if the variable XDG_STATE_HOME is not "
            "set. The default does not depend on the current folder."
        ),
    ] = ""
    max_size_gb: Annotated[float, Meta(gt=0, le=1 << 20, description="Maximum size of the store file, in GiB.")] = (
        MAX_STORE_SIZE / _GIGABYTE
    )
    reserve_mb: Annotated[
        float,
        Meta(
            ge=0,
            le=1 << 20,
            description="Disk space to keep free, in MiB. When less space is free, the daemon refuses new messages. "
            "Programs can still receive and purge messages, and the daemon still processes acknowledgments. With the "
            "value 0, the reserve is a quarter of the size of the stored data. The minimum reserve is 1 MiB, and the "
            "maximum reserve is 64 MiB or an eighth of the disk, whichever is smaller.",
        ),
    ] = 0.0
    backup_limit_s: Annotated[
        Seconds,
        Meta(
            description="Time limit of a backup, in seconds. The daemon cancels a backup that takes longer, and "
            "writes a line to the log. During a backup, the store file grows, because the daemon does not reuse the "
            "space of received messages."
        ),
    ] = BACKUP_SECONDS
    backup_mb_per_s: Annotated[
        float,
        Meta(
            ge=0,
            le=1_000_000,
            description="Maximum speed of a backup, in megabytes per second. The limit keeps the disk and the "
            "processor available for other work. The value 0 means no limit.",
        ),
    ] = 32.0


class Transfer(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages from and to other queue managers (MS-MQQB)."""

    bind: Annotated[
        str,
        Meta(
            description="Local IP address for connections from and to other queue managers. If empty, the daemon uses "
            "all addresses of the computer, including the addresses that other computers can reach."
        ),
    ] = ""
    port: Annotated[Port, Meta(description="TCP port to listen on. The value 0 means any free port.")] = SESSION_PORT
    ping_port: Annotated[Port, Meta(description="UDP port for incoming pings. The value 0 means any free port.")] = (
        PING_PORT
    )
    peer_port: Annotated[PeerPort, Meta(description="TCP port of other queue managers.")] = SESSION_PORT
    peer_ping_port: Annotated[PeerPort, Meta(description="UDP port of other queue managers for pings.")] = PING_PORT
    ping: Annotated[
        bool,
        Meta(
            description="Before opening a session, ping the host to find out whether the host accepts sessions. Also "
            "answer pings from other hosts."
        ),
    ] = _TRANSFER.ping
    window_size: Annotated[
        int,
        Meta(
            ge=1,
            le=0xFFFF,
            description="Maximum number of messages to send before a session acknowledgment must arrive.",
        ),
    ] = DEFAULT_WINDOW_SIZE
    ack_wait_timeout_ms: Annotated[
        int,
        Meta(
            ge=MIN_ACK_TIMEOUT,
            le=MAX_TIMEOUT,
            description="Maximum time to wait for a session acknowledgment, in milliseconds. If no acknowledgment "
            "arrives in this time, the session closes. The protocol defines the valid range.",
        ),
    ] = _TRANSFER.ack_wait_timeout_ms
    order_ack_timeout_ms: Annotated[
        Milliseconds,
        Meta(
            description="Time to wait for more transactional messages before sending an order acknowledgment, in "
            "milliseconds."
        ),
    ] = _TRANSFER.order_ack_timeout_ms
    maximum_order_ack_delay_s: Annotated[
        Seconds,
        Meta(
            description="Maximum delay of an order acknowledgment, in seconds. This limit applies if more messages "
            "keep arriving."
        ),
    ] = _TRANSFER.maximum_order_ack_delay_s
    resend_timeouts_s: Annotated[
        tuple[Seconds, Seconds, Seconds, Seconds],
        Meta(
            description="Times to wait before sending unacknowledged transactional messages again, in seconds. Each of "
            "the first three values is used for three retries. The fourth value is used for all later retries."
        ),
    ] = (
        _TRANSFER.resend_timeouts.short,
        _TRANSFER.resend_timeouts.medium,
        _TRANSFER.resend_timeouts.long,
        _TRANSFER.resend_timeouts.final,
    )
    session_init_timeout_s: Annotated[
        Seconds,
        Meta(
            description="Maximum time to open a session, in seconds. If the session is not open after this time, the "
            "connection closes."
        ),
    ] = _TRANSFER.session_init_timeout_s
    idle_timeout_s: Annotated[Seconds, Meta(description="Time after which an idle session closes, in seconds.")] = (
        _TRANSFER.idle_timeout_s
    )
    retry_connect_s: Annotated[
        Seconds, Meta(description="Time to wait after a failed connection attempt, in seconds.")
    ] = _TRANSFER.retry_connect_s
    connect_timeout_s: Annotated[
        Seconds,
        Meta(
            description="Maximum time for a connection attempt, in seconds. If a host does not answer, TCP repeats the "
            "connection request only after 1, 3, 7 and 15 seconds. With a short time limit, the daemon begins a new "
            "attempt sooner. Therefore, the daemon notices sooner that the host is available again."
        ),
    ] = 8.0
    round_trip_delay_ms: Annotated[
        Milliseconds,
        Meta(description="Network round trip time, in milliseconds. The daemon adds this time to its timeouts."),
    ] = _TRANSFER.round_trip_delay_ms
    duplicate_history_size: Annotated[
        Count,
        Meta(
            description="Number of messages that the daemon remembers for each IPv4 address or IPv6 /64 network, to "
            "detect duplicates. For a relay, the daemon remembers 10 times as many messages."
        ),
    ] = _TRANSFER.duplicate_history_size
    duplicate_history_s: Annotated[
        Seconds,
        Meta(
            description="Time for which the daemon remembers a message, in seconds. The daemon uses "
            "remembered messages to detect duplicates."
        ),
    ] = _TRANSFER.duplicate_history_s
    max_sessions: Annotated[
        Count,
        Meta(
            description="Maximum number of sessions from other queue managers. When this limit is reached, the daemon "
            "refuses new sessions."
        ),
    ] = _TRANSFER.max_sessions
    max_connections: Annotated[
        Count,
        Meta(
            description="Maximum number of incoming TCP connections, with or without a session. When this limit is "
            "reached, the daemon immediately closes new connections."
        ),
    ] = 4096
    max_connections_per_peer: Annotated[
        Count, Meta(description="Maximum number of connections from each IPv4 address or IPv6 /64 network.")
    ] = 256
    refusals_per_minute: Annotated[
        Count,
        Meta(
            description="Maximum number of protocol errors per minute from one IPv4 address or IPv6 /64 network. "
            "Above this limit, the daemon temporarily refuses new connections from this address or network."
        ),
    ] = 120
    max_sequence_ahead_s: Annotated[
        Seconds,
        Meta(
            description="Limit for the TimeStamp of a new transactional sequence, in seconds ahead of the clock of "
            "this computer. If the TimeStamp is further ahead, the daemon refuses the messages of the sequence. The "
            "sender keeps the messages and sends them again later. `waypost doctor` shows the refused sequences."
        ),
    ] = _TRANSFER.max_sequence_ahead_s
    new_sequences_at_once: Annotated[
        Count,
        Meta(
            description="Maximum number of new transactional sequences in one burst from one IPv4 address or IPv6 /64 "
            "network. Above this limit, the daemon refuses the messages of new sequences. The sender keeps the "
            "messages and sends them again later. `waypost doctor` shows the address of the sender."
        ),
    ] = _TRANSFER.new_sequences_at_once
    new_sequences_per_s: Annotated[
        Seconds,
        Meta(description="Maximum average number of new transactional sequences per second from one address."),
    ] = _TRANSFER.new_sequences_per_s
    send_insecure_nacks: Annotated[
        bool,
        Meta(
            description="Also send negative acknowledgments from which the sender learns something about queues or "
            "rights: unknown queue, access denied, bad signature, bad encryption, and unsupported cryptographic "
            "provider (MS-MQQB 3.1.7.15, SendInsecureNacks)."
        ),
    ] = _TRANSFER.send_insecure_nacks
    ack_hosts: Annotated[
        str | tuple[str, ...],
        Meta(
            description="Hosts to which the daemon sends acknowledgments that are requested by messages from other "
            "hosts. The value `any` allows every host that a message specifies in the name of an administration queue. "
            "The value `known` allows the hosts in `routing.routes` or in the directory, and hosts to which this "
            "computer has sent messages. A list contains host names, IP addresses and GUIDs, as used in the names of "
            "administration queues. The list can also contain `known`. If the list is empty, no host is allowed."
        ),
    ] = ACK_HOSTS_ANY
    ack_addresses: Annotated[
        tuple[str, ...],
        Meta(
            description="Additional addresses from which to accept acknowledgments of transactional messages, such as "
            "addresses of queue managers behind NAT. `GUID=ADDRESS` adds an address of one queue manager. `ADDRESS` "
            "adds an address for all queue managers. The daemon always accepts acknowledgments from the addresses to "
            "which the daemon has connected, and from the addresses to which the host name of the destination "
            "resolves. `waypost sequence admit` adds an address without a restart."
        ),
    ] = ()
    is_routing_server: Annotated[bool, Meta(description="Act as a routing server (MS-MQBR).")] = (
        _TRANSFER.is_routing_server
    )

    def settings(self) -> TransferSettings:
        """The settings for the queue manager."""
        return TransferSettings(
            window_size=self.window_size,
            ack_wait_timeout_ms=self.ack_wait_timeout_ms,
            order_ack_timeout_ms=self.order_ack_timeout_ms,
            maximum_order_ack_delay_s=self.maximum_order_ack_delay_s,
            resend_timeouts=ResendTimeouts(*self.resend_timeouts_s),
            session_init_timeout_s=self.session_init_timeout_s,
            idle_timeout_s=self.idle_timeout_s,
            retry_connect_s=self.retry_connect_s,
            round_trip_delay_ms=self.round_trip_delay_ms,
            duplicate_history_size=self.duplicate_history_size,
            duplicate_history_s=self.duplicate_history_s,
            max_sessions=self.max_sessions,
            max_sequence_ahead_s=self.max_sequence_ahead_s,
            new_sequences_at_once=self.new_sequences_at_once,
            new_sequences_per_s=self.new_sequences_per_s,
            send_insecure_nacks=self.send_insecure_nacks,
            ack_hosts=_words(self.ack_hosts),
            ping=self.ping,
            port=self.peer_port,
            ping_port=self.peer_ping_port,
            is_routing_server=self.is_routing_server,
            ack_addresses=parse_ack_addresses(self.ack_addresses),
        )


def _words(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The words of a list, or of a text with commas between them, as in variables and --set."""
    words = value.split(",") if isinstance(value, str) else value
    return tuple(word.strip() for word in words if word.strip())


class Routing(Struct, frozen=True, forbid_unknown_fields=True):
    """Routes to other computers. `PRIVATE=` names need routes, because they contain a GUID instead of a host."""

    routes: Annotated[
        tuple[str, ...],
        Meta(
            description="`GUID=HOST` specifies the host of the queue manager with this GUID. `waypost status` on that "
            "host shows the GUID. With `GUID=via GUID`, messages for the first queue manager go through the second "
            "queue manager. The second queue manager must also have a route."
        ),
    ] = ()
    relays: Annotated[
        tuple[str, ...],
        Meta(
            description="GUIDs or IP addresses of relays: queue managers that are allowed to forward acknowledgments "
            "from other hosts. The next hop of a route is always allowed to forward acknowledgments, so you do not "
            "need to list it. If you change a route, add the old next hop to `routing.relays`. You can remove the old "
            "next hop after the final acknowledgments of all messages on the old route have arrived. If you list the "
            "GUID of a queue manager, the daemon accepts acknowledgments from the following addresses of this queue "
            "manager: addresses to which the daemon has connected, addresses in the route or the directory, and "
            "addresses that you have added with `waypost sequence admit`. Because a relay forwards messages from many "
            "senders, the daemon remembers 10 times as many messages from a relay to detect duplicates."
        ),
    ] = ()


class Quotas(Struct, frozen=True, forbid_unknown_fields=True):
    """Storage quotas."""

    machine_kb: Annotated[
        Annotated[int, Meta(ge=0, le=UNLIMITED)] | None,
        Meta(
            description="Quota for all messages together, in kilobytes. If the key is not set, the quota stays "
            f"unchanged. A new queue manager starts with a quota of 1048576. The value {UNLIMITED} means no quota."
        ),
    ] = None

    source_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Maximum share of the machine quota for messages from one IPv4 address or IPv6 /64 network. "
            "The limit does not apply to programs on this computer. The value 1 means no limit.",
        ),
    ] = 0.9


class LogSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Log on standard error, with one event per line."""

    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="Format of a line. With `auto`, a line is text on a terminal, and JSON otherwise."),
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lowest level of events to write.")
    ] = "info"


class Rpc(Struct, frozen=True, forbid_unknown_fields=True):
    """Remote read by other hosts (MS-MQRR, MS-MQQP). The daemon listens on the address in `transfer.bind`."""

    enabled: Annotated[bool, Meta(description="Allow other hosts to read queues of this computer over RPC.")] = True
    port: Annotated[
        Port,
        Meta(
            description="TCP port of RemoteRead and qmcomm. If the port is in use, the daemon tries further ports in "
            "steps of 11."
        ),
    ] = REMOTE_READ_PORT
    qm2qm_port: Annotated[
        Port,
        Meta(
            description="TCP port of qm2qm, the older interface. If the port is in use, the daemon tries further "
            "ports in steps of 11."
        ),
    ] = QM2QM_PORT
    epm: Annotated[
        bool, Meta(description="Run an endpoint mapper, which reports the RPC ports of the daemon to clients.")
    ] = False
    epm_port: Annotated[Port, Meta(description="TCP port of the endpoint mapper. Clients expect 135.")] = MAPPER_PORT
    max_connections: Annotated[int, Meta(ge=1, description="Maximum number of connections of remote readers.")] = 2000
    max_connections_per_peer: Annotated[
        int, Meta(ge=1, description="Maximum number of connections from each IPv4 address or IPv6 /64 network.")
    ] = 1000
    refusals_per_minute: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of protocol errors and wrong passwords per minute from one address. Above this "
            "limit, the daemon temporarily refuses new connections from the address.",
        ),
    ] = 60
    pending_request_timeout_s: Annotated[
        Seconds, Meta(description="Maximum time for which a message stays locked for a remote reader, in seconds.")
    ] = RemoteSettings().pending_request_timeout_s
    min_auth_level: Annotated[
        Literal["", Level],
        Meta(
            description="Minimum protection of a call. If the value is empty and users or Kerberos are configured, the "
            "minimum is `privacy`. If the value is empty and neither users nor Kerberos are configured, calls need no "
            "protection, but only local programs that run under the account of the daemon or as root can connect. With "
            "`none`, every program that can connect to the port can read."
        ),
    ] = ""
    allow_nonauthenticated: Annotated[
        bool,
        Meta(
            description="Accept calls without authentication (AllowNonauthenticatedRpc of MSMQ). If "
            "`deny_workgroup_clients` is also true, the daemon accepts calls without authentication only from clients "
            "in a workgroup."
        ),
    ] = False
    deny_workgroup_clients: Annotated[
        bool,
        Meta(
            description="If `allow_nonauthenticated` is true, accept calls without authentication only from clients "
            "in a workgroup (NewRemoteReadServerDenyWorkgroupClient of MSMQ)."
        ),
    ] = False
    allow_none_security_clients: Annotated[
        bool,
        Meta(
            description="Accept calls without authentication if the anonymous user has the right to read the queue "
            "(NewRemoteReadServerAllowNoneSecurityClient of MSMQ)."
        ),
    ] = False
    users_file: Annotated[
        str,
        Meta(
            description="File with users who can authenticate with NTLM. Each line has the form "
            "`DOMAIN:user:password`. The daemon imports the file into the user store only once, at the first start at "
            "which the file contains users."
        ),
    ] = ""
    kerberos: Annotated[
        bool,
        Meta(description="Accept Kerberos authentication. Requires the extra `kerberos` and a key of this computer."),
    ] = False


class Remote(Struct, frozen=True, forbid_unknown_fields=True):
    """Remote read of queues on other hosts, for example with `waypost receive 'DIRECT=OS:other\\private$\\orders'`."""

    user: Annotated[
        str,
        Meta(
            description="User as whom the daemon authenticates, in the form `DOMAIN\\user` or `user@REALM`. If the "
            "value is empty and `level` is `none`, the daemon does not authenticate. If the value is empty at another "
            "level, the daemon uses the Kerberos identity of its process."
        ),
    ] = ""
    password: Annotated[
        str, Meta(description="Password of the user. If empty, the user authenticates with Kerberos.")
    ] = ""
    password_file: Annotated[str, Meta(description="File with the password, instead of `password`.")] = ""
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Hosts to which the daemon is allowed to authenticate as `user`. Write each host name or IP "
            "address as in the names of queues. If empty, the hosts in `routing.routes` are allowed. The list of hosts "
            "protects the password: any program can ask the daemon to read from any host, and each host to which the "
            "daemon authenticates gets a proof of the password."
        ),
    ] = ()
    level: Annotated[
        Literal["", Level],
        Meta(
            description="Protection of calls. If the value is empty, calls with `user` have the level `privacy`, and "
            "other calls have the level `none`."
        ),
    ] = ""
    rpc_port: Annotated[
        Port,
        Meta(
            description="TCP port of RemoteRead on other hosts. The value 0 means the port that the endpoint mapper "
            "of the host returns, or 2103 if the endpoint mapper does not answer."
        ),
    ] = 0
    qm2qm_port: Annotated[
        Port,
        Meta(
            description="TCP port of qm2qm on hosts that support only the older interface. The value 0 means the port "
            "that the endpoint mapper of the host returns, or 2105 if the endpoint mapper does not answer."
        ),
    ] = 0
    epm_port: Annotated[
        Port,
        Meta(
            description="TCP port of the endpoint mapper on other hosts. With the value 0, the daemon does not use the "
            "endpoint mapper."
        ),
    ] = MAPPER_PORT
    timeout_s: Annotated[
        Seconds,
        Meta(
            description="Time limit for a connection attempt, in seconds. The same time limit applies to the answer to "
            "a call, unless the call waits for a message."
        ),
    ] = 10.0


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole configuration."""

    names: Names = field(default_factory=Names)
    store: StoreSection = field(default_factory=StoreSection)
    transfer: Transfer = field(default_factory=Transfer)
    routing: Routing = field(default_factory=Routing)
    security: Security = field(default_factory=Security)
    quotas: Quotas = field(default_factory=Quotas)
    http: Http = field(default_factory=Http)
    log: LogSection = field(default_factory=LogSection)
    rpc: Rpc = field(default_factory=Rpc)
    remote: Remote = field(default_factory=Remote)

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.store.path).expanduser() if self.store.path else _state_folder()


SECTIONS: Final[dict[str, Any]] = get_type_hints(Config)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration. `type` carries its bounds and its description."""

    section: str
    name: str
    type: Any
    default: Any

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """Its variable of the environment."""
        return f"WAYPOST_{self.section}_{self.name}".upper()

    @property
    def description(self) -> str:
        """Its meaning, from the outermost annotation."""
        return str(self.type.__metadata__[-1].description)


def keys() -> Iterator[Key]:
    """Every key, in the order of docs/config.md."""
    for section, struct in SECTIONS.items():
        hints = get_type_hints(struct, include_extras=True)
        for each in fields(struct):
            yield Key(section, each.name, hints[each.name], each.default)


def max_size_of(config: Config) -> int:
    """Maximum size of the store file, in bytes."""
    return int(config.store.max_size_gb * _GIGABYTE)


def reserve_of(config: Config) -> int | None:
    """Disk space to keep free, in bytes; None lets the store choose."""
    megabytes = config.store.reserve_mb
    return int(megabytes * _MEGABYTE) if megabytes else None


def _state_folder() -> Path:
    """The data folder of this user. systemd sets another one."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "waypost"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "waypost"
