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
    """Data from outside violates a specification."""


class DecodeError(ProtocolError):
    """Bytes or text do not follow their specification.

    `section` is the section of the specification ("MS-MQMQ 2.2.19.1"), `field` its name of the field, `offset` the
    position in bytes (or characters of a name) from the start of the input, and `reason` what is wrong.
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
    """The format name is valid, but the operation is not possible with this kind of name."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION


class EncodeError(WaypostError):
    """A record has values that its packet cannot carry. `field` is the name in the specification."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER

    def __init__(self, section: str, field: str, reason: str) -> None:
        super().__init__(section, field, reason)
        self.section = section
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason} ({self.section})"


class InvalidParameter(WaypostError):
    """An argument is invalid, or conflicts with the others."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER


class InvalidHandle(WaypostError):
    """The handle of a queue, a cursor or a request is not open."""

    hresult = HResult.MQ_ERROR_INVALID_HANDLE


class ServiceNotAvailable(WaypostError):
    """The queue manager has not started yet, or is stopping."""

    hresult = HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE


class CannotConnect(ServiceNotAvailable):
    """No daemon answers at the address. Nothing was requested."""


class ConnectionLost(ServiceNotAvailable):
    """The connection to the daemon ended before its answer came: the outcome is unknown."""


class HostError(WaypostError):
    """Another host did not acknowledge messages of `waypost.msmq`, or does not serve readers.

    `acknowledged` has the positions, in the list of sent messages, of those that the host has, and `unknown` of those
    that it may have. It does not have the others.
    """

    hresult = HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE

    def __init__(self, sentence: str, acknowledged: tuple[int, ...] = (), unknown: tuple[int, ...] = ()) -> None:
        super().__init__(sentence)
        self.acknowledged = acknowledged
        self.unknown = unknown

    @property
    def is_outcome_unknown(self) -> bool:
        """Whether a message may have arrived. Sending it again may then duplicate it."""
        return bool(self.unknown)


class HostUnreachable(HostError):
    """The name of the host is unknown, or the host does not answer."""


class SessionRefused(HostError):
    """The host answers, but refuses a session or does not serve remote readers."""


class SessionLost(HostError):
    """The session ended before everything was acknowledged."""


class NotAcknowledged(HostError):
    """The host did not acknowledge in time."""


class AccessDenied(WaypostError):
    """The caller lacks the right, or the queue was opened for another access."""

    hresult = HResult.MQ_ERROR_ACCESS_DENIED


class QueueError(WaypostError):
    """A queue does not allow the operation."""


class QueueNotFound(QueueError):
    """The queue does not exist on this computer."""

    hresult = HResult.MQ_ERROR_QUEUE_NOT_FOUND


class QueueExists(QueueError):
    """A queue with this path name exists already."""

    hresult = HResult.MQ_ERROR_QUEUE_EXISTS


class QueueDeleted(QueueError):
    """The queue was deleted while a read waited on it."""

    hresult = HResult.MQ_ERROR_QUEUE_DELETED


class QueueNotAvailable(QueueError):
    """The queue of an open handle is gone, or its computer does not answer."""

    hresult = HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE


class SharingViolation(QueueError):
    """Another reader has the queue open exclusively, or an exclusive open is requested for an open queue."""

    hresult = HResult.MQ_ERROR_SHARING_VIOLATION


class ResetUnderWay(QueueNotAvailable):
    """Another reset of this outgoing queue is running."""


class UnsupportedAccessMode(QueueError):
    """The queue does not open with this access mode."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_ACCESS_MODE


class MessageError(WaypostError):
    """A message was not found, received or sent."""


class MessageNotFound(MessageError):
    """The message with this lookup id, or the next one in the direction of the seek, does not exist."""

    hresult = HResult.MQ_ERROR_MESSAGE_NOT_FOUND


class MessageAlreadyReceived(MessageError):
    """Another reader has removed the message at the cursor."""

    hresult = HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED


class MessageLocked(MessageError):
    """Another transaction holds the message."""

    hresult = HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION


class LabelTooLong(MessageError):
    """The label is too long."""

    hresult = HResult.MQ_ERROR_LABEL_TOO_LONG


class IllegalCursorAction(WaypostError):
    """`peek_next` was called before the first `peek`."""

    hresult = HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION


class WaitError(WaypostError):
    """A waiting read ended without a message."""


class Timeout(WaitError):
    """No message came in time."""

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
    """The property has another variant type."""

    hresult = HResult.MQ_ERROR_ILLEGAL_PROPERTY_VT


class IllegalPropertyValue(PropertyError):
    """The property does not allow this value."""

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
    """A transaction cannot continue as requested."""


class TransactionUsage(TransactionError):
    """The operation is not allowed in this transaction, or only in one."""

    hresult = HResult.MQ_ERROR_TRANSACTION_USAGE


class TransactionSequence(TransactionError):
    """The transaction is unknown, or has ended already."""

    hresult = HResult.MQ_ERROR_TRANSACTION_SEQUENCE


class TransactionImportFailed(TransactionError):
    """The propagation token of a remote transaction is invalid."""

    hresult = HResult.MQ_ERROR_TRANSACTION_IMPORT


class TransactionEnlistFailed(TransactionError):
    """The queue manager cannot take part in the transaction."""

    hresult = HResult.MQ_ERROR_TRANSACTION_ENLIST


class CoordinatorNotConnected(TransactionError):
    """The coordinator does not report the result of a transaction in doubt, so the queue manager cannot start."""

    hresult = HResult.MQ_ERROR_DTC_CONNECT


class StoreError(WaypostError):
    """The store failed to keep data."""

    hresult = HResult.MQ_ERROR_MESSAGE_STORAGE_FAILED


class InsufficientResources(StoreError):
    """A quota, the disk or the memory is exhausted."""

    hresult = HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


class LimitReached(InsufficientResources):
    """A limit on the number of something, such as transactions, is reached."""


class StoreFull(StoreError):
    """The disk is full, or the store has reached its maximum size. Nothing was stored, and nothing will be."""

    hresult = HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


class OutcomeUnknown(StoreError):
    """The disk failed during a write. The change is in memory, and is written if the disk works again in time."""


class StoreReadOnly(StoreError):
    """The folder of the store is read-only."""


class StoreInUse(StoreError):
    """The folder is open in another process, or twice in this one."""


class StoreDamaged(StoreError):
    """The store has bytes that Waypost did not write."""


class RecordDamaged(StoreDamaged):
    """A record of the store is damaged or missing.

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
    """The folder has other content."""


class BackupError(StoreError):
    """A backup failed, or is not usable."""


class BackupUnderWay(BackupError):
    """Another backup of the store is running."""


class BackupDamaged(BackupError):
    """The backup is incomplete or damaged."""


class DirectoryError(WaypostError):
    """The directory failed: GenericError of MS-MQDMPR 3.1.1.17. Each other status has its own class."""

    hresult = HResult.MQ_ERROR_DS_ERROR


class DirectoryNotConnected(DirectoryError):
    """The directory is unreachable, or this queue manager has none."""

    hresult = HResult.MQ_ERROR_NO_DS


class DirectoryObjectNotFound(DirectoryError):
    """The directory has no such object."""


class DirectoryAttributeNotFound(DirectoryError):
    """The object exists, and the requested attribute is not set."""


class DirectoryObjectExists(DirectoryError):
    """The directory has an object with this name or identifier already."""
