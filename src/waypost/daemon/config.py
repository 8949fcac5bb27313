"""Every key of the configuration with its type, bounds, default and meaning. docs/config.md is made of this file.

A section is a struct and a key is a field of it. waypost.daemon.loading fills them.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

from msgspec import Meta, Struct, field
from msgspec.structs import fields

from waypost.api.defaults import BACKUP_SECONDS, HTTP_PORT, LEASE_SECONDS
from waypost.daemon.configured_hosts import parse_ack_addresses
from waypost.limits import MAX_HTTP_WAIT_SECONDS, MAX_STORE_SIZE
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

# A timer that takes longer than a hundred years is a mistake.
_Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=0xFFFF_FFFF)]
_Milliseconds: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
_Count: TypeAlias = Annotated[int, Meta(ge=1, le=0xFFFF_FFFF)]
_Port: TypeAlias = Annotated[int, Meta(ge=0, le=0xFFFF)]
_PeerPort: TypeAlias = Annotated[int, Meta(ge=1, le=0xFFFF)]


class Names(Struct, frozen=True, forbid_unknown_fields=True):
    """What this queue manager is called."""

    computer: Annotated[
        str,
        Meta(description="Name of the computer, with or without its domain. Empty: the name of the host."),
    ] = ""
    aliases: Annotated[
        tuple[str, ...],
        Meta(description="Other names that mean this computer in `DIRECT=OS:` names, such as that of a cluster."),
    ] = ()


class StoreSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Where everything is kept."""

    path: Annotated[
        str,
        Meta(
            description="The data folder. Empty: `$XDG_STATE_HOME/waypost`, which is `~/.local/state/waypost` unless "
            "that variable is set, or `%LOCALAPPDATA%\\waypost` on Windows; it does not depend on where the daemon is "
            "started."
        ),
    ] = ""
    max_size_gb: Annotated[
        float, Meta(gt=0, le=1 << 20, description="How large the file of the store may become, in GiB.")
    ] = MAX_STORE_SIZE / _GIGABYTE
    reserve_mb: Annotated[
        float,
        Meta(
            ge=0,
            le=1 << 20,
            description="Space on the disk that is kept for receiving messages, in MiB: when no more than it is left, "
            "new messages are refused, and receives, purges and acknowledgments go on. 0: a quarter of what the store "
            "holds, from 1 to 64, and at most an eighth of the disk.",
        ),
    ] = 0.0
    backup_limit_s: Annotated[
        _Seconds,
        Meta(
            description="How long a backup may take. While one is made, the room that messages leave in the file of "
            "the store is not used again, so the file grows. A backup that takes longer is ended, and the log says so."
        ),
    ] = BACKUP_SECONDS
    backup_mb_per_s: Annotated[
        float,
        Meta(
            ge=0,
            le=1_000_000,
            description="How many megabytes of a backup are made in a second, so that it leaves the disk and the "
            "processor to others; 0 for as many as possible.",
        ),
    ] = 32.0


