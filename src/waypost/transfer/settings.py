"""What is configured of the transfer between queue managers, with the defaults that MS-MQQB 6 tells of Windows."""

from dataclasses import dataclass, replace

from waypost.wire.ping import PING_PORT
from waypost.wire.session_header import DEFAULT_WINDOW_SIZE, SESSION_PORT

# The words of `ack_hosts` that are not hosts.
ACK_HOSTS_ANY = "any"
ACK_HOSTS_KNOWN = "known"

# MS-MQQB 3.1.2.2: how long a session may be idle, and on a routing server.
IDLE_TIMEOUT_S = 300.0
ROUTER_IDLE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class ResendTimeouts:
    """MS-MQQB 3.1.1.3 ResendTimeoutsShort, Medium, Long and Final, in seconds."""

    short: float = 30.0
    medium: float = 300.0
    long: float = 1800.0
    final: float = 21600.0

    @property
    def resend_timer_table(self) -> tuple[float, ...]:
        """MS-MQQB 3.1.3.1 ResendTimerTable."""
        return (*(self.short,) * 3, *(self.medium,) * 3, *(self.long,) * 3, self.final)


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """Times end in their unit. `max_sessions` is how many sessions others may have open here.

    A TimeStamp of a new incoming sequence may be `max_sequence_ahead_s` ahead of the clock. One address begins up to
    `new_sequences_at_once` of them, and then `new_sequences_per_s` on average.
    `ack_hosts` are the hosts to which administration acknowledgments may open a connection, or one of the words above.
    """

    window_size: int = DEFAULT_WINDOW_SIZE
    ack_wait_timeout_ms: int = 20_000
    order_ack_timeout_ms: int = 500
    maximum_order_ack_delay_s: float = 10.0
    resend_timeouts: ResendTimeouts = ResendTimeouts()
    session_init_timeout_s: float = 60.0
    idle_timeout_s: float = IDLE_TIMEOUT_S
    retry_connect_s: float = 5.0
    round_trip_delay_ms: int = 0
    duplicate_history_size: int = 10_000
    duplicate_history_s: float = 1800.0
    max_sessions: int = 0xFFFF_FFFF
    max_sequence_ahead_s: float = 172_800.0
    new_sequences_at_once: int = 1000
    new_sequences_per_s: float = 100.0
    send_insecure_nacks: bool = False
    ack_hosts: tuple[str, ...] = (ACK_HOSTS_ANY,)
    ping: bool = False
    port: int = SESSION_PORT
    ping_port: int = PING_PORT
    is_routing_server: bool = False
    # Addresses from which queue managers acknowledge besides those that are known, with GUIDs; NULL_GUID is any.
    ack_addresses: frozenset[tuple[bytes, str]] = frozenset()

    def for_its_role(self) -> "TransferSettings":
        """A routing server has another default."""
        if self.is_routing_server and self.idle_timeout_s == IDLE_TIMEOUT_S:
            return replace(self, idle_timeout_s=ROUTER_IDLE_TIMEOUT_S)
        return self
