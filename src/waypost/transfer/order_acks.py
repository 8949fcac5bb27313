"""The times of OrderAcks: the Order Ack Send Timer of MS-MQQB 3.1.1.6.2, 3.1.2.7 and 3.1.6.9.

There is one for each source queue manager, local queue and TimeStamp, as there is a sequence for each (readings
MQQB 3.18). Times are those of the monotonic clock.
"""

from collections.abc import Callable
from typing import Final

from waypost.clock import Now
from waypost.timers import Timers

# The GUID of the source queue manager with eight bytes for the name that it uses, and the number of the local queue.
SequenceKey = tuple[bytes, int]
# The same, with the TimeStamp of a sequence.
LineKey = tuple[bytes, int, int]

# Beyond this number of sequences, those at rest are forgotten.
_MANY: Final = 10_000


class OrderAcks:
    """The OrderAcks to send. Both times are in seconds."""

    __slots__ = ("_last_sent", "_maximum_delay", "_send", "_timeout", "_timers")

    def __init__(
        self,
        order_ack_timeout: float,
        maximum_order_ack_delay: float,
        timers: Timers,
        send: Callable[[LineKey, Now], None],
    ) -> None:
        """`send` is called with a sequence to acknowledge now."""
        self._timers: Final = timers
        self._send: Final = send
        self._timeout: Final = order_ack_timeout
        self._maximum_delay: Final = maximum_order_ack_delay
        # LastOrderAckSendTime. Before the first one it is the time of the first message.
        self._last_sent: dict[LineKey, float] = {}

    def received(self, key: LineKey, time: float) -> None:
        """Note a transactional message, accepted or not: steady traffic delays the OrderAck, up to a limit."""
        last_sent = self._last_sent.setdefault(key, time)
        if time - last_sent < self._maximum_delay or not self._timers.is_running((OrderAcks, key)):
            self._timers.start((OrderAcks, key), time + self._timeout, lambda now: self._due(key, now))

    def _due(self, key: LineKey, now: Now) -> None:
        self._last_sent[key] = now.monotonic
        self._send(key, now)
        if len(self._last_sent) > _MANY:
            is_running = self._timers.is_running
            self._last_sent = {key: sent for key, sent in self._last_sent.items() if is_running((OrderAcks, key))}

    def forget(self, key: LineKey) -> None:
        """Forget the sequence of a deleted queue."""
        self._timers.stop((OrderAcks, key))
        self._last_sent.pop(key, None)
