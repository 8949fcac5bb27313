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
    """Data from outside Waypost, such as a packet or a name, violates a specification."""


class DecodeError(ProtocolError):
    """Bytes or text do not match their specification.

    `section` is the section of the specification ("MS-MQMQ 2.2.19.1"), and `field` is the name of the field in that
    section. `offset` counts bytes from the start of the packet or blob, or characters from the start of a name.
    `reason` describes the error in the field.
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
    """The text is not a path name (MS-MQMQ 2.1.1)."""

    hresult = HResult.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME


class IllegalFormatName(DecodeError):
    """The text is not a format name (MS-MQMQ 2.1.2 to 2.1.7)."""

    hresult = HResult.MQ_ERROR_ILLEGAL_FORMATNAME


class IllegalSddl(DecodeError):
    """The text is not a security descriptor in SDDL (MS-DTYP 2.5.1)."""

    hresult = HResult.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR


class AuthenticationFailed(ProtocolError):
    """The signature of a message is invalid or could not be verified, or a caller failed to authenticate."""

    hresult = HResult.MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX


class DecryptionFailed(ProtocolError):
    """The body of a message could not be decrypted."""

    hresult = HResult.MQ_ERROR_CORRUPTED_SECURITY_DATA


class UnsupportedFormatName(WaypostError):
    """The operation does not support this kind of format name."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION


class EncodeError(WaypostError):
    """A value does not fit into a field of a packet.

    `field` is the name of this field in the specification.
    """

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER

    def __init__(self, section: str, field: str, reason: str) -> None:
        super().__init__(section, field, reason)
        self.section = section
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason} ({self.section})"


class InvalidParameter(WaypostError):
    """An argument is invalid, or conflicts with other arguments."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER


class InvalidHandle(WaypostError):
    """The handle of a queue, cursor or request is not open."""

    hresult = HResult.MQ_ERROR_INVALID_HANDLE


class ServiceNotAvailable(WaypostError):
    """The queue manager is not ready, because it is starting or stopping."""

    hresult = HResult.MQ_ERROR_SERVICE_NOT_AVAILABLE


class CannotConnect(ServiceNotAvailable):
    """No daemon answers at the address. No request was sent."""


class ConnectionLost(ServiceNotAvailable):
    """The connection to the daemon was lost before the answer arrived. The outcome of the request is unknown."""


class HostError(WaypostError):
    """Another host refused a read request, or did not acknowledge messages that were sent without a queue manager.

    `acknowledged` and `unknown` contain the indexes of messages in the list of sent messages. The host has acknowledged
    the messages in `acknowledged`. It is unknown whether the messages in `unknown` have arrived. None of the other
    messages has arrived.
    """

    hresult = HResult.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE

    def __init__(self, sentence: str, acknowledged: tuple[int, ...] = (), unknown: tuple[int, ...] = ()) -> None:
        super().__init__(sentence)
        self.acknowledged = acknowledged
        self.unknown = unknown

    @property
    def is_outcome_unknown(self) -> bool:
        """Whether some messages may have arrived, so that sending them again may duplicate them."""
        return bool(self.unknown)


class HostUnreachable(HostError):
    """The name of the host is unknown, or the host does not answer."""


class SessionRefused(HostError):
    """The host answers, but refuses a session or does not serve remote readers."""


class SessionLost(HostError):
    """The session ended before all messages were acknowledged."""


class NotAcknowledged(HostError):
    """The host did not acknowledge the messages in time, although the session is open."""


class UserNotFound(WaypostError):
    """The user does not exist."""

    hresult = HResult.MQ_ERROR_COULD_NOT_GET_USER_SID


class UserExists(WaypostError):
    """A user or a group with this name or SID already exists."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER


class TokenNotFound(WaypostError):
    """The user does not have a token with this id."""

    hresult = HResult.MQ_ERROR_INVALID_PARAMETER


class CertificateNotFound(WaypostError):
    """The certificate is not registered."""

    hresult = HResult.MQ_ERROR_INVALID_CERTIFICATE


