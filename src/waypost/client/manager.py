"""Manager for programs that wait in threads. waypost.aio has the same with coroutines.

Each method makes an operation of waypost.api.operations, and a transport carries it to the queue manager.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from msgspec.structs import asdict, replace

from waypost.api.damaged import DamagedInfo
from waypost.api.explanation import Explanation
from waypost.api.names import Name, format_name
from waypost.api.new_bodies import Body
from waypost.api.operations import (
    AdmitAddress,
    CreateQueue,
    Explain,
    ForgetDamaged,
    ListAdmitted,
    ListDamaged,
    ListQueues,
    ListSequences,
    Operation,
    ResetSequences,
    RevokeAddress,
)
from waypost.api.properties import MessageProperties, QueueInfo, QueueProperties
from waypost.api.queues import Kind
from waypost.api.sequences import DIRECTIONS, Direction, SequenceInfo, SequenceReset
from waypost.api.status import Check, Doctor, Status, StatusInfo, StoreReport
from waypost.client.arguments import (
    asked,
    transaction_limit,
    warn_of_ignored,
)
from waypost.client.message import Message
from waypost.client.packet_files import Counted, PacketFile, check_count, properties_to_send, read_packets
from waypost.client.queue import Queue
from waypost.client.transaction import Transaction
from waypost.client.transports import Transport
from waypost.client.with_properties import ManagerSender, QueueCreator
from waypost.errors import QueueNotFound
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target

R = TypeVar("R")


class Manager(ManagerSender, QueueCreator):
    """A queue manager: `waypost.open` gives it. Use it in a `with` statement, or close it.

    Names of queues: 'orders' is the private queue of this computer, 'orders;retry' its subqueue, 'orders;journal' its
    journal; 'system$;deadletter', 'system$;deadxact' and 'system$;journal' are the queues of the queue manager itself.
    Path names and format names have the same meaning as in MSMQ. Methods that take a name also take a queue object.
    """

    __slots__ = ("_queues", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport: Final = transport
        # The queue objects given out so far, except those found not to exist.
        self._queues: Final[dict[FormatName, Queue]] = {}

    def __repr__(self) -> str:
        place = f"at {self.url}" if self._transport.path is None else f"in {self.path}"
        return f"<Manager {self.name} {place}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name of this computer in format names and path names."""
        return self._transport.computer

    @property
    def guid(self) -> str:
        """The GUID of the queue manager, created with its folder. The ids of its messages begin with it."""
        return self._transport.guid

    @property
    def path(self) -> Path:
        """The folder of a queue manager inside this process. Raises AttributeError for a daemon."""
        if self._transport.path is None:
            raise AttributeError(f"{self._transport.url} is a daemon, which does not report its folder")
        return self._transport.path

    @property
    def url(self) -> str:
        """The address of a daemon. Raises AttributeError for a queue manager inside this process."""
        if self._transport.url is None:
            raise AttributeError(f"the queue manager in {self._transport.path} is not a daemon and has no address")
        return self._transport.url

    def create_queue_record(self, name: Name, properties: QueueProperties, *, transactional: bool = False) -> Queue:
        format_name = self._format_name(name)
        text = name if isinstance(name, str) else str(format_name)
        create = CreateQueue(name=text, transactional=bool(transactional), **asdict(properties))
        warn_of_ignored(self._transport.call(create).notes)
        return self._named(format_name)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """The queue with this name. The first use of the object finds out whether the queue exists.

        The same name gives the same object, so closing it ends the waits of all who use it.
        With `exclusive` it is a separate object that keeps others from receiving, from its first receive until it is
        closed; that receive raises SharingViolation if others have the queue open already.
        """
        found = self._format_name(name)
        return Queue(self, self._transport, found, self._forget, exclusive=True) if exclusive else self._named(found)

    def _named(self, name: FormatName) -> Queue:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = Queue(self, self._transport, name, self._forget)
        return found

    def _forget(self, name: FormatName, queue: Queue) -> None:
        """Forget the object of a name without a queue: the next call with this name gets a new object."""
        if self._queues.get(name) is queue:
            del self._queues[name]

    def _format_name(self, name: Name) -> FormatName:
        return format_name(name, self._transport.computer)

    def queues(self, *, kind: Kind = "", pattern: str = "") -> list[Queue]:
        """The queues that were created on this computer, sorted by name.

        kind     "local" for the queues created here (default), "outgoing" for those that hold messages to other
                 computers, "system" for those of the queue manager itself, or "all"
        pattern  only queues with a name that matches: * stands for any characters, ? for one
        """
        found = self._transport.call(ListQueues(kind=kind, pattern=pattern)).queues
        return [self._listed(each) for each in found]

    def _listed(self, info: QueueInfo) -> Queue:
        name = self._format_name(info.format_name)
        if info.kind == "outgoing":
            return Queue(self, self._transport, name, self._forget, outgoing=True)
        return self._named(name)

    def list_queues(self, kind: Kind = "", pattern: str = "") -> list[QueueInfo]:
        """List queues as they are at this moment, with one request: what `info` gives for each.

        `kind` is "" for the queues that were created on this computer, "outgoing", "system" or "all". With a `pattern`
        only those whose names match it: * and ? are any characters.
        """
        return list(self._transport.call(ListQueues(kind=kind, pattern=pattern)).queues)

    def outgoing_queues(self) -> list[Queue]:
        """The queues that hold messages to other computers until they are transferred.

        A program can browse, receive and purge their messages, and delete the queues.
        """
        return self.queues(kind="outgoing")

    def admit_sequence_address(self, guid: str, address: str) -> int:
        """Trust acknowledgments of the queue manager `guid` from this IP address, until it is revoked.

        A transactional message leaves this computer's queues only when its destination acknowledges it from a known
        address: the one that was dialled, or one that its name resolves to. Acknowledgments from other addresses, as
        behind NAT, are kept; `waypost explain` and `waypost doctor` show them. Returns the number of kept
        acknowledgments from this address, which are applied now.
        """
        return self._transport.call(AdmitAddress(guid=guid, address=address)).believed

    def revoke_sequence_address(self, guid: str, address: str) -> None:
        """Revoke an address that `admit_sequence_address` admitted. Acknowledgments applied before stay applied.

        Raises InvalidParameter if this address was not admitted for this queue manager.
        """
        self._transport.call(RevokeAddress(guid=guid, address=address))

    def admitted_sequence_addresses(self) -> list[tuple[str, str]]:
        """The GUIDs and addresses that `admit_sequence_address` admitted, without those of the configuration."""
        return [(each.guid, each.address) for each in self._transport.call(ListAdmitted()).addresses]

    def explain(self, subject: str) -> Explanation:
        """Explain why a message is where it is, by its `id`, or why the messages of a queue do not leave it.

        The message may be in any queue. For a message that came and was refused, the queue manager remembers the reason
        for a while; for one that was handed to another host, it remembers the host.
        """
        return self._transport.call(Explain.of(subject))

    def status(self, *, turns_s: float = 60.0) -> StatusInfo:
        """The queue manager at this moment: name, version, queues, sessions, and why it refuses new messages, if so.

        A daemon also reports its listeners, and the work that delayed it most in the last `turns_s` seconds.
        """
        return self._transport.call(Status(turns_s=turns_s))

    def doctor(self) -> list[Check]:
        """Look for problems, as `waypost doctor` does. If a check is not `ok`, its `hint` says what to do.

        A daemon also checks its network and its ports.
        """
        return list(self._transport.call(Doctor()).checks)

    def delete_queue(self, name: Name) -> None:
        """Delete a queue, as `Queue.delete` does."""
        self.queue(name).delete()

    def send_record(
        self, queue: Name, body: Body, properties: MessageProperties, transaction: "Transaction | None" = None
    ) -> Message:
        return self.queue(queue).send_record(body, properties, transaction)

    def send_records(
        self,
        queue: Name,
        bodies: Iterable[Body],
        properties: MessageProperties,
        transaction: "Transaction | None" = None,
    ) -> list[Message]:
        return self.queue(queue).send_records(bodies, properties, transaction)

    def import_messages(self, queue: Name, file: PacketFile, *, progress: Counted | None = None) -> list[Message]:
        """Send the messages of a file, which `Queue.export_messages` wrote, to a queue. Each gets a new id.

        To a transactional queue they are sent in one transaction. `file` is a name or an open binary file. `progress`
        is called after each message with the number of messages so far. Raises InvalidParameter if the file holds
        something else, or too many messages for a transaction.
        """
        found, target = read_packets(file), self.queue(queue)
        if not found:
            return []
        if not _is_transactional(target, found[0]):
            return _send_again(target, found, None, progress)
        check_count(found)
        with self.transaction() as transaction:
            return _send_again(target, found, transaction, progress)

    def sequences(
        self,
        direction: Direction | None = None,
        *,
        queue: Name | None = None,
        source: str | None = None,
        address: str | None = None,
    ) -> Iterator[SequenceInfo]:
        """The known transactional sequences, one after the other: there may be a million.

        direction  "out" for sequences of sent messages, "in" for those of messages from other queue managers,
                   "refused" for those refused lately; None for all of them
        queue      only sequences of this queue, which may be an outgoing one
        source     only sequences of the queue manager with this GUID
        address    only sequences that come from this IP address
        """
        name = "" if queue is None else str(self._format_name(queue))
        for each in (direction,) if direction is not None else DIRECTIONS:
            wanted = ListSequences(direction=each, queue=name, source=source or "", address=address or "")
            page = self._transport.call(wanted)
            yield from page.sequences
            while page.next:
                page = self._transport.call(replace(wanted, after=page.next))
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
        """Restart transactional sequences. Messages may come twice then: the `warning` of the result says which.

        For an outgoing `queue`, its messages that are not acknowledged get new numbers in a new sequence that begins
        now. Otherwise the queue manager forgets the incoming sequences that match every argument: of the `queue`, of
        the `source` with this GUID, from this IP `address`, or without a message for `older_than` seconds. It accepts
        the next message of a named source, even if earlier ones are missing.

        With `trial` it is a dry run: nothing changes, and the result says what would.
        """
        name = None if queue is None else str(self._format_name(queue))
        wanted = ResetSequences(queue=name, source=source, address=address, older_than_s=older_than, trial=trial)
        reset = self._transport.call(wanted)
        while reset.next:
            reset = reset.joined(self._transport.call(replace(wanted, after=reset.next)))
        return reset

    def damaged_messages(self, *, with_bytes: bool = False) -> list[DamagedInfo]:
        """The messages that were damaged on disk and set aside; `with_bytes` adds the bytes found in their place.

        They are in no queue any more. `forget_damaged_messages` deletes their records.
        """
        page = self._transport.call(ListDamaged(with_bytes=with_bytes))
        found = list(page.messages)
        while page.next:
            page = self._transport.call(ListDamaged(with_bytes=with_bytes, after=page.next))
            found += page.messages
        return found

    def forget_damaged_messages(self) -> int:
        """Delete the records of damaged messages. Returns the number of messages."""
        return self._transport.call(ForgetDamaged()).forgotten

    def verify_store(self, *, progress: "Progress | None" = None) -> StoreReport:
        """Verify the whole store: the pages of the file, every record, and the counts. Changes nothing.

        A separate process does it, while this queue manager goes on. `progress` is called with the number of pages
        verified and the number of all pages. `is_whole` of the report is True without damage, and `damage` lists it.
        `waypost.verify` does the same with a folder that no queue manager uses.
        """
        return self._transport.verify(progress)

    def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        """Copy the durable state as of one moment, while the queue manager goes on.

            manager.backup("/backups/2026-11-17")

        `target` is a new folder, which the backup creates, or an open binary file, which gets the stream. The backup
        has everything that was acknowledged before; express messages are not in it. `progress` is called with the
        number of bytes so far and an estimate of the total. `waypost.restore` makes a data folder from a backup.

        Raises BackupUnderWay if another backup is being made, and BackupError if this one failed: then it leaves
        nothing in the folder.
        """
        return self._transport.backup(target, progress)

    def transaction(self, timeout: float | None = None) -> "Transaction":
        """Begin a transaction over any queues of this manager: all its sends and receives take effect together.

            with manager.transaction() as transaction:
                order = orders.receive(transaction=transaction)
                invoices.send(order.body, transaction=transaction)

        The end of the `with` statement commits; an exception that leaves it aborts. A transaction that the program does
        not use for `timeout` seconds aborts, and its next use raises TransactionSequence. Default: 60 at a daemon, and
        no limit inside this process.
        """
        self._transport.check()
        return Transaction(self._transport, transaction_limit(timeout, self._transport.transaction_s))

    def call(self, operation: Operation[R], /) -> R:
        """Run an operation that has no method here, such as one of waypost.api.bulk, and return its reply.

        plan = manager.call(PlanRange(name="orders", parts=4))
        """
        return self._transport.call(asked(operation))

    def close(self) -> None:
        """Close the queue manager. Reads that wait raise OperationCancelled, and open transactions abort.

        A queue manager inside this process writes pending changes, stops and frees its folder; express messages are
        lost. Raises a StoreError if a write failed. A daemon runs on.
        A second call does nothing, unless the first was interrupted: then it finishes the work.
        """
        self._transport.close()


def _is_transactional(queue: Queue, message: Message) -> bool:
    """Whether to send in a transaction. Unknown for a queue elsewhere: then as the message was sent."""
    try:
        info = queue.info()
    except QueueNotFound:
        return message.transactional
    return message.transactional if info.kind == "outgoing" else info.transactional


def _send_again(
    queue: Queue, messages: Iterable[Message], transaction: Transaction | None, progress: Counted | None
) -> list[Message]:
    sent: list[Message] = []
    for message in messages:
        sent.append(queue.send_record(message.body, properties_to_send(message), transaction))
        if progress is not None:
            progress(len(sent))
    return sent
