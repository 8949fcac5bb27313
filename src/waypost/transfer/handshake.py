"""What a queue manager says when it opens a session: MS-MQQB 2.2.7, 3.1.5.2.3 and 3.1.5.3.2."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from waypost.wire.internal_packets import OS, SE, ConnectionParameters, EstablishConnection
from waypost.wire.ping import RC, Ping
from waypost.wire.property_values import OperatingSystem
from waypost.wire.session_header import DEFAULT_WINDOW_SIZE

_SERVERS: Final = (OperatingSystem.MSMQ_OS_NTS, OperatingSystem.MSMQ_OS_NTE)


class PingUse(Enum):
    """Whether a Ping Request was sent while the session was created."""

    SENT = auto()
    NOT_SENT = auto()


@dataclass(frozen=True, slots=True)
class Initiator:
    """The queue manager that opens sessions: QueueManager.Identifier and OperatingSystemType of MS-MQDMPR 3.1.1.1."""

    identifier: bytes
    operating_system: OperatingSystem

    def ping_request(self, cookie: int) -> Ping:
        """MS-MQQB 2.2.7."""
        return Ping(flags=0 if self.operating_system in _SERVERS else RC, cookie=cookie, qm_guid=self.identifier)

    def establish_request(self, remote_qm_guid: bytes, ping: PingUse, uptime_ms: int) -> EstablishConnection:
        """MS-MQQB 3.1.5.2.3. `remote_qm_guid` is NULL_GUID for a direct format name."""
        flags = 0 if ping is PingUse.SENT else SE
        if self.operating_system in _SERVERS:
            flags |= OS
        return EstablishConnection.request(self.identifier, remote_qm_guid, uptime_ms, flags)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The session state of MS-MQQB 3.1.1.3.1.1 that its ConnectionParameters tell the other side."""

    recoverable_ack_send_timeout_ms: int = 500
    ack_wait_timeout_ms: int = 20_000
    window_size: int = DEFAULT_WINDOW_SIZE

    def connection_parameters(self) -> ConnectionParameters:
        """MS-MQQB 3.1.5.3.2: what the initiator sends when the session was granted."""
        return ConnectionParameters(
            recoverable_ack_timeout=self.recoverable_ack_send_timeout_ms,
            ack_timeout=self.ack_wait_timeout_ms,
            window_size=self.window_size,
        )
