"""Transactional messages between daemons that are killed, from several addresses, and beside strangers with a GUID."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import waypost
from tests.crash.daemons import SHORT_TIMERS, TRANSFER_PORT, Daemon, loopback, patience, start_all
from tests.daemon.commands import metric
from tests.forks import run
from waypost.core.message import Message
from waypost.core.message_values import DeliveryGuarantee
from waypost.core.serialization import packet_of
from waypost.guid import NULL_GUID, parse_guid
from waypost.limits import MAX_ENDED_SEQUENCES
from waypost.wire.format_names import FormatName
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.internal_packets import ConnectionParameters, EstablishConnection, SessionAck
from waypost.wire.packets import Packet, Splitter, decode_packet
from waypost.wire.transactional_acks import OrderAck

SECONDS: Final = 60
DAY: Final = 86_400


class Stranger:
    """A host that says it has this GUID, at a separate address."""

    def __init__(self, victim: Daemon, guid: bytes, number: int = 66) -> None:
        self.address = loopback(number)
        self._guid = guid
        self._name = victim.direct("t")
        self._ordinal = 0
        self._splitter = Splitter()
        self._arrived: list[Packet] = []
        place = (victim.address, TRANSFER_PORT)
        self._peer = socket.create_connection(place, SECONDS, source_address=(self.address, 0))
        self._peer.sendall(EstablishConnection.request(guid, NULL_GUID, 1, 0).encode())
        self.read(EstablishConnection)
        self._peer.sendall(ConnectionParameters(recoverable_ack_timeout=500, ack_timeout=20_000).encode())
        self.read(ConnectionParameters)

    def send(self, body: str, time_stamp: int, number: int = 1, *, source: bytes | None = None) -> None:
        """A message of a sequence that began at this time, and wait until its session acknowledges it."""
        self._ordinal += 1
        message = Message(
            identifier=MessageIdentifier(source or self._guid, self._ordinal),
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            destination_queue_format_name=FormatName.parse(self._name),
            sent_time=int(time.time()),
            body=body.encode("utf-16-le"),
            body_type=8,
            transaction_identifier=1,
            transactional_message_sequence_identifier=TxSequenceId(1, time_stamp),
            transaction_sequence_number=number,
            transaction_previous_sequence_number=0,
        )
        self._peer.sendall(packet_of(message))
        while True:
            packet = self.read(SessionAck)
            session = packet.session
            if session.ack_sequence_number >= self._ordinal:
                return

    def read(self, kind: Any) -> Any:
        """The next packet of this kind, or one that has a session's acknowledgment in it."""
        while True:
            while self._arrived:
                packet = self._arrived.pop(0)
                if isinstance(packet, kind):
                    return packet
                assert isinstance(packet, OrderAck | SessionAck), packet
            data = self._peer.recv(65536)
            assert data, "the session was closed"
            self._arrived += map(decode_packet, self._splitter.feed(data))

    def close(self) -> None:
        self._peer.close()


@contextmanager
def two(place: Path, *settings: str) -> Iterator[tuple[Daemon, Daemon]]:
    """A daemon that sends, and one with a transactional queue t."""
    alpha = Daemon(place, "alpha", loopback(2), *SHORT_TIMERS, *settings)
    beta = Daemon(place, "beta", loopback(3), *SHORT_TIMERS, *settings)
    with alpha, beta:
        start_all([alpha, beta])
        with beta.connect() as manager:
            manager.create_queue("t", transactional=True)
        yield alpha, beta


def send(daemon: Daemon, name: str, *bodies: str) -> None:
    with daemon.connect() as manager, manager.transaction() as transaction:
        manager.queue(name).send_many(list(bodies), transaction=transaction)


def await_bodies(daemon: Daemon, *expected: str) -> None:
    """Wait until all have come. Messages that come twice or in another order are noticed."""
    with daemon.connect() as manager, patience(SECONDS, f"{expected[-1]} is missing") as turns:
        for _ in turns:
            found = [message.text for message in manager.queue("t").browse()]
            if len(found) >= len(expected):
                assert found == list(expected)
                return


def await_acknowledged(daemon: Daemon) -> None:
    """Until nothing waits any more. A start then removes the outgoing queue: the next sequence begins at its time."""
    with daemon.connect() as manager, patience(SECONDS, "messages are not acknowledged") as turns:
        for _ in turns:
            if not any(queue.info().message_count for queue in manager.outgoing_queues()):
                return


