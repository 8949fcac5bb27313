"""FinalAcks for a daemon that is away, through sockets, commands and kill -9."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.crash.daemons import SHORT_TIMERS, Daemon, loopback, patience
from tests.daemon.commands import check_of, metric, waypost_of
from tests.daemon.strangers import Stranger
from waypost.core.message_values import Acknowledgements
from waypost.guid import parse_guid
from waypost.limits import MAX_ANSWER_QUEUES
from waypost.wire.format_names import FormatName
from waypost.wire.message_class import MessageClass
from waypost.wire.transactional_acks import FinalAck

SECONDS = 60


@pytest.fixture
def days_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An acknowledgment that waits at all counts as one that waits for seven days."""
    folder = tmp_path / "site"
    folder.mkdir()
    text = "import waypost.node.network.ack_queues as acks\nacks.OVERDUE_ACK_SECONDS = 0\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def daemons(tmp_path: Path, days_are_short: None) -> Iterator[tuple[Daemon, Daemon]]:
    """The sender, which knows the way by the GUID of the other, and that one, which knows no way back."""
    with (
        Daemon(tmp_path, "alpha", loopback(61), *SHORT_TIMERS) as alpha,
        Daemon(tmp_path, "beta", loopback(62), *SHORT_TIMERS) as beta,
    ):
        beta.start()
        alpha.settings.append(f"routing.routes={beta.guid}={beta.address}")
        alpha.start()
        yield alpha, beta


def waiting(beta: Daemon) -> dict[str, int]:
    """The outgoing queues of beta with their messages."""
    with beta.connect() as manager:
        infos = [queue.info() for queue in manager.outgoing_queues()]
    return {info.format_name or "": info.message_count for info in infos if info.message_count}


def test_final_acks_wait_for_their_host_and_the_operator_sees_them_and_can_give_them_up(
    daemons: tuple[Daemon, Daemon],
) -> None:
    alpha, beta = daemons
    with beta.connect() as manager:
        orders = manager.create_queue("orders", transactional=True)
        name = orders.info().private_format_name or ""
        with alpha.connect() as sender:
            for body in ("first", "second"):
                with sender.transaction() as transaction:
                    sender.send(name, body, transaction=transaction, journal=True)
            with patience(SECONDS, "the messages are not acknowledged") as turns:
                for _ in turns:
                    if not any(queue.info().message_count for queue in sender.outgoing_queues()):
                        break
        alpha.kill()
        assert orders.receive(timeout=SECONDS).text == "first"
    with beta.down():
        pass
    (queue,) = waiting(beta)
    assert (alpha.address in queue, parse_guid(alpha.guid).hex() in queue) == (True, True)
    check = check_of(beta, "waiting acknowledgments")
    assert not check["ok"]
    assert queue in check["message"]
    assert metric(beta, "waypost_overdue_acknowledgments") == 1
    alpha.start()
    with alpha.connect() as sender:
        assert sender.queue("system$;journal").receive(timeout=SECONDS).text == "first"
    alpha.kill()
    with beta.connect() as manager:
        assert manager.queue("orders").receive(timeout=SECONDS).text == "second"
    with patience(SECONDS, "the second acknowledgment does not wait") as turns:
        for _ in turns:
            if waiting(beta):
                break
    purged = waypost_of(beta, "queue", "purge", queue, "--outgoing")
    assert purged.returncode == 0, purged.stderr
    assert waiting(beta) == {}
    assert check_of(beta, "waiting acknowledgments")["ok"]


def test_a_stranger_with_the_guid_of_the_sender_does_not_get_its_final_acks(daemons: tuple[Daemon, Daemon]) -> None:
    alpha, beta = daemons
    with beta.connect() as manager:
        orders = manager.create_queue("orders", transactional=True)
        names = [orders.info().private_format_name or "", beta.direct("orders")]
        with alpha.connect() as sender:
            for name in names:
                with sender.transaction() as transaction:
                    sender.send(name, name, transaction=transaction, journal=True)
            with patience(SECONDS, "the messages are not acknowledged") as turns:
                for _ in turns:
                    if not any(queue.info().message_count for queue in sender.outgoing_queues()):
                        break
        alpha.kill()
        with Stranger(beta, 66, parse_guid(alpha.guid)) as thief:
            assert {orders.receive(timeout=SECONDS).text for _ in names} == set(names)
            # Its session works, and nothing but the acknowledgment of this comes over it.
            thief.send(thief.message("orders"))
            assert thief.of(FinalAck) == []
            alpha.start()
            with alpha.connect() as sender:
                journal = sender.queue("system$;journal")
                assert {journal.receive(timeout=SECONDS).text for _ in names} == set(names)
            assert thief.of(FinalAck) == []


