"""Lease for asyncio."""

from collections.abc import Iterator
from typing import Final, Self

from waypost.client.aio_transaction import Transaction
from waypost.client.message import Message
from waypost.errors import TransactionSequence


class Lease:
    """Messages that are locked for a limited time, as returned by `queue.lease()`. Other readers do not get the locked
    messages.

    `acknowledge` removes the messages, and `release` returns the messages to the queue. If neither method is called
    within `lease_s` seconds, or the program ends, other readers can receive the messages. In this case, the
    `abort_count` of the messages increases, unless the queue manager itself stopped. When the `async with` block ends,
    the messages are acknowledged. If an exception ends the block, the messages are released.
    """

    __slots__ = ("_ended", "_messages", "_transaction")

    def __init__(self, transaction: Transaction, messages: list[Message]) -> None:
        """`transaction` holds the messages and has the time limit."""
        self._transaction: Final = transaction
        self._messages: Final = tuple(messages)
        self._ended = ""

    def __repr__(self) -> str:
        return f"<Lease of {len(self)} messages, {self._ended or 'open'}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            await self.release()
            return
        try:
            await self.acknowledge()
        finally:
            if self.is_open:
                await self.release()

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in order. A lease contains at least one message."""
        return self._messages

    @property
    def receipt(self) -> str:
        """The id of the transaction that locks the messages. The HTTP API calls this id the receipt."""
        return self._transaction.id

    @property
    def transaction(self) -> Transaction:
        """The transaction that locks the messages. Messages that are sent in this transaction become visible when the
        lease is acknowledged.

        Each use of the transaction restarts the time limit `lease_s`.
        """
        return self._transaction

    @property
    def is_open(self) -> bool:
        """True until `acknowledge` or `release` is called. Even if the value is True, the lease might already have
        expired at the queue manager.
        """
        return self._transaction.is_open

    async def acknowledge(self) -> None:
        """Remove the messages, and return when the removal is on disk.

        Raises TransactionSequence if the lease has expired. After a lease has expired, other readers can receive the
        messages. After ConnectionLost or OutcomeUnknown, it is unknown whether the messages were removed. After
        StoreFull, the lease might still be open (see `is_open`).
        """
        self._check()
        try:
            await self._transaction.commit()
        except TransactionSequence as error:
            self._ended = "over"
            raise TransactionSequence(
                f"the lease of {len(self)} messages has expired, and other readers may have received the messages; use "
                "a longer `lease_s`"
            ) from error
        self._ended = "acknowledged"

    async def release(self) -> None:
        """Return the messages to their places in the queue before the lease expires. Their `abort_count` increases."""
        self._check()
        self._ended = "released"
        await self._transaction.abort()

    def _check(self) -> None:
        if not self.is_open:
            ended = self._ended or "ended"
            raise TransactionSequence(f"the lease is {ended}; get a new lease with queue.lease()")
