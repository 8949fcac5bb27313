"""Odd packets over real sockets: they are delivered or discarded, shown by every surface, and stop no link."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.daemons import Daemon, loopback
from tests.daemon.strangers import Stranger, changed
from tests.forks import run
from waypost.wire.queue_names import DirectQueueFormatName


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, "alpha", loopback(11)) as daemon:
        daemon.start()
        with daemon.connect() as manager:
            manager.create_queue("q")
            manager.create_queue("other")
            manager.create_queue("t", transactional=True)
        yield daemon


def waypost(daemon: Daemon, *words: str) -> str:
    done = run("waypost.cli", "--url", daemon.url, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_response_queue_that_is_not_understood_is_shown_as_unknown(daemon: Daemon, tmp_path: Path) -> None:
    with Stranger(daemon, 12) as sender:
        odd = changed(sender.message("q", b"odd"))
        odd.user.response_queue = DirectQueueFormatName("bogus")
        sender.send(odd.encode(), sender.message("q", b"next"))
    peeked = json.loads(waypost(daemon, "peek", "q", "--all", "--json"))
    assert [each["response_queue"] for each in peeked] == ["UNKNOWN=bogus", None]
    assert peeked[0]["id"] in waypost(daemon, "explain", peeked[0]["id"])
    file = tmp_path / "packet"
    with daemon.connect() as manager:
        message = manager.queue("q").receive(timeout=60)
        assert (message.body, message.response_queue) == (b"odd", "UNKNOWN=bogus")
        assert message.packet == odd.encode()
        file.write_bytes(message.packet)
    assert "DIRECT=bogus" in (text := waypost(daemon, "decode", str(file)))
    assert "not understood" in text


def test_a_message_with_a_response_queue_that_is_not_understood_can_be_sent_on(daemon: Daemon) -> None:
    with Stranger(daemon, 12) as sender:
        odd = changed(sender.message("q", b"odd"))
        odd.user.response_queue = DirectQueueFormatName("bogus")
        sender.send(odd.encode())
    (peeked,) = json.loads(waypost(daemon, "peek", "q", "--json"))
    waypost(daemon, "message", "resend", "q", peeked["id"], "--to", "other")
    (sent,) = json.loads(waypost(daemon, "peek", "other", "--json"))
    assert (sent["body_text"], sent["response_queue"]) == ("odd", "UNKNOWN=bogus")


@pytest.mark.parametrize(("number", "previous"), [(0, 0), (1, 0xFFFFFFFF)])
def test_a_number_that_no_sequence_has_is_discarded_and_the_session_goes_on(
    daemon: Daemon, number: int, previous: int
) -> None:
    with Stranger(daemon, 12) as sender:
        odd = changed(sender.message("t", b"odd", tx=(5, 1, 0)))
        assert odd.transaction is not None
        odd.transaction.tx_sequence_number = number
        odd.transaction.previous_tx_sequence_number = previous
        sender.send(odd.encode(), sender.message("t", b"next", tx=(5, 1, 0)))
    with daemon.connect() as manager:
        assert [message.body for message in manager.queue("t").browse()] == [b"next"]
    assert "the sequence number is invalid" in daemon.log
