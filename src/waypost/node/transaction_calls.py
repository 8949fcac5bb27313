"""The operations on transactions of applications, which have GUIDs.

One with a time limit is aborted after that time without use. A read that waits in it counts as use.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from waypost.api.excerpt import excerpt
from waypost.api.opened import TransactionObject
from waypost.api.operations import AbortTransaction, BeginTransaction, CommitTransaction
from waypost.clock import Now
from waypost.errors import DecodeError, InvalidParameter, WaypostError
from waypost.guid import guid_text, parse_guid
from waypost.hresult import HResult
from waypost.limits import MAX_HTTP_LEASE_SECONDS
from waypost.node.access import owns
from waypost.node.failures import failure
from waypost.node.kernel import Call
from waypost.node.node import Node
from waypost.security.callers import QUEUE_MANAGER

if TYPE_CHECKING:
    from waypost.wire.sid import Sid


class TransactionCalls:
    """Operations on transactions of one node."""

    __slots__ = ("_kernel", "_limits", "_new_guid", "_open", "_owners", "_reading", "_transactions")

    def __init__(self, node: Node) -> None:
        self._kernel: Final = node.kernel
        self._new_guid: Final = node.new_guid
        self._transactions: Final = node.manager.transactions
        self._reading: Final = node.manager.reading
        # Transactions that were begun here and have not ended.
        self._open: Final[dict[str, bytes]] = {}
        # The SIDs of the callers that have begun them.
        self._owners: Final[dict[bytes, Sid]] = {}
        # Seconds without use before each is aborted, for those with a limit.
        self._limits: Final[dict[bytes, float]] = {}

    def begin(self, call: Call, operation: BeginTransaction) -> None:
        identifier = self._new_guid() if operation.id is UNSET else _identifier(operation.id)
        with self._kernel.operation(call.now):
            self._begin(call, identifier, 0.0 if operation.timeout_s is UNSET else operation.timeout_s)
            # A caller that leases it to others knows the end of the lease.
            self._kernel.reply(call.request, TransactionObject(guid_text(identifier), ""))

    def commit(self, call: Call, operation: CommitTransaction) -> None:
        identifier = self._identifier(operation.identifier)
        self._kernel.check_store()
        with self._kernel.operation(call.now):
            self._check_own(call, identifier)
            self._end(call, self._transactions.transaction_commit(identifier, call.now.wall))
            # The deletion of a queue meanwhile may have left nothing to write here.
            self._kernel.await_everything()
        self._forget(identifier)

    def abort(self, call: Call, operation: AbortTransaction) -> None:
        identifier = self._identifier(operation.identifier)
        self._check_own(call, identifier)
        self._forget(identifier)
        self._abort(call, identifier)

    def joined(self, call: Call, transaction: str | UnsetType, begin_s: float | UnsetType) -> bytes | None:
        """The transaction of an operation; the operation begins it if it says so."""
        if transaction is UNSET:
            if begin_s is not UNSET:
                raise InvalidParameter("`begin_s` requires the id of the transaction")
            return None
        identifier = self._identifier(transaction)
        if begin_s is not UNSET and identifier not in self._transactions.collection:
            with self._kernel.operation(call.now):
                self._begin(call, identifier, begin_s)
        else:
            if not self._is_own(call, identifier):
                raise failure(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)
            self.used(identifier, call.now)
        return identifier

    def used(self, identifier: bytes | None, now: Now) -> None:
        """Begin the time limit of a transaction again, if it has one."""
        if identifier in self._limits:
            self._start_limit(identifier, now)

    def stop(self, now: Now) -> None:
        """Abort the active transactions, because the queue manager stops."""
        while self._open:
            identifier = next(iter(self._open.values()))
            self._forget(identifier)
            with suppress(WaypostError):
                self._abort(Call(0, now, QUEUE_MANAGER), identifier)

    def _abort(self, call: Call, identifier: bytes) -> None:
        with self._kernel.operation(call.now):
            self._check_own(call, identifier)
            self._end(call, self._transactions.transaction_abort(identifier))

    def _is_own(self, call: Call, identifier: bytes) -> bool:
        """Whether the caller has begun the transaction, or nobody has."""
        owner = self._owners.get(identifier)
        return owner is None or owns(call.caller, owner)

    def _check_own(self, call: Call, identifier: bytes) -> None:
        """Raise TransactionSequence for a transaction of another caller, or of a coordinator, which ends it itself."""
        transaction = self._transactions.collection.get(identifier)
        if transaction is None or not transaction.single_phase or not self._is_own(call, identifier):
            raise failure(HResult.MQ_ERROR_TRANSACTION_SEQUENCE)

    def _end(self, call: Call, status: HResult) -> None:
        if status is not HResult.MQ_OK:
            raise failure(status)
        self._kernel.reply(call.request)

    def _begin(self, call: Call, identifier: bytes, limit_s: float) -> None:
        """`limit_s` is 0 without a limit."""
        self._transactions.create_transaction(identifier)
        self._open[guid_text(identifier)] = identifier
        self._owners[identifier] = call.caller.sid
        if limit_s:
            self._limits[identifier] = min(limit_s, MAX_HTTP_LEASE_SECONDS)
            self._start_limit(identifier, call.now)

    def _forget(self, identifier: bytes) -> None:
        self._open.pop(guid_text(identifier), None)
        self._owners.pop(identifier, None)
        if self._limits.pop(identifier, None) is not None:
            self._kernel.timers.stop((TransactionCalls, identifier))

    def _start_limit(self, identifier: bytes, now: Now) -> None:
        """Begin the time limit, or begin it again."""
        deadline = now.monotonic + self._limits[identifier]
        self._kernel.timers.start(
            (TransactionCalls, identifier), deadline, lambda now: self._limit_ended(identifier, now)
        )

    def _limit_ended(self, identifier: bytes, now: Now) -> None:
        if self._reading.waits_in(identifier):
            self._start_limit(identifier, now)
            return
        self._forget(identifier)
        # The queue manager may have ended it.
        self._transactions.transaction_abort(identifier)

    def _identifier(self, text: str) -> bytes:
        return self._open.get(text) or _identifier(text)


def _identifier(text: str) -> bytes:
    try:
        return parse_guid(text)
    except DecodeError:
        raise InvalidParameter(f"the id of a transaction must be a GUID, not {excerpt(text)}") from None
