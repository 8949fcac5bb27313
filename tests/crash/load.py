"""The program that is killed: threads that use one queue manager in every way and tell what they do.

    python -m tests.crash.load FOLDER ROUND SEED

A line goes to standard output before an operation starts, and another when it is acknowledged; tests/crash/history.py
reads them. A line is one write to a pipe, so it is there whole or not at all, and the lines of all threads have one
order: an operation whose last line stands before the first line of another was over when that one began.

plain   recoverable and express messages of all priorities; journaled
jobs    the same without a journal
a, c    transactions send to both, and abort now and then
b       gets what transactions receive from a, in the same transaction
scratch is purged again and again
"""

import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final

import waypost
from tests.crash.bodies import NOBODY, compose, parse
from waypost.errors import QueueExists, Timeout

PLAIN: Final = ("plain", "jobs")
TRANSACTIONAL: Final = ("a", "b", "c")
SCRATCH: Final = "scratch"

_PIPE_BUF: Final = 4096
_WAIT: Final = 0.01


def tell(**line: object) -> None:
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    assert len(data) <= _PIPE_BUF
    try:
        os.write(1, data)
    except BrokenPipeError:
        os._exit(1)


class Role:
    """The work of one thread, over and over."""

    def __init__(self, manager: waypost.Manager, name: str, dice: random.Random) -> None:
        self.manager = manager
        self.name = name
        self.dice = dice
        self._numbers = count(1)

    def operation(self) -> str:
        """The name of the next one."""
        return f"{self.name}.{next(self._numbers)}"

    def chance(self, one_in: int) -> bool:
        return self.dice.randrange(one_in) == 0

    def body(self, name: str, origin: str = NOBODY) -> str:
        return compose(name, origin, self.dice.choice((60, 200, 1000, 6000)))

    # Messages outside of transactions

    def send(self, queue: str, *, recoverable: bool = True) -> None:
        operation = self.operation()
        names = _names(operation, self.dice.randint(2, 8) if self.chance(3) else 1)
        priority = self.dice.randrange(8)
        journal = self.chance(4)
        sends = [[queue, name, priority, not recoverable, journal] for name in names]
        tell(begin=operation, sends=sends)
        target = self.manager.queue(queue)
        bodies = [self.body(name) for name in names]
        if len(bodies) == 1:
            sent = [target.send(bodies[0], priority=priority, recoverable=recoverable, journal=journal)]
        else:
            sent = target.send_many(bodies, priority=priority, recoverable=recoverable, journal=journal)
        tell(end=operation, ids=_ids(names, sent))

    def send_express(self) -> None:
        self.send(self.dice.choice(PLAIN), recoverable=False)
        # It waits for no disk, and would be alone on the processor otherwise.
        time.sleep(0.002)

    def receive(self, queue: str) -> None:
        most = self.dice.randint(2, 8) if self.chance(3) else 1
        operation = self.operation()
        tell(begin=operation, reads=[queue, most])
        source = self.manager.queue(queue)
        messages: list[waypost.Message] = []
        with suppress(Timeout):
            messages = [source.receive(_WAIT)] if most == 1 else source.receive_many(most, _WAIT)
        tell(end=operation, took=[queue, *_tokens(messages)])

    def send_to_scratch(self) -> None:
        self.send(SCRATCH)

    def purge(self) -> None:
        time.sleep(self.dice.uniform(0.002, 0.03))
        operation = self.operation()
        tell(begin=operation, purges=SCRATCH)
        self.manager.queue(SCRATCH).purge()
        tell(end=operation)

    # Transactions

    def send_together(self) -> None:
        operation = self.operation()
        aborts = self.chance(4)
        names = _names(operation, self.dice.randint(2, 8))
        plan = [(self.dice.choice(("a", "c")), name) for name in names]
        tell(begin=operation, aborts=aborts, sends=_transactional(plan))
        transaction = self.manager.transaction()
        sent = [self.manager.queue(queue).send(self.body(name), transaction=transaction) for queue, name in plan]
        self.finish(transaction, aborts=aborts)
        tell(end=operation, ids=_ids(names, sent))

    def move(self) -> None:
        operation = self.operation()
        tell(begin=operation)
        transaction = self.manager.transaction()
        messages = self.take("a", transaction)
        aborts = self.chance(4)
        origins = _tokens(messages)
        names = _names(operation, len(origins))
        tell(took=["a", *origins], operation=operation, aborts=aborts, sends=_transactional([("b", n) for n in names]))
        bodies = [self.body(name, origin) for name, origin in zip(names, origins, strict=True)]
        sent = self.manager.queue("b").send_many(bodies, transaction=transaction)
        self.finish(transaction, aborts=aborts)
        tell(end=operation, ids=_ids(names, sent))

    def consume(self) -> None:
        operation = self.operation()
        tell(begin=operation)
        transaction = self.manager.transaction()
        messages = self.take("c", transaction)
        aborts = self.chance(4)
        tell(took=["c", *_tokens(messages)], operation=operation, aborts=aborts, sends=[])
        self.finish(transaction, aborts=aborts)
        tell(end=operation)

    def take(self, queue: str, transaction: waypost.Transaction) -> list[waypost.Message]:
        most = self.dice.randint(1, 5)
        source = self.manager.queue(queue)
        taken: list[waypost.Message] = []
        with suppress(Timeout):
            if self.chance(2):
                return source.receive_many(most, _WAIT, transaction=transaction)
            for _ in range(most):
                taken.append(source.receive(_WAIT, transaction=transaction))  # noqa: PERF401, what came before a time-out counts
        return taken

    def finish(self, transaction: waypost.Transaction, *, aborts: bool) -> None:
        if aborts:
            transaction.abort()
        else:
            transaction.commit()


