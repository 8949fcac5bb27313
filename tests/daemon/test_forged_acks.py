"""Acknowledgments from strangers, between daemons in separate processes (ADR 22).

A stranger knows the GUID of the destination and the ids of messages, guesses the sequence from the clock, and comes
from another address.
"""

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

import waypost
from tests.crash.daemons import SHORT_TIMERS, TRANSFER_PORT, Daemon, loopback, patience
from tests.daemon.strangers import Listener
from waypost.cli import app
from waypost.guid import NULL_GUID, parse_guid
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.message_class import MessageClass
from waypost.wire.packets import Splitter, decode_packet
from waypost.wire.transactional_acks import FinalAckBody, OrderAckBody, final_ack, local_order_queue, order_ack
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

SECONDS: Final = 60
STRANGE: Final = loopback(39)
# Seconds in which the sequence may have begun, before now.
AGE: Final = 90
PURGED: Final = MessageClass.MQMSG_CLASS_NACK_Q_PURGED
JOURNALED: Final[dict[str, Any]] = {"journal": True, "dead_letter": True}


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    with ExitStack() as stack:
        alpha, beta = (
            stack.enter_context(Daemon(tmp_path, name, loopback(number), *SHORT_TIMERS))
            for number, name in enumerate(("alpha", "beta"), 31)
        )
        alpha.prepare()
        beta.prepare()
        with waypost.open(beta.folder, name=beta.name) as manager:
            manager.create_queue("orders", transactional=True)
        alpha.start()
        yield alpha, beta


def send(alpha: Daemon, name: str, *bodies: str) -> list[waypost.Message]:
    """In one transaction, with a copy or a dead-letter message for what becomes of them."""
    with alpha.connect() as manager, manager.transaction() as transaction:
        return [manager.send(name, body, transaction=transaction, **JOURNALED) for body in bodies]


def forge(alpha: Daemon, source: str, messages: list[waypost.Message]) -> None:
    """Acknowledge these messages from another address, with the GUID of the destination and every likely sequence."""
    guid, now = parse_guid(source), int(time.time())
    forged = []
    for time_stamp in range(now - AGE, now + 2):
        sequence_id = TxSequenceId(1, time_stamp).value
        for number, message in enumerate(messages, 1):
            identifier = MessageIdentifier.parse(message.id)
            user = UserHeader(source_queue_manager=guid, message_id=number, sent_time=now)
            body = FinalAckBody(
                sequence_id, number, number - 1, identifier.queue_manager_guid, identifier.ordinal
            )  # fmt: skip
            forged.append(final_ack(user, local_order_queue(), int(PURGED), body).encode())
            forged.append(order_ack(user, local_order_queue(), OrderAckBody(sequence_id, number, number - 1)).encode())
    with socket.create_connection((alpha.address, TRANSFER_PORT), SECONDS, source_address=(STRANGE, 0)) as peer:
        splitter = _shake_hands(peer, guid)
        peer.sendall(b"".join(forged))
        # Half of them are recoverable: what was done with them is on disk when they are acknowledged.
        while _stored(splitter.feed(peer.recv(65_536))) < len(forged) // 2:
            pass


def _stored(packets: Iterable[bytes]) -> int:
    """The last recoverable message that is acknowledged in these packets."""
    headers = [found.session for found in map(decode_packet, packets) if isinstance(found, SessionAck)]
    return max(
        (each.recoverable_msg_ack_seq_number + each.recoverable_msg_ack_flags.bit_length() - 1 for each in headers),
        default=0,
    )


def _shake_hands(peer: socket.socket, guid: bytes) -> Splitter:
    splitter = Splitter()
    for packet in (
        EstablishConnection.request(guid, NULL_GUID, 1, 0),
        ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000),
    ):
        peer.sendall(packet.encode())
        while not list(splitter.feed(peer.recv(4096))):
            pass
    return splitter


def waiting(alpha: Daemon) -> int:
    """Number of messages in the outgoing queues."""
    with alpha.connect() as manager:
        return sum(queue.info().message_count for queue in manager.outgoing_queues())


def copies(alpha: Daemon, name: str) -> list[str]:
    with alpha.connect() as manager:
        return [message.text for message in manager.queue(name).browse()]


def _is_last_copy(alpha: Daemon, body: str) -> bool:
    return copies(alpha, "system$;journal")[-1:] == [body]


def doctor(daemon: Daemon) -> dict[str, Any]:
    with daemon.connect() as manager:
        (found,) = [each for each in manager.doctor() if each.check == "acknowledgments"]
    return found.to_dict()


