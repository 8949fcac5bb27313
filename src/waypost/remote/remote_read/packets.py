"""A message of a queue as the answer to a start call: MS-MQRR 2.2.5 and 3.1.4.7."""

from waypost.core.message import Message
from waypost.core.positions import PositionState
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import Queue
from waypost.core.serialization import packet_of
from waypost.core.transaction_records import OperationType
from waypost.errors import IllegalPathName
from waypost.wire.message_class import MessageClass
from waypost.wire.path_names import PathName
from waypost.wire.receive_reply import BodyLimits, ReceiveReply
from waypost.wire.remote_packet import Origin, RemotePacket
from waypost.wire.remote_trailers import DI, DeadLetterHeader, ExtensionHeader, SubqueueHeader


def receive_reply(manager: QueueManager, queue: Queue, message: Message, limits: BodyLimits) -> ReceiveReply:
    """A message sent on this computer has no address."""
    origin = message.origin or Origin(manager.identity.identifier)
    packet = RemotePacket.of(packet_of(message), origin)
    packet.subqueue = _subqueue_header(manager, queue, message)
    dead_letter_queue = message.application_deadletter_queue
    if dead_letter_queue:
        packet.dead_letter = DeadLetterHeader(dead_letter_queue)
        packet.extension = ExtensionHeader(flags=0 if _is_queue(manager, dead_letter_queue) else DI)
    return ReceiveReply.of(packet.encode(), message.lookup_identifier, message.arrival_time, limits)


def _subqueue_header(manager: QueueManager, queue: Queue, message: Message) -> SubqueueHeader:
    header = SubqueueHeader(
        abort_counter=message.abort_count,
        move_counter=message.move_count,
        last_move_time=message.last_move_time,
        subqueue_name=queue.pathname.subqueue,
    )
    lookup_id = message.lookup_identifier
    if queue.positions.state(lookup_id) is PositionState.LOCKED:
        # Somebody peeks at a message that a transaction holds, which says what is to become of it.
        found = manager.transactions.operation_on(queue, lookup_id)
        if found is not None:
            operation = found[1]
            if operation.operation_type is OperationType.MOVE and operation.target_queue is not None:
                header.target_subqueue_name = operation.target_queue.pathname.subqueue
            elif operation.dequeue_reason is MessageClass.MQMSG_CLASS_NACK_RECEIVE_REJECTED:
                header.acknowledgement_class = operation.dequeue_reason
    return header


def _is_queue(manager: QueueManager, path: str) -> bool:
    try:
        return PathName.parse(path) in manager.queues
    except IllegalPathName:
        return False
