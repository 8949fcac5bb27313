"""Make the data folders of tests/upgrade: two queue managers as one version of Waypost leaves them.

`python -m tests.upgrade.make_folders FILE`. folders-0.1.0.tar.gz is of the version whose records of sequences name no
addresses. The file of a version stays as it is; another version gets a separate file.
"""

import sys
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import waypost
from tests.crash.daemons import SHORT_TIMERS, Daemon, patience, start_all

ALPHA: Final = "127.77.1.1"
BETA: Final = "127.77.1.2"
SECONDS: Final = 60

DELIVERED: Final = range(1, 6)
CONSUMED: Final = range(1, 3)
WAITING: Final = range(6, 9)


def order(number: int) -> str:
    return f"order {number}"


def plain(number: int) -> str:
    return f"plain {number}"


def send_orders(manager: waypost.Manager, name: str, numbers: range) -> None:
    for number in numbers:
        with manager.transaction() as transaction:
            manager.send(name, order(number), transaction=transaction, journal=True, dead_letter=True)


def count(manager: waypost.Manager, name: str) -> int:
    return manager.queue(name).info().message_count


def await_count(manager: waypost.Manager, name: str, number: int) -> None:
    with patience(SECONDS, f"{name} does not have {number} messages") as turns:
        for _ in turns:
            if count(manager, name) == number:
                return


def await_nothing_outgoing(manager: waypost.Manager) -> None:
    with patience(SECONDS, "messages are left in outgoing queues") as turns:
        for _ in turns:
            if not any(queue.info().message_count for queue in manager.outgoing_queues()):
                return


def fill(alpha_daemon: Daemon, beta_daemon: Daemon) -> None:
    with alpha_daemon.connect() as alpha, beta_daemon.connect() as beta:
        beta.create_queue("orders", transactional=True)
        beta.create_queue("plain", journal=True)
        alpha.create_queue("held", transactional=True, label="What beta sends", quota_kb=1000)
        alpha.create_queue("local", journal=True)
        local = alpha.queue("local")
        for priority in (1, 7, 3):
            local.send(f"priority {priority}", priority=priority, recoverable=True, label="of alpha")
        local.receive(timeout=SECONDS)
        send_orders(alpha, beta_daemon.direct("nowhere"), range(1, 2))
        await_count(alpha, "system$;deadxact", 1)
        send_orders(alpha, beta_daemon.direct("orders"), DELIVERED)
        for number in range(1, 4):
            alpha.send(beta_daemon.direct("plain"), plain(number), recoverable=True)
        send_orders(beta, alpha_daemon.direct("held"), range(1, 4))
        await_count(beta, "orders", len(DELIVERED))
        await_count(beta, "plain", 3)
        await_count(alpha, "held", 3)
        for number in CONSUMED:
            assert beta.queue("orders").receive(timeout=SECONDS).text == order(number)
        await_count(alpha, "system$;journal", len(CONSUMED))
        await_nothing_outgoing(alpha)
        await_nothing_outgoing(beta)
        beta_daemon.kill()
        send_orders(alpha, beta_daemon.direct("orders"), WAITING)
        for number in range(4, 6):
            alpha.send(beta_daemon.direct("plain"), plain(number), recoverable=True)
    assert alpha_daemon.stop() == 0


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        daemons = [
            stack.enter_context(Daemon(folder, name, address, *SHORT_TIMERS))
            for name, address in (("alpha", ALPHA), ("beta", BETA))
        ]
        start_all(daemons)
        fill(*daemons)
        with tarfile.open(path, "w:gz") as archive:
            for daemon in daemons:
                archive.add(daemon.folder, daemon.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
