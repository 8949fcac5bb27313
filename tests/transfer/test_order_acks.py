"""MS-MQQB 3.1.1.6.2, 3.1.2.7 and 3.1.6.9: when an OrderAck is sent."""

import pytest

from waypost.clock import Now
from waypost.timers import Timers
from waypost.transfer.order_acks import LineKey, OrderAcks
from waypost.transfer.settings import TransferSettings

ONE: LineKey = (b"\x01" * 16, 7, 1)
OTHER: LineKey = (b"\x01" * 16, 8, 1)


class Acks(OrderAcks):
    """With separate timers. `due` fires them, and gives the sequences that were to be acknowledged."""

    def __init__(self, timeout: float, delay: float) -> None:
        self.timers = Timers()
        self._keys: list[LineKey] = []
        super().__init__(timeout, delay, self.timers, lambda key, _: self._keys.append(key))

    def due(self, time: float) -> list[LineKey]:
        self.timers.fire(Now(time, 0.0))
        keys = self._keys[:]
        self._keys.clear()
        return keys


def order_acks() -> Acks:
    settings = TransferSettings()
    return Acks(settings.order_ack_timeout_ms / 1000, settings.maximum_order_ack_delay_s)


def sent_at(acks: Acks, arrivals: list[float], until: float) -> list[float]:
    """When the OrderAcks of ONE are sent if its messages arrive then, with a clock of eighths of a second."""
    times = []
    for eighth in range(int(until * 8) + 1):
        time = eighth / 8
        times += [time for _ in acks.due(time)]
        for _ in range(arrivals.count(time)):
            acks.received(ONE, time)
    return times


def every(step: float, start: float, stop: float) -> list[float]:
    return [start + index * step for index in range(int((stop - start) / step))]


@pytest.mark.spec("MQQB-3.1.2.7-01")
def test_an_order_ack_is_sent_half_a_second_after_the_last_message() -> None:
    assert sent_at(order_acks(), [1.0], 20) == [1.5]
    assert sent_at(order_acks(), [1.0, 1.25, 1.625], 20) == [2.125]
    assert sent_at(order_acks(), [1.0, 3.0], 20) == [1.5, 3.5]


@pytest.mark.spec("MQQB-3.1.1.6.2-04", "MQQB-3.1.3.2-09")
def test_steady_traffic_puts_an_order_ack_off_for_ten_seconds() -> None:
    assert TransferSettings().maximum_order_ack_delay_s == 10
    # The time of the last OrderAck starts at the first message. The timer that was started last runs out.
    assert sent_at(order_acks(), every(0.25, 1, 32), 40) == [11.25, 21.5, 31.75, 32.25]


@pytest.mark.spec("MQQB-3.1.2.7-01")
def test_after_a_long_silence_further_messages_do_not_put_it_off() -> None:
    assert sent_at(order_acks(), [1.0, 20.0, 20.25], 40) == [1.5, 20.5]


@pytest.mark.spec("MQQB-3.1.3.2-09")
def test_the_longest_delay_is_configurable() -> None:
    assert sent_at(Acks(0.5, 2.0), every(0.25, 1, 8), 9) == [3.25, 5.5, 7.75, 8.25]


def test_each_source_and_queue_has_its_own_timer() -> None:
    acks = order_acks()
    assert acks.timers.earliest() is None
    acks.received(ONE, 1.0)
    acks.received(OTHER, 1.25)
    assert acks.timers.earliest() == 1.5
    assert acks.due(1.5) == [ONE]
    assert acks.timers.earliest() == 1.75
    assert acks.due(9.0) == [OTHER]
    assert acks.due(9.0) == []


def test_a_sequence_that_is_forgotten_is_not_acknowledged() -> None:
    acks = order_acks()
    acks.received(ONE, 1.0)
    acks.forget(ONE)
    assert acks.timers.earliest() is None
    assert acks.due(9.0) == []
