"""`sometimes`: rare branches that many seeds together must reach; otherwise the simulation proves too little."""

from typing import Final

from waypost.sim.net.hostility import SWITCHED_ON, Fault

_EVERYWHERE: Final = (
    "a crash after a batch is durable, but before the disk reports it",
    "a crash with batches that are not durable",
    "a crash right after an answer",
    "a clean stop",
    "a disk that becomes full while batches are pending",
    "a transactional dead-letter message",
    "a wall clock that was set back",
)

_ONE_HOST: Final = (
    "an answer delayed because its message is not durable yet",
    "an answer that depends on a durable batch",
    "a crash while clients wait for messages",
    "an operation refused because the disk is full",
    "an operation refused because the disk is nearly full",
    "a purge of a locked message",
    "a purged message that was locked until a restart",
    "a purge in parts",
    "expired messages that are removed in parts",
    "a queue deleted while messages are locked or uncommitted",
    "a queue deleted while a reader waits for messages",
    "an in-doubt transaction after a restart",
    "an in-doubt transaction that is committed",
    "an in-doubt transaction that is aborted",
    "a coordinator that repeats a commit request",
    "a commit that affects several queues",
    "an abort that returns a message to its queue",
    "an abort that makes a message available to a waiting reader",
    "a message that expires in its queue",
    "a message that expires while it is locked",
    "a message that expires while the host is down",
    "a send that exceeds a queue quota",
    "a send that exceeds the machine quota",
    "a copy in the journal of a queue",
    "a journal copy that does not fit into a quota",
    "a copy in the source journal",
    "a dead-letter message",
    "a positive acknowledgment",
    "a negative acknowledgment",
    "a message that completes both a waiting peek and a waiting receive",
    "a wait that ends because its transaction has ended",
    "a wait that times out",
    "a wait that is cancelled",
    "a cursor at a message that no longer exists",
    "a cursor that waits for a new message",
    "a locked message returned by a peek",
    "a message moved in a transaction",
    "a nonexistent subqueue opened with peek access",
    "a move to a queue that was deleted",
    "a two-phase receive that is rolled back",
    "several messages sent with one request",
    "several messages received with one request",
    "several messages received with one waiting request",
    # Remote readers.
    "a message that a remote reader confirms with an ACK",
    "a message that a remote reader returns with a NACK",
    "a message that a remote reader did not confirm in time",
    "a message that a remote reader rejects in a transaction",
    "a message that a qm2qm reader confirms",
    "an unconfirmed message whose remote reader disconnects",
    "a message moved by a remote reader",
    "a message that arrives as its remote reader closes the queue",
    "a remote move of a message that a transaction has locked",
    "a RemoteRead receive that is cancelled",
    "a qm2qm receive that is cancelled",
    "a remote call that its client cancels",
    "a remote call that times out",
    "a remote call whose connection is lost",
    "a remote reader that binds to an association that no longer exists",
    "a remote reader that crashes",
    "a remote reader that does not bind in time",
    "a remote reader that loses one of two connections",
    "a remote reader that opens a queue exclusively",
    "a second connection of a remote reader",
    "a queue that is opened over qmcomm, but not read",
    "a transaction of a remote reader that times out",
    # Bulk clients.
    "a stable number held back by locked or uncommitted messages",
    "an answer that reports why messages are held back",
    "a range that is read in several frames",
    "messages of a range that are removed",
    "a bulk reader whose queue was deleted and created again",
    "a part that is processed",
    "a part that is requested again",
    "a claimed part that survives a restart",
    "a claim whose lease expires before any commit",
    "a claim on a queue that is open exclusively",
    "a claim request with an outdated part number",
    "a finished claim that is deleted to make room for a new one",
    "a claim that exceeds the maximum number of claims",
    "a claim that is still in use when its deletion is requested",
    "a claim that is deleted on request",
    "a reader whose claim was taken with a later term",
    "a reader that continues after its lease expired",
    "a reader that reports a lost part as processed",
    "a second reader of a claim",
    "a claim that another query or run tries to read",
    "a new reader that tries to take the claim of a query",
    "a write of a run that has lost its claim",
    "a claim kept after its lease because only part of its batch is committed",
    "a claim whose lease expires after the commit of its batch",
    "a claim whose batch is committed after its lease expired",
    "a commit that also counts for the batch of another query",
    "a poison message moved to the poison subqueue",
    "a stage that survives a restart",
    "a stage whose lease expires",
    "a stage that does not fit into a quota",
    "too many stages",
    "a commit of several stages",
    "a commit that is repeated",
    "a commit that removes messages",
    "a commit that would remove a message that no longer exists",
    "a commit that would remove a locked message",
    "a commit of stages that no longer exist",
    "a commit of a batch older than all recorded batches",
    "a commit to a queue that was deleted",
    "a stage for a batch that another run has committed",
    "unused stages that a commit deletes",
    "a commit of stages that were created in another order",
    "a commit that is delivered in parts",
    "a commit that waits for room in a queue",
    "a delivery that continues after a restart",
    "a committed message whose queue no longer exists",
    "a message that expires while it is staged",
    "a batch of several writes",
    "a run that repeats one of several writes",
    "a second commit of a batch with different contents",
    "a batch that is also written to another destination",
)

