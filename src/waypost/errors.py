"""The error tree. Every error of Waypost is a WaypostError that carries its HRESULT and a sentence.

Two branches matter to a caller. A ProtocolError says that bytes or text from outside are wrong (a remote host, a file,
a name somebody typed); nothing else is ever raised for them. The other errors say that the queue manager cannot do what
the caller asked for. Errors are raised as the narrowest class and are translated only where a layer hands them to a
person or another protocol (RPC, HTTP, an exit code). The numbers are those of MS-MQMQ 2.4.
"""

from typing import ClassVar

from waypost.hresult import HResult


class WaypostError(Exception):
    """Base class of all errors of Waypost."""

    hresult: ClassVar[HResult] = HResult.MQ_ERROR


class ProtocolError(WaypostError):
    """Something from outside breaks the rules of a specification."""


class DecodeError(ProtocolError):
    """Bytes or text that are not what their specification says.

    `section` cites it ("MS-MQMQ 2.2.19.1"), `field` is the specification's word, `offset` counts bytes (or characters
    of a name) from the start of the packet, blob or text that was given, and `reason` completes the sentence.
    """

    def __init__(self, section: str, field: str, offset: int, reason: str) -> None:
        super().__init__(section, field, offset, reason)
        self.section = section
        self.field = field
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field} at offset {self.offset}: {self.reason} ({self.section})"


class IllegalPathName(DecodeError):
    """The text is not a path name of MS-MQMQ 2.1.1."""

    hresult = HResult.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME


class IllegalFormatName(DecodeError):
    """The text is not a format name of MS-MQMQ 2.1.2 to 2.1.7."""

    hresult = HResult.MQ_ERROR_ILLEGAL_FORMATNAME


class AuthenticationFailed(ProtocolError):
    """The signature of a message is wrong or not verifiable, or a caller failed to authenticate."""

    hresult = HResult.MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX


class DecryptionFailed(ProtocolError):
    """The body of a message does not decrypt."""

    hresult = HResult.MQ_ERROR_CORRUPTED_SECURITY_DATA


class UnsupportedFormatName(WaypostError):
    """The format name is legal but the operation is not possible with its kind."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION


class EncodeError(WaypostError):
    """A record holds values that its packet cannot carry. `field` is the specification's word."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER

    def __init__(self, section: str, field: str, reason: str) -> None:
        super().__init__(section, field, reason)
        self.section = section
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason} ({self.section})"


class InvalidParameter(WaypostError):
    """An argument is wrong in itself, or does not go with the others."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER


class InvalidHandle(WaypostError):
    """The handle of a queue, a cursor or a request names nothing that is open."""

    hresult = HResult.MQ_ERROR_INVALID_HANDLE


class ServiceNotAvailable(WaypostError):
    """The queue manager is not Ready: it has not started yet, or is stopping."""

    hresult = HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE


class CannotConnect(ServiceNotAvailable):
    """No daemon answers at the address, so nothing was asked."""


class ConnectionLost(ServiceNotAvailable):
    """The connection to the daemon ended before its answer came: the outcome is unknown."""


class HostError(WaypostError):
    """Another host has not acknowledged messages that were sent to it without a queue manager, or does not let us read.

    `acknowledged` and `unknown` are the places, in the list of what was sent, of messages that the host has, and of
    those of which nobody knows here whether it has them. The others it has not.
    """

    hresult = HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE

    def __init__(self, sentence: str, acknowledged: tuple[int, ...] = (), unknown: tuple[int, ...] = ()) -> None:
        super().__init__(sentence)
        self.acknowledged = acknowledged
        self.unknown = unknown

    @property
    def is_outcome_unknown(self) -> bool:
        """Whether some message may have arrived: to send it again may double it."""
        return bool(self.unknown)


class HostUnreachable(HostError):
    """The name of the host is not known, or nothing answers there."""


class SessionRefused(HostError):
    """Something answers at the host and grants no session, or serves no remote reader."""


class SessionLost(HostError):
    """The session was open, and ended before everything was acknowledged."""


class NotAcknowledged(HostError):
    """The session is open, and the time to wait for acknowledgments is over."""


class AccessDenied(WaypostError):
    """The caller lacks the right, or the queue was not opened for this."""

    hresult = HResult.MQ_ERROR_ACCESS_DENIED


class QueueError(WaypostError):
    """A queue does not allow the operation."""


class QueueNotFound(QueueError):
    """The queue does not exist on this computer."""

    hresult = HResult.MQ_ERROR_QUEUE_NOT_FOUND


class QueueExists(QueueError):
    """A queue with this path name is there already."""

    hresult = HResult.MQ_ERROR_QUEUE_EXISTS


class QueueDeleted(QueueError):
    """The queue was deleted while a read waited on it; its handles can only be closed."""

    hresult = HResult.MQ_ERROR_QUEUE_DELETED


class QueueNotAvailable(QueueError):
    """The queue behind an open handle is gone, or its remote computer does not answer."""

    hresult = HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE


class SharingViolation(QueueError):
    """Somebody else has the queue open for exclusive receiving, or exclusive receiving is asked for an open queue."""

    hresult = HResult.MQ_ERROR_SHARING_VIOLATION


class ResetUnderWay(QueueNotAvailable):
    """One reset of the sequence of an outgoing queue is done at a time."""


class UnsupportedAccessMode(QueueError):
    """The queue does not open with this access mode."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_ACCESS_MODE


class MessageError(WaypostError):
    """A message was not found, received or sent."""


class MessageNotFound(MessageError):
    """No message has this lookup identifier, or there is none in the direction of the seek."""

    hresult = HResult.MQ_ERROR_MESSAGE_NOT_FOUND


