"""The programs of RabbitMQ, with pika."""

from collections import OrderedDict
from typing import Any, Final

import pika

from bench.programs import BODY, Gate, Program, Stretch, Tally

PREFETCHED: Final = 1000


class RabbitMQ(Program):
    """pika's SelectConnection at both ends: a BlockingConnection waits for the confirm of each message by itself.

    Persistent messages to a durable queue. As many publisher confirms as the window has may be awaited. The receiver
    acknowledges a batch at a time.
    """

    def __init__(self, address: str, queue: str, _kind: str) -> None:
        host, _, port = address.partition(":")
        self.queue: Final = queue
        # On this channel so far.
        self.published = 0
        self.unconfirmed: Final[OrderedDict[int, None]] = OrderedDict()
        self.channel: Any = None
        # Set by what goes on.
        self.confirmed: Any = None
        self.received: Any = None
        self.connection: Final[Any] = pika.SelectConnection(
            pika.ConnectionParameters(host, int(port), heartbeat=0),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._declare),
            on_open_error_callback=_fail,
            on_close_callback=_fail,
        )
        self.loop: Final[Any] = self.connection.ioloop
        self.loop.start()

    def _declare(self, channel: Any) -> None:
        self.channel = channel
        channel.add_on_close_callback(_fail)
        channel.basic_qos(prefetch_count=PREFETCHED)
        channel.confirm_delivery(lambda frame: self.confirmed(frame.method))
        channel.queue_declare(self.queue, durable=True, callback=lambda _: self.loop.stop())

    def _deliver(self, *delivered: Any) -> None:
        self.received(*delivered)

    def send(self, stretch: Stretch, gate: Gate) -> None:
        persistent = pika.BasicProperties(delivery_mode=2)
        unconfirmed = self.unconfirmed

        def publish() -> None:
            room = min(gate.free, stretch.window - len(unconfirmed), gate.to_send)
            if room:
                gate.take(room)
            for _ in range(room):
                self.published += 1
                unconfirmed[self.published] = None
                self.channel.basic_publish("", self.queue, BODY, persistent)
            if not gate.to_come and not unconfirmed:
                self.loop.stop()

        def confirmed(method: Any) -> None:
            assert method.NAME == "Basic.Ack"
            if method.multiple:
                while unconfirmed and next(iter(unconfirmed)) <= method.delivery_tag:
                    unconfirmed.popitem(last=False)
            else:
                del unconfirmed[method.delivery_tag]
            publish()

        def heard(_descriptor: int, _events: int) -> None:
            gate.hear()
            publish()

        self.confirmed = confirmed
        self.loop.add_handler(gate.pipe, heard, self.loop.READ)
        publish()
        self.loop.start()
        self.loop.remove_handler(gate.pipe)

    def receive(self, stretch: Stretch, tally: Tally) -> None:
        waiting = 0

        def received(channel: Any, method: Any, _properties: object, body: bytes) -> None:
            nonlocal waiting
            assert body == BODY
            waiting += 1
            if waiting in (stretch.batch, tally.missing):
                channel.basic_ack(method.delivery_tag, multiple=True)
                tally.tell(waiting)
                waiting = 0
                if not tally.missing:
                    self.loop.stop()

        if self.received is None:
            self.channel.basic_consume(self.queue, self._deliver)
        self.received = received
        self.loop.start()


def _fail(_where: object, reason: object) -> None:
    raise ConnectionError(f"RabbitMQ: {reason}")