class Transfer(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages from and to other queue managers (MS-MQQB)."""

    bind: Annotated[
        str,
        Meta(
            description="IP address on which others reach this queue manager, and from which it connects to them. "
            "Empty: all addresses of the computer, because a queue manager that nobody reaches is of little use."
        ),
    ] = ""
    port: Annotated[_Port, Meta(description="TCP port to listen on; 0 takes a free one.")] = SESSION_PORT
    ping_port: Annotated[_Port, Meta(description="UDP port to listen on for pings; 0 takes a free one.")] = PING_PORT
    peer_port: Annotated[_PeerPort, Meta(description="TCP port of the other queue managers.")] = SESSION_PORT
    peer_ping_port: Annotated[_PeerPort, Meta(description="UDP port of the other queue managers.")] = PING_PORT
    ping: Annotated[
        bool,
        Meta(description="Ask a host by a ping whether it would accept a session, and answer the pings of others."),
    ] = _TRANSFER.ping
    window_size: Annotated[
        int, Meta(ge=1, le=0xFFFF, description="Messages that may be under way without a session acknowledgment.")
    ] = DEFAULT_WINDOW_SIZE
    ack_wait_timeout_ms: Annotated[
        int,
        Meta(
            ge=MIN_ACK_TIMEOUT,
            le=MAX_TIMEOUT,
            description="Longest wait of a session for an acknowledgment before it is closed. The protocol has no "
            "shorter and no longer times.",
        ),
    ] = _TRANSFER.ack_wait_timeout_ms
    order_ack_timeout_ms: Annotated[
        _Milliseconds,
        Meta(description="Time that the acknowledgment of transactional messages waits for more of them."),
    ] = _TRANSFER.order_ack_timeout_ms
    maximum_order_ack_delay_s: Annotated[
        _Seconds, Meta(description="Longest time that it is put off while more of them come.")
    ] = _TRANSFER.maximum_order_ack_delay_s
    resend_timeouts_s: Annotated[
        tuple[_Seconds, _Seconds, _Seconds, _Seconds],
        Meta(
            description="Times after which transactional messages without an acknowledgment are sent again: the first "
            "three times after the first, then three times each after the second and the third, and from then on after "
            "the fourth."
        ),
    ] = (
        _TRANSFER.resend_timeouts.short,
        _TRANSFER.resend_timeouts.medium,
        _TRANSFER.resend_timeouts.long,
        _TRANSFER.resend_timeouts.final,
    )
    session_init_timeout_s: Annotated[
        _Seconds, Meta(description="Longest time for a session to open; a silent peer is cut off then.")
    ] = _TRANSFER.session_init_timeout_s
    idle_timeout_s: Annotated[_Seconds, Meta(description="Time after which an idle session is closed.")] = (
        _TRANSFER.idle_timeout_s
    )
    retry_connect_s: Annotated[_Seconds, Meta(description="Wait after a connection has failed.")] = (
        _TRANSFER.retry_connect_s
    )
    connect_timeout_s: Annotated[
        _Seconds,
        Meta(
            description="Longest time for a connection to come about. TCP asks for it again after 1, 3, 7 and 15 "
            "seconds, so a short time finds a host sooner that comes back."
        ),
    ] = 8.0
    round_trip_delay_ms: Annotated[
        _Milliseconds, Meta(description="Time of a packet to the other side and back that timers allow for.")
    ] = _TRANSFER.round_trip_delay_ms
    duplicate_history_size: Annotated[
        _Count,
        Meta(
            description="Messages of one address (of one /64 network of IPv6) that are remembered in order to know "
            "those that come twice; of a relay ten times as many."
        ),
    ] = _TRANSFER.duplicate_history_size
    duplicate_history_s: Annotated[_Seconds, Meta(description="Time for which they are remembered.")] = (
        _TRANSFER.duplicate_history_s
    )
    max_sessions: Annotated[
        _Count, Meta(description="Sessions that others may have open here; one more is refused by the protocol.")
    ] = _TRANSFER.max_sessions
    max_connections: Annotated[
        _Count,
        Meta(description="TCP connections from others, with or without a session; one more is closed at once."),
    ] = 4096
    max_connections_per_peer: Annotated[
        _Count, Meta(description="The same for one address (for one /64 network of IPv6).")
    ] = 256
    refusals_per_minute: Annotated[
        _Count,
        Meta(
            description="Connections of one address that may end soon because of a protocol error, in a minute; more "
            "of them are closed at once for a while."
        ),
    ] = 120
    max_sequence_ahead_s: Annotated[
        _Seconds,
        Meta(
            description="Longest time by which the TimeStamp of a new transactional sequence may be ahead of the "
            "clock of this computer. Messages beyond that stay with their sender, which sends them again, and `waypost "
            "doctor` names them."
        ),
    ] = _TRANSFER.max_sequence_ahead_s
    new_sequences_at_once: Annotated[
        _Count,
        Meta(
            description="New transactional sequences that one address (one /64 network of IPv6) may begin at once. "
            "Messages beyond that stay with their sender, which sends them again, and `waypost doctor` names the "
            "address."
        ),
    ] = _TRANSFER.new_sequences_at_once
    new_sequences_per_s: Annotated[
        _Seconds, Meta(description="New transactional sequences that one address may begin in a second, on average.")
    ] = _TRANSFER.new_sequences_per_s
    send_insecure_nacks: Annotated[
        bool, Meta(description="Tell senders that are not authenticated why their messages were refused.")
    ] = _TRANSFER.send_insecure_nacks
    ack_hosts: Annotated[
        str | tuple[str, ...],
        Meta(
            description="Hosts to which administration acknowledgments that messages of others ask for may open a "
            "connection. `any`: every host that a message names. `known`: hosts of `routing.routes`, of the directory, "
            "and those that were connected to before for something that was sent here. Else a list of host names, IP "
            "addresses and GUIDs, as they stand in the names of administration queues; `known` may be one of them. "
            "Empty: no host."
        ),
    ] = ACK_HOSTS_ANY
    ack_addresses: Annotated[
        tuple[str, ...],
        Meta(
            description="Addresses from which other queue managers acknowledge transactional messages besides those "
            "that their names resolve to and at which they were dialled, as behind NAT: `GUID=ADDRESS`, or `ADDRESS` "
            "for every queue manager there. `waypost sequence admit` adds one without a restart."
        ),
    ] = ()
    is_routing_server: Annotated[bool, Meta(description="Whether this is a routing server (MS-MQBR).")] = (
        _TRANSFER.is_routing_server
    )

    def settings(self) -> TransferSettings:
        """For the queue manager."""
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
    """A text is one word, or several with commas between them, as variables and --set have them."""
    words = value.split(",") if isinstance(value, str) else value
    return tuple(word.strip() for word in words if word.strip())


class Routing(Struct, frozen=True, forbid_unknown_fields=True):
    """Where messages go whose names do not say it: those for `PRIVATE=` names of other computers."""

    routes: Annotated[
        tuple[str, ...],
        Meta(
            description="`GUID=HOST` is the host of a queue manager, whose GUID `waypost status` shows; "
            "`GUID=via GUID` leads to it by way of another one that has a route."
        ),
    ] = ()
    relays: Annotated[
        tuple[str, ...],
        Meta(
            description="GUIDs or IP addresses of queue managers that may bring acknowledgments of messages that are "
            "sent by way of others, besides the next hop of their route. A GUID counts at the addresses where that "
            "queue manager was dialled, that its route or the directory names, or that were admitted. "
            "Relays also bring the messages of many senders, so that more of what they bring is remembered in order to "
            "know messages that come twice."
        ),
    ] = ()


class Security(Struct, frozen=True, forbid_unknown_fields=True):
    """Trust in messages from others."""

    unverified: Annotated[
        Literal["refuse", "deliver"],
        Meta(
            description="Treatment of signed or encrypted messages, because signatures are not verified and bodies "
            "not decrypted yet. `refuse` drops them with a negative acknowledgment; `deliver` puts them "
            "into their queues as they came, not authenticated, but never into a queue that demands authentication or "
            "encryption. `waypost doctor` counts what was refused, by source."
        ),
    ] = "refuse"


class Quotas(Struct, frozen=True, forbid_unknown_fields=True):
    """Storage quotas."""

    machine_kb: Annotated[
        Annotated[int, Meta(ge=0, le=UNLIMITED)] | None,
        Meta(
            description="Kilobytes of all messages together. Without it the quota stays as it is, which is 1048576 for "
            f"a new queue manager; {UNLIMITED} sets no quota."
        ),
    ] = None

    source_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Largest part of the machine quota for messages of one address (of one /64 network of IPv6), "
            "so that the rest is for others; programs of this computer have no such limit. 1 sets no limit.",
        ),
    ] = 0.9


class Http(Struct, frozen=True, forbid_unknown_fields=True):
    """The HTTP API, metrics and the console."""

    enabled: Annotated[bool, Meta(description="Whether there is one.")] = True
    bind: Annotated[
        str,
        Meta(
            description="IP address to listen on. Empty: that of `transfer.bind` if it is a loopback address, else "
            "127.0.0.1, because whoever reaches the API rules the queue manager. Another one than a loopback address "
            "demands a token, and TLS or `allow_insecure`."
        ),
    ] = ""
    port: Annotated[_Port, Meta(description="TCP port to listen on; 0 takes a free one.")] = HTTP_PORT
    token: Annotated[str, Meta(description="What clients show as a bearer token. Empty: nothing is demanded.")] = ""
    token_file: Annotated[str, Meta(description="File with the token, instead of `token`.")] = ""
    tls_cert: Annotated[str, Meta(description="File with the certificate and its chain, in PEM.")] = ""
    tls_key: Annotated[str, Meta(description="File with its private key, in PEM.")] = ""
    allow_insecure: Annotated[
        bool, Meta(description="Allow HTTP without TLS beyond loopback, as behind a proxy that has TLS.")
    ] = False
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Names under which browsers may reach it without a token, besides addresses, localhost and the "
            "name of the computer."
        ),
    ] = ()
    max_wait_s: Annotated[_Seconds, Meta(description="How long one request may wait for messages.")] = (
        MAX_HTTP_WAIT_SECONDS
    )
    transaction_s: Annotated[
        _Seconds, Meta(description="How long a transaction that nobody uses stays open, unless its client says less.")
    ] = LEASE_SECONDS
    handle_s: Annotated[_Seconds, Meta(description="The same for a cursor or an exclusively opened queue.")] = (
        LEASE_SECONDS
    )
    max_connections: Annotated[
        _Count,
        Meta(
            description="Connections at a time; more are answered with 503. If a token is demanded, half of them are "
            "for clients that have shown it."
        ),
    ] = 1024
    max_connections_per_peer: Annotated[
        _Count,
        Meta(
            description="Connections of one address (of one /64 network of IPv6) that have not shown the token. For "
            "one more, the one that has been idle longest is closed; if none is idle, the new one is."
        ),
    ] = 256


class LogSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What the daemon tells on standard error, one event a line."""

    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="How a line is written; `auto` is text on a terminal and JSON elsewhere."),
    ] = "auto"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least important events that are written.")
    ] = "info"


