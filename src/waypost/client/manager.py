"""Manager for programs that wait in threads. waypost.aio has the same with coroutines.

Each method makes an operation of waypost.api.operations, and a transport carries it to the queue manager.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from msgspec.structs import asdict, replace

from waypost.api.claims import ClaimObject, ListAllClaims, ListClaims, ReturnClaim
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
from waypost.api.status import Check, CreateLink, Doctor, IdentityInfo, ShowIdentity, Status, StatusInfo, StoreReport
from waypost.api.users import AuditEntry, ListAudit
from waypost.client.arguments import (
    asked,
    transaction_limit,
    warn_of_ignored,
)
from waypost.client.key_methods import KeyMethods
from waypost.client.message import Message
from waypost.client.packet_files import Counted, PacketFile, check_count, properties_to_send, read_packets
from waypost.client.queue import Queue
from waypost.client.transaction import Transaction
from waypost.client.transports import Transport
from waypost.client.users import Users
from waypost.client.with_properties import ManagerSender, QueueCreator
from waypost.errors import QueueNotFound
from waypost.wire.format_names import FormatName

if TYPE_CHECKING:
    from waypost.client.backups.container import BackupInfo
    from waypost.client.backups.target import Progress, Target

R = TypeVar("R")


class Manager(ManagerSender, QueueCreator, KeyMethods):
    """A queue manager, as returned by `waypost.open`. Use the manager in a `with` statement, or call `close` at the
    end.

    For example, the name 'orders' refers to a private queue of this computer. 'orders;retry' refers to the subqueue
    'retry' of this queue, and 'orders;journal' refers to its journal. The names 'system$;deadletter',
    'system$;deadxact' and 'system$;journal' refer to the queues of the queue manager itself. Path names and format
    names have the same meaning as in MSMQ. Methods that accept the name of a queue also accept a queue object.
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
        """The GUID of the queue manager. The GUID was created together with the data folder. It is the first part of
        the id of each message that the queue manager sends.
        """
        return self._transport.guid

    @property
    def path(self) -> Path:
        """The data folder of a queue manager inside this process. Raises AttributeError if the queue manager is a
        daemon.
        """
        if self._transport.path is None:
            raise AttributeError(f"{self._transport.url} is a daemon; daemons do not report their folder")
        return self._transport.path

    @property
    def url(self) -> str:
        """The address of the daemon. Raises AttributeError if the queue manager is inside this process."""
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
        """Return an object for the queue with this name. The first use of the object checks that the queue exists.

        All calls with the same name return the same object, so closing this object cancels all its waiting reads. With
        `exclusive`, the call returns a separate object. Its first receive opens the queue exclusively: no other
        reader can receive from the queue until the object is closed. The first receive raises SharingViolation if other
        readers have the queue open.
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
        """List queues, sorted by name. By default, the list contains the queues that were created on this computer.

        kind     "local" for queues that were created on this computer (default), "outgoing" for queues with messages
                 for other computers, "system" for queues of the queue manager itself, or "all" for all these queues
        pattern  pattern for the names of queues, in which * matches any characters, and ? matches one character
        """
        found = self._transport.call(ListQueues(kind=kind, pattern=pattern)).queues
        return [self._listed(each) for each in found]

    def _listed(self, info: QueueInfo) -> Queue:
        name = self._format_name(info.format_name)
        if info.kind == "outgoing":
            return Queue(self, self._transport, name, self._forget, outgoing=True)
        return self._named(name)

    def list_queues(self, kind: Kind = "", pattern: str = "") -> list[QueueInfo]:
        """Return the properties and the current message counts of several queues, with one request.

        `kind` is "outgoing", "system" or "all", or an empty string for the queues that were created on this computer.
        `pattern` selects queues by name. In the pattern, * matches any characters, and ? matches one character.
        """
        return list(self._transport.call(ListQueues(kind=kind, pattern=pattern)).queues)

    def outgoing_queues(self) -> list[Queue]:
        """List the outgoing queues, which hold messages for other computers until the messages are transferred.

        A program can browse, receive and purge the messages in outgoing queues. It can also delete outgoing queues.
        """
        return self.queues(kind="outgoing")

    def admit_sequence_address(self, guid: str, address: str) -> int:
        """Accept acknowledgments that the queue manager `guid` sends from the IP address `address`, until the address
        is revoked.

        A transactional message leaves the outgoing queue only when the destination acknowledges the message from a
        known address. An address is known if this computer has connected to the address, or if the name of the
        destination resolves to the address. Acknowledgments from other addresses, such as addresses behind NAT, are
        stored but not applied. `waypost explain` and `waypost doctor` show acknowledgments that were stored but not
        applied. This method applies the stored acknowledgments from `address`, and returns the number of applied
        acknowledgments.
        """
        return self._transport.call(AdmitAddress(guid=guid, address=address)).believed

    def revoke_sequence_address(self, guid: str, address: str) -> None:
        """Revoke an address that `admit_sequence_address` admitted. The revocation does not undo acknowledgments that
        were already applied.

        Raises InvalidParameter if this address was not admitted for this queue manager.
        """
        self._transport.call(RevokeAddress(guid=guid, address=address))

    def admitted_sequence_addresses(self) -> list[tuple[str, str]]:
        """Return the GUIDs and addresses that `admit_sequence_address` admitted.

        Addresses from the configuration are not listed.
        """
        return [(each.guid, each.address) for each in self._transport.call(ListAdmitted()).addresses]

    def claims(self, queue: Name | None = None, *, idle: bool = False) -> list[ClaimObject]:
        """List the claims of readers on messages of `queue`, or on messages of all queues.

        Other readers do not get the claimed messages. Each entry of the list is one part of a claim. `lease_left_s` is
        the time until the lease of the part expires, in seconds. `held_by` is the reason why the part stays claimed
        after its lease has expired. With `idle`, the list also contains claims without messages. The `count` of such a
        claim is 0.
        """
        if queue is None:
            return self._transport.call(ListAllClaims(idle=idle)).claims
        return self._transport.call(ListClaims(name=str(self._transport.named(queue)), idle=idle)).claims

    def release_claim(self, queue: Name, claim: str, *, forget: bool = False) -> int:
        """Release the messages of a claim, even if the query has already committed some of these messages.

        The `abort_count` of the messages increases. The queue manager refuses the requests of the current reader of the
        claim until the reader is restarted. Returns the number of messages that other readers can receive again, or 0
        if the claim has no messages.

        With `forget`, the call also deletes the claim. Use `forget` if the reader of the claim will not come back,
        because the queue manager keeps at most 10,000 claims. If a reader still uses the claim, a call with `forget`
        raises SharingViolation.
        """
        wish = ReturnClaim(name=str(self._transport.named(queue)), claim=claim, forget=forget)
        return self._transport.call(wish).count

    @property
    def users(self) -> Users:
        """The users of this queue manager: `manager.users.add("ada", role="operate")`."""
        return Users(self._transport.call)

    def audit(self, *, limit: int = 100, after: int = -1) -> list[AuditEntry]:
        """Return the last entries of the audit trail, oldest first. Each entry is a change or a refused request, with
        its user and its origin.

        limit  maximum number of entries, up to 10,000
        after  return only entries after the entry with this number
        """
        return list((self._transport.call(ListAudit(limit=limit, after=after))).entries)

    def explain(self, subject: str) -> Explanation:
        """Explain why a message has not been delivered or received, or why the messages in a queue are waiting.

        `subject` is the id of a message, or the name of a queue. The message can be in any queue. If the message was
        refused on arrival, the queue manager remembers the reason for a while. If the message was sent to another host,
        the queue manager remembers the host.
        """
        return self._transport.call(Explain.of(subject))

    def identity(self) -> IdentityInfo:
        """Return the identity of the queue manager, and the name, SID and role of the caller."""
        return self._transport.call(ShowIdentity())

    def status(self, *, turns_s: float = 60.0) -> StatusInfo:
        """Return the current state of the queue manager. The state includes the name, the version, and the numbers of
        queues and sessions. If the queue manager refuses new messages, the state also contains the reason.

        A daemon also reports its listeners, and the longest turn of its event loop in the last `turns_s` seconds.
        """
        return self._transport.call(Status(turns_s=turns_s))

    def doctor(self) -> list[Check]:
        """Check for problems, as `waypost doctor` does. If a check is not `ok`, its `hint` describes the solution.

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
        """Send the messages in a file to a queue. Each message gets a new id. `Queue.export_messages` writes such
        files.

        Messages to a transactional queue are sent in one transaction. `file` is the name of a file, or an open binary
        file. `progress` is called after each message with the number of messages sent so far. Raises InvalidParameter
        if the file contains other data, or if it contains too many messages for one transaction.
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
        """Iterate over the known transactional sequences. A queue manager can have a million sequences.

        direction  "out" for outgoing sequences, "in" for incoming sequences, "refused" for sequences that were
                   refused recently, or None for all sequences
        queue      return only sequences of this queue, which can be an outgoing queue
        source     return only sequences of the queue manager with this GUID
        address    return only sequences from this IP address
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
        """Restart transactional sequences. As a result, some messages might arrive twice. The attribute `warning` of
        the result describes these messages.

        If `queue` is an outgoing queue, its unacknowledged messages get new numbers in a new sequence. Otherwise, the
        queue manager deletes its records of the incoming sequences that match all arguments. `queue` is the destination
        of the sequence. `source` and `address` are the GUID and the IP address of the sending queue manager.
        `older_than` is the minimum number of seconds since the last message of the sequence. After the reset, the next
        message of each of these sequences is accepted, even if earlier messages are missing.

        With `trial`, the call is a dry run. It changes nothing, and its result shows the effect that a reset would
        have.
        """
        name = None if queue is None else str(self._format_name(queue))
        wanted = ResetSequences(queue=name, source=source, address=address, older_than_s=older_than, trial=trial)
        reset = self._transport.call(wanted)
        while reset.next:
            reset = reset.joined(self._transport.call(replace(wanted, after=reset.next)))
        return reset

    def damaged_messages(self, *, with_bytes: bool = False) -> list[DamagedInfo]:
        """List messages that were damaged on disk and were therefore removed from their queues. With `with_bytes`, the
        entries also contain the damaged bytes.

        `forget_damaged_messages` deletes the records of damaged messages.
        """
        page = self._transport.call(ListDamaged(with_bytes=with_bytes))
        found = list(page.messages)
        while page.next:
            page = self._transport.call(ListDamaged(with_bytes=with_bytes, after=page.next))
            found += page.messages
        return found

    def forget_damaged_messages(self) -> int:
        """Delete the records of damaged messages, and the damaged frames of committed stages. Returns the number of
        deleted records and frames.
        """
        return self._transport.call(ForgetDamaged()).forgotten

    def browser_link(self) -> str:
        """Create a link with which one browser can log on to the daemon. The link works only once, and expires after
        ten minutes.

        Only a daemon has a server for browsers. For a queue manager inside this process, this method raises
        InvalidParameter.
        """
        return f"{(self._transport.url or '').rstrip('/')}{(self._transport.call(CreateLink())).path}"

    def verify_store(self, *, progress: "Progress | None" = None) -> StoreReport:
        """Verify the whole store: the pages of the file, every record, and the counts of records. The store does not
        change.

        A separate process verifies the store while this queue manager runs. `progress` is called with the number of
        verified pages and the total number of pages. In the report, `is_whole` is True if the store is intact, and
        `damage` lists the damaged places. `waypost.verify` verifies a data folder without a queue manager.
        """
        return self._transport.verify(progress)

    def backup(self, target: "Target", *, progress: "Progress | None" = None) -> "BackupInfo":
        """Back up the queue manager while it runs. The backup is a snapshot of the data on disk.

            manager.backup("/backups/2026-11-17")

        `target` is a new folder, or an open binary file to which the backup is written as one stream. The backup
        contains all changes that were acknowledged before the backup began, but no express messages. `progress` is
        called with the number of bytes that were written so far, and with an estimate of the total number.
        `waypost.restore` creates a data folder from a backup.

        Raises BackupUnderWay if another backup is in progress, and BackupError if the backup fails. A failed backup
        leaves nothing in the folder.
        """
        return self._transport.backup(target, progress)

    def transaction(self, timeout: float | None = None) -> "Transaction":
        """Begin a transaction, which can use all queues of this manager. All sends and receives in the transaction take
        effect at the same time.

            with manager.transaction() as transaction:
                order = orders.receive(transaction=transaction)
                invoices.send(order.body, transaction=transaction)

        When the `with` block ends, the transaction is committed. If an exception ends the block, the transaction is
        aborted. The queue manager also aborts a transaction that is not used for `timeout` seconds, and the next use of
        this transaction raises TransactionSequence. By default, `timeout` is 60 for a daemon, and unlimited for a queue
        manager in this process.
        """
        self._transport.check()
        return Transaction(self._transport, transaction_limit(timeout, self._transport.transaction_s))

    def call(self, operation: Operation[R], /) -> R:
        """Run an operation for which this class has no method. Returns the reply of the queue manager.

            plan = manager.call(PlanRange(name="orders", parts=4))

        The module waypost.api.bulk contains operations for this method.
        """
        return self._transport.call(asked(operation))

    def close(self) -> None:
        """Close the queue manager. A waiting read raises OperationCancelled, and open transactions are aborted.

        A queue manager in this process writes its pending changes, stops, and then releases its folder. Its express
        messages are lost. Raises a StoreError if a write failed. A daemon continues to run. If the first call was
        interrupted, a second call completes it. Otherwise, a second call does nothing.
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