class PinNotFound(WaypostError):
    """No keys are pinned for the host or queue manager."""

    hresult = HResult.MQ_ERROR_PUBLIC_KEY_NOT_FOUND


class AccessDenied(WaypostError):
    """The caller does not have the necessary permission, or the queue was not opened for this operation."""

    hresult = HResult.MQ_ERROR_ACCESS_DENIED


class NotLoggedIn(AccessDenied):
    """The user was removed, or its token or password is no longer valid."""


class TooManyLogins(AccessDenied):
    """Too many logins have failed, so the daemon refuses logins for a while."""


class QueueError(WaypostError):
    """A queue does not allow the operation."""


class QueueNotFound(QueueError):
    """The queue does not exist on this computer."""

    hresult = HResult.MQ_ERROR_QUEUE_NOT_FOUND


class QueueExists(QueueError):
    """A queue with this path name already exists."""

    hresult = HResult.MQ_ERROR_QUEUE_EXISTS


class QueueDeleted(QueueError):
    """The queue of an operation was deleted, for example while a reader waited for a message. A handle of a deleted
    queue can only be closed."""

    hresult = HResult.MQ_ERROR_QUEUE_DELETED


class QueueNotAvailable(QueueError):
    """The queue of an open handle no longer exists, or its remote computer does not answer."""

    hresult = HResult.MQ_ERROR_QUEUE_NOT_AVAILABLE


class SharingViolation(QueueError):
    """Another reader has opened the queue exclusively, or an attempt to open the queue exclusively failed because the
    queue is already open."""

    hresult = HResult.MQ_ERROR_SHARING_VIOLATION


class ClaimTaken(QueueError):
    """Another reader has taken over the claim, or the claim belongs to another query."""

    hresult = HResult.MQ_ERROR_STALE_HANDLE


class ResetUnderWay(QueueNotAvailable):
    """The sequence of the outgoing queue is already being reset."""


class UnsupportedAccessMode(QueueError):
    """The queue does not support this access mode."""

    hresult = HResult.MQ_ERROR_UNSUPPORTED_ACCESS_MODE


class MessageError(WaypostError):
    """A message was not found, not received or not sent."""


class MessageNotFound(MessageError):
    """No message has this lookup identifier, or no message follows in the direction of the seek."""

    hresult = HResult.MQ_ERROR_MESSAGE_NOT_FOUND


class MessageAlreadyReceived(MessageError):
    """The message at the cursor is no longer in the queue, because another reader has removed the message."""

    hresult = HResult.MQ_ERROR_MESSAGE_ALREADY_RECEIVED


class MessageLocked(MessageError):
    """The message is locked by another transaction."""

    hresult = HResult.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION


class LabelTooLong(MessageError):
    """The label of a message is too long. The length is counted in UTF-16 units."""

    hresult = HResult.MQ_ERROR_LABEL_TOO_LONG


class IllegalCursorAction(WaypostError):
    """A cursor can move to the next message only after a peek at the current message."""

    hresult = HResult.MQ_ERROR_ILLEGAL_CURSOR_ACTION


class WaitError(WaypostError):
    """The wait for a message ended without success."""


class Timeout(WaitError):
    """No message arrived in time."""

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
    """The variant type of a value does not match the property."""

    hresult = HResult.MQ_ERROR_ILLEGAL_PROPERTY_VT


class IllegalPropertyValue(PropertyError):
    """The value is not valid for the property."""

    hresult = HResult.MQ_ERROR_ILLEGAL_PROPERTY_VALUE


class IllegalSecurityDescriptor(PropertyError):
    """The bytes are not a self-relative security descriptor."""

    hresult = HResult.MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR


class PropertyNotAllowed(PropertyError):
    """The operation does not allow the property. For example, the path name of a queue cannot change after creation."""

    hresult = HResult.MQ_ERROR_PROPERTY_NOTALLOWED


class TooManyProperties(PropertyError):
    """A call has more than 128 properties."""

    hresult = HResult.MQ_ERROR_TOO_MANY_PROPERTIES


class TransactionError(WaypostError):
    """The operation failed because of the state of a transaction."""


class TransactionUsage(TransactionError):
    """The operation is not allowed in this transaction, or requires a transaction."""

    hresult = HResult.MQ_ERROR_TRANSACTION_USAGE