class Rpc(Struct, frozen=True, forbid_unknown_fields=True):
    """Reading from afar (MS-MQRR, MS-MQQP), on the address of `transfer.bind`."""

    enabled: Annotated[bool, Meta(description="Whether other hosts may read queues of this one over RPC.")] = True
    port: Annotated[
        _Port, Meta(description="TCP port of RemoteRead and qmcomm. If it is taken, the one 11 higher is tried.")
    ] = REMOTE_READ_PORT
    qm2qm_port: Annotated[
        _Port, Meta(description="TCP port of the older interface between queue managers, with the same steps.")
    ] = QM2QM_PORT
    epm: Annotated[bool, Meta(description="Whether there is an endpoint mapper, which tells these ports.")] = False
    epm_port: Annotated[_Port, Meta(description="TCP port of the endpoint mapper; clients look for it at 135.")] = (
        MAPPER_PORT
    )
    max_connections: Annotated[int, Meta(ge=1, description="Connections of remote readers at a time.")] = 2000
    max_connections_per_peer: Annotated[
        int, Meta(ge=1, description="The same for one address (for one /64 network of IPv6).")
    ] = 1000
    refusals_per_minute: Annotated[
        int,
        Meta(
            ge=1,
            description="Protocol errors and wrong passwords of one address in a minute before it has to wait.",
        ),
    ] = 60
    pending_request_timeout_s: Annotated[
        _Seconds, Meta(description="How long a message that was given to a remote reader stays locked for it.")
    ] = RemoteSettings().pending_request_timeout_s
    min_auth_level: Annotated[
        Literal["", Level],
        Meta(
            description="The least protection of a call. Empty: privacy once users are configured or Kerberos is "
            "asked for, else none, and only from loopback addresses."
        ),
    ] = ""
    users_file: Annotated[
        str, Meta(description="File with lines `DOMAIN:user:password`: who may authenticate with NTLM.")
    ] = ""
    kerberos: Annotated[
        bool, Meta(description="Whether Kerberos is asked for: the extra `kerberos`, and a key of this computer.")
    ] = False


