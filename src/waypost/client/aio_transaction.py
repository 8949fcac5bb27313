"""Transaction for asyncio."""

from contextlib import suppress
from typing import Final, Self, TypeVar

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.api.operations import (
    AbortTransaction,
    CommitTransaction,
    Operation,
)
from waypost.client.transports import AioCarrier
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

# How a transaction ended whose commit got no answer.
_IN_DOUBT: Final = "in doubt"


class Transaction:
    """A transaction: `manager.transaction()` begins it. Give it to what shall be part of it as `transaction=`.

    It is atomic: others see what it sent, and no more what it received, when it is committed, and never a part of it.
    The queue manager hears of it when it is used first.
    """

    __slots__ = ("_begin_s", "_id", "_is_told", "_is_used", "_outcome", "_transport")

    def __init__(self, transport: AioCarrier, begin_s: float) -> None:
        self._transport: Final = transport
        self._id: Final = guid_text(new_guid())
        # With what it begins, until the queue manager has answered.
        self._begin_s: float | UnsetType = begin_s
        self._is_told = False
        # Whether anything was done in it, or may have been.
        self._is_used = False
        self._outcome = ""

    def __repr__(self) -> str:
        return f"<Transaction {self.id}, {self._outcome or 'open'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            await self.abort()
            return
        try:
            await self.commit()
        finally:
            if self.is_open:
                await self.abort()

    @property
    def id(self) -> str:
        """Its GUID."""
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether it can still be used: it is neither committed nor aborted."""
        return not self._outcome

    async def commit(self) -> None:
        """Do all of it, and return when it is on disk.

        Raises TransactionSequence if a daemon has aborted it, and ConnectionLost or OutcomeUnknown if nobody knows how
        it ended. If StoreFull leaves it open, `is_open` says so: commit again when there is room, or abort.
        """
        self._check()
        if self._is_told:
            # Of a commit that is interrupted nobody knows how it ended.
            self._outcome = _IN_DOUBT
            try:
                await self._transport.call(CommitTransaction(identifier=self._id))
            except (ConnectionLost, OutcomeUnknown):
                raise
            except TransactionSequence:
                # If all that was asked for was refused, nothing had begun.
                self._outcome = "aborted" if self._is_used else "committed"
                if self._is_used:
                    raise
            except WaypostError:
                self._outcome = ""
                raise
        else:
            self._transport.check()
        self._outcome = "committed"

    async def abort(self) -> None:
        """Do nothing of it. What was received goes back to its place, with its `abort_count` raised."""
        self._check()
        self._outcome = "aborted"
        if self._is_told:
            # Where nobody hears of it, or it has ended before, it ends in the same way.
            with suppress(TransactionSequence, ServiceNotAvailable):
                await self._transport.start(AbortTransaction(identifier=self._id))

    def _check(self) -> None:
        if self._outcome:
            raise TransactionSequence(f"the transaction is {self._outcome}; begin another with manager.transaction()")


def joined(transaction: Transaction | None, transport: AioCarrier) -> tuple[str | UnsetType, float | UnsetType]:
    """The fields that put an operation into a transaction: its GUID, and the limit that it begins with."""
    if transaction is None:
        return UNSET, UNSET
    if transport.without_transactions:
        raise TransactionUsage(transport.without_transactions)
    if not isinstance(transaction, Transaction):
        raise InvalidParameter(f"a transaction is what manager.transaction() gives, not {excerpt(transaction)}")
    if transaction._transport is not transport:  # noqa: SLF001, of this module
        raise InvalidParameter("the transaction is one of another queue manager")
    transaction._check()  # noqa: SLF001, of this module
    transaction._is_told = True  # noqa: SLF001, of this module
    return transaction._id, transaction._begin_s  # noqa: SLF001, of this module


async def call_in(transaction: Transaction | None, transport: AioCarrier, operation: Operation[R]) -> R:
    """Have an operation done, which has been joined to the transaction."""
    if transaction is None:
        return await transport.call(operation)
    try:
        reply = await transport.call(operation)
    except BaseException as error:
        # One that was refused may not have begun it: then the next one does.
        if not isinstance(error, WaypostError) or isinstance(error, ConnectionLost | OutcomeUnknown):
            transaction._is_used = True  # noqa: SLF001, of this module
        raise
    transaction._is_used = True  # noqa: SLF001, of this module
    transaction._begin_s = UNSET  # noqa: SLF001, of this module
    return reply
