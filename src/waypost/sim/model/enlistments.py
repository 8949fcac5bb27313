"""Transactions in which remote readers enlist the queue manager: MS-MQRR 3.1.4.12, with Waypost's own coordinator."""

from typing import Final

from waypost.clock import Now
from waypost.hresult import HResult
from waypost.sim.model.records import Answer, Refused
from waypost.sim.model.state import ModelState
from waypost.sim.model.transactions import ModelTransaction, ModelTransactions

ENLISTED: Final = "EnlistTransaction"
ABORTED: Final = "AbortRequestDone"
# The same message, for a transaction that took too long.
TIMED_OUT: Final = "AbortRequestDone, unasked"


class Enlistments:
    def __init__(self, state: ModelState, transactions: ModelTransactions, timeout: float) -> None:
        self._state: Final = state
        self._transactions: Final = transactions
        self._timeout: Final = timeout
        self._begun: list[tuple[float, ModelTransaction]] = []
        # Those that were aborted unasked.
        self.given_up: Final[set[bytes]] = set()

    def enlist(self, identifier: bytes) -> None:
        if self._transactions.is_open(identifier):
            return
        if identifier in self._transactions.transactions or self._transactions.in_doubt or identifier in self.given_up:
            raise Refused(HResult.MQ_ERROR_TRANSACTION_ENLIST)
        transaction = self._transactions.begin(identifier)
        transaction.is_external = True
        self._state.answer((ENLISTED, identifier), Answer(is_notice=True))
        self._begun.append((self._state.now.monotonic + self._timeout, transaction))

    def tick(self, now: Now) -> None:
        for deadline, transaction in self._running():
            if deadline <= now.monotonic:
                self._state.marks.sometimes("a transaction of a remote reader that times out")
                self._transactions.abort(transaction.identifier)
                self.given_up.add(transaction.identifier)
                self._state.answer((TIMED_OUT, transaction.identifier), Answer(is_notice=True))

    @property
    def next_deadline(self) -> float | None:
        return min((deadline for deadline, _ in self._running()), default=None)

    def _running(self) -> list[tuple[float, ModelTransaction]]:
        self._begun = [
            (deadline, transaction)
            for deadline, transaction in self._begun
            if self._transactions.transactions.get(transaction.identifier) is transaction
            and not transaction.is_prepared
        ]
        return self._begun
