"""One read of a queue of a host, from its call to its end.

A receive has two phases. The host locks the message and sends it; the reader confirms it, and the host removes it. Only
then the caller gets it. If the caller is cancelled before, the reader reports that to the host, which gives the message
to others.
"""

import time
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from math import ceil
from typing import TYPE_CHECKING, Final

from waypost.client.transports.msmq.reading_session import ReadingSession
from waypost.core.queues import AccessType
from waypost.remote.client.conversations import Ask, Conversation
from waypost.remote.client.reads import ReadRequest, Received, RemoteQueue
from waypost.remote.interfaces import qm2qm, remote_read
from waypost.remote.interfaces.remote_read import ReceiveAction, RemoteReadAck
from waypost.wire.codec import INFINITE

if TYPE_CHECKING:
    import asyncio

_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Handle:
    """An open queue, and its session."""

    session: ReadingSession
    queue: RemoteQueue


class Phase(Enum):
    """Phase of a read: on its way to the host, waiting there, and confirming the message."""

    OPENING = auto()
    WAITING = auto()
    ENDING = auto()


@dataclass(slots=True, eq=False)
class Reading:
    """One read. `deadline` is on the monotonic clock, None without a limit. `cursor` is 0 for a read without one.

    The caller waits for `result`, which may be done before the read ends.
    """

    action: ReceiveAction
    deadline: float | None
    result: "asyncio.Future[Received]"
    lookup_id: int = 0
    cursor: int = 0
    phase: Phase = Phase.OPENING
    # The caller is gone, and the reader has reported that to the host.
    is_abandoned: bool = False
    is_rejected: bool = False
    # State of the current attempt.
    handle: Handle | None = None
    request: ReadRequest = field(default_factory=ReadRequest)
    task: "asyncio.Task[None] | None" = None

    @property
    def access(self) -> AccessType:
        return AccessType.PEEK if self.action.is_peek else AccessType.RECEIVE

    @property
    def takes_any(self) -> bool:
        """True if the read may get any message."""
        return self.action is ReceiveAction.MQ_ACTION_RECEIVE and not self.cursor

    def begin(self, handle: Handle) -> Conversation[Received]:
        self.phase = Phase.OPENING
        self.handle = handle
        self.request = ReadRequest(self.action, self._timeout_ms(), self.cursor, self.lookup_id)
        return handle.queue.read(self.request)

    def prepare(self, session: ReadingSession, ask: Ask) -> tuple[Ask, float | None]:
        """Prepare a call of the read: with the time that the host may wait, and whether the caller is still there."""
        ask, limit_s = session.usual(ask)
        match ask.request:
            case remote_read.EndReceiveRequest() | qm2qm.EndReceiveRequest():
                self.phase = Phase.ENDING
                self.is_rejected = self.is_abandoned
                if self.is_rejected:
                    ask = replace(ask, request=replace(ask.request, ack=RemoteReadAck.RR_NACK))
            case (
                remote_read.StartReceiveRequest()
                | qm2qm.StartReceiveRequest()
                | qm2qm.StartReceive2Request()
                | qm2qm.StartReceiveByLookupIdRequest()
            ):
                self.phase = Phase.WAITING
                timeout_ms = self.request.timeout_ms
                limit_s = None if timeout_ms == INFINITE or limit_s is None else limit_s + timeout_ms / 1000
        return ask, limit_s

    def _timeout_ms(self) -> int:
        if self.deadline is None:
            return INFINITE
        # Longer times do not fit 32 bits.
        return min(max(ceil((self.deadline - time.monotonic()) * 1000), 0), INFINITE)


class Patience:
    """Limit of the time that a host may be unreachable during a read. Call `wait` after each failure."""

    __slots__ = ("_deadline", "_last", "_pause", "_seconds", "_until")

    def __init__(self, seconds: float, deadline: float | None) -> None:
        self._seconds: Final = seconds
        self._deadline: Final = deadline
        self._last: float | None = None
        self._until = 0.0
        self._pause = 0.0

    @property
    def is_tried(self) -> bool:
        return self._last is not None

    def wait(self) -> float | None:
        """Seconds until the next attempt, 0 for the first; None if no attempt follows."""
        now, last = time.monotonic(), self._last
        self._last = now
        if last is None or now - last > self._seconds:
            until = now + self._seconds
            self._until = until if self._deadline is None else min(until, self._deadline)
            self._pause = 0.0
            return 0.0
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE_S), _LAST_PAUSE_S)
        return self._pause if now + self._pause <= self._until else None
