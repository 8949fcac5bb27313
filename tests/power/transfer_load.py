"""Two queue managers that send to each other, each on a store in a folder, with a clock and a network of our own.

    python -m tests.power.transfer_load FOLDER ROUND SEED STEPS END

The node and the store are those of the daemon; the hosts around them are those of tests/node/hosts.py. The reports are
lines that tests/crash/transfer_history.py reads.
"""

import os
import random
import sys
from itertools import count
from pathlib import Path
from typing import Final

from tests.crash.application import tell
from tests.node.hosts import START, TRANSFER, Host, Net
from tests.store.engines import LmdbEngine
from waypost.clock import Now
from waypost.wire.path_names import PathName

NAMES: Final = ("alpha", "beta")
QUEUES: Final = {"orders": "transactional", "plain": "recoverable"}
# Between rounds. A message has four days to arrive.
_PAUSE_SECONDS: Final = 600.0


class Pair:
    """The hosts, as they start in this round."""

    def __init__(self, folder: Path, round_number: int) -> None:
        self.net = Net()
        self.net.now = Now(START.monotonic, START.wall + round_number * _PAUSE_SECONDS)
        self.hosts = [self._host(folder / name, name) for name in NAMES]
        for host in self.hosts:
            for queue, kind in QUEUES.items():
                if PathName.parse(rf"{host.name}\private$\{queue}") not in host.node.manager.queues:
                    host.create(queue, transactional=kind == "transactional")

    def _host(self, folder: Path, name: str) -> Host:
        host = self.net.add(name, TRANSFER, (), LmdbEngine(folder))
        # Another process makes other GUIDs.
        host._guids = (os.urandom(16) for _ in count())
        return host

    def other(self, host: Host) -> Host:
        return self.hosts[1 - self.hosts.index(host)]

    def waiting(self) -> int:
        """Messages that are on their way."""
        return sum(
            len(queue.positions) for host in self.hosts for queue in host.node.manager.collection.outgoing.values()
        )

    def close(self) -> None:
        for host in self.hosts:
            host.stop()
            host.engine.stop()


def label(host: Host, queue: str) -> str:
    return f"{QUEUES[queue]} {host.name} {queue}"


def took(host: Host, queue: str) -> list[list[object]]:
    """The content of a queue: its name, and its place."""
    places = host.queue(queue).positions
    return [[name, place] for name, place in zip(host.bodies(queue), places, strict=True)]


class Load:
    """Steps, one after the other."""

    def __init__(self, pair: Pair, round_number: str, dice: random.Random) -> None:
        self._pair = pair
        self._round = round_number
        self._dice = dice
        self._operations = count(1)
        self._messages = count(1)

    def step(self) -> None:
        host = self._dice.choice(self._pair.hosts)
        step = self._dice.choice([self._transaction] * 4 + [self._plain, self._receive, self._receive, self._part])
        step(host)

    def _operation(self) -> str:
        return f"{self._round}.{next(self._operations)}"

    def _names(self, host: Host) -> list[str]:
        return [f"{self._round}-{host.name}/{next(self._messages)}" for _ in range(self._dice.randint(1, 5))]

    def _transaction(self, host: Host) -> None:
        operation, names, target = self._operation(), self._names(host), self._pair.other(host)
        tell(begin=operation, sends=[[label(target, "orders"), name] for name in names])
        transaction = host.begin()
        for name in names:
            host.send(rf"DIRECT=OS:{target.name}\private$\orders", name, transaction)
        if self._dice.randrange(5) == 0:
            host.abort(transaction)
            tell(end=operation, outcome="undone")
        else:
            host.commit(transaction)
            tell(end=operation, outcome="done")

    def _plain(self, host: Host) -> None:
        operation, target = self._operation(), self._pair.other(host)
        name = self._names(host)[0]
        tell(begin=operation, sends=[[label(target, "plain"), name]])
        host.send(rf"DIRECT=OS:{target.name}\private$\plain", name)
        tell(end=operation, outcome="done")

    def _receive(self, host: Host) -> None:
        queue = self._dice.choice(list(QUEUES))
        if first := took(host, queue)[:1]:
            operation = self._operation()
            tell(begin=operation, reads=label(host, queue), took=first)
            assert host.receive(queue).label == first[0][0]
            tell(end=operation, outcome="done")

    def _part(self, host: Host) -> None:
        """The network breaks, or is there again, and time goes by."""
        if self._dice.randrange(3) == 0:
            self._pair.net.part(*self._pair.hosts)
        else:
            self._pair.net.join()
        self._pair.net.advance(self._dice.choice((0.3, 2.0, 40.0)))


def main() -> None:
    folder, round_number, seed, steps, end = sys.argv[1:]
    pair = Pair(Path(folder), int(round_number))
    load = Load(pair, round_number, random.Random(f"{seed} {round_number}"))
    for _ in range(int(steps)):
        load.step()
    if end == "kill":
        os._exit(0)
    pair.close()


if __name__ == "__main__":
    main()
