"""How one outgoing queue comes to a session: MS-MQQB 3.1.1.1.1.1, 3.1.5.2, 3.1.5.9 and 3.1.6.1.

A link finds out where its messages go next, tries the addresses one after the other, and waits when none answers. Its
messages may also go over a session that is open with the same queue manager already (MS-MQQB 1.3.5.1). Who drives it
asks the outside for addresses and connections.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, Protocol

from waypost.guid import NULL_GUID
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


class LinkTimer(Enum):
    """MS-MQQB 3.1.2.3 and 3.1.2.6."""

    RETRY_CONNECT = auto()
    TRANSACTIONAL_ACK_WAIT = auto()


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
    """`queue` is the outgoing queue, OutgoingQueueReference of the session; `peer` is the GUID of the queue manager
    behind it where that is known by other means than its name. `is_for_acks`: transactional acknowledgments go here.
    """

    queue: Any
    outbox: Outbox
    sequence: TxOutgoingSequence
    is_for_acks: bool = False
    state: LinkState = LinkState.IDLE
    peer: bytes = NULL_GUID
    next_hops: list[NextHop] = field(default_factory=list)
    next_hop_indexer: int = 0
    # The hops whose addresses are still asked for.
    unresolved: list[Any] = field(default_factory=list)
    # The session that is being opened for this link, or that carries its messages.
    session: Session | None = None
    # The monotonic time of the next attempt, and why the last one came to nothing.
    next_retry: float | None = None
    last_error: str = ""
    # MS-MQQB 3.1.5.2.2: no ping precedes what the Session Retry Connect Timer begins.
    is_retrying: bool = False

    def go(self, event: LinkEvent) -> None:
        self.state = LINK.get((self.state, event), self.state)

    @property
    def next_hop(self) -> NextHop | None:
        """The NextHop that NextHopIndexer references."""
        if self.next_hop_indexer < len(self.next_hops):
            return self.next_hops[self.next_hop_indexer]
        return None

    @property
    def is_open(self) -> bool:
        return self.state is LinkState.OPEN

    def leave_session(self) -> None:
        """The session is over: whatever was sent on it and is still in the queue is sent again on the next."""
        self.session = None
        self.outbox.start_again()
