"""Take a message out of a queue and send it once more, as one step: both are in one batch, or nothing is done.

The new message has another identifier. A message that was sent in a transaction is sent in one again, and others are
not, so a queue of the other kind is refused. The kind of a queue on another computer is unknown here.
"""

from collections.abc import Callable
from typing import Final

from waypost.api.messages import Copies
from waypost.api.properties import MESSAGE_ROWS
from waypost.api.rows import Kind
from waypost.clock import Now
from waypost.core.message import Message
from waypost.core.queue_manager import QueueManager
from waypost.core.queues import AccessType, OpenQueueDescriptor, OutgoingQueue, ReadRequest, ShareMode
from waypost.core.reading import MessageSeekAction
from waypost.errors import InvalidParameter, TransactionUsage
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.node.failures import failure
from waypost.node.sending import Sending, queue_of
from waypost.security.ciphers import PROVIDER_TYPES, PROVIDERS
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass, is_valid_custom_class
from waypost.wire.security_header import PRIVATE
from waypost.wire.user_message import UserMessage

# Attributes that a sender can set, but that depend on something else.
_DEPENDENT: Final = frozenset({"priority", "acknowledge", "admin_queue", "trace", "message_class"})
_KEPT: Final = (
    "body",
    "response_multi_queue_format_name",
    *(row.attribute for row in MESSAGE_ROWS if row.name not in _DEPENDENT and row.kind is not Kind.PROTECTION),
)
_ACKNOWLEDGMENTS: Final = (
    "acknowledgements_requested",
    "administration_queue_format_name",
    "administration_multi_queue_format_name",
)
_SIGNED: Final = ("signature", "sender_certificate", "sender_identifier", "sender_identifier_type", "hash_algorithm")
_CLASSES: Final = frozenset(map(int, MessageClass))


def resend(
    manager: QueueManager,
    sending: Sending,
    source: OpenQueueDescriptor,
    lookup_id: int,
    *,
    to: FormatName | None,
    transaction: bytes,
    check: Callable[[FormatName], None],
    now: Now,
) -> Message | Copies:
    """Send the message to another queue, or to its old destination. `transaction` is an unused GUID.

    `check` raises if the caller may not send there.

    Call it inside an operation. An error has changed nothing.
    """
    current = MessageSeekAction.SEEK_CURRENT
    shown = manager.reading.read_message_by_lookup_identifier(source, lookup_id, current, None)
    if shown.message is None:
        raise failure(shown.status)
    found = shown.message
    destination = to or found.destination_queue_format_name
    assert destination is not None, "a message in a queue must have a destination"
    check(destination)
    target = manager.open_queue(destination, AccessType.SEND, ShareMode.DENY_NONE, now)
    try:
        _check_kind(target, found)
        sent = _send(manager, sending, target, found, transaction if found.is_transactional else None, now=now)
    finally:
        manager.close_queue(target)
    taken = manager.reading.read_message_by_lookup_identifier(source, lookup_id, current, ReadRequest(0))
    assert taken.status is HResult.MQ_OK, "the message has changed since it was read"
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
    _protect(message, found, target)
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
    assert status is HResult.MQ_OK, "the transaction was begun here, but did not commit"
    return sent


def _protect(message: Message, found: Message, target: OpenQueueDescriptor) -> None:
    """A body that was encrypted, or was to be, is not sent in the clear. A signature holds for its destination only."""
    security = UserMessage.decode(found.packet).security
    if security is None:
        return
    if security.is_body_encrypted:
        raise InvalidParameter(
            "this queue manager cannot resend the message, because only another queue manager can decrypt the body"
        )
    if security.flags & PRIVATE:
        message.privacy_level, message.encryption_algorithm = found.privacy_level, found.encryption_algorithm
        message.authentication_provider_type = found.authentication_provider_type
        message.authentication_provider_name = found.authentication_provider_name
    if found.signature and target.format_name == found.destination_queue_format_name:
        for name in _SIGNED:
            setattr(message, name, getattr(found, name))
    elif security.flags & PRIVATE and not security.provider_info:
        # The header of a signed message names no provider, and this one is not signed any more.
        provider = PROVIDERS[PrivacyLevel(found.privacy_level)]
        message.authentication_provider_type = PROVIDER_TYPES[provider]
        message.authentication_provider_name = provider.value


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