class MessageAlreadyReceived(MessageError):
    """The message at the cursor was removed from the queue by somebody else."""

    hresult = HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED


class MessageLocked(MessageError):
    """Another transaction holds the message until it ends."""

    hresult = HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION


class LabelTooLong(MessageError):
    """The label has more UTF-16 units than a message carries."""

    hresult = HResult.MQ_ERROR_LABEL_TOO_LONG


class IllegalCursorAction(WaypostError):
    """The cursor cannot peek at the next message before it has peeked at a current one."""

    hresult = HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION


class WaitError(WaypostError):
    """A read that waited ended without a message."""


class Timeout(WaitError):
    """The time to wait for a message is over."""

    hresult = HResult.MQ_ERROR_IO_TIMEOUT


class OperationCancelled(WaitError):
    """The wait was cancelled, or its handle was closed."""

    hresult = HResult.MQ_ERROR_OPERATION_CANCELLED


class PropertyError(WaypostError):
    """A property is invalid."""

    hresult = HResult.MQ_ERROR_PROPERTY


class IllegalPropertyId(PropertyError):
    """The object has no property with this number."""

    hresult = HResult.MQ_ERROR_ILLEGAL_PROPID


class IllegalPropertyType(PropertyError):
    """The variant type is not the one of the property."""

    hresult = HResult.MQ_ERROR_ILLEGAL_PROPERTY_VT


class IllegalPropertyValue(PropertyError):
    """The value is not among those that the property may have."""

    hresult = HResult.MQ_ERROR_ILLEGAL_PROPERTY_VALUE


class IllegalSecurityDescriptor(PropertyError):
    """The bytes are not a self-relative security descriptor."""

    hresult = HResult.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR


class PropertyNotAllowed(PropertyError):
    """The operation does not allow the property, such as a path name after creation."""

    hresult = HResult.MQ_ERROR_PROPERTY_NOTALLOWED


class TooManyProperties(PropertyError):
    """One call names more than 128 properties."""

    hresult = HResult.MQ_ERROR_TOO_MANY_PROPERTIES


class TransactionError(WaypostError):
    """A transaction cannot go on as asked."""


class TransactionUsage(TransactionError):
    """The operation is not allowed in this transaction, or only in one."""

    hresult = HResult.MQ_ERROR_TRANSACTION_USAGE


class TransactionSequence(TransactionError):
    """No such transaction is under way, or it is past the step that was asked for."""

    hresult = HResult.MQ_ERROR_TRANSACTION_SEQUENCE


class TransactionImportFailed(TransactionError):
    """The propagation token of a remote transaction is invalid."""

    hresult = HResult.MQ_ERROR_TRANSACTION_IMPORT


class TransactionEnlistFailed(TransactionError):
    """The queue manager cannot take part in the transaction."""

    hresult = HResult.MQ_ERROR_TRANSACTION_ENLIST


class CoordinatorNotConnected(TransactionError):
    """The coordinator does not say how a transaction in doubt ended, so the queue manager cannot start."""

    hresult = HResult.MQ_ERROR_DTC_CONNECT


class StoreError(WaypostError):
    """The store failed to keep data."""

    hresult = HResult.MQ_ERROR_MESSAGE_STORAGE_FAILED


class InsufficientResources(StoreError):
    """A quota, the disk or memory is used up."""

    hresult = HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


class LimitReached(InsufficientResources):
    """A limit on the number of something, such as transactions, is reached."""


class StoreFull(StoreError):
    """The disk has no room, or the store has reached the size it may have. Nothing was stored, and nothing will be."""

    hresult = HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


class OutcomeUnknown(StoreError):
    """The disk failed while something was stored. It is kept in memory, and written if the disk works again in time."""


class StoreReadOnly(StoreError):
    """The folder of the store is read-only."""


class StoreInUse(StoreError):
    """Another process, or another store object of this one, has the folder open."""


class StoreDamaged(StoreError):
    """The store holds bytes that Waypost has not written."""


class RecordDamaged(StoreDamaged):
    """A record of the store is not what was written under its key, or is gone.

    `table` is the number of a waypost.store.port.Table. `value` has the bytes that are there in its place with what was
    their checksum, and is None if nothing is there or it is unreadable. A program sees the sentence.
    """

    def __init__(self, reason: str, table: int = 0, key: bytes = b"", value: bytes | None = None) -> None:
        super().__init__(reason)
        self.table = table
        self.key = key
        self.value = value


class StoreTooOld(StoreError):
    """An older Waypost wrote the store, and a reader that may not change it cannot upgrade it."""


class StoreTooNew(StoreError):
    """A newer Waypost has written the store."""


class NotAStore(StoreError):
    """The folder holds something else."""


class BackupError(StoreError):
    """A backup failed, or is not usable."""


class BackupUnderWay(BackupError):
    """One backup of a store is made at a time."""


class BackupDamaged(BackupError):
    """The backup is not whole."""


class DirectoryError(WaypostError):
    """The directory did not do as asked: GenericError of MS-MQDMPR 3.1.1.17. Each other status has its own class."""

    hresult = HResult.MQ_ERROR_DS_ERROR


class DirectoryNotConnected(DirectoryError):
    """The directory is unreachable, or this queue manager has none."""

    hresult = HResult.MQ_ERROR_NO_DS


class DirectoryObjectNotFound(DirectoryError):
    """The directory has no such object."""


class DirectoryAttributeNotFound(DirectoryError):
    """The object is there and an attribute that was asked for is not set."""


class DirectoryObjectExists(DirectoryError):
    """The directory has an object with this name or identifier already."""
