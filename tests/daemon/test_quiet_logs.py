"""The log of a daemon whose destinations are away, and whom strangers bother: one line for each change."""

import json
import socket
from pathlib import Path
from typing import Any

from tests.crash.daemons import SECONDS, TRANSFER_PORT, Daemon, loopback, patience

OFTEN = 25


def lines(daemon: Daemon, *events: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, daemon.log.splitlines()) if line["event"] in events]


def metric(daemon: Daemon, name: str) -> float:
    text = daemon.get("/metrics")
    return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


def test_a_destination_that_is_away_is_one_line_and_one_when_it_is_back(tmp_path: Path) -> None:
    settings = ("transfer.retry_connect_s=0.02", "transfer.ping=false")
    with (
        Daemon(tmp_path, "alpha", loopback(41), *settings) as alpha,
        Daemon(tmp_path, "beta", loopback(42)) as beta,
    ):
        alpha.start()
        with alpha.connect() as manager:
            manager.send(beta.direct("q"), "m")
            with patience(SECONDS, "it is not tried often") as turns:
                for _ in turns:
                    if metric(alpha, "waypost_transfer_connections_failed_total") >= OFTEN:
                        break
            (failed,) = lines(alpha, "connection failed", "session failed")
            assert failed["address"] == beta.address
            assert failed["reason"]
            beta.start()
            with patience(SECONDS, "it does not arrive") as turns:
                for _ in turns:
                    if not any(queue.info().message_count for queue in manager.outgoing_queues()):
                        break
        (works,) = lines(alpha, "connection works")
        assert works["before"] >= OFTEN
        assert works["since"] <= works["time"]
        assert len(lines(alpha, "connection failed", "session failed")) == 1


def test_a_stranger_that_talks_nonsense_is_one_line(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(43), "transfer.refusals_per_minute=10000") as alpha:
        alpha.start()
        for _ in range(OFTEN):
            with socket.create_connection((alpha.address, TRANSFER_PORT), SECONDS) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 5)
                while stranger.recv(4096):
                    pass
        with patience(SECONDS, "not all of them were heard") as turns:
            for _ in turns:
                if metric(alpha, "waypost_transfer_connections_accepted_total") >= OFTEN:
                    break
        assert len(lines(alpha, "session failed")) == 1
