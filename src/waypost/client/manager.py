"""Manager and Transaction, for programs that wait in threads. waypost.aio has the same as coroutines."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from waypost.api.damaged import DamagedInfo
from waypost.api.explanation import Explanation
from waypost.api.names import Name
from waypost.api.operations import (
    AdmitAddress,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    ResetSequences,
    RevokeAddress,
)
from waypost.api.properties import MessageProperties, QueueProperties
from waypost.api.sequences import DIRECTIONS, Direction, SequenceInfo, SequenceReset
from waypost.client.bases import BaseTransaction
from waypost.client.bodies import Body
from waypost.client.calls import Calls
from waypost.client.message import Message
from waypost.client.queue import Queue
from waypost.client.queue_info import warn_of_ignored
from waypost.client.with_properties import ManagerSender, QueueCreator
from waypost.drive.new_guid import new_guid
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from pathlib import Path

    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target
    from waypost.client.storage.report import StoreReport
    from waypost.drive.threads import Threads


class Manager(ManagerSender, QueueCreator):
    """A queue manager: `waypost.open` gives it. Use it in a `with` statement, or close it.

    Queues are named as everywhere in Waypost: 'orders' is the private queue of this computer, 'orders;retry' its
    subqueue, 'orders;journal' its journal; 'system$;deadletter', 'system$;deadxact' and 'system$;journal' are the
    queues of the queue manager itself; path names and format names mean what they mean to MSMQ. A queue object will do
    for a name.
    """

    __slots__ = ("_calls", "_shell", "path")

    def __init__(self, shell: "Threads", path: "Path") -> None:
        self._shell: Final = shell
        self._calls: Final = Calls(shell.driver)
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

    def create_queue_record(self, name: Name, properties: QueueProperties, *, transactional: bool = False) -> Queue:
        attributes = self._calls.attributes(name, transactional, properties)
        warn_of_ignored(self._calls.name(name), properties)
        self._shell.do(self._calls.application.create_queue, attributes)
        return self.queue(name)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """The queue of that name. It is not looked for before it is used.

        Who asks for the same name gets the same object, so to close it ends the waits of all who use it.
        With `exclusive` it is an object of its own that keeps others from receiving, from its first receive until it is
        closed; SharingViolation says that others are there already.
        """
        return self._named(self._calls.name(name), exclusive=exclusive)

    def _named(self, format_name: FormatName, *, exclusive: bool = False) -> Queue:
        found: Queue | None = None if exclusive else self._calls.used.get(format_name)
        if found is None:
            found = Queue(self, self._shell, self._calls, format_name, exclusive=exclusive)
            if not exclusive:
                self._calls.used[format_name] = found
        return found

    def queues(self) -> list[Queue]:
        """The queues that were created on this computer, in the order of their names."""
        found = self._shell.call(ListQueues()).queues
        return [self._named(self._calls.name(each.format_name)) for each in found]

    def outgoing_queues(self) -> list[Queue]:
        """The queues that hold what was sent to other computers until it is transferred.

        One can look into them, receive or purge what is there, and delete them.
        """
        found = self._shell.call(ListQueues(kind="outgoing")).queues
        names = [self._calls.name(each.format_name) for each in found]
        return [Queue(self, self._shell, self._calls, name, outgoing=True) for name in names]

    def admit_sequence_address(self, guid: str, address: str) -> int:
        """Believe what the queue manager `guid` acknowledges from this IP address, until it is revoked.

        A transactional message leaves this computer's queues only when its destination acknowledges it from an address
        that is known: where it was dialled, or that its name resolves to. What comes from elsewhere, as behind NAT, is
        kept; `waypost explain` and `waypost doctor` show it. Returns how many acknowledgments were kept from there and
        are applied now.
        """
        return self._shell.call(AdmitAddress(guid=guid, address=address)).believed

    def revoke_sequence_address(self, guid: str, address: str) -> None:
        """Take back what `admit_sequence_address` has admitted. What was applied stays applied.

        Raises InvalidParameter if this address was not admitted for this queue manager.
        """
        self._shell.call(RevokeAddress(guid=guid, address=address))

    def admitted_sequence_addresses(self) -> list[tuple[str, str]]:
        """The GUIDs and addresses that were admitted. Those of the configuration are not among them."""
        return [(each.guid, each.address) for each in self._shell.call(ListAdmitted()).addresses]

    def explain(self, subject: str) -> Explanation:
        """Say why a message is where it is, by its `id`, or what keeps the messages of a queue where they are.

        A message is found in whatever queue it is. Of one that came and was not taken, or that was handed to another
        host, the reason or the host is remembered for a while.
        """
        return self._shell.call(Explain.of(subject))

    def delete_queue(self, name: Name) -> None:
        """Delete a queue: see `Queue.delete`."""
        self.queue(name).delete()

    def _send_to(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None"
    ) -> Message:
        return self.queue(queue).send_record(body, properties, transaction)

    def sequences(
        self,
        direction: Direction | None = None,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
    ) -> Iterator[SequenceInfo]:
        """The transactional sequences that are known, one after the other: there may be a million.

        direction  "out" for those of what is sent from here, "in" for what comes from others, "refused" for what came
                   and was not taken lately; None for all of them
        queue      only those of this queue, which may be an outgoing one
        source     only those of the queue manager with this GUID
        address    only those that come from this IP address
        """
        name = "" if queue is None else str(self._calls.name(queue))
        for each in (direction,) if direction is not None else DIRECTIONS:
            wanted = ListSequences(direction=each, queue=name, source=source or "", address=address or "")
            page = self._shell.call(wanted)
            yield from page.sequences
            while page.next:
                page = self._shell.call(replace(wanted, after=page.next))
                yield from page.sequences

    def reset_sequences(
        self,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
        older_than: float | None = None,
        trial: bool = False,
    ) -> SequenceReset:
        """Begin transactional sequences again. Messages may come twice then: the `warning` of the result says which.

        For an outgoing `queue`, its messages that are not acknowledged get new numbers in a new sequence that begins
        now. For others, what was taken of the sequences that fit all that is given is forgotten: of a queue, of the
        `source` with this GUID, from this IP `address`, or without a message for `older_than` seconds. The next message
        of a source that is named is taken whatever comes before it.

        With `trial` nothing happens, and the result says what would.
        """
        name = None if queue is None else str(self._calls.name(queue))
        wanted = ResetSequences(queue=name, source=source, address=address, older_than_s=older_than, trial=trial)
        reset = self._shell.call(wanted)
        while reset.next:
            reset = reset.joined(self._shell.call(replace(wanted, after=reset.next)))
        return reset

    def damaged_messages(self, *, with_bytes: bool = False) -> list[DamagedInfo]:
        """The messages that were damaged on disk and set aside; `with_bytes` with what was found in their place.

        They are in no queue any more. `forget_damaged_messages` lets them go.
        """
        page = self._shell.call(ListDamaged(with_bytes=with_bytes))
        found = list(page.messages)
        while page.next:
            page = self._shell.call(ListDamaged(with_bytes=with_bytes, after=page.next))
            found += page.messages
        return found

    def forget_damaged_messages(self) -> int:
        """Let go what is kept of damaged messages. Returns how many there were."""
        return self._shell.call(ForgetDamaged()).forgotten

    def verify_store(self, *, progress: "Progress | None" = None) -> "StoreReport":
        """Look at everything that is stored: the pages of the file, every record, and the counts. Nothing is changed.

        Another process does it, while this queue manager goes on. `progress` is called with the pages that were looked
        at, and how many there are. `is_whole` of the report says whether nothing is wrong, and `damage` what is.
        `waypost.verify` does the same with a folder that no queue manager uses.
        """
        self._shell.look(lambda: None)
        report: StoreReport = import_module("waypost.client.storage.process").verify_beside(self.path, progress)
        return report

    def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        """Copy everything that is durable, as of one moment, while the queue manager works on.

            manager.backup("/backups/2026-11-17")

        `target` is a folder, which is made, or an open binary file, which gets the stream. Everything that was
        acknowledged before is in the backup; express messages are not. `progress` is called with the bytes that were
        written so far, and about how many there will be. `waypost.restore` makes a data folder of a backup.

        Raises BackupUnderWay if another backup is being made, and BackupError if this one broke off: then nothing of
        it is in the folder.
        """
        self._shell.look(lambda: None)
        info: BackupInfo = making().backup_of_folder(self.path, target, progress)
        return info

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

    def __init__(self, shell: "Threads", calls: Calls, identifier: bytes) -> None:
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


def making() -> Any:
    """waypost.client.backups.making, which only a program that makes a backup waits for."""
    return import_module("waypost.client.backups.making")