class Remote(Struct, frozen=True, forbid_unknown_fields=True):
    """Reading from queues of other hosts, as their client: `waypost receive 'DIRECT=OS:other\\private$\\orders'`."""

    user: Annotated[
        str,
        Meta(
            description="Who this daemon is there, as `DOMAIN\\user` or `user@REALM`. Empty: nobody, or at another "
            "level than none whom Kerberos knows the user of this process as."
        ),
    ] = ""
    password: Annotated[str, Meta(description="The password of the user. Empty: Kerberos knows the user.")] = ""
    password_file: Annotated[str, Meta(description="File with the password, instead of `password`.")] = ""
    level: Annotated[
        Literal["", Level],
        Meta(description="The protection of calls. Empty: privacy with a user, none without."),
    ] = ""
    rpc_port: Annotated[
        _Port, Meta(description="TCP port of RemoteRead there. 0: what the endpoint mapper of a host says, else 2103.")
    ] = 0
    qm2qm_port: Annotated[
        _Port, Meta(description="The same for hosts that have only the older interface: else 2105.")
    ] = 0
    epm_port: Annotated[
        _Port, Meta(description="TCP port of the endpoint mapper of other hosts. 0: none is asked.")
    ] = MAPPER_PORT
    timeout_s: Annotated[
        _Seconds, Meta(description="How long a host may take to be connected with, and to answer what does not wait.")
    ] = 10.0


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole of it."""

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
        """Of the environment."""
        return f"WAYPOST_{self.section}_{self.name}".upper()

    @property
    def description(self) -> str:
        """The outermost annotation has it."""
        return str(self.type.__metadata__[-1].description)


def keys() -> Iterator[Key]:
    """All of them, in the order of the page."""
    for section, struct in SECTIONS.items():
        hints = get_type_hints(struct, include_extras=True)
        for each in fields(struct):
            yield Key(section, each.name, hints[each.name], each.default)


def max_size_of(config: Config) -> int:
    """The bytes that the file of the store may have."""
    return int(config.store.max_size_gb * _GIGABYTE)


def reserve_of(config: Config) -> int | None:
    """The bytes of the disk that are kept for receiving messages; None to let the store choose."""
    megabytes = config.store.reserve_mb
    return int(megabytes * _MEGABYTE) if megabytes else None


def _state_folder() -> Path:
    """Of this user. systemd names another one."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "waypost"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "waypost"
