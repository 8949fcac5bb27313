"""The sending and the receiving programs of bench/transfer.py, each in a separate process, for every contender.

A receiver reports to the sender over a pipe how many messages it has, one byte for each; the sender has at most
`Stretch.window` messages under way of which it has not heard. With a window of one, each message is a round trip.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Final

import redis

import waypost
from waypost.errors import Timeout

BODY: Final = bytes(range(256)) * 4
SECONDS_TO_WAIT: Final = 0.2

GROUP: Final = "bench"


@dataclass(frozen=True, slots=True)
class Stretch:
    """The work of sender and receiver between two looks at the clock."""

    messages: int
    # The number of messages that may be under way.
    window: int
    # The number of messages that are sent or received with one call, or acknowledged together.
    batch: int
    # The number of calls that may be under way at each end.
    threads: int


class Gate:
    """The sender's end of the pipe."""

    def __init__(self, pipe: Connection, stretch: Stretch) -> None:
        self.pipe: Final = pipe.fileno()
        self.lock: Final = Lock()
        self.free = stretch.window
        self.to_come = stretch.messages
        self.to_send = stretch.messages
        # When each batch was let through.
        self.times: Final[list[float]] = []

    def take(self, amount: int) -> int:
        """Wait until so many messages may be sent. Less are the last ones."""
        with self.lock:
            amount = min(amount, self.to_send)
            self.to_send -= amount
            while self.free < amount:
                self.hear()
            self.free -= amount
            self.times.append(perf_counter())
            return amount

    def hear(self) -> None:
        heard = len(os.read(self.pipe, 65_536))
        if not heard:
            raise EOFError("the receiver has ended")
        self.free += heard
        self.to_come -= heard

    def finish(self) -> None:
        """Wait until the receiver has everything."""
        while self.to_come:
            self.hear()
        self.times.append(perf_counter())


class Tally:
    """The receiver's end of the pipe."""

    def __init__(self, pipe: Connection, stretch: Stretch) -> None:
        self.pipe: Final = pipe.fileno()
        self.missing = stretch.messages
        self.lock: Final = Lock()

    def tell(self, amount: int) -> None:
        with self.lock:
            self.missing -= amount
        os.write(self.pipe, bytes(amount))


class Program(ABC):
    """Made in its process with the address of its server, the name of the queue there and the kind of messages."""

    @abstractmethod
    def __init__(self, address: str, queue: str, kind: str) -> None: ...

    @abstractmethod
    def send(self, stretch: Stretch, gate: Gate) -> None: ...

    @abstractmethod
    def receive(self, stretch: Stretch, tally: Tally) -> None: ...


class Threaded(Program):
    """A program whose threads send and receive a batch with each call."""

    @abstractmethod
    def send_batch(self, amount: int) -> None: ...

    @abstractmethod
    def receive_batch(self, most: int) -> int:
        """The number of messages; 0 if none came for a while."""

    def send(self, stretch: Stretch, gate: Gate) -> None:
        def work() -> None:
            while amount := gate.take(stretch.batch):
                self.send_batch(amount)

        _together(work, stretch.threads)

    def receive(self, stretch: Stretch, tally: Tally) -> None:
        def work() -> None:
            while tally.missing:
                tally.tell(self.receive_batch(stretch.batch))

        _together(work, stretch.threads)


class Waypost(Threaded):
    """`waypost.connect` at both ends, with one call for each batch; in transactions one more call that commits it."""

    def __init__(self, address: str, queue: str, kind: str) -> None:
        self.manager: Final = waypost.connect(address)
        self.queue: Final = self.manager.queue(queue)
        self.is_transactional: Final = kind == "transactional"
        self.is_recoverable: Final = kind != "express"

    def send_batch(self, amount: int) -> None:
        if self.is_transactional:
            with self.manager.transaction() as transaction:
                self.queue.send_many([BODY] * amount, transaction=transaction)
        else:
            self.queue.send_many([BODY] * amount, recoverable=self.is_recoverable)

    def receive_batch(self, most: int) -> int:
        try:
            if self.is_transactional:
                with self.manager.transaction() as transaction:
                    messages = self.queue.receive_many(most, SECONDS_TO_WAIT, transaction=transaction)
            else:
                messages = self.queue.receive_many(most, SECONDS_TO_WAIT)
        except Timeout:
            return 0
        for message in messages:
            assert message.body == BODY
        return len(messages)


class Redis(Threaded):
    """Streams: XADD in pipelines; XREADGROUP, then XACK and XDEL together."""

    def __init__(self, address: str, queue: str, _kind: str) -> None:
        host, _, port = address.partition(":")
        self.client: Final[Any] = redis.Redis(host, int(port))
        self.queue: Final = queue
        with suppress(redis.ResponseError):
            self.client.xgroup_create(queue, GROUP, mkstream=True)

    def send_batch(self, amount: int) -> None:
        pipeline = self.client.pipeline(transaction=False)
        for _ in range(amount):
            pipeline.xadd(self.queue, {b"body": BODY})
        pipeline.execute()

    def receive_batch(self, most: int) -> int:
        block = int(SECONDS_TO_WAIT * 1000)
        found = self.client.xreadgroup(GROUP, GROUP, {self.queue: ">"}, count=most, block=block)
        if not found:
            return 0
        ((_, entries),) = found
        for _, fields in entries:
            assert fields[b"body"] == BODY
        identifiers = [identifier for identifier, _ in entries]
        pipeline = self.client.pipeline(transaction=False)
        pipeline.xack(self.queue, GROUP, *identifiers)
        pipeline.xdel(self.queue, *identifiers)
        pipeline.execute()
        return len(entries)


def _together(work: Callable[[], None], threads: int) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001, it is raised below
            errors.append(error)

    running = [Thread(target=run, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for error in errors:
        raise error
