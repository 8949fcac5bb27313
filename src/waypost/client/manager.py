"""Manager, for programs that wait in threads. waypost.aio has the same as coroutines.

Whatever they do is an operation of waypost.api.operations, which a transport brings to the queue manager.
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

    Queues are named as everywhere in Waypost: 'orders' is the private queue of this computer, 'orders;retry' its
    subqueue, 'orders;journal' its journal; 'system$;deadletter', 'system$;deadxact' and 'system$;journal' are the
    queues of the queue manager itself; path names and format names mean what they mean to MSMQ. A queue object will do
    for a name.
    """

    __slots__ = ("_queues", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport: Final = transport
        # The queue objects that were given out and not found missing.
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
        """The name of this computer, as format names and paths have it."""
        return self._transport.computer

    @property
    def guid(self) -> str:
        """The identifier of the queue manager, made when its folder was. The ids of its messages begin with it."""
        return self._transport.guid

    @property
    def path(self) -> Path:
        """The folder of a queue manager inside this process. That of a daemon is not known here: AttributeError."""
        if self._transport.path is None:
            raise AttributeError(f"the folder of {self._transport.url} is known to the daemon alone")
        return self._transport.path

    @property
    def url(self) -> str:
        """The address of a daemon. A queue manager inside this process has none: AttributeError."""
        if self._transport.url is None:
            raise AttributeError(f"the queue manager in {self._transport.path} is no daemon, and has no address")
        return self._transport.url

    def create_queue_record(self, name: Name, properties: QueueProperties, *, transactional: bool = False) -> Queue:
        format_name = self._format_name(name)
        text = name if isinstance(name, str) else str(format_name)
        create = CreateQueue(name=text, transactional=bool(transactional), **asdict(properties))
        warn_of_ignored(self._transport.call(create).notes)
        return self._named(format_name)

    def queue(self, name: Name, *, exclusive: bool = False) -> Queue:
        """The queue of that name. It is not looked for before it is used.

        Who asks for the same name gets the same object, so to close it ends the waits of all who use it.
        With `exclusive` it is an object of its own that keeps others from receiving, from its first receive until it is
        closed; SharingViolation says that others are there already.
        """
        found = self._format_name(name)
        return Queue(self, self._transport, found, self._forget, exclusive=True) if exclusive else self._named(found)

    def _named(self, name: FormatName) -> Queue:
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = Queue(self, self._transport, name, self._forget)
        return found

    def _forget(self, name: FormatName, queue: Queue) -> None:
        """No queue has this name: who asks for it again gets another object."""
        if self._queues.get(name) is queue:
            del self._queues[name]

    def _format_name(self, name: Name) -> FormatName:
        return format_name(name, self._transport.computer)

    def queues(self, *, kind: Kind = "", pattern: str = "") -> list[Queue]:
        """The queues that were created on this computer, in the order of their names.

        kind     "local", "outgoing", "system" or "all" for others: those of this computer, those that hold what was
                 sent to other computers, and those of the queue manager itself
        pattern  only those whose names it fits: * and ? are any characters
        """
        found = self._transport.call(ListQueues(kind=kind, pattern=pattern)).queues
        return [self._listed(each) for each in found]

    def _listed(self, info: QueueInfo) -> Queue:
        name = self._format_name(info.format_name)
        if info.kind == "outgoing":
            return Queue(self, self._transport, name, self._forget, outgoing=True)
        return self._named(name)

    def outgoing_queues(self) -> list[Queue]:
        """The queues that hold what was sent to other computers until it is transferred.

        One can look into them, receive or purge what is there, and delete them.
        """
        return self.queues(kind="outgoing")

    def admit_sequence_address(self, guid: str, address: str) -> int:
        """Believe what the queue manager `guid` acknowledges from this IP address, until it is revoked.

        A transactional message leaves this computer's queues only when its destination acknowledges it from an address
        that is known: where it was dialled, or that its name resolves to. What comes from elsewhere, as behind NAT, is
        kept; `waypost explain` and `waypost doctor` show it. Returns how many acknowledgments were kept from there and
        are applied now.
        """
        return self._transport.call(AdmitAddress(guid=guid, address=address)).believed

    def revoke_sequence_address(self, guid: str, address: str) -> None:
        """Take back what `admit_sequence_address` has admitted. What was applied stays applied.

        Raises InvalidParameter if this address was not admitted for this queue manager.
        """
        self._transport.call(RevokeAddress(guid=guid, address=address))

    def admitted_sequence_addresses(self) -> list[tuple[str, str]]:
        """The GUIDs and addresses that were admitted. Those of the configuration are not among them."""
        return [(each.guid, each.address) for each in self._transport.call(ListAdmitted()).addresses]

    def explain(self, subject: str) -> Explanation:
        """Say why a message is where it is, by its `id`, or what keeps the messages of a queue where they are.

        A message is found in whatever queue it is. Of one that came and was not taken, or that was handed to another
        host, the reason or the host is remembered for a while.
        """
        return self._transport.call(Explain.of(subject))

    def status(self, *, turns_s: float = 60.0) -> StatusInfo:
        """The queue manager at this moment: name, version, queues, sessions, and why it does not take new messages.

        A daemon also says where it listens, and what held it up for the longest time in the last `turns_s` seconds.
        """
        return self._transport.call(Status(turns_s=turns_s))

    def doctor(self) -> list[Check]:
        """Look for what is wrong, as `waypost doctor` does. Where a check is not `ok`, its `hint` says what to do.

        A daemon looks at its network and its ports too.
        """
        return list(self._transport.call(Doctor()).checks)

    def delete_queue(self, name: Name) -> None:
        """Delete a queue: see `Queue.delete`."""
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
        """Send the messages of a file that `Queue.export_messages` wrote to a queue. Each gets a new id.

        To a transactional queue they are sent in one transaction. `file` is a name or an open binary file. `progress`
        is called with the number of messages so far, after each. Raises InvalidParameter if the file holds something
        else, or too many for a transaction.
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
        """The transactional sequences that are known, one after the other: there may be a million.

        direction  "out" for those of what is sent from here, "in" for what comes from others, "refused" for what came
                   and was not taken lately; None for all of them
        queue      only those of this queue, which may be an outgoing one
        source     only those of the queue manager with this GUID
        address    only those that come from this IP address
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
        """Begin transactional sequences again. Messages may come twice then: the `warning` of the result says which.

        For an outgoing `queue`, its messages that are not acknowledged get new numbers in a new sequence that begins
        now. For others, what was taken of the sequences that fit all that is given is forgotten: of a queue, of the
        `source` with this GUID, from this IP `address`, or without a message for `older_than` seconds. The next message
        of a source that is named is taken whatever comes before it.

        With `trial` nothing happens, and the result says what would.
        """
        name = None if queue is None else str(self._format_name(queue))
        wanted = ResetSequences(queue=name, source=source, address=address, older_than_s=older_than, trial=trial)
        reset = self._transport.call(wanted)
        while reset.next:
            reset = reset.joined(self._transport.call(replace(wanted, after=reset.next)))
        return reset

    def damaged_messages(self, *, with_bytes: bool = False) -> list[DamagedInfo]:
        """The messages that were damaged on disk and set aside; `with_bytes` with what was found in their place.

        They are in no queue any more. `forget_damaged_messages` lets them go.
        """
        page = self._transport.call(ListDamaged(with_bytes=with_bytes))
        found = list(page.messages)
        while page.next:
            page = self._transport.call(ListDamaged(with_bytes=with_bytes, after=page.next))
            found += page.messages
        return found

    def forget_damaged_messages(self) -> int:
        """Let go what is kept of damaged messages. Returns how many there were."""
        return self._transport.call(ForgetDamaged()).forgotten

    def verify_store(self, *, progress: "Progress | None" = None) -> StoreReport:
        """Look at everything that is stored: the pages of the file, every record, and the counts. Nothing is changed.

        Another process does it, while this queue manager goes on. `progress` is called with the pages that were looked
        at, and how many there are. `is_whole` of the report says whether nothing is wrong, and `damage` what is.
        `waypost.verify` does the same with a folder that no queue manager uses.
        """
        return self._transport.verify(progress)

    def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        """Copy everything that is durable, as of one moment, while the queue manager works on.

            manager.backup("/backups/2026-11-17")

        `target` is a folder, which is made, or an open binary file, which gets the stream. Everything that was
        acknowledged before is in the backup; express messages are not. `progress` is called with the bytes that were
        written so far, and about how many there will be. `waypost.restore` makes a data folder of a backup.

        Raises BackupUnderWay if another backup is being made, and BackupError if this one broke off: then nothing of
        it is in the folder.
        """
        return self._transport.backup(target, progress)

    def transaction(self, timeout: float | None = None) -> "Transaction":
        """Begin a transaction over any queues of this manager: what is sent and received in it happens together.

            with manager.transaction() as transaction:
                order = orders.receive(transaction=transaction)
                invoices.send(order.body, transaction=transaction)

        The end of the `with` statement commits; an exception that leaves it aborts. It is aborted when it is not used
        for `timeout` seconds, and TransactionSequence says so at its next use. Default: 60 at a daemon, and no limit
        inside this process.
        """
        self._transport.check()
        return Transaction(self._transport, transaction_limit(timeout, self._transport.transaction_s))

    def call(self, operation: Operation[R], /) -> R:
        """Have an operation done that no other method asks for, such as those of waypost.api.bulk, and get its reply.

        plan = manager.call(PlanRange(name="orders", parts=4))
        """
        return self._transport.call(asked(operation))

    def close(self) -> None:
        """Let the queue manager go. Reads that wait raise OperationCancelled, and transactions under way abort.

        One inside this process stops and lets its folder go; what is pending is written first, and express messages are
        gone. It raises a StoreError if something could not be written. A daemon runs on.
        A second time it does nothing, unless the first was interrupted: then it goes on.
        """
        self._transport.close()


def _is_transactional(queue: Queue, message: Message) -> bool:
    """Of a queue elsewhere nobody here knows it; what was sent in a transaction is sent in one again."""
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
