"""Signed and encrypted messages over real sockets: refused, counted by source, and delivered only if that is set."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crash.daemons import Daemon, loopback, patience
from tests.daemon.strangers import SECONDS, Stranger, changed
from waypost.guid import guid_text
from waypost.wire import security_header
from waypost.wire.message_class import MessageClass
from waypost.wire.multi_queue import MultiQueueFormatHeader
from waypost.wire.security_header import SENDER_SID, SecurityHeader
from waypost.wire.sid import Sid
from waypost.wire.transactional_acks import FinalAck
from waypost.wire.user_message import UserMessage

ALICE = Sid(5, (21, 1, 2, 3, 1104))
BODY = b"sixteen bytes ok"


@contextmanager
def running(folder: Path, *settings: str) -> Iterator[Daemon]:
    with Daemon(folder, "alpha", loopback(11), *settings) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("q")
            manager.create_queue("t", transactional=True)
            manager.create_queue("strict", authenticate=True)
        yield daemon


def signed(packet: UserMessage) -> None:
    packet.security = SecurityHeader(SENDER_SID, ALICE.encode(), signature=bytes(128), sender_cert=bytes(300))


def signed_for_several(packet: UserMessage) -> None:
    packet.multi_queue = MultiQueueFormatHeader()
    packet.multi_queue.signature.signature = bytes(128)


def encrypted(packet: UserMessage) -> None:
    packet.security = SecurityHeader(security_header.EB, encryption_key=bytes(76))
    packet.properties.privacy_level = 1


def named(packet: UserMessage) -> None:
    packet.security = SecurityHeader(SENDER_SID, ALICE.encode())


def protected(packet: bytes, protect: Callable[[UserMessage], None]) -> bytes:
    message = changed(packet)
    protect(message)
    return message.encode()


def get(daemon: Daemon, path: str) -> str:
    with urllib.request.urlopen(f"{daemon.url}{path}", timeout=SECONDS) as response:
        return str(response.read().decode())


def doctor(daemon: Daemon) -> dict[str, Any]:
    (check,) = [each for each in json.loads(get(daemon, "/api/doctor"))["checks"] if each["check"] == "unverified"]
    return dict(check)


def test_what_cannot_be_verified_is_refused_told_and_counted(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert doctor(daemon)["ok"]
        with Stranger(daemon, 12) as sender:
            sender.send(
                protected(sender.message("q", BODY), signed),
                protected(sender.message("q", BODY), signed_for_several),
                protected(sender.message("q", BODY), encrypted),
                protected(sender.message("t", BODY, tx=(5, 1, 0)), signed),
                sender.message("q", b"plain"),
            )
            sender.read_until(FinalAck)
            assert [ack.message_class for ack in sender.of(FinalAck)] == [MessageClass.MQMSG_CLASS_NACK_BAD_SIGNATURE]
        with daemon.connect() as manager:
            assert [message.body for message in manager.queue("q").browse()] == [b"plain"]
            assert list(manager.queue("t").browse()) == []
        check = doctor(daemon)
        assert not check["ok"]
        assert check["message"].endswith(f"refused since the start: 4 of {guid_text(sender.guid)} at {loopback(12)}")
        assert 'security.unverified = "deliver"' in check["hint"]
        assert "waypost_transfer_messages_unverified_total 4.0" in get(daemon, "/metrics")
        # One line for each queue and reason.
        with patience(SECONDS, "the log does not tell of the messages") as turns:
            for _ in turns:
                if daemon.log.count("see security.unverified") >= 3:
                    break
        assert daemon.log.count("see security.unverified") == 3


def test_with_the_setting_they_are_delivered_and_never_where_verification_is_demanded(tmp_path: Path) -> None:
    with running(tmp_path, "security.unverified=deliver") as daemon:
        with Stranger(daemon, 12) as sender:
            sender.send(
                protected(sender.message("q", BODY), signed),
                protected(sender.message("q", BODY), encrypted),
                protected(sender.message("strict", BODY), signed),
            )
        with daemon.connect() as manager:
            messages = list(manager.queue("q").browse())
            assert [message.encrypted for message in messages] == [False, True]
            assert not any(message.authenticated or message.sender_verified for message in messages)
            assert list(manager.queue("strict").browse()) == []
        assert doctor(daemon)["ok"]
        assert "security.unverified" in doctor(daemon)["message"]
        # Messages in the queue stay there without the setting.
        daemon.settings.clear()
        daemon.stop()
        daemon.start()
        with daemon.connect() as manager:
            assert [manager.queue("q").receive(timeout=SECONDS).body for _ in range(2)] == [BODY, BODY]


def test_a_sender_that_is_only_named_is_shown_as_claimed(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        with Stranger(daemon, 12) as sender:
            sender.send(protected(sender.message("q", BODY), named))
        (message,) = json.loads(get(daemon, "/api/queues/q/browse"))["messages"]
        assert message["sender_sid"] == str(ALICE)
        assert (message["sender_verified"], message["authenticated"], message["encrypted"]) == (False, False, False)