def cli(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    return run("waypost.cli", "--url", daemon.url, *words, timeout=SECONDS)


def findings(daemon: Daemon, check: str) -> list[dict[str, Any]]:
    checks = json.loads(cli(daemon, "doctor", "--json").stdout)["checks"]
    return [each for each in checks if each["check"] == check and not each["ok"]]


def test_a_source_goes_on_beside_a_stranger_with_its_guid_a_minute_ahead(tmp_path: Path) -> None:
    with two(tmp_path) as (alpha, beta):
        name = beta.direct("t")
        send(alpha, name, "1")
        await_bodies(beta, "1")
        stranger = Stranger(beta, parse_guid(alpha.guid))
        stranger.send("forged", int(time.time()) + 60)
        await_bodies(beta, "1", "forged")
        send(alpha, name, "2", "3")
        await_bodies(beta, "1", "forged", "2", "3")
        with beta.down():
            send(alpha, name, "4")
        await_bodies(beta, "1", "forged", "2", "3", "4")
        await_acknowledged(alpha)
        with alpha.down():
            stranger.close()
        # A new sequence, which is below the stranger's.
        send(alpha, name, "5")
        await_bodies(beta, "1", "forged", "2", "3", "4", "5")
        await_acknowledged(alpha)


def test_a_source_goes_on_after_forged_sequences_of_the_far_future(tmp_path: Path) -> None:
    with two(tmp_path) as (alpha, beta):
        name = beta.direct("t")
        ahead = int(time.time()) + 30 * DAY
        stranger = Stranger(beta, parse_guid(alpha.guid))
        stranger.send("forged", ahead)
        send(alpha, name, "1")
        await_bodies(beta, "1")
        (finding,) = findings(beta, "sequences")
        assert alpha.guid in finding["message"]
        assert stranger.address in finding["message"]
        assert time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ahead)) in finding["message"]
        assert "transfer.max_sequence_ahead_s allows 172800 s" in finding["message"]
        assert "sequence refused" in beta.log
        with beta.down():
            stranger.close()
            send(alpha, name, "2")
        await_bodies(beta, "1", "2")


def test_a_host_that_moves_goes_on_and_one_that_is_shut_out_is_let_in_again(tmp_path: Path) -> None:
    with two(tmp_path) as (alpha, beta):
        name = beta.direct("t")
        send(alpha, name, "1")
        await_bodies(beta, "1")
        stranger = Stranger(beta, parse_guid(alpha.guid))
        stranger.send("forged", int(time.time()) + DAY)
        stranger.close()
        beta.kill()
        send(alpha, name, "2", "3")
        alpha.kill()
        moved = Daemon(tmp_path, "alpha", loopback(4), *alpha.settings)
        with moved:
            start_all([moved, beta])
            # In the middle of its sequence it is known, at whatever address.
            await_bodies(beta, "1", "forged", "2", "3")
            await_acknowledged(moved)
            send(moved, name, "4")
            await_bodies(beta, "1", "forged", "2", "3", "4")
            await_acknowledged(moved)
            moved.stop()
        new = Daemon(tmp_path, "alpha", loopback(5), *alpha.settings)
        with new:
            new.start()
            send(new, name, "5")
            with patience(SECONDS, "the doctor does not know") as turns:
                for _ in turns:
                    found = findings(beta, "sequences")
                    if found:
                        break
            assert new.address in found[0]["message"]
            assert stranger.address in found[0]["hint"]
            explained = cli(beta, "explain", "t").stdout
            assert f"from {new.address} for" in explained
            refused = cli(beta, "sequence", "reset", "--address", stranger.address)
            assert (refused.returncode, "--yes" in refused.stderr) == (1, True)
            done = cli(beta, "sequence", "reset", "--address", stranger.address, "--yes", "--json")
            assert json.loads(done.stdout)["sequences"] == 1
            assert "arrive twice" in done.stderr
            await_bodies(beta, "1", "forged", "2", "3", "4", "5")
            await_acknowledged(new)


def test_two_relays_in_turn_bring_every_message_once(tmp_path: Path) -> None:
    alpha = Daemon(tmp_path, "alpha", loopback(2), *SHORT_TIMERS)
    beta = Daemon(tmp_path, "beta", loopback(3), *SHORT_TIMERS)
    relays = [
        Daemon(tmp_path, name, loopback(number), *SHORT_TIMERS, "transfer.is_routing_server=true")
        for name, number in (("one", 4), ("two", 5))
    ]
    daemons = [alpha, beta, *relays]
    for daemon in daemons:
        daemon.prepare()
    for relay in relays:
        relay.settings.append(f"routing.routes={alpha.guid}={alpha.address},{beta.guid}={beta.address}")
    beta.settings.append(f"routing.routes={alpha.guid}={alpha.address}")
    with alpha, beta, relays[0], relays[1]:
        start_all([beta, *relays])
        with beta.connect() as manager:
            name = manager.create_queue("t", transactional=True).info().private_format_name
            assert name is not None
        sent: list[str] = []
        for turn in range(4):
            relay = relays[turn % 2]
            others = f"{beta.guid}=via {relay.guid},{relay.guid}={relay.address}"
            alpha.settings = [*SHORT_TIMERS, f"routing.routes={others}"]
            alpha.start()
            bodies = [f"{turn}.{number}" for number in range(3)]
            send(alpha, name, *bodies)
            sent += bodies
            await_bodies(beta, *sent)
            beta.kill()
            # These are with the relay, or still here, when the way changes.
            send(alpha, name, f"{turn} late")
            sent.append(f"{turn} late")
            alpha.kill()
            beta.start()
        alpha.start()
        await_bodies(beta, *sent)


