"""The rare branches of transfer that many networked simulations together must reach."""

from typing import Final

from waypost.sim.net.hostility import SWITCHED_ON, Fault

NET_SOMETIMES: Final = (
    "a crash between durable and reported",
    "a crash with batches that are not durable",
    "a crash right after an answer",
    "a clean stop",
    "a disk full with pending batches",
    "a damaged message set aside",
    "a wall clock that went back",
    "a window that is full",
    "a peer beyond the window",
    "connections that take turns",
    "a session closed because nothing was acknowledged",
    "a session closed because it was idle",
    "a session that was not set up in time",
    "a session recycled",
    "a session refused because there is no room",
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
    "a dead-letter message of a transaction",
    "a positive acknowledgment over the network",
    "a negative acknowledgment over the network",
    "a queue that was paused",
    "an express message lost in a restart",
    "a receive lost in a crash",
)

# Reasons of the log that are marks.
ENDS: Final = {
    "the other side does not acknowledge what was sent": "a session closed because nothing was acknowledged",
    "the session was idle": "a session closed because it was idle",
    "the session was not set up in time": "a session that was not set up in time",
    "the numbers of the session are used up": "a session recycled",
    "there is no room for its messages": "a session refused because there is no room",
    "the host does not answer a ping, or would refuse a session": "a ping that was not answered",
}

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


def net_sometimes() -> tuple[str, ...]:
    """With what the faults lead to that simulations may have."""
    return *NET_SOMETIMES, *(mark for fault, marks in FAULT_MARKS.items() if SWITCHED_ON[fault] for mark in marks)
