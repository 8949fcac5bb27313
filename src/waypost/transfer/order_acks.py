"""When to send an OrderAck: the Order Ack Send Timer of MS-MQQB 3.1.1.6.2, 3.1.2.7 and 3.1.6.9.

There is one for each source queue manager, local queue and TimeStamp, as there is a sequence for each (readings
MQQB 3.18). Times are those of the monotonic clock.
"""

from collections.abc import Iterator
from typing import Final

from waypost.transfer.timers import Timers

# The GUID of the source queue manager with eight bytes that tell the name it uses, and the number of the local queue.
SequenceKey = tuple[bytes, int]
# The same, with the TimeStamp of a sequence.
LineKey = tuple[bytes, int, int]

# Beyond these many sequences, those that are at rest are forgotten.
_MANY: Final = 10_000


class OrderAcks:
    """The OrderAcks that are to be sent. Both times are in seconds."""

    __slots__ = ("_last_sent", "_maximum_delay", "_timeout", "_timers")

    def __init__(self, order_ack_timeout: float, maximum_order_ack_delay: float) -> None:
        self._timeout: Final = order_ack_timeout
        self._maximum_delay: Final = maximum_order_ack_delay
        self._timers: Timers[LineKey] = Timers()
        # LastOrderAckSendTime. Before the first one it is the time of the first message.
        self._last_sent: dict[LineKey, float] = {}

    def received(self, key: LineKey, time: float) -> None:
        """A transactional message has come, accepted or not: steady traffic puts the OrderAck off, but not for ever."""
        last_sent = self._last_sent.setdefault(key, time)
        if time - last_sent < self._maximum_delay or not self._timers.is_running(key):
            self._timers.start(key, time + self._timeout)

    def due(self, time: float) -> Iterator[LineKey]:
        """The sequences to acknowledge now."""
        for key in self._timers.expired(time):
            self._last_sent[key] = time
            yield key
        if len(self._last_sent) > _MANY:
            self._last_sent = {key: sent for key, sent in self._last_sent.items() if self._timers.is_running(key)}

    def next_deadline(self) -> float | None:
        return self._timers.next_deadline()

    def forget(self, key: LineKey) -> None:
        """The sequence is gone with its queue."""
        self._timers.stop(key)
        self._last_sent.pop(key, None)
