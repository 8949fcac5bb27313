"""Transactions of clients, by id. An unused transaction aborts after its time.

The outcomes of the last ones are remembered: a client that lost the answer to a commit retries and learns that it is
committed, and an id never begins a second transaction, so that no message is sent in half a transaction. A lease is a
transaction too: to acknowledge is to commit it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from waypost.api.excerpt import excerpt
from waypost.api.operations import AbortTransaction, BeginTransaction, CommitTransaction
from waypost.drive.loop import Loop
from waypost.drive.new_guid import new_guid
from waypost.errors import DecodeError, InvalidParameter, LimitReached, TransactionSequence, WaypostError
from waypost.guid import guid_text, parse_guid
from waypost.http.leases import Leases
from waypost.http.settings import HttpSettings
from waypost.limits import MAX_HTTP_LEASE_SECONDS, MAX_HTTP_OUTCOMES
from waypost.node.access import owns
from waypost.security.callers import QUEUE_MANAGER, Caller
from waypost.wire.sid import Sid

_COMMITTED: Final = "committed"
_ABORTED: Final = "aborted"
_IN_DOUBT: Final = "committed, but may not be on disk"
_EXPIRED: Final = "aborted, because it timed out"


class Transactions:
    """The transactions of the clients of one manager."""

    __slots__ = ("_committing", "_open", "_outcomes", "_seconds", "_shell", "expired")

    def __init__(self, shell: Loop, settings: HttpSettings) -> None:
        self._shell: Final = shell
        self._seconds: Final = settings.transaction_s
        self._open: Final[Leases[Sid]] = Leases("transactions", settings.max_transactions, self._expire)
        self._outcomes: OrderedDict[str, tuple[str, Sid]] = OrderedDict()
        self._committing: dict[str, asyncio.Task[None]] = {}
        # Number of transactions that timed out.
        self.expired = 0

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, seconds: float | None, caller: Caller, identifier: str | None = None) -> str:
        """Begin a transaction. Returns its id."""
        key = guid_text(new_guid()) if identifier is None else _key(identifier)
        if key in self._open or key in self._outcomes:
            raise TransactionSequence(f"the transaction {key} already exists; use a new id for each transaction")
        self.check_room()
        self._shell.start(BeginTransaction(id=key), caller)
        return self._open.add(caller.sid, self._limit(seconds), caller, key)

    def begin_own(self, caller: Caller) -> str:
        """Begin a transaction of the server itself for a caller. The server must end it."""
        key = guid_text(new_guid())
        self._shell.start(BeginTransaction(id=key), caller)
        return key

    async def end_own(self, key: str, *, commits: bool) -> None:
        if not commits:
            self._abort(key)
            return
        try:
            await self._shell.call(CommitTransaction(identifier=key), QUEUE_MANAGER)
        except WaypostError:
            # Nobody else can end it: release its messages, unless the commit is in progress.
            if parse_guid(key) in self._shell.driver.node.manager.transactions.collection:
                self._abort(key)
            raise

    def check_room(self) -> None:
        """Raises LimitReached if no more may be open."""
        self._open.check_room()

    def adopt(self, key: str, seconds: float, caller: Caller) -> str:
        """Hand a transaction of the server over to the client. Returns its id."""
        try:
            return self._open.add(caller.sid, self._limit(seconds), caller, key)
        except LimitReached:
            self._abort(key)
            raise

    @contextmanager
    def using(self, identifier: str, caller: Caller, begin_s: float | None = None) -> Iterator[str]:
        """The id of the transaction, kept open in this context. With `begin_s` it begins if it does not exist."""
        key = _key(identifier)
        if not self._open.has(key, caller):
            if begin_s is None or key in self._outcomes or key in self._open:
                raise self._over(key, caller)
            self.begin(begin_s, caller, key)
        with self._open.using(key):
            yield key

    async def commit(self, identifier: str, caller: Caller) -> None:
        """Commit. The commit goes on if its client leaves, and a retry gets its answer."""
        key = _key(identifier)
        if not self._open.has(key, caller):
            if self._outcome(key, caller) != _COMMITTED:
                raise self._over(key, caller)
            return
        task = self._committing.get(key)
        if task is None:
            task = self._committing[key] = asyncio.get_running_loop().create_task(self._commit(key, caller))
            task.add_done_callback(partial(self._committed, key))
        await asyncio.shield(task)

    def _committed(self, key: str, task: "asyncio.Task[None]") -> None:
        del self._committing[key]
        # The client may be gone; asyncio must not report the error.
        if not task.cancelled():
            task.exception()

    async def _commit(self, key: str, caller: Caller) -> None:
        with self._open.using(key):
            outcome = _IN_DOUBT
            try:
                await self._shell.call(CommitTransaction(identifier=key), caller)
                outcome = _COMMITTED
            finally:
                # A client may retry a commit that was refused at once, such as on a full disk.
                if parse_guid(key) not in self._shell.driver.node.manager.transactions.collection:
                    self._remember(key, outcome)

    async def abort(self, identifier: str, caller: Caller) -> None:
        key = _key(identifier)
        if key in self._committing or not self._open.has(key, caller):
            if self._outcome(key, caller) in (None, _COMMITTED, _IN_DOUBT):
                raise self._over(key, caller)
            return
        self._remember(key, _ABORTED)
        self._abort(key, caller)

    async def acknowledge(self, identifiers: Sequence[str], caller: Caller) -> tuple[list[str], list[str]]:
        """Commit each transaction separately, with one flush to disk.

        Returns the committed ids, and the ids of the transactions that had already ended.
        """
        if not identifiers:
            return [], []
        # Invalid ids are refused before anything is committed.
        commits = [self.commit(key, caller) for key in [*map(_key, identifiers)]]
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        committed, refused = [], []
        for identifier, outcome in zip(identifiers, outcomes, strict=True):
            if outcome is None:
                committed.append(identifier)
            elif isinstance(outcome, TransactionSequence):
                refused.append(identifier)
            else:
                raise outcome
        return committed, refused

    def abort_all_of(self, owner: Sid) -> None:
        """Abort the transactions of one owner, unless their commit is in progress."""
        for key in self._open.of(owner):
            if key not in self._committing:
                self._remember(key, _ABORTED)
                self._abort(key)

    def _limit(self, seconds: float | None) -> float:
        return self._seconds if seconds is None else min(seconds, MAX_HTTP_LEASE_SECONDS)

    def _outcome(self, key: str, caller: Caller) -> str | None:
        """The outcome of a transaction that the caller has begun."""
        found = self._outcomes.get(key)
        return found[0] if found is not None and owns(caller, found[1]) else None

    def _over(self, key: str, caller: Caller) -> WaypostError:
        outcome = self._outcome(key, caller)
        return TransactionSequence(f"the transaction {key} {f'is {outcome}' if outcome else 'is not open'}")

    def _remember(self, key: str, outcome: str) -> None:
        """Forget that a transaction is open, and remember its outcome for its owner."""
        owner = self._open.drop(key)
        assert owner is not None
        self._remember_for(owner, key, outcome)

    def _remember_for(self, owner: Sid, key: str, outcome: str) -> None:
        self._outcomes[key] = outcome, owner
        if len(self._outcomes) > MAX_HTTP_OUTCOMES:
            self._outcomes.popitem(last=False)

    async def _expire(self, key: str, owner: Sid) -> None:
        self._remember_for(owner, key, _EXPIRED)
        self.expired += 1
        self._abort(key)

    def _abort(self, key: str, caller: Caller = QUEUE_MANAGER) -> None:
        # The queue manager may have ended it already.
        with suppress(TransactionSequence):
            self._shell.start(AbortTransaction(identifier=key), caller)


def _key(identifier: str) -> str:
    try:
        return guid_text(parse_guid(identifier))
    except DecodeError:
        raise InvalidParameter(f"the id of a transaction must be a GUID, not {excerpt(identifier)}") from None
