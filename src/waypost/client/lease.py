"""Lease for programs that wait in threads."""

from collections.abc import Iterator
from typing import Final, Self

from waypost.client.message import Message
from waypost.client.transaction import Transaction
from waypost.errors import TransactionSequence


class Lease:
    """Messages that are locked for a time: `queue.lease()` gives them. No other reader gets them meanwhile.

    `acknowledge` removes them, and `release` gives them back. If neither is called within `lease_s` seconds, or the
    program ends, other readers can receive them again. Their `abort_count` is higher then, unless the queue manager
    itself ended. Leaving the `with` block acknowledges the messages; leaving it with an exception releases them.
    """

    __slots__ = ("_ended", "_messages", "_transaction")

    def __init__(self, transaction: Transaction, messages: list[Message]) -> None:
        """`transaction` holds the messages and has the time limit."""
        self._transaction: Final = transaction
        self._messages: Final = tuple(messages)
        self._ended = ""

    def __repr__(self) -> str:
        return f"<Lease of {len(self)} messages, {self._ended or 'open'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            self.release()
            return
        try:
            self.acknowledge()
        finally:
            if self.is_open:
                self.release()

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in their order, at least one."""
        return self._messages

    @property
    def receipt(self) -> str:
        """The receipt, as HTTP calls it: the id of the transaction that holds the messages."""
        return self._transaction.id

    @property
    def transaction(self) -> Transaction:
        """The transaction that holds the messages. Messages sent in it leave when the lease is acknowledged.

        Each use restarts the time limit `lease_s`.
        """
        return self._transaction

    @property
    def is_open(self) -> bool:
        """True before `acknowledge` and `release`. The queue manager may have ended the lease: its time is over."""
        return self._transaction.is_open

    def acknowledge(self) -> None:
        """Remove the messages, and return when that is on disk.

        Raises TransactionSequence if the lease is over: then other readers can receive the messages. After
        ConnectionLost or OutcomeUnknown they may be removed or not. After StoreFull the lease may still be open
        (`is_open`).
        """
        self._check()
        try:
            self._transaction.commit()
        except TransactionSequence as error:
            self._ended = "over"
            raise TransactionSequence(
                f"the lease of {len(self)} messages is over, and others may have them; ask for a longer lease_s"
            ) from error
        self._ended = "acknowledged"

    def release(self) -> None:
        """Give the messages back to their places, with their `abort_count` raised, before the time is over."""
        self._check()
        self._ended = "released"
        self._transaction.abort()

    def _check(self) -> None:
        if not self.is_open:
            ended = self._ended or "ended"
            raise TransactionSequence(f"the lease is {ended}; queue.lease() gives another")