_SEVERAL_HOSTS: Final = (
    "a damaged message set aside",
    "a full session window",
    "a peer that exceeds the window",
    "connections that take turns",
    "a session closed because nothing was acknowledged",
    "a session closed because it was idle",
    "a session that was not set up in time",
    "a session closed because all its numbers were used",
    "a session closed because a quota was exceeded",
    "a ping that was not answered",
    "a connection that failed",
    "a connection to an alternative next hop",
    "an acknowledgment in the session header of a message",
    "a message that is sent again",
    "a discarded duplicate",
    "an undetectable duplicate",
    "a transactional message that arrived out of order",
    "a message that skips a gap in its sequence",
    "transactional messages that are sent again",
    "transactional messages that are sent again more than once",
    "a sequence that ended",
    "an OrderAck lost because of a crash",
    "a FinalAck that arrives after a restart of the source host",
    "a message relayed by a third queue manager",
    "a transactional message relayed by a third queue manager",
    "a message that expired during transfer",
    "a message that expired at its source, but also arrived",
    "a message that was rejected",
    "a positive acknowledgment over the network",
    "a negative acknowledgment over the network",
    "a queue that was paused",
    "an express message lost because of a restart",
    "a receive whose answer was lost because of a crash",
    # Keys and certificates.
    "a message that waited for an encryption key",
    "a message for a destination with unknown keys",
    "a message decrypted with a retired key",
    "a message refused after the grace period of its key",
    "a session closed because a key desk failed",
    "a message that arrived before its certificate was registered",
    "a message refused because it is unsigned",
    "a message refused because its certificate has expired",
    "a message refused because its certificate was removed",
)

# Marks of strangers, and of changes of honest hosts.
FAULT_MARKS: Final[dict[Fault, tuple[str, ...]]] = {
    Fault.FORGED_ACKS: (
        "an OrderAck from an attacker for a message that was sent",
        "an OrderAck from an attacker for a message that was not sent",
        "a FinalAck from an attacker for a message that was sent",
        "a FinalAck from an attacker for a message that was not sent",
        "an acknowledgment from an attacker for a nonexistent message",
    ),
    Fault.INSIDERS: ("a FinalAck from an attacker with an admitted address for a message that was not sent",),
    Fault.REFLECTED_ACKS: ("a message from an attacker in the sequence of a host",),
    Fault.FAR_SEQUENCES: ("a forged sequence years in the future",),
    Fault.NEAR_SEQUENCES: ("a forged sequence a minute in the future",),
    Fault.NEW_SEQUENCES: ("an attacker's new sequence",),
    Fault.IDENTIFIERS: ("a flood of different messages",),
    Fault.FLOODS: ("a flood of copies",),
    Fault.ADMINISTRATION: ("an administration queue in an attacker's message",),
    Fault.THEFT: ("an attacker that waits to intercept acknowledgments",),
    Fault.TURNS: ("a host that switches to its other address",),
    Fault.MOVES: ("a host that moves to a new address",),
    Fault.REROUTES: ("a route that has changed",),
}

# Reasons in the log that are marks.
ENDS: Final = {
    "the other side does not acknowledge messages": "a session closed because nothing was acknowledged",
    "the session was idle": "a session closed because it was idle",
    "the session did not open in time": "a session that was not set up in time",
    "the session has used up its sequence numbers": "a session closed because all its numbers were used",
    "the messages do not fit into the quota": "a session closed because a quota was exceeded",
    "the host does not answer the ping, or refuses sessions": "a ping that was not answered",
}


class Marks:
    """Counts of how often each mark was reached in simulations of this number of hosts."""

    __slots__ = ("counts",)

    def __init__(self, nodes: int = 1) -> None:
        marks = _ONE_HOST if nodes == 1 else _SEVERAL_HOSTS + _of_faults()
        self.counts: Final = dict.fromkeys(_EVERYWHERE + marks, 0)

    def sometimes(self, name: str) -> None:
        self.counts[name] += 1

    @property
    def missing(self) -> list[str]:
        return [name for name, count in self.counts.items() if not count]


def _of_faults() -> tuple[str, ...]:
    """The marks of the faults that simulations may have."""
    return tuple(mark for fault, marks in FAULT_MARKS.items() if SWITCHED_ON[fault] for mark in marks)
