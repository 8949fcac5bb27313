"""The effect of a flood from one address on messages that come again from another, over real sockets and kill -9."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.daemons import Daemon, loopback
from tests.daemon.strangers import Stranger


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, "alpha", loopback(11), "transfer.duplicate_history_size=20") as daemon:
        daemon.start()
        yield daemon


def bodies(daemon: Daemon, queue: str) -> list[bytes]:
    with daemon.connect() as manager:
        return [message.body for message in manager.queue(queue).browse()]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_flood_from_another_address_makes_no_message_come_twice(daemon: Daemon, *, restarts: bool) -> None:
    with daemon.connect() as manager:
        manager.create_queue("q")
        manager.create_queue("flood")
    honest = Stranger(daemon, 12)
    message = honest.message("q", b"once")
    with honest:
        honest.send(message)
    with Stranger(daemon, 13) as flooder:
        for _ in range(5):
            flooder.send(*(flooder.message("flood") for _ in range(20)))
    if restarts:
        daemon.kill()
        daemon.start()
    with honest:
        honest.send(message, honest.message("q", b"next"))
    assert bodies(daemon, "q") == [b"once", b"next"]
    assert len(bodies(daemon, "flood")) == 100


def test_messages_that_are_refused_take_no_place(daemon: Daemon) -> None:
    with daemon.connect() as manager:
        manager.create_queue("q")
    with Stranger(daemon, 12) as honest:
        message = honest.message("q", b"once")
        honest.send(message)
        honest.send(*(honest.message("nowhere") for _ in range(50)))
        honest.send(message)
    assert bodies(daemon, "q") == [b"once"]