class TransactionSequence(TransactionError):
    """The transaction is not active, or is already past the requested step."""

    hresult = HResult.MQ_ERROR_TRANSACTION_SEQUENCE


class TransactionImportFailed(TransactionError):
    """The propagation token of a remote transaction is invalid."""

    hresult = HResult.MQ_ERROR_TRANSACTION_IMPORT


class TransactionEnlistFailed(TransactionError):
    """The queue manager cannot take part in the transaction."""

    hresult = HResult.MQ_ERROR_TRANSACTION_ENLIST


class CoordinatorNotConnected(TransactionError):
    """The queue manager cannot start, because the coordinator does not report the outcome of an in-doubt
    transaction."""

    hresult = HResult.MQ_ERROR_DTC_CONNECT


class StoreError(WaypostError):
    """The store cannot read or write data."""

    hresult = HResult.MQ_ERROR_MESSAGE_STORAGE_FAILED


class InsufficientResources(StoreError):
    """A quota is reached, or the disk or the memory is full."""

    hresult = HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


class LimitReached(InsufficientResources):
    """A limit is reached, such as the maximum number of transactions."""


class StoreFull(StoreError):
    """The disk is full, or the store has reached its maximum size. The change was discarded."""

    hresult = HResult.MQ_ERROR_INSUFFICIENT_RESOURCES


class OutcomeUnknown(StoreError):
    """The disk failed during a write. The change is kept in memory, and is written if the disk works again in time."""


class StoreReadOnly(StoreError):
    """The folder of the store is read-only."""


class StoreInUse(StoreError):
    """The folder of the store is already open in another process, or in another store object of this process."""


class StoreDamaged(StoreError):
    """The store contains bytes that Waypost did not write."""


class RecordDamaged(StoreDamaged):
    """A record of the store is damaged or missing.

    `table` is the number of the table, as in waypost.store.port.Table. `value` contains the damaged bytes, including
    their checksum. `value` is None if the record is missing or unreadable.
    """

    def __init__(self, reason: str, table: int = 0, key: bytes = b"", value: bytes | None = None) -> None:
        super().__init__(reason)
        self.table = table
        self.key = key
        self.value = value


class StoreTooOld(StoreError):
    """An older version of Waypost wrote the store. The store is open read-only, so Waypost cannot upgrade the store."""


class StoreTooNew(StoreError):
    """A newer version of Waypost wrote the store."""


class NotAStore(StoreError):
    """The folder does not contain a store."""


class BackupError(StoreError):
    """A backup failed, or is not usable."""


class BackupUnderWay(BackupError):
    """Another backup of the store is in progress."""


class BackupDamaged(BackupError):
    """The backup is damaged or incomplete."""


class KeyFolderError(WaypostError):
    """The key folder is unusable: other accounts can read it, it is damaged, or the passphrase is wrong."""

    hresult = HResult.MQ_ERROR_CORRUPTED_SECURITY_DATA

    def __init__(self, sentence: str, hint: str = "") -> None:
        super().__init__(f"{sentence}; {hint}" if hint else sentence)
        self.sentence = sentence
        self.hint = hint


class PublicKeyUnknown(WaypostError):
    """The message was not sent: it must be encrypted, but the exchange keys of the destination are not known."""

    hresult = HResult.MQ_ERROR_PUBLIC_KEY_NOT_FOUND


class DirectoryError(WaypostError):
    """An operation of the directory failed (see GenericError, MS-MQDMPR 3.1.1.17). Derived classes represent specific
    causes."""

    hresult = HResult.MQ_ERROR_DS_ERROR


class DirectoryNotConnected(DirectoryError):
    """The directory is unreachable, or this queue manager has no directory."""

    hresult = HResult.MQ_ERROR_NO_DS


class DirectoryObjectNotFound(DirectoryError):
    """The object does not exist in the directory."""


class DirectoryAttributeNotFound(DirectoryError):
    """The object exists, but a requested attribute is not set."""


class DirectoryObjectExists(DirectoryError):
    """The directory already contains an object with this name or identifier."""
