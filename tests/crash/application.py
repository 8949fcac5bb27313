"""An application of a daemon, in a separate process: threads that send or receive and report what they do.

    python -m tests.crash.application URL SEED DUTY...

A duty is a JSON list: its kind, the name of its thread, and the queues that it uses, each as [label, name]:

transactional sends several messages in each transaction, to any of its queues, and aborts now and then
recoverable   sends recoverable messages
express       sends express messages
reader        receives in transactions, and aborts now and then

The first line on standard output says that it is ready. One goes there before messages are sent or a transaction with
messages in hand ends, and one when that is over; tests/crash/transfer_history.py reads them. Daemons that do not answer
are asked again. At the end of standard input every thread ends after what it does.
"""

import json
import os
import random
import sys
import threading
import time
import traceback
from itertools import count
from typing import Any, Final

import waypost
from tests.crash.bodies import NOBODY, compose, parse
from waypost.errors import ConnectionLost, OperationCancelled, ServiceNotAvailable, Timeout, TransactionSequence

# A line is one write to a pipe, whole or not at all.
_PIPE_BUF: Final = 4096
_REST_SECONDS: Final = 0.02
_WAIT_SECONDS: Final = 0.3
_TRANSACTION_SECONDS: Final = 10.0
# The daemon is not there, was started again, or stops.
_GONE: Final = (ServiceNotAvailable, TransactionSequence, OperationCancelled)


def tell(**line: object) -> None:
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    assert len(data) <= _PIPE_BUF
    os.write(1, data)


class Duty:
    """The work of one thread, over and over."""

    def __init__(self, manager: waypost.Manager, name: str, queues: list[tuple[str, str]], seed: str) -> None:
        self.manager = manager
        self.name = name
        self.queues = queues
        self.dice = random.Random(f"{seed} {name}")
        self._operations = count(1)
        self._messages = count(1)

    def operation(self) -> str:
        return f"{self.name}.{next(self._operations)}"

    def new_messages(self, most: int) -> list[tuple[str, str, str]]:
        """The label and the name of a queue, with the name of the message: its sender and its number there."""
        amount = self.dice.randint(1, most)
        return [(*self.dice.choice(self.queues), f"{self.name}/{next(self._messages)}") for _ in range(amount)]

    def body(self, name: str) -> str:
        return compose(name, NOBODY, self.dice.choice((60, 200, 1000, 6000)))

    def once(self) -> None:
        raise NotImplementedError


class Transactions(Duty):
    """Of a transaction whose commit was not asked for, or was refused, nothing may be seen."""

    def once(self) -> None:
        operation, messages = self.operation(), self.new_messages(6)
        tell(begin=operation, sends=[[label, name] for label, _, name in messages])
        transaction = self.manager.transaction(timeout=_TRANSACTION_SECONDS)
        try:
            for _, queue, name in messages:
                self.manager.send(queue, self.body(name), transaction=transaction)
            outcome = end(transaction, aborts=self.dice.randrange(5) == 0)
        except _GONE:
            outcome = "undone"
        tell(end=operation, outcome=outcome)


class Plain(Duty):
    """Outside of transactions."""

    recoverable = True

    def once(self) -> None:
        operation, messages = self.operation(), self.new_messages(4)
        _, queue, _ = messages[0]
        names = [name for *_, name in messages]
        tell(begin=operation, sends=[[messages[0][0], name] for name in names])
        try:
            self.manager.queue(queue).send_many([self.body(name) for name in names], recoverable=self.recoverable)
            outcome = "done"
        except ConnectionLost:
            outcome = "open"
        except ServiceNotAvailable:
            outcome = "undone"
        tell(end=operation, outcome=outcome)


class Express(Plain):
    recoverable = False


class Reader(Duty):
    """The only one of its queue."""

    def once(self) -> None:
        [(label, name)] = self.queues
        operation = self.operation()
        transaction = self.manager.transaction(timeout=_TRANSACTION_SECONDS)
        try:
            messages = self.manager.queue(name).receive_many(
                self.dice.randint(1, 20), _WAIT_SECONDS, transaction=transaction
            )
            tell(begin=operation, reads=label, took=[[parse(m.text).name, m.lookup_id] for m in messages])
        except (*_GONE, Timeout) as error:
            transaction.abort()
            if not isinstance(error, Timeout):
                raise
            return
        tell(end=operation, outcome=end(transaction, aborts=self.dice.randrange(6) == 0))


def end(transaction: waypost.Transaction, *, aborts: bool) -> str:
    """The state of the transaction: done, undone, or open if nobody knows."""
    if aborts:
        transaction.abort()
        return "undone"
    try:
        transaction.commit()
    except ServiceNotAvailable:
        return "open"
    except TransactionSequence:
        return "undone"
    return "done"


KINDS: Final = {"transactional": Transactions, "recoverable": Plain, "express": Express, "reader": Reader}


def work(duty: Duty, stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            try:
                duty.once()
            except _GONE:
                time.sleep(_REST_SECONDS)
            if not isinstance(duty, Reader):
                time.sleep(duty.dice.uniform(0, 2 * _REST_SECONDS))
    except BaseException:  # noqa: BLE001, whatever it is, the test has to hear of it
        tell(error=traceback.format_exc()[-3000:])


def main() -> None:
    url, seed, *duties = sys.argv[1:]
    stop = threading.Event()
    with waypost.connect(url) as manager:
        threads = []
        for text in duties:
            kind, name, *queues = json.loads(text)
            labelled: list[Any] = [tuple(queue) for queue in queues]
            duty = KINDS[kind](manager, name, labelled, seed)
            threads.append(threading.Thread(target=work, args=(duty, stop)))
        for thread in threads:
            thread.start()
        tell(ready=url)
        sys.stdin.buffer.read()
        stop.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