def test_an_acknowledgment_to_an_unknown_host_is_refused_where_the_setting_says_so(tmp_path: Path) -> None:
    with (
        Daemon(tmp_path, "alpha", loopback(63), *SHORT_TIMERS) as alpha,
        Daemon(tmp_path, "beta", loopback(64), *SHORT_TIMERS, "transfer.ack_hosts=known") as beta,
    ):
        alpha.start()
        beta.start()
        with beta.connect() as manager, alpha.connect() as sender:
            orders = manager.create_queue("orders")
            admin = sender.create_queue("admin")
            wishes: dict[str, Any] = {"acknowledge": "full-reach-queue", "admin_queue": alpha.direct("admin")}
            sender.send(beta.direct("orders"), "unknown", **wishes)
            assert orders.receive(timeout=SECONDS).text == "unknown"
            check = check_of(beta, "strangers")
            assert check["ok"]
            assert "tried to open 0 connections" in check["message"]
            assert "transfer.ack_hosts does not allow this host" in check["message"]
            assert metric(beta, "waypost_transfer_acks_refused_total") == 1
            # A host that this daemon has connected to is known.
            manager.send(alpha.direct("admin"), "hello")
            assert admin.receive(timeout=SECONDS).text == "hello"
            sender.send(beta.direct("orders"), "known", **wishes)
            assert admin.receive(timeout=SECONDS).message_class == MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE
        with beta.down():
            pass
        with beta.connect() as manager, alpha.connect() as sender:
            sender.send(beta.direct("orders"), "after a start", **wishes)
            ack = sender.queue("admin").receive(timeout=SECONDS)
            assert ack.message_class == MessageClass.MQMSG_CLASS_ACK_REACH_QUEUE


def test_queues_that_a_message_names_beyond_the_bound_get_no_acknowledgments_and_the_operator_sees_it(
    tmp_path: Path,
) -> None:
    with Daemon(tmp_path, "beta", loopback(66), *SHORT_TIMERS) as beta, ExitStack() as stack:
        beta.start()
        with beta.connect() as manager:
            manager.create_queue("orders")
        names = tuple(FormatName.parse(rf"DIRECT=TCP:{loopback(200)}\private$\a{number}") for number in range(20))
        stranger = stack.enter_context(Stranger(beta, 67))
        stranger.send(
            stranger.message(
                "orders",
                administration_queue_format_name=names[0],
                administration_multi_queue_format_name=names,
                acknowledgements_requested=Acknowledgements.ACK_POS_ARRIVAL,
            )
        )
        assert len(waiting(beta)) == MAX_ANSWER_QUEUES
        assert metric(beta, "waypost_transfer_acks_refused_total") == len(names) - MAX_ANSWER_QUEUES
        check = check_of(beta, "strangers")
        assert not check["ok"]
        assert f"for a message from {loopback(67)} to {names[MAX_ANSWER_QUEUES]}" in check["message"]
        assert f"a message may have at most {MAX_ANSWER_QUEUES} administration queues" in check["message"]
        assert f"a message may have at most {MAX_ANSWER_QUEUES} administration queues" in beta.log


@pytest.mark.parametrize("suffix", ["", ";XACTONLY"])
def test_a_send_to_a_connector_is_refused_and_leaves_no_queue_behind(tmp_path: Path, suffix: str) -> None:
    with Daemon(tmp_path, "alpha", loopback(65)) as alpha:
        alpha.start()
        for _ in range(2):
            name = f"CONNECTOR=00000000-0000-0000-0000-000000000001{suffix}"
            sent = waypost_of(alpha, "send", name, "--body", "hello")
            assert sent.returncode == 1
            assert "does not fit into the header of a message" in sent.stderr
            with alpha.connect() as manager:
                assert list(manager.outgoing_queues()) == []
