"""Take a message out of a queue and send it once more, as one step: both are in one batch, or nothing is done.

The new message has another identifier. A message that was sent in a transaction is sent in one again, and others are
not, so a queue of the other kind is refused. The kind of a queue on another computer is unknown here.
"""

from typing import Final

from waypost.api.messages import Copies
from waypost.api.properties import MESSAGE_ROWS
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, ReadRequest, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.errors import TransactionUsage
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.node.failures import failure
from waypost.node.sending import Sending, queue_of
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass, is_valid_custom_class

# Attributes that a sender can set, but that depend on something else.
_DEPENDENT: Final = frozenset({"priority", "acknowledge", "admin_queue", "trace", "message_class"})
_KEPT: Final = (
    "body",
    "response_multi_queue_format_name",
    *(row.attribute for row in MESSAGE_ROWS if row.name not in _DEPENDENT),
)
_ACKNOWLEDGMENTS: Final = (
    "acknowledgements_requested",
    "administration_queue_format_name",
    "administration_multi_queue_format_name",
)
_CLASSES: Final = frozenset(map(int, MessageClass))


def resend(
    manager: QueueManager,
    sending: Sending,
    source: OpenQueueDescriptor,
    lookup_id: int,
    *,
    to: FormatName | None,
    transaction: bytes,
    now: Now,
) -> Message | Copies:
    """Send the message to another queue, or to its old destination. `transaction` is an unused GUID.

    Call it inside an operation. An error has changed nothing.
    """
    current = MessageSeekAction.SEEK_CURRENT
    shown = manager.reading.read_message_by_lookup_identifier(source, lookup_id, current, None)
    if shown.message is None:
        raise failure(shown.status)
    found = shown.message
    destination = to or found.destination_queue_format_name
    assert destination is not None, "a message in a queue must have a destination"
    target = manager.open_queue(destination, AccessType.SEND, ShareMode.DENY_NONE, now)
    try:
        _check_kind(target, found)
        sent = _send(manager, sending, target, found, transaction if found.is_transactional else None, now=now)
    finally:
        manager.close_queue(target)
    taken = manager.reading.read_message_by_lookup_identifier(source, lookup_id, current, ReadRequest(0))
    assert taken.status is HResult.MQ_OK, "nothing has happened since it was shown"
    return sent


def _check_kind(target: OpenQueueDescriptor, message: Message) -> None:
    for each in target.multiple or (target,):
        queue = queue_of(each)
        if isinstance(queue, OutgoingQueue) or queue.attributes.transactional == message.is_transactional:
            continue
        kinds = ("is transactional", "was not") if queue.attributes.transactional else ("is not transactional", "was")
        error = TransactionUsage(f"{each.format_name} {kinds[0]}, but the message {kinds[1]} sent in a transaction")
        error.add_note("receive the message and send it, or export and import it; both create a new message")
        raise error


def _send(
    manager: QueueManager,
    sending: Sending,
    target: OpenQueueDescriptor,
    found: Message,
    transaction: bytes | None,
    *,
    now: Now,
) -> Message | Copies:
    transactions = manager.transactions
    message = _once_more(found)
    if transaction is None:
        sending.prepare(target, message, None, now)
        return sending.enqueue(target, message, None, now)
    transactions.create_transaction(transaction)
    try:
        sending.prepare(target, message, transaction, now)
        sent = sending.enqueue(target, message, transaction, now)
    except Exception:
        transactions.transaction_abort(transaction)
        raise
    status = transactions.transaction_commit(transaction, now.wall)
    assert status is HResult.MQ_OK, "it was begun in this operation"
    return sent


def _once_more(found: Message) -> Message:
    """A new message with the same content. Drops a class that only the system gives, as to dead-letter messages."""
    message = Message(priority=found.effective_priority)
    for name in _KEPT:
        setattr(message, name, getattr(found, name))
    if found.acknowledgements_requested and found.administration_queue_format_name is not None:
        for name in _ACKNOWLEDGMENTS:
            setattr(message, name, getattr(found, name))
    if found.tracing_queue_identifier != NULL_GUID:
        message.tracing_queue_identifier, message.tracing_requested = found.tracing_queue_identifier, True
    if is_valid_custom_class(found.message_class) and found.message_class not in _CLASSES:
        message.message_class = found.message_class
    return message
