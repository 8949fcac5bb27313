"""Acknowledgments that fit in all but the address, many of them, against daemons in separate processes (ADR 22)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.crash.daemons import SECONDS, SHORT_TIMERS, Daemon, loopback, patience
from tests.daemon.strangers import Listener, Stranger
from tests.daemon.test_forged_acks import copies, doctor, send, until, waiting
from waypost.errors import InvalidParameter
from waypost.guid import parse_guid
from waypost.limits import MAX_KEPT_ACKS_OF_MESSAGE
from waypost.wire.identifiers import MessageIdentifier, TxSequenceId
from waypost.wire.message_class import MessageClass
from waypost.wire.transactional_acks import FinalAckBody, final_ack, local_order_queue
from waypost.wire.user_header import UserHeader
from waypost.wire.user_message import UserMessage

PURGED: Final = int(MessageClass.MQMSG_CLASS_NACK_Q_PURGED)
RECEIVED: Final = int(MessageClass.MQMSG_CLASS_ACK_RECEIVE)
FIRST: Final = 60


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, "alpha", loopback(31), *SHORT_TIMERS) as daemon:
        daemon.start()
        yield daemon


@dataclass(frozen=True, slots=True)
class Sent:
    """The fields of an acknowledgment for a message."""

    sequence: int
    number: int
    identifier: MessageIdentifier

    def acknowledged(self, source: bytes, message_class: int = RECEIVED) -> bytes:
        """A FinalAck of it."""
        identifier = self.identifier
        body = FinalAckBody(
            self.sequence, self.number, self.number - 1, identifier.queue_manager_guid, identifier.ordinal
        )
        head = UserHeader(source_queue_manager=source, message_id=1, sent_time=int(time.time()))
        return final_ack(head, local_order_queue(), message_class, body).encode()


def test_strangers_take_no_place_of_a_destination_that_only_waits_for_its_message(alpha: Daemon) -> None:
    """After kill -9 it is not known that the message was sent. Its destination says so, and it is sent again later."""
    guid = b"\x0b" * 16
    with patience(10 * SECONDS, "a kill comes before alpha has stored that it sent the message") as turns:
        for turn, _ in enumerate(turns):
            with Listener(33, guid) as beta:
                (message,) = send(alpha, rf"DIRECT=TCP:{beta.address}\private$\orders", str(turn))
                beta.read_until(UserMessage)
                alpha.kill()
            (packet,) = [packet for packet in beta.received if isinstance(packet, UserMessage)]
            assert packet.transaction is not None
            place = packet.transaction.tx_sequence_id, packet.transaction.tx_sequence_number
            sent = Sent(*place, MessageIdentifier.parse(message.id))
            alpha.start()
            for number in range(MAX_KEPT_ACKS_OF_MESSAGE):
                with Stranger(alpha, FIRST + number, guid) as stranger:
                    stranger.send(sent.acknowledged(guid, PURGED))
            with Stranger(alpha, 33, guid) as destination:
                destination.send(sent.acknowledged(guid))
            if waiting(alpha):
                break
            # It was known that the message was sent.
            assert copies(alpha, "system$;journal")[-1] == str(turn)
    assert waiting(alpha) == 1
    with Listener(33, guid) as beta:
        beta.read_until(UserMessage)
        until("the copy is not there", lambda: copies(alpha, "system$;journal")[-1:] == [str(turn)])
    assert (copies(alpha, "system$;deadxact"), waiting(alpha)) == ([], 0)


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    with ExitStack() as stack:
        alpha, beta = (
            stack.enter_context(Daemon(tmp_path, name, loopback(number), *SHORT_TIMERS))
            for number, name in enumerate(("alpha", "beta"), 31)
        )
        alpha.start()
        beta.start()
        with beta.connect() as manager:
            manager.create_queue("orders", transactional=True)
        yield alpha, beta


def delivered(alpha: Daemon, beta: Daemon, *bodies: str) -> list[Sent]:
    """Messages that wait for their FinalAcks."""
    messages = send(alpha, beta.direct("orders"), *bodies)
    with alpha.connect() as manager:
        (sequence,) = manager.sequences("out")
    until("messages are in the outgoing queue", lambda: not waiting(alpha))
    identifier = TxSequenceId(1, int(sequence.time_stamp.timestamp())).value
    return [Sent(identifier, number, MessageIdentifier.parse(message.id)) for number, message in enumerate(messages, 1)]


def test_a_host_for_whose_acknowledgment_there_is_no_place_is_named_and_admitted(
    daemons: tuple[Daemon, Daemon],
) -> None:
    alpha, beta = daemons
    guid = parse_guid(beta.guid)
    (sent,) = delivered(alpha, beta, "1")
    for number in range(MAX_KEPT_ACKS_OF_MESSAGE):
        with Stranger(alpha, FIRST + number, guid) as stranger:
            stranger.send(sent.acknowledged(guid, PURGED))
    # Beta, as it comes from behind NAT: it keeps what it brings.
    with Stranger(alpha, 70, guid) as outside:
        outside.send_to_the_end(sent.acknowledged(guid))
    found = doctor(alpha)
    assert f"the refusals delay other messages from these hosts: {beta.guid} at {loopback(70)}" in found["message"]
    assert f"waypost sequence admit {beta.guid} {loopback(70)}" in found["hint"]
    assert "the limit of kept acknowledgments is reached" in alpha.log
    with alpha.connect() as manager:
        assert manager.admit_sequence_address(beta.guid, loopback(70)) == 0
    with Stranger(alpha, 70, guid) as outside:
        outside.send(sent.acknowledged(guid))
    assert (copies(alpha, "system$;journal"), copies(alpha, "system$;deadxact")) == (["1"], [])
    assert doctor(alpha)["ok"]


def test_an_admission_is_seen_and_taken_back_over_kill_9(daemons: tuple[Daemon, Daemon]) -> None:
    alpha, beta = daemons
    guid = parse_guid(beta.guid)
    one, two, three = delivered(alpha, beta, "1", "2", "3")
    with alpha.connect() as manager:
        manager.admit_sequence_address(beta.guid, loopback(FIRST))
    alpha.kill()
    alpha.start()
    with Stranger(alpha, FIRST, guid) as wrong:
        wrong.send(one.acknowledged(guid, PURGED))
        assert copies(alpha, "system$;deadxact") == ["1"]
        with alpha.connect() as manager:
            assert manager.admitted_sequence_addresses() == [(beta.guid, loopback(FIRST))]
            manager.revoke_sequence_address(beta.guid, loopback(FIRST))
        # The session that was believed is not believed any more.
        wrong.send(two.acknowledged(guid, PURGED))
    assert copies(alpha, "system$;deadxact") == ["1"]
    alpha.kill()
    alpha.start()
    with alpha.connect() as manager:
        assert manager.admitted_sequence_addresses() == []
    with Stranger(alpha, FIRST, guid) as wrong:
        wrong.send(three.acknowledged(guid, PURGED))
    assert copies(alpha, "system$;deadxact") == ["1"]
    with beta.connect() as manager:
        orders = manager.queue("orders")
        assert [orders.receive(timeout=60).text for _ in range(3)] == ["1", "2", "3"]
    until("the copies are not there", lambda: copies(alpha, "system$;journal") == ["2", "3"])


def test_an_address_that_fits_into_no_key_is_refused_and_the_daemon_goes_on(alpha: Daemon) -> None:
    with alpha.connect() as manager:
        guid, address = "1c1b8f4e-5f0a-4d4b-9a76-0d2b6d6f7a11", f"fe80::1%{'x' * 600}"
        with pytest.raises(InvalidParameter, match="is not an IP address"):
            manager.admit_sequence_address(guid, address)
        assert manager.create_queue("orders").info().message_count == 0
    assert alpha.is_up
