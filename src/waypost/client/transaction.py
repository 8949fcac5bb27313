"""Transaction for programs that wait in threads."""

from contextlib import suppress
from typing import Final, Self, TypeVar

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.api.operations import (
    AbortTransaction,
    CommitTransaction,
    Operation,
)
from waypost.client.transports import Carrier
from waypost.drive.new_guid import new_guid
from waypost.errors import (
    ConnectionLost,
    InvalidParameter,
    OutcomeUnknown,
    ServiceNotAvailable,
    TransactionSequence,
    TransactionUsage,
    WaypostError,
)
from waypost.guid import guid_text

R = TypeVar("R")

# Outcome of a transaction without an answer to its commit.
_IN_DOUBT: Final = "in doubt"


class Transaction:
    """A transaction, as returned by `manager.transaction()`. Pass the object as the argument `transaction` to calls
    that send or receive messages.

    A transaction is atomic. A commit makes the sent messages visible and removes the received messages, all at the same
    time. The first send or receive begins the transaction at the queue manager.
    """

    __slots__ = ("_begin_s", "_id", "_is_told", "_is_used", "_outcome", "_transport")

    def __init__(self, transport: Carrier, begin_s: float) -> None:
        self._transport: Final = transport
        self._id: Final = guid_text(new_guid())
        # Time limit to begin it with; UNSET after the first answer of the queue manager.
        self._begin_s: float | UnsetType = begin_s
        self._is_told = False
        # True if an operation in it was done, or may have been.
        self._is_used = False
        self._outcome = ""

    def __repr__(self) -> str:
        return f"<Transaction {self.id}, {self._outcome or 'open'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            self.abort()
            return
        try:
            self.commit()
        finally:
            if self.is_open:
                self.abort()

    @property
    def id(self) -> str:
        """The GUID of the transaction."""
        return self._id

    @property
    def is_open(self) -> bool:
        """True if the transaction is neither committed nor aborted."""
        return not self._outcome

    def commit(self) -> None:
        """Commit the transaction, and return when the transaction is on disk.

        Raises TransactionSequence if a daemon has aborted the transaction. Raises ConnectionLost or OutcomeUnknown if
        the outcome is unknown. After StoreFull, the transaction might still be open (see `is_open`). In this case, free
        some disk space and commit again, or abort the transaction.
        """
        self._check()
        if self._is_told:
            # The outcome of an interrupted commit is unknown.
            self._outcome = _IN_DOUBT
            try:
                self._transport.call(CommitTransaction(identifier=self._id))
            except (ConnectionLost, OutcomeUnknown):
                raise
            except TransactionSequence:
                # If all operations were refused, the transaction has not begun.
                self._outcome = "aborted" if self._is_used else "committed"
                if self._is_used:
                    raise
            except WaypostError:
                self._outcome = ""
                raise
        else:
            self._transport.check()
        self._outcome = "committed"

    def abort(self) -> None:
        """Abort the transaction. Received messages return to their places in the queue, with a higher `abort_count`."""
        self._check()
        self._outcome = "aborted"
        if self._is_told:
            # If the queue manager is gone, or has ended the transaction, the result is the same.
            with suppress(TransactionSequence, ServiceNotAvailable):
                self._transport.start(AbortTransaction(identifier=self._id))

    def _check(self) -> None:
        if self._outcome:
            raise TransactionSequence(f"the transaction is {self._outcome}; begin a new one with manager.transaction()")


def joined(transaction: Transaction | None, transport: Carrier) -> tuple[str | UnsetType, float | UnsetType]:
    """The fields that put an operation into a transaction: its GUID, and its time limit if it begins."""
    if transaction is None:
        return UNSET, UNSET
    if transport.without_transactions:
        raise TransactionUsage(transport.without_transactions)
    if not isinstance(transaction, Transaction):
        raise InvalidParameter(f"`transaction` must come from manager.transaction(), not {excerpt(transaction)}")
    if transaction._transport is not transport:  # noqa: SLF001, of this module
        raise InvalidParameter("the transaction belongs to another queue manager")
    transaction._check()  # noqa: SLF001, of this module
    transaction._is_told = True  # noqa: SLF001, of this module
    return transaction._id, transaction._begin_s  # noqa: SLF001, of this module


def call_in(transaction: Transaction | None, transport: Carrier, operation: Operation[R]) -> R:
    """Call an operation that `joined` has put into the transaction."""
    if transaction is None:
        return transport.call(operation)
    try:
        reply = transport.call(operation)
    except BaseException as error:
        # A refused operation may not have begun the transaction: then the next one does.
        if not isinstance(error, WaypostError) or isinstance(error, ConnectionLost | OutcomeUnknown):
            transaction._is_used = True  # noqa: SLF001, of this module
        raise
    transaction._is_used = True  # noqa: SLF001, of this module
    transaction._begin_s = UNSET  # noqa: SLF001, of this module
    return reply
