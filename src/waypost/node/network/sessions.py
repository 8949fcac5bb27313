"""The sessions of one queue manager and their connections: MS-MQQB 3.1.1.1 and 3.1.5.9.

The output of a session is taken at the end of the operation.
"""

from collections import Counter
from typing import Final, Protocol

from waypost.clock import Now
from waypost.core.outgoing import Transport
from waypost.core.queue_manager import QueueManager
from waypost.guid import NULL_GUID
from waypost.limits import MAX_IDENTIFIER_CONFLICTS
from waypost.node.effects import Close, Write
from waypost.node.kernel import Kernel
from waypost.peers import peer_of
from waypost.transfer.handshake import Initiator, PingUse
from waypost.transfer.session import Role, Session, SessionState, SessionTimer
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire.internal_packets import EstablishConnection
from waypost.wire.property_values import OperatingSystem


class SessionEnds(Protocol):
    """Receives the ends of sessions."""

    def closing(self, session: Session) -> None:
        """The connection of the session is about to close."""

    def closed(self, session: Session, now: Now) -> None:
        """The session has ended and writes nothing more."""


class Sessions:
    """The sessions of one queue manager. `statistics` counts the work of all of them."""

    __slots__ = (
        "_ends",
        "_kernel",
        "_last_connection",
        "_manager",
        "_open",
        "by_connection",
        "initiator",
        "kept_bytes",
        "settings",
        "statistics",
        "touched",
        "twins",
    )

    def __init__(self, kernel: Kernel, manager: QueueManager, settings: TransferSettings, ends: SessionEnds) -> None:
        self._kernel: Final = kernel
        self._manager: Final = manager
        self._ends: Final = ends
        self.settings: Final = settings
        self.statistics: Final = Statistics()
        self.initiator: Final = Initiator(manager.identity.identifier, OperatingSystem.MSMQ_OS_NTS)
        self.by_connection: dict[int, Session] = {}
        self._open: dict[Session, None] = {}
        self._last_connection = 0
        # Sessions that may have something to write, in the order in which they were touched.
        self.touched: dict[Session, None] = {}
        # Number of bytes of unfinished packets and of messages that wait for a check, on all sessions.
        self.kept_bytes = 0
        # The addresses at which a queue manager with our identifier was seen, with the times.
        self.twins: dict[str, int] = {}

    @property
    def all(self) -> list[Session]:
        return list(self.by_connection.values())

    @property
    def open(self) -> list[Session]:
        return list(self._open)

    @property
    def accepts(self) -> bool:
        """Whether messages of others are accepted now."""
        return self._manager.accepts_transfer(Transport.BINARY)

    @property
    def grants(self) -> bool:
        """Whether another host that asked for a session now would get it (MS-MQQB 3.1.7.7 and its product note)."""
        return self.accepts and not self._is_full

    def accept(self, address: str, now: Now) -> Session:
        """Start a session for a host that has connected."""
        return self._session(Role.ACCEPTOR, address, now)

    def connect(self, address: str, expected_guid: bytes, now: Now, *, was_pinged: bool) -> Session:
        """Start a session to this address; the caller opens its connection."""
        ping = PingUse.SENT if was_pinged else PingUse.NOT_SENT
        return self._session(Role.INITIATOR, address, now, expected_guid, ping)

    def opened(self, session: Session) -> None:
        self._open[session] = None

    def write(self, session: Session) -> None:
        data = session.take_output()
        if data:
            self._kernel.emit(Write(session.connection, data))

    def close(self, session: Session, reason: str, now: Now) -> None:
        """MS-MQQB 3.1.5.9."""
        session.close(reason)
        self.forget(session, now)

    def forget(self, session: Session, now: Now) -> None:
        """Forget a closed session: its connection closes, and its links look for another."""
        if self.by_connection.pop(session.connection, None) is None:
            return
        self.kept_bytes -= session.inlet.kept_bytes
        self.write(session)
        self.touched.pop(session, None)
        self._ends.closing(session)
        self._kernel.emit(Close(session.connection))
        if session in self._open:
            del self._open[session]
            self._kernel.notice("session closed", peer=session.remote_qm_address, reason=session.error)
        elif session.role is Role.ACCEPTOR:
            # For one that was begun here, its queue reports the failure.
            self._kernel.notice("session failed", peer=session.remote_qm_address, reason=session.error)
        if session.remote_qm_guid == self.initiator.identifier:
            hint = "another computer uses the identifier of this queue manager"
            self._kernel.notice("identifier conflict", peer=session.remote_qm_address, hint=hint)
            self.twins[session.remote_qm_address] = int(now.wall)
            if len(self.twins) > MAX_IDENTIFIER_CONFLICTS:
                del self.twins[next(iter(self.twins))]
        self._ends.closed(session, now)

    def set_untaken(self, session: Session, count: int, size: int) -> None:
        """Note how many messages of a session, with how many bytes, are received and not taken yet."""
        session.set_untaken(count)
        self.kept_bytes += size - session.inlet.untaken_bytes
        session.inlet.untaken_bytes = size

    def largest(self) -> Session:
        """The session with the most kept bytes, of the address with the most."""
        held: Counter[str] = Counter()
        for session in self.by_connection.values():
            held[peer_of(session.remote_qm_address)] += session.inlet.kept_bytes
        most = max(held, key=lambda peer: held[peer])
        return max(
            (session for session in self.by_connection.values() if peer_of(session.remote_qm_address) == most),
            key=lambda session: session.inlet.kept_bytes,
        )

    def _session(
        self,
        role: Role,
        address: str,
        now: Now,
        expected_guid: bytes = NULL_GUID,
        ping: PingUse = PingUse.NOT_SENT,
    ) -> Session:
        self._last_connection += 1
        session = Session(
            role,
            self._last_connection,
            address,
            identity=self.initiator,
            settings=self.settings,
            timers=self._kernel.timers,
            on_timer=self._timer_expired,
            statistics=self.statistics,
            now=now,
            expected_guid=expected_guid,
            ping=ping,
            accept_policy=self._refusal,
        )
        self.by_connection[session.connection] = session
        return session

    def _timer_expired(self, session: Session, timer: SessionTimer, now: Now) -> None:
        session.expired(timer, now)
        self.touched[session] = None
        if session.state is SessionState.CLOSED:
            self.forget(session, now)

    def _refusal(self, _request: EstablishConnection) -> str | None:
        """The reason not to grant a session, or None (MS-MQQB 2.2.1, 3.1.5.3.1)."""
        if self._is_full:
            return "the limit of sessions is reached"
        return None if self.accepts else "no messages are accepted now"

    @property
    def _is_full(self) -> bool:
        limit = self.settings.max_sessions
        return len(self.by_connection) >= limit and self._inbound() >= limit

    def _inbound(self) -> int:
        """Number of sessions granted to others."""
        return sum(
            session.role is Role.ACCEPTOR and session.state is not SessionState.WAITING_EC_MSG
            for session in self.by_connection.values()
        )
