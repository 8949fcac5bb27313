"""The link of one outgoing queue to a session: MS-MQQB 3.1.1.1.1.1, 3.1.5.2, 3.1.5.9 and 3.1.6.1.

A link finds the next hop of its messages, tries the addresses one after the other, and waits when none answers. Its
messages may also go over a session that is already open with the same queue manager (MS-MQQB 1.3.5.1). The owner of the
link looks up addresses and opens connections.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any, Final, Protocol

from waypost.transfer.outbox import Outbox
from waypost.transfer.sequences import TxOutgoingSequence
from waypost.transfer.session import Session


class LinkState(Enum):
    """State of a link. IDLE: it has nothing to send."""

    IDLE = auto()
    RESOLVING = auto()
    PINGING = auto()
    CONNECTING = auto()
    OPEN = auto()
    WAITING_RECONNECT = auto()


class LinkEvent(Enum):
    WANTED = auto()
    HOPS_FOUND = auto()
    PING_SENT = auto()
    ATTACHED = auto()
    FAILED = auto()
    GIVEN_UP = auto()
    NEXT_HOP = auto()


_State = LinkState
_Event = LinkEvent
# A missing pair changes nothing: the event comes too late.
LINK: Final[dict[tuple[LinkState, LinkEvent], LinkState]] = {
    (_State.IDLE, _Event.WANTED): _State.RESOLVING,
    (_State.WAITING_RECONNECT, _Event.WANTED): _State.RESOLVING,
    (_State.WAITING_RECONNECT, _Event.NEXT_HOP): _State.CONNECTING,
    (_State.RESOLVING, _Event.HOPS_FOUND): _State.CONNECTING,
    (_State.CONNECTING, _Event.PING_SENT): _State.PINGING,
    (_State.PINGING, _Event.HOPS_FOUND): _State.CONNECTING,
    **{(state, _Event.ATTACHED): _State.OPEN for state in _State},
    **{(state, _Event.FAILED): _State.WAITING_RECONNECT for state in _State},
    **{(state, _Event.GIVEN_UP): _State.IDLE for state in _State},
}


class NextHop(Protocol):
    """MS-MQQB 3.1.1.3.1.3: one address of one queue manager that takes messages on. A direct name has no GUID."""

    @property
    def qm_guid(self) -> bytes: ...

    @property
    def host_name(self) -> str: ...

    @property
    def address(self) -> str: ...


@dataclass(slots=True, eq=False)
class Link:
    """`queue` is the outgoing queue, OutgoingQueueReference of the session.

    `peer` is the queue manager that gets acknowledgments of its transactional messages; None for other queues.
    """

    queue: Any
    outbox: Outbox
    sequence: TxOutgoingSequence
    peer: bytes | None = None
    state: LinkState = LinkState.IDLE
    next_hops: list[NextHop] = field(default_factory=list)
    next_hop_indexer: int = 0
    # The hops with addresses to resolve.
    unresolved: list[Any] = field(default_factory=list)
    # The session that is being opened for this link, or that carries its messages.
    session: Session | None = None
    # The monotonic time of the next attempt, and the error of the last one.
    next_retry: float | None = None
    last_error: str = ""
    # Number of failed attempts in a row.
    failures: int = 0
    # The monotonic times of the last connection attempt, and of the last sign of life of its host.
    dialed: float = -inf
    heard: float = -inf
    # The monotonic time since which none of its hosts has answered.
    unreached: float | None = None
    # The address and the GUID of the last session.
    last_host: tuple[str, bytes] | tuple[()] = ()
    # The monotonic time from which the wait for the next attempt counts, if it is not now.
    waits_from: float | None = None
    # Origins of the messages with acknowledgments that wait here, the last ones: hops with known addresses.
    origins: list[Any] = field(default_factory=list)
    # MS-MQQB 3.1.5.2.2: an attempt of the Session Retry Connect Timer has no ping before it.
    is_retrying: bool = False
    # The session on which transactional messages were sent last, and the known facts about the destination.
    met: Session | None = None
    known: Any = None

    def go(self, event: LinkEvent) -> None:
        self.state = LINK.get((self.state, event), self.state)

    @property
    def next_hop(self) -> NextHop | None:
        """The NextHop that NextHopIndexer references."""
        if self.next_hop_indexer < len(self.next_hops):
            return self.next_hops[self.next_hop_indexer]
        return None

    @property
    def is_for_acks(self) -> bool:
        return self.peer is not None

    @property
    def is_open(self) -> bool:
        return self.state is LinkState.OPEN

    def leave_session(self) -> None:
        """Leave a session that has ended: messages that were sent on it and are still in the queue are sent again."""
        self.session = None
        self.outbox.start_again()


class ReadyLinks:
    """The links of one session that have something to send, in turn. Acknowledgments go before everything else."""

    __slots__ = ("_acks", "_others")

    def __init__(self) -> None:
        self._acks: dict[Link, None] = {}
        self._others: dict[Link, None] = {}

    def add(self, link: Link) -> None:
        """Add a link at the end, unless it waits for its turn already."""
        (self._acks if link.is_for_acks else self._others)[link] = None

    def remove(self, link: Link) -> None:
        self._acks.pop(link, None)
        self._others.pop(link, None)

    def first(self) -> Link | None:
        return next(iter(self._acks), None) or next(iter(self._others), None)
