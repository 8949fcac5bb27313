"""Real daemons on disks of 12 MB: filled, drained without a free byte, killed, and filled again."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

import waypost
from tests.crash.daemons import SECONDS, SHORT_TIMERS, Daemon, loopback, patience
from tests.store.disks import MEGABYTE, free_bytes, small_disk, take_the_rest
from waypost.errors import InsufficientResources, StoreFull, Timeout

DISK = 12 * MEGABYTE


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Daemon]:
    with (
        small_disk(DISK, tmp_path / "alpha"),
        Daemon(tmp_path, "alpha", loopback(1), *SHORT_TIMERS, "rpc.enabled=false") as daemon,
    ):
        daemon.start()
        yield daemon


def body(number: int, size: int) -> bytes:
    return b"%08d" % number + bytes(size)


def number_of(message: waypost.Message) -> int:
    return int(message.body[:8])


def fill(queue: waypost.Queue, first: int, size: int) -> list[int]:
    """Send until the daemon refuses: the numbers of the messages it has accepted."""
    sent: list[int] = []
    while True:
        number = first + len(sent)
        try:
            queue.send(body(number, size))
        except StoreFull as error:
            assert "nothing was stored" in str(error)
            return sent
        sent.append(number)


def drain(manager: waypost.Manager, name: str) -> list[int]:
    """Receive all there is, from a transactional queue each in a transaction that is committed."""
    queue = manager.queue(name)
    is_transactional = queue.info().transactional
    received: list[int] = []
    while True:
        with manager.transaction() if is_transactional else nullcontext() as transaction:
            try:
                received.append(number_of(queue.receive(0, transaction=transaction)))
            except Timeout:
                return received


def until(what: str, is_so: Callable[[], object]) -> None:
    with patience(SECONDS, what) as turns:
        for _ in turns:
            if is_so():
                return


def get(daemon: Daemon, path: str) -> tuple[int, Any]:
    try:
        return 200, json.loads(daemon.get(path))
    except HTTPError as error:
        return error.code, json.loads(error.read())


def gauge(daemon: Daemon, name: str) -> float:
    lines = daemon.get("/metrics").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def is_low(daemon: Daemon) -> bool:
    return gauge(daemon, "waypost_store_low") == 1


def test_a_disk_is_filled_drained_and_filled_again_and_nothing_is_lost_or_comes_twice(alpha: Daemon) -> None:
    with alpha.connect() as manager:
        orders = manager.create_queue("orders")
        ledger = manager.create_queue("ledger", transactional=True)
        first = fill(orders, 0, 6000)
        assert len(first) > 1000
        take_the_rest(alpha.folder)
        until("the disk is low", lambda: is_low(alpha))
        # Refused messages are not stored later, even after many attempts.
        for number in range(900_000, 900_010):
            with pytest.raises(StoreFull):
                orders.send(body(number, 2000))
        with pytest.raises(StoreFull):
            manager.create_queue("other")
        with manager.transaction() as transaction, pytest.raises(StoreFull):
            ledger.send("x", transaction=transaction)
    with alpha.down():
        pass
    with alpha.connect() as manager:
        assert free_bytes(alpha.folder) == 0
        assert drain(manager, "orders") == first
        until("the daemon takes messages again", lambda: not is_low(alpha))
        second = fill(manager.queue("orders"), 100_000, 6000)
        assert len(second) > len(first) // 2
    with alpha.down():
        pass
    with alpha.connect() as manager:
        assert drain(manager, "orders") == second


def test_without_a_free_byte_messages_are_received_acknowledged_and_gone_after_a_kill(alpha: Daemon) -> None:
    with alpha.connect() as manager:
        manager.create_queue("acks")
        orders = manager.create_queue("orders", journal=True)
        for number in range(1000):
            orders.send(body(number, 500), acknowledge="full-receive", admin_queue=manager.queue("acks"))
        assert manager.queue("orders").info().message_count == 1000
        take_the_rest(alpha.folder)
        assert free_bytes(alpha.folder) == 0
        assert drain(manager, "orders") == list(range(1000))
    with alpha.down():
        assert free_bytes(alpha.folder) == 0
    with alpha.connect() as manager:
        info = manager.queue("orders").info()
        assert (info.message_count, info.journal_count) == (0, 1000)
        acks = manager.queue("acks")
        assert acks.info().message_count == 1000
        acks.purge()
        manager.queue("orders;journal").purge()
    assert alpha.stop() == 0


def test_operators_are_told_once_and_senders_at_the_ready_probe(alpha: Daemon) -> None:
    with alpha.connect() as manager:
        orders = manager.create_queue("orders")
        assert get(alpha, "/health/ready?use=send") == (200, {"status": "ok"})
        fill(orders, 0, 6000)
        ballast = take_the_rest(alpha.folder)
        until("the disk is low", lambda: is_low(alpha))
        assert get(alpha, "/health/live")[0] == 200
        code, ready = get(alpha, "/health/ready")
        assert (code, ready["status"]) == (200, "limited")
        assert "is nearly full" in ready["reason"]
        assert get(alpha, "/health/ready?use=send")[0] == 503
        checks = {each["check"]: each for each in get(alpha, "/api/doctor")[1]["checks"]}
        assert not checks["disk"]["ok"]
        assert "new messages are refused; receives continue" in checks["disk"]["message"]
        assert "is nearly full" in get(alpha, "/api/status")[1]["shortage"]
        assert any("is nearly full" in each for each in get(alpha, "/api/explain?queue=orders")[1]["sentences"])
        assert gauge(alpha, "waypost_store_reserve_bytes") >= MEGABYTE
        until("the log says it", lambda: "disk nearly full" in alpha.log)
        ballast.unlink()
        manager.queue("orders").purge()
        until("the daemon takes messages again", lambda: not is_low(alpha))
        orders.send("again")
        until("the log says it", lambda: "disk has room again" in alpha.log)
        assert (alpha.log.count("disk nearly full"), alpha.log.count("disk has room again")) == (1, 1)
        assert get(alpha, "/health/ready?use=send") == (200, {"status": "ok"})


def test_peers_keep_what_has_no_room_and_it_comes_once_when_there_is(tmp_path: Path, alpha: Daemon) -> None:
    with ExitStack() as stack:
        beta = stack.enter_context(Daemon(tmp_path, "beta", loopback(2), *SHORT_TIMERS, "rpc.enabled=false"))
        beta.start()
        here, there = stack.enter_context(alpha.connect()), stack.enter_context(beta.connect())
        here.create_queue("orders", transactional=True)
        there.create_queue("answers", transactional=True)
        local = here.create_queue("local")
        # Messages on their way from here to there must leave a disk that is nearly full.
        beta.kill()
        with here.transaction() as transaction:
            for number in range(50):
                here.queue(beta.direct("answers")).send(body(number, 1000), transaction=transaction)
        filled = fill(local, 0, 6000)
        take_the_rest(alpha.folder)
        until("the disk is low", lambda: is_low(alpha))
        beta.start()
        there = stack.enter_context(beta.connect())
        for number in range(200):
            with there.transaction() as transaction:
                there.queue(alpha.direct("orders")).send(body(number, 1000), transaction=transaction)
        until("messages from a full disk arrive", lambda: there.queue("answers").info().message_count == 50)
        outgoing = f"/api/explain?queue={beta.direct('answers')}"
        until("they leave it", lambda: get(alpha, outgoing)[1]["facts"].get("messages", 0) == 0)
        assert here.queue("orders").info().message_count == 0
        assert drain(here, "local") == filled
        until("waiting messages arrive", lambda: here.queue("orders").info().message_count == 200)
        assert drain(here, "orders") == list(range(200))
        assert drain(there, "answers") == list(range(50))


def test_a_reset_that_has_no_room_is_refused_and_receives_go_on(tmp_path: Path, alpha: Daemon) -> None:
    with ExitStack() as stack:
        beta = stack.enter_context(Daemon(tmp_path, "beta", loopback(2), *SHORT_TIMERS, "rpc.enabled=false"))
        large, small = beta.direct("large"), beta.direct("small")
        beta.start()
        with beta.connect() as there:
            there.create_queue("large", transactional=True)
            there.create_queue("small", transactional=True)
        beta.kill()
        here = stack.enter_context(alpha.connect())
        here.create_queue("local").send(body(7, 10))
        with here.transaction() as transaction:
            here.queue(small).send_many([body(number, 1000) for number in range(3)], transaction=transaction)
        for first in range(0, 2000, 500):
            with here.transaction() as transaction:
                numbers = range(first, first + 500)
                here.queue(large).send_many([body(number, 1000) for number in numbers], transaction=transaction)
        fill(here.queue("local"), 0, 6000)
        take_the_rest(alpha.folder)
        until("the disk is low", lambda: is_low(alpha))
        with pytest.raises(StoreFull, match="nothing was stored"):
            here.reset_sequences(queue=large)
        # Everything goes on: what makes room, and a reset that takes little of it.
        assert number_of(here.queue("local").receive(0)) == 7
        assert here.reset_sequences(queue=small).renumbered == 3
        beta.start()
        there = stack.enter_context(beta.connect())
        until("the many arrive", lambda: there.queue("large").info().message_count == 2000)
        until("the few arrive", lambda: there.queue("small").info().message_count == 3)
        assert drain(there, "large") == list(range(2000))
        assert drain(there, "small") == list(range(3))


def test_quotas_refuse_in_words_and_take_messages_again(tmp_path: Path) -> None:
    with Daemon(tmp_path, "alpha", loopback(1), "quotas.machine_kb=100", "rpc.enabled=false") as alpha:
        alpha.start()
        with alpha.connect() as manager:
            orders = manager.create_queue("orders")
            small = manager.create_queue("small", quota_kb=5)
            sent = fill_quota(small, "small has reached its quota: nothing was stored")
            assert drain(manager, "small") == sent
            assert fill_quota(small, "has reached its quota") == sent
            small.purge()
            sent = fill_quota(orders, "quotas.machine_kb")
            code, ready = get(alpha, "/health/ready")
            assert (code, ready["status"]) == (200, "limited")
            assert "of the machine quota of 100 KB" in ready["reason"]
            assert get(alpha, "/health/ready?use=send")[0] == 503
            checks = {each["check"]: each for each in get(alpha, "/api/doctor")[1]["checks"]}
            assert not checks["quota"]["ok"]
            assert gauge(alpha, "waypost_quota_bytes") == 100 * 1024
        with alpha.down():
            pass
        with alpha.connect() as manager:
            assert drain(manager, "orders") == sent
            assert get(alpha, "/health/ready?use=send") == (200, {"status": "ok"})
            assert fill_quota(manager.queue("orders"), "quotas.machine_kb") == sent


def fill_quota(queue: waypost.Queue, sentence: str) -> list[int]:
    sent: list[int] = []
    while True:
        try:
            queue.send(body(len(sent), 1000))
        except InsufficientResources as error:
            assert sentence in str(error)
            return sent
        sent.append(len(sent))
