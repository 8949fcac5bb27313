"""The timers of one session: MS-MQQB 3.1.2.1, 3.1.2.2, 3.1.2.4 and 3.1.2.5."""

from enum import Enum, auto
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from waypost.clock import Now
from waypost.timers import Timers
from waypost.transfer.settings import TransferSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from waypost.transfer.session import Session

# MS-MQQB 3.1.7.11: an acknowledgment rides on a message when more than this part of its timer has elapsed.
_PIGGYBACK_PART: Final = 0.75


class SessionTimer(Enum):
    INITIALIZATION = auto()
    CLEANUP = auto()
    ACK_WAIT = auto()
    ACK_SEND = auto()


# Called when a timer of a session has expired: `Session.expired`, and the work of its owner.
Expired: TypeAlias = "Callable[[Session, SessionTimer, Now], None]"


class SessionTimers:
    """Starts and stops the timers of one session among those of all.

    The two that every message asks about are kept here, because `Timers` is slower.
    """

    __slots__ = (
        "_ack_wait_left",
        "_handlers",
        "_is_clock_stopped",
        "_keys",
        "_session",
        "_settings",
        "_timers",
        "is_ack_send_running",
        "is_ack_wait_running",
        "piggyback_from",
    )

    def __init__(
        self, session: "Session", timers: Timers, expired: "Expired", settings: TransferSettings
    ) -> None:  # fmt: skip
        self._session = session
        self._timers = timers
        self._keys = {timer: (session, timer) for timer in SessionTimer}
        self._handlers = {timer: partial(expired, session, timer) for timer in SessionTimer}
        self._settings = settings
        self.is_ack_wait_running = False
        self.is_ack_send_running = False
        self.piggyback_from = inf
        # The rest of the Ack Wait Timer while its clock stands still.
        self._is_clock_stopped = False
        self._ack_wait_left: float | None = None

    def start_initialization(self, now: Now) -> None:
        """MS-MQQB 3.1.2.1."""
        delay = self._settings.session_init_timeout_s + 2 * self._settings.round_trip_delay_ms / 1000
        self._start(SessionTimer.INITIALIZATION, now.monotonic + delay)

    def stop_initialization(self) -> None:
        self._timers.stop(self._keys[SessionTimer.INITIALIZATION])

    def start_cleanup(self, now: Now) -> None:
        """MS-MQQB 3.1.2.2."""
        self._start(SessionTimer.CLEANUP, now.monotonic + self._settings.idle_timeout_s)

    def start_ack_wait(self, now: Now) -> None:
        """MS-MQQB 3.1.2.4."""
        self.is_ack_wait_running = True
        session = self._session
        delay = session.ack_wait_timeout_ms * (2 if session.is_direct else 1) / 1000
        if self._is_clock_stopped:
            self._ack_wait_left = delay
        else:
            self._start(SessionTimer.ACK_WAIT, now.monotonic + delay)

    def stop_ack_wait_clock(self, now: Now) -> None:
        """Stop the Ack Wait Timer: acknowledgments may have come that were not read yet."""
        key = self._keys[SessionTimer.ACK_WAIT]
        deadline = self._timers.deadline(key)
        self._is_clock_stopped = True
        if deadline is not None:
            self._ack_wait_left = max(deadline - now.monotonic, 0.0)
            self._timers.stop(key)

    def start_ack_wait_clock(self, now: Now) -> None:
        """Continue the Ack Wait Timer."""
        left, self._ack_wait_left = self._ack_wait_left, None
        self._is_clock_stopped = False
        if left is not None:
            self._start(SessionTimer.ACK_WAIT, now.monotonic + left)

    def start_ack_send(self, now: Now) -> None:
        """MS-MQQB 3.1.2.5 and 3.1.5.8.2."""
        self._start_ack_send(self._session.ack_wait_timeout_ms / 2, now)

    def start_recoverable_ack_send(self, now: Now) -> None:
        """MS-MQQB 3.1.5.8.7. readings MQQB 7.4: a slow handshake does not delay it beyond any other acknowledgment."""
        session = self._session
        self._start_ack_send(min(session.recoverable_ack_send_timeout_ms, session.ack_wait_timeout_ms / 2), now)

    def _start_ack_send(self, delay_ms: float, now: Now) -> None:
        self.is_ack_send_running = True
        self.piggyback_from = now.monotonic + _PIGGYBACK_PART * delay_ms / 1000
        timer = SessionTimer.ACK_SEND
        self._timers.start(self._keys[timer], now.monotonic + delay_ms / 1000, self._handlers[timer])

    def stop_ack_send(self) -> None:
        self.is_ack_send_running = False
        self._timers.stop(self._keys[SessionTimer.ACK_SEND])

    def stop_all(self) -> None:
        self._ack_wait_left = None
        for key in self._keys.values():
            self._timers.stop(key)

    def _start(self, timer: SessionTimer, deadline: float) -> None:
        self._timers.start(self._keys[timer], deadline, self._handlers[timer])
