"""Manager and Transaction, for programs that wait in threads. waypost.aio has the same as coroutines."""

from typing import TYPE_CHECKING, Final, Self, Unpack

from waypost.client.admitting import admitted_address
from waypost.client.bases import BaseTransaction
from waypost.client.bodies import Body
from waypost.client.calls import Calls
from waypost.client.message import Message
from waypost.client.names import Name
from waypost.client.new_guid import new_guid
from waypost.client.queue import Queue
from waypost.client.queue_info import QueueProperties
from waypost.client.sending import DEFAULT_PRIORITY, SendProperties

if TYPE_CHECKING:
    from pathlib import Path

    from waypost.client.blocking import Blocking


class Manager:
    """A queue manager: `waypost.open` gives it. Use it in a `with` statement, or close it.

    Queues are named as everywhere in Waypost: 'orders' is the private queue of this computer, 'orders;retry' its
    subqueue, 'orders;journal' its journal; 'system$;deadletter', 'system$;deadxact' and 'system$;journal' are the
    queues of the queue manager itself; path names and format names mean what they mean to MSMQ. A queue object will do
    for a name.
    """

    __slots__ = ("_calls", "_shell", "path")

    def __init__(self, shell: "Blocking", path: "Path") -> None:
        self._shell: Final = shell
        self._calls: Final = Calls(shell.engine)
        self.path: Final = path

    def __repr__(self) -> str:
        return f"<Manager {self.name} in {self.path}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name of this computer, as format names and paths have it."""
        return self._calls.computer

    @property
    def guid(self) -> str:
        """The identifier of the queue manager, made when its folder was. The ids of its messages begin with it."""
        return self._calls.guid

    def create_queue(
        self, name: Name, *, transactional: bool = False, **properties: Unpack[QueueProperties]
    ) -> Queue:  # fmt: skip
        """Make a queue. Raises QueueExists if it is there already.

        To a transactional queue messages are sent in transactions only. That is for life; the other properties can be
        changed with `Queue.set`:

        label             a description of up to 124 characters
        journal           True to keep a copy of every message that is received, in the queue's journal
        quota_kb          how much the queue may hold, in kilobytes; None, the default, for no limit but the manager's
        journal_quota_kb  the same for its journal
        authenticate      True to accept only messages that are signed
        privacy           which messages to accept: "none" only clear ones, "body" only encrypted ones, or "optional"
        base_priority     what its messages have ahead of those for other queues when they are transferred
        type_id           a GUID of your own that says what kind of queue it is
        multicast         the address and port to take multicast messages from, like "234.1.1.1:8001"
        """
        self._shell.do(self._calls.application.create_queue, self._calls.attributes(name, transactional, properties))
        return self.queue(name)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """The queue of that name. It is not looked for before it is used.

        Who asks for the same name gets the same object, so to close it ends the waits of all who use it.
        With `exclusive` it is an object of its own that keeps others from receiving, from its first receive until it is
        closed; SharingViolation says that others are there already.
        """
        format_name = self._calls.name(name)
        found: Queue | None = None if exclusive else self._calls.used.get(format_name)
        if found is None:
            found = Queue(self, self._shell, self._calls, format_name, exclusive=exclusive)
            if not exclusive:
                self._calls.used[format_name] = found
        return found

    def queues(self) -> list[Queue]:
        """The queues that were created on this computer, in the order of their names."""
        return [self.queue(str(name)) for name in self._shell.look(self._calls.queues)]

    def outgoing_queues(self) -> list[Queue]:
        """The queues that hold what was sent to other computers until it is transferred.

        One can look into them, receive or purge what is there, and delete them.
        """
        names = self._shell.look(self._calls.outgoing_queues)
        return [Queue(self, self._shell, self._calls, name, outgoing=True) for name in names]

    def admit_sequence_address(self, guid: str, address: str) -> int:
        """Believe what the queue manager `guid` acknowledges from this IP address. It cannot be taken back.

        A transactional message leaves this computer's queues only when its destination acknowledges it from an address
        that is known: where it was dialled, or that its name resolves to. What comes from elsewhere, as behind NAT, is
        kept; `waypost explain` and `waypost doctor` show it. Returns how many acknowledgments were kept from there and
        are applied now.
        """
        believed: int = self._shell.do(self._calls.application.admit_address, *admitted_address(guid, address))
        return believed

    def delete_queue(self, name: Name) -> None:
        """Delete a queue: see `Queue.delete`."""
        self.queue(name).delete()

    def send(
        self,
        queue: Name,
        body: Body,
        *,
        label: str = "",
        priority: int = DEFAULT_PRIORITY,
        recoverable: bool = True,
        transaction: "Transaction | None" = None,
        **properties: Unpack[SendProperties],
    ) -> Message:
        """Send one message to any queue, here or elsewhere, or to several, whose format names are joined with commas.

        What goes to another computer waits in an outgoing queue until it can be transferred. The arguments are those of
        `Queue.send`.
        """
        return self.queue(queue).send(
            body, label=label, priority=priority, recoverable=recoverable, transaction=transaction, **properties
        )

    def transaction(self) -> "Transaction":
        """Begin a transaction over any queues of this manager: what is sent and received in it happens together.

            with manager.transaction() as transaction:
                order = orders.receive(transaction=transaction)
                invoices.send(order.body, transaction=transaction)

        The end of the `with` statement commits; an exception that leaves it aborts.
        """
        identifier = new_guid()
        self._shell.start(self._calls.begin, identifier)
        return Transaction(self._shell, self._calls, identifier)

    def close(self) -> None:
        """Stop the queue manager and let its folder go. What is pending is written first.

        Reads that wait raise OperationCancelled, and transactions that are under way abort. Express messages are gone.
        Raises a StoreError if something could not be written. A second time it does nothing, unless the first was
        interrupted: then it goes on.
        """
        self._shell.close()


class Transaction(BaseTransaction):
    """A transaction: `manager.transaction()` begins it. Give it to what shall be part of it as `transaction=`.

    It is atomic: others see what it sent, and no more what it received, when it is committed, and never a part of it.
    """

    __slots__ = ("_shell",)

    def __init__(self, shell: "Blocking", calls: Calls, identifier: bytes) -> None:
        super().__init__(calls, identifier)
        self._shell: Final = shell

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            self.abort()
            return
        try:
            self.commit()
        finally:
            if self.is_open:
                self.abort()

    def commit(self) -> None:
        """Do all of it, and return when it is on disk.

        If StoreFull leaves it open, `is_open` says so: commit again when there is room, or abort.
        """
        self._shell.do(self._commit, self.identifier_for(self._owner))

    def abort(self) -> None:
        """Do nothing of it. What was received goes back to its place, with its `abort_count` raised."""
        self._shell.start(self._abort, self.identifier_for(self._owner))
