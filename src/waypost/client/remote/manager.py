"""`connect`, and what a Manager and a Transaction are when their queue manager is another process."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from waypost.api.excerpt import excerpt
from waypost.client import manager
from waypost.client.remote.address import DEFAULT_TIMEOUT, Address
from waypost.client.remote.blocking import RemoteBlocking
from waypost.client.remote.calls import TRANSACTION_SECONDS
from waypost.client.storage.report import StoreReport
from waypost.drive.new_guid import new_guid
from waypost.errors import (
    ConnectionLost,
    InvalidParameter,
    OutcomeUnknown,
    ServiceNotAvailable,
    StoreError,
    TransactionSequence,
)

if TYPE_CHECKING:
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target
    from waypost.client.calls import Calls
    from waypost.drive.threads import Threads

# Where the daemon says how far a verification is, and how often it is asked.
VERIFICATION: Final = "/api/store/verification"
LOOK_SECONDS: Final = 0.2

# How a transaction ended whose commit got no answer.
IN_DOUBT: Final = "in doubt"


def connect(url: str, *, token: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> "Manager":
    """Connect to the daemon at `url`, such as http://127.0.0.1:8181, and use its queue manager like one of one's own.

        with waypost.connect("http://127.0.0.1:8181") as manager:
            orders = manager.queue("orders")
            orders.send("42 bolts", label="order")
            print(orders.receive().text)

    What it gives has the interface of waypost.open, and every thread can use it. `token` is the one that the daemon was
    told to expect. `timeout` is how many seconds a connection may take, and an answer beyond the time that a read waits
    for its message; to purge or delete a queue may take an hour, as it does with very many messages.

    Raises CannotConnect if no daemon answers, here and whenever another connection is needed. ConnectionLost means
    that the connection broke while the daemon worked: whether it has done what was asked is not known. A receive
    outside a transaction can lose its message then.
    """
    return Manager(RemoteBlocking(Address.parse(url, token, timeout)), url)


class Manager(manager.Manager):
    """A queue manager in another process: `waypost.connect` gives it. Close it, or use it in a `with` statement.

    Queues are named as seen from the computer where it runs. What is open there under an exclusive queue, a cursor or a
    transaction ends by itself when it is not used for a while.
    """

    __slots__ = ("url",)

    def __init__(self, shell: RemoteBlocking, url: str) -> None:
        # The same calls on both; only what they return on their way differs, and no more than the shell sees that.
        self._shell = cast("Threads", shell)  # type: ignore[misc]
        self._calls = cast("Calls", shell.calls)  # type: ignore[misc]
        self.url: Final = url

    def __repr__(self) -> str:
        return f"<Manager {self.name} at {self.url}>"

    def transaction(self, timeout: float = TRANSACTION_SECONDS) -> "Transaction":
        """Begin a transaction over any queues of this manager: see `waypost.Manager.transaction`.

        The daemon aborts it when it is not used for `timeout` seconds, and TransactionSequence says so at its next use.
        """
        identifier = new_guid()
        self._shell.start(self._calls.begin, identifier, transaction_limit(timeout))
        return Transaction(self._shell, self._calls, identifier)

    def verify_store(self, *, progress: "Progress | None" = None) -> StoreReport:
        """Have the daemon look at everything that it has stored: see `waypost.Manager.verify_store`."""
        state = self.request("POST", VERIFICATION)
        while state["running"]:
            if progress is not None:
                progress(state["done"], state["total"])
            time.sleep(LOOK_SECONDS)
            state = self.request("GET", VERIFICATION)
        return report_of(state)

    def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        """Copy everything that is durable at the daemon to a folder or a file here: see `waypost.Manager.backup`."""
        shell: Any = self._shell
        info: BackupInfo = manager.making().backup_of_daemon(shell.address, target, progress)
        return info

    def request(self, method: str, path: str, content: object = None) -> Any:
        """Ask the daemon for what is not in the Python API, such as GET /api/status. The answer is as in its JSON."""
        calls: Any = self._calls
        return self._shell.do(calls.request, method, path, content)

    def close(self) -> None:
        """Let the connections go. Reads that wait raise OperationCancelled, and transactions under way abort.

        The daemon runs on. A second time it does nothing.
        """
        self._shell.close()


def report_of(state: Any) -> StoreReport:
    """The report of a verification that is over. Raises StoreError if it came to no end."""
    if state["report"] is None:
        raise StoreError(state["error"])
    return StoreReport.from_dict(state["report"])


class Transaction(manager.Transaction):
    """A transaction at the daemon, which begins there with its first use."""

    __slots__ = ()

    def commit(self) -> None:
        """Do all of it, and return when it is on disk.

        Raises TransactionSequence if the daemon has aborted it, and ConnectionLost or OutcomeUnknown if nobody knows
        how it ended. If StoreFull leaves it open, `is_open` says so: commit again when there is room, or abort.
        """
        try:
            self._shell.do(self._owner.commit, self.identifier_for(self._owner))
        except TransactionSequence:
            self._outcome = self._outcome or "aborted"
            raise
        except (ConnectionLost, OutcomeUnknown):
            self._outcome = IN_DOUBT
            raise
        self._outcome = "committed"

    def abort(self) -> None:
        """Do nothing of it. What was received goes back to its place, with its `abort_count` raised."""
        identifier = self.identifier_for(self._owner)
        self._outcome = "aborted"
        # What the daemon does not hear of, or has aborted before, ends in the same way.
        with suppress(TransactionSequence, ServiceNotAvailable):
            self._shell.do(self._owner.abort, identifier)


def transaction_limit(timeout: object) -> float:
    if not isinstance(timeout, int | float) or not 0 < timeout < 1_000_000:
        raise InvalidParameter(f"the timeout of a transaction is a number of seconds, not {excerpt(timeout)}")
    return float(timeout)
