"""The queue manager as a resource manager in transactions of an outside coordinator: MS-MQDMPR 3.1.4.6 to 3.1.4.11.

The coordinator asks through the events here, which have the names of the specification, and the messages of
`take_messages` answer it. The coordinator, and the transport of messages, are unknown here.

A message is a promise: PrepareRequestDone says that the transaction survives a crash, CommitRequestDone and
AbortRequestDone that its outcome is never asked for again. So the caller takes the messages together with the events
of the core, makes one batch of those events, and sends the messages only when that batch is durable.

In-doubt transactions are those that were prepared before the last stop. `initialize` is called when they are back in
the collection; the messages that they hold stay locked, and no other transaction can begin, until `recovery` is
RECOVERED. If it becomes FAILED, the queue manager stops: the error of ReenlistmentFailed goes to the caller that
started it, and everything stays as it is for the next start.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from waypost.core.transactions import Transactions
from waypost.errors import TransactionEnlistFailed
from waypost.guid import guid_text
from waypost.hresult import HResult


class Recovery(Enum):
    """Progress of a start with the in-doubt transactions."""

    NOT_STARTED = auto()
    RECOVERING = auto()
    RECOVERED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class EnlistResourceManager:
    """This queue manager takes part in transactions from now on, under its permanent GUID."""

    resource_manager: bytes


@dataclass(frozen=True, slots=True)
class EnlistTransaction:
    """The queue manager takes part in this transaction."""

    transaction: bytes


@dataclass(frozen=True, slots=True)
class ReenlistTransaction:
    """The queue manager was prepared when it stopped, and asks for the outcome."""

    transaction: bytes


@dataclass(frozen=True, slots=True)
class PrepareRequestDone:
    """TXUSER_ENLISTMENT_MTAG_PREPAREREQDONE: the transaction can be committed, even after a crash."""

    transaction: bytes


@dataclass(frozen=True, slots=True)
class CommitRequestDone:
    """TXUSER_ENLISTMENT_MTAG_COMMITREQDONE."""

    transaction: bytes


@dataclass(frozen=True, slots=True)
class AbortRequestDone:
    """TXUSER_ENLISTMENT_MTAG_ABORTREQDONE."""

    transaction: bytes


@dataclass(frozen=True, slots=True)
class ReenlistmentFailed:
    """The queue manager cannot start. For the caller that started it, not for the coordinator."""

    transaction: bytes
    status: HResult


Outgoing = (
    EnlistResourceManager
    | EnlistTransaction
    | ReenlistTransaction
    | PrepareRequestDone
    | CommitRequestDone
    | AbortRequestDone
    | ReenlistmentFailed
)


class ExternalTransactions:
    """The transactions with an outside coordinator. They are in TransactionCollection with the others."""

    __slots__ = ("_in_doubt", "_transactions", "messages", "recovery")

    def __init__(self, transactions: Transactions) -> None:
        self._transactions: Final = transactions
        # Messages to send.
        self.messages: list[Outgoing] = []
        self._in_doubt: set[bytes] = set()
        self.recovery = Recovery.NOT_STARTED

    def take_messages(self) -> list[Outgoing]:
        """The messages to send since the last call, in order."""
        messages, self.messages = self.messages, []
        return messages

    def initialize(self, resource_manager: bytes) -> None:
        """MS-MQDMPR 3.1.3: enlist as a resource manager, and ask for the outcome of in-doubt transactions."""
        self.messages.append(EnlistResourceManager(resource_manager))
        in_doubt = [
            transaction.identifier for transaction in self._transactions.collection.values() if transaction.is_kept
        ]
        self._in_doubt = set(in_doubt)
        self.messages += map(ReenlistTransaction, in_doubt)
        self.recovery = Recovery.RECOVERING if in_doubt else Recovery.RECOVERED

    def enlist(self, identifier: bytes) -> None:
        """Take part in a transaction: operations can be recorded in it from now on.

        Raises TransactionEnlistFailed before recovery is over, and TransactionSequence if it is active already.
        """
        if self.recovery is not Recovery.RECOVERED:
            raise TransactionEnlistFailed(
                f"the queue manager cannot join the transaction {guid_text(identifier)} before it has recovered its "
                "in-doubt transactions"
            )
        self._transactions.create_transaction(identifier).single_phase = False
        self.messages.append(EnlistTransaction(identifier))

    def dtc_transaction_prepare(self, identifier: bytes, f_single_phase: int, wall: float) -> None:
        """MS-MQDMPR 3.1.4.6. With `f_single_phase` the coordinator leaves the outcome to this queue manager."""
        status = HResult.MQ_ERROR_TRANSACTION_SEQUENCE
        if self._is_enlisted(identifier):
            status = self._transactions.transaction_prepare(identifier, single_phase=False)
        if status is not HResult.MQ_OK:
            self.dtc_transaction_abort(identifier)
        elif f_single_phase:
            self.dtc_transaction_commit(identifier, wall)
        else:
            self.messages.append(PrepareRequestDone(identifier))

    def dtc_transaction_commit(self, identifier: bytes, wall: float) -> None:
        """MS-MQDMPR 3.1.4.7. A coordinator that missed the answer asks again, and gets it again."""
        self._commit(identifier, wall)
        self.messages.append(CommitRequestDone(identifier))

    def dtc_transaction_abort(self, identifier: bytes) -> None:
        """MS-MQDMPR 3.1.4.8."""
        self._abort(identifier)
        self.messages.append(AbortRequestDone(identifier))

    def dtc_reenlistment_commit(self, identifier: bytes, wall: float) -> None:
        """MS-MQDMPR 3.1.4.9."""
        if identifier in self._in_doubt:
            self._commit(identifier, wall)

    def dtc_reenlistment_abort(self, identifier: bytes) -> None:
        """MS-MQDMPR 3.1.4.10."""
        if identifier in self._in_doubt:
            self._abort(identifier)

    def dtc_reenlistment_timeout(self, identifier: bytes) -> None:
        """MS-MQDMPR 3.1.4.11. Later messages change nothing about in-doubt transactions."""
        if identifier in self._in_doubt:
            self._in_doubt.clear()
            self.recovery = Recovery.FAILED
            self.messages.append(ReenlistmentFailed(identifier, HResult.MQ_ERROR_DTC_CONNECT))

    def _is_enlisted(self, identifier: bytes) -> bool:
        """Whether the coordinator knows the transaction: one of this queue manager alone does not concern it."""
        transaction = self._transactions.collection.get(identifier)
        return transaction is not None and not transaction.single_phase

    def _commit(self, identifier: bytes, wall: float) -> None:
        if self._is_enlisted(identifier):
            self._transactions.transaction_commit(identifier, wall)
            self._settle(identifier)

    def _abort(self, identifier: bytes) -> None:
        if self._is_enlisted(identifier):
            self._transactions.transaction_abort(identifier)
            self._settle(identifier)

    def _settle(self, identifier: bytes) -> None:
        self._in_doubt.discard(identifier)
        if self.recovery is Recovery.RECOVERING and not self._in_doubt:
            self.recovery = Recovery.RECOVERED