def _names(operation: str, amount: int) -> list[str]:
    return [f"{operation}/{number}" for number in range(amount)]


def _ids(names: list[str], sent: list[waypost.Message]) -> list[list[object]]:
    return [[name, message.id, message.lookup_id] for name, message in zip(names, sent, strict=True)]


def _tokens(messages: list[waypost.Message]) -> list[str]:
    return [parse(message.text).name for message in messages]


def _transactional(plan: list[tuple[str, str]]) -> list[list[object]]:
    return [[queue, name, 0, False, False] for queue, name in plan]


def create_queues(manager: waypost.Manager) -> None:
    for name, properties in queues():
        with suppress(QueueExists):
            manager.create_queue(name, **properties)


def queues() -> list[tuple[str, dict[str, Any]]]:
    plain: list[tuple[str, dict[str, Any]]] = [("plain", {"journal": True}), ("jobs", {}), (SCRATCH, {})]
    return plain + [(name, {"transactional": True}) for name in TRANSACTIONAL]


def main() -> None:
    folder, round_number, seed = sys.argv[1:]
    manager = waypost.open(folder)
    create_queues(manager)
    duties: list[Callable[[Role], None]] = [
        *(lambda role, queue=queue: role.send(queue) for queue in PLAIN),
        *(lambda role, queue=queue: role.receive(queue) for queue in PLAIN),
        Role.send_express,
        Role.send_to_scratch,
        Role.purge,
        *[Role.send_together] * 2,
        *[Role.move] * 2,
        Role.consume,
    ]

    def work(number: int, duty: Callable[[Role], None]) -> None:
        role = Role(manager, f"{round_number}.{number}", random.Random(f"{seed} {round_number} {number}"))
        try:
            while True:
                duty(role)
        except BaseException:  # noqa: BLE001, whatever it is, the test has to hear of it
            tell(error=traceback.format_exc()[-3000:])

    threads = [threading.Thread(target=work, args=each, daemon=True) for each in enumerate(duties)]
    tell(ready=round_number)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
