"""What an administrator is told of live queues: MS-MQMQ 2.3.11 and 2.3.12, out of what MS-MQMR 3.1.4.1 names.

A snapshot is a copy: what happens to the queue afterwards does not reach it. Where MS-MQMR contradicts MS-MQMQ, which
defines the properties, MS-MQMQ holds: format names are format names and not paths, the bytes of a journal are told even
when nothing more goes into it, and the last acknowledgment even when every message is acknowledged.

Whoever transfers messages keeps what is told of that: OutgoingTransfer (MS-MQDMPR 3.1.1.4), IncomingTransfer (3.1.1.5)
and `record_connection` (3.1.1.3) write it into the queue.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import NoPath, OutgoingQueue, OutgoingQueueState, Queue
from waypost.errors import DecodeError
from waypost.guid import parse_guid
from waypost.hresult import HResult
from waypost.wire.format_names import DirectFormatName, FormatName
from waypost.wire.identifiers import SequenceInfo, TxSequenceId
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
    """What the directory side of a queue manager (MS-MQDMPR 3.1.1.1) adds. In workgroup mode it is never offline."""

    directory_offline: bool = False
    foreign_system: bool = False


def machine_snapshot(manager: QueueManager, version: str = "") -> MachineManagement:
    """MS-MQMQ 2.3.11. Journals and subqueues are queues too, but only a queue of its own is a private queue."""
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


def queue_snapshot(queue: Queue, directory: DirectoryState) -> QueueManagement:
    """MS-MQMQ 2.3.12."""
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
        source_info=list(queue.incoming_transactional_transfer_info.values()),
        subqueue_names=[subqueue.pathname.subqueue for subqueue in queue.subqueues.values()],
        open_handles=len(queue.descriptors),
    )
    if isinstance(queue, OutgoingQueue):
        _add_transfer(snapshot, queue)
    return snapshot


def record_connection(
    queue: OutgoingQueue, status: ConnectionStatus, error: HResult, addresses: Sequence[str], wall: float
) -> None:
    """MS-MQDMPR 3.1.1.3 ConnectionHistory. The error is MQ_OK if nothing failed; told as VT_I4, it has a sign."""
    signed = int.from_bytes(error.to_bytes(4, "little"), "little", signed=True)
    queue.connection_history.append(ConnectionEvent(status, int(wall), signed, tuple(addresses)))


class OutgoingTransfer:
    """Keeps the OutgoingTransferInfo (MS-MQDMPR 3.1.1.4) of a queue up to date. Only transactional messages count."""

    __slots__ = ("_acknowledged", "_info", "_received", "_unacknowledged")

    def __init__(self, queue: OutgoingQueue) -> None:
        self._info: Final = queue.outgoing_transfer_info
        self._unacknowledged: deque[_Sent] = deque()
        # How many messages with a final acknowledgment had which one. The final one may be the faster.
        self._acknowledged = 0
        self._received = 0

    def sequence_begun(self, sequence: TxSequenceId) -> None:
        """Nothing was sent in it yet."""
        self._info.next_seq = SequenceInfo.of(sequence, 1, 0)

    def sent(self, message: Message, resend_interval: int, wall: float) -> None:
        """The message has left, for the first time or again. It leaves again if nothing comes for so many seconds."""
        info, sent = self._info, _Sent.of(message)
        if not _precedes(sent.info, info.next_seq):
            self._unacknowledged.append(sent)
            info.next_seq = SequenceInfo(sent.info.seq_id, sent.info.seq_no + 1, sent.info.seq_no)
            info.resend_count = 1
        elif sent.info == info.last_non_ack:
            info.resend_count += 1
        info.resend_interval = resend_interval
        info.resend_time = int(wall) + resend_interval
        self._count()

    def order_acknowledged(self, sequence: TxSequenceId, sequence_number: int, wall: float) -> None:
        """All messages of the sequence up to this one have arrived. The same acknowledgment may come again."""
        info, behind = self._info, SequenceInfo.of(sequence, sequence_number + 1, sequence_number)
        newest = None
        while self._unacknowledged and _precedes(self._unacknowledged[0].info, behind):
            newest = self._unacknowledged.popleft()
            self._acknowledged += newest.awaits_final_ack
        if newest is not None:
            info.last_ack, info.last_ack_count, info.last_ack_time = newest.info, 1, int(wall)
        elif info.last_ack is not None and _precedes(info.last_ack, behind):
            info.last_ack_count, info.last_ack_time = info.last_ack_count + 1, int(wall)
        self._count()

    def finally_acknowledged(self) -> None:
        """A message was received from its queue, or is lost to it."""
        self._received += 1
        self._count()

    def _count(self) -> None:
        info, waiting = self._info, self._unacknowledged
        info.first_non_ack = waiting[0].info if waiting else None
        info.last_non_ack = waiting[-1].info if waiting else None
        info.no_ack_count = len(waiting)
        info.no_read_count = max(self._acknowledged - self._received, 0)
        if not waiting:
            info.resend_time = 0


class IncomingTransfer:
    """Keeps an IncomingTransactionalTransferInfo (MS-MQDMPR 3.1.1.5): what one queue manager sends to one queue."""

    __slots__ = ("_info", "_queue", "_rejected")

    def __init__(self, queue: Queue, info: SourceInfo) -> None:
        self._queue: Final = queue
        self._rejected = 0
        self._tell(info)

    def accepted(self, sequence: TxSequenceId, sequence_number: int, wall: float) -> None:
        """The count that stays is that of this message."""
        accepted = replace(self._info, sequence_id=sequence.value, sequence_number=sequence_number)
        self._tell(replace(accepted, last_access_time=int(wall), message_reject_count=self._rejected))
        self._rejected = 0

    def rejected(self, wall: float) -> None:
        self._rejected += 1
        self._tell(replace(self._info, last_access_time=int(wall), message_reject_count=self._rejected))

    def _tell(self, info: SourceInfo) -> None:
        self._info = info
        self._queue.incoming_transactional_transfer_info[info.sender_id] = info


@dataclass(frozen=True, slots=True)
class _Sent:
    info: SequenceInfo
    awaits_final_ack: bool

    @classmethod
    def of(cls, message: Message) -> "_Sent":
        """MS-MQQB 3.1.7.2.2: a FinalAck comes for what is journaled at its source, and if it is asked for."""
        sequence = message.transactional_message_sequence_identifier
        assert sequence is not None
        return cls(
            SequenceInfo.of(
                sequence, message.transaction_sequence_number, message.transaction_previous_sequence_number
            ),
            message.positive_journaling_requested
            or message.negative_journaling_requested
            or message.final_ack_required,
        )


def _precedes(info: SequenceInfo, other: SequenceInfo | None) -> bool:
    """Whether it is an earlier message of the same sequence."""
    return other is not None and info.seq_id == other.seq_id and info.seq_no < other.seq_no


def _add_transfer(snapshot: QueueManagement, queue: OutgoingQueue) -> None:
    """What only an outgoing queue has."""
    if queue.multicast:
        snapshot.type = QueueType.MGMT_QUEUE_TYPE_MULTICAST
    if not isinstance(queue.destination_format_name, DirectFormatName):
        # No other name tells where the queue is.
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
    """MS-MQMQ 2.3.12.12 tells IP addresses and the GUIDs of connected networks, and no names."""
    _, _, address = text.rpartition("=")
    try:
        return ip_address(address)
    except ValueError:
        pass
    try:
        return parse_guid(text)
    except DecodeError:
        return None
