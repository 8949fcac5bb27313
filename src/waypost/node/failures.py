"""Map an HRESULT of the core to the error for an application."""

from collections.abc import Iterator
from typing import Final

from waypost import errors
from waypost.core.delivery import protection_hint, protection_sentence
from waypost.core.message import Message
from waypost.core.queues import OpenQueueDescriptor
from waypost.core.writing import EnqueueStatus
from waypost.errors import WaypostError
from waypost.hresult import HResult
from waypost.wire.algorithms import PrivacyLevel
from waypost.wire.message_class import MessageClass, meaning

# Sentences for cases that the docstring of the class does not cover.
_SENTENCES: Final = {
    HResult.MQ_ERROR_IO_TIMEOUT: "no message arrived in time",
    HResult.MQ_ERROR_MESSAGE_NOT_FOUND: "the message does not exist",
    HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED: "another reader has received the message at the cursor",
    HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION: "the message is locked by a transaction",
    HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION: "the cursor is in use, or has no current message",
    HResult.MQ_ERROR_TRANSACTION_USAGE: (
        "the message is locked by a transaction, or the queue does not accept transactions"
    ),
    HResult.MQ_ERROR_TRANSACTION_SEQUENCE: "the transaction is not active",
    HResult.MQ_ERROR_ACCESS_DENIED: "the queue was not opened for this operation",
    HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE: "the queue of the handle no longer exists",
    HResult.MQ_ERROR_QUEUE_DELETED: "the queue was deleted",
    HResult.MQ_ERROR_OPERATION_CANCELLED: "the wait was cancelled",
}


_REFUSALS: Final = {
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_Q: "is not transactional: send without a transaction",
    MessageClass.MQMSG_CLASS_NACK_NOT_TRANSACTIONAL_MSG: "is transactional: send in a transaction",
}


_PROTECTION: Final = (
    MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE,
    MessageClass.MQMSG_CLASS_NACK_BAD_ENCRYPTION,
)


def failure(status: HResult) -> WaypostError:
    """The error with this status, as the most general of its classes."""
    return _CLASSES[status](_SENTENCES[status])


def refused(descriptor: OpenQueueDescriptor, reason: MessageClass, message: Message) -> WaypostError:
    """The error when a queue of this computer does not accept a message."""
    sentence = _REFUSALS.get(reason)
    if sentence is not None:
        return errors.TransactionUsage(f"{descriptor.format_name} {sentence}")
    if reason not in _PROTECTION:
        return errors.AccessDenied(f"{descriptor.format_name} refuses the message: {meaning(reason)}")
    is_encrypted = message.privacy_level != PrivacyLevel.NONE
    words = protection_sentence(reason, is_encrypted=is_encrypted)
    error = errors.AccessDenied(f"{descriptor.format_name} refuses the message: {words}")
    error.add_note(protection_hint(reason, is_encrypted=is_encrypted))
    return error


def not_moved(source: OpenQueueDescriptor, target: OpenQueueDescriptor, status: HResult) -> WaypostError:
    """The error when a message does not move from one queue to the other (MS-MQRR 3.1.4.10)."""
    if status is HResult.STATUS_INVALID_PARAMETER:
        error = errors.InvalidParameter(
            f"{source.format_name} and {target.format_name} are neither a queue and its subqueue "
            "nor two subqueues of one queue"
        )
        error.add_note(
            "`waypost message resend NAME MESSAGE --to QUEUE` receives a message and sends it to another queue"
        )
        return error
    if status is HResult.MQ_ERROR_TRANSACTION_USAGE:
        return errors.TransactionUsage(f"{target.format_name} is not transactional: move without a transaction")
    return failure(status)


def not_enqueued(descriptor: OpenQueueDescriptor, status: EnqueueStatus) -> WaypostError:
    match status:
        case EnqueueStatus.QUEUE_QUOTA_EXCEEDED:
            return errors.InsufficientResources(f"{descriptor.format_name} has reached its quota: nothing was stored")
        case EnqueueStatus.QUEUE_MANAGER_QUOTA_EXCEEDED:
            return machine_is_full()
        case _:
            return errors.Timeout("the time to reach the queue has expired")


def machine_is_full() -> WaypostError:
    return errors.InsufficientResources(
        "this queue manager has reached its quota (quotas.machine_kb): nothing was stored"
    )  # fmt: skip


def _tree(root: type[WaypostError]) -> Iterator[type[WaypostError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


_CLASSES: Final = {
    cls.hresult: cls for cls in _tree(WaypostError) if cls.__module__ == errors.__name__ and "hresult" in vars(cls)
}
