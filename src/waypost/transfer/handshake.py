"""The handshake of a session: MS-MQQB 2.2.7 and 3.1.5.2.3 to 3.1.5.4.

Nothing here has state. Times are milliseconds, as in the packets.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from waypost.clock import Now
from waypost.guid import NULL_GUID, guid_text
from waypost.wire.internal_packets import OS, SE, EstablishConnection
from waypost.wire.ping import RC, Ping
from waypost.wire.property_values import OperatingSystem

_SERVERS: Final = (OperatingSystem.MSMQ_OS_NTS, OperatingSystem.MSMQ_OS_NTE)

# MS-MQQB 2.2.2.1: the ranges of RecoverableAckTimeout and AckTimeout.
MIN_RECOVERABLE_ACK_TIMEOUT: Final = 500
MIN_ACK_TIMEOUT: Final = 20_000
MAX_TIMEOUT: Final = 120_000

_UINT32: Final = 0xFFFF_FFFF


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


def why_refuse(request: EstablishConnection, own_guid: bytes) -> str | None:
    """MS-MQQB 3.1.5.3.1: the reason to refuse a requested session. Zero asks for nobody (readings MQQB 3.12)."""
    if request.client_guid == own_guid:
        return "the other queue manager has the same identifier as this queue manager"
    if request.server_guid in (own_guid, NULL_GUID):
        return None
    return f"the request is for the queue manager {guid_text(request.server_guid)}, not for this queue manager"


def why_refused(response: EstablishConnection, own_guid: bytes, expected_guid: bytes) -> str | None:
    """MS-MQQB 3.1.5.3.2: the reason why the answer grants no session.

    A direct format name accepts any queue manager: `expected_guid` is NULL_GUID (readings MQQB 3.11).
    """
    if response.server_guid == own_guid:
        return "the other queue manager has the same identifier as this queue manager"
    if response.internal.is_refused:
        return "the other side refuses the session"
    if response.client_guid != own_guid:
        return f"the answer is for the queue manager {guid_text(response.client_guid)}, not for this queue manager"
    if expected_guid not in (NULL_GUID, response.server_guid):
        return f"the queue manager {guid_text(response.server_guid)} answers instead of {guid_text(expected_guid)}"
    return None


def recoverable_ack_send_timeout(uptime_ms: int, time_stamp: int) -> int:
    """MS-MQQB 3.1.5.3.2: RecoverableAckSendTimeout from the TimeStamp that the other side has echoed."""
    return in_recoverable_ack_range(8 * (uptime_ms - time_stamp & _UINT32))


def uptime_ms(now: Now) -> int:
    return int(now.monotonic * 1000)


def in_recoverable_ack_range(timeout: int) -> int:
    return min(max(timeout, MIN_RECOVERABLE_ACK_TIMEOUT), MAX_TIMEOUT)


def in_ack_range(timeout: int) -> int:
    return min(max(timeout, MIN_ACK_TIMEOUT), MAX_TIMEOUT)
