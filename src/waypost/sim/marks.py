"""`sometimes`: rare branches that many seeds together must reach; otherwise the simulation proves too little."""

from typing import Final

from waypost.sim.net.hostility import SWITCHED_ON, Fault

_EVERYWHERE: Final = (
    "a crash between durable and reported",
    "a crash with batches that are not durable",
    "a crash right after an answer",
    "a clean stop",
    "a disk full with pending batches",
    "a dead-letter message of a transaction",
    "a wall clock that went back",
)

_ONE_HOST: Final = (
    "an answer held back for a read of a pending message",
    "an answer that waited for its batch",
    "a crash while clients wait",
    "an operation refused because the disk is full",
    "an operation refused because the disk is nearly full",
    "a purge of a locked message",
    "a purged message that its lock kept over a restart",
    "a purge in parts",
    "expired messages that are taken away in parts",
    "a queue deleted with messages in transactions",
    "a queue deleted under a waiting reader",
    "a transaction recovered in doubt",
    "a transaction in doubt committed",
    "a transaction in doubt aborted",
    "a coordinator that asks again",
    "a commit over several queues",
    "an abort that returns a message",
    "an abort that serves a waiting reader",
    "a message that expires in its queue",
    "a message that expires while it is locked",
    "a message that expires while the host is down",
    "a quota of a queue reached",
    "the quota of the host reached",
    "a copy in a journal",
    "a copy that no journal has room for",
    "a copy in the source journal",
    "a dead-letter message",
    "a positive acknowledgment",
    "a negative acknowledgment",
    "a peek and a receive served by one message",
    "a wait that ends with its transaction gone",
    "a wait that times out",
    "a wait that is cancelled",
    "a cursor on a message that is gone",
    "a cursor that waits at the end",
    "a locked message shown to a peek",
    "a message moved in a transaction",
    "a subqueue that is only looked into",
    "a move to a queue that was deleted",
    "a two-phase read taken back",
    "several messages sent in one go",
    "several messages received in one go",
    "several messages for one who has waited",
    # Remote readers.
    "a message that a remote reader ends",
    "a message that a remote reader gives back",
    "a message that a remote reader did not end in time",
    "a message that a remote reader rejects",
    "a message that a reader of qm2qm ends",
    "a message whose remote reader is lost",
    "a message moved by a remote reader",
    "a message that comes as its remote reader leaves",
    "a remote move of a message that a transaction holds",
    "a remote read that is cancelled",
    "a read of qm2qm that is cancelled",
    "a remote call that its client cancels",
    "a remote call that takes too long",
    "a remote call whose connection is lost",
    "a remote reader that comes back too late",
    "a remote reader that dies",
    "a remote reader that does not bind in time",
    "a remote reader that loses one of two connections",
    "a remote reader that wants a queue for itself",
    "a second connection of a remote reader",
    "a queue of qmcomm that nobody begins to read",
    "a transaction of a remote reader that takes too long",
    # Bulk clients.
    "a stable number that something holds back",
    "a reader who is told what holds messages back",
    "a range that is read in several frames",
    "messages removed up to a number",
    "a bulk reader whose queue was created again",
    "a part that is processed",
    "a part that is claimed again",
    "a part of a claim that outlives a restart",
    "a claim whose lease ends",
    "a claim on a queue that somebody has for himself",
    "a claim that has gone on without its reader",
    "a finished claim that is forgotten for another one",
    "one claim too many",
    "a claim in use that somebody wants to forget",
    "a claim that is forgotten on request",
    "a reader whose claim a later start has taken",
    "a reader that comes back after its lease",
    "a reader that goes on behind what it has lost",
    "a second reader of a claim",
    "a claim that another query or run wants to read",
    "a new reader that wants the claim of a query",
    "a write of a run that has lost its claim",
    "a claim that waits for its query beyond its lease",
    "a claim whose batch is committed when its lease ends",
    "a claim whose batch is committed after its lease",
    "a commit under another name than that of its reader",
    "a poisonous message that is put aside",
    "a stage that outlives a restart",
    "a stage whose lease ends",
    "a stage that a quota has no room for",
    "too many stages",
    "a commit of several stages",
    "a commit that is repeated",
    "a commit that removes messages",
    "a commit that would remove what is gone",
    "a commit that would remove what is held",
    "a commit of stages that are gone",
    "a commit of a batch that nobody remembers",
    "a commit into a queue that was deleted",
    "a stage for what another run has committed",
    "stages that a commit leaves over",
    "a commit of stages that were made in another order",
    "a commit that is delivered in parts",
    "a commit that waits for room",
    "a delivery that goes on after a restart",
    "a committed message whose queue is gone",
    "a message that expires while it is staged",
    "a batch of several writes",
    "a run that repeats one of several writes",
    "a second write of a batch",
    "a batch that is written to another destination too",
)

