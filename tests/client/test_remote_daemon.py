"""`waypost.connect` on a daemon: what an embedded queue manager has no counterpart for, and that both are alike."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import waypost
from tests.client.daemons import Daemon
from tests.client.managers import Beside, opened, until
from tests.daemon.recording import loops
from waypost import aio
from waypost.errors import (
    AccessDenied,
    CannotConnect,
    OperationCancelled,
    SharingViolation,
    Timeout,
)
from waypost.http.settings import HttpSettings

PROPERTIES: dict[str, Any] = {
    "label": "order",
    "priority": 5,
    "time_to_be_received": 3600.5,
    "time_to_reach_queue": None,
    "acknowledge": "full-receive",
    "admin_queue": "answers",
    "response_queue": "answers",
    "journal": True,
    "dead_letter": True,
    "correlation_id": bytes(range(20)),
    "app_tag": 7,
    "extension": bytearray(b"more"),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = HttpSettings(max_wait_s=0.1, transaction_s=60)
    with Daemon(tmp_path_factory.mktemp("daemon") / "data", settings) as daemon:
        yield daemon


@pytest.fixture
def manager(daemon: Daemon) -> Iterator[waypost.Manager]:
    with waypost.connect(daemon.url) as manager:
        yield manager
    with waypost.connect(daemon.url) as manager:
        for queue in manager.queues():
            queue.delete()


@pytest.fixture
def orders(manager: waypost.Manager) -> waypost.Queue:
    return manager.create_queue("orders")


@pytest.mark.parametrize("loop", loops(), ids=["asyncio", "uvloop"])
def test_a_daemon_is_reached_from_any_event_loop(daemon: Daemon, orders: waypost.Queue, loop: Any) -> None:
    async def work() -> None:
        async with aio.connect(daemon.url) as manager:
            await manager.queue("orders").send("42 bolts")
            assert (await manager.queue("orders").receive(0)).text == "42 bolts"

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work())


def test_what_connect_gives_is_what_open_gives(daemon: Daemon, manager: waypost.Manager) -> None:
    async def connected() -> tuple[type, type]:
        async with aio.connect(daemon.url) as manager:
            return type(manager), type(manager.transaction())

    assert (type(manager), type(manager.transaction())) == (waypost.Manager, waypost.Transaction)
    assert asyncio.run(connected()) == (aio.Manager, aio.Transaction)


def test_both_sides_connect_with_the_same_arguments() -> None:
    assert inspect.signature(waypost.connect).parameters == inspect.signature(aio.connect).parameters


def test_what_a_send_gives_back_is_what_a_reader_gets(manager: waypost.Manager, orders: waypost.Queue) -> None:
    manager.create_queue("answers")
    sent = orders.send("42 bolts", **PROPERTIES)
    assert sent.to_dict() == orders.receive(0).to_dict()
    for bodies, properties in ((["a", "bb"], PROPERTIES), ([b"a", b"bb"], {"recoverable": False})):
        many = orders.send_many(bodies, **properties)
        assert [message.to_dict() for message in many] == [message.to_dict() for message in orders.receive_many(9)]


def test_a_message_is_the_same_from_a_daemon_as_from_an_embedded_queue_manager(
    manager: waypost.Manager, orders: waypost.Queue, tmp_path: Path
) -> None:
    manager.create_queue("answers")
    orders.send("42 bolts", **PROPERTIES)
    with opened(tmp_path) as embedded:
        embedded.create_queue("answers")
        there = embedded.create_queue("orders")
        there.send("42 bolts", **PROPERTIES)
        expected, found = there.receive(0), orders.receive(0)
        differ = {"id", "lookup_id", "sent_time", "arrived_time", "source_machine", "size", "to_dict", "packet"}
        differ |= {"time_to_reach_queue_ends", "time_to_be_received_ends"}
        for name in dir(waypost.Message):
            if not name.startswith("_") and name not in differ:
                assert getattr(found, name) == getattr(expected, name), name


def test_a_long_wait_is_asked_for_in_slices(orders: waypost.Queue) -> None:
    started = time.monotonic()
    with pytest.raises(Timeout):
        orders.receive(0.35)
    assert 0.35 <= time.monotonic() - started < 5
    with Beside(orders.receive) as waiting:
        time.sleep(0.3)
        orders.send("late")
    assert waiting.result().text == "late"


def test_a_browse_reads_page_after_page(orders: waypost.Queue) -> None:
    orders.send_many([str(number) for number in range(250)])
    orders.send("first", priority=7)
    assert [message.text for message in orders.browse()] == ["first", *map(str, range(250))]


def test_closing_ends_what_is_open_at_the_daemon(daemon: Daemon, orders: waypost.Queue) -> None:
    orders.send("x")
    other = waypost.connect(daemon.url)
    transport: Any = other._transport
    queue = other.queue("orders")
    queue.receive(0, transaction=other.transaction())
    with Beside(other.create_queue("empty").receive) as waiting:
        until(lambda: transport._waiting)
        other.close()
    with pytest.raises(OperationCancelled):
        waiting.result()
    assert orders.receive(1).text == "x"


def test_a_wait_that_is_cancelled_takes_no_message(daemon: Daemon, orders: waypost.Queue) -> None:
    with waypost.connect(daemon.url) as other:
        with Beside(other.queue("orders").receive) as waiting:
            time.sleep(0.05)
            other.queue("orders").close()
        with pytest.raises(OperationCancelled):
            waiting.result()
        time.sleep(0.05)
        orders.send("x")
        assert orders.receive(0).text == "x"


def test_an_exclusive_reader_of_another_program_keeps_others_away(daemon: Daemon, orders: waypost.Queue) -> None:
    with waypost.connect(daemon.url) as other:
        orders.send("x")
        alone = other.queue("orders", exclusive=True)
        assert alone.receive(0).text == "x"
        with pytest.raises(SharingViolation):
            orders.receive(0)
    orders.send("y")
    assert orders.receive(1).text == "y"


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data", HttpSettings(token="secret")) as daemon:
        with pytest.raises(AccessDenied):
            waypost.connect(daemon.url)
        with pytest.raises(AccessDenied):
            waypost.connect(daemon.url, token="wrong")
        with waypost.connect(daemon.url, token="secret") as manager:
            assert manager.name == "HOST"


def test_a_daemon_that_was_started_anew_is_found_again(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data")
    daemon.start()
    with waypost.connect(daemon.url) as manager:
        orders = manager.create_queue("orders")
        orders.send("kept")
        daemon.stop()
        with pytest.raises(CannotConnect):
            manager.queues()
        daemon.start()
        assert orders.receive(0).text == "kept"
        daemon.stop()


def test_https_checks_the_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "HOST")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )

    async def send_and_receive(url: str) -> str:
        async with aio.connect(url) as manager:
            await manager.send("orders", "in a loop")
            return (await manager.queue("orders").receive(5)).text

    with Daemon(tmp_path / "data", ssl_certfile=str(certificate_file), ssl_keyfile=str(key_file)) as daemon:
        with pytest.raises(CannotConnect, match="certificate"):
            waypost.connect(daemon.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate_file))
        with waypost.connect(daemon.url) as manager:
            orders = manager.create_queue("orders")
            orders.send("x" * 100_000)
            assert orders.receive(1).text == "x" * 100_000
            time.sleep(0.6)
            with pytest.raises(Timeout):
                orders.receive(0.1)
        assert asyncio.run(send_and_receive(daemon.url)) == "in a loop"


def test_ctrl_c_ends_a_wait_and_takes_no_message(daemon: Daemon, orders: waypost.Queue) -> None:
    script = """if True:
        import sys, waypost
        with waypost.connect(sys.argv[1]) as manager:
            print("ready", flush=True)
            try:
                manager.queue("orders").receive()
            except KeyboardInterrupt:
                print("interrupted")
    """
    with subprocess.Popen([sys.executable, "-c", script, daemon.url], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        assert program.stdout.read() == "interrupted\n"
    assert program.returncode == 0
    time.sleep(0.05)
    orders.send("x")
    assert orders.receive(0).text == "x"


def test_a_forked_program_has_connections_of_its_own(manager: waypost.Manager, orders: waypost.Queue) -> None:
    orders.send("from the parent")
    script = """if True:
        import os, sys, waypost
        manager = waypost.connect(sys.argv[1])
        orders = manager.queue("orders")
        orders.peek(0)
        child = os.fork()
        if child == 0:
            orders.send("from the child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        orders.send("from both")
    """
    subprocess.run([sys.executable, "-c", script, manager.url], check=True, timeout=60, env=os.environ)
    assert [message.text for message in orders.receive_many(9)] == ["from the parent", "from the child", "from both"]


def test_a_daemon_shows_its_state_and_what_is_wrong(manager: waypost.Manager) -> None:
    manager.create_queue("made")
    status = manager.status()
    assert (status.name, status.guid) == (manager.name, manager.guid)
    assert (status.queues, status.version) == (1, waypost.__version__)
    assert status.max_batch
    checks = {each.check: each for each in manager.doctor()}
    assert checks["store"].ok
