"""Durable queues that a Python program can have in its own folder, each in the way that its makers intend for threads.

A contender is opened once on a new folder and gives every thread its own worker. All that a worker does is on disk
when it returns: each contender runs with fsync on. Messages are received from the first on, and none twice.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import litequeue
import lmdb
import persistqueue

import waypost

BATCH: Final = 100
BODY: Final = os.urandom(1024)
# litequeue takes text only.
TEXT: Final = BODY[:512].hex()

_SECONDS_FOR_A_LOCK: Final = 60


class Worker(ABC):
    """The calls of one thread. The queue has messages to receive."""

    @abstractmethod
    def send(self) -> None: ...

    @abstractmethod
    def send_batch(self) -> None: ...

    @abstractmethod
    def receive(self) -> None: ...

    @abstractmethod
    def receive_batch(self) -> None: ...


class Contender(ABC):
    @abstractmethod
    def worker(self) -> Worker: ...

    @abstractmethod
    def clear(self) -> None:
        """Remove what was not received. Nobody measures this."""

    @abstractmethod
    def close(self) -> None: ...


class Waypost(Contender):
    """One at a time through a plain queue, in batches through a transactional one, message by message."""

    def __init__(self, folder: Path) -> None:
        self.manager = waypost.open(folder)
        self.plain = self.manager.create_queue("plain")
        self.orders = self.manager.create_queue("orders", transactional=True)

    def worker(self) -> Worker:
        return _WaypostWorker(self)

    def clear(self) -> None:
        self.plain.purge()
        self.orders.purge()

    def close(self) -> None:
        self.manager.close()


class WaypostMany(Waypost):
    """The same, but the messages of a batch with one call."""

    def worker(self) -> Worker:
        return _WaypostManyWorker(self)


class _WaypostWorker(Worker):
    def __init__(self, contender: Waypost) -> None:
        self.manager = contender.manager
        self.plain = contender.plain
        self.orders = contender.orders

    def send(self) -> None:
        self.plain.send(BODY)

    def send_batch(self) -> None:
        with self.manager.transaction() as transaction:
            for _ in range(BATCH):
                self.orders.send(BODY, transaction=transaction)

    def receive(self) -> None:
        assert self.plain.receive(0).body == BODY

    def receive_batch(self) -> None:
        with self.manager.transaction() as transaction:
            for _ in range(BATCH):
                assert self.orders.receive(0, transaction=transaction).body == BODY


class _WaypostManyWorker(_WaypostWorker):
    def send_batch(self) -> None:
        with self.manager.transaction() as transaction:
            self.orders.send_many([BODY] * BATCH, transaction=transaction)

    def receive_batch(self) -> None:
        with self.manager.transaction() as transaction:
            messages = self.orders.receive_many(BATCH, 0, transaction=transaction)
            assert [message.body for message in messages] == [BODY] * BATCH


class RawLmdb(Contender):
    """Puts, gets and deletes alone, with keys that somebody else has found."""

    def __init__(self, folder: Path) -> None:
        self.env = lmdb.open(str(folder), map_size=1 << 34, max_dbs=1)
        self.messages = self.env.open_db(b"messages")
        self.clear()

    def worker(self) -> Worker:
        return _RawLmdbWorker(self)

    def clear(self) -> None:
        # A counter that all threads share: each number is given once.
        self.to_send: Iterator[int] = count()
        self.to_receive: Iterator[int] = count()
        with self.env.begin(write=True) as transaction:
            transaction.drop(self.messages, delete=False)

    def close(self) -> None:
        self.env.close()


class _RawLmdbWorker(Worker):
    def __init__(self, contender: RawLmdb) -> None:
        self.contender = contender

    def send(self) -> None:
        self._put(1)

    def send_batch(self) -> None:
        self._put(BATCH)

    def receive(self) -> None:
        self._take(1)

    def receive_batch(self) -> None:
        self._take(BATCH)

    def _put(self, amount: int) -> None:
        with self.contender.env.begin(db=self.contender.messages, write=True) as transaction:
            for _ in range(amount):
                transaction.put(next(self.contender.to_send).to_bytes(16, "big"), BODY)

    def _take(self, amount: int) -> None:
        with self.contender.env.begin(db=self.contender.messages, write=True) as transaction:
            for _ in range(amount):
                key = next(self.contender.to_receive).to_bytes(16, "big")
                assert transaction.get(key) == BODY
                transaction.delete(key)


class PersistQueue(Contender):
    """SQLiteQueue. Threads share one for single messages (auto_commit), and one for batches (task_done).

    It commits every put, also without auto_commit; only what is received can wait for task_done.
    """

    def __init__(self, folder: Path) -> None:
        self.single = self._open(folder / "single", auto_commit=True)
        self.batches = self._open(folder / "batches", auto_commit=False)

    @staticmethod
    def _open(folder: Path, *, auto_commit: bool) -> Any:
        queue: Any = persistqueue.SQLiteQueue(str(folder), multithreading=True, auto_commit=auto_commit)
        for connection in (queue._getter, queue._putter):  # noqa: SLF001, the only way to say it
            connection.execute("PRAGMA synchronous = FULL")
        return queue

    def worker(self) -> Worker:
        return _PersistQueueWorker(self)

    def clear(self) -> None:
        while self.single.qsize():
            self.single.get(block=False)
        while self.batches.qsize():
            self.batches.get(block=False)
        self.batches.task_done()

    def close(self) -> None:
        self.single.close()
        self.batches.close()


class _PersistQueueWorker(Worker):
    def __init__(self, contender: PersistQueue) -> None:
        self.single = contender.single
        self.batches = contender.batches

    def send(self) -> None:
        self.single.put(BODY)

    def send_batch(self) -> None:
        for _ in range(BATCH):
            self.batches.put(BODY)
        self.batches.task_done()

    def receive(self) -> None:
        assert self.single.get(block=False) == BODY

    def receive_batch(self) -> None:
        for _ in range(BATCH):
            assert self.batches.get(block=False) == BODY
        self.batches.task_done()


class LiteQueue(Contender):
    """Every thread has its own connection. Each pop is one transaction, so batches are received one by one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "queue.db"
        self.connections = [self.connect()]

    def connect(self) -> Any:
        queue = litequeue.LiteQueue(self.path, timeout=_SECONDS_FOR_A_LOCK)
        queue.conn.execute("PRAGMA synchronous = FULL")
        return queue

    def worker(self) -> Worker:
        self.connections.append(self.connect())
        return _LiteQueueWorker(self.connections[-1])

    def clear(self) -> None:
        first, *others = self.connections
        for queue in others:
            queue.close()
        self.connections = [first]
        first.conn.execute(f"DELETE FROM {first.table}")

    def close(self) -> None:
        for queue in self.connections:
            queue.close()


class _LiteQueueWorker(Worker):
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def send(self) -> None:
        self.queue.put(TEXT)

    def send_batch(self) -> None:
        with self.queue.transaction("IMMEDIATE"):
            for _ in range(BATCH):
                self.queue.put(TEXT)

    def receive(self) -> None:
        message = self.queue.pop()
        assert message.data == TEXT
        self.queue.done(message.message_id)

    def receive_batch(self) -> None:
        for _ in range(BATCH):
            self.receive()


CONTENDERS: Final[dict[str, Callable[[Path], Contender]]] = {
    "waypost": Waypost,
    "waypost, many": WaypostMany,
    "py-lmdb": RawLmdb,
    "persist-queue": PersistQueue,
    "litequeue": LiteQueue,
}
