"""A folder and a configuration of an earlier version go on: nothing is lost or refused, nothing comes twice."""

import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

import waypost
from tests.crash.daemons import SHORT_TIMERS, Daemon, start_all
from tests.upgrade.make_folders import (
    ALPHA,
    BETA,
    CONSUMED,
    DELIVERED,
    WAITING,
    await_count,
    await_nothing_outgoing,
    order,
    plain,
    send_orders,
)
from waypost.daemon.loading import load

HERE: Final = Path(__file__).parent
FOLDERS: Final = HERE / "folders-0.1.0.tar.gz"
CONFIGURATION: Final = HERE / "waypost-0.1.0.toml"


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    with tarfile.open(FOLDERS) as archive:
        archive.extractall(tmp_path, filter="data")
    with ExitStack() as stack:
        alpha = stack.enter_context(Daemon(tmp_path, "alpha", ALPHA, *SHORT_TIMERS))
        beta = stack.enter_context(Daemon(tmp_path, "beta", BETA, *SHORT_TIMERS))
        yield alpha, beta


def texts(manager: waypost.Manager, name: str) -> list[str]:
    return [message.text for message in manager.queue(name).browse()]


def receive_all(manager: waypost.Manager, name: str) -> list[str]:
    queue = manager.queue(name)
    return [queue.receive(timeout=0).text for _ in range(queue.info().message_count)]


def test_queues_journals_and_dead_letter_messages_are_as_they_were(daemons: tuple[Daemon, Daemon]) -> None:
    alpha_daemon, _ = daemons
    alpha_daemon.start()
    assert "records copied" in alpha_daemon.log
    with alpha_daemon.connect() as alpha:
        assert texts(alpha, "local") == ["priority 3", "priority 1"]
        assert texts(alpha, "local;journal") == ["priority 7"]
        assert texts(alpha, "system$;journal") == [order(number) for number in CONSUMED]
        assert texts(alpha, "system$;deadxact") == [order(1)]
        held = alpha.queue("held").info()
        assert (held.transactional, held.label, held.quota_kb, held.message_count) == (True, "What beta sends", 1000, 3)


def test_transactions_and_plain_messages_that_were_under_way_go_on(daemons: tuple[Daemon, Daemon]) -> None:
    """Sequences, the duplicate table and what waits for its FinalAck are of the old form."""
    alpha_daemon, beta_daemon = daemons
    start_all(list(daemons))
    with alpha_daemon.connect() as alpha, beta_daemon.connect() as beta:
        send_orders(alpha, beta_daemon.direct("orders"), range(9, 10))
        await_nothing_outgoing(alpha)
        left = [number for number in (*DELIVERED, *WAITING, 9) if number not in CONSUMED]
        assert texts(beta, "orders") == [order(number) for number in left]
        assert sorted(texts(beta, "plain")) == [plain(number) for number in range(1, 6)]
        assert receive_all(beta, "orders") == [order(number) for number in left]
        # The FinalAck of each is believed, also for those that the earlier version had sent.
        await_count(alpha, "system$;journal", len(CONSUMED) + len(left))
        assert sorted(texts(alpha, "system$;journal")) == sorted(order(number) for number in (*CONSUMED, *left))


def test_what_the_other_side_had_sent_is_acknowledged_when_it_is_received(daemons: tuple[Daemon, Daemon]) -> None:
    alpha_daemon, beta_daemon = daemons
    start_all(list(daemons))
    with alpha_daemon.connect() as alpha, beta_daemon.connect() as beta:
        send_orders(beta, alpha_daemon.direct("held"), range(4, 5))
        await_count(alpha, "held", 4)
        assert receive_all(alpha, "held") == [order(number) for number in range(1, 5)]
        await_count(beta, "system$;journal", 4)
        assert texts(alpha, "held") == []


def test_the_configuration_is_still_understood() -> None:
    assert load(CONFIGURATION, {}, {}, []).transfer.window_size == 64
