"""Lease, for programs that wait in threads."""

from collections.abc import Iterator
from typing import Final, Self

from waypost.client.message import Message
from waypost.client.transaction import Transaction
from waypost.errors import TransactionSequence


class Lease:
    """Messages that are locked for a time: `queue.lease()` gives them. Nobody else gets them meanwhile.

    `acknowledge` removes them, and `release` gives them back. When neither was called for `lease_s` seconds, or the
    program ends, they are for others again, with their `abort_count` raised. The end of a `with` statement
    acknowledges, and an exception that leaves it releases.
    """

    __slots__ = ("_ended", "_messages", "_transaction")

    def __init__(self, transaction: Transaction, messages: list[Message]) -> None:
        """The transaction holds the messages, and has the time limit."""
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
        """The messages, in their order. There is at least one."""
        return self._messages

    @property
    def receipt(self) -> str:
        """The receipt, as HTTP calls it: the id of the transaction that holds the messages."""
        return self._transaction.id

    @property
    def transaction(self) -> Transaction:
        """The transaction that holds the messages: what is sent in it is sent when they are acknowledged.

        To use it lets `lease_s` begin again.
        """
        return self._transaction

    @property
    def is_open(self) -> bool:
        """Whether it can still be ended here. The queue manager may have ended it, because its time is over."""
        return self._transaction.is_open

    def acknowledge(self) -> None:
        """Remove the messages, and return when that is on disk.

        Raises TransactionSequence if the lease is over: then the messages are for others again. Of a ConnectionLost or
        OutcomeUnknown nobody knows whether they are removed. If StoreFull leaves it open, `is_open` says so.
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
