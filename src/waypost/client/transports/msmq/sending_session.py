"""One session with a host, and the messages to send over it. It has no socket and no clock.

It respects the window and the numbers of the session: a session that has used up its numbers carries no more messages,
and another has to follow it (readings MQQB 3.27).
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from waypost.clock import Now
from waypost.timers import Timers
from waypost.transfer.handshake import Initiator
from waypost.transfer.session import Received, Role, Sent, Session, SessionState
from waypost.transfer.settings import TransferSettings
from waypost.transfer.statistics import Statistics
from waypost.wire.property_values import OperatingSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Delivery:
    """Packets of one send. `sent` and `acknowledged` are places of packets among them.

    `ended` is called when all are acknowledged, or when the session has ended.
    """

    __slots__ = ("acknowledged", "count", "ended", "is_abandoned", "is_recoverable", "packets", "sent")

    def __init__(self, count: int, *, is_recoverable: bool) -> None:
        self.count: Final = count
        self.is_recoverable: Final = is_recoverable
        # Set before it is delivered.
        self.packets: Sequence[bytes] = ()
        self.sent: Final[set[int]] = set()
        self.acknowledged: Final[set[int]] = set()
        # The caller no longer waits.
        self.is_abandoned = False
        self.ended: Callable[[], None] = lambda: None

    @property
    def is_done(self) -> bool:
        return len(self.acknowledged) == self.count


class SendingSession:
    """A session with a host. The owner writes the bytes of `take_output` after every call."""

    __slots__ = ("_deliveries", "_session", "_timers", "_waiting")

    def __init__(self, identifier: bytes, host: str, now: Now) -> None:
        self._timers: Final = Timers()
        self._session: Final = Session(
            Role.INITIATOR,
            1,
            host,
            identity=Initiator(identifier, OperatingSystem.MSMQ_OS_NTS),
            settings=TransferSettings(),
            timers=self._timers,
            on_timer=Session.expired,
            statistics=Statistics(),
            now=now,
        )
        self._deliveries: dict[Delivery, None] = {}
        self._waiting: deque[tuple[Delivery, int]] = deque()

    @property
    def is_open(self) -> bool:
        return self._session.state is SessionState.OPEN

    @property
    def is_closed(self) -> bool:
        return self._session.state is SessionState.CLOSED

    @property
    def is_used_up(self) -> bool:
        return self._session.wants_recycling

    @property
    def was_refused(self) -> bool:
        return self._session.was_refused

    @property
    def error(self) -> str:
        """The reason why it is closed."""
        return self._session.error or ""

    @property
    def host_guid(self) -> bytes:
        """The GUID of the host's queue manager, once the session is open."""
        return self._session.remote_qm_guid

    def take_output(self) -> bytes:
        return self._session.take_output()

    def deliver(self, delivery: Delivery, now: Now) -> None:
        """Send the packets that are not acknowledged yet."""
        self._deliveries[delivery] = None
        self._waiting += [
            (delivery, place) for place in range(len(delivery.packets)) if place not in delivery.acknowledged
        ]
        self._pump(now)

    def connected(self, now: Now) -> None:
        self._session.connected(now)

    def data_received(self, data: bytes, now: Now) -> None:
        """Read bytes of the host. Malformed bytes close the session and raise nothing; see `is_closed`."""
        received = self._session.data_received(data, now)
        if self._session.just_opened:
            self._session.just_opened = False
            # MS-MQQB 3.1.7.13: the host has nothing to send here. With so small a window it also acknowledges
            # immediately (readings MQQB 3.14), and not by its timer.
            self._session.pause(now)
        self._take(received, now)
        # Take out acknowledged packets before reading more.
        while self._session.go_on(now):
            self._take(self._session.data_received(b"", now), now)

    def lost(self, reason: str) -> None:
        """End the session: the connection is lost, or the owner has closed it."""
        self._session.close(reason)
        self._end_if_closed()

    def pause_writing(self) -> None:
        self._session.transport_paused = True

    def resume_writing(self, now: Now) -> None:
        self._session.transport_paused = False
        self._pump(now)

    def tick(self, now: Now) -> None:
        self._timers.fire(now)
        self._end_if_closed()

    def next_deadline(self) -> float | None:
        return self._timers.earliest()

    def _take(self, received: Received, now: Now) -> None:
        # No queue takes messages of the host. They are acknowledged, or they would come again and again.
        self._session.stored([each.recoverable_number for each in received.messages if each.recoverable_number], now)
        for sent in received.acknowledged:
            delivery: Delivery = sent.owner
            delivery.acknowledged.add(sent.lookup_id)
            if delivery.is_done:
                self._deliveries.pop(delivery, None)
                delivery.ended()
        self._end_if_closed()
        self._pump(now)

    def _pump(self, now: Now) -> None:
        session, waiting = self._session, self._waiting
        while waiting and session.can_send:
            delivery, place = waiting.popleft()
            if not delivery.is_abandoned:
                delivery.sent.add(place)
                sent = Sent(delivery, place, None, is_transactional=False)
                session.send(delivery.packets[place], sent, now, is_recoverable=delivery.is_recoverable)
        if session.wants_recycling and not session.in_flight():
            self.lost("has used all message numbers of the session")

    def _end_if_closed(self) -> None:
        if self.is_closed:
            self._waiting.clear()
            while self._deliveries:
                self._deliveries.popitem()[0].ended()