_SEVERAL_HOSTS: Final = (
    "a damaged message set aside",
    "a window that is full",
    "a peer beyond the window",
    "connections that take turns",
    "a session closed because nothing was acknowledged",
    "a session closed because it was idle",
    "a session that was not set up in time",
    "a session recycled",
    "a session refused for lack of room",
    "a ping that was not answered",
    "a connection that failed",
    "a second next hop that worked",
    "an acknowledgment that rode on a message",
    "a message on the wire again",
    "a duplicate discarded",
    "a duplicate that nobody could know",
    "a transactional message that came out of order",
    "a gap bridged",
    "messages of transactions sent again",
    "messages of transactions sent again after the second wait",
    "a sequence that ended",
    "an OrderAck lost in a crash",
    "a FinalAck after its sender had started again",
    "a message through a third queue manager",
    "a transactional message through a third queue manager",
    "a message that expired on its way",
    "a message that expired at its source and arrived",
    "a message that was rejected",
    "a positive acknowledgment over the network",
    "a negative acknowledgment over the network",
    "a queue that was paused",
    "an express message lost in a restart",
    "a receive lost in a crash",
    # Keys and certificates.
    "a message that waited for a key",
    "a message without a key",
    "a message decrypted with a retired key",
    "a message refused after the grace of its key",
    "a session closed by a failed key desk",
    "a message verified after a late registration",
    "an unsigned message refused by a queue",
    "an expired certificate refused",
    "a removed certificate refused",
)

# Marks of strangers, and of changes of honest hosts.
FAULT_MARKS: Final[dict[Fault, tuple[str, ...]]] = {
    Fault.FORGED_ACKS: (
        "an OrderAck of a stranger for a message that was sent",
        "an OrderAck of a stranger for a message that was not sent",
        "a FinalAck of a stranger for a message that was sent",
        "a FinalAck of a stranger for a message that was not sent",
        "an acknowledgment of a stranger for no message",
    ),
    Fault.INSIDERS: ("a FinalAck of an admitted stranger for a message that was not sent",),
    Fault.REFLECTED_ACKS: ("a message of a stranger in the sequence of a host",),
    Fault.FAR_SEQUENCES: ("a sequence of a stranger years ahead",),
    Fault.NEAR_SEQUENCES: ("a sequence of a stranger a minute ahead",),
    Fault.NEW_SEQUENCES: ("a new sequence of a stranger",),
    Fault.IDENTIFIERS: ("a flood of many messages",),
    Fault.FLOODS: ("a flood of one message",),
    Fault.ADMINISTRATION: ("an administration queue of a stranger",),
    Fault.THEFT: ("a stranger that waits for what is owed to others",),
    Fault.TURNS: ("a host that goes on from its other address",),
    Fault.MOVES: ("a host that has moved",),
    Fault.REROUTES: ("a way that has changed",),
}

# Reasons in the log that are marks.
ENDS: Final = {
    "the other side does not acknowledge messages": "a session closed because nothing was acknowledged",
    "the session was idle": "a session closed because it was idle",
    "the session did not open in time": "a session that was not set up in time",
    "all sequence numbers of the session are used": "a session recycled",
    "the messages do not fit into the quota": "a session refused for lack of room",
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
