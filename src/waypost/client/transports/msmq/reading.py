"""One read of a queue of a host, from its call to its end.

A message is received in two phases. The host locks it and sends it; when it is here, the host is told so and removes
it, and only then it is handed out. Whoever is cancelled before that is told to the host, which gives the message to
others.
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
    """A queue that is open, and the session that has it open."""

    session: ReadingSession
    queue: RemoteQueue


class Phase(Enum):
    """How far a read is: on its way to the host, held there, and told that its message has come."""

    OPENING = auto()
    WAITING = auto()
    ENDING = auto()


@dataclass(slots=True, eq=False)
class Reading:
    """`deadline` is on the monotonic clock, and None to wait for ever. `cursor` is 0 unless the read goes by one.

    `result` is what the caller waits for; it may be done before the read is.
    """

    action: ReceiveAction
    deadline: float | None
    result: "asyncio.Future[Received]"
    lookup_id: int = 0
    cursor: int = 0
    phase: Phase = Phase.OPENING
    # Nobody wants the message any more, and the host was told so.
    is_abandoned: bool = False
    is_rejected: bool = False
    # Of the attempt that is under way.
    handle: Handle | None = None
    request: ReadRequest = field(default_factory=ReadRequest)
    task: "asyncio.Task[None] | None" = None

    @property
    def access(self) -> AccessType:
        return AccessType.PEEK if self.action.is_peek else AccessType.RECEIVE

    @property
    def takes_any(self) -> bool:
        """Whether any message will do."""
        return self.action is ReceiveAction.MQ_ACTION_RECEIVE and not self.cursor

    def begin(self, handle: Handle) -> Conversation[Received]:
        self.phase = Phase.OPENING
        self.handle = handle
        self.request = ReadRequest(self.action, self._timeout_ms(), self.cursor, self.lookup_id)
        return handle.queue.read(self.request)

    def prepare(self, session: ReadingSession, ask: Ask) -> tuple[Ask, float | None]:
        """A call of the read: for how long the host may keep it, and whether the message is still wanted."""
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
        # What nobody lives to see the end of does not fit 32 bits.
        return min(max(ceil((self.deadline - time.monotonic()) * 1000), 0), INFINITE)


class Patience:
    """How long a host may be away while somebody waits for a message of it. `wait` is called whenever it fails."""

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
        """Seconds until the next attempt, at first none; None if there is no more."""
        now, last = time.monotonic(), self._last
        self._last = now
        if last is None or now - last > self._seconds:
            until = now + self._seconds
            self._until = until if self._deadline is None else min(until, self._deadline)
            self._pause = 0.0
            return 0.0
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE_S), _LAST_PAUSE_S)
        return self._pause if now + self._pause <= self._until else None
