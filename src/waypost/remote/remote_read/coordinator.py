"""The coordinators of MS-MQRR 3.1.4.12: none, which is what a daemon has, and one for this queue manager's own clients.

Without a coordinator this queue manager never learns how a transaction of a remote reader ends. So it refuses such
transactions: a message received in one would be locked until a timeout, or be lost although its reader aborts.

The coordinator that ships with Waypost serves the simulator and programs that end transactions in the same process.
A transaction that is under way here is taken by its identifier, whatever the token says. Another one begins with a
token that `local_token` makes: nobody but a client of Waypost can mean such a transaction, and that client brings it to
its end with the queue manager. A token of MS-DTCO 2.2.5.4 names a coordinator on another computer, out of reach,
and is refused. A client may vanish, so what was begun like this is aborted when it is not prepared
in time. Only the names of transactions are kept for that: one that has ended is remembered until there are many, and
with it would be all its messages.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from waypost.clock import Now
from waypost.core.external_transactions import ExternalTransactions
from waypost.core.transactions import Transactions
from waypost.errors import WaypostError
from waypost.guid import NULL_GUID
from waypost.hresult import HResult
from waypost.limits import MAX_ENLISTED_TRANSACTIONS
from waypost.timers import Timers

_PREFIX: Final = b"waypost transaction\0"

# The identifier of a transaction and its number, which another one with the same identifier does not have.
_Name: TypeAlias = tuple[bytes, int]


def local_token(transaction_id: bytes) -> bytes:
    """The propagation token for a transaction that is to be one of the queue manager which gets it.

    That is the ASCII text "waypost transaction", a null, and the 16 bytes of the identifier.
    """
    return _PREFIX + transaction_id


class NoCoordinator:
    """Coordinator of waypost.remote.context that takes part in nothing."""

    __slots__ = ()

    # Transactions under way.
    begun: Final[Mapping[_Name, None]] = {}

    def enlist(self, _transaction_id: bytes, _propagation_token: bytes, _now: Now) -> HResult:
        """MS-MQMQ 2.4: no connection with the Distributed Transaction Coordinator can be established."""
        return HResult.MQ_ERROR_DTC_CONNECT

    def admits(self, _transaction_id: bytes) -> bool:
        return False

    def settle(self) -> None:
        """Nothing takes too long."""


class LocalCoordinator:
    """Coordinator of waypost.remote.context. `timeout_s` is how long a transaction may take until it is prepared."""

    __slots__ = ("_external", "_given_up", "_timeout_s", "_timers", "_transactions", "begun")

    def __init__(
        self, transactions: Transactions, external: ExternalTransactions, timeout_s: float, timers: Timers
    ) -> None:  # fmt: skip
        self._transactions: Final = transactions
        self._external: Final = external
        self._timeout_s: Final = timeout_s
        self._timers: Final = timers
        # Those that are neither prepared nor over.
        self.begun: dict[_Name, None] = {}
        # Those that were aborted here, the latest of them: nothing more is to be done in them.
        self._given_up: dict[bytes, None] = {}

    def enlist(self, transaction_id: bytes, propagation_token: bytes, now: Now) -> HResult:
        if transaction_id == NULL_GUID:
            return HResult.MQ_ERROR_INVALID_PARAMETER
        if self._transactions.is_open(transaction_id):
            return HResult.MQ_OK
        if transaction_id in self._transactions.collection or transaction_id in self._given_up:
            return HResult.MQ_ERROR_TRANSACTION_ENLIST
        if propagation_token != local_token(transaction_id):
            return HResult.MQ_ERROR_TRANSACTION_IMPORT
        self.settle()
        if len(self.begun) >= MAX_ENLISTED_TRANSACTIONS:
            return HResult.MQ_ERROR_TRANSACTION_ENLIST
        try:
            self._external.enlist(transaction_id)
        except WaypostError as error:
            return error.hresult
        name = transaction_id, self._transactions.number(transaction_id)
        self.begun[name] = None
        self._timers.start((LocalCoordinator, name), now.monotonic + self._timeout_s, lambda _: self._give_up(name))
        return HResult.MQ_OK

    def settle(self) -> None:
        """Stop the timeout of a transaction that is prepared or over."""
        for name in [name for name in self.begun if not self._is_open(name)]:
            del self.begun[name]
            self._timers.stop((LocalCoordinator, name))

    def _give_up(self, name: _Name) -> None:
        """Abort what has taken too long."""
        del self.begun[name]
        if not self._is_open(name):
            return
        identifier, _ = name
        self._external.dtc_transaction_abort(identifier)
        self._given_up[identifier] = None
        if len(self._given_up) > MAX_ENLISTED_TRANSACTIONS:
            del self._given_up[next(iter(self._given_up))]

    def admits(self, transaction_id: bytes) -> bool:
        """One that took too long is refused: its reader may not know yet that it was aborted."""
        return transaction_id in self._transactions.collection or transaction_id not in self._given_up

    def _is_open(self, name: _Name) -> bool:
        identifier, number = name
        return self._transactions.is_open(identifier) and self._transactions.number(identifier) == number