def metric(daemon: Daemon, name: str) -> float:
    text = daemon.get("/metrics")
    return float(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


def until(what: str, is_so: Any) -> None:
    with patience(SECONDS, what) as turns:
        for _ in turns:
            if is_so():
                return


def test_a_stranger_takes_away_nothing_that_was_not_sent(daemons: tuple[Daemon, Daemon]) -> None:
    alpha, beta = daemons
    bodies = ["1", "2", "3"]
    messages = send(alpha, beta.direct("orders"), *bodies)
    forge(alpha, beta.guid, messages)
    assert waiting(alpha) == 3
    assert metric(alpha, "waypost_transfer_transactional_acks_refused_total") >= 3
    assert "acknowledgment refused" in alpha.log
    alpha.kill()
    alpha.start()
    forge(alpha, beta.guid, messages)
    assert waiting(alpha) == 3
    # Acknowledgments kept because this process does not know earlier sends are refused when beta was dialled.
    beta.start()
    with beta.connect() as manager:
        orders = manager.queue("orders")
        assert [orders.receive(timeout=SECONDS).text for _ in bodies] == bodies
    until("the copies are not there", lambda: copies(alpha, "system$;journal") == bodies)
    assert copies(alpha, "system$;deadxact") == []
    until("acknowledgments are kept", lambda: doctor(alpha)["ok"])


def test_what_comes_from_another_address_is_kept_over_kill_9_and_applied_when_it_is_admitted(
    daemons: tuple[Daemon, Daemon],
) -> None:
    alpha, beta = daemons
    beta.start()
    messages = send(alpha, beta.direct("orders"), "1", "2")
    until("messages are in the outgoing queue", lambda: not waiting(alpha))
    forge(alpha, beta.guid, messages)
    assert (copies(alpha, "system$;deadxact"), doctor(alpha)["ok"]) == ([], False)
    command = f"waypost sequence admit {beta.guid} {STRANGE}"
    assert command in doctor(alpha)["hint"]
    alpha.kill()
    alpha.start()
    explained = CliRunner().invoke(app, ["--url", alpha.url, "explain", messages[0].id])
    assert command in explained.stdout
    assert metric(alpha, "waypost_transfer_transactional_acks_kept") == 2
    # The destination itself is believed at once, though nothing was dialled since the start.
    with beta.connect() as manager:
        assert manager.queue("orders").receive(timeout=SECONDS).text == "1"
    until("the copy is not there", lambda: copies(alpha, "system$;journal") == ["1"])
    # Now the operator believes the stranger.
    done = CliRunner().invoke(app, ["--url", alpha.url, *command.split()[1:], "--json"])
    assert done.exit_code == 0, done.stderr
    assert '"believed": 1' in done.stdout
    assert (copies(alpha, "system$;deadxact"), doctor(alpha)["ok"]) == (["2"], True)


def test_straight_from_a_destination_that_is_reached_by_way_of_a_relay(
    daemons: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    """Acknowledgments by the relay are believed. Those over a session that the destination has opened are kept."""
    alpha, beta = daemons
    with Daemon(tmp_path, "gamma", loopback(33), *SHORT_TIMERS) as gamma:
        gamma.prepare()
        ways = {
            alpha: f"{gamma.guid}=via {beta.guid},{beta.guid}={beta.address}",
            beta: f"{alpha.guid}={alpha.address},{gamma.guid}={gamma.address}",
            gamma: f"{alpha.guid}=via {beta.guid},{beta.guid}={beta.address}",
        }
        alpha.stop()
        for daemon, routes in ways.items():
            daemon.settings.append(f"routing.routes={routes}")
            daemon.start()
        with gamma.connect() as manager, alpha.connect() as sender:
            orders = manager.create_queue("orders", transactional=True)
            name = orders.info().private_format_name or ""
            sender.close()
            for body in ("by the relay", "by the relay after kill -9"):
                send(alpha, name, body)
                assert orders.receive(timeout=SECONDS).text == body
                until("the copy is not there", partial(_is_last_copy, alpha, body))
                alpha.kill()
                alpha.start()
            gamma.kill()
            # Messages from a known relay are acknowledged past it.
            gamma.settings[-1] = f"routing.routes={alpha.guid}={alpha.address}"
            gamma.settings.append(f"routing.relays={beta.address}")
            gamma.start()
        with gamma.connect() as manager, alpha.connect() as sender:
            send(alpha, name, "straight")
            assert manager.queue("orders").receive(timeout=SECONDS).text == "straight"
            until("nothing is kept", lambda: not doctor(alpha)["ok"])
            assert "straight" not in copies(alpha, "system$;journal")
            sender.admit_sequence_address(gamma.guid, gamma.address)
            until("the copy is not there", partial(_is_last_copy, alpha, "straight"))


def test_a_host_that_answers_with_the_guid_of_another_gets_no_messages_of_that(
    daemons: tuple[Daemon, Daemon],
) -> None:
    alpha, beta = daemons
    alpha.stop()
    alpha.settings.append(f"routing.routes={beta.guid}={beta.address}")
    alpha.start()
    beta.start()
    with beta.connect() as manager, alpha.connect() as sender, Listener(34, parse_guid(beta.guid)) as thief:
        orders = manager.create_queue("sorted")
        sender.send(rf"DIRECT=TCP:{thief.address}\private$\answers", "answer")
        thief.read_until(UserMessage)
        sender.send(orders.info().private_format_name or "", "for beta")
        assert orders.receive(timeout=SECONDS).text == "for beta"
        thief.take_what_is_there()
        assert len([packet for packet in thief.received if isinstance(packet, UserMessage)]) == 1
