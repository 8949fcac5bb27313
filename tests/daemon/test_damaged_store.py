"""Bits that flip in the folder of a daemon: the message is set aside and named, the rest goes on (ADR 30)."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import waypost
from tests.crash.daemons import SECONDS, Daemon, loopback
from tests.forks import run

# The exit code that says that another start will not help.
DAMAGED = 65
BODIES = [f"<body {number}> {'x' * 300}" for number in range(1, 6)]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """With five messages in `orders`."""
    with Daemon(tmp_path, "alpha", loopback(31)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            orders = manager.create_queue("orders", label="new orders")
            for body in BODIES:
                orders.send(body, label=body[:8])
        yield daemon


def flip(daemon: Daemon, text: str) -> int:
    """Flip a bit of every place in the file where the text is, whether its daemon runs or not."""
    path, wanted = daemon.folder / "data.mdb", text.encode("utf-16-le")
    content = path.read_bytes()
    at, count = content.find(wanted), 0
    with path.open("r+b") as file:
        while at >= 0:
            file.seek(at)
            file.write(bytes([content[at] ^ 1]))
            at = content.find(wanted, at + 1)
            count += 1
    return count


def received(manager: waypost.Manager) -> list[str]:
    orders = manager.queue("orders")
    return [orders.receive(timeout=0).text for _ in range(orders.info().message_count)]


def command(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    return run("waypost.cli", "--url", daemon.url, *words, timeout=SECONDS)


@pytest.mark.parametrize("while_it_runs", [False, True])
def test_a_flipped_bit_costs_one_message_that_everybody_is_told_of(
    daemon: Daemon, tmp_path: Path, *, while_it_runs: bool
) -> None:
    if not while_it_runs:
        assert daemon.stop() == 0
    assert flip(daemon, "<body 3>")
    if not while_it_runs:
        daemon.start()
    with daemon.connect() as manager:
        orders = manager.queue("orders")
        assert [message.text for message in orders.browse()] == [BODIES[at] for at in (0, 1, 3, 4)]
        info = orders.info()
        assert (info.message_count, info.damaged_count) == (4, 1)
        assert received(manager) == [BODIES[at] for at in (0, 1, 3, 4)]
        assert manager.queue("orders").info().bytes == 0
        orders.send("goes on")
        assert orders.receive(timeout=0).text == "goes on"
        (damaged,) = manager.damaged_messages(with_bytes=True)
        assert damaged.data is not None
        assert "x".encode("utf-16-le") * 300 in damaged.data
    (line,) = [json.loads(each) for each in daemon.log.splitlines() if '"message damaged"' in each]
    assert line["level"] == "warning"
    assert line["queue"].endswith("orders")
    assert line["message_id"] == damaged.message_id != ""
    assert int(line["lookup_id"]) == damaged.lookup_id
    numbers = daemon.get("/metrics")
    assert "waypost_damaged_messages 1.0" in numbers
    assert "waypost_messages_damaged_total 1.0" in numbers
    assert "1 of alpha\\private$\\orders" in command(daemon, "doctor").stdout
    assert "damaged on disk and removed" in command(daemon, "explain", "orders").stdout
    assert "damaged_count" in command(daemon, "queue", "show", "orders").stdout
    shown = command(daemon, "store", "damaged", "--save", str(tmp_path / "remains"), "--forget")
    assert damaged.message_id in shown.stdout
    (saved,) = (tmp_path / "remains").iterdir()
    assert saved.read_bytes() == damaged.data
    daemon.kill()
    daemon.start()
    with daemon.connect() as manager:
        assert manager.damaged_messages() == []
        assert manager.queue("orders").info().damaged_count == 0
    assert json.loads(command(daemon, "store", "damaged", "--json").stdout) == {"messages": [], "forgotten": False}


def test_a_queue_manager_does_not_start_without_a_queue_and_says_what_to_type(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    path = daemon.folder / "data.mdb"
    content = path.read_bytes()
    assert content.count(b"new orders")
    path.write_bytes(content.replace(b"new orders", b"new Orders"))
    for _ in range(2):
        daemon.launch()
        assert daemon.await_end() == DAMAGED
    assert "the record of queue" in daemon.log
    assert "is damaged in the store" in daemon.log
    assert "waypost store salvage" in daemon.log
