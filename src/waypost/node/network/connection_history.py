"""The history of connection attempts for an operator: ConnectionHistory of MS-MQDMPR 3.1.1.3."""

from typing import Final

from waypost.clock import Now
from waypost.core.management import record_connection
from waypost.hresult import HResult
from waypost.transfer.links import Link
from waypost.wire.management import ConnectionStatus

_Status = ConnectionStatus

_ERRORS: Final = {
    _Status.DNS_FAILURE: HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE,
    _Status.NO_ROUTING_DATA: HResult.MQ_ERROR_NO_DS,
    _Status.CONNECT_SOCKET_FAILURE: HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE,
    _Status.PING_FAILURE: HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE,
    _Status.CONNECTION_REFUSED: HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE,
}


def record(link: Link, status: ConnectionStatus, now: Now) -> None:
    """Record a step of a connection."""
    _append(link, status, HResult.MQ_OK, now)


def record_failure(link: Link, status: ConnectionStatus, now: Now) -> None:
    """MS-MQQB 3.1.5.2: record that the session was not established."""
    _append(link, status, _ERRORS.get(status, HResult.MQ_ERROR), now)


def hop_text(address: str) -> str:
    """MS-MQMQ 2.3.12.12."""
    return f"IPv6={address}" if ":" in address else f"IP={address}"


def _append(link: Link, status: ConnectionStatus, error: HResult, now: Now) -> None:
    hop = link.next_hop
    address = link.session.remote_qm_address if link.session is not None else hop.address if hop else ""
    record_connection(link.queue, status, error, (hop_text(address),) if address else (), now.wall)
