"""How one outgoing queue comes to a session: MS-MQQB 3.1.1.1.1.1, 3.1.5.2, 3.1.5.9 and 3.1.6.1.

A link finds out where its messages go next, tries the addresses one after the other, and waits when none answers. Its
messages may also go over a session that is open with the same queue manager already (MS-MQQB 1.3.5.1). Who drives it
asks the outside for addresses and connections.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any, Final, Protocol

from waypost.transfer.outbox import Outbox
from waypost.transfer.sequences import TxOutgoingSequence
from waypost.transfer.session import Session


class LinkState(Enum):
    """What a link does now. IDLE: there is nothing to send."""

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
# A pair that is absent changes nothing: it comes too late.
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
    """MS-MQQB 3.1.1.3.1.3: one address of one queue manager that takes messages on. A direct name knows no GUID."""

    @property
    def qm_guid(self) -> bytes: ...

    @property
    def host_name(self) -> str: ...

    @property
    def address(self) -> str: ...


@dataclass(slots=True, eq=False)
class Link:
    """`queue` is the outgoing queue, OutgoingQueueReference of the session.

    `peer` is the queue manager whose messages of transactions are acknowledged here, None for other queues.
    """

    queue: Any
    outbox: Outbox
    sequence: TxOutgoingSequence
    peer: bytes | None = None
    state: LinkState = LinkState.IDLE
    next_hops: list[NextHop] = field(default_factory=list)
    next_hop_indexer: int = 0
    # The hops whose addresses are still asked for.
    unresolved: list[Any] = field(default_factory=list)
    # The session that is being opened for this link, or that carries its messages.
    session: Session | None = None
    # The monotonic time of the next attempt, and why the last one came to nothing.
    next_retry: float | None = None
    last_error: str = ""
    # How often in a row no session came to be.
    failures: int = 0
    # The monotonic times at which the last connection was asked for, and at which its host was last heard.
    dialed: float = -inf
    heard: float = -inf
    # The monotonic time since which no host of it has answered.
    unreached: float | None = None
    # The address and the GUID of the last session.
    last_host: tuple[str, bytes] | tuple[()] = ()
    # The monotonic time from which the wait for the next attempt counts, if it is not now.
    waits_from: float | None = None
    # Where the messages came from whose acknowledgments wait here, the last ones: hops of which the address is known.
    origins: list[Any] = field(default_factory=list)
    # MS-MQQB 3.1.5.2.2: no ping precedes what the Session Retry Connect Timer begins.
    is_retrying: bool = False
    # The session on which transactional messages were sent last, and what is known of the destination.
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
        """The session is over: whatever was sent on it and is still in the queue is sent again on the next."""
        self.session = None
        self.outbox.start_again()


class ReadyLinks:
    """The links of one session that have something to send, in turn. Acknowledgments go before everything else."""

    __slots__ = ("_acks", "_others")

    def __init__(self) -> None:
        self._acks: dict[Link, None] = {}
        self._others: dict[Link, None] = {}

    def add(self, link: Link) -> None:
        """At the end, unless it waits for its turn already."""
        (self._acks if link.is_for_acks else self._others)[link] = None

    def remove(self, link: Link) -> None:
        self._acks.pop(link, None)
        self._others.pop(link, None)

    def first(self) -> Link | None:
        return next(iter(self._acks), None) or next(iter(self._others), None)
