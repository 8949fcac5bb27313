"""A client that looked for the file of a daemon too early is let in: it was refused, looks again and asks once more.

A daemon writes its file before its port is open. But a client looks for the file before it connects, and the daemon may
start in between. Here it does so each time.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

import waypost
from tests.crash.daemons import SECONDS, Daemon, loopback
from waypost.client.transports.http import local
from waypost.client.transports.http.local import LocalSearch, LocalWay
from waypost.drive.local_daemons import LocalDaemon
from waypost.errors import AccessDenied

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no accounts with numbers")

AfterLook: TypeAlias = Callable[[Callable[[], object]], None]


@pytest.fixture
def after_look(monkeypatch: pytest.MonkeyPatch) -> AfterLook:
    """Gets a deed to do once, when a client has looked for the file, and has not yet connected."""
    way = LocalSearch.way
    deeds: list[Callable[[], object]] = []

    def look(search: LocalSearch) -> LocalWay | None:
        found = way(search)
        if deeds:
            deeds.pop()()
        return found

    monkeypatch.setattr(LocalSearch, "way", look)
    return deeds.append


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, "alpha", loopback(91)) as daemon:
        yield daemon
        assert "Traceback" not in daemon.log
        assert daemon.stop() == 0


def refused(daemon: Daemon) -> dict[str, int]:
    """The number of refused requests, by reason."""
    name = "waypost_http_unauthorized_total"
    lines = [line for line in daemon.get("/metrics").splitlines() if line.startswith(name)]
    return {line.split('"')[1]: int(float(line.rpartition(" ")[2])) for line in lines}


async def name_for_a_coroutine(daemon: Daemon) -> str:
    async with waypost.aio.connect(daemon.url) as manager:
        return manager.name


ONCE_WITHOUT = {"no_token": 1, "wrong_token": 0}
ONCE_WRONG = {"no_token": 0, "wrong_token": 1}


def test_a_client_that_connects_while_the_daemon_starts(daemon: Daemon, after_look: AfterLook) -> None:
    after_look(daemon.start)
    with waypost.connect(daemon.url) as manager:
        assert manager.name.casefold() == "alpha"
    assert refused(daemon) == ONCE_WITHOUT


def test_a_coroutine_that_connects_while_the_daemon_starts(daemon: Daemon, after_look: AfterLook) -> None:
    after_look(daemon.start)
    assert asyncio.run(name_for_a_coroutine(daemon)).casefold() == "alpha"
    assert refused(daemon) == ONCE_WITHOUT


def test_a_send_that_reconnects_while_the_daemon_starts_is_done_once(daemon: Daemon, after_look: AfterLook) -> None:
    daemon.start()
    with daemon.connect() as manager:
        orders = manager.create_queue("orders")
        daemon.stop()
        after_look(daemon.start)
        orders.send("42 bolts")
        assert refused(daemon) == ONCE_WITHOUT
        assert [message.text for message in orders.browse()] == ["42 bolts"]


def test_a_send_of_a_coroutine_that_reconnects_is_done_once(daemon: Daemon, after_look: AfterLook) -> None:
    async def send() -> list[str | None]:
        async with waypost.aio.connect(daemon.url) as manager:
            orders = await manager.create_queue("orders")
            manager._transport._close_idle()  # type: ignore[attr-defined]
            daemon.stop()
            after_look(daemon.start)
            await orders.send("42 bolts")
            return [message.text async for message in orders.browse()]

    daemon.start()
    assert asyncio.run(send()) == ["42 bolts"]
    assert refused(daemon) == ONCE_WITHOUT


def test_a_wait_that_reconnects_while_the_daemon_starts(daemon: Daemon, after_look: AfterLook) -> None:
    daemon.start()
    with daemon.connect() as manager:
        orders = manager.create_queue("orders")
        orders.send("42 bolts")
        daemon.stop()
        after_look(daemon.start)
        assert orders.receive(timeout=SECONDS).text == "42 bolts"


@pytest.fixture
def replaced(tmp_path: Path, daemon: Daemon) -> Daemon:
    """Killed, so its file stays, and to be replaced by `daemon`, with another data folder and token."""
    old = Daemon(tmp_path, "old", daemon.address)
    old.start()
    old.kill()
    return old


@pytest.mark.usefixtures("replaced")
def test_a_token_of_the_daemon_before_is_replaced(daemon: Daemon, after_look: AfterLook) -> None:
    after_look(daemon.start)
    with waypost.connect(daemon.url) as manager:
        assert manager.name.casefold() == "alpha"
    assert refused(daemon) == ONCE_WRONG


@pytest.mark.usefixtures("replaced")
def test_a_token_of_the_daemon_before_is_replaced_for_a_coroutine(daemon: Daemon, after_look: AfterLook) -> None:
    after_look(daemon.start)
    assert asyncio.run(name_for_a_coroutine(daemon)).casefold() == "alpha"
    assert refused(daemon) == ONCE_WRONG


def test_events_that_begin_while_the_daemon_starts(daemon: Daemon, after_look: AfterLook) -> None:
    daemon.start()
    with daemon.connect() as manager:
        orders = manager.create_queue("orders")
        daemon.stop()
        after_look(daemon.start)
        events = orders.events(timeout=SECONDS)
        orders.send("42 bolts")
        assert next(events).text == "42 bolts"
    assert refused(daemon) == ONCE_WITHOUT


def test_events_of_a_coroutine_that_begin_while_the_daemon_starts(daemon: Daemon, after_look: AfterLook) -> None:
    async def follow() -> str | None:
        async with waypost.aio.connect(daemon.url) as manager:
            orders = await manager.create_queue("orders")
            manager._transport._close_idle()  # type: ignore[attr-defined]
            daemon.stop()
            after_look(daemon.start)
            events = await orders.events(timeout=SECONDS)
            await orders.send("42 bolts")
            async for message in events:
                return message.text
        return None

    daemon.start()
    assert asyncio.run(follow()) == "42 bolts"
    assert refused(daemon) == ONCE_WITHOUT


def test_a_backup_that_begins_while_the_daemon_starts(daemon: Daemon, after_look: AfterLook, tmp_path: Path) -> None:
    daemon.start()
    with daemon.connect() as manager:
        daemon.stop()
        after_look(daemon.start)
        manager.backup(tmp_path / "backup")
    assert refused(daemon) == ONCE_WITHOUT
    assert (tmp_path / "backup" / "waypost.backup").exists()


def test_a_token_that_is_given_is_never_replaced(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.start()
    with pytest.raises(AccessDenied):
        waypost.connect(daemon.url, token="wrong")
    assert refused(daemon) == ONCE_WRONG
    monkeypatch.setenv("WAYPOST_TOKEN", "wrong")
    with pytest.raises(AccessDenied):
        waypost.connect(daemon.url)
    assert refused(daemon) == {"no_token": 0, "wrong_token": 2}


def test_a_client_without_a_file_is_refused_once(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.start()
    monkeypatch.setattr(local, "find", lambda *_: None)
    with pytest.raises(AccessDenied):
        waypost.connect(daemon.url)
    assert refused(daemon) == ONCE_WITHOUT


def test_a_client_whose_file_has_a_wrong_token_is_refused_once(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.start()
    wrong = LocalDaemon("", "wrong", daemon.process, str(daemon.folder))
    monkeypatch.setattr(local, "find", lambda *_: wrong)
    with pytest.raises(AccessDenied):
        waypost.connect(daemon.url)
    assert refused(daemon) == ONCE_WRONG