@pytest.mark.parametrize("at_once", [20])
def test_an_address_with_very_many_sources_is_slowed_down_and_named(tmp_path: Path, at_once: int) -> None:
    settings = (f"transfer.new_sequences_at_once={at_once}", "transfer.new_sequences_per_s=0.001")
    with two(tmp_path, *settings) as (alpha, beta):
        stranger = Stranger(beta, b"\x66" * 16)
        now = int(time.time())
        for number in range(at_once + 5):
            stranger.send(f"s{number}", now, source=number.to_bytes(16, "big"))
        send(alpha, beta.direct("t"), "honest")
        await_bodies(beta, *(f"s{number}" for number in range(at_once)), "honest")
        assert any(
            stranger.address in each["message"] and "transfer.new_sequences_at_once = 20" in each["message"]
            for each in findings(beta, "sequences")
        )
        with beta.down():
            stranger.close()
        with beta.connect() as manager:
            assert len(list(manager.sequences("in", address=stranger.address))) == at_once
            done = manager.reset_sequences(address=stranger.address)
            assert done.sequences == at_once
            (left,) = manager.sequences("in")
            assert (left.source, left.addresses, left.number) == (alpha.guid, (alpha.address,), 1)


def test_an_end_that_is_forgotten_is_named_with_the_address_that_could_begin_it_again(tmp_path: Path) -> None:
    with two(tmp_path) as (_, beta):
        guid, now = b"\x66" * 16, int(time.time()) - 1000
        behind, ahead = Stranger(beta, guid, 67), Stranger(beta, guid, 68)
        behind.send("behind", now)
        for number in range(1, MAX_ENDED_SEQUENCES + 3):
            ahead.send(f"{number}", now + number)
        assert metric(beta, "waypost_transfer_sequence_ends_forgotten_total") == 1
        assert "sequence end forgotten" in beta.log
        (found,) = findings(beta, "ended sequences")
        assert f"duplicates of their messages would be accepted from {behind.address}" in found["message"]
        assert f"waypost sequence reset --address {behind.address}" in found["hint"]
        assert cli(beta, "sequence", "reset", "--address", behind.address, "--yes").returncode == 0
        assert findings(beta, "ended sequences") == []
        behind.send("copy", now + 1)
        with beta.connect() as manager:
            assert "copy" not in [message.text for message in manager.queue("t").browse()]
        behind.close()
        ahead.close()


def test_the_doctor_answers_after_the_queue_of_a_refused_sequence_is_deleted(tmp_path: Path) -> None:
    with two(tmp_path) as (_, beta):
        stranger = Stranger(beta, b"\x66" * 16)
        stranger.send("ahead", int(time.time()) + 10 * DAY)
        stranger.close()
        assert len(findings(beta, "sequences")) == 1
        with beta.connect() as manager:
            assert len(list(manager.sequences("refused"))) == 1
            manager.delete_queue("t")
            assert list(manager.sequences("refused")) == []
        assert findings(beta, "sequences") == []
        assert beta.is_up


def test_a_sender_and_a_receiver_begin_their_sequence_again(tmp_path: Path) -> None:
    with two(tmp_path, "transfer.max_sequence_ahead_s=3600") as (alpha, beta):
        name = beta.direct("t")
        send(alpha, name, "1")
        await_bodies(beta, "1")
        with patience(SECONDS, "the sequence does not end") as turns:
            for _ in turns:
                (out,) = json.loads(cli(alpha, "sequence", "list", "--queue", name, "--json").stdout)
                assert (out["direction"], out["source"]) == ("out", alpha.guid)
                if out["number"] == 0:
                    break
        # A stranger at the sender's own address: it can do no more than that.
        alpha.kill()
        stranger = Stranger(beta, parse_guid(alpha.guid), number=2)
        stranger.send("forged", int(time.time()) + 3000)
        stranger.close()
        alpha.start()
        send(alpha, name, "2")
        with patience(SECONDS, "nothing is refused") as turns:
            for _ in turns:
                shown = json.loads(cli(beta, "sequence", "show", alpha.guid, "--json").stdout)
                if [each for each in shown if each["direction"] == "refused"]:
                    break
        assert cli(beta, "sequence", "reset", "--source", alpha.guid, "--yes").returncode == 0
        await_bodies(beta, "1", "forged", "2")
        await_acknowledged(alpha)
        beta.kill()
        send(alpha, name, "3")
        done = cli(alpha, "sequence", "reset", name, "--yes", "--json")
        assert json.loads(done.stdout)["renumbered"] == 1
        alpha.kill()
        start_all([alpha, beta])
        await_bodies(beta, "1", "forged", "2", "3")


def test_python_has_the_same_words(tmp_path: Path) -> None:
    with two(tmp_path) as (alpha, beta):
        send(alpha, beta.direct("t"), "1")
        await_bodies(beta, "1")
        with waypost.connect(beta.url) as manager:
            (found,) = manager.sequences(source=alpha.guid)
            assert (found.direction, found.queue, found.addresses) == ("in", "t", (alpha.address,))
            trial = manager.reset_sequences(source=alpha.guid, trial=True)
            assert (trial.sequences, len(list(manager.sequences("in")))) == (1, 1)
            assert "arrive twice" in trial.warning
