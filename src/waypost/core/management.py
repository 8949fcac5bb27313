"""Properties of live queues for an administrator: MS-MQMQ 2.3.11 and 2.3.12, from the fields in MS-MQMR 3.1.4.1.

A snapshot is a copy: later changes of the queue do not reach it. Where MS-MQMR contradicts MS-MQMQ, which defines the
properties, MS-MQMQ holds: format names are format names and not paths, the bytes of a journal are reported even when
nothing more goes into it, and the last acknowledgment even when every message is acknowledged.

Transfer writes its facts into the queue: MS-MQDMPR 3.1.1.4, 3.1.1.5, and 3.1.1.3 with `record_connection`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from waypost.core.queue_manager import QueueManager
from waypost.core.queues import NoPath, OutgoingQueue, OutgoingQueueState, Queue
from waypost.errors import DecodeError
from waypost.guid import parse_guid
from waypost.hresult import HResult
from waypost.wire.format_names import DirectFormatName, FormatName
from waypost.wire.management import (
    Answer,
    ConnectionEvent,
    ConnectionState,
    ConnectionStatus,
    MachineManagement,
    NextHop,
    QueueLocation,
    QueueManagement,
    QueueState,
    QueueType,
    SourceInfo,
)
from waypost.wire.path_names import QueueKind

_TYPES: Final = {
    QueueKind.PUBLIC: QueueType.MGMT_QUEUE_TYPE_PUBLIC,
    QueueKind.PRIVATE: QueueType.MGMT_QUEUE_TYPE_PRIVATE,
    QueueKind.SYSTEM: QueueType.MGMT_QUEUE_TYPE_MACHINE,
    NoPath.CONNECTOR: QueueType.MGMT_QUEUE_TYPE_CONNECTOR,
}

# MS-MQMQ 2.3.12.11 has no word for Locked; no connection is tried then.
_STATES: Final = {
    OutgoingQueueState.CONNECTED: QueueState.MGMT_QUEUE_STATE_CONNECTED,
    OutgoingQueueState.DISCONNECTED: QueueState.MGMT_QUEUE_STATE_DISCONNECTED,
    OutgoingQueueState.DISCONNECTING: QueueState.MGMT_QUEUE_STATE_DISCONNECTING,
    OutgoingQueueState.INACTIVE: QueueState.MGMT_QUEUE_STATE_NONACTIVE,
    OutgoingQueueState.LOCKED: QueueState.MGMT_QUEUE_STATE_NONACTIVE,
    OutgoingQueueState.NEED_VALIDATION: QueueState.MGMT_QUEUE_STATE_NEED_VALIDATE,
    OutgoingQueueState.WAITING: QueueState.MGMT_QUEUE_STATE_WAITING,
    OutgoingQueueState.ON_HOLD: QueueState.MGMT_QUEUE_STATE_ONHOLD,
}
_STATES_WITH_HOPS: Final = (OutgoingQueueState.CONNECTED, OutgoingQueueState.WAITING)


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """Facts of the directory side of a queue manager (MS-MQDMPR 3.1.1.1). In workgroup mode it is never offline."""

    directory_offline: bool = False
    foreign_system: bool = False


def machine_snapshot(manager: QueueManager, version: str = "") -> MachineManagement:
    """MS-MQMQ 2.3.11. Journals and subqueues are queues too, but do not count as private queues."""
    queues = manager.collection.by_number.values()
    attributes = manager.attributes
    servers = attributes.directory_server_list if attributes.directory_integrated else ()
    return MachineManagement(
        [_format_name(queue) for queue in queues if queue.descriptors or len(queue.positions)],
        [str(queue.pathname) for queue in manager.queues.values() if queue.queue_type is QueueKind.PRIVATE],
        next(iter(servers), None),
        ConnectionState.MSMQ_CONNECTED if manager.connection_active else ConnectionState.MSMQ_DISCONNECTED,
        version,
        manager.total_bytes,
    )


def queue_snapshot(
    queue: Queue, directory: DirectoryState, source_info: Sequence[SourceInfo] = ()
) -> QueueManagement:  # fmt: skip
    """MS-MQMQ 2.3.12. `source_info` has the stored sources that send to the queue."""
    journal = queue.journal
    snapshot = QueueManagement(
        str(queue.pathname),
        _format_name(queue),
        _TYPES[queue.queue_type],
        QueueLocation.MGMT_QUEUE_LOCAL_LOCATION,
        xact=Answer.YES if queue.attributes.transactional else Answer.NO,
        foreign=_foreign(queue, directory),
        message_count=len(queue.positions),
        bytes_in_queue=queue.total_bytes,
        journal_message_count=0 if journal is None else len(journal.positions),
        bytes_in_journal=0 if journal is None else journal.total_bytes,
        source_info=list(source_info),
        subqueue_names=[each.pathname.subqueue for each in queue.subqueues.values() if not each.is_provisional],
        open_handles=len(queue.descriptors),
    )
    if isinstance(queue, OutgoingQueue):
        _add_transfer(snapshot, queue)
    return snapshot


def record_connection(
    queue: OutgoingQueue, status: ConnectionStatus, error: HResult, addresses: Sequence[str], wall: float
) -> None:
    """MS-MQDMPR 3.1.1.3 ConnectionHistory. The error is MQ_OK if nothing failed; as VT_I4, it has a sign."""
    signed = int.from_bytes(error.to_bytes(4, "little"), "little", signed=True)
    queue.connection_history.append(ConnectionEvent(status, int(wall), signed, tuple(addresses)))


def _add_transfer(snapshot: QueueManagement, queue: OutgoingQueue) -> None:
    """Add the properties of an outgoing queue."""
    if queue.multicast:
        snapshot.type = QueueType.MGMT_QUEUE_TYPE_MULTICAST
    if not isinstance(queue.destination_format_name, DirectFormatName):
        # No other name shows the place of the queue.
        snapshot.pathname = ""
    if not queue.attributes.transactional:
        snapshot.xact = Answer.UNKNOWN
    snapshot.location = QueueLocation.MGMT_QUEUE_REMOTE_LOCATION
    snapshot.state = _STATES[queue.state]
    if queue.state in _STATES_WITH_HOPS:
        snapshot.possible_hops = [hop for hop in map(_next_hop, queue.next_hops) if hop is not None]
    snapshot.eod = replace(queue.outgoing_transfer_info)
    snapshot.connection_history = list(queue.connection_history)


def _format_name(queue: Queue) -> str:
    if isinstance(queue, OutgoingQueue):
        return str(queue.destination_format_name)
    return str(FormatName.parse(f"DIRECT=OS:{queue.qualified_pathname}{';JOURNAL' if queue.is_journal else ''}"))


def _foreign(queue: Queue, directory: DirectoryState) -> Answer:
    if directory.directory_offline:
        return Answer.NO if queue.queue_type is QueueKind.PRIVATE else Answer.UNKNOWN
    return Answer.YES if directory.foreign_system else Answer.NO


def _next_hop(text: str) -> NextHop | None:
    """MS-MQMQ 2.3.12.12 has IP addresses and the GUIDs of connected networks, and no names."""
    _, _, address = text.rpartition("=")
    try:
        return ip_address(address)
    except ValueError:
        pass
    try:
        return parse_guid(text)
    except DecodeError:
        return None
