"""Take over messages that an application sends."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from waypost.api.messages import Copies
from waypost.clock import Now
from waypost.core.delivery import Delivery
from waypost.core.message import Message
from waypost.core.message_values import AuthenticationLevel, DeliveryGuarantee
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import OpenQueueDescriptor, OutgoingQueue, Queue
from waypost.core.writing import EnqueueStatus
from waypost.errors import UnsupportedFormatName
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.node.directory import NodeDirectory
from waypost.node.failures import failure, not_enqueued, refused
from waypost.node.kernel import Kernel
from waypost.wire.format_names import PublicFormatName

# Bytes of a message beside its body and extension: headers, names, a label.
_BESIDE: Final = 1024


def new_message(message: Message) -> Message:
    """A copy of a message from a queue for sending again: without the attributes of its first life."""
    if not message.lookup_identifier:
        return message
    return replace(
        message,
        lookup_identifier=0,
        arrival_time=0,
        abort_count=0,
        move_count=0,
        last_move_time=0,
        target_subqueue_name="",
        unit_of_work=NULL_GUID,
        origin=None,
        destination_multi_queue_format_name=(),
        first_in_transaction=False,
        last_in_transaction=False,
        transactional_message_sequence_identifier=None,
        packet=b"",
    )


class Sending:
    """`default_time_to_reach_queue` is that of a message without one, and the longest possible; seconds."""

    __slots__ = ("_delivery", "_directory", "_kernel", "_manager", "default_time_to_reach_queue")

    def __init__(
        self,
        kernel: Kernel,
        manager: QueueManager,
        directory: NodeDirectory,
        delivery: Delivery,
        default_time_to_reach_queue: int,
    ) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._directory: Final = directory
        self._delivery: Final = delivery
        self.default_time_to_reach_queue: Final = default_time_to_reach_queue

    def prepare(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: bytes | None,
        now: Now,
        bodies: Sequence[bytes] = (),
        level: AuthenticationLevel = AuthenticationLevel.NONE,
    ) -> None:
        """Set the attributes that sending decides, and check that the queues accept the message and the disk has room.

        With `bodies` there are as many messages like it. `level` is that of the signature that it has or will have.
        """
        message.packet = b""
        message.transaction_identifier = None
        # MS-MQDMPR 3.1.1.12: only transfer assigns these.
        message.transaction_status_queue_format_name = None
        message.soap_envelope = message.soap_body = message.soap_header = ""
        message.soap_compound_message = b""
        message.destination_queue_format_name = descriptor.format_name
        if type(descriptor.format_name) is PublicFormatName:
            host = self._directory.queue_manager_of(descriptor.format_name)
            message.destination_queue_manager_identifier = host
        if message.tracing_queue_identifier != NULL_GUID and not self._directory.is_integrated:
            name = PublicFormatName(message.tracing_queue_identifier)
            raise UnsupportedFormatName(
                f"{name} cannot receive reports: tracing requires a directory, and none is configured"
            )
        message.sent_time = int(now.wall)
        # MS-MQMQ 2.3.5.15: it is the longest time, and the default for an application that asks for no other.
        message.time_to_reach_queue = min(message.time_to_reach_queue, self.default_time_to_reach_queue)
        # Only a signature of this queue manager counts.
        message.authentication_level = level
        if transaction is not None:
            # MS-MQMQ 2.2.19.2: messages that are sent in a transaction are recoverable.
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
            message.transaction_identifier = self._manager.transactions.number(transaction)
        if message.delivery_guarantee is DeliveryGuarantee.RECOVERABLE:
            # Messages of a transaction are admitted here, so that its commit finds room.
            beside = _BESIDE + len(message.extension)
            largest = len(max(bodies, key=len) if bodies else message.body) + beside
            size = sum(map(len, bodies)) + len(bodies) * beside if bodies else largest
            self._kernel.check_room(size * (len(descriptor.multiple) or 1), largest)
        for each in descriptor.multiple or (descriptor,):
            refusal = self._delivery.refusal(queue_of(each), message)
            if refusal is not None:
                raise refused(each, refusal, message)

    def enqueue(
        self, descriptor: OpenQueueDescriptor, message: Message, transaction: bytes | None, now: Now
    ) -> Message | Copies:
        """Put a prepared message into its queue, or a copy into each of several: into all of them or none.

        Call it inside an operation. An error means that a queue does not accept it, and has changed nothing.
        """
        manager = self._manager
        message.identifier = manager.message_identifier()
        if not descriptor.multiple:
            if message.authentication_level is not AuthenticationLevel.NONE:
                verified_here(descriptor, message)
            status = manager.enqueue_message_to_open_queue(descriptor, message, transaction, now)
            if status is not EnqueueStatus.ACCEPTED:
                raise not_enqueued(descriptor, status)
            return message
        copies = manager.copies(descriptor, message)
        if message.authentication_level is not AuthenticationLevel.NONE:
            for each, copy in zip(descriptor.multiple, copies, strict=True):
                verified_here(each, copy)
        refusing = manager.refusing(descriptor, copies, transaction, now)
        if refusing is not None:
            raise not_enqueued(*refusing)
        status = manager.enqueue_copies(descriptor, copies, transaction, now)
        assert status is EnqueueStatus.ACCEPTED, "all queues were asked before"
        return Copies(descriptor.format_name, copies)


def verified_here(descriptor: OpenQueueDescriptor, message: Message) -> None:
    """A signature is verified at the destination: in an outgoing queue it is not yet."""
    if isinstance(descriptor.queue, OutgoingQueue):
        message.authentication_level = AuthenticationLevel.NONE


def close_unusable(manager: QueueManager, descriptor: OpenQueueDescriptor) -> None:
    """Leave no outgoing queue behind that was made for a name which no packet can carry."""
    manager.outgoing.close_unused([each.queue for each in descriptor.multiple or (descriptor,)])


def queue_of(descriptor: OpenQueueDescriptor) -> Queue:
    """The queue of a handle. Raises QueueNotAvailable if it is deleted."""
    if descriptor.queue is None:
        raise failure(HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE)
    return descriptor.queue
